// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::messages {

/// One rank's values on their way into a sum, in memory that all ranks of its team map, and the places of the others.
///
/// Each rank writes its values and gives them. When all have, the owner of a part reads it in all places, writes the
/// sum over it in all places, and says so. When all owners have, each rank reads its own place. Nothing of that waits.
/// From then on nobody looks at the place until it is given again, so it can be freed or written at once. Example:
/// ranks 0 and 1 give {1, 2} and {3, 4}. Rank 0 owns the first number: both places hold {4, .}. Rank 1 owns the second:
/// both hold {4, 6}.
class NodePlace {
 public:
  NodePlace(NodePlace const&) = delete;
  NodePlace& operator=(NodePlace const&) = delete;
  /// @pre no sum is under way
  ~NodePlace();

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Aligned to a cache line.
  [[nodiscard]] std::byte* values(int rank) const noexcept;

  /// @param num_values the same on all ranks
  void give(Index num_values);
  /// True when all ranks have given theirs. @throws `StructureDisagreement` where a rank has given another number of
  /// values
  [[nodiscard]] bool all_given();
  /// Ranks that have not given theirs yet.
  [[nodiscard]] std::vector<int> missing() const;
  /// This rank has written its part of the sum in all places.
  void tell_added();
  /// True when all others have.
  [[nodiscard]] bool all_added() const noexcept;

  /// A place for each size, on each rank; none where the ranks of `team` cannot all share memory, or were told not to
  /// (`GRATICULE_TRANSPORT=p2p`). Collective. @param bytes the same on all ranks @throws `BadOption` on all ranks
  /// Cost: a gather of 56 bytes a place and two all-reduces of one integer, where all ranks are on one node.
  [[nodiscard]] static std::vector<std::unique_ptr<NodePlace>> make(Comm const& team,
                                                                    std::vector<std::size_t> const& bytes);

 private:
  struct Head;

  NodePlace(int rank, std::size_t bytes, NodeBlock const& block) : rank_(rank), bytes_(bytes), block_(block) {}
  [[nodiscard]] static std::unique_ptr<NodePlace> allocate(int rank, std::size_t bytes);
  [[nodiscard]] Head& head(int rank) const noexcept;

  int rank_;
  std::size_t bytes_;
  NodeBlock block_;
  std::vector<std::byte*> places_;  ///< by rank: a head, then values
  std::uint64_t number_ = 0;        ///< of the sum under way; begins where no other place's numbers are
  Index num_values_ = 0;
  std::size_t num_given_ = 0;  ///< ranks, from the first on
};

}  // namespace graticule::messages
