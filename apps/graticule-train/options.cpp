// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <graticule/app/bytes.hpp>
#include <graticule/app/output_folder.hpp>
#include <graticule/app/resuming.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include "data_rules.hpp"
#include "network/settings_table.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

namespace graticule::train {
namespace {

constexpr Index many = 1'000'000;

[[noreturn]] void refuse_option(std::string const& text) { throw Error(Fault::usage, "BadOption", text); }

/// A list that may be `none`.
void drop_none(std::vector<std::string>& names, char const* option) {
  auto const none = std::find(names.begin(), names.end(), "none");
  if (none == names.end()) return;
  if (names.size() > 1) refuse_option(std::string(option) + ": 'none' excludes all others");
  names.clear();
}

void require_distinct(std::vector<std::string> const& names, char const* option) {
  std::set<std::string> const distinct(names.begin(), names.end());
  if (distinct.size() != names.size()) refuse_option(std::string(option) + " lists a field twice");
}

/// Those of an enumeration's table that an option may choose.
template <class Value>
app::Choices<Value> choices_of() {
  app::Choices<Value> choices;
  for (Value const value : detail::enum_values<Value>)
    if (is_choice(value)) choices.emplace_back(detail::enum_name(value), value);
  return choices;
}

CLI::Validator const odd_kernel(
    [](std::string& text) -> std::string {
      std::int64_t value = 0;
      if (!CLI::detail::lexical_cast(text, value) || value < 1 || value > 31 || value % 2 == 0)
        return "the kernel must be an odd number from 1 to 31, so that output cells lie on input cells";
      return {};
    },
    "ODD 1 to 31");

CLI::Validator const positive_number(
    [](std::string& text) -> std::string {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0 ? std::string()
                                                                                         : "must be a number above 0";
    },
    "> 0");

/// Beyond it a step is infinite in single precision.
CLI::Validator const rate_of_learning(
    [](std::string& text) -> std::string {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1e6 ? std::string()
                                                                                 : "must be above 0 and at most 1e6";
    },
    "(0, 1e6]");

CLI::Validator const fraction(
    [](std::string& text) -> std::string {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1 ? std::string()
                                                                               : "must be above 0 and at most 1";
    },
    "(0, 1]");

constexpr std::array layer_options{"--channels", "--blocks", "--kernel"};
constexpr std::array forecast_options{"--prognostic",
                                      "--diagnostic",
                                      "--forcing",
                                      "--static-file",
                                      "--history",
                                      "--predict",
                                      "--input-noise",
                                      "--polar-filter",
                                      "--rollout",
                                      "--rollout-schedule",
                                      "--rollout-checkpoint",
                                      "--train-dates",
                                      "--validate-dates",
                                      "--test-dates",
                                      "--validate-steps",
                                      "--channel-weights"};
constexpr std::array same_time_options{"--inputs", "--targets"};
constexpr std::array ensemble_options{"--members", "--perturbation"};
constexpr std::array period_options{"--train-dates", "--validate-dates", "--test-dates"};

/// An exported network takes its channels as they are: what is not asked for is left out.
constexpr std::array<std::pair<char const*, char const*>, 6> defaults_of_programs{{{"--static", "none"},
                                                                                   {"--features", "value"},
                                                                                   {"--forcing", "none"},
                                                                                   {"--history", "1"},
                                                                                   {"--polar-filter", "0"},
                                                                                   {"--mirror", "off"}}};

void check_layers(Options const& options) {
  NetworkSettings const& net = options.run.network;
  for (char const* option : layer_options)
    if (net.model == ModelKind::program && options.is_given(option))
      refuse_option(std::string(option) + " is not for --model " + net.program.string() + ", which has its own layers");
}

/// An option that takes names, separated by commas.
void add_list(CLI::App& app, char const* name, std::vector<std::string>& value, char const* description) {
  app.add_option(name, value, description)->delimiter(',');
}

template <class Value>
void add_text(CLI::App& app, char const* name, Value& value, char const* description, char const* type) {
  app.add_option(name, value, description)->type_name(type);
}

void declare_states(CLI::App& app, Options& options) {
  ForecastSettings& forecast = options.forecast;
  add_text(app, "--lead", options.lead,
           "Train forecasts: the network learns the state this time later.\n"
           "A number: so many steps of the time axis\n"
           "A duration, such as 6h or 1d\n"
           "Not given: no forecasts; --targets are learned from --inputs of the same time",
           "STEPS|DURATION");
  add_list(app, "--prognostic", forecast.prognostic,
           "Variables of the state: input and output of each step. Each level of a variable is a channel");
  add_list(app, "--diagnostic", forecast.diagnostic,
           "Variables that are output of each step and no input, such as precipitation");
  add_list(app, "--forcing", forecast.forcings,
           "Inputs that follow from the time alone.\n"
           "insolation: cosine of the sun's zenith angle, 0 at night\n"
           "time_of_day: sine and cosine of the local and of the universal time of day\n"
           "time_of_year: sine and cosine of the time of year\n"
           "none: no such inputs");
  add_text(app, "--static-file", forecast.static_file,
           "File with the fields that --static names beside the functions of latitude, such as orography and lsm",
           "FILE");
  app.add_option(
         "--history", forecast.history,
         "States that a forecast starts from. 1: the present one; 2: also the state one lead earlier, and so on")
      ->check(CLI::Range(Index(1), Index(64)));
  app::add_choice(app, "--predict", forecast.predict, choices_of<models::Predict>(),
                  "Output of the network.\n"
                  "state: the next state\n"
                  "tendency: the change from the present state, which is added to it");
}

void declare_perturbations(CLI::App& app, Options& options) {
  ForecastSettings& forecast = options.forecast;
  app.add_option("--members", forecast.members,
                 "With --loss crps: forecasts of each sample, from initial states that are perturbed differently")
      ->check(CLI::Range(Index(2), Index(1000)));
  app.add_option(
         "--perturbation", forecast.perturbation,
         "With --loss crps: size of the perturbations, smooth noise that is added to initial states: its standard "
         "deviation, in units of the standard deviation of the change over one step")
      ->check(positive_number);
  app.add_option(
         "--input-noise", forecast.input_noise,
         "Size of the noise that the training adds to each cell of the initial states: its standard deviation, in "
         "units of the standard deviation of the change over one step. The network then learns to remove short "
         "waves, and long forecasts stay stable.\n"
         "0: no noise")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option(
         "--polar-filter", forecast.polar_filter,
         "Latitude in degrees. Closer to the poles, short waves along a row are removed from each prediction, which "
         "keeps long forecasts stable.\n"
         "0: no filter")
      ->check(CLI::Range(0.0, 89.0));
}

void declare_rollouts(CLI::App& app, Options& options) {
  ForecastSettings& forecast = options.forecast;
  app.add_option(
         "--rollout", options.rollout,
         "Steps of each forecast in the training: each starts from the result of the one before, and all count in "
         "the loss, except those whose targets lie beyond the training part")
      ->check(CLI::Range(Index(1), Index(1000)));
  add_list(
      app, "--rollout-schedule", options.rollout_schedule,
      "In place of --rollout, STEPS@EPOCH,...: so many steps from this epoch on. 1@0,2@10,4@20 is 1 step from epoch 0, "
      "2 from epoch 10, 4 from epoch 20");
  app.add_option(
         "--rollout-checkpoint", forecast.rollout_checkpoint,
         "To save memory, do not keep the activations of a rollout, but compute them again in the backward, this "
         "many steps at a time. It costs about a forward more.\n"
         "0: keep all activations")
      ->check(CLI::Range(Index(0), Index(1000)));
}

void declare_scores(CLI::App& app, Options& options) {
  ForecastSettings& forecast = options.forecast;
  add_text(
      app, "--train-dates", options.train_dates,
      "Training period: the times of its targets, such as 2006-01-01..2006-01-05 or 1979..2015. Default: all times "
      "before the other periods; without any, the part of --train-fraction",
      "A..B");
  add_text(app, "--validate-dates", options.validate_dates, "Period of the targets that the training is validated on",
           "A..B");
  add_text(app, "--test-dates", options.test_dates,
           "Period of the targets that the finished network is scored on. Default: that of --validate-dates", "A..B");
  app.add_option("--validate-steps", forecast.validate_steps,
                 "Steps of each forecast in validations and in the final scores, one lead each")
      ->check(CLI::Range(Index(1), many));
  add_text(
      app, "--channel-weights", options.channel_weights,
      "YAML file with weights in the loss, by variable (t: 2) or by channel ('t 850 hPa': 0.5). Default: 1 for each "
      "channel",
      "FILE");
}

void declare_forecast(CLI::App& app, Options& options) {
  app.option_defaults()->group("Forecast (--lead 6h --help shows the defaults)");
  declare_states(app, options);
  declare_perturbations(app, options);
  declare_rollouts(app, options);
  declare_scores(app, options);
}

void declare_data(CLI::App& app, Options& options) {
  app.option_defaults()->group("Data");
  RunSettings& run = options.run;
  app.add_option("--input", run.input,
                 "netCDF-4 or HDF5 file or Zarr store with the fields; or a pattern in quotes, such as 'era5_*.nc', of "
                 "files that follow each other in time")
      ->required()
      ->type_name("FILE");
  app.add_option("--inputs", run.inputs, "Variables that are input of the network")->delimiter(',');
  app.add_option("--targets", run.targets, "Variables that the network learns to predict")->delimiter(',');
  app.add_option(
         "--static", run.statics,
         "Input fields that do not change with time: coriolis, sin_latitude, cos_latitude (functions of latitude); "
         "with --lead also fields of --static-file.\n"
         "none: no such fields")
      ->delimiter(',');
  app.add_option("--features", run.features,
                 "Channels that the network gets of each input field.\n"
                 "value: the field\n"
                 "east, north: its derivatives, per metre\n"
                 "auto: the derivatives alone for a potential (geopotential, stream function), otherwise all three")
      ->delimiter(',');
  app::add_choice(app, "--mirror", run.mirror, choices_of<Mirror>(),
                  "Train also on the mirror image of each sample across the equator, which doubles the samples.\n"
                  "auto: if the latitudes are symmetric about the equator\n"
                  "on: an error if they are not");
  app.add_option("--train-fraction", run.train_fraction,
                 "Part of the samples (of the first dimension) to train on; the rest is for validation")
      ->check(fraction);
  forecasting::declare_data_rules(app, run.missing, run.repeated,
                                  "Cells that are missing in some samples only, and NaN and default fill values in a "
                                  "variable without _FillValue and "
                                  "missing_value");
  app::add_shared(
      app, "--memory", options.memory,
      "samples and batches, such as 2GiB or 500MB. Samples that do not fit are read again in each epoch, while "
      "the step before computes.\n"
      "auto: a quarter of the node's memory, divided by its ranks")
      ->type_name("auto|BYTES");
}

/// Declares the options of the table; values land in the settings.
struct Declarer {
  CLI::App& app;
  Options& options;

