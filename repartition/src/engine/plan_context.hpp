// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_link.hpp>
#include <graticule/repartition/detail/pull.hpp>

#include "table/addition_parts.hpp"
#include "table/last_images.hpp"
#include "table/pull_table.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::detail {

/// Forward fills targets from sources; adjoint adds targets to sources, and inverse puts them back.
enum class Direction : std::uint8_t { forward, adjoint, inverse };

/// Who chose the paths, for `paths()`.
enum class ChosenBy : std::uint8_t { caller, tuning_file, measurement };

/// What the environment asks of new plans.
struct PlanEnvironment {
  Transport transport = Transport::automatic;
  ChosenBy chosen_by = ChosenBy::caller;
  bool dump = false;
};

/// One addition of the adjoint: transfer `transfer` of message `peer_index` of the incoming set, or a local one (-1).
struct Addition {
  int kind;
  int peer_index;
  int transfer;
};

/// All of them, in the order in which terms are added.
struct Additions {
  std::vector<Addition> list;
  bool independent = false;  ///< no two add to one cell
  bool cover_owned = false;  ///< every owned cell has one image
  /// Of dependent ones, where they were asked for.
  mutable std::optional<std::vector<AdditionPart>> parts = {};
};

/// How the messages of a plan travel in segments.
struct SegmentRules {
  std::size_t segment_bytes;  ///< longest segment; the same on all ranks
  int window;                 ///< slots of each message when not all of it is packed at once
  Index budget;               ///< bytes of slots of this rank; 0: as much as it takes
  /// Where an inverse finds several images of a cell; found at the first inverse.
  mutable std::optional<LastImages> last_images = {};
};

/// What all calls of a plan share and none changes.
struct PlanContext {
  /// Collective. @throws as `PullPlan`
  PlanContext(Comm const& comm, PullDescription const& description);
  PlanContext(PlanContext const&) = delete;
  PlanContext& operator=(PlanContext const&) = delete;

  Comm comm;
  int tag;
  std::string name;  ///< for texts; empty: none
  std::vector<PullKind> kinds;
  AfterAdjoint after_adjoint;
  std::uint64_t fingerprint;
  PullTable table;
  Box global;
  Box owned;
  std::vector<Box> owned_of = {};       ///< by kind
  std::vector<Index> local_cells = {};  ///< by kind, copied within this rank
  PlanEnvironment environment;
  std::unique_ptr<messages::NodeLinks> links;
  bool mpi_reads_device;   ///< packed cells of device fields go to MPI as they are
  bool peers_read_device;  ///< packed cells of device fields stay there for peers on the node
  Additions additions = {};
  std::optional<SegmentRules> segments = {};  ///< unset: messages are whole
  bool clears_while_reading = false;          ///< an adjoint zeroes what it reads

  [[nodiscard]] Box const& source_box(int kind) const noexcept { return kinds[std::size_t(kind)].source_box; }
  [[nodiscard]] Box const& target_box(int kind, int target) const noexcept {
    return kinds[std::size_t(kind)].targets[std::size_t(target)].box;
  }
  [[nodiscard]] std::vector<AdditionPart> const& parts_of_additions() const;
  /// `plan 7`, with its name.
  [[nodiscard]] std::string label() const;
};

}  // namespace graticule::detail
