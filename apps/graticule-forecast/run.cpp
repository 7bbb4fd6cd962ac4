// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <graticule/app/output_folder.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include "forecast_file.hpp"
#include "map_picture.hpp"
#include "network_device.hpp"
#include "networks.hpp"
#include "score_report.hpp"
#include "spectra.hpp"
#include "spectra_table.hpp"
#include "static_fields.hpp"
#include "units.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <functional>
#include <limits>
#include <set>

namespace graticule::forecast {
namespace {

namespace fs = std::filesystem;

void require_same_states(samples::StateTable const& table, Description const& description, std::string const& files) {
  if (table.channels().size() < description.num_prognostic())
    throw Error(Fault::input, "BadInput",
                files + " lacks '" + description.channels[table.channels().size()].label +
                    "', which the network was trained on");
  for (std::size_t c = 0; c < table.channels().size(); ++c)
    if (c >= description.channels.size() || table.channels()[c].label != description.channels[c].label)
      throw Error(Fault::input, "BadInput",
                  files + " has '" + table.channels()[c].label + "' where the network was trained on '" +
                      (c < description.channels.size() ? description.channels[c].label : "nothing") + "'");
  if (!same_places(table.grid().latitudes, description.latitudes) ||
      !same_places(table.grid().longitudes, description.longitudes))
    throw Error(
        Fault::input, "BadInput",
        fmt::format("{} has {} x {} cells from {:.6g} to {:.6g} N and {:.6g} to {:.6g} E; the network was trained "
                    "on {} x {} from {:.6g} to {:.6g} N and {:.6g} to {:.6g} E",
                    files, table.grid().num_rows(), table.grid().num_columns(), table.grid().latitudes.front(),
                    table.grid().latitudes.back(), table.grid().longitudes.front(), table.grid().longitudes.back(),
                    description.latitudes.size(), description.longitudes.size(), description.latitudes.front(),
                    description.latitudes.back(), description.longitudes.front(), description.longitudes.back()));
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

Index num_members(Options const& options) {
  return options.members.value_or(std::max<Index>(1, Index(options.checkpoints.size())));
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

void check_network(Options const& options) {
  auto const refuse = [](std::string const& text) { throw Error(Fault::usage, "BadOption", text); };
  bool const describes = !options.prognostic.empty() || !options.diagnostic.empty() || !options.lead.empty();
  if (options.checkpoints.empty() == options.model.empty()) refuse("give one of --checkpoint and --model");
  if (options.model.empty()) {
    if (describes) refuse("--prognostic, --diagnostic and --lead describe a network of --model; a checkpoint has them");
    return;
  }
  if (options.prognostic.empty() || options.lead.empty())
    refuse("--model " + options.model.string() + " needs --prognostic, its variables, and --lead, its step");
}

/// One driver run: its states, files and scores.
class Run {
 public:
  Run(app::Context& context, Options const& options)
      : context_(context),
        options_(options),
        teams_(context.comm, options.teams, "--teams"),
        num_members_(num_members(options)),
        trained_(trained(teams_, options)),
        description_(describe(teams_.domain(), options, trained_)),
        history_(longest_history(description_, trained_)),
        table_(open_states(teams_.domain(), options, description_)),
        steps_(time_steps(table_, description_.lead, options.input)),
        row_weights_(area_weights(table_.grid().latitudes)),
        layout_(app::choose_layout(options.partition, teams_.domain().num_ranks(), row_weights_,
                                   table_.grid().num_columns())),
        cells_{table_.grid(), layout_, layout_.owned(teams_.domain().rank()), row_weights_},
        reader_(table_.reader(cells_.box, 0)),
        starts_(start_times(options.start, steps_, history_)),
        climatology_(trained_.empty() ? std::vector<double>()
                                      : load_climatology(trained_.front(), description_, cells_.box)),
        store_(context.comm, options.output / "checkpoints", {.keep = 2}),
        spectra_table_(Index(description_.channels.size()), options.steps / options.every,
                       Index(standard_regions().size()), table_.grid().num_columns() / 2 + 1) {
    auto const part = teams_.my_part_of(num_members_);
    own_ = {cells_.box, part.first, part.last - part.first};
    Networks::Members const members{num_members_, part.first, part.last};
    if (trained_.empty())
      networks_.emplace(context.comm, teams_.domain(), layout_, description_, members, options.network_device);
    else
      networks_.emplace(context.comm, teams_.domain(), layout_, trained_, members, options.network_device);
    networks_->set_calendar(steps_.calendar());
    spectra_.emplace(teams_.domain(), cells_);
    scores_.emplace(teams_.domain(), layout_, table_.grid().latitudes, row_weights_,
                    ScoreTable::Shape{.num_cases = Index(starts_.size()),
                                      .num_channels = Index(description_.channels.size()),
                                      .num_leads = num_records()});
    context.report.set_partition(layout_, {table_.latitude_name(), table_.longitude_name()});
    require_other_files();
    warn_of_units();
    warn_of_normalised_network();
  }

  int operator()() {
    app::StopSignals const signals{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    app::TimeLimit const limit(options_.time_limit);
    if (options_.resume == "auto") load();
    auto progress = context_.progress("forecast", Index(starts_.size()) * options_.steps);
    spdlog::info("{} x {} cells; {} forecasts of {} steps of {} from {}, {} members; {} {}", cells_.grid.num_rows(),
                 cells_.grid.num_columns(), starts_.size(), options_.steps, duration_text(description_.lead_seconds),
                 steps_.text(starts_.front()), num_members_, networks_->files().size() == 1 ? "network" : "networks",
                 files_text());
    for (; case_ < Index(starts_.size()); ++case_, step_ = 0) {
      begin_case();
      while (step_ < options_.steps) {
        double const begin = MPI_Wtime();
        step();
        progress.update(case_ * options_.steps + step_);
        bool const is_last = case_ + 1 == Index(starts_.size()) && step_ == options_.steps;
        auto const reason =
            is_last ? std::nullopt : app::reason_to_stop(context_.comm, signals, limit, 3 * (MPI_Wtime() - begin));
        bool const due = options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
        if (due || reason) save();
        if (reason) return stop(*reason);
      }
      file_.reset();
    }
    finish();
    return app::good;
  }

 private:
  /// The ensemble mean, and the truth, of some channels on this rank, [channel][row][column]; the first team's count.
  struct Pictured {
    Index number = 0;
    Index step = 0;
    bool has_truth = false;
    std::vector<double> forecast;
    std::vector<double> truth;
  };
  /// The same whole on rank 0.
  struct Kept {
    Index number = 0;
    Index step = 0;
    bool has_truth = false;
    std::vector<std::vector<double>> forecast = {};
    std::vector<std::vector<double>> truth = {};
  };

  [[nodiscard]] Index num_records() const { return options_.steps / options_.every; }
  [[nodiscard]] std::size_t num_cells() const { return std::size_t(cells_.per_sample()); }
  [[nodiscard]] std::size_t num_channels() const { return description_.channels.size(); }
  /// Of the members' initial states, by the scale of tendencies.
  [[nodiscard]] double perturbation() const {
    return options_.perturbation.value_or(description_.perturbation > 0 ? description_.perturbation : 0.5);
  }
  [[nodiscard]] std::string files_text() const {
    std::string text;
    for (auto const& file : networks_->files()) text += (text.empty() ? "" : " ") + file.string();
    return text;
  }
  [[nodiscard]] Seconds start() const { return starts_[std::size_t(case_)]; }

  /// Of this run or of another one into the same folder.
  [[nodiscard]] static bool is_output(std::string const& name) {
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

  /// What stands in a name between its begin and its end; nothing where it has others.
  [[nodiscard]] static std::string between(std::string const& begin, std::string const& name, std::string const& end) {
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < begin.size() + end.size()) return {};
    return name.substr(begin.size(), name.size() - begin.size() - end.size());
  }

  /// Files of an earlier forecast into the same folder would pass for this one's. Collective.
  void remove_earlier_outputs() const {
    auto kept = table_.file().files();
    kept.insert(kept.end(), written_.begin(), written_.end());
    for (Seconds const start : starts_) kept.push_back(file_of(start));
    app::remove_other_outputs(context_.comm, options_.output, is_output, kept);
  }

  /// The path of a result that is about to be written.
  fs::path path_of(std::string const& name) { return written_.emplace_back(options_.output / name); }

  [[nodiscard]] fs::path file_of(Seconds start) const {
    auto const date = starts_.size() == 1 ? std::string() : "_" + compact(start, steps_.calendar());
    return options_.output / ("forecast" + date + app::ending_of_fields(options_.output_format));
  }

  /// @throws `BadOption` (usage) where the input lies in the place of a file that this run writes
  void require_other_files() const {
    run_agreed(context_.comm, [&] {
      if (context_.comm.rank() != 0) return;
      for (Seconds const start : starts_)
        for (auto const& input : table_.file().files()) {
          std::error_code no_output;
          if (fs::equivalent(input, file_of(start), no_output))
            throw Error(Fault::usage, "BadOption",
                        "--input " + input.string() +
                            " would be overwritten by this forecast; choose another --output than " +
                            options_.output.string());
        }
    });
  }

  /// A line per variable whose units are not those of the training: spellings differ, so it is no error.
  void warn_of_units() const {
    for (std::size_t c = 0; c < table_.channels().size() && context_.comm.rank() == 0; ++c) {
      auto const& found = table_.channels()[c];
      auto const& trained = description_.channels[c].info.units;
      bool const is_first = c == 0 || table_.channels()[c - 1].variable != found.variable;
      if (!is_first || same_units(found.info.units, trained) || found.info.units.empty() || trained.empty()) continue;
      spdlog::warn("{}: '{}' has the units '{}', in the training it had '{}'; values are taken as they are",
                   options_.input, found.variable, found.info.units, trained);
    }
  }

  /// What graticule-train writes beside its checkpoints takes other values than `--model` gives.
  void warn_of_normalised_network() const {
    std::error_code unknown;
    auto const checkpoint = options_.model.parent_path() / "last";
    if (options_.model.filename() != "network.pt2" || !fs::is_directory(checkpoint, unknown)) return;
    if (context_.comm.rank() != 0) return;
    auto const folder = options_.model.parent_path().empty() ? fs::path(".") : options_.model.parent_path();
    spdlog::warn(
        "--model {} lies beside checkpoints of graticule-train, whose networks take normalised values, not values in "
        "units: --checkpoint {} forecasts with this training",
        options_.model.string(), folder.string());
  }

  /// Fields of a time and member of the input, [channel][row][column] in units; NaN for channels that it lacks, and for
  /// all where the input ends. Ranks agree on failures.
  std::vector<double> read(std::optional<Index> position, Index member, std::size_t channels) {
    auto const phase = context_.report.phase("read");
    std::vector<double> values(channels * num_cells(), std::numeric_limits<double>::quiet_NaN());
    run_agreed(context_.comm, [&] {
      for (std::size_t c = 0; c < std::min(channels, table_.channels().size()) && position; ++c) {
        Index const state = *position * table_.num_members() + member % table_.num_members();
        reader_.unpack(state, c, reader_.read(state, c), std::span(values).subspan(c * num_cells(), num_cells()));
      }
    });
    return values;
  }

  /// The first cell of a channel without a value where the climatology has one, or, without climatology, in a variable
  /// that declares no missing data, by its number on the whole grid; and how many there are on this rank.
  [[nodiscard]] std::pair<Index, Index> gaps_of(std::span<double const> fields, std::size_t channel) const {
    std::pair<Index, Index> found{std::numeric_limits<Index>::max(), 0};
    if (climatology_.empty() && samples::declares_missing(table_.file().variable(table_.channels()[channel].variable)))
      return found;
    std::size_t cell = channel * num_cells();
    for (Index i = cells_.box.lo(0); i < cells_.box.hi(0); ++i)
      for (Index j = cells_.box.lo(1); j < cells_.box.hi(1); ++j, ++cell) {
        if (!std::isnan(fields[cell]) || (!climatology_.empty() && std::isnan(climatology_[cell]))) continue;
        if (found.second++ == 0) found.first = i * cells_.grid.num_columns() + j;
      }
    return found;
  }

  /// Cells of a channel that are probably no values though they are read as such: the first one and their number, as
  /// `gaps_of`.
  [[nodiscard]] std::pair<Index, Index> fills_of(std::span<double const> fields, std::size_t channel) const {
    std::pair<Index, Index> found{std::numeric_limits<Index>::max(), 0};
    auto const fill = probable_fill(table_.file().variable(table_.channels()[channel].variable));
    std::size_t cell = channel * num_cells();
    for (Index i = cells_.box.lo(0); fill && i < cells_.box.hi(0); ++i)
      for (Index j = cells_.box.lo(1); j < cells_.box.hi(1); ++j, ++cell)
        if (fields[cell] == *fill && found.second++ == 0) found.first = i * cells_.grid.num_columns() + j;
    return found;
  }

  /// One line per variable of the input that has cells without values where the training had them, and one for each
  /// with cells that are probably none. Collective over all ranks. @throws `BadInput` (input) with `--missing error`
  void look_for_gaps(std::span<double const> fields, std::size_t most_channels, Index position) {
    report_cells(
        std::min(most_channels, table_.channels().size()), position, reported_,
        [&](std::size_t channel) { return gaps_of(fields, channel); },
        [&](std::size_t, std::string const& label, std::string const& cells, std::string const& time) {
          return samples::MissingLine{
              .text = fmt::format("'{}' lacks {} at {}, {}", label, cells, time,
                                  climatology_.empty()
                                      ? "NaN or default fill values that neither _FillValue nor missing_value declares"
                                      : "which states of the training have")};
        });
    report_cells(
        std::min(most_channels, table_.channels().size()), position, reported_fills_,
        [&](std::size_t channel) { return fills_of(fields, channel); },
        [&](std::size_t channel, std::string const& label, std::string const& cells, std::string const& time) {
          auto const fill = probable_fill_text(table_.file().variable(table_.channels()[channel].variable));
          return samples::MissingLine{
              .text = fmt::format("'{}' has {} of {} at {}, netCDF's default fill value of its type, and no _FillValue",
                                  label, cells, fill, time),
              .outcome = "treated as values, because integers that are not packed may be codes"};
        });
  }

  /// A line for each channel of which `find` finds cells, for a variable once. Collective over all ranks.
  void report_cells(std::size_t channels, Index position, std::set<std::string>& reported,
                    std::function<std::pair<Index, Index>(std::size_t)> const& find,
                    std::function<samples::MissingLine(std::size_t, std::string const&, std::string const&,
                                                       std::string const&)> const& describe) {
    std::vector<Index> firsts(channels);
    std::vector<Index> counts(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      auto const [first, count] = find(c);
      firsts[c] = -first;
      counts[c] = count;
    }
    teams_.domain().max(std::span(firsts));
    teams_.domain().sum(std::span(counts));
    // Of teams that look at other members the first with such cells reports them.
    std::vector<Index> reporters(channels);
    for (std::size_t c = 0; c < channels; ++c) reporters[c] = counts[c] > 0 ? teams_.num_teams() - teams_.team() : 0;
    context_.comm.max(std::span(reporters));
    for (std::size_t c = 0; c < channels; ++c) {
      std::string const& variable = table_.channels()[c].variable;
      if (reporters[c] == 0 || !reported.insert(variable).second) continue;
      bool const reports = reporters[c] == teams_.num_teams() - teams_.team();
      samples::MissingLine line;
      if (reports) {
        line = describe(c, description_.channels[c].label,
                        fmt::format("{} {}", counts[c], counts[c] == 1 ? "cell" : "cells"),
                        steps_.text(steps_.times()[std::size_t(position)]));
        line.text = fmt::format("{}: {}: first at {}", options_.input, line.text,
                                samples::place_text(cells_.grid, -firsts[c] / cells_.grid.num_columns(),
                                                    -firsts[c] % cells_.grid.num_columns()));
      }
      run_agreed(context_.comm, [&] {
        if (!reports) return;
        samples::apply_rule(options_.missing, {line}, [&](std::string const& text) {
          if (teams_.domain().rank() == 0) spdlog::warn("{}", text);
        });
      });
    }
  }

  /// Collective over all ranks. @throws `BadInput` (input) for a channel of an initial state without values, or with
  /// infinite ones
  void require_values(std::span<double const> fields, Seconds time) {
    std::size_t const prognostic = description_.num_prognostic();
    std::vector<Index> found(2 * prognostic, 0);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::size_t const c = i / num_cells();
      if (!std::isnan(fields[i])) found[2 * c] = 1;
      if (std::isinf(fields[i])) found[2 * c + 1] = 1;
    }
    run_agreed(context_.comm, [&] {
      teams_.domain().max(std::span(found));
      for (std::size_t c = 0; c < prognostic; ++c)
        if (found[2 * c] == 0 || found[2 * c + 1] != 0)
          throw Error(Fault::input, "BadInput",
                      fmt::format("{}: '{}' has {} at {}, from which a forecast starts", options_.input,
                                  description_.channels[c].label, found[2 * c] == 0 ? "no value" : "an infinite value",
                                  steps_.text(time)));
    });
  }

  /// The initial states of this team's members.
  void begin_case() {
    Index const position = *steps_.find(start());
    initial_ = read(position, 0, num_channels());
    std::size_t const prognostic = description_.num_prognostic();
    std::vector<double> states;
    for (Index m = 0; m < most_members_of_a_team(); ++m) {
      bool const mine = m < own_.num_members;
      Index const member = own_.first_member + (mine ? m : 0);
      Index const place = member % networks_->members_per_network();
      for (Index t = 0; t < history_; ++t) {
        Index const time = *steps_.at(position, -t);
        auto const values = read(time, place, prognostic);
        require_values(values, start() - t * description_.lead_seconds);
        look_for_gaps(values, prognostic, time);
        if (mine) states.insert(states.end(), values.begin(), values.end());
      }
      if (mine && place > 0) perturb(states, std::size_t(m), member);
    }
    look_for_gaps(initial_, num_channels(), position);
    networks_->start(states, history_);
    if (resumed_) networks_->load(*resumed_);
    bool const goes_on = std::exchange(resumed_, std::nullopt).has_value() || step_ > 0;
    file_.emplace(context_.comm, teams_.domain(), table_, description_, own_,
                  ForecastFile::Options{.path = file_of(start()),
                                        .start = start(),
                                        .calendar = steps_.calendar(),
                                        .num_members = num_members_,
                                        .history = "graticule-forecast --start " + compact(start(), steps_.calendar()),
                                        .networks = networks_->files()},
                  goes_on);
  }

  /// Adds the same smooth noise to all states of a member.
  void perturb(std::vector<double>& states, std::size_t place, Index member) const {
    std::size_t const prognostic = description_.num_prognostic();
    for (std::size_t c = 0; c < prognostic; ++c) {
      SmoothNoise const noise(options_.seed, fmt::format("member {} {}", member, description_.channels[c].label));
      double const amplitude = perturbation() * description_.tendencies[c].scale;
      std::size_t cell = 0;
      for (Index i = cells_.box.lo(0); i < cells_.box.hi(0); ++i)
        for (Index j = cells_.box.lo(1); j < cells_.box.hi(1); ++j, ++cell) {
          double const value =
              amplitude * noise.at(cells_.grid.latitudes[std::size_t(i)], cells_.grid.longitudes[std::size_t(j)]);
          for (std::size_t t = 0; t < std::size_t(history_); ++t)
            states[((place * std::size_t(history_) + t) * prognostic + c) * num_cells() + cell] += value;
        }
    }
  }

  void step() {
    {
      auto const phase = context_.report.phase("steps");
      networks_->step(start() + step_ * description_.lead_seconds);
    }
    ++step_;
    if (step_ % options_.every == 0 && step_ / options_.every <= num_records()) record();
  }

  void record() {
    Index const number = step_ / options_.every - 1;
    std::vector<double> fields;
    for (Index m = 0; m < own_.num_members; ++m) {
      auto const present = networks_->present(m);
      fields.insert(fields.end(), present.begin(), present.end());
    }
    {
      auto const phase = context_.report.phase("write");
      file_->write(number, step_ * description_.lead_seconds, fields);
    }
    auto const position = steps_.at(*steps_.find(start()), step_);
    auto const truth = read(position, 0, num_channels());
    if (position) look_for_gaps(truth, num_channels(), *position);
    auto const phase = context_.report.phase("scores");
    score(number, fields, truth, position.has_value());
    add_spectra(number, SpectrumOf::forecast, fields, own_.num_members);
    if (position) add_spectra(number, SpectrumOf::truth, truth, 1);
  }

  /// All members of a channel on this rank's box. Collective over the teams.
  std::vector<double> all_members(std::span<double const> fields, std::size_t channel) {
    std::vector<double> members(std::size_t(num_members_) * num_cells(), 0.0);
    for (Index m = 0; m < own_.num_members; ++m)
      std::copy_n(fields.begin() + std::ptrdiff_t((std::size_t(m) * num_channels() + channel) * num_cells()),
                  num_cells(), members.begin() + std::ptrdiff_t(std::size_t(own_.first_member + m) * num_cells()));
    if (teams_.num_teams() > 1) teams_.data().sum(std::span(members));
    return members;
  }

  void score(Index number, std::span<double const> fields, std::vector<double> const& truth, bool has_truth) {
    std::size_t const size = num_channels() * num_cells();
    std::vector<double> mean(size);
    std::vector<double> crps(size);
    std::vector<double> variance(size);
    auto const part = [&](std::vector<double>& values, std::size_t c) {
      return std::span(values).subspan(c * num_cells(), num_cells());
    };
    for (std::size_t c = 0; c < num_channels(); ++c)
      ensemble_statistics(all_members(fields, c), std::size_t(num_members_),
                          std::span(truth).subspan(c * num_cells(), num_cells()), part(crps, c), part(mean, c),
                          part(variance, c));
    keep_pictures(number, mean, truth, has_truth);
    if (!has_truth) return;
    std::vector<ScoredField> scored;
    for (std::size_t c = 0; c < num_channels(); ++c) {
      bool const has_initial = description_.channels[c].role == Role::prognostic;
      scored.push_back({part(mean, c), std::span(truth).subspan(c * num_cells(), num_cells()),
                        has_initial ? part(initial_, c) : std::span<double>(),
                        climatology_.empty() ? std::span<double>() : part(climatology_, c), part(crps, c),
                        part(variance, c)});
    }
    scores_->add(case_, number, scored);
  }

  /// Adds the spectra of some states, [state][channel][row][column] in units. Collective over all ranks.
  void add_spectra(Index number, SpectrumOf of, std::span<double const> states, Index num_states) {
    auto const regions = standard_regions();
    std::size_t const size = num_channels() * num_cells();
    std::vector<double> sums;
    for (Index n = 0; n < most_members_of_a_team(); ++n) {
      // Teams with fewer states take part with weight 0: nothing is added for them.
      bool const counts = n < num_states;
      std::vector<double> fields(size, 0.0);
      if (counts) std::copy_n(states.begin() + std::ptrdiff_t(std::size_t(n) * size), size, fields.begin());
      auto const is_missing = take_out_missing(fields);
      auto const zonal = spectra_->zonal(fields, Index(num_channels()), regions);
      auto const spherical = spectra_->spherical(fields, Index(num_channels()));
      std::size_t const stride =
          1 + regions.size() * zonal[0][0].size() + (spherical.empty() ? 0 : spherical[0].size());
      sums.resize(num_channels() * stride);
      for (std::size_t c = 0; c < num_channels() && counts; ++c) {
        if (is_missing[c] != 0) continue;
        double* out = sums.data() + c * stride;
        *out++ += 1;
        for (auto const& region : zonal)
          for (double const power : region[c]) *out++ += power;
        if (!spherical.empty())
          for (double const power : spherical[c]) *out++ += power;
      }
      if (of == SpectrumOf::truth) break;
    }
    if (of == SpectrumOf::forecast && teams_.num_teams() > 1) teams_.data().sum(std::span(sums));
    spectra_table_.add(number, of, sums);
  }

  /// Fills channels with missing values, on any rank, with 0. @return which; collective over the domain
  std::vector<Index> take_out_missing(std::vector<double>& fields) {
    std::vector<Index> is_missing(num_channels(), 0);
    auto const part = [&](std::size_t c) { return std::span(fields).subspan(c * num_cells(), num_cells()); };
    for (std::size_t c = 0; c < num_channels(); ++c)
      for (double const value : part(c)) is_missing[c] |= std::isfinite(value) ? 0 : 1;
    teams_.domain().max(std::span(is_missing));
    for (std::size_t c = 0; c < num_channels(); ++c)
      if (is_missing[c] != 0) std::fill(part(c).begin(), part(c).end(), 0.0);
    return is_missing;
  }

  [[nodiscard]] Index most_members_of_a_team() const {
    Index most = 0;
    for (int team = 0; team < teams_.num_teams(); ++team)
      most = std::max(most, teams_.part_of(num_members_, team).last - teams_.part_of(num_members_, team).first);
    return most;
  }

  /// Of the records, the first and the last one and as many between as `--maps` asks for.
  [[nodiscard]] bool is_drawn(Index number) const {
    Index const count = std::min(options_.maps, num_records());
    if (count == 1) return number == 0;
    for (Index i = 0; i < count; ++i)
      if (i * (num_records() - 1) / (count - 1) == number) return true;
    return false;
  }

  /// Of the first case.
  void keep_pictures(Index number, std::vector<double> const& forecast, std::vector<double> const& truth,
                     bool has_truth) {
    if (case_ != 0 || !is_drawn(number)) return;
    auto const size = std::ptrdiff_t(num_pictured() * num_cells());
    pictured_.push_back({number, step_, has_truth, std::vector(forecast.begin(), forecast.begin() + size),
                         std::vector(truth.begin(), truth.begin() + size)});
  }
  [[nodiscard]] std::size_t num_pictured() const { return std::min<std::size_t>(num_channels(), 3); }

  /// Whole fields of what is pictured. Collective over the domain.
  Kept whole(Pictured const& pictured) {
    Kept kept{.number = pictured.number, .step = pictured.step, .has_truth = pictured.has_truth};
    for (std::size_t c = 0; c < num_pictured(); ++c) {
      auto const map = [&](std::vector<double> const& fields) {
        auto const begin = fields.begin() + std::ptrdiff_t(c * num_cells());
        return samples::gathered(teams_.domain(), layout_, {begin, begin + std::ptrdiff_t(num_cells())});
      };
      kept.forecast.push_back(map(pictured.forecast));
      if (pictured.has_truth) kept.truth.push_back(map(pictured.truth));
    }
    return kept;
  }

  /// The boxes of the first team, which keeps what is pictured.
  [[nodiscard]] Layout picture_layout() const {
    Box const none({0, 0}, {0, 0});
    return samples::layout_of_boxes(context_.comm, layout_.global().extents(), teams_.team() == 0 ? cells_.box : none);
  }

  /// [channel][row][column] on this rank's part of `picture_layout`.
  [[nodiscard]] FieldView picture_view(std::vector<double>& fields) const {
    bool const first = teams_.team() == 0;
    return field_view(
        fields.data(),
        Indices{Index(num_pictured()), first ? cells_.box.extent(0) : 0, first ? cells_.box.extent(1) : 0}, 2);
  }

  void save_pictures(CheckpointWriter& writer) {
    auto const layout = picture_layout();
    std::vector<double> list;
    for (std::size_t n = 0; n < pictured_.size(); ++n) {
      auto& pictured = pictured_[n];
      list.insert(list.end(), {double(pictured.number), double(pictured.step), pictured.has_truth ? 1.0 : 0.0});
      auto const name = "pictures/" + std::to_string(n);
      writer.add(name + "/forecast", layout, picture_view(pictured.forecast));
      writer.add(name + "/truth", layout, picture_view(pictured.truth));
    }
    writer.add_value("pictures", list);
  }

  void load_pictures(Checkpoint const& checkpoint) {
    auto const layout = picture_layout();
    auto const list = checkpoint.value<std::vector<double>>("pictures");
    for (std::size_t n = 0; 3 * n < list.size(); ++n) {
      std::vector<double> const zeros(num_pictured() * num_cells());
      auto& pictured = pictured_.emplace_back(
          Pictured{Index(list[3 * n]), Index(list[3 * n + 1]), list[3 * n + 2] != 0, zeros, zeros});
      auto const name = "pictures/" + std::to_string(n);
      checkpoint.read(name + "/forecast", layout, picture_view(pictured.forecast));
      checkpoint.read(name + "/truth", layout, picture_view(pictured.truth));
    }
  }

  /// All that the same forecast depends on.
  [[nodiscard]] std::string settings() const {
    std::string text = files_text() + " " + options_.input;
    for (Seconds const time : starts_) text += " " + compact(time, steps_.calendar());
    return text +
           fmt::format(" --steps {} --every {} --members {} --perturbation {} --seed {}{}", options_.steps,
                       options_.every, num_members_, perturbation(), options_.seed,
                       options_.output_format == "zarr" ? " --output-format zarr" : "") +
           options_.given;
  }

  void save() {
    auto const phase = context_.report.phase("checkpoint");
    auto writer = store_.begin(case_ * options_.steps + step_);
    networks_->save(writer);
    writer.add_value("settings", settings());
    writer.add_value("scores", scores_->values());
    writer.add_value("spectra", spectra_table_.values());
    save_pictures(writer);
    writer.commit();
  }

  void load() {
    auto found = store_.newest();
    app::warn_of_skipped(context_.comm, store_, found.has_value());
    if (!found) return;
    if (found->value<std::string>("settings") != settings())
      throw Error(Fault::usage, "StateMismatch",
                  found->path().string() + " is of another forecast (" + found->value<std::string>("settings") +
                      "); choose another --output, or --resume never");
    scores_->set_values(found->value<std::vector<double>>("scores"));
    spectra_table_.set_values(found->value<std::vector<double>>("spectra"));
    load_pictures(*found);
    case_ = found->step() / options_.steps;
    step_ = found->step() % options_.steps;
    if (step_ == 0 && case_ > 0) {
      // The end of a case: the next one begins anew.
      spdlog::info("continues with forecast {}", case_ + 1);
      return;
    }
    spdlog::info("continues after step {} of {}", step_, options_.steps);
    resumed_ = std::move(found);
  }

  int stop(std::string const& reason) {
    return app::end_early(context_, options_.output, reason,
                          fmt::format("step {} of {} from {}", step_, options_.steps, steps_.text(start())));
  }

  /// Seconds of a lead of the score table.
  [[nodiscard]] Description scored_description() const {
    Description scored = description_;
    scored.lead_seconds *= options_.every;
    return scored;
  }

  void finish() {
    auto const phase = context_.report.phase("finish");
    auto const scored = scored_description();
    bool has_scores = false;
    for (Index c = 0; c < Index(num_channels()); ++c)
      for (Index lead = 0; lead < num_records(); ++lead) has_scores |= scores_->score(c, lead, 0).num_cases > 0;
    context_.report.data()["device"] = network_device_report(options_.device, context_.comm);
    auto const sent = nn::traffic();
    context_.report.set_transport(
        context_.comm, teams_.domain(),
        HaloPlan(teams_.domain(), layout_, {{1, 1}, {1, 1}}, cells_.grid.boundary).paths(),
        {"halo exchanges and repartitions of this run", double(sent.num_messages), double(sent.bytes)});
    context_.report.data()["forecast"] = nullptr;
    if (has_scores) context_.report.data()["forecast"] = forecast_report(*scores_, scored);
    context_.report.data()["starts"] = nlohmann::ordered_json::array();
    for (Seconds const time : starts_) context_.report.data()["starts"].push_back(steps_.text(time));
    for (auto const& file : networks_->files()) context_.report.data()["networks"].push_back(file.string());
    if (has_scores) write_scores();
    write_spectra();
    for (Pictured const& pictured : pictured_) kept_.push_back(whole(pictured));
    run_agreed(context_.comm, [&] {
      if (context_.comm.rank() != 0) return;
      if (has_scores) {
        write_complete_file(path_of("scores.csv"), score_header() + score_lines(*scores_, scored, 0, 0, "forecast"));
        draw_scores();
      }
      draw_kept();
      draw_spectra();
      context_.report.write(options_.output / "report.json");
    });
    remove_earlier_outputs();
    if (has_scores) log_scores();
    std::string names;
    for (auto const& file : written_) names += file.filename().string() + ", ";
    spdlog::info("wrote {}, {}report.json to {}",
                 starts_.size() == 1
                     ? file_of(starts_.front()).filename().string()
                     : "forecast_DATE" + app::ending_of_fields(options_.output_format) + " of each start",
                 names, options_.output.string());
  }

  void log_scores() const {
    for (std::size_t c = 0; c < num_channels(); ++c)
      for (Index lead = 0; lead < num_records(); lead += std::max<Index>(1, num_records() - 1)) {
        auto const score = scores_->score(Index(c), lead, 0);
        if (score.num_cases == 0) continue;
        spdlog::info("{} after {}: {}", description_.channels[c].label,
                     duration_text((lead + 1) * options_.every * description_.lead_seconds),
                     score_text(score, description_.channels[c].info.units));
      }
  }

  /// A dimension whose coordinate is texts.
  void add_text_axis(FieldWriter& writer, std::string const& name, std::vector<std::string> const& texts) const {
    std::size_t longest = 1;
    for (auto const& text : texts) longest = std::max(longest, text.size());
    writer.add_dimension(name, Index(texts.size()));
    writer.add_dimension(name + "_length", Index(longest));
    writer.add_variable({.name = name, .dimensions = {name, name + "_length"}, .type = ValueType::text});
    std::vector<std::byte> bytes(texts.size() * longest, std::byte(0));
    for (std::size_t i = 0; i < texts.size(); ++i)
      for (std::size_t k = 0; k < texts[i].size(); ++k) bytes[i * longest + k] = std::byte(texts[i][k]);
    bool const first = context_.comm.rank() == 0;
    writer.write_stored(name, Box({0, 0}, {first ? Index(texts.size()) : 0, Index(longest)}),
                        std::span<std::byte const>(bytes).first(first ? bytes.size() : 0));
  }

  /// Coordinates channel, region and lead_time.
  void add_axes(FieldWriter& writer) const {
    std::vector<std::string> labels;
    for (auto const& channel : description_.channels) labels.push_back(channel.label);
    std::vector<std::string> regions;
    for (auto const& region : scores_->shape().regions) regions.push_back(region.name);
    add_text_axis(writer, "channel", labels);
    add_text_axis(writer, "region", regions);
    std::vector<double> hours;
    for (Index lead = 0; lead < num_records(); ++lead)
      hours.push_back(double((lead + 1) * options_.every * description_.lead_seconds) / 3600);
    writer.add_coordinate(
        "lead_time", hours, ValueType::f64,
        {Attribute::of_text("standard_name", "forecast_period"), Attribute::of_text("units", "hours")});
  }

  /// spectra.nc: power by wavenumber(channel, region, lead). Collective.
  void write_spectra() {
    if (spectra_table_.empty()) return;
    FieldWriter writer(context_.comm, path_of("spectra.nc"),
                       {Attribute::of_text("title", "Power of forecast and truth by wavenumber"),
                        Attribute::of_text("source", "graticule-forecast")});
    add_axes(writer);
    auto const add_numbers = [&](char const* name, Index count) {
      std::vector<double> numbers;
      for (Index k = 0; k < count; ++k) numbers.push_back(double(k));
      writer.add_coordinate(name, numbers, ValueType::f64, {Attribute::of_text("units", "1")});
    };
    add_numbers("zonal_wavenumber", spectra_table_.num_waves());
    if (spectra_table_.num_degrees() > 0) add_numbers("total_wavenumber", spectra_table_.num_degrees());
    for (auto const& [of, suffix] : {std::pair(SpectrumOf::forecast, ""), std::pair(SpectrumOf::truth, "_of_truth")}) {
      write_power(writer, std::string("zonal_power") + suffix, of, Index(standard_regions().size()));
      if (spectra_table_.num_degrees() > 0) write_power(writer, std::string("power") + suffix, of, 0);
    }
    writer.commit();
  }

  /// @param num_regions 0: by total wavenumber, on the whole sphere
  void write_power(FieldWriter& writer, std::string const& name, SpectrumOf of, Index num_regions) const {
    bool const is_zonal = num_regions > 0;
    constexpr double fill = 9.969209968386869e+36;
    Index const length = is_zonal ? spectra_table_.num_waves() : spectra_table_.num_degrees();
    std::vector<std::string> dimensions{"channel", "lead_time", is_zonal ? "zonal_wavenumber" : "total_wavenumber"};
    if (is_zonal) dimensions.insert(dimensions.begin() + 1, "region");
    writer.add_variable({.name = name, .dimensions = dimensions, .type = ValueType::f64, .fill = fill});
    Index const count = context_.comm.rank() == 0 ? Index(num_channels()) : 0;
    std::vector<double> values;
    for (Index c = 0; c < count; ++c)
      for (Index region = 0; region < std::max<Index>(num_regions, 1); ++region)
        for (Index lead = 0; lead < num_records(); ++lead) {
          auto power = is_zonal ? spectra_table_.zonal(of, c, lead, region) : spectra_table_.spherical(of, c, lead);
          if (power.empty()) power.assign(std::size_t(length), fill);
          values.insert(values.end(), power.begin(), power.end());
        }
    auto const lo = Indices::filled(int(dimensions.size()), 0);
    Indices hi{count};
    if (is_zonal) hi.push_back(count > 0 ? num_regions : 0);
    hi.push_back(count > 0 ? num_records() : 0);
    hi.push_back(count > 0 ? length : 0);
    writer.write(name, Box(lo, hi), std::span<double const>(values));
  }

  /// scores.nc: metric(channel, region, lead). Collective.
  void write_scores() {
    FieldWriter writer(
        context_.comm, path_of("scores.nc"),
        {Attribute::of_text("title", "Scores of a forecast"), Attribute::of_text("source", "graticule-forecast")});
    add_axes(writer);
    std::vector<std::pair<char const*, double Score::*>> const metrics{{"rmse", &Score::rmse},
                                                                       {"mae", &Score::mae},
                                                                       {"bias", &Score::bias},
                                                                       {"acc", &Score::acc},
                                                                       {"persistence_rmse", &Score::persistence_rmse},
                                                                       {"climatology_rmse", &Score::climatology_rmse},
                                                                       {"crps", &Score::crps},
                                                                       {"spread", &Score::spread}};
    Index const count = context_.comm.rank() == 0 ? Index(num_channels()) : 0;
    auto const num_regions = Index(scores_->shape().regions.size());
    for (auto const& [name, metric] : metrics) {
      writer.add_variable({.name = name,
                           .dimensions = {"channel", "region", "lead_time"},
                           .type = ValueType::f64,
                           .fill = 9.969209968386869e+36});
      std::vector<double> values;
      for (Index c = 0; c < count; ++c)
        for (Index region = 0; region < num_regions; ++region)
          for (Index lead = 0; lead < num_records(); ++lead) values.push_back(scores_->score(c, lead, region).*metric);
      writer.write(name, Box({0, 0, 0}, {count, count > 0 ? num_regions : 0, count > 0 ? num_records() : 0}),
                   std::span<double const>(values));
    }
    writer.commit();
  }

  void draw_scores() {
    std::vector<Chart> charts;
    for (std::size_t c = 0; c < std::min<std::size_t>(num_channels(), 6); ++c) {
      auto const& channel = description_.channels[c];
      Chart chart{.title = channel.label,
                  .x_label = "lead time (hours)",
                  .y_label = app::with_units("rmse", app::pretty_units(channel.info.units)),
                  .curves = {}};
      auto const add = [&](char const* name, double Score::*metric, int colour, bool dashed) {
        Curve curve{.name = name, .x = {}, .y = {}, .colour = colour, .is_dashed = dashed};
        for (Index lead = 0; lead < num_records(); ++lead) {
          double const value = scores_->score(Index(c), lead, 0).*metric;
          if (!std::isfinite(value)) continue;
          curve.x.push_back(double((lead + 1) * options_.every * description_.lead_seconds) / 3600);
          curve.y.push_back(value);
        }
        if (!curve.x.empty()) chart.curves.push_back(std::move(curve));
      };
      add("forecast", &Score::rmse, 0, false);
      add("persistence", &Score::persistence_rmse, 1, true);
      add("climatology", &Score::climatology_rmse, 2, true);
      if (num_members_ > 1) add("spread", &Score::spread, 3, false);
      charts.push_back(std::move(chart));
    }
    draw_charts(fmt::format("Root mean square error over the globe, {} forecast{}", starts_.size(),
                            starts_.size() == 1 ? " from " + steps_.text(starts_.front()) : "s"),
                charts, path_of("scores.png"));
  }

  /// Maps of the first case. On rank 0.
  void draw_kept() {
    for (Kept const& kept : kept_) {
      auto const lead = duration_text(kept.step * description_.lead_seconds);
      if (kept.has_truth) {
        app::MapPicture picture{"Forecast of " + lead + " from " + steps_.text(starts_.front()),
                                options_.input + (num_members_ > 1 ? "; mean of the members" : ""),
                                table_.grid().latitudes,
                                table_.grid().longitudes,
                                row_weights_,
                                layout_,
                                {}};
        for (std::size_t c = 0; c < kept.truth.size(); ++c)
          picture.rows.push_back(
              {description_.channels[c].label, description_.channels[c].info.units, kept.truth[c], kept.forecast[c]});
        auto name = "map_" + lead + ".png";
        std::erase(name, ' ');
        draw_map(picture, path_of(name));
      }
    }
  }

  /// By total wavenumber, or by zonal wavenumber on latitudes without a quadrature rule: the first and the last lead.
  void draw_spectra() {
    bool const is_spherical = spectra_table_.num_degrees() > 0;
    std::vector<Chart> charts;
    for (Index number = 0; number < num_records(); number += std::max<Index>(num_records() - 1, 1))
      for (Index c = 0; c < Index(num_pictured()); ++c) {
        Chart chart{
            .title = description_.channels[std::size_t(c)].label + ", " +
                     duration_text((number + 1) * options_.every * description_.lead_seconds),
            .x_label = is_spherical ? "total wavenumber" : "zonal wavenumber",
            .y_label = app::with_units("power", app::squared_units(description_.channels[std::size_t(c)].info.units)),
            .is_logarithmic = true,
            .curves = {}};
        auto const add = [&](char const* name, SpectrumOf of, int colour, bool dashed) {
          auto const power =
              is_spherical ? spectra_table_.spherical(of, c, number) : spectra_table_.zonal(of, c, number, 0);
          if (!power.empty()) chart.curves.push_back(spectrum(name, power, colour, dashed));
        };
        add("truth", SpectrumOf::truth, 1, true);
        add("forecast", SpectrumOf::forecast, 0, false);
        if (!chart.curves.empty()) charts.push_back(std::move(chart));
      }
    if (!charts.empty())
      draw_charts(std::string("Power by wavenumber") + (is_spherical ? " on the sphere" : " along rows"), charts,
                  path_of("spectra.png"));
  }

  static Curve spectrum(char const* name, std::vector<double> const& power, int colour, bool dashed) {
    Curve curve{.name = name, .x = {}, .y = {}, .colour = colour, .is_dashed = dashed};
    for (std::size_t k = 1; k < power.size(); ++k) {
      if (!(power[k] > 0)) continue;
      curve.x.push_back(double(k));
      curve.y.push_back(power[k]);
    }
    return curve;
  }

  app::Context& context_;
  Options const& options_;
  samples::DataTeams teams_;
  Index num_members_;
  std::vector<Checkpoint> trained_;
  Description description_;  ///< of the first network: what all have in common, scales and climatology
  Index history_;
  samples::StateTable table_;
  samples::TimeSteps steps_;
  std::vector<double> row_weights_;
  Layout layout_;
  models::Cells cells_;
  samples::SampleReader reader_;
  std::vector<Seconds> starts_;
  std::vector<double> climatology_;
  CheckpointStore store_;
  OwnPart own_;
  std::optional<Networks> networks_;
  std::optional<Spectra> spectra_;
  std::optional<ScoreTable> scores_;
  SpectraTable spectra_table_;
  std::optional<ForecastFile> file_;
  std::optional<Checkpoint> resumed_;
  std::vector<double> initial_;
  std::vector<Pictured> pictured_;
  std::vector<Kept> kept_;
  std::vector<fs::path> written_;         ///< results in the output folder but for `file_of`; on rank 0
  std::set<std::string> reported_;        ///< variables of which a line about missing cells was written
  std::set<std::string> reported_fills_;  ///< and one about cells that are probably none
  Index case_ = 0;
  Index step_ = 0;
};

}  // namespace

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

int run_forecast(app::Context& context, Options const& options) {
  check_network(options);
  if (options.every > options.steps)
    throw Error(Fault::usage, "BadOption",
                fmt::format("--every {} exceeds --steps {}: nothing would be written", options.every, options.steps));
  Index const members = num_members(options);
  if (options.teams > members)
    throw Error(Fault::usage, "BadOption", fmt::format("--teams {} exceeds --members {}", options.teams, members));
  auto const networks = std::max<Index>(1, Index(options.checkpoints.size()));
  if (members % networks != 0)
    throw Error(Fault::usage, "BadOption",
                fmt::format("--members {} is no multiple of the {} networks of --checkpoint, which forecast as many "
                            "members each",
                            members, networks));
  app::OutputFolder const folder(context.comm, options.output);
  return Run(context, options)();
}

}  // namespace graticule::forecast
