// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <graticule/app/output_folder.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include "map_picture.hpp"
#include "network_device.hpp"
#include "networks.hpp"
#include "score_report.hpp"
#include "setup.hpp"
#include "verification.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace graticule::forecast {
namespace {

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

/// States of the input on this rank's box, and lines about cells without values: one per variable in a run.
class InputStates {
 public:
  explicit InputStates(Setup const& setup) : setup_(setup), reader_(setup.table.reader(setup.cells.box, 0)) {}

  /// Fields of a time and member of the input, [channel][row][column] in units; NaN for channels that it lacks, and for
  /// all where the input ends. Ranks agree on failures.
  std::vector<double> read(std::optional<Index> position, Index member, std::size_t channels) {
    auto const phase = setup_.context.report.phase("read");
    std::vector<double> values(channels * setup_.num_cells(), std::numeric_limits<double>::quiet_NaN());
    run_agreed(setup_.context.comm, [&] {
      for (std::size_t c = 0; c < std::min(channels, setup_.table.channels().size()) && position; ++c) {
        Index const state = *position * setup_.table.num_members() + member % setup_.table.num_members();
        reader_.unpack(state, c, reader_.read(state, c),
                       std::span(values).subspan(c * setup_.num_cells(), setup_.num_cells()));
      }
    });
    return values;
  }

  /// One line per variable of the input that has cells without values where the training had them, and one for each
  /// with cells that are probably none. Collective over all ranks. @throws `BadInput` (input) with `--missing error`
  void look_for_gaps(std::span<double const> fields, std::size_t most_channels, Index position) {
    report_cells(
        std::min(most_channels, setup_.table.channels().size()), position, reported_,
        [&](std::size_t channel) { return gaps_of(fields, channel); },
        [&](std::size_t, std::string const& label, std::string const& cells, std::string const& time) {
          return samples::MissingLine{
              .text = fmt::format("'{}' lacks {} at {}, {}", label, cells, time,
                                  setup_.climatology.empty()
                                      ? "NaN or default fill values that neither _FillValue nor missing_value declares"
                                      : "which states of the training have")};
        });
    report_cells(
        std::min(most_channels, setup_.table.channels().size()), position, reported_fills_,
        [&](std::size_t channel) { return fills_of(fields, channel); },
        [&](std::size_t channel, std::string const& label, std::string const& cells, std::string const& time) {
          auto const fill = probable_fill_text(setup_.table.file().variable(setup_.table.channels()[channel].variable));
          return samples::MissingLine{
              .text = fmt::format("'{}' has {} of {} at {}, netCDF's default fill value of its type, and no _FillValue",
                                  label, cells, fill, time),
              .outcome = "treated as values, because integers that are not packed may be codes"};
        });
  }

  /// Collective over all ranks. @throws `BadInput` (input) for a channel of an initial state without values, or with
  /// infinite ones
  void require_values(std::span<double const> fields, Seconds time) {
    std::size_t const prognostic = setup_.description.num_prognostic();
    std::vector<Index> found(2 * prognostic, 0);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::size_t const c = i / setup_.num_cells();
      if (!std::isnan(fields[i])) found[2 * c] = 1;
      if (std::isinf(fields[i])) found[2 * c + 1] = 1;
    }
    run_agreed(setup_.context.comm, [&] {
      setup_.teams.domain().max(std::span(found));
      for (std::size_t c = 0; c < prognostic; ++c)
        if (found[2 * c] == 0 || found[2 * c + 1] != 0)
          throw Error(Fault::input, "BadInput",
                      fmt::format("{}: '{}' has {} at {}, from which a forecast starts", setup_.options.input,
                                  setup_.description.channels[c].label,
                                  found[2 * c] == 0 ? "no value" : "an infinite value", setup_.steps.text(time)));
    });
  }

