// SPDX-License-Identifier: BSD-3-Clause
#include "shard/tasks.hpp"

#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/device_mask.hpp>
#include <graticule/nn_bridge/detail/linear_call.hpp>
#include <graticule/nn_bridge/detail/norm_step.hpp>
#include <graticule/nn_bridge/detail/philox.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/partition/error.hpp>

#include "graph/nodes.hpp"
#include "layout/cut_moves.hpp"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

using Context = std::shared_ptr<TaskContext const>;

// A step of a task, with the tensors of its node.
class TaskStep : public Step {
 public:
  TaskStep(Context context, Node const& node)
      : context_(std::move(context)), tensors_(tensors_of(node.inputs)), results_(tensors_of(node.outputs)) {}

 protected:
  [[nodiscard]] torch::Tensor tensor(Frame const& frame, std::size_t place) const {
    return frame.at(tensors_.at(place)).toTensor();
  }

  Context context_;
  std::vector<ValueId> tensors_;
  std::vector<ValueId> results_;
};

// One in which all ranks take part. Whether tensors require gradients is the same on all of them, because the graphs
// are.
class CollectiveStep : public TaskStep {
 public:
  using TaskStep::TaskStep;

  [[nodiscard]] bool communicates() const override { return true; }

 protected:
  void give(torch::Tensor const& y, Frame& frame) const {
    context_->record(y);
    frame.at(results_.at(0)) = y;
  }
};

// A linear map between the tensors of all ranks.
class LinearStep : public CollectiveStep {
 public:
  LinearStep(Context context, std::shared_ptr<nn::detail::LinearCall const> call, Node const& node)
      : CollectiveStep(std::move(context), node), call_(std::move(call)) {}

  void run(Frame& frame) const override {
    torch::Tensor const x = tensor(frame, 0);
    bool const with_graph = torch::GradMode::is_enabled() && x.requires_grad();
    give(nn::detail::apply_linear_call(call_, x, nn::detail::anchor(with_graph, x.options())), frame);
  }

 private:
  std::shared_ptr<nn::detail::LinearCall const> call_;
};

class ConvStep : public CollectiveStep {
 public:
  ConvStep(Context context, std::shared_ptr<nn::detail::ConvSetUp const> set_up, Node const& node)
      : CollectiveStep(std::move(context), node), set_up_(std::move(set_up)) {}

  void run(Frame& frame) const override {
    std::array<torch::Tensor, 3> given;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      given.at(i) = tensor(frame, i);
    }
    // Automatic casts come before the function that has the backward: it sees tensors of one type.
    auto const device = given[0].device().type();
    std::optional<c10::impl::ExcludeDispatchKeyGuard> no_casts;
    if (at::autocast::is_autocast_enabled(device)) {
      for (torch::Tensor& one : given) {
        one = one.defined() ? at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), one, device) : one;
      }
      no_casts.emplace(at::autocast::get_autocast_dispatch_key_from_device_type(device));
    }
    give(nn::detail::cut_convolution(set_up_, given[0], given[1], given[2]), frame);
  }

 private:
  std::shared_ptr<nn::detail::ConvSetUp const> set_up_;
};

class EmptyStep : public TaskStep {
 public:
  EmptyStep(Context context, EmptyTask task, Node const& node, Conversion const& conversion)
      : TaskStep(std::move(context), node), task_(std::move(task)), conversion_(conversion) {}

  void run(Frame& frame) const override {
    torch::Tensor link;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      torch::Tensor const x = tensor(frame, i);
      if (torch::GradMode::is_enabled() && x.requires_grad()) {
        // The sum of no cells depends on the tensor, with a gradient of 0.
        torch::Tensor const none = x.dim() > 0 ? x.narrow(0, 0, 0).sum() : x * 0;
        torch::Tensor const term = (none.is_complex() ? torch::real(none) : none).to(torch::kDouble);
        link = link.defined() ? link + term : term;
      }
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      auto const type = conversion_(task_.dtypes[i]);
      torch::Tensor const result = torch::zeros(task_.shapes[i], torch::TensorOptions(conversion_.device).dtype(type));
      bool const differentiable = torch::isFloatingType(type) || torch::isComplexType(type);
      frame.at(results_[i]) = link.defined() && differentiable ? result + link.to(type) : result;
    }
  }

 private:
  EmptyTask task_;
  Conversion conversion_;
};

