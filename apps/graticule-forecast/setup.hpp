// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/samples/detail/states.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include "forecast_file.hpp"
#include "run.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace graticule::forecast {

/// What a run has settled before its first step, and does not change: the same on all ranks but for their parts.
struct Setup {
  /// Collective. @throws `BadInput` (input), `BadOption` (usage) on all ranks
  Setup(app::Context& run_context, Options const& run_options);

  [[nodiscard]] Index num_records() const { return options.steps / options.every; }
  [[nodiscard]] std::size_t num_cells() const { return std::size_t(cells.per_sample()); }
  [[nodiscard]] std::size_t num_channels() const { return description.channels.size(); }
  [[nodiscard]] std::size_t num_pictured() const { return std::min<std::size_t>(num_channels(), 3); }
  /// Of the members' initial states, by the scale of tendencies.
  [[nodiscard]] double perturbation() const;
  [[nodiscard]] Index most_members_of_a_team() const;
  [[nodiscard]] std::filesystem::path file_of(Seconds start) const;
  /// @throws `BadOption` (usage) where the input lies in the place of a file that this run writes
  void require_other_files() const;
  /// A line per variable whose units are not those of the training: spellings differ, so it is no error.
  void warn_of_units() const;
  /// What graticule-train writes beside its checkpoints takes other values than `--model` gives.
  void warn_of_normalised_network() const;

  app::Context& context;
  Options const& options;
  samples::DataTeams teams;
  Index num_members;
  std::vector<Checkpoint> trained;
  Description description;  ///< of the first network: what all have in common, scales and climatology
  Index history;            ///< states that a forecast starts from
  samples::StateTable table;
  samples::TimeSteps steps;
  std::vector<double> row_weights;
  Layout layout;
  models::Cells cells;
  std::vector<Seconds> starts;
  std::vector<double> climatology;  ///< on this rank's box; empty without
  OwnPart own;
};

/// Results in the output folder, but for the forecasts themselves.
class Outputs {
 public:
  explicit Outputs(Setup const& setup) : setup_(setup) {}

  /// The path of a result that is about to be written.
  std::filesystem::path path_of(std::string const& name);
  /// Files of an earlier forecast into the same folder would pass for this one's. Collective.
  void remove_earlier_outputs() const;
  [[nodiscard]] std::vector<std::filesystem::path> const& written() const noexcept { return written_; }

 private:
  Setup const& setup_;
  std::vector<std::filesystem::path> written_;  ///< on rank 0
};

/// Members of a forecast with these options.
[[nodiscard]] Index num_members(Options const& options);

}  // namespace graticule::forecast
