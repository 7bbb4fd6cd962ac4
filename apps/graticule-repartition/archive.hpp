// SPDX-License-Identifier: BSD-3-Clause
// The whole rewrite of a file.
#pragma once

#include <graticule/partition/comm.hpp>

#include "options.hpp"
#include "rounds.hpp"

#include <functional>
#include <string>
#include <vector>

namespace graticule::archive {

/// What was done with a variable, for reports.
struct VariableResult {
  Rewrite rewrite;
  Passes passes;
};

struct Result {
  Totals totals;  ///< of this rank
  std::vector<VariableResult> variables;
  Index num_chunks = 0;                ///< of compressed variables, inflated by this rank
  Index scratch_bytes = 0;             ///< room that a scratch file took on the disk
  std::string no_scratch;              ///< why there was no scratch file where one would have saved time
  std::vector<std::string> ambiguous;  ///< see `Plan`
  std::vector<std::string> fixed;      ///< see `Plan`
  std::vector<std::string> flags;      ///< see `Plan`
  std::vector<std::string> widened;    ///< see `Plan`
  std::vector<std::string> no_fills;   ///< see `Plan`
  std::vector<std::string> no_limits;  ///< see `Plan`
  std::vector<std::string> fills;      ///< a line for each converted variable that has `ProbableFills`
};

/// Called before each round and after the last one with the number of rounds and of completed rounds; throws on all
/// ranks alike to stop.
using Watch = std::function<void(Index done, Index all, std::string const& variable)>;

/// Rewrites `options.input` to `options.output`. Collective, with the same options on all ranks.
///
/// The output gets its name once it is complete; after a failure an older file of that name remains.
/// @throws `BadOption` (usage) when the output would replace the input and nobody has said so; as `FieldFile`,
///        `plan_rewrite`, `make_tiling`, `FieldWriter`, `find_packing`
[[nodiscard]] Result rewrite_file(Comm const& comm, Options const& options, Watch const& watch);

}  // namespace graticule::archive