 private:
  /// The first cell of a channel without a value where the climatology has one, or, without climatology, in a variable
  /// that declares no missing data, by its number on the whole grid; and how many there are on this rank.
  [[nodiscard]] std::pair<Index, Index> gaps_of(std::span<double const> fields, std::size_t channel) const {
    std::pair<Index, Index> found{std::numeric_limits<Index>::max(), 0};
    if (setup_.climatology.empty() &&
        samples::declares_missing(setup_.table.file().variable(setup_.table.channels()[channel].variable)))
      return found;
    std::size_t cell = channel * setup_.num_cells();
    for (Index i = setup_.cells.box.lo(0); i < setup_.cells.box.hi(0); ++i)
      for (Index j = setup_.cells.box.lo(1); j < setup_.cells.box.hi(1); ++j, ++cell) {
        if (!std::isnan(fields[cell]) || (!setup_.climatology.empty() && std::isnan(setup_.climatology[cell])))
          continue;
        if (found.second++ == 0) found.first = i * setup_.cells.grid.num_columns() + j;
      }
    return found;
  }

  /// Cells of a channel that are probably no values though they are read as such: the first one and their number, as
  /// `gaps_of`.
  [[nodiscard]] std::pair<Index, Index> fills_of(std::span<double const> fields, std::size_t channel) const {
    std::pair<Index, Index> found{std::numeric_limits<Index>::max(), 0};
    auto const fill = probable_fill(setup_.table.file().variable(setup_.table.channels()[channel].variable));
    std::size_t cell = channel * setup_.num_cells();
    for (Index i = setup_.cells.box.lo(0); fill && i < setup_.cells.box.hi(0); ++i)
      for (Index j = setup_.cells.box.lo(1); j < setup_.cells.box.hi(1); ++j, ++cell)
        if (fields[cell] == *fill && found.second++ == 0) found.first = i * setup_.cells.grid.num_columns() + j;
    return found;
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
    setup_.teams.domain().max(std::span(firsts));
    setup_.teams.domain().sum(std::span(counts));
    // Of teams that look at other members the first with such cells reports them.
    std::vector<Index> reporters(channels);
    for (std::size_t c = 0; c < channels; ++c)
      reporters[c] = counts[c] > 0 ? setup_.teams.num_teams() - setup_.teams.team() : 0;
    setup_.context.comm.max(std::span(reporters));
    for (std::size_t c = 0; c < channels; ++c) {
      std::string const& variable = setup_.table.channels()[c].variable;
      if (reporters[c] == 0 || !reported.insert(variable).second) continue;
      bool const reports = reporters[c] == setup_.teams.num_teams() - setup_.teams.team();
      samples::MissingLine line;
      if (reports) {
        line = describe(c, setup_.description.channels[c].label,
                        fmt::format("{} {}", counts[c], counts[c] == 1 ? "cell" : "cells"),
                        setup_.steps.text(setup_.steps.times()[std::size_t(position)]));
        line.text = fmt::format("{}: {}: first at {}", setup_.options.input, line.text,
                                samples::place_text(setup_.cells.grid, -firsts[c] / setup_.cells.grid.num_columns(),
                                                    -firsts[c] % setup_.cells.grid.num_columns()));
      }
      run_agreed(setup_.context.comm, [&] {
        if (!reports) return;
        samples::apply_rule(setup_.options.missing, {line}, [&](std::string const& text) {
          if (setup_.teams.domain().rank() == 0) spdlog::warn("{}", text);
        });
      });
    }
  }

  Setup const& setup_;
  samples::SampleReader reader_;
  std::set<std::string> reported_;        ///< variables of which a line about missing cells was written
  std::set<std::string> reported_fills_;  ///< and one about cells that are probably none
};

/// Maps of the first forecast at some leads: the mean of the members beside the truth.
class Maps {
 public:
  explicit Maps(Setup const& setup) : setup_(setup) {}

  /// Keeps the ensemble mean and the truth after `step`, where a map shows record `number`.
  void keep(Index number, Index step, std::vector<double> const& forecast, std::vector<double> const& truth,
            bool has_truth) {
    if (!is_drawn(number)) return;
    auto const size = std::ptrdiff_t(setup_.num_pictured() * setup_.num_cells());
    pictured_.push_back({number, step, has_truth, std::vector(forecast.begin(), forecast.begin() + size),
                         std::vector(truth.begin(), truth.begin() + size)});
  }

