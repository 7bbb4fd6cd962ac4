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

#include "graph/visit.hpp"

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
#include <type_traits>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

using Context = std::shared_ptr<TaskContext const>;

std::vector<ValueId> tensor_inputs(Node const& node) {
  std::vector<ValueId> ids;
  for (NamedArgument const& input : node.inputs) {
    visit_tensors(input.value, [&](ValueId id) { ids.push_back(id); });
  }
  return ids;
}

std::vector<ValueId> tensor_results(Node const& node) {
  std::vector<ValueId> ids;
  for (Argument const& output : node.outputs) {
    visit_tensors(output, [&](ValueId id) { ids.push_back(id); });
  }
  return ids;
}

// A linear map between the tensors of all ranks: whether its result requires a gradient is the same on all of them,
// because the graphs are.
class LinearStep : public Step {
 public:
  LinearStep(Context context, std::shared_ptr<nn::detail::LinearCall const> call, Node const& node)
      : context_(std::move(context)),
        call_(std::move(call)),
        source_(tensor_inputs(node).at(0)),
        result_(tensor_results(node).at(0)) {}

  [[nodiscard]] bool communicates() const override { return true; }

  void run(Frame& frame) const override {
    torch::Tensor const x = frame.at(source_).toTensor();
    bool const with_graph = torch::GradMode::is_enabled() && x.requires_grad();
    torch::Tensor const y = nn::detail::apply_linear_call(call_, x, nn::detail::anchor(with_graph, x.options()));
    context_->record(y);
    frame.at(result_) = y;
  }

 private:
  Context context_;
  std::shared_ptr<nn::detail::LinearCall const> call_;
  ValueId source_;
  ValueId result_;
};

// Whether tensors require gradients is the same on all ranks, as in `LinearStep`.
class ConvStep : public Step {
 public:
  ConvStep(Context context, std::shared_ptr<nn::detail::ConvSetUp const> set_up, Node const& node)
      : context_(std::move(context)),
        set_up_(std::move(set_up)),
        tensors_(tensor_inputs(node)),
        result_(tensor_results(node).at(0)) {}

  [[nodiscard]] bool communicates() const override { return true; }

  void run(Frame& frame) const override {
    std::array<torch::Tensor, 3> given;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      given.at(i) = frame.at(tensors_[i]).toTensor();
    }
    // Automatic casts come before the function that has the backward: it sees tensors of one type.
    auto const device = given[0].device().type();
    std::optional<c10::impl::ExcludeDispatchKeyGuard> no_casts;
    if (at::autocast::is_autocast_enabled(device)) {
      for (torch::Tensor& tensor : given) {
        tensor = tensor.defined() ? at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device)
                                  : tensor;
      }
      no_casts.emplace(at::autocast::get_autocast_dispatch_key_from_device_type(device));
    }
    torch::Tensor const y = nn::detail::cut_convolution(set_up_, given[0], given[1], given[2]);
    context_->record(y);
    frame.at(result_) = y;
  }

 private:
  Context context_;
  std::shared_ptr<nn::detail::ConvSetUp const> set_up_;
  std::vector<ValueId> tensors_;
  ValueId result_;
};

class EmptyStep : public Step {
 public:
  EmptyStep(EmptyTask const& task, Node const& node, Conversion const& conversion)
      : shapes_(task.shapes), tensors_(tensor_inputs(node)), results_(tensor_results(node)) {
    for (Dtype const dtype : task.dtypes) {
      types_.push_back(conversion(dtype));
    }
    device_ = conversion.device;
  }

  void run(Frame& frame) const override {
    torch::Tensor link;
    for (ValueId const id : tensors_) {
      torch::Tensor const x = frame.at(id).toTensor();
      if (torch::GradMode::is_enabled() && x.requires_grad()) {
        // The sum of no cells depends on the tensor, with a gradient of 0.
        torch::Tensor const none = x.dim() > 0 ? x.narrow(0, 0, 0).sum() : x * 0;
        torch::Tensor const term = (none.is_complex() ? torch::real(none) : none).to(torch::kDouble);
        link = link.defined() ? link + term : term;
      }
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      torch::Tensor result = torch::zeros(shapes_[i], torch::TensorOptions(device_).dtype(types_[i]));
      bool const differentiable = torch::isFloatingType(types_[i]) || torch::isComplexType(types_[i]);
      frame.at(results_[i]) = link.defined() && differentiable ? result + link.to(types_[i]) : result;
    }
  }

 private:
  std::vector<Shape> shapes_;
  std::vector<torch::ScalarType> types_;
  torch::Device device_ = torch::kCPU;
  std::vector<ValueId> tensors_;
  std::vector<ValueId> results_;
};

class NormStep : public Step {
 public:
  NormStep(Context context, NormTask task, Node const& node)
      : context_(std::move(context)), task_(task), tensors_(tensor_inputs(node)), results_(tensor_results(node)) {
    norm_.layer = node.describe();
    norm_.shape = {task.outer, task.groups, task.inner, task.cells, task.channels};
    norm_.eps = task.eps;
    norm_.teams = {context_->comm};
  }

  [[nodiscard]] bool communicates() const override { return true; }

