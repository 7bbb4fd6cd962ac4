// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>
#include <graticule/partition/indices.hpp>

#include <mpi.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule {

namespace detail {
struct CommState;
}

/// A private duplicate of a communicator that returns errors and knows the node of each rank.
///
/// Copies share the duplicate; the last one frees it (collective; left alone when MPI is already finalised). The
/// communicator passed in is never changed. All ranks make the calls on one `Comm` in the same order.
///
/// A wait that lasts too long is reported with its call (`StallRule`). It ends with the error `PeerFailed` when a rank
/// has given up (`announce_failure`) or ended. After such an error the ranks are in different calls: call `renew`.
class Comm {
 public:
  /// A rank of the communicator that has given up, with its error text.
  struct Failure {
    int rank = 0;
    Fault fault = Fault::program;
    std::string text;
  };

  /// Duplicates `parent`. Collective. @throws `WrongState`, `MpiError`, and a usage error where
  ///         `GRATICULE_CHECK`, `GRATICULE_STALL_SECONDS` or `GRATICULE_STALL_LIMIT` has an invalid value
  explicit Comm(MPI_Comm parent);
  /// Duplicate of `MPI_COMM_WORLD`.
  [[nodiscard]] static Comm world() { return Comm(MPI_COMM_WORLD); }

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int num_ranks() const noexcept;
  /// Number of ranks that share this rank's memory, and this rank's position among them.
  [[nodiscard]] int num_node_ranks() const noexcept;
  [[nodiscard]] int node_rank() const noexcept;
  [[nodiscard]] int num_nodes() const noexcept;
  /// True when `rank` shares this rank's memory; also for this rank itself.
  [[nodiscard]] bool on_this_node(int rank) const noexcept;
  [[nodiscard]] MPI_Comm handle() const noexcept;

  /// Ranks with equal `color` form a new communicator, ordered by `key`. Collective.
  /// @throws `WrongState` on a rank whose color is `MPI_UNDEFINED`, and on that rank only
  [[nodiscard]] Comm split(int color, int key) const;

  /// A message tag that no other plan on this communicator uses at the same time. All ranks call it in the same order.
  [[nodiscard]] int next_tag() const;

  /// Element-wise over all ranks, in place; the result is the same on all ranks. Collective.
  void sum(std::span<double> values) const;
  void sum(std::span<Index> values) const;
  void max(std::span<Index> values) const;
  void max(std::span<double> values) const;
  /// `value` of each rank, in order of ranks. Collective.
  [[nodiscard]] std::vector<Index> gather_to_all(Index value) const;
  /// Gathers `bytes` at `own` of each rank into `all`, in order of ranks; `own` may be its part of `all`. Collective.
  void gather_to_all(void const* own, Index bytes, void* all) const;
  /// `text` of rank `root` on all ranks. Collective.
  [[nodiscard]] std::string broadcast(std::string const& text, int root) const;
  void barrier() const;

  /// Reduces `count` elements of any MPI type over all ranks, in place, to the same bits on all ranks. Collective.
  /// Reduce and broadcast: the MPI standard only recommends that an all-reduce gives all ranks the same bits.
  void reduce(void* data, Index count, MPI_Datatype type, MPI_Op op) const;
  /// Broadcasts `bytes` of rank `root` to all ranks, in place. Collective.
  void broadcast(void* data, Index bytes, int root) const;

  /// True when any node has more ranks than cores, or by `GRATICULE_WAIT=sleep` of any rank; the same on all ranks and
  /// in all communicators split off. MPI libraries poll, so a waiting rank would take the core from the rank that it
  /// waits for. All waits of Graticule then leave the core between polls.
  [[nodiscard]] bool oversubscribed() const noexcept;
  /// Blocks until `request` has completed. After an error it is still in progress: its memory must stay valid.
  /// `what` completes the report of a stalled wait: `rank 0 waits WHAT`.
  void wait(MPI_Request& request, char const* what = "for a message") const;

  /// A rank that has given up its calls on this communicator, or has ended; none without a failure. Does not block.
  [[nodiscard]] std::optional<Failure> failed_peer() const;
  /// Makes the communicator usable again after an error that some ranks had in the middle of a call.
  ///
  /// Collective, independently of earlier calls: every rank calls it, whether it had the error or not. All copies get a
  /// new duplicate, tags restart, and announced failures are cleared. Operations in progress are abandoned, and their
  /// memory is never freed. Plans made before are rejected as `StalePlan`: make them again. Communicators that were
  /// split off are renewed separately. @throws `PeerFailed` when a rank has ended, `StalledExchange`
  void renew() const;
  /// Number of renewals.
  [[nodiscard]] int generation() const noexcept;

 private:
  friend struct detail::CommState;
  std::shared_ptr<detail::CommState> state_;
};

/// Runs `action` on every rank: it returns on all ranks or throws on all; with several failures, that of the lowest
/// rank counts.
///
/// Collective. A failing rank rethrows its exception; all others throw an `Error` with the same rule and fault, and
/// with the message prefixed by `rank r:`. Cost: one all-reduce of 1 integer; one additional broadcast on failure.
/// @pre `action` itself makes no collective call that a failing rank would miss
void run_agreed(Comm const& comm, std::function<void()> const& action);

}  // namespace graticule
