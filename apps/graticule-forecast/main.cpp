// SPDX-License-Identifier: BSD-3-Clause
// Autoregressive forecasts with a network that graticule-train has trained.
#include <graticule/app/driver.hpp>
#include <graticule/app/output_folder.hpp>
#include <graticule/app/resuming.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/models/detail/device.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/threads.hpp>

#include "network_device.hpp"
#include "run.hpp"

namespace {

using graticule::Index;
using graticule::app::add_shared;

namespace samples = graticule::samples;

std::vector<std::string> predict_names() {
  std::vector<std::string> names;
  for (auto const predict : graticule::detail::enum_values<graticule::models::Predict>)
    names.push_back(graticule::detail::enum_name(predict));
  return names;
}

void declare(CLI::App& app, graticule::forecast::Options& o) {
  app.footer(
      "Examples:\n"
      "  mpiexec -n 4 graticule-forecast --checkpoint run --input era5_2017.nc --start 2017-01-01T00 --steps 40\n"
      "  graticule-forecast --checkpoint run1,run2 --members 12 --input era5.nc --start 2017-01-01..2017-01-31\n"
      "  graticule-forecast --model net.pt2 --prognostic u,v --lead 6h --input era5.nc --start 2017-01-01T00");
  constexpr Index many = 1'000'000;
  app.add_option("--checkpoint", o.checkpoints,
                 "Output folder of graticule-train --lead (its best network, else the last), or a checkpoint of it. "
                 "Several forecast together, as an ensemble: A,B,C")
      ->delimiter(',')
      ->type_name("FOLDER|FILE");
  app.add_option("--model", o.model,
                 "In place of a checkpoint: a network exported by PyTorch, whose inputs and outputs are variables in "
                 "their units")
      ->type_name("FILE.pt2");
  app.add_option("--prognostic", o.prognostic,
                 "With --model: variables of its first channels, which are input and output of "
                 "each step")
      ->delimiter(',');
  app.add_option("--diagnostic", o.diagnostic, "With --model: variables of its further outputs, which are no inputs")
      ->delimiter(',');
  app.add_option("--lead", o.lead,
                 "With --model: the time of one step of the network, in steps of the time axis or "
                 "as a duration (6h)")
      ->type_name("STEPS|DURATION");
  app.add_option("--predict", o.predict,
                 "With --model: its output. state: the next state; tendency: the change from the "
                 "present state")
      ->check(CLI::IsMember(predict_names()));
  app.add_option("--input", o.input,
                 "netCDF-4 or HDF5 file or Zarr store with the initial states, or a pattern of "
                 "files that are consecutive in time. Later states in it are the truth for scores")
      ->required()
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--missing",
         [&o](std::string const& rule) {
           o.missing = rule == "warn" ? samples::MissingRule::warn : samples::MissingRule::refuse;
         },
         "Cells that are missing in the input and were not in the training (--model: NaN and default fill "
         "values that no attribute declares). warn: warn, and treat them as missing; "
         "error: stop")
      ->check(CLI::IsMember({"warn", "error"}).description(""))
      ->type_name("warn|error")
      ->default_str("warn");
  app.add_option_function<std::string>(
         "--repeated-longitude",
         [&o](std::string const& rule) {
           o.repeated = rule == "drop" ? samples::RepeatedColumn::drop : samples::RepeatedColumn::refuse;
         },
         "If the last column of longitudes repeats the first, as in files for plots. "
         "error: stop; drop: leave it out")
      ->check(CLI::IsMember({"error", "drop"}).description(""))
      ->type_name("error|drop")
      ->default_str("error");
  app.add_option("--start", o.start,
                 "Initial dates such as 2006-01-06T18, or periods A..B, which are all times of "
                 "the input from A to B")
      ->required()
      ->delimiter(',')
      ->type_name("DATE");
  app.add_option("--steps", o.steps, "Steps of each forecast, one lead each")->check(CLI::Range(Index(1), many));
  app.add_option("--every", o.every, "Steps between the records that are written and scored")
      ->check(CLI::Range(Index(1), many));
  app.add_option("--members", o.members,
                 "Number of members, the same for each network. The first of a network starts "
                 "from the input, the others from perturbed states. Default: one per network")
      ->check(CLI::Range(Index(1), many));
  app.add_option("--perturbation", o.perturbation,
                 "Standard deviation of the perturbations; 1 is the standard deviation of the "
                 "change over one step. Default: as in a training with --loss crps, otherwise 0.5")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--seed", o.seed, "Seed of the perturbations");
  app.add_option("--teams", o.teams,
                 "Teams of ranks that the members are divided among; must divide the number of ranks")
      ->check(CLI::Range(1, int(many)));
  app.add_option("--maps", o.maps,
                 "Number of maps of the first forecast: of its first lead, its last lead and some "
                 "between")
      ->check(CLI::Range(Index(1), Index(1000)));
  add_shared(app, "--partition", o.partition.partition, ", in each team");
  add_shared(app, "--output", o.output, "forecast.nc, scores, pictures and report.json");
  graticule::app::declare_output_format(app, o.output_format, "forecasts");
  add_shared(app, "--checkpoint-every", o.checkpoint_every)->check(CLI::Range(Index(0), many));
  add_shared(app, "--resume", o.resume)->check(CLI::IsMember({"auto", "never"}).description(""));
  o.device.declare(app);
  add_shared(app, "--time-limit", o.time_limit);
}

/// Of a forecast that is resumed. `settings` of the checkpoint has the files, the dates and the numbers in words.
graticule::app::ResumeRules const resume_rules{
    .compared = {"--checkpoint", "--input", "--start", "--steps", "--every", "--members", "--perturbation", "--seed",
                 "--output-format", "--model", "--prognostic", "--diagnostic", "--lead", "--predict", "--missing",
                 "--repeated-longitude"},
    .free = {"--teams", "--maps", "--partition", "--output", "--checkpoint-every", "--resume", "--device",
             "--time-limit"}};
std::vector<std::string> const compared_as_given{"--prognostic", "--diagnostic", "--lead",
                                                 "--predict",    "--missing",    "--repeated-longitude"};

}  // namespace

int main(int argc, char** argv) {
  using namespace graticule;
  forecast::Options options;
  app::run_driver(
      argc, argv,
      {.name = "graticule-forecast",
       .description = "Forecasts with a network that graticule-train --lead has trained, and scores them.",
       .declare =
           [&](CLI::App& app) {
             declare(app, options);
             app::require_rule_for_every_option(app, resume_rules);
           },
       .settle_defaults = [&](CLI::App& app) { options.given = app::text_of_given(app, compared_as_given); },
       .run = [&](app::Context& context) { return forecast::run_forecast(context, options); },
       .torch_version = models::torch_version(),
       .set_threads = models::use_torch_threads,
       .before_start =
           [&](Comm const& comm) {
             options.network_device = forecasting::choose_network_device(options.device, comm);
           }});
}