  void save(CheckpointWriter& writer) {
    auto const boxes = layout();
    std::vector<double> list;
    for (std::size_t n = 0; n < pictured_.size(); ++n) {
      auto& pictured = pictured_[n];
      list.insert(list.end(), {double(pictured.number), double(pictured.step), pictured.has_truth ? 1.0 : 0.0});
      auto const name = "pictures/" + std::to_string(n);
      writer.add(name + "/forecast", boxes, view(pictured.forecast));
      writer.add(name + "/truth", boxes, view(pictured.truth));
    }
    writer.add_value("pictures", list);
  }

  void load(Checkpoint const& checkpoint) {
    auto const boxes = layout();
    auto const list = checkpoint.value<std::vector<double>>("pictures");
    for (std::size_t n = 0; 3 * n < list.size(); ++n) {
      std::vector<double> const zeros(setup_.num_pictured() * setup_.num_cells());
      auto& pictured = pictured_.emplace_back(
          Pictured{Index(list[3 * n]), Index(list[3 * n + 1]), list[3 * n + 2] != 0, zeros, zeros});
      auto const name = "pictures/" + std::to_string(n);
      checkpoint.read(name + "/forecast", boxes, view(pictured.forecast));
      checkpoint.read(name + "/truth", boxes, view(pictured.truth));
    }
  }

  /// Gathers whole fields on rank 0. Collective.
  void gather() {
    for (Pictured const& pictured : pictured_)
      if (pictured.has_truth) gathered_.push_back({pictured.step, whole(pictured.forecast), whole(pictured.truth)});
  }

  /// On rank 0.
  void draw(Outputs& outputs) const {
    for (Gathered const& gathered : gathered_) {
      auto const lead = duration_text(gathered.step * setup_.description.lead_seconds);
      app::MapPicture picture{"Forecast of " + lead + " from " + setup_.steps.text(setup_.starts.front()),
                              setup_.options.input + (setup_.num_members > 1 ? "; mean of the members" : ""),
                              setup_.table.grid().latitudes,
                              setup_.table.grid().longitudes,
                              setup_.row_weights,
                              setup_.layout,
                              {}};
      for (std::size_t c = 0; c < gathered.truth.size(); ++c)
        picture.rows.push_back({setup_.description.channels[c].label, setup_.description.channels[c].info.units,
                                gathered.truth[c], gathered.forecast[c]});
      auto name = "map_" + lead + ".png";
      std::erase(name, ' ');
      draw_map(picture, outputs.path_of(name));
    }
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
  /// Whole fields by channel, on rank 0.
  struct Gathered {
    Index step = 0;
    std::vector<std::vector<double>> forecast;
    std::vector<std::vector<double>> truth;
  };

  /// Of the records, the first and the last one and as many between as `--maps` asks for.
  [[nodiscard]] bool is_drawn(Index number) const {
    Index const count = std::min(setup_.options.maps, setup_.num_records());
    if (count == 1) return number == 0;
    for (Index i = 0; i < count; ++i)
      if (i * (setup_.num_records() - 1) / (count - 1) == number) return true;
    return false;
  }

  /// Collective over the domain.
  [[nodiscard]] std::vector<std::vector<double>> whole(std::vector<double> const& fields) const {
    std::vector<std::vector<double>> result;
    auto begin = fields.begin();
    for (std::size_t c = 0; c < setup_.num_pictured(); ++c) {
      auto const end = begin + std::ptrdiff_t(setup_.num_cells());
      result.push_back(samples::gathered(setup_.teams.domain(), setup_.layout, {begin, end}));
      begin = end;
    }
    return result;
  }

  /// The boxes of the first team, which keeps what is pictured.
  [[nodiscard]] Layout layout() const {
    Box const none({0, 0}, {0, 0});
    return samples::layout_of_boxes(setup_.context.comm, setup_.layout.global().extents(),
                                    setup_.teams.team() == 0 ? setup_.cells.box : none);
  }

  /// [channel][row][column] on this rank's part of `layout`.
  [[nodiscard]] FieldView view(std::vector<double>& fields) const {
    bool const first = setup_.teams.team() == 0;
    return field_view(fields.data(),
                      Indices{Index(setup_.num_pictured()), first ? setup_.cells.box.extent(0) : 0,
                              first ? setup_.cells.box.extent(1) : 0},
                      2);
  }

  Setup const& setup_;
  std::vector<Pictured> pictured_;
  std::vector<Gathered> gathered_;
};

/// One driver run: its steps, and when they are written, scored and saved.
class Run {
 public:
  Run(app::Context& context, Options const& options)
      : setup_(context, options), store_(context.comm, options.output / "checkpoints", {.keep = 2}) {
    auto const& domain = setup_.teams.domain();
    Networks::Members const members{setup_.num_members, setup_.own.first_member,
                                    setup_.own.first_member + setup_.own.num_members};
    if (setup_.trained.empty())
      networks_.emplace(context.comm, domain, setup_.layout, setup_.description, members, options.network_device);
    else
      networks_.emplace(context.comm, domain, setup_.layout, setup_.trained, members, options.network_device);
    networks_->set_calendar(setup_.steps.calendar());
    context.report.set_partition(setup_.layout, {setup_.table.latitude_name(), setup_.table.longitude_name()});
    setup_.require_other_files();
    setup_.warn_of_units();
    setup_.warn_of_normalised_network();
  }

