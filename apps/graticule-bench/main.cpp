// SPDX-License-Identifier: BSD-3-Clause
// Ratios in one run: what a data movement or a layer costs against what it must at least cost.
#include <graticule/app/joined.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/app/shared_options.hpp>

#include "options.hpp"

#ifdef GRATICULE_BENCH_LAYER
#include "network_device.hpp"
#endif

#include <algorithm>
#include <cstdlib>

namespace graticule::bench {
namespace {

#ifdef GRATICULE_BENCH_LAYER
#define GRATICULE_OF_LAYERS(run) run
#else
#define GRATICULE_OF_LAYERS(run) nullptr
#endif

/// A kind of measurement.
struct Kind {
  std::string name;
  std::string text;                            ///< in --help
  std::string example;                         ///< its arguments
  void (*run)(app::Context&, Options const&);  ///< nullptr: this build has no LibTorch
  /// Options that not all kinds take. With `--grid`: also the others of the grid.
  std::vector<std::string> options = {};
  std::string grid = "721x1440";
  Index channels = 64;
  std::string dtype = "f32";
  bool has_poles = false;
  bool may_only_weigh = false;  ///< no repetitions: memory and traffic alone
  bool is_network = false;      ///< computes on a device by LibTorch
};

std::vector<Kind> const& all_kinds() {
  static std::vector<Kind> const kinds{
      {.name = "halo",
       .text = "halo exchange and its adjoint, against copies and bare MPI messages of the same bytes",
       .example = "--grid 721x1440 --channels 8 --dtype f64",
       .run = run_halo,
       .options = {"--grid", "--dtype", "--partition", "--transport", "--widths", "--device"},
       .has_poles = true},
      {.name = "repartition",
       .text = "transposes of three-dimensional fields, against copies and bare MPI messages of the same bytes",
       .example = "--transport p2p",
       .run = run_repartition,
       .options = {"--grid", "--dtype", "--partition", "--transport", "--levels", "--device"},
       .grid = "512x512",
       .channels = 1,
       .dtype = "f64"},
      {.name = "layer",
       .text = "sharded convolution of 3x3, forward and backward, against one of each rank's rows without exchange",
       .example = "--channels 16",
       .run = GRATICULE_OF_LAYERS(run_layer),
       .options = {"--grid"},
       .channels = 8,
       .has_poles = true},
      {.name = "spherical",
       .text = "spherical harmonic transforms of a sharded field, against those of whole fields, one on each rank",
       .example = "--grid 361x720",
       .run = GRATICULE_OF_LAYERS(run_spherical),
       .options = {"--grid"},
       .channels = 16,
       .has_poles = true},
      {.name = "unet",
       .text = "forward and backward of a U-Net on the globe, against each rank's rows alone; memory",
       .example = "--repetitions 0   # memory alone",
       .run = GRATICULE_OF_LAYERS(run_unet),
       .options = {"--grid", "--device"},
       .channels = 8,
       .has_poles = true,
       .may_only_weigh = true,
       .is_network = true},
      {.name = "data-parallel",
       .text = "training steps of a CNN with reduced gradients, against each rank alone",
       .example = "--batch 32",
       .run = GRATICULE_OF_LAYERS(run_data_parallel),
       .options = {"--grid", "--batch", "--device"},
       .grid = "32x32",
       .is_network = true},
      {.name = "program",
       .text =
           "forward and backward of an exported network (FILE), against each rank's rows alone; memory and messages",
       .example = "net.pt2 --repetitions 0 --threads 1   # memory and messages alone",
       .run = GRATICULE_OF_LAYERS(run_program),
       .options = {"--plan", "--share"},
       .may_only_weigh = true},
      {.name = "machine",
       .text = "rates of this machine, by which graticule-info network predicts the time of a step",
       .example = "--machine mine.json",
       .run = GRATICULE_OF_LAYERS(run_machine),
       .options = {"--machine"}},
      {.name = "replay",
       .text = "a plan that a program has written to FILE (GRATICULE_DUMP): compared cell by cell, then timed",
       .example = "plan.json",
       .run = run_replay,
       .options = {"--plan"}}};
  return kinds;
}
#undef GRATICULE_OF_LAYERS

/// @pre it is the name of a kind
Kind const& kind_of(std::string const& name) { return *std::ranges::find(all_kinds(), name, &Kind::name); }

bool takes(Kind const& kind, std::string const& option) {
  bool const is_of_grid = option == "--nlat" || option == "--nlon" || option == "--channels";
  return std::ranges::find(kind.options, is_of_grid ? "--grid" : option) != kind.options.end();
}

/// `For halo, io`, or `Not for program, replay` where that is shorter; empty: all kinds take the option.
std::string takers_of(std::string const& option) {
  std::vector<std::string> those, others;
  for (auto const& kind : all_kinds()) (takes(kind, option) ? those : others).push_back(kind.name);
  if (those.empty()) return {};
  return others.size() < those.size() ? "\nNot for " + app::joined(others) : "\nFor " + app::joined(those);
}

std::string example_of(Kind const& kind) {
  return "\n  mpiexec -n 2 graticule-bench " + kind.name + " " + kind.example;
}

/// Options and defaults of one kind alone: the others are neither in --help nor in --dump-config.
void show_only(CLI::App& app, Kind const& kind) {
  app.name(app.get_name() + " " + kind.name);
  app.description("Benchmark " + kind.name + ": " + kind.text + ".");
  app.footer("Example:" + example_of(kind));
  app.get_option("--kind")->group("");
  app.get_option("--plan")->description(kind.name == "program" ? "Network exported by torch.export"
                                                               : "Plan written under GRATICULE_DUMP");
  auto const set = [&](char const* option, std::string const& value) {
    if (takes(kind, option)) app.get_option(option)->default_str(value);
  };
  set("--grid", kind.grid);
  set("--channels", std::to_string(kind.channels));
  set("--dtype", kind.dtype);
}

void settle_kind(CLI::App& app, Options& options) {
  auto const* const kind = options.kind.empty() ? nullptr : &kind_of(options.kind);
  for (auto* const option : app.get_options([](auto*) { return true; })) {
    auto const takers = takers_of(option->get_name());
    if (kind == nullptr) option->description(option->get_description() + takers);
    if (kind == nullptr || takers.empty() || takes(*kind, option->get_name())) continue;
    if (option->count() > 0) options.misplaced = option->get_name(option->get_positional());
    option->default_str("");
    option->group("");
  }
  auto* const repetitions = app.get_option("--repetitions");
  if (kind == nullptr || kind->may_only_weigh)
    repetitions->description(repetitions->get_description() + "\n0: no timing, only the other figures" +
                             (kind == nullptr ? " (unet, program)" : ""));
  if (kind != nullptr) show_only(app, *kind);
}

void declare_measurement(CLI::App& app, Options& options) {
  app.add_option("--transport", options.transport,
                 "Messages between ranks of a node.\n"
                 "auto: as the engine chooses\n"
                 "p2p: by MPI\n"
                 "node: through memory that the ranks share")
      ->check(CLI::IsMember({"auto", "p2p", "node"}));
  app.add_option("--widths,--width", options.widths,
                 "Width of the halo in cells, on each side: ROWSxCOLUMNS, such as 1x2, or one number for both");
  app.add_option("--levels", options.num_levels, "Number of levels, the third axis")
      ->check(CLI::Range(Index(1), Index(1) << 16));
  app.add_option("--batch", options.batch, "Images per rank and step")->check(CLI::Range(Index(1), Index(1) << 16));
  app.add_option("--machine", options.machine,
                 "File to write the rates to, for graticule-info network NET.pt2 --machine FILE; they are printed, too")
      ->type_name("FILE");
  app.add_option(
         "--repetitions", options.timing.num_repetitions,
         "Timed calls of each way of doing the work (candidate), in turn; at least 3. Five calls before them do not "
         "count")
      ->check(CLI::Range(0, 100000));
  options.device.declare(app);
  app.add_option("--caches", options.timing.caches,
                 "Contents of the processor's caches before each timed call.\n"
                 "cold: other data, as after a step of a model\n"
                 "warm: those of the same call, which has just been made")
      ->check(CLI::IsMember({"cold", "warm"}));
}

// The order is that of --help.
void declare(CLI::App& app, Options& options) {
  std::string kinds = "Benchmark.";
  std::string examples = "KIND --help lists the options and defaults of that kind alone.\n\nExamples:";
  std::vector<std::string> names;
  for (auto const& kind : all_kinds()) {
    names.push_back(kind.name);
    kinds += "\n" + kind.name + ": " + kind.text;
    examples += example_of(kind);
  }
  app.footer(examples);
  app.add_option("KIND,--kind", options.kind, kinds)->required()->check(CLI::IsMember(names).description(""));
  app.add_option("FILE,--plan", options.plan,
                 "program: network exported by torch.export\nreplay: plan written under GRATICULE_DUMP");
  app.add_option(
         "--share", options.share,
         "The same network exported for fewer rows, those of one rank: it is what each rank alone runs. Default: "
         "FILE, which then must take any number of rows")
      ->type_name("FILE");
  auto* const grid =
      app.add_option("--grid", options.grid, "Size of the fields: LATITUDESxLONGITUDES, such as 721x1440");
  for (auto* const count : {app.add_option("--nlat", options.num_rows, "Number of latitudes, in place of --grid"),
                            app.add_option("--nlon", options.num_columns, "Number of longitudes, in place of --grid")})
    count->check(CLI::Range(Index(2), Index(1) << 20))->default_str("")->excludes(grid);
  app.add_option("--channels", options.num_channels, "Values per cell, or channels of the layers")
      ->check(CLI::Range(Index(0), Index(1) << 16).description("1 to 65536"))
      ->default_str("");
  app.add_option("--dtype", options.dtype, "Data type of the fields")->check(CLI::IsMember({"f32", "f64"}));
  app::add_shared(app, "--partition", options.partition);
  declare_measurement(app, options);
}

/// @throws `BadOption`, `BadBoundary` (usage)
void check_options(Options& options) {
  auto const& kind = kind_of(options.kind);
  if (!options.misplaced.empty()) refuse(options.misplaced + " does not apply to the kind " + options.kind);
  if (takes(kind, "--plan") && options.plan.empty()) refuse(options.kind + " requires a file");
  if (options.timing.num_repetitions < 3 && (!kind.may_only_weigh || options.timing.num_repetitions > 0))
    refuse("--repetitions " + std::to_string(options.timing.num_repetitions) + ": " + options.kind +
           " takes at least 3" + (kind.may_only_weigh ? ", or 0" : ""));
  auto const grid = app::two_counts_from(options.grid.empty() ? kind.grid : options.grid);
  if (!grid || (*grid)[0] < 2 || (*grid)[1] < 2)
    refuse("--grid " + options.grid + " is not LATITUDESxLONGITUDES such as 721x1440");
  if (options.num_rows == 0) options.num_rows = (*grid)[0];
  if (options.num_columns == 0) options.num_columns = (*grid)[1];
  if (options.num_channels == 0) options.num_channels = kind.channels;
  if (options.dtype.empty()) options.dtype = kind.dtype;
  if (kind.has_poles && options.num_columns % 2 != 0)
    throw Error(Fault::usage, "BadBoundary",
                "--nlon " + std::to_string(options.num_columns) + ": poles need an even number of longitudes");
}

/// Before Kokkos starts.
void prepare(Options& options, Comm const& comm) {
  check_options(options);
  auto const& kind = kind_of(options.kind);
  if (kind.run == nullptr)
    throw Error(Fault::usage, "Unsupported", "this graticule-bench was built without LibTorch; layers need it");
  // Before the first plan, all of which ask rank 0's environment.
  if (options.transport != "auto") ::setenv("GRATICULE_TRANSPORT", options.transport.c_str(), 1);
#ifdef GRATICULE_BENCH_LAYER
  if (kind.is_network) options.network_device = forecasting::choose_network_device(options.device, comm);
#endif
  if (takes(kind, "--device") && !kind.is_network) options.device.choose(comm);
}

int run_kind(app::Context& context, Options const& options) {
  kind_of(options.kind).run(context, options);
  // Kinds of the engine's own fields report it while these exist.
  auto& data = context.report.data();
  if (data.contains("device")) return app::good;
#ifdef GRATICULE_BENCH_LAYER
  data["device"] = forecasting::network_device_report(options.device, context.comm);
#else
  data["device"] = options.device.report(context.comm);
#endif
  return app::good;
}

}  // namespace
}  // namespace graticule::bench

int main(int argc, char** argv) {
  using namespace graticule;
  bench::Options options;
  app::run_driver(argc, argv,
                  {.name = "graticule-bench",
                   .description = "Measures data movements and layers, as ratios within one run.",
                   .declare = [&](CLI::App& app) { bench::declare(app, options); },
                   .settle_defaults = [&](CLI::App& app) { bench::settle_kind(app, options); },
                   .run = [&](app::Context& context) { return bench::run_kind(context, options); },
                   .before_start = [&](Comm const& comm) { bench::prepare(options, comm); }});
}