  void run(Frame& frame) const override {
    torch::Tensor const x = frame.at(tensors_[0]).toTensor();
    torch::Tensor const weight = tensor(frame, task_.weight);
    torch::Tensor const bias = tensor(frame, task_.bias);
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
  [[nodiscard]] torch::Tensor tensor(Frame const& frame, int place) const {
    return place < 0 ? torch::Tensor() : frame.at(tensors_[static_cast<std::size_t>(place)]).toTensor();
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
    torch::Tensor const mean = tensor(frame, task_.running_mean);
    torch::Tensor const var = tensor(frame, task_.running_var);
    torch::Tensor const unbiased = statistics.m2 / std::max(statistics.count - 1, 1.0);
    frame.at(results_[3]) = mean * (1 - task_.momentum) + (statistics.mean * task_.momentum).to(mean.scalar_type());
    frame.at(results_[4]) = var * (1 - task_.momentum) + (unbiased * task_.momentum).to(var.scalar_type());
  }

  Context context_;
  NormTask task_;
  nn::detail::Norm norm_;
  std::vector<ValueId> tensors_;
  std::vector<ValueId> results_;
};

// Word (i mod 4) of Philox at the counter (i / 4, draw, layer) for the value at the flat index i of the whole tensor.
class DropoutStep : public Step {
 public:
  DropoutStep(Context context, DropoutTask task, Node const& node)
      : context_(std::move(context)),
        task_(std::move(task)),
        source_(tensor_inputs(node).at(0)),
        result_(tensor_results(node).at(0)) {
    std::size_t const axis = task_.part ? static_cast<std::size_t>(task_.part->axis) : 0;
    if (task_.whole.empty()) {
      task_.whole = {1};
    }
    extent_ = task_.whole[axis];
    inner_ = std::accumulate(task_.whole.begin() + static_cast<std::ptrdiff_t>(axis) + 1, task_.whole.end(),
                             std::int64_t{1}, std::multiplies<>());
    std::vector<std::int64_t> owned(static_cast<std::size_t>(extent_));
    std::iota(owned.begin(), owned.end(), 0);
    if (task_.part) {
      owned = task_.part->owned_indices(extent_, context_->comm.rank());
    }
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
    torch::Tensor const x = frame.at(source_).toTensor();
    if (task_.draw != Draw::mask) {
      frame.at(result_) = numbers(x);
      return;
    }
    frame.at(result_) = frame.training ? x * factor(x) : x;
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
      fill_on_host(mask, threshold, kept);
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
    each_run(drawn, [&](std::int64_t first, std::int64_t count, double* values) {
      for (std::int64_t i = 0; i < count; ++i) {
        auto const index = static_cast<std::uint64_t>(first + i);
        double const uniform = narrow ? (word(index, 0) >> 24U) * 0x1p-8 : (word(index, 0) >> 8U) * 0x1p-24;
        // Box and Muller (1958), by a second word.
        values[i] = task_.draw == Draw::uniform ? uniform
                                                : std::sqrt(-2 * std::log((word(index, 0) + 1.0) * 0x1p-32)) *
                                                      std::cos(2 * std::numbers::pi * word(index, 1) * 0x1p-32);
      }
    });
    return drawn.to(x.options());
  }

  [[nodiscard]] std::uint32_t word(std::uint64_t index, std::uint32_t stream) const {
    auto const words = nn::detail::philox(
        {static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(index >> 34U),
         static_cast<std::uint32_t>(*context_->draw), task_.layer},
        {static_cast<std::uint32_t>(context_->seed) ^ stream, static_cast<std::uint32_t>(context_->seed >> 32U)});
    return words[index % 4];
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

  void fill_on_host(torch::Tensor const& mask, std::uint64_t threshold, float kept) const {
    each_run(mask, [&](std::int64_t first, std::int64_t count, float* values) {
      fill(first, count, threshold, kept, values);
    });
  }

  // Calls `visit` with the flat index in the whole tensor, the number of values and their place in `owned`.
  template <typename Visit>
  void each_run(torch::Tensor const& owned, Visit const& visit) const {
    std::int64_t const outer = num_outer(owned);
    auto const values = [&] {
      if constexpr (std::is_invocable_v<Visit, std::int64_t, std::int64_t, float*>) {
        return owned.mutable_data_ptr<float>();
      } else {
        return owned.mutable_data_ptr<double>();
      }
    }();
    at::parallel_for(0, outer * static_cast<std::int64_t>(runs_.size()), 1, [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) {
        auto const num_runs = static_cast<std::int64_t>(runs_.size());
        Run const& own = runs_[static_cast<std::size_t>(i % num_runs)];
        visit(((i / num_runs) * extent_ + own.first) * inner_, own.count * inner_,
              values + ((i / num_runs) * num_owned_ + own.place) * inner_);
      }
    });
  }

  void fill(std::int64_t first, std::int64_t count, std::uint64_t threshold, float kept, float* values) const {
    for (std::int64_t i = 0; i < count;) {
      auto const index = static_cast<std::uint64_t>(first + i);
      auto const words = nn::detail::philox(
          {static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(index >> 34U),
           static_cast<std::uint32_t>(*context_->draw), task_.layer},
          {static_cast<std::uint32_t>(context_->seed), static_cast<std::uint32_t>(context_->seed >> 32U)});
      for (auto lane = index % 4; lane < 4 && i < count; ++lane, ++i) {
        values[i] = words[lane] >= threshold ? kept : 0.0F;
      }
    }
  }

  Context context_;
  DropoutTask task_;
  ValueId source_;
  ValueId result_;
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
    return std::make_unique<EmptyStep>(*empty, node, conversion_);
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
