// SPDX-License-Identifier: BSD-3-Clause
#include "setup.hpp"

#include <graticule/app/output_folder.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/partition/cuts.hpp>

#include "networks.hpp"
#include "static_fields.hpp"
#include "units.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace graticule::forecast {

namespace fs = std::filesystem;

Index num_members(Options const& options) {
  return options.members.value_or(std::max<Index>(1, Index(options.checkpoints.size())));
}

namespace {

/// What helps where the places of two grids differ in their order only.
std::string order_hint(Grid const& grid, Description const& description) {
  auto const sorted = [](std::vector<double> values) {
    for (double& value : values) {
      value = std::remainder(value, 360);
      if (value < -1e-4) value += 360;
    }
    std::sort(values.begin(), values.end());
    return values;
  };
  bool const same = same_places(sorted(grid.latitudes), sorted(description.latitudes)) &&
                    same_places(sorted(grid.longitudes), sorted(description.longitudes));
  return same ? "; these are the same places in another order: `cdo invertlat`, `cdo sellonlatbox,WEST,EAST,-90,90` or "
                "xarray's `sortby` bring them into that of the training"
              : "";
}

void require_same_states(samples::StateTable const& table, Description const& description, std::string const& files) {
  if (table.channels().size() < description.num_prognostic())
    throw Error(Fault::input, "BadInput",
                files + " lacks '" + description.channels[table.channels().size()].label +
                    "', which the network was trained on");
  if (table.channels().size() > description.channels.size()) {
    auto const extra = std::find_if(table.channels().begin(), table.channels().end(), [&](auto const& one) {
      return std::none_of(description.channels.begin(), description.channels.end(),
                          [&](auto const& trained) { return trained.label == one.label; });
    });
    throw Error(Fault::input, "BadInput",
                fmt::format("{} has {} variables and levels, '{}' among them, and the network was trained on {}; leave "
                            "the others out, for example by `ncks -d level,FIRST,LAST IN OUT` or xarray's `sel`",
                            files, table.channels().size(),
                            (extra == table.channels().end() ? table.channels().back() : *extra).label,
                            description.channels.size()));
  }
  for (std::size_t c = 0; c < table.channels().size(); ++c)
    if (table.channels()[c].label != description.channels[c].label)
      throw Error(Fault::input, "BadInput",
                  files + " has '" + table.channels()[c].label + "' where the network was trained on '" +
                      description.channels[c].label + "'");
  if (!same_places(table.grid().latitudes, description.latitudes) ||
      !same_places(table.grid().longitudes, description.longitudes))
    throw Error(
        Fault::input, "BadInput",
        fmt::format("{} has {} x {} cells from {:.6g} to {:.6g} N and {:.6g} to {:.6g} E; the network was trained "
                    "on {} x {} from {:.6g} to {:.6g} N and {:.6g} to {:.6g} E",
                    files, table.grid().num_rows(), table.grid().num_columns(), table.grid().latitudes.front(),
                    table.grid().latitudes.back(), table.grid().longitudes.front(), table.grid().longitudes.back(),
                    description.latitudes.size(), description.longitudes.size(), description.latitudes.front(),
                    description.latitudes.back(), description.longitudes.front(), description.longitudes.back()) +
            order_hint(table.grid(), description));
}

/// All channels where the input has them, else the prognostic ones: a forecast needs no more.
/// @throws `BadInput` (input) unless they are those of the network, on its grid
samples::StateTable open_states(Comm const& domain, Options const& options, Description const& description) {
  auto const& files = options.input;
  samples::StateTable prognostic(domain, files, description.variables(Role::prognostic), {}, options.repeated);
  auto const diagnostic = description.variables(Role::diagnostic);
  bool const has_all = std::all_of(diagnostic.begin(), diagnostic.end(), [&](std::string const& name) {
    return prognostic.file().contents().find(name) != nullptr;
  });
  auto table =
      diagnostic.empty() || !has_all
          ? std::move(prognostic)
          : samples::StateTable(domain, files, description.variables(Role::prognostic), diagnostic, options.repeated);
  table.arrange_levels(description.channels);
  require_same_states(table, description, files);
  return table;
}

samples::TimeSteps time_steps(samples::StateTable const& table, Lead const& lead, std::string const& files) {
  std::optional<samples::TimeSteps> steps;
  samples::naming_input(files, [&] { steps.emplace(table.times(), lead, table.calendar()); });
  return *steps;
}

/// The networks of `--checkpoint`. Teams open them by themselves, and agree on failures.
std::vector<Checkpoint> trained(samples::DataTeams const& teams, Options const& options) {
  std::vector<Checkpoint> checkpoints;
  samples::require_same_input(teams, options.input);
  run_agreed(teams.world(), [&] {
    for (std::string const& path : options.checkpoints) checkpoints.push_back(open_trained(teams.domain(), path));
    std::vector<Description> descriptions;
    std::vector<fs::path> files;
    for (auto const& checkpoint : checkpoints) {
      descriptions.push_back(description_of(checkpoint));
      files.push_back(checkpoint.path());
    }
    require_alike(descriptions, files);
  });
  return checkpoints;
}

/// States that the forecasts start from: as many as the network with the longest history takes.
Index longest_history(Description const& description, std::vector<Checkpoint> const& checkpoints) {
  Index longest = description.history;
  for (auto const& checkpoint : checkpoints) longest = std::max(longest, description_of(checkpoint).history);
  return longest;
}

/// Of the first checkpoint, or of an exported network and the options that describe it.
Description describe(Comm const& domain, Options const& options, std::vector<Checkpoint> const& checkpoints) {
  if (!checkpoints.empty()) return description_of(checkpoints.front());
  samples::StateTable const table(domain, options.input, options.prognostic, options.diagnostic, options.repeated);
  Lead const lead = samples::parse_lead("--lead", options.lead);
  samples::TimeSteps const steps = time_steps(table, lead, options.input);
  auto description = program_description(options.model, table.channels(), lead, steps.lead_seconds(),
                                         table.grid().latitudes, table.grid().longitudes);
  description.calendar = table.calendar();
  description.predict = models::predict_named(options.predict, "--predict");
  return description;
}

/// What stands in a name between its begin and its end; nothing where it has others.
std::string between(std::string const& begin, std::string const& name, std::string const& end) {
  if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < begin.size() + end.size()) return {};
  return name.substr(begin.size(), name.size() - begin.size() - end.size());
}

