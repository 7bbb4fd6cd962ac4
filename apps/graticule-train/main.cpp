// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/driver.hpp>
#include <graticule/app/joined.hpp>
#include <graticule/app/output_folder.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/models/detail/device.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/threads.hpp>

#include "network_device.hpp"
#include "options.hpp"
#include "output/forecast_outputs.hpp"
#include "output/outputs.hpp"
#include "output/prediction_file.hpp"
#include "output/verify.hpp"
#include "score_report.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

namespace graticule::train {
namespace {

std::string describe_start(RunResult const& result) {
  auto const* const forecast = result.forecast ? &*result.forecast : nullptr;
  std::string text = fmt::format("{} x {} cells", result.grid.num_rows(), result.grid.num_columns());
  if (forecast != nullptr)
    text += fmt::format("; forecasts of {} from {} {}; {} training samples",
                        duration_text(forecast->description.lead_seconds), forecast->description.history,
                        forecast->description.history == 1 ? "state" : "states", result.num_training);
  else
    text += fmt::format(", {} samples: {} train", result.samples.num_samples(), result.num_training);
  if (result.num_mirrored > 0) text += fmt::format(" with {} mirror images", result.num_mirrored);
  text += forecast != nullptr ? fmt::format(", {} validate, {} test; {} output channels", forecast->num_validation,
                                            forecast->num_test, forecast->description.channels.size())
                              : fmt::format(", {} validate", result.samples.num_samples() - result.num_training);
  text += fmt::format("; input channels {}; {}", app::joined(result.channels), describe_edges(result.grid));
  return result.teams.num_teams() == 1 ? text : text + fmt::format("; {} data teams", result.teams.num_teams());
}

/// Shows each step's loss and the samples per second so far, once the number of steps is known and until it is no
/// longer needed.
class TrainingDisplay {
 public:
  TrainingDisplay(app::Context const& context, std::string label) : context_(context), label_(std::move(label)) {}

  void start(RunResult const& result, NetworkSettings const& settings, Index num_steps) {
    auto const samples = double(result.num_training + result.num_mirrored) * double(settings.epochs);
    samples_per_step_ = samples / double(num_steps);
    begin_ = std::chrono::steady_clock::now();
    progress_.emplace(context_.progress(label_, num_steps));
  }
  void step(Index step, double loss) {
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin_;
    ++num_steps_;  // not `step + 1`: a resumed training begins later
    double const rate = double(num_steps_) * samples_per_step_ / std::max(elapsed.count(), 1e-9);
    progress_->update(step + 1, fmt::format("loss {:.4g}, {:.3g} samples/s", loss, rate));
  }
  void end() { progress_.reset(); }

