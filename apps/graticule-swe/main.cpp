// SPDX-License-Identifier: BSD-3-Clause
// The shallow-water equations on the sphere, on the engine's halos.
#include <graticule/app/driver.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/app/output_folder.hpp>
#include <graticule/app/resuming.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/error.hpp>

#include "emulator.hpp"
#include "pictures.hpp"
#include "series.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <numbers>
#include <utility>

namespace {

using namespace graticule;
namespace fs = std::filesystem;

struct Options {
  swe::CaseOptions experiment;
  double angle = 0;
  Index num_rows = 128;
  Index num_columns = 256;
  double days = 0;
  double step = 0;
  std::string scheme = "enstrophy";
  std::string every = "6h";
  std::string dtype = "f32";
  std::string output = "swe";
  Index checkpoint_every = 0;
  std::string resume = "auto";
  std::string partition = "auto";
  std::string time_limit = "auto";
  std::string emulator;
  Index emulator_filter = 0;
};

void declare(CLI::App& app, Options& o) {
  app.footer(
      "Examples:\n"
      "  mpiexec -n 2 graticule-swe --case 6 --output wave        # a Rossby-Haurwitz wave for 14 days\n"
      "  graticule-swe --case random --days 20 --every 6h --output series\n"
      "  graticule-swe --case random --seed 2 --days 10 --emulator run --emulator-filter 4 --output emulated");
  std::string cases = "Experiment.";
  for (auto const& name : swe::case_names()) cases += "\n" + name + ": " + swe::describe(name);
  app.add_option("--case", o.experiment.name, cases)->check(CLI::IsMember(swe::case_names()));
  app.add_option(
         "--angle", o.angle,
         "Cases 1 and 2: angle between the axis that the flow turns round and the axis of the planet, in degrees; "
         "90: the flow crosses the poles")
      ->check(CLI::Range(-180.0, 180.0));
  app.add_option("--seed", o.experiment.seed, "Case random: seed of the wind");
  app.add_option("--nlat", o.num_rows, "Number of latitudes")->check(CLI::Range(Index(8), Index(1) << 16));
  app.add_option("--nlon", o.num_columns, "Number of longitudes, even")->check(CLI::Range(Index(8), Index(1) << 17));
  app.add_option("--days", o.days,
                 "Days to simulate, such as 2.5; the last record is at their end.\n"
                 "0: as many as is usual for the case")
      ->check(CLI::Range(0.0, 1e5));
  app.add_option("--step", o.step,
                 "Longest step in seconds; steps are shortened so that a whole number of them fits between records.\n"
                 "0: 12800 divided by the larger of --nlat and half of --nlon, 100 s for the default grid")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--scheme", o.scheme,
                 "Numerical scheme; case 1, with its fixed wind, has its own.\n"
                 "enstrophy: conserves potential enstrophy (Sadourny 1975)\n"
                 "arakawa-lamb: conserves energy, too (Arakawa and Lamb 1981)")
      ->check(CLI::IsMember({"enstrophy", "arakawa-lamb"}));
  app.add_option("--every", o.every, "Time between records of series.nc, such as 6h, 30m, 90s or 1d")
      ->type_name("TIME");
  app.add_option("--dtype", o.dtype, "Data type of series.nc")->check(CLI::IsMember({"f32", "f64"}));
  app::add_shared(
      app, "--output", o.output,
      "series.nc, map.png, report.json and checkpoints, and the file `stopped`, which a run that ends early "
      "leaves");
  app::add_shared(app, "--checkpoint-every", o.checkpoint_every)->check(CLI::Range(Index(0), Index(1) << 40));
  app::add_shared(app, "--resume", o.resume)->check(CLI::IsMember({"auto", "never"}).description(""));
  app::add_shared(app, "--partition", o.partition);
  app.add_option("--emulator", o.emulator,
                 "Let a trained network make the steps in place of the solver: output folder or checkpoint of "
                 "graticule-train --lead, trained on h, u and v of a series.nc. --every must be a multiple of its lead")
      ->type_name("FOLDER|FILE");
  app.add_option(
         "--emulator-filter", o.emulator_filter,
         "With --emulator: order, an even number, of a filter after each step, which keeps long runs stable. A wave "
         "of n cells keeps 1 - sin(pi/n)^ORDER of its amplitude, a wave of two cells nothing.\n"
         "0: no filter")
      ->check(CLI::Range(Index(0), Index(64)));
  app::add_shared(app, "--time-limit", o.time_limit);
}

