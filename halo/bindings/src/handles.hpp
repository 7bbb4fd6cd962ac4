// SPDX-License-Identifier: BSD-3-Clause
// What the opaque handles hold.
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/graticule.h>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "errors.hpp"
#include "last_fields.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::c {

/// Counts the handles of one type that exist.
template <class T>
struct Counted {
  Counted() noexcept { ++live; }
  Counted(Counted const&) = delete;
  Counted& operator=(Counted const&) = delete;
  ~Counted() { --live; }
  inline static std::atomic<int> live{0};
};

/// The handles that exist, such as `2 gr_layout, 1 gr_halo`; empty when there are none.
[[nodiscard]] std::string live_handles();

/// Makes a handle and passes it to the caller.
template <class T, class... Args>
void give(T** out, Args&&... args) {
  *out = new T(std::forward<Args>(args)...);
}

}  // namespace graticule::c

struct gr_comm : graticule::c::Counted<gr_comm> {
  explicit gr_comm(graticule::Comm of) : comm(std::move(of)) {}
  graticule::Comm comm;
};

struct gr_teams : graticule::c::Counted<gr_teams> {
  explicit gr_teams(graticule::Teams of) : teams(std::move(of)) {}
  graticule::Teams teams;
};

struct gr_cuts : graticule::c::Counted<gr_cuts> {
  explicit gr_cuts(graticule::Cuts of) : cuts(std::move(of)) {}
  graticule::Cuts cuts;
};

struct gr_layout : graticule::c::Counted<gr_layout> {
  explicit gr_layout(graticule::Layout of) : layout(std::move(of)) {}
  graticule::Layout layout;
};

struct gr_halo : graticule::c::Counted<gr_halo> {
  explicit gr_halo(graticule::HaloPlan of) : plan(std::move(of)) {}
  graticule::HaloPlan plan;
  mutable graticule::c::LastFields last;
};

struct gr_node_memory : graticule::c::Counted<gr_node_memory> {
  gr_node_memory(graticule::NodeMemory of, std::int64_t bytes) : memory(std::move(of)), num_bytes(bytes) {}
  graticule::NodeMemory memory;
  std::int64_t num_bytes;
};

struct gr_halo_depth : graticule::c::Counted<gr_halo_depth> {
  gr_halo_depth(graticule::HaloDepth of, graticule::HaloPlan const& plan, int of_kind, graticule::Parity of_parity)
      : depth(std::move(of)), owned(plan.owned()), local(plan.local(of_kind)), kind(of_kind), parity(of_parity) {}
  graticule::HaloDepth depth;
  graticule::Box owned;
  graticule::Box local;
  int kind;
  graticule::Parity parity;
};

struct gr_repartition : graticule::c::Counted<gr_repartition> {
  explicit gr_repartition(graticule::RepartitionPlan of) : plan(std::move(of)) {}
  graticule::RepartitionPlan plan;
};

struct gr_zonal : graticule::c::Counted<gr_zonal> {
  explicit gr_zonal(graticule::AxisSumPlan of) : plan(std::move(of)) {}
  graticule::AxisSumPlan plan;
};

struct gr_area_sum : graticule::c::Counted<gr_area_sum> {
  gr_area_sum(graticule::Comm of, graticule::Box box, graticule::AreaSum adds)
      : comm(std::move(of)), owned(std::move(box)), sum(std::move(adds)) {}
  graticule::Comm comm;
  graticule::Box owned;
  graticule::AreaSum sum;
};

struct gr_pending : graticule::c::Counted<gr_pending> {
  explicit gr_pending(std::variant<graticule::Pending, graticule::AxisSumPlan::Running> of) : call(std::move(of)) {}
  std::variant<graticule::Pending, graticule::AxisSumPlan::Running> call;
};

struct gr_attributes : graticule::c::Counted<gr_attributes> {
  std::vector<graticule::Attribute> list;
};

struct gr_file : graticule::c::Counted<gr_file> {
  gr_file(graticule::Comm of, std::variant<graticule::FieldFile, graticule::FieldSeries> opened)
      : comm(std::move(of)), file(std::move(opened)) {}
  graticule::Comm comm;
  std::variant<graticule::FieldFile, graticule::FieldSeries> file;
};

struct gr_writer : graticule::c::Counted<gr_writer> {
  gr_writer(graticule::Comm of, graticule::FieldWriter writes) : comm(std::move(of)), writer(std::move(writes)) {}
  graticule::Comm comm;
  graticule::FieldWriter writer;
};

struct gr_checkpoints : graticule::c::Counted<gr_checkpoints> {
  gr_checkpoints(graticule::Comm of, char const* folder, graticule::CheckpointOptions const& options)
      : comm(std::move(of)), store(comm, folder, options) {}
  graticule::Comm comm;
  graticule::CheckpointStore store;
};

struct gr_checkpoint_writer : graticule::c::Counted<gr_checkpoint_writer> {
  gr_checkpoint_writer(graticule::Comm of, graticule::CheckpointWriter writes)
      : comm(std::move(of)), writer(std::move(writes)) {}
  graticule::Comm comm;
  graticule::CheckpointWriter writer;
};

struct gr_checkpoint : graticule::c::Counted<gr_checkpoint> {
  gr_checkpoint(graticule::Comm of, graticule::Checkpoint reads) : comm(std::move(of)), checkpoint(std::move(reads)) {}
  graticule::Comm comm;
  graticule::Checkpoint checkpoint;
};