 private:
  app::Context const& context_;
  std::string label_;
  std::optional<app::Progress> progress_;
  double samples_per_step_ = 0;
  Index num_steps_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

std::string prediction_name(Options const& options) {
  return "prediction" + app::ending_of_fields(options.output_format);
}

/// @throws `BadOption` (usage)
void check_output_folder(std::filesystem::path const& folder) {
  // Else found at the first checkpoint, maybe hours later.
  auto const checkpoints = folder / "checkpoints";
  std::error_code error;
  if (std::filesystem::exists(checkpoints, error) && !std::filesystem::is_directory(checkpoints))
    throw Error(Fault::usage, "BadOption",
                checkpoints.string() + " is a file; the checkpoints need a folder of this name");
}

/// Not after hours of work.
void require_other_files(Comm const& comm, Options const& options, std::vector<std::filesystem::path> const& inputs) {
  run_agreed(comm, [&] {
    auto const output = options.output / prediction_name(options);
    std::error_code no_output;
    for (auto const& input : inputs)
      if (comm.rank() == 0 && std::filesystem::equivalent(input, output, no_output))
        throw Error(Fault::usage, "BadOption",
                    "--input " + input.string() + " is " + output.string() +
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

/// The first lead's scores, and those of the last one where there are more.
void log_forecast(RunResult const& result) {
  auto const& outcome = *result.forecast;
  if (!outcome.scores) return;
  Index const last = outcome.scores->shape().num_leads - 1;
  for (std::size_t c = 0; c < outcome.description.channels.size(); ++c)
    for (Index lead = 0; lead <= last; lead += std::max<Index>(last, 1)) {
      auto const& channel = outcome.description.channels[c];
      auto const score = outcome.scores->score(Index(c), lead, 0);
      spdlog::info("{} after {}: {} {}", channel.label, duration_text((lead + 1) * outcome.description.lead_seconds),
                   outcome.has_test ? "test" : "validation", forecasting::score_text(score, channel.info.units));
    }
}

/// loss.csv and scores.csv of a forecast, which grow while it trains; on rank 0.
class LiveTables {
 public:
  LiveTables(Comm const& comm, Options const& options) : comm_(comm), options_(options) {}

  void start(Index num_steps) {
    num_steps_ = num_steps;
    if (is_on()) losses_.emplace(options_.output / "loss.csv", loss_header(), LiveTable::Begin::anew);
  }
  void resume(std::span<double const> losses) {
    is_resumed_ = true;
    if (is_on()) drop_lines_after(options_.output / "scores.csv", Index(losses.size()));
    for (std::size_t step = 0; step < losses.size(); ++step) add(Index(step), losses[step]);
  }
  void add(Index step, double loss) {
    if (losses_) losses_->append(loss_line(options_.run.network, step, num_steps_, loss));
  }
  void add(forecasting::ScoreTable const& scores, models::Description const& description, Index epoch, Index step,
           std::string const& part) {
    if (!is_on()) return;
    if (!scores_)
      scores_.emplace(options_.output / "scores.csv", forecasting::score_header(),
                      is_resumed_ ? LiveTable::Begin::where_it_ends : LiveTable::Begin::anew);
    scores_->append(forecasting::score_lines(scores, description, epoch, step, part));
  }

 private:
  [[nodiscard]] bool is_on() const { return comm_.rank() == 0 && options_.run.forecast; }

  Comm const& comm_;
  Options const& options_;
  Index num_steps_ = 1;
  bool is_resumed_ = false;
  std::optional<LiveTable> losses_;
  std::optional<LiveTable> scores_;
};

/// Of a forecast: scores and picture. Collective.
void write_forecast(app::Context& context, Options const& options, RunResult const& result, LiveTables& tables) {
  auto const phase = context.report.phase("write");
  auto const& outcome = *result.forecast;
  if (outcome.scores) {
    app::MapPicture const picture = forecast_picture(result, options.run);
    run_agreed(context.comm, [&] {
      if (context.comm.rank() != 0) return;
      auto const steps = Index(result.network.losses.size());
      tables.add(*outcome.scores, outcome.description, options.run.network.epochs, steps,
                 outcome.has_test ? "test" : "final");
      draw_map(picture, options.output / "map.png");
    });
  }
  if (options.run.network.validate_every > 0)
    run_agreed(context.comm, [&] {
      if (context.comm.rank() == 0)
        write_complete_file(options.output / "validation.csv", validation_table(result.network));
    });
}

/// Everything but the report. Collective.
void write_outputs(app::Context& context, Options const& options, RunResult const& result,
                   PredictionFile& predictions) {
  auto const phase = context.report.phase("write");
  predictions.commit();
  app::MapPicture const picture = picture_of(result, options.run);
  run_agreed(context.comm, [&] {
    if (context.comm.rank() != 0) return;
    write_complete_file(options.output / "loss.csv", loss_table(result.network, options.run.network));
    if (options.run.network.validate_every > 0)
      write_complete_file(options.output / "validation.csv", validation_table(result.network));
    draw_map(picture, options.output / "map.png");
  });
}

void fill_report(app::Context& context, Options const& options, RunResult const& result) {
  app::Report& report = context.report;
  report.set_partition(result.layout, {result.latitude_name, result.longitude_name});
  for (auto const& [phase, seconds] : result.seconds) report.add_seconds(phase, seconds);
  Comm const& domain = result.teams.domain();
  report.set_transport(context.comm, domain,
                       HaloPlan(domain, result.layout, {{1, 1}, {1, 1}}, result.grid.boundary).paths(),
                       {"halo exchanges and repartitions of one optimizer step", result.network.messages_per_step,
                        result.network.bytes_per_step});
  auto& data = report.data();
  data["input"] = options.run.input.string();
  data["memory"] = input_report(result);
  data["samples"] = {{"training", result.num_training},
                     {"mirrored", result.num_mirrored},
                     {"validation", result.forecast ? result.forecast->num_validation
                                                    : result.samples.num_samples() - result.num_training}};
  data["network"] = network_report(result, options.run.network);
  data["normalisation"] = normalisation_report(result);
  data["device"] = forecasting::network_device_report(options.device, context.comm);
  data["parallel"] = parallel_report(result, options.run.network);
  data["loss"] = result.network.losses;
  data["resumed_after_step"] = result.network.first_step;
  if (!result.forecast) {
    data["validation"] = validation_report(result);
    return;
  }
  auto const& outcome = *result.forecast;
  data["samples"]["test"] = outcome.num_test;
  data["forecast_part"] = outcome.has_test ? "test" : "validation";
  data["forecast"] = nullptr;
  if (outcome.scores) data["forecast"] = forecasting::forecast_report(*outcome.scores, outcome.description);
  if (result.network.best_step) data["best_step"] = *result.network.best_step;
}

/// The files and folders of this run in the output folder, as a user looks for them.
std::vector<std::string> names_of_outputs(Options const& options, RunResult const& result) {
  NetworkSettings const& net = options.run.network;
  bool const validates = net.validate_every > 0;
  std::vector<std::string> names;
  if (result.forecast && result.network.best_step) names.emplace_back("best/");
  if (result.forecast) names.emplace_back("last/");
  if (net.model == ModelKind::program) names.emplace_back("network.pt2");
  if (!result.forecast) names.emplace_back(prediction_name(options));
  names.emplace_back("loss.csv");
  if (validates) names.emplace_back("validation.csv");
  if (result.forecast && (validates || result.forecast->scores)) names.emplace_back("scores.csv");
  if (!result.forecast || result.forecast->scores) names.emplace_back("map.png");
  names.emplace_back("report.json");
  return names;
}

/// Results of an earlier training into the same folder would pass for this one's. Collective.
void remove_earlier_outputs(Comm const& comm, Options const& options, std::vector<std::filesystem::path> kept,
                            std::vector<std::string> const& written) {
  kept.insert(kept.end(), {options.forecast.static_file, options.channel_weights, options.run.network.program});
  auto const is_output = [&](std::string const& name) {
    constexpr std::array outputs{"prediction.nc", "prediction.zarr", "validation.csv",
                                 "scores.csv",    "map.png",         "network.pt2"};
    return std::find(outputs.begin(), outputs.end(), name) != outputs.end() &&
           std::find(written.begin(), written.end(), name) == written.end();
  };
  app::remove_other_outputs(comm, options.output, is_output, kept);
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
  auto const code = app::end_early(context, options.output, *network.stopped_by,
                                   fmt::format("step {} of {}", network.losses.size(), network.num_steps));
  context.report.data()["steps"] = network.losses.size();
  return code;
}

int run(app::Context& context, Options& options) {
  app::StopSignals const signals{SIGHUP, SIGTERM, SIGUSR1};
  check_options(options);
  app::TimeLimit const limit(options.time_limit);
  app::OutputFolder const folder(context.comm, options.output, [&] { check_output_folder(options.output); });
  auto const inputs = find_files(context.comm, options.run.input.string());
  require_other_files(context.comm, options, inputs);

  TrainingDisplay display(context, "train");
  LiveTables tables(context.comm, options);
  std::optional<PredictionFile> predictions;
  RunResult const result = run_training(
      context.comm, options.run,
      {.on_start =
           [&](RunResult const& started, Index num_steps) {
             spdlog::info("{}", describe_start(started));
             spdlog::info("{}; {} threads per rank", to_string(started.layout), context.num_threads);
             if (!options.device.is_host()) spdlog::info("the network is on {}", options.device.describe());
             display.start(started, options.run.network, num_steps);
             tables.start(num_steps);
           },
       .on_step =
           [&](Index step, double loss) {
             display.step(step, loss);
             tables.add(step, loss);
           },
       .on_note = [&](std::string const& note) { spdlog::info("{}", note); },
       .on_warning =
           [&](std::string const& warning) {
             if (context.comm.rank() == 0) spdlog::warn("{}", warning);
           },
       .on_predictions =
           [&](RunResult const& predicted, PredictedFields const& fields) {
             if (!predictions) predictions.emplace(predicted, options.run, options.output / prediction_name(options));
             predictions->write(fields);
           },
       .on_resume = [&](std::span<double const> losses) { tables.resume(losses); },
       .on_scores =
           [&](RunResult const& trained, Index epoch, Index step, forecasting::ScoreTable const& scores) {
             tables.add(scores, trained.forecast->description, epoch + 1, step, "validation");
           },
       .reason_to_stop = [&](double seconds) { return app::reason_to_stop(context.comm, signals, limit, seconds); }});
  display.end();
  if (result.network.stopped_by) return end_early(context, options, result);
  if (result.forecast) {
    log_forecast(result);
    write_forecast(context, options, result, tables);
  } else {
    log_skill(result);
    write_outputs(context, options, result, *predictions);
  }
  fill_report(context, options, result);

  std::optional<Comparison> comparison;
  if (options.verify) {
    comparison = verify(context, options, result);
    context.report.data()["verify"] = {{"max_relative_loss_difference", comparison->max_relative_loss_difference},
                                       {"max_parameter_difference", comparison->max_parameter_difference}};
    spdlog::info("verify: largest relative loss difference from one rank {:.2e}, largest parameter difference {:.2e}",
                 comparison->max_relative_loss_difference, comparison->max_parameter_difference);
  }
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0) context.report.write(options.output / "report.json");
  });
  if (comparison) require_agreement(*comparison, options.run.network);
  auto const written = names_of_outputs(options, result);
  remove_earlier_outputs(context.comm, options, inputs, written);
  spdlog::info("wrote {} to {}", app::joined(written), options.output.string());
  return app::good;
}

}  // namespace
}  // namespace graticule::train

int main(int argc, char** argv) {
  using namespace graticule;
  train::Options options;
  app::run_driver(
      argc, argv,
      {.name = "graticule-train",
       .description = "Trains a network, sharded over the ranks, that predicts target fields from input fields.",
       .declare = [&](CLI::App& app) { train::declare_options(app, options); },
       .settle_defaults = [&](CLI::App& app) { train::settle_defaults(app, options); },
       .run = [&](app::Context& context) { return train::run(context, options); },
       .torch_version = models::torch_version(),
       .set_threads = models::use_torch_threads,
       .before_start =
           [&](Comm const& comm) {
             options.run.network.device = forecasting::choose_network_device(options.device, comm);
           }});
}
