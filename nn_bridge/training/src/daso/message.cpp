// SPDX-License-Identifier: BSD-3-Clause
#include "message.hpp"

#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/training/detail/wires.hpp>

#include "state/optimizer_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace graticule::training::detail {

namespace {

NodeGroup make_group(Comm const& part, int num_node_ranks) {
  NodeGroup group{part, {}};
  double total = 0;
  for (auto const size : part.gather_to_all(num_node_ranks)) {
    group.weights.push_back(double(size));
    total += double(size);
  }
  for (auto& weight : group.weights) weight /= total;
  return group;
}

int lowest_rank_of_this_node(Comm const& world) {
  int rank = 0;
  while (!world.on_this_node(rank)) ++rank;
  return rank;
}

/// A power of two that brings the largest difference of the group near f16's largest number.
double f16_scale(Comm const& group, torch::Tensor const& difference) {
  std::array<double, 1> largest{difference.numel() == 0 ? 0.0 : difference.abs().max().item<double>()};
  if (!std::isfinite(largest[0])) largest[0] = 0;
  group.max(std::span<double>(largest));
  if (largest[0] == 0) return 1;
  return std::ldexp(1.0, std::min(14 - std::ilogb(largest[0]), 1000));
}

/// Options of the parameter's group, none where the optimizer does not hold it.
torch::optim::OptimizerOptions const* options_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  for (auto& group : optimizer.param_groups())
    for (auto const& held : group.params())
      if (held.is_same(parameter)) return &group.options();
  return nullptr;
}

/// Running means that an optimizer keeps of a parameter's gradients, in a fixed order; undefined where it has not made
/// them yet. @throws `Unsupported` unless it is SGD, Adam, AdamW, RMSprop or Adagrad
std::vector<torch::Tensor> moments_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  std::vector<torch::Tensor> result;
  with_kind(optimizer, [&]<class Kind>(Kind /*kind*/) {
    auto const* const options = options_of(optimizer, parameter);
    if (options == nullptr) return;
    typename Kind::State const none;
    auto const* const state = state_of<typename Kind::State>(optimizer, parameter);
    Kind::state(state == nullptr ? none : *state, [&](std::string_view part, auto const& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>)
        if (Kind::keeps(static_cast<typename Kind::Options const&>(*options), part)) result.push_back(value);
    });
  });
  return result;
}

/// The tensor itself; undefined for a moment that the optimizer has not made yet.
torch::Tensor tensor_of(torch::optim::Optimizer& optimizer, SentItem const& item) {
  if (item.moment < 0) return item.tensor.detach();
  auto const moments = moments_of(optimizer, item.tensor);
  auto const& found = moments.at(std::size_t(item.moment));
  return found.defined() ? found.detach() : found;
}

/// Real values of a tensor of any floating-point type, sharing its memory.
torch::Tensor real_values(torch::Tensor const& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

}  // namespace

NodeGroups node_groups(Comm const& world, std::optional<int> node, UnequalNodes unequal) {
  run_agreed(world, [&] {
    if (node && *node < 0)
      throw Error("BadOption", "DASO needs a node of number 0 or more, got " + std::to_string(*node));
  });
  int const number = node.value_or(lowest_rank_of_this_node(world));
  NodeGroups result{world.split(number, world.rank()), 1, {}};
  int const own = result.node.num_ranks();
  auto const sizes = world.gather_to_all(own);
  auto const smallest = std::min_element(sizes.begin(), sizes.end());
  auto const largest = std::max_element(sizes.begin(), sizes.end());
  bool const equal = *smallest == *largest;
  if (!equal && unequal == UnequalNodes::refuse)
    throw Error("BadProcessGrid", "rank " + std::to_string(smallest - sizes.begin()) + " is on a node of " +
                                      std::to_string(*smallest) + " ranks, rank " +
                                      std::to_string(largest - sizes.begin()) + " on one of " +
                                      std::to_string(*largest));
  result.num_groups = int(*largest);
  result.groups.resize(std::size_t(result.num_groups));
  int const place = result.node.rank();
  if (equal) {
    result.groups[std::size_t(place)] = make_group(world.split(place, world.rank()), own);
    return result;
  }
  for (int g = 0; g < result.num_groups; ++g) {
    bool const member = result.member(g) == place;
    auto const part = world.split(member ? 0 : 1, world.rank());
    if (member) result.groups[std::size_t(g)] = make_group(part, own);
  }
  return result;
}

int num_moments(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  return int(moments_of(optimizer, parameter).size());
}

torch::Tensor flatten(torch::optim::Optimizer& optimizer, SentLane const& lane) {
  std::vector<torch::Tensor> parts;
  auto const device = lane.items.empty() ? torch::Device(torch::kCPU) : lane.items.front().tensor.device();
  auto const options = torch::TensorOptions(lane.type).device(device);
  for (auto const& item : lane.items) {
    auto const tensor = tensor_of(optimizer, item);
    auto const like = real_values(item.tensor.detach());
    parts.push_back(tensor.defined() ? real_values(tensor).to(options).reshape({-1})
                                     : torch::zeros({like.numel()}, options));
  }
  return parts.empty() ? torch::zeros({0}, options) : torch::cat(parts);
}