  void operator()(SettingRow const& row, ModelKind&, ModelOrFile) const {
    auto& net = options.run.network;
    std::string names;
    for (auto const& [name, kind] : model_kinds()) names += name + "|";
    app.add_option_function<std::string>(
           row.option,
           [&net](std::string const& name) {
             auto const kind = model_kinds().find(name);
             net.model = kind == model_kinds().end() ? ModelKind::program : kind->second;
             net.program = net.model == ModelKind::program ? name : std::string();
           },
           row.help)
        ->check(CLI::Validator(
            [names](std::string& text) -> std::string {
              if (model_kinds().contains(text) || text.ends_with(".pt2")) return {};
              return "'" + text + "' is none of " + names + "FILE.pt2";
            },
            ""))
        ->type_name(names + "FILE.pt2")
        ->default_str(to_string(net.model))
        ->group(row.group);
  }
  void operator()(SettingRow const& row, Index& value, IntegerRange range) const {
    plain(row, value)->check(CLI::Range(range.lo, range.hi));
  }
  void operator()(SettingRow const& row, double& value, RealRange range) const {
    CLI::Validator check = CLI::Range(range.lo, range.hi);
    if (range.text != nullptr) check.description(range.text);
    plain(row, value)->check(check);
  }
  void operator()(SettingRow const& row, Index& value, OddKernel) const { plain(row, value)->check(odd_kernel); }
  void operator()(SettingRow const& row, double& value, LearningRate) const {
    plain(row, value)->check(rate_of_learning);
  }
  void operator()(SettingRow const& row, std::uint64_t& value, AnyInteger) const { plain(row, value); }
  void operator()(SettingRow const& row, std::string& value, Names names) const {
    std::vector<std::string> all(names.all.begin(), names.all.end());
    plain(row, value)->check(CLI::IsMember(all).description(""))->type_name(app::joined(all, "|"));
  }
  template <class Enum>
  void operator()(SettingRow const& row, Enum& value, ItsNames) const {
    app::add_choice(app, row.option, value, choices_of<Enum>(), row.help)->group(row.group);
  }
  /// May stand alone: then over all ranks.
  void operator()(SettingRow const& row, Shards&, ItsNames) const {
    auto const names = app::names_of(choices_of<Shards>());
    app.add_flag(std::string(row.option) + "{all}", options.shard_parameters, row.help)
        ->check(CLI::IsMember(names).description(""))
        ->type_name(app::joined(names, "|"))
        ->default_str("none")
        ->group(row.group);
  }

