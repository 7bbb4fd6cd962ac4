// SPDX-License-Identifier: BSD-3-Clause
// Autoregressive forecasts with a network that graticule-train has trained.
#include <graticule/app/driver.hpp>
#include <graticule/app/output_folder.hpp>
#include <graticule/app/resuming.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/models/detail/device.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/threads.hpp>

#include "data_rules.hpp"
#include "network_device.hpp"
#include "run.hpp"

namespace {

using graticule::Index;
using graticule::app::add_shared;

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
  app.add_option(
         "--checkpoint", o.checkpoints,
         "Trained network: the output folder of graticule-train --lead (its best network, else its last), or one of "
         "its checkpoints. A,B,C: several networks, which forecast as one ensemble")
      ->delimiter(',')
      ->type_name("FOLDER|FILE");
  app.add_option(
         "--model", o.model,
         "In place of --checkpoint: a network exported by PyTorch. Its inputs and outputs are the variables that "
         "the next four options name, in the units of the file")
      ->type_name("FILE.pt2");
  app.add_option("--prognostic", o.prognostic,
                 "With --model: variables of its first channels, in this order: input and output of each step")
      ->delimiter(',');
  app.add_option("--diagnostic", o.diagnostic,
                 "With --model: variables of its further output channels, which are no input")
      ->delimiter(',');
  app.add_option("--lead", o.lead,
                 "With --model: time that one step of it covers.\n"
                 "A number: so many steps of the time axis\n"
                 "A duration, such as 6h or 1d")
      ->type_name("STEPS|DURATION");
  app.add_option("--predict", o.predict,
                 "With --model: its output.\n"
                 "state: the next state\n"
                 "tendency: the change from the present state, which is added to it")
      ->check(CLI::IsMember(predict_names()));
  app.add_option(
         "--input", o.input,
         "netCDF-4 or HDF5 file or Zarr store with the initial states; or a pattern in quotes, such as "
         "'era5_*.nc', of files that follow each other in time. Its later states are the truth that forecasts are "
         "scored with")
      ->required()
      ->type_name("FILE");
  graticule::forecasting::declare_data_rules(app, o.missing, o.repeated,
                                             "Cells that are missing in the input and were not in the training; with "
                                             "--model: NaN and default fill values in a "
                                             "variable without _FillValue and missing_value");
  app.add_option("--start", o.start,
                 "Times that forecasts start from.\n"
                 "2006-01-06T18: this time, which the input must have\n"
                 "2006-01-06..2006-01-31: every time of the input in this period")
      ->required()
      ->delimiter(',')
      ->type_name("DATE");
  app.add_option("--steps", o.steps, "Steps of each forecast; each covers the lead of the network")
      ->check(CLI::Range(Index(1), many));
  app.add_option("--every", o.every, "Write and score every so many steps")->check(CLI::Range(Index(1), many));
  app.add_option(
         "--members", o.members,
         "Forecasts from each time (members of an ensemble), as many of each network. The first of a network starts "
         "from the input, the others from perturbed states. Default: one per network")
      ->check(CLI::Range(Index(1), many));
  app.add_option(
         "--perturbation", o.perturbation,
         "Size of the perturbations, smooth noise that is added to initial states: its standard deviation, in units "
         "of the standard deviation of the change over one step. Default: as the network was trained with by "
         "--loss crps, otherwise 0.5")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--seed", o.seed, "Seed of the perturbations");
  app.add_option(
         "--teams", o.teams,
         "Groups that the ranks are divided into, each of which computes a part of the members. Must divide the "
         "number of ranks")
      ->check(CLI::Range(1, int(many)));
  app.add_option("--maps", o.maps,
                 "Maps to draw (map_LEAD.png) of the first forecast, at its first lead, at its last lead and at leads "
                 "between them")
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