/// Of this run or of another one into the same folder.
bool is_output(std::string const& name) {
  constexpr std::array names{"forecast.nc", "forecast.zarr", "scores.csv", "scores.nc",
                             "scores.png",  "spectra.nc",    "spectra.png"};
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  auto date = between("forecast_", name, ".nc");
  if (date.empty()) date = between("forecast_", name, ".zarr");
  bool const is_date =
      date.size() >= 13 && date[10] == 'T' && date.find_first_not_of("0123456789-T") == std::string::npos;
  auto const lead = between("map_", name, ".png");
  auto const unit = std::min(lead.find_first_not_of("0123456789"), lead.size());
  constexpr std::array units{"h", "d", "min", "s"};
  return is_date || (unit > 0 && std::find(units.begin(), units.end(), lead.substr(unit)) != units.end());
}

}  // namespace

Setup::Setup(app::Context& run_context, Options const& run_options)
    : context(run_context),
      options(run_options),
      teams(context.comm, options.teams, "--teams"),
      num_members(forecast::num_members(options)),
      trained(forecast::trained(teams, options)),
      description(describe(teams.domain(), options, trained)),
      history(longest_history(description, trained)),
      table(open_states(teams.domain(), options, description)),
      steps(time_steps(table, description.lead, options.input)),
      row_weights(area_weights(table.grid().latitudes)),
      layout(
          app::choose_layout(options.partition, teams.domain().num_ranks(), row_weights, table.grid().num_columns())),
      cells{table.grid(), layout, layout.owned(teams.domain().rank()), row_weights},
      starts(start_times(options.start, steps, history)),
      climatology(trained.empty() ? std::vector<double>() : load_climatology(trained.front(), description, cells.box)) {
  auto const part = teams.my_part_of(num_members);
  own = {cells.box, part.first, part.last - part.first};
}