/// Seconds of "6h", "30m", "90s" or "1d".
double seconds_of(std::string const& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (std::exception const&) {
    used = 0;
  }
  auto const unit = text.substr(used);
  double const factor = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
  if (used == 0 || factor == 0 || !(value > 0) || !(value * factor < 1e12))
    throw Error(Fault::usage, "BadOption", "--every " + text + " is not a time such as 6h, 30m or 1d");
  return value * factor;
}

/// How long a run is, in steps that end at output times, the last of which is its end.
struct Schedule {
  double step_seconds;  ///< of a step of the solver, or of an emulator's lead
  Index steps_per_record;
  Index solver_steps = 1;  ///< of the solver in one of these
  Index num_whole = 0;     ///< steps up to the last whole multiple of --every
  Index num_rest = 0;      ///< steps from there to the end
  double rest_step_seconds = 0;

  [[nodiscard]] Index num_steps() const { return num_whole + num_rest; }
  /// Of a step after `done` others.
  [[nodiscard]] double seconds_after(Index done) const { return done < num_whole ? step_seconds : rest_step_seconds; }
  /// After `done` steps.
  [[nodiscard]] double time(Index done) const {
    return double(std::min(done, num_whole)) * step_seconds +
           double(std::max<Index>(done - num_whole, 0)) * rest_step_seconds;
  }
  [[nodiscard]] bool ends_record(Index done) const { return done == num_steps() || done % steps_per_record == 0; }
  /// Number of the record at the end of step `done`, or of the last one before.
  [[nodiscard]] Index record(Index done) const {
    return num_rest > 0 && done == num_steps() ? num_whole / steps_per_record + 1 : done / steps_per_record;
  }
};

Schedule schedule_of(Options const& o, std::optional<swe::EmulatorFacts> const& emulator) {
  double const every = seconds_of(o.every);
  double const end = 86400 * (o.days > 0 ? o.days : swe::default_days(o.experiment.name));
  double const fineness = double(std::max(o.num_rows, o.num_columns / 2));
  double const longest = o.step > 0 ? o.step : 12800 / fineness;
  auto const parts = [](double seconds, double most) { return Index(std::ceil(seconds / most - 1e-9)); };
  Schedule schedule{every / double(parts(every, longest)), parts(every, longest)};
  if (emulator) {
    auto const lead = double(emulator->lead_seconds);
    auto const require_whole = [&](std::string const& option, double seconds) {
      if (std::llround(seconds / lead) < 1 || std::abs(seconds - double(std::llround(seconds / lead)) * lead) > 1e-3)
        throw Error(Fault::usage, "BadOption",
                    fmt::format("{} is no whole number of leads of the emulator, {} s each ({})", option, lead,
                                emulator->file.string()));
    };
    require_whole("--every " + o.every, every);
    require_whole(fmt::format("--days {}", end / 86400), end);
    schedule = {lead, Index(std::llround(every / lead)), parts(lead, longest)};
  }
  auto const num_records = Index(std::floor(end / every + 1e-9));
  double const rest = end - double(num_records) * every;
  schedule.num_whole = num_records * schedule.steps_per_record;
  if (rest > 1e-3) {
    schedule.num_rest = emulator ? Index(std::llround(rest / schedule.step_seconds)) : parts(rest, longest);
    schedule.rest_step_seconds = rest / double(schedule.num_rest);
  }
  if (schedule.num_steps() < 1)
    throw Error(Fault::usage, "BadOption", fmt::format("--days {} is less than a millisecond", o.days));
  return schedule;
}

std::optional<swe::EmulatorFacts> emulator_of(Options const& o, Comm const& comm) {
  if (o.emulator.empty()) return {};
  return swe::read_emulator(comm, o.emulator);
}

swe::Scheme scheme_of(Options const& o) {
  if (auto const forced = swe::forced_scheme(o.experiment.name)) return *forced;
  return o.scheme == "enstrophy" ? swe::Scheme::enstrophy : swe::Scheme::arakawa_lamb;
}