 private:
  template <class Value>
  CLI::Option* plain(SettingRow const& row, Value& value) const {
    return app.add_option(row.option, value, row.help)->group(row.group);
  }
};

void declare_partition(CLI::App& app, Options& options) {
  app.option_defaults()->group("Partition");
  RunSettings& run = options.run;
  app::add_shared(app, "--partition", run.partition.partition);
  app.add_option(
         "--data-teams", run.data_teams,
         "Groups that the ranks are divided into. Each group (data team) holds the whole grid and trains on its "
         "part of every batch. Must divide the number of ranks")
      ->check(CLI::Range(1, int(many)));
  app.add_option("--cuts", run.partition.cuts,
                 "Rows of each rank.\n"
                 "balanced: equal numbers\n"
                 "area: equal areas of the globe\n"
                 "A list: 61,60,60,60 for 4 ranks; 121,120x240,240 for rows and columns of --partition 2x2");
}

void declare_output(CLI::App& app, Options& options) {
  app.option_defaults()->group("Output");
  app::add_shared(app, "--output", options.output, "prediction.nc, loss.csv, map.png and report.json");
  app::declare_output_format(app, options.output_format, "prediction.nc");
  app::add_shared(app, "--checkpoint-every", options.checkpoint_every)
      ->check(CLI::Range(Index(0), Index(1'000'000'000)));
  app::add_shared(app, "--resume", options.resume, "\nFILE: continue from this checkpoint")
      ->type_name("auto|never|FILE");
  app::add_shared(app, "--time-limit", options.time_limit);
}

/// Of a training that is resumed: options of the settings' table, those that the data of the checkpoint show (channels,
/// normalisation, samples, the description of a forecast), and those that may differ.
app::ResumeRules resume_rules(NetworkSettings const& net) {
  app::ResumeRules rules{.compared = {"--inputs",
                                      "--targets",
                                      "--static",
                                      "--features",
                                      "--mirror",
                                      "--train-fraction",
                                      "--repeated-longitude",
                                      "--lead",
                                      "--prognostic",
                                      "--diagnostic",
                                      "--forcing",
                                      "--static-file",
                                      "--history",
                                      "--predict",
                                      "--members",
                                      "--perturbation",
                                      "--input-noise",
                                      "--polar-filter",
                                      "--rollout",
                                      "--rollout-schedule",
                                      "--train-dates",
                                      "--validate-dates",
                                      "--validate-steps",
                                      "--channel-weights"},
                         .free = {"--input", "--missing", "--memory", "--device", "--rollout-checkpoint",
                                  "--test-dates", "--verify", "--partition", "--data-teams", "--cuts", "--output",
                                  "--output-format", "--checkpoint-every", "--resume", "--time-limit"}};
  visit_settings(net,
                 [&](SettingRow const& row, auto const&, auto const&) { rules.compared.emplace_back(row.option); });
  return rules;
}

}  // namespace

// The order is that of --help.
void declare_options(CLI::App& app, Options& options) {
  app.footer(
      "Fields of the same time: --targets are learned from --inputs.\n"
      "  mpiexec -n 4 graticule-train --input era5.nc --inputs z --targets u,v --epochs 50 --output winds\n"
      "Forecasts: --prognostic variables are stepped by --lead (options under Forecast).\n"
      "  mpiexec -n 4 graticule-train --input 'era_*.nc' --prognostic z,u,v --lead 6h --validate-every 1 --output "
      "run\n"
      "  graticule-forecast --checkpoint run --input era5_2017.nc --start 2017-01-01T00 --steps 40");
  options.is_given = [&app](std::string const& option) { return app.count(option) > 0; };
  declare_data(app, options);
  options.device.declare(app);
  app.get_option("--device")->group("Training");
  declare_forecast(app, options);
  visit_settings(options.run.network, Declarer{app, options});
  app.add_flag(
         "--verify", options.verify,
         "Then repeat the whole training on one rank, while the others wait, and compare every loss; exit code 4 if "
         "they differ. Slow: for short trainings that test an installation")
      ->group("Training");
  declare_partition(app, options);
  declare_output(app, options);
  app::require_rule_for_every_option(app, resume_rules(options.run.network));
}

namespace {

/// Training modes that exclude each other.
void check_parallel(Options const& options) {
  NetworkSettings const& net = options.run.network;
  bool const cut = net.shards != Shards::none;
  if ((cut || net.compute != Compute::own) && net.parallel != Parallel::blocking)
    refuse_option(std::string(cut ? "--shard-parameters" : "--precision bf16") + " does not go with --parallel " +
                  (net.parallel == Parallel::daso
                       ? "daso, which needs whole parameters in their own precision"
                       : "nonblocking: its gradients are awaited at the end of the backward"));
  if (net.parallel == Parallel::daso && options.verify && options.run.data_teams > 1)
    refuse_option("--verify does not go with --parallel daso, whose teams differ between two averages");
}

/// Rejects options of a training mode that is not selected, which would have no effect.
void check_daso(Options const& options) {
  NetworkSettings const& net = options.run.network;
  DasoSettings const untouched;
  auto const require_daso = [&](std::string const& option, Index value, Index default_value) {
    if (net.parallel != Parallel::daso && value != default_value)
      refuse_option(option + " " + std::to_string(value) + " is for --parallel daso only");
  };
  require_daso("--daso-warmup", net.daso.warmup_epochs, untouched.warmup_epochs);
  require_daso("--daso-cooldown", net.daso.cooldown_epochs, untouched.cooldown_epochs);
  require_daso("--daso-max-skip", net.daso.max_skip, untouched.max_skip);
  require_daso("--daso-node-teams", net.daso.teams_per_node, untouched.teams_per_node);
  if (net.daso.teams_per_node > options.run.data_teams)
    refuse_option("--daso-node-teams " + std::to_string(net.daso.teams_per_node) + " is more than --data-teams " +
                  std::to_string(options.run.data_teams));
}

void resolve_daso(NetworkSettings& net) {
  Index const third = std::min<Index>(4, net.epochs / 3);
  if (net.daso.warmup_epochs < 0) net.daso.warmup_epochs = third;
  if (net.daso.cooldown_epochs < 0) net.daso.cooldown_epochs = third;
  if (net.parallel == Parallel::daso && net.daso.warmup_epochs + net.daso.cooldown_epochs > net.epochs)
    refuse_option("--daso-warmup " + std::to_string(net.daso.warmup_epochs) + " and --daso-cooldown " +
                  std::to_string(net.daso.cooldown_epochs) + " exceed --epochs " + std::to_string(net.epochs));
}

/// `STEPS@EPOCH` entries, the first at epoch 0.
std::vector<std::pair<Index, Index>> rollouts_of(Options const& options) {
  if (options.rollout_schedule.empty()) return {{0, options.rollout}};
  std::vector<std::pair<Index, Index>> rollouts;
  for (std::string const& entry : options.rollout_schedule) {
    Index steps = 0;
    Index epoch = 0;
    auto const at = entry.find('@');
    bool const fits = at != std::string::npos && CLI::detail::lexical_cast(entry.substr(0, at), steps) &&
                      CLI::detail::lexical_cast(entry.substr(at + 1), epoch) && steps >= 1 && steps <= 1000 &&
                      (rollouts.empty() ? epoch == 0 : epoch > rollouts.back().first);
    if (!fits)
      refuse_option("--rollout-schedule: '" + entry +
                    "' is not STEPS@EPOCH with epochs that rise from 0, such as 1@0,2@10,4@20");
    rollouts.emplace_back(epoch, steps);
  }
  return rollouts;
}

std::string text_of(std::string const& option, std::filesystem::path const& file) {
  try {
    return read_text(file);
  } catch (Error const& error) {
    refuse_option(option + " " + error.text());
  }
}

std::map<std::string, double> channel_weights_of(std::filesystem::path const& file) {
  std::map<std::string, double> weights;
  if (file.empty()) return weights;
  try {
    for (auto const& entry : YAML::Load(text_of("--channel-weights", file))) {
      double const weight = entry.second.as<double>();
      if (!std::isfinite(weight) || weight < 0)
        refuse_option("--channel-weights: a weight in " + file.string() + " is below 0 or infinite");
      weights[entry.first.as<std::string>()] = weight;
    }
  } catch (YAML::Exception const& error) {
    refuse_option("--channel-weights " + file.string() + " is no YAML file of names and weights: " + error.what());
  }
  return weights;
}

/// Options of a forecast have no effect without `--lead`, and those of fields of the same time none with it.
void refuse_options_of_the_other_use(Options const& options) {
  bool const is_forecast = !options.lead.empty();
  for (char const* option : forecast_options)
    if (!is_forecast && options.is_given(option))
      refuse_option(std::string(option) + " is for forecasts only: give --lead too");
  for (char const* option : same_time_options)
    if (is_forecast && options.is_given(option))
      refuse_option(std::string(option) +
                    " is for fields of the same time; forecasts (--lead) have --prognostic and --diagnostic");
  for (char const* option : period_options)
    if (options.is_given("--train-fraction") && options.is_given(option))
      refuse_option(std::string("--train-fraction excludes ") + option);
  for (std::string const& name : options.run.statics)
    if (!is_forecast && name != "coriolis" && name != "sin_latitude" && name != "cos_latitude")
      refuse_option("--static takes coriolis, sin_latitude, cos_latitude or none, not '" + name + "'");
}

/// Options of an ensemble have no effect without its loss, which is for forecasts.
void check_ensemble(Options const& options) {
  bool const is_crps = options.run.network.loss == LossKind::crps;
  if (is_crps && options.lead.empty())
    refuse_option("--loss crps is for forecasts, whose initial states are perturbed: give --lead");
  for (char const* option : ensemble_options)
    if (!is_crps && options.is_given(option)) refuse_option(std::string(option) + " is for --loss crps only");
}

void check_forecast(Options& options) {
  refuse_options_of_the_other_use(options);
  if (options.lead.empty()) return;
  ForecastSettings forecast = options.forecast;
  forecast.lead = options.lead;
  static_cast<void>(samples::parse_lead("--lead", options.lead));
  if (forecast.prognostic.empty()) refuse_option("--lead needs --prognostic, the variables of the state");
  drop_none(forecast.forcings, "--forcing");
  require_distinct(forecast.forcings, "--forcing");
  static_cast<void>(models::forcings_of(forecast.forcings));
  auto variables = forecast.prognostic;
  variables.insert(variables.end(), forecast.diagnostic.begin(), forecast.diagnostic.end());
  require_distinct(variables, "--prognostic with --diagnostic");
  if (options.rollout != 1 && !options.rollout_schedule.empty()) refuse_option("--rollout excludes --rollout-schedule");
  forecast.rollouts = rollouts_of(options);
  forecast.channel_weights = channel_weights_of(options.channel_weights);
  auto const period = [](char const* option, std::string const& text) {
    if (!text.empty()) models::require_period(option, text);
    return text;
  };
  forecast.train_dates = period("--train-dates", options.train_dates);
  forecast.validate_dates = period("--validate-dates", options.validate_dates);
  forecast.test_dates = period("--test-dates", options.test_dates);
  auto const longest = std::max_element(forecast.rollouts.begin(), forecast.rollouts.end(),
                                        [](auto const& a, auto const& b) { return a.second < b.second; });
  if (longest->second > 1 && options.run.network.shards != Shards::none)
    refuse_option("--shard-parameters does not go with rollouts of several steps");
  auto const& net = options.run.network;
  if (forecast.rollout_checkpoint > 0 &&
      (net.shards != Shards::none || net.parallel == Parallel::daso || net.compute != Compute::own))
    refuse_option("--rollout-checkpoint does not go with --shard-parameters, --parallel daso and --precision bf16");
  options.run.forecast = std::move(forecast);
}

void check_training(NetworkSettings const& net) {
  bool const is_daso = net.parallel == Parallel::daso;
  bool const is_cut = net.shards != Shards::none;
  if (net.ema > 0 && (is_daso || is_cut))
    refuse_option(std::string("--ema does not go with ") + (is_daso ? "--parallel daso" : "--shard-parameters"));
  if (net.clip > 0 && is_daso) refuse_option("--clip does not go with --parallel daso");
  if (net.accumulate > 1 && is_daso) refuse_option("--accumulate does not go with --parallel daso");
}

}  // namespace

void settle_defaults(CLI::App& app, Options const& options) {
  auto const set = [&](char const* name, char const* value) {
    auto* const option = app.get_option(name);
    if (option->count() == 0) option->run_callback_for_default()->default_val(value);
  };
  auto const leave_out = [&](std::span<char const* const> names) {
    for (char const* name : names) app.get_option(name)->default_str("");
  };
  NetworkSettings const& net = options.run.network;
  bool const is_program = net.model == ModelKind::program;
  bool const is_forecast = !options.lead.empty();
  if (is_program) {
    for (auto const& [name, value] : defaults_of_programs) set(name, value);
    leave_out(layer_options);
  }
  if (net.patience > 0) set("--validate-every", "1");
  leave_out(is_forecast ? std::span<char const* const>(same_time_options) : forecast_options);
  if (net.loss != LossKind::crps) leave_out(ensemble_options);
  bool const has_dates = std::any_of(period_options.begin(), period_options.end(), options.is_given);
  if (has_dates) app.get_option("--train-fraction")->default_str("");
  if (options.is_given("--rollout-schedule")) app.get_option("--rollout")->default_str("");
}

void check_options(Options& options) {
  RunSettings& run = options.run;
  run.network.shards = app::value_of(choices_of<Shards>(), options.shard_parameters);
  check_parallel(options);
  check_daso(options);
  resolve_daso(run.network);
  check_layers(options);
  drop_none(run.statics, "--static");
  require_distinct(run.inputs, "--inputs");
  require_distinct(run.targets, "--targets");
  require_distinct(run.statics, "--static");
  static_cast<void>(features_of(run.features, {}));
  check_ensemble(options);
  check_forecast(options);
  check_training(run.network);
  if (run.network.patience > 0 && run.network.validate_every == 0) run.network.validate_every = 1;
  if (options.memory != "auto") run.memory_bytes = app::parse_bytes("--memory", options.memory);
  run.checkpoints = CheckpointSettings{.folder = options.output / "checkpoints", .every = options.checkpoint_every};
  run.checkpoints->resume = options.resume == "auto"    ? Resume::newest
                            : options.resume == "never" ? Resume::never
                                                        : Resume::file;
  if (run.forecast || run.network.model == ModelKind::program) run.checkpoints->runnable = options.output;
  if (run.checkpoints->resume == Resume::file) run.checkpoints->file = options.resume;
}

}  // namespace graticule::train
