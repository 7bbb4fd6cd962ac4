// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/driver.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/complete_file.hpp>

#include "options.hpp"
#include "output/outputs.hpp"
#include "output/prediction_file.hpp"
#include "output/verify.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace graticule::train {
namespace {

std::string describe_start(RunResult const& result) {
  std::string channels;
  for (std::string const& name : result.channels) channels += (channels.empty() ? "" : ", ") + name;
  std::string text = fmt::format("{} x {} cells, {} samples: {} train", result.grid.num_rows(),
                                 result.grid.num_columns(), result.samples.num_samples(), result.num_training);
  if (result.num_mirrored > 0) text += fmt::format(" with {} mirror images", result.num_mirrored);
  text += fmt::format(", {} validate; input channels {}; {}", result.samples.num_samples() - result.num_training,
                      channels, describe_edges(result.grid));
  return result.teams.num_teams() == 1 ? text : text + fmt::format("; {} data teams", result.teams.num_teams());
}

/// Shows each step's loss and the samples per second so far.
class StepDisplay {
 public:
  StepDisplay(app::Context const& context, std::string label, Index num_steps, double samples_per_step)
      : progress_(context.progress(std::move(label), num_steps)), samples_per_step_(samples_per_step) {}

  void operator()(Index step, double loss) {
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin_;
    ++num_steps_;  // not `step + 1`: a resumed training begins later
    double const rate = double(num_steps_) * samples_per_step_ / std::max(elapsed.count(), 1e-9);
    progress_.update(step + 1, fmt::format("loss {:.4g}, {:.3g} samples/s", loss, rate));
  }

 private:
  app::Progress progress_;
  double samples_per_step_;
  Index num_steps_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A display that is made when the number of steps is known and ended when it is no longer needed.
class TrainingDisplay {
 public:
  TrainingDisplay(app::Context const& context, std::string label) : context_(context), label_(std::move(label)) {}

  void start(RunResult const& result, NetworkSettings const& settings, Index num_steps) {
    auto const samples = double(result.num_training + result.num_mirrored) * double(settings.epochs);
    display_.emplace(context_, label_, num_steps, samples / double(num_steps));
  }
  void step(Index step, double loss) { (*display_)(step, loss); }
  void end() { display_.reset(); }

 private:
  app::Context const& context_;
  std::string label_;
  std::optional<StepDisplay> display_;
};

/// Tells scripts that a run stopped early: launchers lose exit codes.
std::filesystem::path stopped_file(std::filesystem::path const& folder) { return folder / "stopped"; }

void make_output_folder(Comm const& comm, std::filesystem::path const& folder) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error || !std::filesystem::is_directory(folder))
      throw Error(Fault::usage, "BadOption", "--output " + folder.string() + " cannot be created: " + error.message());
    // Else found at the first checkpoint, maybe hours later.
    auto const checkpoints = folder / "checkpoints";
    if (std::filesystem::exists(checkpoints, error) && !std::filesystem::is_directory(checkpoints))
      throw Error(Fault::usage, "BadOption",
                  checkpoints.string() + " is a file; the checkpoints need a folder of this name");
    // Of the run before.
    std::filesystem::remove(stopped_file(folder), error);
  });
}

/// Not after hours of work.
void require_other_file(Comm const& comm, Options const& options) {
  run_agreed(comm, [&] {
    auto const output = options.output / "prediction.nc";
    std::error_code no_output;
    if (comm.rank() == 0 && std::filesystem::equivalent(options.run.input, output, no_output))
      throw Error(Fault::usage, "BadOption",
                  "--input " + options.run.input.string() + " is " + output.string() +
                      ", which this training would overwrite; choose another --output");
  });
}

void log_skill(RunResult const& result) {
  if (result.num_training == result.samples.num_samples()) return;
  for (TargetResult const& target : result.targets)
    spdlog::info("{}: validation rmse {:.4g}, climatology rmse {:.4g} {}, skill = 1 - rmse/climatology = {:.3f}",
                 target.info.name, target.validation.rmse, target.validation.climatology_rmse, target.info.units,
                 target.validation.skill());
}

/// Everything but the report. Collective.
void write_outputs(app::Context& context, Options const& options, RunResult const& result,
                   PredictionFile& predictions) {
  auto const phase = context.report.phase("write");
  predictions.commit();
  MapPicture const picture = picture_of(result, options.run);
  run_agreed(context.comm, [&] {
    if (context.comm.rank() != 0) return;
    write_complete_file(options.output / "loss.csv", loss_table(result.network, options.run.network));
    if (options.run.network.validate_every > 0)
      write_complete_file(options.output / "validation.csv", validation_table(result.network));
    write_complete_file(options.output / "map.png",
                        [&](std::filesystem::path const& temporary) { draw_map(picture, temporary); });
  });
}

