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
  if (wire == Wire::own) return type;
  return wire == Wire::bf16 ? torch::kBFloat16 : torch::kHalf;
}

/// A power of two near the square root of the team, as in LibTorch's reducer: neither the values before the sum nor the
/// sum leave the range of a narrow type.
double divisor_before(int num_ranks) {
  int before = 1;
  while (num_ranks % before == 0 && num_ranks / before > before) before *= 2;
  return before;
}

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
      by_library_(order == SumOrder::any && wire_ == type && !is_narrow(type)),
      before_(wire_ == torch::kHalf && type != torch::kHalf ? divisor_before(team_.num_ranks()) : 1) {
  if (!by_library_) tag_ = team_.next_tag();
}

void TeamSum::share_on_node(Comm const& team, std::vector<std::pair<TeamSum*, Index>> const& sums) {
  std::vector<TeamSum*> ordered;
  std::vector<std::size_t> bytes;
  for (auto const& [sum, numel] : sums) {
    if (sum->by_library_) continue;
    ordered.push_back(sum);
    bytes.push_back(std::size_t(numel) * c10::elementSize(sum->wire_));
  }
  auto places = NodePlace::make(team, bytes);
  for (std::size_t i = 0; i < places.size(); ++i) ordered[i]->place_ = std::move(places[i]);
}

void TeamSum::start(torch::Tensor const& flat, Index num_data, double divisor) {
  torch::NoGradGuard const no_grad;
  traffic_ = {};
  requests_.clear();
  peers_.clear();
  if (team_.num_ranks() == 1) return;
  flat_ = flat;
  num_data_ = num_data;
  divisor_ = divisor;
  if (by_library_) return start_all_reduce();
  scale_before();
  if (place_ && std::size_t(flat.numel()) * c10::elementSize(wire_) <= place_->bytes())
    give();
  else
    start_exchange();
}

void TeamSum::start_all_reduce() {
  stage_ = Stage::reducing;
  for (Index done = 0; done < flat_.numel(); done += max_count) {
    auto const count = std::min(max_count, flat_.numel() - done);
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, flat_.narrow(0, done, count).mutable_data_ptr(), int(count), mpi_type(type_),
                             MPI_SUM, team_.handle(), &requests_.emplace_back()),
              "MPI_Iallreduce");
    ++traffic_.collectives;
  }
  traffic_.bytes = Index(flat_.nbytes());
}

bool TeamSum::advance() {
  torch::NoGradGuard const no_grad;
  while (stage_ != Stage::idle) {
    if (!arrived()) return false;
    requests_.clear();
    peers_.clear();
    if (stage_ == Stage::scattering) {
      add_received();
      continue;
    }
    if (stage_ == Stage::giving) {
      add_given();
      continue;
    }
    if (stage_ == Stage::reducing && divisor_ != 1) flat_.narrow(0, 0, num_data_).div_(divisor_);
    if (stage_ == Stage::taking && wire_ == type_) copy_others(flat_, sent_);
    if (stage_ != Stage::reducing && wire_ != type_) flat_.copy_(sent_);
    stage_ = Stage::idle;
    flat_.reset();
    sent_.reset();
    received_.reset();
  }
  return true;
}

bool TeamSum::arrived() {
  if (stage_ == Stage::giving) return place_->all_given();
  if (stage_ == Stage::taking) return place_->all_added();
  int done = 0;
  check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return done != 0;
}