class NormStep : public CollectiveStep {
 public:
  NormStep(Context context, NormTask task, Node const& node) : CollectiveStep(std::move(context), node), task_(task) {
    norm_.layer = node.describe();
    norm_.shape = {task.outer, task.groups, task.inner, task.cells, task.channels};
    norm_.eps = task.eps;
    norm_.teams = {context_->comm};
  }

  void run(Frame& frame) const override {
    torch::Tensor const x = tensor(frame, 0);
    torch::Tensor const weight = optional(frame, task_.weight);
    torch::Tensor const bias = optional(frame, task_.bias);
    bool const with_graph = torch::GradMode::is_enabled() && x.requires_grad();
    auto const statistics = nn::detail::norm_statistics(norm_, x, with_graph);
    torch::Tensor y = nn::detail::normalize(norm_, statistics, x, task_.weighted_cells ? torch::Tensor() : weight,
                                            task_.weighted_cells ? torch::Tensor() : bias);
    context_->record(y);
    if (task_.weighted_cells) {
      y = weight.defined() ? y * weight : y;
      y = bias.defined() ? y + bias : y;
    }
    frame.at(results_[0]) = y;
    store_statistics(frame, statistics, x);
  }

 private:
  [[nodiscard]] torch::Tensor optional(Frame const& frame, int place) const {
    return place < 0 ? torch::Tensor() : tensor(frame, static_cast<std::size_t>(place));
  }

  // Mean and inverse deviation, then the new running statistics.
  void store_statistics(Frame& frame, nn::detail::NormStatistics const& statistics, torch::Tensor const& x) const {
    if (results_.size() < 3) {
      return;
    }
    torch::NoGradGuard const no_grad;
    torch::Tensor const variance = statistics.m2 / statistics.count;
    auto const type = nn::detail::type_of_sums(x.scalar_type());
    frame.at(results_[1]) = statistics.mean.to(type);
    frame.at(results_[2]) = (variance + task_.eps).rsqrt().to(type);
    if (results_.size() < 5) {
      return;
    }
    torch::Tensor const mean = optional(frame, task_.running_mean);
    torch::Tensor const var = optional(frame, task_.running_var);
    torch::Tensor const unbiased = statistics.m2 / std::max(statistics.count - 1, 1.0);
    frame.at(results_[3]) = mean * (1 - task_.momentum) + (statistics.mean * task_.momentum).to(mean.scalar_type());
    frame.at(results_[4]) = var * (1 - task_.momentum) + (unbiased * task_.momentum).to(var.scalar_type());
  }

  NormTask task_;
  nn::detail::Norm norm_;
};

// Word (i mod 4) of Philox at the counter (i / 4, draw, layer) for the value at the flat index i of the whole tensor.
class DropoutStep : public TaskStep {
 public:
  DropoutStep(Context context, DropoutTask task, Node const& node)
      : TaskStep(std::move(context), node), task_(std::move(task)) {
    std::size_t const axis = task_.part ? static_cast<std::size_t>(task_.part->axis) : 0;
    if (task_.whole.empty()) {
      task_.whole = {1};
    }
    extent_ = task_.whole[axis];
    inner_ = std::accumulate(task_.whole.begin() + static_cast<std::ptrdiff_t>(axis) + 1, task_.whole.end(),
                             std::int64_t{1}, std::multiplies<>());
    auto const owned = task_.part ? task_.part->owned_indices(extent_, context_->comm.rank()) : numbers_below(extent_);
    for (std::int64_t const i : owned) {
      if (runs_.empty() || runs_.back().first + runs_.back().count != i) {
        runs_.push_back({i, 0, num_owned_});
      }
      ++runs_.back().count;
      ++num_owned_;
    }
    owned_ = nn::detail::Constant(torch::tensor(owned, torch::kInt64));
  }

