// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/pull.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace graticule::bench {

/// What `dump_plan` wrote: geometry of every rank, and the fields of the last call.
struct PlanFile {
  struct Needed {
    Box box;
    std::vector<Piece> pieces;
  };
  struct FilledTarget {
    Box box;
    std::vector<Needed> needed;
  };
  struct Kind {
    Box source;
    std::vector<FilledTarget> targets;
  };
  struct Rank {
    Box owned;
    std::vector<Kind> kinds;
  };
  struct Field {
    int kind = 0;
    DType dtype = DType::f64;
    Indices batch;
    Parity parity = Parity::even;
  };

  std::string name;
  std::string fingerprint;
  Indices extents;
  AfterAdjoint after_adjoint = AfterAdjoint::keep;
  std::vector<Rank> ranks;
  std::vector<Field> fields;  ///< one f64 field of each kind when no call was recorded
  nlohmann::json tables;      ///< the ranks as they stand in the file

  [[nodiscard]] int num_kinds() const noexcept { return int(ranks.front().kinds.size()); }
};

/// The plan for a run of `num_ranks`. What is too large is refused before any memory is taken for it.
/// @throws `BadInput`, which names the file and the place in it; `BadOption` (usage) for a plan of other ranks
[[nodiscard]] PlanFile parse_plan(std::string const& text, std::string const& name, int num_ranks);

/// What rank `rank` of the plan was made of; its maps are looked up in the file. @throws what `Layout` throws
[[nodiscard]] PullDescription description(PlanFile const& file, int rank);

}  // namespace graticule::bench