std::vector<int> TeamSum::missing() const {
  if (stage_ == Stage::giving) return place_->missing();
  std::vector<int> ranks;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    int done = 0;
    check_mpi(MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (!done) ranks.push_back(peers_[i]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Index TeamSum::part_begin(int rank) const {
  auto const size = flat_.numel() / team_.num_ranks();
  return rank * size + std::min<Index>(rank, flat_.numel() % team_.num_ranks());
}

torch::Tensor TeamSum::part(torch::Tensor const& whole, int rank) const {
  return whole.narrow(0, part_begin(rank), part_begin(rank + 1) - part_begin(rank));
}

void TeamSum::count(torch::Tensor const& sent) {
  if (sent.numel() == 0) return;
  ++traffic_.messages;
  traffic_.bytes += Index(sent.nbytes());
}

void TeamSum::post_send(torch::Tensor const& part, int rank) {
  for (Index done = 0; done < part.numel(); done += max_count) {
    auto const piece = part.narrow(0, done, std::min(max_count, part.numel() - done));
    check_mpi(MPI_Isend(piece.const_data_ptr(), int(piece.numel()), mpi_type(wire_), rank, tag_, team_.handle(),
                        &requests_.emplace_back()),
              "MPI_Isend");
    peers_.push_back(rank);
    count(piece);
  }
}

void TeamSum::post_receive(torch::Tensor const& part, int rank) {
  for (Index done = 0; done < part.numel(); done += max_count) {
    auto const piece = part.narrow(0, done, std::min(max_count, part.numel() - done));
    check_mpi(MPI_Irecv(piece.mutable_data_ptr(), int(piece.numel()), mpi_type(wire_), rank, tag_, team_.handle(),
                        &requests_.emplace_back()),
              "MPI_Irecv");
    peers_.push_back(rank);
  }
}

void TeamSum::scale_before() {
  sent_ = flat_;
  if (before_ == 1) return;
  sent_ = flat_.clone();
  sent_.narrow(0, 0, num_data_).div_(before_);
}

void TeamSum::start_exchange() {
  stage_ = Stage::scattering;
  sent_ = sent_.to(wire_);
  int const me = team_.rank();
  received_ = torch::empty({team_.num_ranks(), part(sent_, me).numel()}, sent_.options());
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    if (rank == me) continue;
    post_receive(received_[rank], rank);
    post_send(part(sent_, rank), rank);
  }
}

void TeamSum::add_received() {
  stage_ = Stage::gathering;
  int const me = team_.rank();
  auto const mine = part(sent_, me);
  std::vector<torch::Tensor> terms;
  for (int rank = 0; rank < team_.num_ranks(); ++rank) terms.push_back(rank == me ? mine : received_[rank]);
  add(terms, {mine});
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    if (rank == me) continue;
    post_receive(part(sent_, rank), rank);
    post_send(mine, rank);
  }
}

torch::Tensor TeamSum::values_of(int rank) const {
  return torch::from_blob(place_->values(rank), {flat_.numel()}, wire_);
}

torch::Tensor TeamSum::shared_memory() const {
  if (!place_ || wire_ != type_) return {};
  return torch::from_blob(place_->values(team_.rank()), {Index(place_->bytes() / c10::elementSize(wire_))}, wire_);
}

void TeamSum::copy_others(torch::Tensor const& to, torch::Tensor const& from) const {
  if (to.const_data_ptr() == from.const_data_ptr()) return;
  auto const begin = part_begin(team_.rank());
  auto const end = part_begin(team_.rank() + 1);
  to.narrow(0, 0, begin).copy_(from.narrow(0, 0, begin));
  to.narrow(0, end, to.numel() - end).copy_(from.narrow(0, end, to.numel() - end));
}

void TeamSum::give() {
  stage_ = Stage::giving;
  auto const values = values_of(team_.rank());
  if (wire_ == type_)
    copy_others(values, flat_);
  else
    values.copy_(sent_);
  sent_ = values;
  for (int rank = 0; rank < team_.num_ranks(); ++rank)
    if (rank != team_.rank()) count(part(sent_, rank));
  place_->give(flat_.numel());
}

void TeamSum::add_given() {
  stage_ = Stage::taking;
  int const me = team_.rank();
  std::vector<torch::Tensor> terms;
  for (int rank = 0; rank < team_.num_ranks(); ++rank)
    terms.push_back(part(rank == me && wire_ == type_ ? flat_ : values_of(rank), me));
  add(terms, terms);
  place_->tell_added();
  for (int rank = 1; rank < team_.num_ranks(); ++rank) count(terms.front());
}

void TeamSum::add(std::vector<torch::Tensor> const& terms, std::vector<torch::Tensor> const& results) const {
  auto const numel = terms.front().numel();
  auto const num_data = std::clamp<Index>(num_data_ - part_begin(team_.rank()), 0, numel);
  auto const wide = is_narrow(wire_) ? torch::kFloat : wire_;
  auto const sums = torch::empty({std::min(numel, block_numel)}, wide);
  for (Index begin = 0; begin < numel; begin += block_numel) {
    auto const count = std::min(block_numel, numel - begin);
    auto const sum = sums.narrow(0, 0, count);
    sum.copy_(terms[0].narrow(0, begin, count));
    for (std::size_t rank = 1; rank < terms.size(); ++rank) sum.add_(terms[rank].narrow(0, begin, count));
    auto const data = sum.narrow(0, 0, std::clamp<Index>(num_data - begin, 0, count));
    if (before_ != divisor_ && before_ != 1) data.mul_(before_);
    if (before_ != divisor_) data.div_(divisor_);
    for (auto const& result : results) result.narrow(0, begin, count).copy_(sum);
  }
}

}  // namespace graticule::training::detail