double Setup::perturbation() const {
  return options.perturbation.value_or(description.perturbation > 0 ? description.perturbation : 0.5);
}

Index Setup::most_members_of_a_team() const {
  Index most = 0;
  for (int team = 0; team < teams.num_teams(); ++team)
    most = std::max(most, teams.part_of(num_members, team).last - teams.part_of(num_members, team).first);
  return most;
}

fs::path Setup::file_of(Seconds start) const {
  auto const date = starts.size() == 1 ? std::string() : "_" + compact(start, steps.calendar());
  return options.output / ("forecast" + date + app::ending_of_fields(options.output_format));
}

void Setup::require_other_files() const {
  run_agreed(context.comm, [&] {
    if (context.comm.rank() != 0) return;
    for (Seconds const start : starts)
      for (auto const& input : table.file().files()) {
        std::error_code no_output;
        if (fs::equivalent(input, file_of(start), no_output))
          throw Error(Fault::usage, "BadOption",
                      "--input " + input.string() +
                          " would be overwritten by this forecast; choose another --output than " +
                          options.output.string());
      }
  });
}

void Setup::warn_of_units() const {
  for (std::size_t c = 0; c < table.channels().size() && context.comm.rank() == 0; ++c) {
    auto const& found = table.channels()[c];
    auto const& in_training = description.channels[c].info.units;
    bool const is_first = c == 0 || table.channels()[c - 1].variable != found.variable;
    if (!is_first || same_units(found.info.units, in_training) || found.info.units.empty() || in_training.empty())
      continue;
    spdlog::warn("{}: '{}' has the units '{}', in the training it had '{}'; values are taken as they are",
                 options.input, found.variable, found.info.units, in_training);
  }
}

void Setup::warn_of_normalised_network() const {
  std::error_code unknown;
  auto const checkpoint = options.model.parent_path() / "last";
  if (options.model.filename() != "network.pt2" || !fs::is_directory(checkpoint, unknown)) return;
  if (context.comm.rank() != 0) return;
  auto const folder = options.model.parent_path().empty() ? fs::path(".") : options.model.parent_path();
  spdlog::warn(
      "--model {} lies beside checkpoints of graticule-train, whose networks take normalised values, not values in "
      "units: --checkpoint {} forecasts with this training",
      options.model.string(), folder.string());
}

fs::path Outputs::path_of(std::string const& name) { return written_.emplace_back(setup_.options.output / name); }

void Outputs::remove_earlier_outputs() const {
  auto kept = setup_.table.file().files();
  kept.insert(kept.end(), written_.begin(), written_.end());
  for (Seconds const start : setup_.starts) kept.push_back(setup_.file_of(start));
  app::remove_other_outputs(setup_.context.comm, setup_.options.output, is_output, kept);
}

std::vector<Seconds> start_times(std::vector<std::string> const& texts, samples::TimeSteps const& steps,
                                 Index history) {
  std::vector<Seconds> starts;
  auto const has_history = [&](Index position) {
    for (Index k = 1; k < history; ++k)
      if (!steps.at(position, -k)) return false;
    return true;
  };
  for (std::string const& text : texts) {
    bool const is_period = text.find("..") != std::string::npos;
    Period const period =
        is_period ? parse_period("--start", text, steps.calendar()) : parse_date("--start", text, steps.calendar());
    auto const before = starts.size();
    for (Index t = 0; t < steps.num_times(); ++t) {
      Seconds const time = steps.times()[std::size_t(t)];
      if (!(is_period ? period.contains(time) : time == period.first) || !has_history(t)) continue;
      starts.push_back(time);
    }
    if (starts.size() == before)
      throw Error(Fault::usage, "BadOption",
                  "--start " + text + " is not a time of the input with " + std::to_string(history - 1) +
                      " earlier states, one lead apart; the input has " + std::to_string(steps.num_times()) +
                      " times from " + steps.text(steps.times().front()) + " to " + steps.text(steps.times().back()));
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

}  // namespace graticule::forecast
