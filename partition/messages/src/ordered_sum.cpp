// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/node_place.hpp>
#include <graticule/messages/detail/ordered_sum.hpp>

#include <algorithm>
#include <cmath>
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

void copy_bytes(std::byte* to, std::byte const* from, Index bytes) {
  if (bytes > 0) std::memcpy(to, from, std::size_t(bytes));
}

/// The ranks in about as many rows as a row has ranks; the first rows may be longer by one.
class Rows {
 public:
  explicit Rows(int num_ranks)
      : num_rows_(std::max(1, int(std::lround(std::sqrt(double(num_ranks)))))),
        length_(num_ranks / num_rows_),
        num_longer_(num_ranks % num_rows_) {}

  [[nodiscard]] int num() const noexcept { return num_rows_; }
  [[nodiscard]] int begin(int row) const noexcept { return row * length_ + std::min(row, num_longer_); }
  [[nodiscard]] int length(int row) const noexcept { return begin(row + 1) - begin(row); }
  [[nodiscard]] int row_of(int rank) const noexcept {
    int const in_longer = num_longer_ * (length_ + 1);
    return rank < in_longer ? rank / (length_ + 1) : num_longer_ + (rank - in_longer) / length_;
  }
  /// The rank of `row` that passes on what `rank` sends there: in the same column, where the row has that.
  [[nodiscard]] int relay(int rank, int row) const noexcept {
    int const own = row_of(rank);
    int const column = rank - begin(own);
    return begin(row) + (column < length(row) ? column : own % length(row));
  }

 private:
  int num_rows_;
  int length_;
  int num_longer_;
};

}  // namespace

/// Who passes what on, of this rank's row.
struct OrderedSum::Relays {
  Relays(int rank, int num_ranks) : rows(num_ranks), row(rows.row_of(rank)), sources(std::size_t(rows.length(row))) {
    for (int source = 0; source < num_ranks; ++source)
      sources[std::size_t(rows.relay(source, row) - rows.begin(row))].push_back(source);
  }

  Rows rows;
  int row;
  std::vector<std::vector<int>> sources;  ///< of each relay of the row, ascending
  std::byte* gathered = nullptr;          ///< terms of this rank's sources, for the whole row
  std::byte* terms = nullptr;             ///< of this rank's part, by relay, then by source
};

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
  else if (uses_relays(count))
    send_to_relays();
  else
    scatter();
}

bool OrderedSum::uses_relays(Index count) const noexcept {
  int const num_ranks = comm_.num_ranks();
  // Where messages arrive in memory of a device, nothing can be copied here.
  return num_ranks > most_direct_ranks && !allocate_ && count * value_bytes_ <= num_ranks * most_relayed_bytes;
}

