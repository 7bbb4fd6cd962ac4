// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pull_table.hpp"
#include "workspace.hpp"

#include <memory>
#include <span>
#include <vector>

namespace graticule::detail {

/// The immutable table of a plan and its leased workspaces; shared by the plan and its calls in flight.
class PullState : public std::enable_shared_from_this<PullState> {
 public:
  PullState(Comm const& comm, PullDescription const& description);

  [[nodiscard]] Workspace* start(std::span<PullField const> fields, Direction direction) const;
  void finish(Workspace& workspace) const;
  /// Waits for the messages of a call whose result nobody wants any more.
  void drain(Workspace& workspace) const;
  /// True when an adjoint still needs to be told where it adds to.
  [[nodiscard]] bool lacks_memory(Workspace const& workspace) const noexcept;
  void set_sources(Workspace& workspace, std::span<FieldView const> sources) const;

  [[nodiscard]] PullCounts counts() const noexcept;
  [[nodiscard]] int num_workspaces() const noexcept { return int(workspaces_.size()); }
  [[nodiscard]] Comm const& comm() const noexcept { return comm_; }

 private:
  /// One addition of the adjoint: transfer `transfer` of message `message` of the incoming set, or a local one (-1).
  struct Addition {
    int kind;
    int peer_index;
    int transfer;
  };

  void check_field(PullField const& field, Direction direction) const;
  void check_fields(std::span<PullField const> fields, Direction direction) const;
  [[nodiscard]] Workspace& lease(std::span<PullField const> fields, Direction direction) const;
  [[nodiscard]] FieldView const& source_view(Workspace const& w, int field) const noexcept {
    return w.sources[std::size_t(field)];
  }
  [[nodiscard]] FieldView const& target_view(Workspace const& w, int field, int target) const noexcept {
    return w.targets[w.first_target[std::size_t(field)] + std::size_t(target)];
  }
  [[nodiscard]] Box const& source_box(int kind) const noexcept { return kinds_[std::size_t(kind)].source_box; }
  [[nodiscard]] Box const& target_box(int kind, int target) const noexcept {
    return kinds_[std::size_t(kind)].targets[std::size_t(target)].box;
  }
  /// Cells to wire: images in the source (forward) or target cells (adjoint).
  [[nodiscard]] StridedTask pack_task(Workspace const& w, int field, Transfer const& transfer, std::byte* wire) const;
  /// Wire to cells: into the target (forward) or added to the source (adjoint).
  [[nodiscard]] StridedTask unpack_task(Workspace const& w, int field, Transfer const& transfer,
                                        std::byte const* wire) const;
  [[nodiscard]] StridedTask local_task(Workspace const& workspace, int field, Transfer const& transfer) const;
  [[nodiscard]] StridedTask fill_task(Workspace const& workspace, int field, Filling const& filling) const;
  void pack_and_send(Workspace& workspace) const;
  void move_local(Workspace& workspace) const;
  void unpack_forward(Workspace& workspace) const;
  void add_adjoint(Workspace& workspace) const;
  void zero_targets(Workspace& workspace) const;

  Comm comm_;
  int tag_;
  std::vector<PullKind> kinds_;
  AfterAdjoint after_adjoint_;
  PullTable table_;
  std::vector<Addition> additions_;
  mutable std::vector<std::unique_ptr<Workspace>> workspaces_;
};

}  // namespace graticule::detail