void fill_report(app::Context& context, Options const& options, RunResult const& result) {
  app::Report& report = context.report;
  report.set_partition(result.layout, {result.latitude_name, result.longitude_name});
  for (auto const& [phase, seconds] : result.seconds) report.add_seconds(phase, seconds);
  auto& data = report.data();
  data["transport"] = transport_report(result);
  data["input"] = options.run.input.string();
  data["memory"] = input_report(result);
  data["samples"] = {{"training", result.num_training},
                     {"mirrored", result.num_mirrored},
                     {"validation", result.samples.num_samples() - result.num_training}};
  data["network"] = network_report(result, options.run.network);
  data["parallel"] = parallel_report(result, options.run.network);
  data["loss"] = result.network.losses;
  data["resumed_after_step"] = result.network.first_step;
  data["validation"] = validation_report(result);
}

void write_report(app::Context& context, Options const& options) {
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0) context.report.write(options.output / "report.json");
  });
}

Comparison verify(app::Context& context, Options const& options, RunResult const& result) {
  auto const phase = context.report.phase("verify");
  // The other ranks sleep, so their cores are free for rank 0 as far as it may use them.
  int const usable = std::max(1, int(std::thread::hardware_concurrency()));
  use_torch_threads(
      std::clamp(context.num_threads * context.comm.num_node_ranks(), 1, std::max(usable, context.num_threads)));
  TrainingDisplay display(context, "verify on one rank");
  display.start(result, options.run.network, Index(result.network.losses.size()));
  return repeat_on_one_rank(context.comm, options.run, result.network,
                            [&](Index step, double loss) { display.step(step, loss); });
}

/// What is left of a training that has to be resumed: its checkpoint, the file `stopped`, and a report where one was
/// asked for.
int end_early(app::Context& context, Options const& options, RunResult const& result) {
  TrainedNetwork const& network = result.network;
  context.report.data()["stopped_by"] = *network.stopped_by;
  context.report.data()["steps"] = network.losses.size();
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0)
      write_complete_file(stopped_file(options.output), fmt::format("{} after step {} of {}\n", *network.stopped_by,
                                                                    network.losses.size(), network.num_steps));
  });
  spdlog::info("stopped by {} after step {} of {}, with a checkpoint; run the same command to resume",
               *network.stopped_by, network.losses.size(), network.num_steps);
  return app::run_again;
}

int run(app::Context& context, Options& options) {
  app::StopSignals const signals{SIGUSR1, SIGTERM};
  check_options(options);
  app::TimeLimit const limit(options.time_limit);
  make_output_folder(context.comm, options.output);
  require_other_file(context.comm, options);

  TrainingDisplay display(context, "train");
  std::optional<PredictionFile> predictions;
  RunResult const result = run_training(
      context.comm, options.run,
      {.on_start =
           [&](RunResult const& started, Index num_steps) {
             spdlog::info("{}", describe_start(started));
             spdlog::info("{}; {} threads per rank", to_string(started.layout), context.num_threads);
             display.start(started, options.run.network, num_steps);
           },
       .on_step = [&](Index step, double loss) { display.step(step, loss); },
       .on_note = [&](std::string const& note) { spdlog::info("{}", note); },
       .on_predictions =
           [&](RunResult const& predicted, PredictedFields const& fields) {
             if (!predictions) predictions.emplace(predicted, options.run, options.output / "prediction.nc");
             predictions->write(fields);
           },
       .reason_to_stop = [&](double seconds) { return app::reason_to_stop(context.comm, signals, limit, seconds); }});
  display.end();
  if (result.network.stopped_by) return end_early(context, options, result);
  log_skill(result);
  write_outputs(context, options, result, *predictions);
  fill_report(context, options, result);

  if (options.verify) {
    Comparison const comparison = verify(context, options, result);
    context.report.data()["verify"] = {{"max_relative_loss_difference", comparison.max_relative_loss_difference},
                                       {"max_parameter_difference", comparison.max_parameter_difference}};
    write_report(context, options);
    spdlog::info("verify: largest relative loss difference from one rank {:.2e}, largest parameter difference {:.2e}",
                 comparison.max_relative_loss_difference, comparison.max_parameter_difference);
    require_agreement(comparison, options.run.network);
  } else {
    write_report(context, options);
  }
  spdlog::info("wrote prediction.nc, loss.csv, map.png and report.json to {}", options.output.string());
  return app::good;
}

}  // namespace
}  // namespace graticule::train

int main(int argc, char** argv) {
  using namespace graticule;
  train::Options options;
  return app::run_driver(
      argc, argv,
      {.name = "graticule-train",
       .description = "Trains a network, sharded over the ranks, that predicts target fields from input fields.",
       .declare = [&](CLI::App& app) { train::declare_options(app, options); },
       .run = [&](app::Context& context) { return train::run(context, options); },
       .torch_version = train::torch_version(),
       .set_threads = train::use_torch_threads});
}
