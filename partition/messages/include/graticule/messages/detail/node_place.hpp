// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/messages/detail/sum_place.hpp>
#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::messages {

/// Places in memory that all ranks of a node map.
class NodePlace final : public SumPlace {
 public:
  ~NodePlace() override;

  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] std::byte* values(int rank) const noexcept override;
  void give(Index num_values) override;
  [[nodiscard]] bool all_given() override;
  [[nodiscard]] std::vector<int> missing() const override;
  void tell_added() override;
  [[nodiscard]] bool all_added() override;

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