Layout layout_of(Options const& o, swe::Grid const& grid, int num_ranks) {
  auto const processes = app::parse_partition(o.partition, num_ranks);
  // Where rows are whole each rank filters its own polar rows; else all ranks share them.
  auto const rows = processes.extent(1) == 1 ? weighted_cuts(swe::PolarFilter::row_weights(grid), processes.extent(0))
                                             : balanced_cuts(grid.num_rows(), processes.extent(0));
  return Layout(processes, {rows, balanced_cuts(grid.num_columns(), processes.extent(1))});
}

std::string filter_text(Options const& o) {
  return o.emulator_filter > 0 ? fmt::format(" --emulator-filter {}", o.emulator_filter) : std::string();
}

/// Those that `description` has are compared, and --dtype with the type of series.nc.
app::ResumeRules const resume_rules{
    .compared = {"--case", "--angle", "--seed", "--nlat", "--nlon", "--scheme", "--step", "--every", "--emulator",
                 "--emulator-filter", "--dtype"},
    .free = {"--days", "--output", "--checkpoint-every", "--resume", "--partition", "--time-limit"}};

/// What makes the same states again: everything but the ranks and the end, unless a record of its own lies there.
std::string description(Options const& o, Schedule const& schedule, std::optional<swe::EmulatorFacts> const& emulator) {
  return fmt::format(
      "graticule-swe --case {} --angle {} --seed {} --nlat {} --nlon {} --scheme {} --step {} --every {}{}{}",
      o.experiment.name, o.angle, o.experiment.seed, o.num_rows, o.num_columns, o.scheme,
      schedule.step_seconds / double(schedule.solver_steps), o.every,
      schedule.num_rest > 0 ? fmt::format(" --days {}", schedule.time(schedule.num_steps()) / 86400) : std::string(),
      emulator ? " --emulator " + emulator->file.string() + filter_text(o) : std::string());
}

/// One run: its state, its files, and where it is.
class Run {
 public:
  Run(app::Context& context, Options const& o)
      : context_(context),
        o_(o),
        facts_(emulator_of(o, context.comm)),
        schedule_(schedule_of(o, facts_)),
        description_(description(o, schedule_, facts_)),
        grid_(o.num_rows, o.num_columns, swe::planet_of(o.experiment)),
        solver_(grid_, context.comm, layout_of(o, grid_, context.comm.num_ranks()), scheme_of(o),
                schedule_.step_seconds / double(schedule_.solver_steps)),
        diagnostics_(solver_),
        store_(context.comm, fs::path(o.output) / "checkpoints") {
    context.report.set_partition(solver_.layout(), {"latitude", "longitude"});
    swe::set_initial_state(solver_, o.experiment);
    first_ = diagnostics_.invariants();
    if (facts_)
      emulator_ = std::make_unique<swe::Emulator>(solver_, *facts_, schedule_.solver_steps, o.emulator_filter);
    if (o.resume == "auto") load();
    if (emulator_ && done_ == 0) emulator_->begin(diagnostics_);
    series_.emplace(solver_, fs::path(o.output) / "series.nc", description_, o.dtype == "f64",
                    done_ > 0 ? schedule_.record(done_) + 1 : 0);
    if (done_ == 0) record();
  }

