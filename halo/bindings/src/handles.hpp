// SPDX-License-Identifier: BSD-3-Clause
// What the opaque handles hold.
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/graticule.h>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/cell_sum.hpp>
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/block_grid.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "errors.hpp"
#include "last_fields.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::c {

template <>
struct Object<gr_comm> {
  static constexpr char const* name = "gr_comm";
  explicit Object(Comm of) : comm(std::move(of)) {}
  Comm comm;
};

template <>
struct Object<gr_teams> {
  static constexpr char const* name = "gr_teams";
  explicit Object(Teams of) : teams(std::move(of)) {}
  Teams teams;
};

template <>
struct Object<gr_cuts> {
  static constexpr char const* name = "gr_cuts";
  explicit Object(Cuts of) : cuts(std::move(of)) {}
  Cuts cuts;
};

template <>
struct Object<gr_layout> {
  static constexpr char const* name = "gr_layout";
  explicit Object(Layout of) : layout(std::move(of)) {}
  explicit Object(BlockGrid of) : layout(of.layout()), blocks(std::move(of)) {}
  /// For what does not know blocks. @throws `Unsupported`
  [[nodiscard]] Layout const& of_boxes(char const* argument) const {
    if (blocks)
      throw Error("Unsupported", argument_text(argument) +
                                     " has several blocks per rank, which this call does not support;" +
                                     " move fields to a layout of one box per rank (gr_repartition_apply_inverse)");
    return layout;
  }
  Layout layout;                    ///< of several blocks per rank: in coordinates (number of the block, place in it)
  std::optional<BlockGrid> blocks;  ///< several blocks per rank
};

template <>
struct Object<gr_halo> {
  static constexpr char const* name = "gr_halo";
  explicit Object(HaloPlan of) : plan(std::move(of)) {}
  HaloPlan plan;
  mutable LastFields last;
};

template <>
struct Object<gr_node_memory> {
  static constexpr char const* name = "gr_node_memory";
  Object(NodeMemory of, std::int64_t bytes) : memory(std::move(of)), num_bytes(bytes) {}
  NodeMemory memory;
  std::int64_t num_bytes;
};

template <>
struct Object<gr_halo_depth> {
  static constexpr char const* name = "gr_halo_depth";
  Object(HaloDepth of, HaloPlan const& plan, int of_kind, Parity of_parity)
      : depth(std::move(of)), owned(plan.owned()), local(plan.local(of_kind)), kind(of_kind), parity(of_parity) {}
  HaloDepth depth;
  Box owned;
  Box local;
  int kind;
  Parity parity;
};

template <>
struct Object<gr_repartition> {
  static constexpr char const* name = "gr_repartition";
  explicit Object(RepartitionPlan of) : plan(std::move(of)) {}
  Object(RepartitionPlan of, BlockGrid to, int of_rank) : plan(std::move(of)), blocks(std::move(to)), rank(of_rank) {}
  /// What fields on the new layout cover; those on blocks cover all of the rank's.
  [[nodiscard]] std::vector<Box> target_boxes() const {
    return blocks ? std::vector<Box>{blocks->layout().owned(rank)} : plan.target_boxes();
  }
  RepartitionPlan plan;
  std::optional<BlockGrid> blocks;
  int rank = 0;
};

template <>
struct Object<gr_zonal> {
  static constexpr char const* name = "gr_zonal";
  explicit Object(AxisSumPlan of) : plan(std::move(of)) {}
  AxisSumPlan plan;
};

template <>
struct Object<gr_area_sum> {
  static constexpr char const* name = "gr_area_sum";
  Object(Comm of, Box box, std::variant<AreaSum, CellSum> adds)
      : comm(std::move(of)), owned(std::move(box)), sum(std::move(adds)) {}
  Comm comm;
  Box owned;
  std::variant<AreaSum, CellSum> sum;
};

template <>
struct Object<gr_pending> {
  static constexpr char const* name = "gr_pending";
  explicit Object(std::variant<Pending, AxisSumPlan::Running> of) : call(std::move(of)) {}
  std::variant<Pending, AxisSumPlan::Running> call;
};

template <>
struct Object<gr_attributes> {
  static constexpr char const* name = "gr_attributes";
  std::vector<Attribute> list;
};

template <>
struct Object<gr_file> {
  static constexpr char const* name = "gr_file";
  Object(Comm of, std::variant<FieldFile, FieldSeries> opened) : comm(std::move(of)), file(std::move(opened)) {}
  Comm comm;
  std::variant<FieldFile, FieldSeries> file;
};

template <>
struct Object<gr_writer> {
  static constexpr char const* name = "gr_writer";
  Object(Comm of, FieldWriter writes) : comm(std::move(of)), writer(std::move(writes)) {}
  Comm comm;
  FieldWriter writer;
};

template <>
struct Object<gr_checkpoints> {
  static constexpr char const* name = "gr_checkpoints";
  Object(Comm of, char const* folder, CheckpointOptions const& options)
      : comm(std::move(of)), store(comm, folder, options) {}
  Comm comm;
  CheckpointStore store;
};

template <>
struct Object<gr_checkpoint_writer> {
  static constexpr char const* name = "gr_checkpoint_writer";
  Object(Comm of, CheckpointWriter writes) : comm(std::move(of)), writer(std::move(writes)) {}
  Comm comm;
  CheckpointWriter writer;
};

template <>
struct Object<gr_checkpoint> {
  static constexpr char const* name = "gr_checkpoint";
  Object(Comm of, Checkpoint reads) : comm(std::move(of)), checkpoint(std::move(reads)) {}
  Comm comm;
  Checkpoint checkpoint;
  bool converts = false;
};

}  // namespace graticule::c
