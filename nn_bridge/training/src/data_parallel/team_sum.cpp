// SPDX-License-Identifier: BSD-3-Clause
#include "team_sum.hpp"

#include <algorithm>

namespace graticule::training::detail {

namespace {

/// Longest piece of one MPI call, whose counts are `int`.
constexpr Index max_count = Index(1) << 30;

/// Elements that are added at a time, so that what is added stays in a cache.
constexpr Index block_numel = Index(1) << 15;

torch::ScalarType wire_type(torch::ScalarType type, Wire wire) {
  if (wire == Wire::bf16) return torch::kBFloat16;
  return wire == Wire::f16 ? torch::kHalf : type;
}

/// A power of two near the square root of the team, as in LibTorch's reducer: neither the values before the sum nor the
/// sum leave the range of a narrow type.
double divisor_before(int num_ranks) {
  int before = 1;
  while (num_ranks % before == 0 && num_ranks / before > before) before *= 2;
  return before;
}

/// Adds the terms of a part in order of ranks, in f32 where they have 16 bits, and divides those that are data.
struct Adder {
  torch::ScalarType type;
  Index num_data;
  double before;
  double divisor;

  [[nodiscard]] torch::Tensor block(std::byte* values, Index begin, Index count) const {
    return torch::from_blob(values + begin * Index(c10::elementSize(type)), {count}, type);
  }

  void operator()(messages::SumPart const& part) const {
    auto const num_own_data = std::clamp<Index>(num_data - part.begin, 0, part.count);
    auto const sums = torch::empty({std::min(part.count, block_numel)}, is_narrow(type) ? torch::kFloat : type);
    for (Index begin = 0; begin < part.count; begin += block_numel) {
      auto const count = std::min(block_numel, part.count - begin);
      auto const sum = sums.narrow(0, 0, count);
      sum.copy_(block(part.terms[0], begin, count));
      for (std::size_t rank = 1; rank < part.terms.size(); ++rank) sum.add_(block(part.terms[rank], begin, count));
      auto const data = sum.narrow(0, 0, std::clamp<Index>(num_own_data - begin, 0, count));
      if (before != divisor && before != 1) data.mul_(before);
      if (before != divisor) data.div_(divisor);
      for (auto* const result : part.results) block(result, begin, count).copy_(sum);
    }
  }
};

}  // namespace

MPI_Datatype mpi_type(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf:
    case torch::kBFloat16: return MPI_UINT16_T;
    case torch::kFloat: return MPI_FLOAT;
    case torch::kDouble: return MPI_DOUBLE;
    default: throw Error("UnsupportedTensor", std::string("no sum or mean over ranks of ") + c10::toString(type));
  }
}

TeamSum::TeamSum(Comm team, torch::ScalarType type, Wire wire, SumOrder order)
    : team_(std::move(team)),
      type_(type),
      wire_(wire_type(type, wire)),
      before_(wire_ == torch::kHalf && type != torch::kHalf ? divisor_before(team_.num_ranks()) : 1) {
  bool const by_library = order == SumOrder::any && wire_ == type && !is_narrow(type);
  if (!by_library) sum_.emplace(team_, Index(c10::elementSize(wire_)));
}

void TeamSum::share_on_node(Comm const& team, std::vector<std::pair<TeamSum*, Index>> const& sums) {
  std::vector<std::pair<messages::OrderedSum*, Index>> ordered;
  for (auto const& [sum, numel] : sums)
    if (sum->sum_) ordered.emplace_back(&*sum->sum_, numel);
  messages::OrderedSum::share_on_node(team, ordered);
}

void TeamSum::start(torch::Tensor const& flat, Index num_data, double divisor) {
  torch::NoGradGuard const no_grad;
  traffic_ = {};
  requests_.clear();
  if (team_.num_ranks() == 1) return;
  flat_ = flat;
  num_data_ = num_data;
  divisor_ = divisor;
  if (!sum_) return start_all_reduce();
  sent_ = as_sent();
  sum_->start(static_cast<std::byte*>(sent_.mutable_data_ptr()), sent_.numel(),
              Adder{wire_, num_data_, before_, divisor_});
}

torch::Tensor TeamSum::as_sent() const {
  if (wire_ == type_) return flat_;
  auto values = flat_;
  if (before_ != 1) {
    values = flat_.clone();
    values.narrow(0, 0, num_data_).div_(before_);
  }
  if (flat_.numel() > sum_->room()) return values.to(wire_);
  return torch::from_blob(sum_->shared_memory(), {flat_.numel()}, wire_).copy_(values);
}

void TeamSum::start_all_reduce() {
  for (Index done = 0; done < flat_.numel(); done += max_count) {
    auto const count = std::min(max_count, flat_.numel() - done);
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, flat_.narrow(0, done, count).mutable_data_ptr(), int(count), mpi_type(type_),
                             MPI_SUM, team_.handle(), &requests_.emplace_back()),
              "MPI_Iallreduce");
    ++traffic_.collectives;
  }
  traffic_.bytes = Index(flat_.nbytes());
}

bool TeamSum::is_reduced() {
  int done = 0;
  check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done && divisor_ != 1) flat_.narrow(0, 0, num_data_).div_(divisor_);
  return done != 0;
}

bool TeamSum::advance() {
  if (!flat_.defined()) return true;
  torch::NoGradGuard const no_grad;
  if (sum_ ? !sum_->advance() : !is_reduced()) return false;
  if (sum_) {
    traffic_.messages = sum_->sent().messages;
    traffic_.bytes = sum_->sent().bytes;
    if (wire_ != type_) flat_.copy_(sent_);
  }
  requests_.clear();
  flat_.reset();
  sent_.reset();
  return true;
}

torch::Tensor TeamSum::shared_memory() const {
  if (!sum_ || !sum_->shared_memory() || wire_ != type_) return {};
  return torch::from_blob(sum_->shared_memory(), {sum_->room()}, wire_);
}

}  // namespace graticule::training::detail