bool OrderedSum::advance() {
  while (stage_ != Stage::idle) {
    if (!has_arrived()) return false;
    if (stage_ == Stage::scattering && relays_) {
      pass_terms_on();
    } else if (stage_ == Stage::scattering || stage_ == Stage::relaying) {
      if (relays_) find_relayed_terms();
      form_received();
    } else if (stage_ == Stage::gathering && relays_) {
      pass_results_on();
    } else if (stage_ == Stage::giving) {
      form_given();
    } else {
      if (stage_ == Stage::taking) take_given();
      stage_ = Stage::idle;
      lanes_.reset();
      relays_.reset();
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

Index OrderedSum::bytes_of_row(int row) const noexcept {
  auto const& rows = relays_->rows;
  return (part_begin(num_values_, rows.begin(row + 1)) - part_begin(num_values_, rows.begin(row))) * value_bytes_;
}

void OrderedSum::send_to_relays() {
  stage_ = Stage::scattering;
  lanes_ = std::make_unique<Lanes>(comm_, tag_);
  int const me = comm_.rank();
  relays_ = std::make_unique<Relays>(me, comm_.num_ranks());
  auto& [rows, row, all_sources, gathered, terms] = *relays_;
  auto const& sources = all_sources[std::size_t(me - rows.begin(row))];
  auto const bytes = bytes_of_row(row);
  gathered = lanes_->keep(allocate(std::size_t(bytes) * sources.size())).get();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto* const to = gathered + Index(i) * bytes;
    if (sources[i] == me)
      copy_bytes(to, at(values_, rows.begin(row)), bytes);
    else
      lanes_->take(sources[i], to, bytes);
  }
  for (int other = 0; other < rows.num(); ++other)
    if (other != row) lanes_->post(rows.relay(me, other), at(values_, rows.begin(other)), bytes_of_row(other));
}

void OrderedSum::pass_terms_on() {
  stage_ = Stage::relaying;
  int const me = comm_.rank();
  auto& [rows, row, all_sources, gathered, terms] = *relays_;
  int const first = rows.begin(row);
  terms = lanes_->keep(allocate(std::size_t(bytes_of(me)) * std::size_t(comm_.num_ranks()))).get();
  auto* to = terms;
  std::byte* own_terms = nullptr;
  for (std::size_t i = 0; i < all_sources.size(); ++i) {
    int const relay = first + int(i);
    auto const bytes = Index(all_sources[i].size()) * bytes_of(me);
    if (relay == me)
      own_terms = to;
    else
      lanes_->take(relay, to, bytes);
    to += bytes;
  }
  auto const num_sources = Index(all_sources[std::size_t(me - first)].size());
  auto const row_bytes = bytes_of_row(row);
  auto* packed = lanes_->keep(allocate(std::size_t(row_bytes * num_sources))).get();
  for (int owner = first; owner < rows.begin(row + 1); ++owner) {
    auto const bytes = bytes_of(owner);
    auto const* const from = gathered + (at(values_, owner) - at(values_, first));
    auto* const packs = owner == me ? own_terms : packed;
    for (Index i = 0; i < num_sources; ++i) copy_bytes(packs + i * bytes, from + i * row_bytes, bytes);
    if (owner == me) continue;
    lanes_->post(owner, packed, num_sources * bytes);
    packed += num_sources * bytes;
  }
}

void OrderedSum::find_relayed_terms() {
  received_.resize(std::size_t(comm_.num_ranks()));
  auto* at = relays_->terms;
  for (auto const& sources : relays_->sources)
    for (int const source : sources) {
      received_[std::size_t(source)] = at;
      at += bytes_of(comm_.rank());
    }
}

void OrderedSum::pass_results_on() {
  stage_ = Stage::returning;
  int const me = comm_.rank();
  auto const& rows = relays_->rows;
  int const row = relays_->row;
  for (int other = 0; other < rows.num(); ++other)
    if (other != row) lanes_->take(rows.relay(me, other), at(values_, rows.begin(other)), bytes_of_row(other));
  for (int const source : relays_->sources[std::size_t(me - rows.begin(row))])
    if (source != me) lanes_->post(source, at(values_, rows.begin(row)), bytes_of_row(row));
}

MessageCounts OrderedSum::traffic(Index count) const {
  MessageCounts sent;
  auto const add = [&](int begin, int end, Index times = 1) {
    Index const bytes = (part_begin(count, end) - part_begin(count, begin)) * value_bytes_ * times;
    if (bytes == 0) return;
    ++sent.messages;
    sent.bytes += bytes;
  };
  int const me = comm_.rank();
  if (!uses_relays(count)) {
    for (int rank = 0; rank < comm_.num_ranks(); ++rank) {
      if (rank == me) continue;
      add(rank, rank + 1);
      add(me, me + 1);
    }
    return sent;
  }
  Relays const relays(me, comm_.num_ranks());
  auto const& [rows, row, all_sources, gathered, terms] = relays;
  auto const& sources = all_sources[std::size_t(me - rows.begin(row))];
  for (int other = 0; other < rows.num(); ++other)
    if (other != row) add(rows.begin(other), rows.begin(other + 1));
  for (int owner = rows.begin(row); owner < rows.begin(row + 1); ++owner) {
    if (owner == me) continue;
    add(owner, owner + 1, Index(sources.size()));
    add(me, me + 1);
  }
  for (int const source : sources)
    if (source != me) add(rows.begin(row), rows.begin(row + 1));
  return sent;
}

void OrderedSum::form_received() {
  stage_ = Stage::gathering;
  int const me = comm_.rank();
  auto* const mine = at(values_, me);
  Index const begin = part_begin(num_values_, me);
  add_({begin, part_begin(num_values_, me + 1) - begin, received_, std::span(&mine, 1)});
  int const first = relays_ ? relays_->rows.begin(relays_->row) : 0;
  int const end = relays_ ? relays_->rows.begin(relays_->row + 1) : comm_.num_ranks();
  for (int rank = first; rank < end; ++rank) {
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
  copy_bytes(to, from, before);
  copy_bytes(to + after, from + after, num_values_ * value_bytes_ - after);
}

void OrderedSum::give() {
  stage_ = Stage::giving;
  copy_other_parts(shared_memory(), values_);
  sent_ = traffic(num_values_);
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
}

void OrderedSum::take_given() { copy_other_parts(values_, shared_memory()); }

}  // namespace graticule::messages