  void run(Frame& frame) const override {
    torch::Tensor const x = tensor(frame, 0);
    frame.at(results_.at(0)) = task_.draw != Draw::mask ? numbers(x) : frame.training ? x * factor(x) : x;
  }

 private:
  // Consecutive indices along the cut axis, and the place of the first one on this rank.
  struct Run {
    std::int64_t first;
    std::int64_t count;
    std::int64_t place;
  };

  [[nodiscard]] torch::Tensor factor(torch::Tensor const& x) const {
    float const kept = task_.p < 1 ? static_cast<float>(1 / (1 - task_.p)) : 0.0F;
    auto const threshold = static_cast<std::uint64_t>(std::ceil(task_.p * 0x1p32));
    // A device makes its mask itself: as a copy from the host, it would wait for all that the device still has to do.
    bool const on_device = !x.is_cpu() && nn::detail::engine_reaches(x);
    torch::Tensor const mask =
        torch::empty(x.sizes(), torch::TensorOptions(torch::kFloat32).device(on_device ? x.device() : torch::kCPU));
    if (on_device) {
      nn::detail::fill_on_device(mask,
                                 {.seed = context_->seed,
                                  .layer = task_.layer,
                                  .draw = static_cast<std::uint32_t>(*context_->draw),
                                  .threshold = threshold},
                                 cells(x), kept);
    } else {
      each_run<float>(mask, [&](std::int64_t first, std::int64_t count, float* values) {
        for (std::int64_t i = 0; i < count;) {
          auto const flat = static_cast<std::uint64_t>(first + i);
          auto const four = words(flat, 0);
          for (auto lane = flat % 4; lane < 4 && i < count; ++lane, ++i) {
            values[i] = four[lane] >= threshold ? kept : 0.0F;
          }
        }
      });
    }
    torch::Tensor const factors = x.scalar_type() == torch::kFloat64 && task_.p < 1
                                      ? (mask != 0).to(torch::kFloat64) / (1 - task_.p)
                                      : mask.to(x.scalar_type());
    return factors.to(x.device());
  }

  // Of as many digits as the type has, so that none is rounded to 1.
  [[nodiscard]] torch::Tensor numbers(torch::Tensor const& x) const {
    torch::Tensor const drawn = torch::empty(x.sizes(), torch::kFloat64);
    bool const narrow = x.element_size() < 4;
    each_run<double>(drawn, [&](std::int64_t first, std::int64_t count, double* values) {
      for (std::int64_t i = 0; i < count; ++i) {
        auto const flat = static_cast<std::uint64_t>(first + i);
        std::uint32_t const word = words(flat, 0)[flat % 4];
        double const uniform = narrow ? (word >> 24U) * 0x1p-8 : (word >> 8U) * 0x1p-24;
        // Box and Muller (1958), by a second word.
        values[i] = task_.draw == Draw::uniform
                        ? uniform
                        : std::sqrt(-2 * std::log((word + 1.0) * 0x1p-32)) *
                              std::cos(2 * std::numbers::pi * words(flat, 1)[flat % 4] * 0x1p-32);
      }
    });
    return drawn.to(x.options());
  }

  // Those of a value and its neighbours.
  [[nodiscard]] std::array<std::uint32_t, 4> words(std::uint64_t flat, std::uint32_t stream) const {
    return nn::detail::philox(
        {static_cast<std::uint32_t>(flat / 4), static_cast<std::uint32_t>(flat >> 34U),
         static_cast<std::uint32_t>(*context_->draw), task_.layer},
        {static_cast<std::uint32_t>(context_->seed) ^ stream, static_cast<std::uint32_t>(context_->seed >> 32U)});
  }

  [[nodiscard]] std::int64_t num_outer(torch::Tensor const& x) const {
    return num_owned_ * inner_ > 0 ? x.numel() / (num_owned_ * inner_) : 0;
  }

