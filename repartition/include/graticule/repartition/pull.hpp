// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/index_map.hpp>
#include <graticule/repartition/pending.hpp>
#include <graticule/repartition/stats.hpp>
#include <graticule/repartition/transport.hpp>
#include <graticule/repartition/update.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule {

struct TuningRecord;

/// Memory that a plan fills: it covers `box`, and the cells of the `needed` boxes in it are written, no others.
struct Target {
  Box box;
  std::vector<Box> needed;
};

/// What an adjoint leaves in the target cells that it has read.
enum class AfterAdjoint : std::uint8_t { zero, keep };

/// How a field behaves at a fold (a pole): components of a horizontal vector are odd and change sign.
enum class Parity : std::uint8_t { even, odd };

/// One kind of field of a plan: what it covers and needs on this rank, and where its needed cells come from.
struct PullKind {
  Box source_box;               ///< what the source fields of this rank cover; contains its owned box
  std::vector<Target> targets;  ///< of this rank; the same number on all ranks
  IndexMap map;                 ///< needed coordinates to source coordinates; the same on all ranks
};

/// How messages travel: each in one piece, for the least latency; or in segments of a size that stays in caches, so that
/// packing, moving and unpacking overlap and buffers are small, for much data.
enum class Messages : std::uint8_t { whole, segments };

/// All that a plan is made of; see `PullPlan`.
struct PullDescription {
  Layout source;                  ///< who owns which cell; the same on all ranks
  std::vector<PullKind> kinds;    ///< the same number on all ranks
  std::uint64_t fingerprint = 0;  ///< of what else is the same on all ranks (widths, rules)
  AfterAdjoint after_adjoint = AfterAdjoint::keep;
  Messages messages = Messages::whole;  ///< the same on all ranks
  Index workspace_bytes = 0;            ///< with segments: most bytes of buffers of this rank; 0: as many as it takes
};

/// One field of a call: its owned memory, and one view for each target of its kind.
struct PullField {
  FieldView source;
  std::span<FieldView const> targets;
  Parity parity = Parity::even;
  int kind = 0;  ///< the same on all ranks
  /// With messages in segments, source and target may have different types, and values may change on their way. All
  /// targets of a field have one type.
  Update update = {};
  std::optional<IntegerPacking> source_packing = {};
  std::optional<IntegerPacking> target_packing = {};
};

/// What one call with a field of each kind moves on this rank; bytes are cells times the bytes of one cell of the field.
struct PullCounts {
  int num_send_peers = 0;
  int num_receive_peers = 0;
  Index send_cells = 0;     ///< to other ranks
  Index receive_cells = 0;  ///< from other ranks
  Index local_cells = 0;    ///< from this rank to itself
  Index filled_cells = 0;   ///< from constants
};

/// Every data movement of the engine: each needed cell is read from the rank that owns its image.
///
/// Immutable geometry without field data: one plan serves any number of fields, batch axes, any dtype and memory space,
/// and several calls may be in flight, as long as all ranks start them in the same order. Its adjoint is the same table
/// read backwards, adding in a fixed order. Memory grows with this rank's own transfers, not with the number of ranks.
/// A rank that refuses a call (`FieldMismatch`, `AliasedFields`, ...) waits for nobody; those that need its cells get `PeerRefused`, and the
/// next calls pair again. `GRATICULE_CHECK=comm` compares all calls among all ranks, and makes a wait of more than
/// `GRATICULE_STALL_SECONDS` (300, named on stderr) an error: docs/check_mode.md.
/// Example: source cells 0..7 on 2 ranks, target `[-1, 5)` on rank 0, periodic map: cell -1 comes from cell 7 of rank 1.
class PullPlan {
 public:
  /// Collective; all checks are made here and throw on all ranks alike. Cost: messages to the peers only.
  /// @throws `PlanDisagreement` when the replicated parts differ among ranks, `SourceTooSmall`, `TargetTooSmall`,
  ///         `MapOutside` when the map leaves the global box, `TooFewRanks` for a layout of more ranks than `comm` has,
  ///         `BudgetTooSmall`, which names the least `workspace_bytes`, `AfterAdjoint` for segments whose adjoint zeroes,
  ///         `NodeMemory` when there is none for messages; `BadTransport`, `BadCheck`, `BadStallSeconds`, `BadGpuMpi` and
  ///         `TuningFile` for what the environment asks, `CellCheck` when it asks for checks and a cell is wrong
  PullPlan(Comm const& comm, PullDescription const& description);

  /// Fills the targets from the sources. Returns once messages are posted; sources may be changed after `wait()` only.
  /// @throws `BadKind` for a kind that the plan does not have; `FieldMismatch` when views do not fit the plan or each other, or
  ///         written cells of one view share memory (strides of 0, or that overlap); `AliasedFields` when cells that the
  ///         call writes share memory with cells of another view that it reads or writes, by their addresses, to the
  ///         element: views may interleave, and a target may be the memory of its source where no cell is read after it
  ///         was written, as ghost cells are; `Conversion` when values cannot become the target's; `NodeMemory` when there
  ///         is none for messages; with `GRATICULE_CHECK=comm` `CallDisagreement` on all ranks when their calls differ.
  ///         Cost of the search: none for fields of the call before
  Pending start(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  /// Adds to the sources what their images in the targets hold, target by target in a fixed order; then the target cells
  /// are zeroed or kept as the description says. A source without memory (`data == nullptr`) is given to
  /// `Pending::wait_into` instead. The sum per cell is the same for every arrival order.
  Pending start_adjoint(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply_adjoint(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  /// Puts target cells back where they came from; of several images of one cell, that on the highest rank counts. Cells
  /// without image are left alone. @pre messages in segments
  Pending start_inverse(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply_inverse(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  [[nodiscard]] PullCounts counts() const noexcept;
  /// Number of workspaces (buffers and persistent requests) made so far; constant once every pattern of calls was seen.
  [[nodiscard]] int num_workspaces() const noexcept;
  [[nodiscard]] Comm const& comm() const noexcept;

  /// What the calls of this rank have moved so far.
  [[nodiscard]] PullStats stats() const;
  /// Equal on all ranks and in all runs for plans of the same layout, rules and number of ranks.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  /// The path to each peer, by rank, and why it was taken.
  [[nodiscard]] std::vector<PeerPath> paths() const;
  [[nodiscard]] Transport transport() const noexcept;
  /// Chooses the path of the calls that start from now on; `GRATICULE_TRANSPORT` says it for new plans.
  /// Peers without shared memory stay point-to-point. @pre the same on all ranks, between the same calls
  void set_transport(Transport transport);

 private:
  friend std::string plan_text(PullPlan const& plan);
  friend TuningRecord tune(PullPlan& plan, std::span<PullField const> fields, int num_calls);
  std::shared_ptr<detail::PullState> state_;
};

}  // namespace graticule
