// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/pull.hpp>

#include <optional>
#include <string>
#include <vector>

namespace graticule {

/// Measurements and choice of a tuner for one plan.
struct TuningRecord {
  std::uint64_t plan = 0;  ///< `PullPlan::fingerprint()`
  Transport chosen = Transport::automatic;
  double point_to_point_seconds = 0;  ///< median over the calls of the slowest rank
  double node_shared_seconds = 0;
  friend bool operator==(TuningRecord const&, TuningRecord const&) = default;
};

/// Records of many plans; a text file with one line per plan.
///
/// Plans use the file given by the environment variable `GRATICULE_TUNING`, unless `GRATICULE_TRANSPORT` is set.
class TuningTable {
 public:
  [[nodiscard]] std::vector<TuningRecord> const& records() const noexcept { return records_; }
  [[nodiscard]] std::optional<TuningRecord> find(std::uint64_t plan) const;
  /// Replaces the record of the same plan.
  void add(TuningRecord const& record);

  /// @throws what `read_text` throws; `BadInput` where a line is not a record, with file and line
  [[nodiscard]] static TuningTable load(std::string const& path);
  [[nodiscard]] static TuningTable parse(std::string const& text, std::string const& name);
  [[nodiscard]] std::string text() const;
  /// Writes a temporary file next to `path`, whose name contains host and process, then renames it. Local.
  /// @throws `OutputError` when it cannot be written; an old file is then unchanged, and no temporary file remains
  void save(std::string const& path) const;

 private:
  std::vector<TuningRecord> records_;
};

/// Measures a plan on each path with the caller's fields, alternating, and sets the fastest. Collective.
///
/// The fields are filled as by `apply`. The choice is the same on all ranks: the median call of the slowest rank
/// counts.
/// @pre no call of the plan is in flight on any rank
/// @throws `BadOption` for `num_calls < 1`, `ArgumentDisagreement` when the numbers differ between ranks, and what a
///         call throws on any rank: on all ranks alike; the path is then unchanged
/// Cost: `2 * (num_calls + 2)` calls, as many barriers and three all-reduces each.
TuningRecord tune(PullPlan& plan, std::span<PullField const> fields, int num_calls = 20);

}  // namespace graticule