  // Where the values of this rank lie in the whole tensor.
  [[nodiscard]] nn::detail::MaskCells cells(torch::Tensor const& x) const {
    return {.extents = {num_outer(x), num_owned_, inner_},
            .strides = {extent_ * inner_, inner_, 1},
            .num_axes = 3,
            .list = owned_.on(x.device()).const_data_ptr<std::int64_t>(),
            .listed = 1};
  }

  // Calls `visit` with the flat index in the whole tensor, the number of values and their place in `owned`.
  template <typename Number, typename Visit>
  void each_run(torch::Tensor const& owned, Visit const& visit) const {
    std::int64_t const outer = num_outer(owned);
    auto* const values = owned.mutable_data_ptr<Number>();
    at::parallel_for(0, outer * static_cast<std::int64_t>(runs_.size()), 1, [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) {
        auto const num_runs = static_cast<std::int64_t>(runs_.size());
        Run const& own = runs_[static_cast<std::size_t>(i % num_runs)];
        visit(((i / num_runs) * extent_ + own.first) * inner_, own.count * inner_,
              values + ((i / num_runs) * num_owned_ + own.place) * inner_);
      }
    });
  }

  DropoutTask task_;
  std::int64_t extent_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t num_owned_ = 0;
  std::vector<Run> runs_;
  nn::detail::Constant owned_;  // the indices of this rank along the cut axis
};

std::shared_ptr<nn::detail::LinearCall const> sum_call(Comm const& comm) {
  auto const sum = [comm](torch::Tensor const& x) {
    torch::Tensor total = x.clone(at::MemoryFormat::Contiguous);
    nn::detail::sum_over(comm, total);
    return total;
  };
  return std::make_shared<nn::detail::LinearCall const>(nn::detail::LinearCall{sum, sum});
}

}  // namespace

TaskSteps::TaskSteps(Context context, LocalGraph const& local, Conversion const& conversion)
    : context_(std::move(context)), local_(&local), conversion_(conversion) {}

std::unique_ptr<Step> TaskSteps::make(std::size_t index) {
  Task const& task = local_->tasks[index];
  Node const& node = local_->graph.nodes[index];
  if (auto const* move = std::get_if<MoveTask>(&task)) {
    auto& movement = movements_[{move->shape, move->from, move->axis, move->rows}];
    if (!movement) {
      movement = std::make_shared<Movement const>(context_->comm, *move);
    }
    auto const apply = [movement](torch::Tensor const& x) { return movement->apply(x); };
    auto const adjoint = [movement](torch::Tensor const& y) { return movement->apply_adjoint(y); };
    return std::make_unique<LinearStep>(
        context_, std::make_shared<nn::detail::LinearCall const>(nn::detail::LinearCall{apply, adjoint}), node);
  }
  if (auto const* convolution = std::get_if<ConvTask>(&task)) {
    auto const& wanted = convolution->convolution;
    auto found = std::ranges::find_if(convolutions_, [&](auto const& known) { return known.first == wanted; });
    if (found == convolutions_.end()) {
      found = convolutions_.insert(found, {wanted, nn::detail::set_up(context_->comm, wanted)});
    }
    return std::make_unique<ConvStep>(context_, found->second, node);
  }
  if (std::holds_alternative<SumTask>(task)) {
    return std::make_unique<LinearStep>(context_, sum_call(context_->comm), node);
  }
  if (auto const* empty = std::get_if<EmptyTask>(&task)) {
    return std::make_unique<EmptyStep>(context_, *empty, node, conversion_);
  }
  if (auto const* norm = std::get_if<NormTask>(&task)) {
    return std::make_unique<NormStep>(context_, *norm, node);
  }
  if (auto const* drop = std::get_if<DropoutTask>(&task)) {
    return std::make_unique<DropoutStep>(context_, *drop, node);
  }
  return nullptr;
}

}  // namespace graticule::program::detail
