// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/messages/detail/sum_place.hpp>
#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace graticule::messages {

/// The part of a sum that one rank forms.
struct SumPart {
  Index begin = 0;  ///< of the part, among the values of the sum
  Index count = 0;
  std::span<std::byte* const> terms;    ///< by rank: its values of the part
  std::span<std::byte* const> results;  ///< where the sum belongs; may be terms
};

/// Forms a part from its terms, in the order of ranks. It applies weights, divisors and wider types itself: values are
/// sent as they are.
using AddPart = std::function<void(SumPart const&)>;

/// Memory of some bytes in which a message may arrive at once.
using AllocateTerms = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// Adds the values of all ranks in order of ranks, without blocking: the same bits on all ranks, for every transport
/// and order of arrival.
///
/// Each rank forms one part and gives it to all. Values travel over lanes, or, after `share_on_node`, through memory
/// that all ranks map: each rank publishes its values, the owner of a part reads it in all places and writes the result
/// to all. Example: ranks 0 and 1 give {1, 2} and {3, 4}. Rank 0 forms the first number, rank 1 the second; both get
/// {4, 6}. Cost for P ranks and n bytes: 2 (P - 1) messages and 2 n (P - 1) / P bytes sent per rank, and as much memory
/// as one part from each other rank; on a node no message, and one copy of n bytes unless the values lie in
/// `shared_memory`.
///
/// Small parts of more than `most_direct_ranks` ranks travel by way of a relay, with the same bits: the ranks stand in
/// about sqrt(P) rows, each sends one message per row, and the relay there passes the terms of its column on to the
/// owners in its row. Results return the same way. Cost then: about 4 (sqrt(P) - 1) messages and up to 3 n bytes sent
/// per rank, and memory for 3 n bytes. Example: 256 ranks send 60 messages each instead of 510.
class OrderedSum {
 public:
  /// Of up to as many ranks, each sends its terms to their owners itself.
  static constexpr int most_direct_ranks = 16;
  /// Longest part that travels by way of a relay: two transfers of it cost as much as the messages that they save.
  static constexpr Index most_relayed_bytes = 8192;

  /// Takes a tag: same calls on all ranks.
  OrderedSum(Comm comm, Index value_bytes);
  OrderedSum(OrderedSum const&) = delete;
  OrderedSum& operator=(OrderedSum const&) = delete;
  OrderedSum(OrderedSum&&) noexcept;
  OrderedSum& operator=(OrderedSum&&) noexcept;
  /// During a sum over lanes the memory of the values must stay valid until the process ends (`in_messages`).
  ~OrderedSum();

  /// Sums over `comm` of up to as many values as given use memory of the node from now on, where all ranks share it.
  /// Collective, the same sums on all ranks. @throws `BadOption` on all ranks @pre none is under way
  /// Cost: that of `NodePlace::make`; memory for the values, as long as the sums live
  static void share_on_node(Comm const& comm, std::vector<std::pair<OrderedSum*, Index>> const& sums);

  /// The same through `place`, which all ranks have. @pre no sum is under way; if the memory of `place` is not host
  /// memory, the values lie there already
  void share(std::unique_ptr<SumPlace> place);

  /// Values of other ranks arrive in this memory from now on: for values outside of host memory, such as on a device
  /// that MPI reads. `AddPart` returns when its result can be sent. Such terms go straight to their
  /// owners. @pre all ranks call it, or none
  void receive_in(AllocateTerms allocate) { allocate_ = std::move(allocate); }

  /// Begins a sum. Sums of one object come in the same order on all ranks. On one rank nothing happens.
  /// @param values contiguous; not to be touched before the end
  void start(std::byte* values, Index count, AddPart add);
  /// Proceeds with what has arrived. True at the end, when `values` hold the sum.
  /// @throws `StructureDisagreement` where a rank of the node has given another number of values
  bool advance();

  /// Memory of the node for this rank's values, which are not copied when they lie there, and how many have room. Null
  /// and 0 where there is none.
  [[nodiscard]] std::byte* shared_memory() const noexcept;
  [[nodiscard]] Index room() const noexcept;

  /// Ranks that this one waits for: relays, where terms or results come by way of them.
  [[nodiscard]] std::vector<int> missing() const;
  /// MPI or devices of other ranks use the values of the sum that is under way.
  [[nodiscard]] bool in_messages() const noexcept {
    if (stage_ == Stage::giving || stage_ == Stage::taking) return !place_->is_free_after_failures();
    return stage_ != Stage::idle;
  }
  /// The traffic of this rank over lanes for a sum of `count` values.
  [[nodiscard]] MessageCounts traffic(Index count) const;
  /// Traffic of the latest sum; of one on the node, what lanes would have sent.
  [[nodiscard]] MessageCounts const& sent() const noexcept { return sent_; }
  [[nodiscard]] Comm const& comm() const noexcept { return comm_; }
  /// The first value of the part of `rank`, of a sum of `count` values.
  [[nodiscard]] Index part_begin(Index count, int rank) const noexcept;

 private:
  enum class Stage : std::uint8_t { idle, scattering, gathering, giving, taking, relaying, returning };
  struct Relays;

  [[nodiscard]] bool has_arrived();
  [[nodiscard]] bool uses_relays(Index count) const noexcept;
  void scatter();
  void send_to_relays();
  void pass_terms_on();
  void find_relayed_terms();
  void form_received();
  void pass_results_on();
  void give();
  void form_given();
  void take_given();
  [[nodiscard]] std::byte* at(std::byte* values, int rank) const noexcept;
  [[nodiscard]] Index bytes_of(int rank) const noexcept;
  void copy_other_parts(std::byte* to, std::byte const* from) const;
  /// Bytes of the parts of a row.
  [[nodiscard]] Index bytes_of_row(int row) const noexcept;

  Comm comm_;
  Index value_bytes_;
  int tag_;
  Stage stage_ = Stage::idle;
  std::byte* values_ = nullptr;
  Index num_values_ = 0;
  AddPart add_;
  AllocateTerms allocate_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<Relays> relays_;    ///< of the sum under way; none where terms go straight to their owners
  std::vector<std::byte*> received_;  ///< by rank: its values of this rank's part
  std::unique_ptr<SumPlace> place_;
  MessageCounts sent_;
};

}  // namespace graticule::messages
