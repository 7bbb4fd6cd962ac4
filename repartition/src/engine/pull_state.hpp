// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/call_comparison.hpp>

#include "call.hpp"
#include "field_checks.hpp"
#include "plan_context.hpp"
#include "segments.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

/// The table of a plan and its leases of calls; shared by the plan and its calls in flight.
class PullState : public std::enable_shared_from_this<PullState> {
 public:
  PullState(Comm const& comm, PullDescription const& description);
  PullState(PullState const&) = delete;
  PullState& operator=(PullState const&) = delete;
  ~PullState();

  [[nodiscard]] Call* start(std::span<PullField const> fields, Direction direction, DeviceQueue const& given,
                            Posting posting = Posting::all) const;
  /// As `start`, forward, for host fields that are just those of an earlier call: nothing is checked anew. Null where
  /// that is not so.
  [[nodiscard]] Call* start_again(std::span<KnownField const> fields) const;
  void finish(Call& call) const;
  /// The same right after the start.
  void complete(Call& call) const;
  /// Waits for the messages of a call whose result nobody wants any more.
  void drain(Call& call) const;
  /// Without blocking: true when `finish` would not block.
  [[nodiscard]] bool test(Call& call) const;
  void set_sources(Call& call, std::span<FieldView const> sources) const;

  [[nodiscard]] PullCounts counts() const noexcept;
  [[nodiscard]] int num_workspaces() const noexcept { return int(calls_.size()); }
  [[nodiscard]] Comm const& comm() const noexcept { return plan_.comm; }
  [[nodiscard]] std::vector<PeerPath> paths() const;
  [[nodiscard]] PullStats stats() const;
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return plan_.fingerprint; }
  [[nodiscard]] Transport transport() const noexcept { return transport_; }
  [[nodiscard]] ChosenBy chosen_by() const noexcept { return chosen_by_; }
  void set_transport(Transport transport, ChosenBy chosen_by = ChosenBy::caller);
  /// Moves the number of each cell and compares what arrives with what the maps say. Collective.
  void verify_cells() const;
  /// See `plan_text`.
  [[nodiscard]] std::string text() const;

 private:
  /// Writes the file that `GRATICULE_DUMP` asks for; its path on rank 0. Collective.
  [[nodiscard]] std::string dump_where_asked() const;
  /// Adds the first call to that file.
  void dump_call(Call const& call) const;
  void check_call(Call const& call, std::span<PullField const> fields) const;
  /// A call whose buffers may be used.
  struct Found {
    Call* call = nullptr;
    bool is_same = false;    ///< its last fields were just these
    bool has_match = false;  ///< some call would do if its buffers were free
  };
  [[nodiscard]] Found find_free(std::span<PullField const> fields, CallShape const& wanted) const;
  [[nodiscard]] Call& lease(std::span<PullField const> fields, CallShape wanted, Found found) const;
  [[nodiscard]] Call& make_call(CallShape shape, int num_views) const;
  /// Checks and leases; notifies the peers when this rank refuses the call.
  [[nodiscard]] Call& accept(std::span<PullField const> fields, Direction direction, int device) const;
  void refuse(Direction direction, std::string const& reason) const;
  /// Lets calls that nobody waits for any more go on; true when none is left.
  bool end_calls() const;
  /// The same for some seconds; what has not ended then is cancelled.
  [[nodiscard]] bool end_calls_in_time() noexcept;
  /// After a failure half way: the call is not leased again.
  void give_up(Call& call) const noexcept;
  /// Throws `StalePlan` when the communicator was renewed since.
  void check_generation() const;
  /// True when messages on the communicator may still come.
  [[nodiscard]] bool is_alive() const;

  PlanContext plan_;
  int generation_;  ///< of the communicator when the plan was made
  mutable messages::CallComparison comparison_;
  FieldChecks checks_;
  Transport transport_;
  ChosenBy chosen_by_;
  mutable PullStats stats_;
  mutable SegmentQueue segments_;
  mutable std::vector<std::unique_ptr<Call>> calls_;
  /// Of calls that were refused or have failed: messages of theirs are still under way.
  mutable std::vector<Call*> ending_;
  mutable bool gave_up_ = false;  ///< a call broke off half way: what was under way stays so
  mutable std::uint64_t num_calls_ = 0;
  mutable Call* repeatable_ = nullptr;  ///< the last one that `start_again` may repeat
  mutable std::string dump_file_;       ///< on rank 0, until the first call
};

}  // namespace graticule::detail
