// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/node_place.hpp>
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/messages/transport.hpp>

#include <array>
#include <atomic>
#include <new>
#include <random>
#include <string>
#include <utility>

namespace graticule::messages {

/// What ranks tell each other about a sum; before the values of each place.
struct NodePlace::Head {
  alignas(64) std::atomic<std::uint64_t> given{
      0};  ///< number of the last sum whose values lie here; written by the place's rank
  Index num_values = 0;
  alignas(64) std::atomic<std::uint32_t> num_added{0};  ///< ranks that have written their part of that sum here
};

namespace {

/// What a rank tells the others about a place before it is used.
struct Offer {
  NodeAddress address;
  std::uint64_t bytes = 0;
  std::uint64_t first_number = 0;
  std::uint64_t willing = 0;
};

std::vector<Offer> gather(Comm const& team, std::vector<Offer> const& mine) {
  std::vector<Offer> all(mine.size() * std::size_t(team.num_ranks()));
  team.gather_to_all(mine.data(), Index(mine.size() * sizeof(Offer)), all.data());
  return all;
}

/// Where the numbers of a place's sums begin: those of two places never meet, though one may lie where the other was.
std::uint64_t next_first_number() {
  static std::atomic<std::uint64_t> next{std::uint64_t(std::random_device{}()) << 32U | std::random_device{}()};
  return next.fetch_add(std::uint64_t(1) << 32U);
}

}  // namespace

NodePlace::~NodePlace() { free_node_block(block_); }

NodePlace::Head& NodePlace::head(int rank) const noexcept {
  return *std::launder(reinterpret_cast<Head*>(places_[std::size_t(rank)]));
}

std::byte* NodePlace::values(int rank) const noexcept { return places_[std::size_t(rank)] + sizeof(Head); }

void NodePlace::give(Index num_values) {
  ++number_;
  num_values_ = num_values;
  num_given_ = 0;
  auto& own = head(rank_);
  own.num_values = num_values;
  own.num_added.store(0, std::memory_order_relaxed);
  own.given.store(number_, std::memory_order_release);
}

bool NodePlace::all_given() {
  for (; num_given_ < places_.size(); ++num_given_) {
    auto const& other = head(int(num_given_));
    if (other.given.load(std::memory_order_acquire) != number_) return false;
    if (other.num_values != num_values_)
      throw Error("StructureDisagreement", "rank " + std::to_string(num_given_) + " of the team adds " +
                                               std::to_string(other.num_values) + " numbers, this one " +
                                               std::to_string(num_values_));
  }
  return true;
}

std::vector<int> NodePlace::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < places_.size(); ++rank)
    if (head(int(rank)).given.load(std::memory_order_acquire) != number_) ranks.push_back(int(rank));
  return ranks;
}

void NodePlace::tell_added() {
  for (std::size_t rank = 0; rank < places_.size(); ++rank)
    if (int(rank) != rank_) head(int(rank)).num_added.fetch_add(1, std::memory_order_release);
}

bool NodePlace::all_added() { return head(rank_).num_added.load(std::memory_order_acquire) + 1 == places_.size(); }

std::unique_ptr<NodePlace> NodePlace::allocate(int rank, std::size_t bytes) {
  auto const block = allocate_node_block(sizeof(Head) + bytes);
  if (!block) return nullptr;
  new (block->data) Head;
  return std::unique_ptr<NodePlace>(new NodePlace(rank, bytes, *block));
}

std::vector<std::unique_ptr<NodePlace>> NodePlace::make(Comm const& team, std::vector<std::size_t> const& bytes) {
  auto const num_ranks = std::size_t(team.num_ranks());
  if (num_ranks == 1 || team.num_node_ranks() != team.num_ranks() || bytes.empty()) return {};
  bool wanted = false;
  run_agreed(team, [&] { wanted = messages::transport_from_environment() != messages::Transport::point_to_point; });
  std::vector<std::unique_ptr<NodePlace>> places(bytes.size());
  std::vector<Offer> mine(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (wanted) places[i] = allocate(team.rank(), bytes[i]);
    if (places[i]) mine[i] = {places[i]->block_.address, bytes[i], next_first_number(), 1};
  }
  auto const offers = gather(team, mine);
  std::array<Index, 1> num_refused{0};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      auto const& offer = offers[rank * bytes.size() + i];
      bool const usable = places[i] && offer.willing != 0 && offer.bytes == bytes[i];
      auto* const place = usable ? map_node_address(offer.address) : nullptr;
      if (!place) {
        ++num_refused[0];
        continue;
      }
      places[i]->places_.push_back(place);
      if (rank == 0) places[i]->number_ = offer.first_number;
    }
  team.sum(num_refused);
  if (num_refused[0] > 0) return {};
  return places;
}

}  // namespace graticule::messages