  int operator()() {
    app::StopSignals const signals{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    app::TimeLimit const limit(setup_.options.time_limit);
    if (setup_.options.resume == "auto") load();
    auto progress = setup_.context.progress("forecast", Index(setup_.starts.size()) * setup_.options.steps);
    spdlog::info("{} x {} cells; {} forecasts of {} steps of {} from {}, {} members; {} {}",
                 setup_.cells.grid.num_rows(), setup_.cells.grid.num_columns(), setup_.starts.size(),
                 setup_.options.steps, duration_text(setup_.description.lead_seconds),
                 setup_.steps.text(setup_.starts.front()), setup_.num_members,
                 networks_->files().size() == 1 ? "network" : "networks", files_text());
    for (; case_ < Index(setup_.starts.size()); ++case_, step_ = 0) {
      begin_case();
      while (step_ < setup_.options.steps) {
        double const begin = MPI_Wtime();
        step();
        progress.update(case_ * setup_.options.steps + step_);
        bool const is_last = case_ + 1 == Index(setup_.starts.size()) && step_ == setup_.options.steps;
        auto const reason = is_last
                                ? std::nullopt
                                : app::reason_to_stop(setup_.context.comm, signals, limit, 3 * (MPI_Wtime() - begin));
        bool const due = setup_.options.checkpoint_every > 0 && step_ % setup_.options.checkpoint_every == 0;
        if (due || reason) save();
        if (reason) return stop(*reason);
      }
      file_.reset();
    }
    finish();
    return app::good;
  }

 private:
  [[nodiscard]] std::string files_text() const {
    std::string text;
    for (auto const& file : networks_->files()) text += (text.empty() ? "" : " ") + file.string();
    return text;
  }
  [[nodiscard]] Seconds start() const { return setup_.starts[std::size_t(case_)]; }

  /// The initial states of this team's members.
  void begin_case() {
    Index const position = *setup_.steps.find(start());
    auto initial = states_.read(position, 0, setup_.num_channels());
    std::size_t const prognostic = setup_.description.num_prognostic();
    std::vector<double> states;
    for (Index m = 0; m < setup_.most_members_of_a_team(); ++m) {
      bool const mine = m < setup_.own.num_members;
      Index const member = setup_.own.first_member + (mine ? m : 0);
      Index const place = member % networks_->members_per_network();
      for (Index t = 0; t < setup_.history; ++t) {
        Index const time = *setup_.steps.at(position, -t);
        auto const values = states_.read(time, place, prognostic);
        states_.require_values(values, start() - t * setup_.description.lead_seconds);
        states_.look_for_gaps(values, prognostic, time);
        if (mine) states.insert(states.end(), values.begin(), values.end());
      }
      if (mine && place > 0) perturb(states, std::size_t(m), member);
    }
    states_.look_for_gaps(initial, setup_.num_channels(), position);
    verification_.begin_case(case_, std::move(initial));
    networks_->start(states, setup_.history);
    if (resumed_) networks_->load(*resumed_);
    bool const goes_on = std::exchange(resumed_, std::nullopt).has_value() || step_ > 0;
    file_.emplace(
        setup_.context.comm, setup_.teams.domain(), setup_.table, setup_.description, setup_.own,
        ForecastFile::Options{.path = setup_.file_of(start()),
                              .start = start(),
                              .calendar = setup_.steps.calendar(),
                              .num_members = setup_.num_members,
                              .history = "graticule-forecast --start " + compact(start(), setup_.steps.calendar()),
                              .networks = networks_->files()},
        goes_on);
  }

  /// Adds the same smooth noise to all states of a member.
  void perturb(std::vector<double>& states, std::size_t place, Index member) const {
    std::size_t const prognostic = setup_.description.num_prognostic();
    for (std::size_t c = 0; c < prognostic; ++c) {
      SmoothNoise const noise(setup_.options.seed,
                              fmt::format("member {} {}", member, setup_.description.channels[c].label));
      double const amplitude = setup_.perturbation() * setup_.description.tendencies[c].scale;
      std::size_t cell = 0;
      for (Index i = setup_.cells.box.lo(0); i < setup_.cells.box.hi(0); ++i)
        for (Index j = setup_.cells.box.lo(1); j < setup_.cells.box.hi(1); ++j, ++cell) {
          double const value = amplitude * noise.at(setup_.cells.grid.latitudes[std::size_t(i)],
                                                    setup_.cells.grid.longitudes[std::size_t(j)]);
          for (std::size_t t = 0; t < std::size_t(setup_.history); ++t)
            states[((place * std::size_t(setup_.history) + t) * prognostic + c) * setup_.num_cells() + cell] += value;
        }
    }
  }

  void step() {
    {
      auto const phase = setup_.context.report.phase("steps");
      networks_->step(start() + step_ * setup_.description.lead_seconds);
    }
    ++step_;
    if (step_ % setup_.options.every == 0 && step_ / setup_.options.every <= setup_.num_records()) record();
  }

  void record() {
    Index const number = step_ / setup_.options.every - 1;
    std::vector<double> fields;
    for (Index m = 0; m < setup_.own.num_members; ++m) {
      auto const present = networks_->present(m);
      fields.insert(fields.end(), present.begin(), present.end());
    }
    {
      auto const phase = setup_.context.report.phase("write");
      file_->write(number, step_ * setup_.description.lead_seconds, fields);
    }
    auto const position = setup_.steps.at(*setup_.steps.find(start()), step_);
    auto const truth = states_.read(position, 0, setup_.num_channels());
    if (position) states_.look_for_gaps(truth, setup_.num_channels(), *position);
    auto const phase = setup_.context.report.phase("scores");
    auto const mean = verification_.score(number, fields, truth, position.has_value());
    if (case_ == 0) maps_.keep(number, step_, mean, truth, position.has_value());
    verification_.add_spectra(number, SpectrumOf::forecast, fields, setup_.own.num_members);
    if (position) verification_.add_spectra(number, SpectrumOf::truth, truth, 1);
  }

  /// All that the same forecast depends on.
  [[nodiscard]] std::string settings() const {
    std::string text = files_text() + " " + setup_.options.input;
    for (Seconds const time : setup_.starts) text += " " + compact(time, setup_.steps.calendar());
    return text +
           fmt::format(" --steps {} --every {} --members {} --perturbation {} --seed {}{}", setup_.options.steps,
                       setup_.options.every, setup_.num_members, setup_.perturbation(), setup_.options.seed,
                       setup_.options.output_format == "zarr" ? " --output-format zarr" : "") +
           setup_.options.given;
  }

  void save() {
    auto const phase = setup_.context.report.phase("checkpoint");
    auto writer = store_.begin(case_ * setup_.options.steps + step_);
    networks_->save(writer);
    writer.add_value("settings", settings());
    verification_.save(writer);
    maps_.save(writer);
    writer.commit();
  }

  void load() {
    auto found = store_.newest();
    app::warn_of_skipped(setup_.context.comm, store_, found.has_value());
    if (!found) return;
    if (found->value<std::string>("settings") != settings())
      throw Error(Fault::usage, "StateMismatch",
                  found->path().string() + " is of another forecast (" + found->value<std::string>("settings") +
                      "); choose another --output, or --resume never");
    verification_.load(*found);
    maps_.load(*found);
    case_ = found->step() / setup_.options.steps;
    step_ = found->step() % setup_.options.steps;
    if (step_ == 0 && case_ > 0) {
      // The end of a case: the next one begins anew.
      spdlog::info("continues with forecast {}", case_ + 1);
      return;
    }
    spdlog::info("continues after step {} of {}", step_, setup_.options.steps);
    resumed_ = std::move(found);
  }

  int stop(std::string const& reason) {
    return app::end_early(
        setup_.context, setup_.options.output, reason,
        fmt::format("step {} of {} from {}", step_, setup_.options.steps, setup_.steps.text(start())));
  }

  /// Seconds of a lead of the score table.
  [[nodiscard]] Description scored_description() const {
    Description scored = setup_.description;
    scored.lead_seconds *= setup_.options.every;
    return scored;
  }

  void finish() {
    auto const phase = setup_.context.report.phase("finish");
    auto const scored = scored_description();
    bool const has_scores = verification_.has_scores();
    setup_.context.report.data()["device"] = network_device_report(setup_.options.device, setup_.context.comm);
    auto const sent = nn::traffic();
    setup_.context.report.set_transport(
        setup_.context.comm, setup_.teams.domain(),
        HaloPlan(setup_.teams.domain(), setup_.layout, {{1, 1}, {1, 1}}, setup_.cells.grid.boundary).paths(),
        {"halo exchanges and repartitions of this run", double(sent.num_messages), double(sent.bytes)});
    setup_.context.report.data()["forecast"] = nullptr;
    if (has_scores) setup_.context.report.data()["forecast"] = forecast_report(verification_.scores(), scored);
    setup_.context.report.data()["starts"] = nlohmann::ordered_json::array();
    for (Seconds const time : setup_.starts) setup_.context.report.data()["starts"].push_back(setup_.steps.text(time));
    for (auto const& file : networks_->files()) setup_.context.report.data()["networks"].push_back(file.string());
    if (has_scores) verification_.write_scores();
    verification_.write_spectra();
    maps_.gather();
    run_agreed(setup_.context.comm, [&] {
      if (setup_.context.comm.rank() != 0) return;
      if (has_scores) {
        write_complete_file(outputs_.path_of("scores.csv"),
                            score_header() + score_lines(verification_.scores(), scored, 0, 0, "forecast"));
        verification_.draw_scores();
      }
      maps_.draw(outputs_);
      verification_.draw_spectra();
      setup_.context.report.write(setup_.options.output / "report.json");
    });
    outputs_.remove_earlier_outputs();
    if (has_scores) verification_.log_scores();
    std::string names;
    for (auto const& file : outputs_.written()) names += file.filename().string() + ", ";
    spdlog::info("wrote {}, {}report.json to {}",
                 setup_.starts.size() == 1
                     ? setup_.file_of(setup_.starts.front()).filename().string()
                     : "forecast_DATE" + app::ending_of_fields(setup_.options.output_format) + " of each start",
                 names, setup_.options.output.string());
  }

  Setup const setup_;
  InputStates states_{setup_};
  Outputs outputs_{setup_};
  Verification verification_{setup_, outputs_};
  Maps maps_{setup_};
  CheckpointStore store_;
  std::optional<Networks> networks_;
  std::optional<ForecastFile> file_;
  std::optional<Checkpoint> resumed_;
  Index case_ = 0;
  Index step_ = 0;
};

}  // namespace

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