void unflatten(torch::optim::Optimizer& optimizer, SentLane const& lane, torch::Tensor const& flat) {
  std::int64_t at = 0;
  for (auto const& item : lane.items) {
    auto const sizes = real_values(item.tensor.detach()).sizes().vec();
    auto const count = c10::multiply_integers(sizes);
    if (auto const tensor = tensor_of(optimizer, item); tensor.defined())
      real_values(tensor).copy_(flat.narrow(0, at, count).view(sizes));
    at += count;
  }
}

torch::ScalarType wire_type(Wire wire, torch::ScalarType lane) {
  auto const wanted = [&]() -> torch::ScalarType {
    switch (wire) {
      case Wire::own: return lane;
      case Wire::bf16: return torch::kBFloat16;
      case Wire::f16: return torch::kHalf;
      case Wire::f32: return torch::kFloat;
      case Wire::automatic: return lane == torch::kFloat ? torch::kBFloat16 : lane;
    }
    throw Error("BadOption", "messages have no type of number " + std::to_string(int(wire)));
  }();
  return c10::elementSize(wanted) < c10::elementSize(lane) ? wanted : lane;
}

DasoMessage::DasoMessage(NodeGroup const& group, torch::optim::Optimizer& optimizer, std::vector<SentLane> const& lanes,
                         DasoMessageOptions const& options, std::exception_ptr failure)
    : group_(group), failure_(std::move(failure)), any_failure_(std::make_unique<Index>(0)) {
  std::vector<torch::Tensor> flats;
  for (auto const& lane : lanes) {
    flats.push_back(flatten(optimizer, lane));
    if (!failure_) check(optimizer, lane, flats.back(), options.check);
  }
  *any_failure_ = failure_ ? 1 : 0;
  if (group_.exchange.num_ranks() > 1)
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, any_failure_.get(), 1, MPI_INT64_T, MPI_MAX, group_.exchange.handle(), &header_),
        "MPI_Iallreduce");
  for (std::size_t i = 0; i < lanes.size(); ++i) post(lanes[i], std::move(flats[i]), options);
}

DasoMessage::~DasoMessage() {
  if (header_ == MPI_REQUEST_NULL) return;
  if (std::uncaught_exceptions() == 0) {
    try {
      group_.exchange.wait(header_);
      for (auto& lane : lanes_) (void)lane.mean->wait();
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch): the memory below is all that is left to save.
    }
  }
  (void)any_failure_.release();  // MPI may still write to it.
}

void DasoMessage::check(torch::optim::Optimizer& optimizer, SentLane const& lane, torch::Tensor const& flat,
                        DasoCheck kind) {
  auto const bad = [&](torch::Tensor const& values) {
    return kind == DasoCheck::nan ? values.isnan().any().item<bool>() : !values.isfinite().all().item<bool>();
  };
  if (!bad(flat)) return;
  for (auto const& item : lane.items) {
    auto const tensor = tensor_of(optimizer, item);
    if (!tensor.defined() || !bad(real_values(tensor))) continue;
    std::string what;
    if (item.moment >= 0) what.append("moment ").append(std::to_string(item.moment)).append(" of ");
    what.append(item.name).append(kind == DasoCheck::nan ? " holds NaN" : " holds NaN or infinity");
    failure_ = std::make_exception_ptr(Error("NotFinite", what));
    return;
  }
}

void DasoMessage::post(SentLane const& lane, torch::Tensor flat, DasoMessageOptions const& options) {
  Lane sent{.mean = nullptr, .type = lane.type, .reference = {}, .scale = 1};
  auto const type = wire_type(options.wire, lane.type);
  if (type != lane.type) {
    sent.reference = lane.reference;
    auto difference = flat - lane.reference;
    if (type == torch::kHalf) sent.scale = f16_scale(group_.exchange, difference);
    flat = (difference * sent.scale).to(type);
  }
  sent.mean = std::make_unique<PendingMean>(group_, flat, options.chunk);
  lanes_.push_back(std::move(sent));
}

bool DasoMessage::progress() {
  bool all = true;
  for (auto& lane : lanes_) all = lane.mean->progress() && all;
  return all;
}

std::vector<torch::Tensor> DasoMessage::wait() {
  group_.exchange.wait(header_);
  std::vector<torch::Tensor> means;
  for (auto& lane : lanes_) {
    auto mean = lane.mean->wait();
    if (lane.reference.defined()) mean = lane.reference + mean.to(lane.type) / lane.scale;
    means.push_back(mean);
  }
  if (*any_failure_ != 0) agree(group_.exchange, failure_);
  return means;
}

Index DasoMessage::bytes_sent() const noexcept {
  Index total = 0;
  for (auto const& lane : lanes_) total += lane.mean->bytes_sent();
  return total;
}

Index DasoMessage::num_pieces() const noexcept {
  Index total = 0;
  for (auto const& lane : lanes_) total += lane.mean->num_pieces();
  return total;
}

}  // namespace graticule::training::detail
