// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/node_place.hpp>
#include <graticule/messages/detail/ordered_sum.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace graticule::messages {

namespace {

constexpr std::size_t line_bytes = 64;

/// Memory that begins at a cache line, with unspecified values.
std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  constexpr std::align_val_t alignment{line_bytes};
  return {static_cast<std::byte*>(::operator new(bytes, alignment)),
          [](std::byte* data) { ::operator delete(data, alignment); }};
}

void copy(std::byte* to, std::byte const* from, Index bytes) {
  if (bytes > 0) std::memcpy(to, from, std::size_t(bytes));
}

}  // namespace

OrderedSum::OrderedSum(Comm comm, Index value_bytes)
    : comm_(std::move(comm)), value_bytes_(value_bytes), tag_(comm_.next_tag()) {}
OrderedSum::OrderedSum(OrderedSum&&) noexcept = default;
OrderedSum& OrderedSum::operator=(OrderedSum&&) noexcept = default;
OrderedSum::~OrderedSum() = default;

void OrderedSum::share_on_node(Comm const& comm, std::vector<std::pair<OrderedSum*, Index>> const& sums) {
  std::vector<std::size_t> bytes;
  for (auto const& [sum, num_values] : sums) bytes.push_back(std::size_t(num_values * sum->value_bytes_));
  auto places = NodePlace::make(comm, bytes);
  for (std::size_t i = 0; i < places.size(); ++i) sums[i].first->place_ = std::move(places[i]);
}

void OrderedSum::share(std::unique_ptr<SumPlace> place) { place_ = std::move(place); }

void OrderedSum::start(std::byte* values, Index count, AddPart add) {
  sent_ = {};
  if (comm_.num_ranks() == 1) return;
  values_ = values;
  num_values_ = count;
  add_ = std::move(add);
  if (place_ && count <= room())
    give();
  else
    scatter();
}

bool OrderedSum::advance() {
  while (stage_ != Stage::idle) {
    if (!has_arrived()) return false;
    if (stage_ == Stage::scattering) {
      form_received();
    } else if (stage_ == Stage::giving) {
      form_given();
    } else {
      if (stage_ == Stage::taking) take_given();
      stage_ = Stage::idle;
      lanes_.reset();
      received_.clear();
      add_ = nullptr;
    }
  }
  return true;
}

bool OrderedSum::has_arrived() {
  if (stage_ == Stage::giving) return place_->all_given();
  if (stage_ == Stage::taking) return place_->all_added();
  if (!lanes_->test()) return false;
  sent_ = lanes_->sent();
  return true;
}

std::vector<int> OrderedSum::missing() const {
  if (stage_ == Stage::giving) return place_->missing();
  return lanes_ ? lanes_->missing() : std::vector<int>();
}

Index OrderedSum::part_begin(Index count, int rank) const noexcept {
  return rank * (count / comm_.num_ranks()) + std::min<Index>(rank, count % comm_.num_ranks());
}

std::byte* OrderedSum::at(std::byte* values, int rank) const noexcept {
  return values + part_begin(num_values_, rank) * value_bytes_;
}

Index OrderedSum::bytes_of(int rank) const noexcept {
  return (part_begin(num_values_, rank + 1) - part_begin(num_values_, rank)) * value_bytes_;
}

std::byte* OrderedSum::shared_memory() const noexcept { return place_ ? place_->values(comm_.rank()) : nullptr; }

Index OrderedSum::room() const noexcept { return place_ ? Index(place_->bytes()) / value_bytes_ : 0; }

void OrderedSum::scatter() {
  stage_ = Stage::scattering;
  lanes_ = std::make_unique<Lanes>(comm_, tag_);
  int const me = comm_.rank();
  auto const slot = (std::size_t(bytes_of(me)) + line_bytes - 1) / line_bytes * line_bytes;
  auto const bytes = slot * std::size_t(comm_.num_ranks());
  auto* const memory = lanes_->keep(allocate_ ? allocate_(bytes) : allocate(bytes)).get();
  for (int rank = 0; rank < comm_.num_ranks(); ++rank) {
    received_.push_back(rank == me ? at(values_, me) : memory + std::size_t(rank) * slot);
    if (rank == me) continue;
    lanes_->take(rank, received_.back(), bytes_of(me));
    lanes_->post(rank, at(values_, rank), bytes_of(rank));
  }
}

void OrderedSum::form_received() {
  stage_ = Stage::gathering;
  int const me = comm_.rank();
  auto* const mine = at(values_, me);
  Index const begin = part_begin(num_values_, me);
  add_({begin, part_begin(num_values_, me + 1) - begin, received_, std::span(&mine, 1)});
  for (int rank = 0; rank < comm_.num_ranks(); ++rank) {
    if (rank == me) continue;
    lanes_->take(rank, at(values_, rank), bytes_of(rank));
    lanes_->post(rank, mine, bytes_of(me));
  }
}

void OrderedSum::copy_other_parts(std::byte* to, std::byte const* from) const {
  if (to == from) return;
  int const me = comm_.rank();
  Index const before = part_begin(num_values_, me) * value_bytes_;
  Index const after = part_begin(num_values_, me + 1) * value_bytes_;
  copy(to, from, before);
  copy(to + after, from + after, num_values_ * value_bytes_ - after);
}

void OrderedSum::count(Index bytes) noexcept {
  if (bytes == 0) return;
  ++sent_.messages;
  sent_.bytes += bytes;
}

void OrderedSum::give() {
  stage_ = Stage::giving;
  copy_other_parts(shared_memory(), values_);
  for (int rank = 0; rank < comm_.num_ranks(); ++rank)
    if (rank != comm_.rank()) count(bytes_of(rank));
  place_->give(num_values_);
}

void OrderedSum::form_given() {
  stage_ = Stage::taking;
  int const me = comm_.rank();
  for (int rank = 0; rank < comm_.num_ranks(); ++rank)
    received_.push_back(at(rank == me ? values_ : place_->values(rank), me));
  Index const begin = part_begin(num_values_, me);
  add_({begin, part_begin(num_values_, me + 1) - begin, received_, received_});
  place_->tell_added();
  for (int rank = 1; rank < comm_.num_ranks(); ++rank) count(bytes_of(me));
}

void OrderedSum::take_given() { copy_other_parts(values_, shared_memory()); }

}  // namespace graticule::messages
