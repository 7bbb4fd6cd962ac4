// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/call_comparison.hpp>

#include "field_checks.hpp"
#include "plan_context.hpp"
#include "stream.hpp"
#include "workspace.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

/// The immutable table of a plan and its leased workspaces; shared by the plan and its calls in flight.
class PullState : public std::enable_shared_from_this<PullState> {
 public:
  PullState(Comm const& comm, PullDescription const& description);
  PullState(PullState const&) = delete;
  PullState& operator=(PullState const&) = delete;
  ~PullState();

  [[nodiscard]] Workspace* start(std::span<PullField const> fields, Direction direction, DeviceQueue const& given,
                                 Posting posting = Posting::all) const;
  void finish(Workspace& workspace) const;
  /// Waits for the messages of a call whose result nobody wants any more.
  void drain(Workspace& workspace) const;
  /// Without blocking: true when `finish` would not block.
  [[nodiscard]] bool test(Workspace& workspace) const;
  /// True when the memory that an adjoint adds to has not been given yet.
  [[nodiscard]] bool lacks_memory(Workspace const& workspace) const noexcept;
  void set_sources(Workspace& workspace, std::span<FieldView const> sources) const;

  [[nodiscard]] PullCounts counts() const noexcept;
  [[nodiscard]] int num_workspaces() const noexcept { return int(workspaces_.size()); }
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
  void dump_call(Workspace const& workspace) const;
  void count(Workspace const& workspace) const;
  void check_call(Workspace const& workspace, std::span<PullField const> fields) const;
  /// The workspace of an earlier call with just these fields, whose checks hold again; null where there is none.
  [[nodiscard]] Workspace* same_call(std::span<PullField const> fields, Direction direction, int device) const;
  /// Checks and leases; notifies the peers when this rank refuses the call.
  [[nodiscard]] Workspace& accept(std::span<PullField const> fields, Direction direction, int device) const;
  void refuse(Direction direction, std::string const& reason) const;
  /// Lets calls that nobody waits for any more go on; true when none is left.
  bool end_calls() const;
  /// Takes what peers send to calls that this rank refused; true when all is taken.
  [[nodiscard]] bool end_refused_calls() const;
  /// The same for some seconds; what has not ended then is cancelled.
  [[nodiscard]] bool end_calls_in_time() noexcept;
  [[nodiscard]] Workspace& make_workspace(CallShape shape, int num_views) const;
  [[nodiscard]] Workspace& lease(std::span<PullField const> fields, Direction direction, int device) const;
  [[nodiscard]] FieldView const& source_view(Workspace const& w, int field) const noexcept {
    return w.sources[std::size_t(field)];
  }
  [[nodiscard]] FieldView const& target_view(Workspace const& w, int field, int target) const noexcept {
    return w.targets[w.first_target[std::size_t(field)] + std::size_t(target)];
  }
  /// Cells to wire: images in the source (forward) or target cells (adjoint).
  [[nodiscard]] StridedTask pack_task(Workspace const& w, int field, Transfer const& transfer, std::byte* wire) const;
  [[nodiscard]] StridedTask pack_task(Workspace const& w, int field, Transfer const& transfer, std::byte* wire,
                                      Image const& image) const;
  /// Wire to cells: into the target (forward) or added to the source (adjoint).
  [[nodiscard]] StridedTask unpack_task(Workspace const& w, int field, Transfer const& transfer,
                                        std::byte const* wire) const;
  /// Cells to cells: from `source` into `target` (forward), or `target` added to `source` (adjoint).
  [[nodiscard]] StridedTask move_task(Workspace const& workspace, int field, Transfer const& transfer,
                                      Image const& source, Image const& target) const;
  [[nodiscard]] StridedTask local_task(Workspace const& workspace, int field, Transfer const& transfer) const;
  /// The peer's memory that is read in place for one transfer.
  [[nodiscard]] Image const& posted_image(Workspace const& w, int field, Message const& message,
                                          Transfer const& transfer) const;
  /// Packs what a peer has posted in memory of the host, for fields on a device, which does not read that, and gives it
  /// back.
  void bring_posted_fields(Workspace& workspace, Message& message) const;
  /// Waits until all messages for fields on a device are where its kernels read them.
  void receive_on_device(Workspace& workspace) const;
  /// What an incoming message brings for one transfer, packed or in place.
  [[nodiscard]] StridedTask arrival_task(Workspace const& workspace, int field, Message const& message,
                                         int transfer) const;
  [[nodiscard]] Image source_image(Workspace const& w, int field) const {
    return {source_view(w, field), plan_.source_box(w.shape.kinds[std::size_t(field)]).lo()};
  }
  [[nodiscard]] Image target_image(Workspace const& w, int field, int target) const {
    return {target_view(w, field, target), plan_.target_box(w.shape.kinds[std::size_t(field)], target).lo()};
  }
  [[nodiscard]] StridedTask fill_task(Workspace const& workspace, int field, Filling const& filling) const;
  /// What an adjoint adds in cells that other parts add to as well, or in none of them.
  [[nodiscard]] StridedTask addition_task(Workspace const& workspace, int field, AdditionPart const& part) const;
  /// Finds out whether peers can read the fields of a call in place.
  void find_images(Workspace& workspace) const;
  [[nodiscard]] std::span<StridedTask const> pack_tasks(Workspace const& workspace, Message& message) const;
  [[nodiscard]] std::span<StridedTask const> unpack_tasks(Workspace const& workspace, Message& message) const;
  /// The same for all messages of `set`, in `kept`.
  [[nodiscard]] KeptTasks& all_tasks(Workspace& workspace, MessageSet& set, KeptTasks& kept) const;
  [[nodiscard]] KeptTasks& local_tasks(Workspace& workspace) const;
  /// What an adjoint adds to the sources, once all messages are there.
  [[nodiscard]] KeptTasks& addition_tasks(Workspace& workspace) const;
  /// What an adjoint zeroes in the targets, apart from what is zeroed while it is read.
  [[nodiscard]] KeptTasks& zero_tasks(Workspace& workspace) const;
  void start_stream(Workspace& workspace, std::span<PullField const> fields, DeviceQueue const& queue,
                    Posting posting) const;
  /// Adds a call to those under way, and posts its messages when those of all others are posted.
  void queue_stream(Workspace& workspace) const;
  /// Collective. @throws `Conversion` on all ranks when integers on one of them do not hold a number
  void agree_on_rounding(Workspace const& workspace) const;
  /// Moves the oldest streamed call on; false when there was nothing to do.
  bool advance_streams() const;
  void finish_stream(Workspace& workspace) const;
  [[nodiscard]] bool is_under_way(Workspace const& workspace) const noexcept;
  void pack_and_send(Workspace& workspace) const;
  /// Waits until the peers have read what they read in place, or packs it for those that take long.
  void settle_in_place(Workspace& workspace) const;
  void poison(Workspace& workspace, DeviceQueue const& queue) const;
  void move_local(Workspace& workspace) const;
  /// True when cells that stay on this rank are moved by the launch that unpacks: none of them is written there, and
  /// none that is written is read.
  [[nodiscard]] bool moves_with_messages(Workspace const& workspace) const noexcept;
  /// Runs tasks where the fields lie; for a device they are only put into the queue.
  void run(Workspace const& workspace, KeptTasks& kept) const;
  /// Tasks of device fields that read or write the messages of `set`; `kept` holds them when `make` has returned.
  template <class Make>
  void run_with_messages(Workspace& w, MessageSet const& set, KeptTasks& kept, Make const& make) const;
  void unpack_on_device(Workspace& workspace) const;
  void unpack_forward(Workspace& workspace) const;
  void add_adjoint(Workspace& workspace) const;

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
  /// Streamed calls under way, in order: messages of the oldest are read, those of the others are only sent.
  mutable std::vector<Workspace*> streams_;
  mutable std::vector<std::unique_ptr<Workspace>> workspaces_;
  /// Of calls that were refused or have failed: messages of theirs are still under way.
  mutable std::vector<Workspace*> ending_;
  mutable bool gave_up_ = false;  ///< a call broke off half way: what was under way stays so
  mutable std::uint64_t num_calls_ = 0;
  mutable PullStats stats_;
  mutable std::string dump_file_;  ///< on rank 0, until the first call
};

}  // namespace graticule::detail
