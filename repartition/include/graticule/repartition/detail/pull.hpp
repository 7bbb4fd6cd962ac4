// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/detail/index_map.hpp>
#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/parity.hpp>
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

/// Memory that a plan fills: it covers `box`, and only the cells of the `needed` boxes in it are written.
struct Target {
  Box box;
  std::vector<Box> needed;
};

/// Values of the target cells after an adjoint has read them.
enum class AfterAdjoint : std::uint8_t { zero, keep };

namespace detail {
/// A field with one target, which may be itself.
struct KnownField {
  FieldView const* source;
  FieldView const* target;
  Parity parity;
  int kind;
};
}  // namespace detail

/// One kind of field of a plan: the boxes that it covers and needs on this rank, and the map from needed cells to their
/// sources.
struct PullKind {
  Box source_box;               ///< box that the source fields of this rank cover; contains its owned box
  std::vector<Target> targets;  ///< of this rank; the same number on all ranks
  IndexMap map;                 ///< needed coordinates to source coordinates; the same on all ranks
  /// Owners of the cells of fields of this kind; unset: as those of the plan. The same on all ranks.
  std::optional<Layout> owners = {};
};

/// Form of messages: whole, for minimum latency; or in segments that fit into caches, so that packing, transfer and
/// unpacking overlap and buffers are small, for large data.
enum class Messages : std::uint8_t { whole, segments };

/// Complete description of a plan; see `PullPlan`.
struct PullDescription {
  Layout source;                  ///< owners of the cells; the same on all ranks
  std::vector<PullKind> kinds;    ///< the same number on all ranks
  std::uint64_t fingerprint = 0;  ///< of other data that are the same on all ranks (widths, rules)
  AfterAdjoint after_adjoint = AfterAdjoint::keep;
  Messages messages = Messages::whole;  ///< the same on all ranks
  Index workspace_bytes = 0;            ///< with segments: maximum bytes of buffers of this rank; 0: no limit
};

/// One field of a call: its owned memory, and one view per target of its kind.
struct PullField {
  FieldView source;
  std::span<FieldView const> targets;
  Parity parity = Parity::even;
  int kind = 0;  ///< the same on all ranks
  /// With messages in segments, source and target may have different types, and values may be transformed. All targets
  /// of a field have one type.
  Update update = {};
  std::optional<Packing> source_packing = {};
  std::optional<Packing> target_packing = {};
};

/// The data movement on which all others are built: each needed cell is read from the rank that owns its image.
///
/// Immutable geometry without field data: one plan serves any number of fields, batch axes, any dtype and memory space,
/// and several calls may be in flight, as long as all ranks start them in the same order. The adjoint is the same table
/// read backwards, adding in a fixed order. Memory grows with this rank's own transfers, not with the number of ranks.
/// A rank that rejects a call (`FieldMismatch`, `AliasedFields`, ...) does not wait; ranks that need its cells get
/// `PeerRefused`, and the next calls match again. `GRATICULE_CHECK=comm` compares all calls between all ranks, and
/// turns a wait of more than `GRATICULE_STALL_SECONDS` (300, reported on stderr) into an error: docs/check_mode.md.
/// Example: source cells 0..7 on 2 ranks, target `[-1, 5)` on rank 0, periodic map: cell -1 comes from cell 7 of rank
/// 1.
class PullPlan {
 public:
  /// Collective; all checks are made here and throw on all ranks alike. Cost: messages to the peers only.
  /// @throws `ArgumentDisagreement` when the replicated parts differ among ranks, `FieldMismatch`,
  ///         `OutOfRange` when the map leaves the global box, `BadProcessGrid` for a layout of more ranks than `comm`
  ///         has, `BudgetTooSmall`, which states the minimum of `workspace_bytes`, `Unsupported` for segments whose
  ///         adjoint zeroes, `OutOfMemory` when the memory for messages cannot be allocated; `BadOption` and `BadInput`
  ///         for invalid environment variables, `CheckFailed` when cells are checked and one is wrong
  PullPlan(Comm const& comm, PullDescription const& description);

  /// Fills the targets from the sources. Returns once messages are posted; sources may be changed only after `wait()`.
  /// @throws `OutOfRange` for a kind that the plan does not have; `FieldMismatch` when views do not fit the plan or
  ///         each other, or written cells of one view share memory (strides of 0, or that overlap); `AliasedFields`
  ///         when cells that the call writes share memory with cells of another view that it reads or writes, compared
  ///         by address, per element: views may interleave, and a target may be the memory of its source where no cell
  ///         is read after it was written, as ghost cells are; `Conversion` when the target's type does not hold
  ///         the values; `OutOfMemory` when the memory for messages cannot be allocated; with `GRATICULE_CHECK=comm`
  ///         `CallDisagreement` on all ranks when their calls differ. Cost of the alias check: none for the fields of
  ///         the previous call
  Pending start(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  /// Adds to the sources the values of their images in the targets, target by target in a fixed order; then the target
  /// cells are zeroed or kept according to the description. A source without memory (`data == nullptr`) is passed to
  /// `Pending::wait_into` instead. The sum per cell is the same for every arrival order.
  Pending start_adjoint(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply_adjoint(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  /// Moves target cells back to their sources; of several images of one cell, the one on the highest rank counts. Cells
  /// without image are not written. @pre messages in segments
  Pending start_inverse(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;
  void apply_inverse(std::span<PullField const> fields, DeviceQueue const& queue = {}) const;

  [[nodiscard]] PullCounts counts() const noexcept;
  /// Number of workspaces (buffers and persistent requests) made so far; constant once every pattern of calls was seen.
  [[nodiscard]] int num_workspaces() const noexcept;
  [[nodiscard]] Comm const& comm() const noexcept;

  /// Traffic of the calls of this rank so far.
  [[nodiscard]] PullStats stats() const;
  /// Equal on all ranks and in all runs for plans with the same layout, rules and number of ranks.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  /// The path to each peer, by rank, with the reason.
  [[nodiscard]] std::vector<PeerPath> paths() const;
  [[nodiscard]] Transport transport() const noexcept;
  /// Sets the path of subsequent calls; `GRATICULE_TRANSPORT` sets it for new plans.
  /// Peers without shared memory stay point-to-point. @pre the same on all ranks, between the same calls
  void set_transport(Transport transport);

 private:
  friend class HaloPlan;
  friend class RepartitionPlan;
  /// As `start` and `apply` for host fields that are just those of an earlier call: nothing is checked anew. False
  /// where a call must be started by the other functions.
  [[nodiscard]] bool start_again(std::span<detail::KnownField const> fields, Pending& result) const;
  [[nodiscard]] bool apply_again(std::span<detail::KnownField const> fields) const;

  friend std::string plan_text(PullPlan const& plan);
  friend TuningRecord tune(PullPlan& plan, std::span<PullField const> fields, int num_calls);
  std::shared_ptr<detail::PullState> state_;
};

/// See `RepartitionPlan::tune`.
TuningRecord tune(PullPlan& plan, std::span<PullField const> fields, int num_calls = 20);

}  // namespace graticule
