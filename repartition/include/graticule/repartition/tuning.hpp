// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/transport.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule {

/// Measurements and choice of a tuner for one plan.
struct TuningRecord {
  std::uint64_t plan = 0;  ///< its fingerprint, which `dump_plan` writes
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

}  // namespace graticule
