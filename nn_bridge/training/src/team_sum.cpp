// SPDX-License-Identifier: BSD-3-Clause
#include "team_sum.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

/// Longest piece of one MPI call, whose counts are `int`.
constexpr Index max_count = Index(1) << 30;

bool is_narrow(torch::ScalarType type) { return type == torch::kHalf || type == torch::kBFloat16; }

torch::ScalarType wire_type(torch::ScalarType type, Wire wire) {
  if (wire == Wire::own) return type;
  return wire == Wire::bf16 ? torch::kBFloat16 : torch::kHalf;
}

MPI_Datatype mpi_type(torch::ScalarType type) {
  if (type == torch::kDouble) return MPI_DOUBLE;
  return type == torch::kFloat ? MPI_FLOAT : MPI_UINT16_T;
}

/// A power of two near the square root of the team, as in LibTorch's reducer: neither the values before the sum nor the
/// sum leave the range of a narrow type.
double divisor_before(int num_ranks) {
  int before = 1;
  while (num_ranks % before == 0 && num_ranks / before > before) before *= 2;
  return before;
}

}  // namespace

TeamSum::TeamSum(Comm team, torch::ScalarType type, Wire wire, SumOrder order)
    : team_(std::move(team)),
      type_(type),
      wire_(wire_type(type, wire)),
      by_library_(order == SumOrder::any && wire_ == type && !is_narrow(type)),
      before_(wire_ == torch::kHalf && type != torch::kHalf ? divisor_before(team_.num_ranks()) : 1) {
  if (!by_library_) tag_ = team_.next_tag();
}

void TeamSum::start(torch::Tensor const& flat, Index num_data, double divisor) {
  flat_ = flat;
  num_data_ = num_data;
  divisor_ = divisor;
  traffic_ = {};
  requests_.clear();
  if (team_.num_ranks() == 1) return;
  if (!by_library_) return start_exchange();
  stage_ = Stage::reducing;
  for (Index done = 0; done < flat.numel(); done += max_count) {
    auto const count = std::min(max_count, flat.numel() - done);
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, flat.narrow(0, done, count).mutable_data_ptr(), int(count), mpi_type(type_),
                             MPI_SUM, team_.handle(), &requests_.emplace_back()),
              "MPI_Iallreduce");
    ++traffic_.collectives;
  }
  traffic_.bytes = Index(flat.nbytes());
}

bool TeamSum::advance() {
  torch::NoGradGuard const no_grad;
  while (stage_ != Stage::idle) {
    int done = 0;
    check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (!done) return false;
    requests_.clear();
    if (stage_ == Stage::scattering) {
      add_part();
      continue;
    }
    if (stage_ == Stage::reducing && divisor_ != 1) flat_.narrow(0, 0, num_data_).div_(divisor_);
    if (stage_ == Stage::gathering && wire_ != type_) flat_.copy_(sent_);
    stage_ = Stage::idle;
    flat_.reset();
  }
  return true;
}

Index TeamSum::part_begin(int rank) const {
  auto const size = flat_.numel() / team_.num_ranks();
  return rank * size + std::min<Index>(rank, flat_.numel() % team_.num_ranks());
}

torch::Tensor TeamSum::part(torch::Tensor const& whole, int rank) const {
  return whole.narrow(0, part_begin(rank), part_begin(rank + 1) - part_begin(rank));
}

void TeamSum::post_send(torch::Tensor const& part, int rank) {
  for (Index done = 0; done < part.numel(); done += max_count) {
    auto const piece = part.narrow(0, done, std::min(max_count, part.numel() - done));
    check_mpi(MPI_Isend(piece.const_data_ptr(), int(piece.numel()), mpi_type(wire_), rank, tag_, team_.handle(),
                        &requests_.emplace_back()),
              "MPI_Isend");
    ++traffic_.messages;
    traffic_.bytes += Index(piece.nbytes());
  }
}

void TeamSum::post_receive(torch::Tensor const& part, int rank) {
  for (Index done = 0; done < part.numel(); done += max_count) {
    auto const piece = part.narrow(0, done, std::min(max_count, part.numel() - done));
    check_mpi(MPI_Irecv(piece.mutable_data_ptr(), int(piece.numel()), mpi_type(wire_), rank, tag_, team_.handle(),
                        &requests_.emplace_back()),
              "MPI_Irecv");
  }
}

void TeamSum::start_exchange() {
  stage_ = Stage::scattering;
  sent_ = flat_;
  if (before_ != 1) {
    sent_ = flat_.clone();
    sent_.narrow(0, 0, num_data_).div_(before_);
  }
  sent_ = sent_.to(wire_);
  int const me = team_.rank();
  auto const mine = part(sent_, me);
  received_ = torch::empty({team_.num_ranks(), mine.numel()}, sent_.options());
  received_[me].copy_(mine);
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    if (rank == me) continue;
    post_receive(received_[rank], rank);
    post_send(part(sent_, rank), rank);
  }
}

void TeamSum::add_part() {
  stage_ = Stage::gathering;
  int const me = team_.rank();
  auto sum = received_[0].to(is_narrow(wire_) ? torch::kFloat : wire_, false, true);
  for (int rank = 1; rank < team_.num_ranks(); ++rank) sum.add_(received_[rank]);
  auto const num_data = std::clamp<Index>(num_data_ - part_begin(me), 0, sum.numel());
  if (before_ != divisor_) sum.narrow(0, 0, num_data).mul_(before_).div_(divisor_);
  auto const mine = part(sent_, me);
  mine.copy_(sum);
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    if (rank == me) continue;
    post_receive(part(sent_, rank), rank);
    post_send(mine, rank);
  }
}

}  // namespace graticule::nn::detail