  int run(app::TimeLimit const& limit) {
    app::StopSignals const signals{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    Index const begin = done_;
    double const start = MPI_Wtime();
    auto const num_steps = schedule_.num_steps();
    auto progress = context_.progress("steps", num_steps);
    while (done_ < num_steps) {
      {
        auto const phase = context_.report.phase("steps");
        if (emulator_) {
          emulator_->step(done_, diagnostics_);
        } else {
          solver_.set_step_seconds(schedule_.seconds_after(done_));
          solver_.step();
        }
        ++done_;
      }
      if (schedule_.ends_record(done_)) record();
      progress.update(done_);
      bool const due = o_.checkpoint_every > 0 && done_ % o_.checkpoint_every == 0;
      std::optional<std::string> reason;
      if ((emulator_ || done_ % steps_between_looks == 0) && done_ < num_steps)
        reason = app::reason_to_stop(context_.comm, signals, limit, 10 * (MPI_Wtime() - start) / double(done_ - begin));
      if (due || reason) save();
      if (reason) return stop(*reason);
    }
    finish(begin, MPI_Wtime() - start);
    draw();
    run_agreed(context_.comm, [&] {
      if (context_.comm.rank() == 0) context_.report.write(fs::path(o_.output) / "report.json");
    });
    return app::good;
  }

 private:
  /// A look at signals and time is a reduction over all ranks.
  static constexpr Index steps_between_looks = 10;
  /// Of mass or energy. Networks that keep to the flow lose less than a percent in ten days.
  static constexpr double plausible_drift = 2e-2;

  void record() {
    auto const phase = context_.report.phase("write");
    check_state();
    auto centred = diagnostics_.centred();
    if (emulator_) emulator_->replace_winds(centred);
    series_->write(schedule_.record(done_), schedule_.time(done_) / 3600, centred, solver_.state().h);
  }

  /// Warns of an emulator that has lost its way. @throws `NotFinite` when the simulation has blown up
  void check_state() {
    auto const now = diagnostics_.invariants();
    if (!std::isfinite(now.mass + now.energy + now.enstrophy))
      throw Error("NotFinite",
                  emulator_ ? fmt::format("the emulator's state is not finite after step {} of {}", done_,
                                          schedule_.num_steps())
                            : fmt::format("the state is not finite after step {} of {}; a shorter --step than {} s may "
                                          "help",
                                          done_, schedule_.num_steps(), schedule_.seconds_after(done_ - 1)));
    double const mass = now.mass / first_.mass - 1;
    double const energy = now.energy / first_.energy - 1;
    if (!emulator_ || std::max(std::abs(mass), std::abs(energy)) < plausible_drift || std::exchange(warned_, true))
      return;
    if (context_.comm.rank() == 0)
      spdlog::warn(
          "the emulator's state is far from the truth after {:.4g} days: mass has changed by {:+.1e} and energy by "
          "{:+.1e}, which the equations conserve; what keeps an emulator stable: docs/swe.md",
          schedule_.time(done_) / 86400, mass, energy);
  }

  void save() {
    auto const phase = context_.report.phase("checkpoint");
    auto writer = store_.begin(done_);
    constexpr std::array names{"h", "u", "v"};
    for (std::size_t f = 0; f < names.size(); ++f)
      writer.add(names[f], solver_.layout(), solver_.state().fields()[f]->part(solver_.owned()));
    writer.add_value("description", description_);
    if (emulator_) emulator_->save(writer);
    writer.commit();
  }

  void load() {
    auto const checkpoint = store_.newest();
    app::warn_of_skipped(context_.comm, store_, checkpoint.has_value());
    if (!checkpoint) return;
    auto const found = checkpoint->value<std::string>("description");
    if (found != description_)
      throw Error(Fault::input, "StateMismatch",
                  checkpoint->path().string() + " is of another run (" + found +
                      "); choose another --output, or --resume never");
    constexpr std::array names{"h", "u", "v"};
    for (std::size_t f = 0; f < names.size(); ++f)
      checkpoint->read(names[f], solver_.layout(), solver_.state().fields()[f]->part(solver_.owned()));
    done_ = checkpoint->step();
    if (done_ > schedule_.num_steps())
      throw Error(Fault::input, "StateMismatch",
                  fmt::format("{} is of step {}, after the end of this run (step {}); choose more --days, another "
                              "--output, or --resume never",
                              checkpoint->path().string(), done_, schedule_.num_steps()));
    if (emulator_) emulator_->load(*checkpoint);
    spdlog::info("continues after step {}", done_);
  }

  int stop(std::string const& reason) {
    return app::end_early(context_, o_.output, reason, fmt::format("step {} of {}", done_, schedule_.num_steps()));
  }

  void draw() {
    auto const phase = context_.report.phase("pictures");
    auto const folder = fs::path(o_.output);
    auto const by = o_.emulator.empty() ? std::string() : ", by the network of " + o_.emulator;
    swe::draw_series(solver_, folder / "series.nc", swe::describe(o_.experiment.name) + by, folder / "map.png");
  }

  void finish(Index begin, double seconds) {
    auto const phase = context_.report.phase("diagnostics");
    check_state();
    auto& data = context_.report.data();
    auto const last = diagnostics_.invariants();
    auto const num_steps = schedule_.num_steps();
    double const time = schedule_.time(num_steps);
    double const step_seconds = schedule_.seconds_after(0);
    report_transport();
    data["steps"] = num_steps;
    data["step_seconds"] = step_seconds;
    if (schedule_.num_rest > 0) data["last_step_seconds"] = schedule_.rest_step_seconds;
    if (facts_)
      data["emulator"] = {{"checkpoint", facts_->file.string()},
                          {"lead_seconds", facts_->lead_seconds},
                          {"first_states_of_solver", std::min(facts_->history, num_steps + 1)}};
    data["simulated_days"] = time / 86400;
    data["days_per_second"] = (time - schedule_.time(begin)) / 86400 / seconds;
    data["mass_drift"] = last.mass / first_.mass - 1;
    data["energy_drift"] = last.energy / first_.energy - 1;
    if (first_.enstrophy > 0) data["enstrophy_drift"] = last.enstrophy / first_.enstrophy - 1;
    if (auto const exact = swe::exact_depth(solver_, o_.experiment, time)) {
      auto const errors = diagnostics_.errors(*exact);
      data["l1_height"] = errors.l1;
      data["l2_height"] = errors.l2;
      data["linf_height"] = errors.linf;
      spdlog::info("errors of the height: l1 {:.3e}, l2 {:.3e}, linf {:.3e}", errors.l1, errors.l2, errors.linf);
    }
    spdlog::info("{:.6g} days, {} steps of {:.6g} s; drift of mass {:.1e}, energy {:.1e}", time / 86400, num_steps,
                 step_seconds, last.mass / first_.mass - 1, last.energy / first_.energy - 1);
  }

  void report_transport() {
    app::Report::Sent sent{emulator_ ? "halo exchanges and moves of polar rows of the solver and of diagnostics"
                                     : "halo exchanges and moves of polar rows of this run"};
    for (auto const& stats : solver_.stats())
      for (auto const& path : {stats.point_to_point, stats.node_packed, stats.node_in_place}) {
        sent.num_messages += double(path.num_messages);
        sent.num_bytes += double(path.bytes);
      }
    context_.report.set_transport(context_.comm, context_.comm, solver_.paths(), sent);
  }

  app::Context& context_;
  Options const& o_;
  std::optional<swe::EmulatorFacts> facts_;
  Schedule schedule_;
  std::string description_;
  swe::Grid grid_;
  swe::Solver solver_;
  swe::Diagnostics diagnostics_;
  CheckpointStore store_;
  std::unique_ptr<swe::Emulator> emulator_;
  std::optional<swe::Series> series_;
  swe::Invariants first_;
  Index done_ = 0;
  bool warned_ = false;
};

int run(app::Context& context, Options& o) {
  o.experiment.angle = o.angle * std::numbers::pi / 180;
  if (o.emulator_filter % 2 != 0)
    throw Error(Fault::usage, "BadOption", fmt::format("--emulator-filter {} is odd", o.emulator_filter));
  if (o.emulator_filter > 0 && o.emulator.empty())
    throw Error(Fault::usage, "BadOption", "--emulator-filter is for --emulator only");
  if (o.angle != 0 && o.experiment.name != "1" && o.experiment.name != "2")
    throw Error(Fault::usage, "BadOption",
                fmt::format("--angle is for cases 1 and 2; --case {} has no axis to tilt", o.experiment.name));
  if (o.num_columns % 2 != 0) throw Error(Fault::usage, "BadOption", fmt::format("--nlon {} is odd", o.num_columns));
  app::TimeLimit const limit(o.time_limit);
  app::OutputFolder const folder(context.comm, o.output);
  spdlog::info("{}", swe::describe(o.experiment.name));
  return Run(context, o).run(limit);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  graticule::app::run_driver(
      argc, argv,
      {.name = "graticule-swe",
       .description =
           "Simulates the shallow-water equations on the sphere: the test cases of Williamson et al. 1992 and "
           "Galewsky et al. 2004, or a random balanced state.",
       .declare =
           [&](CLI::App& app) {
             declare(app, options);
             graticule::app::require_rule_for_every_option(app, resume_rules);
           },
       .run = [&](graticule::app::Context& context) { return run(context, options); },
       .torch_version = graticule::swe::torch_version(),
       .set_threads = graticule::swe::use_torch_threads});
}
