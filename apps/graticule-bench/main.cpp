// SPDX-License-Identifier: BSD-3-Clause
// Ratios in one run: what a data movement or a layer costs against what it must at least cost.
#include <graticule/app/joined.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/partition/error.hpp>

#include "options.hpp"

#ifdef GRATICULE_BENCH_LAYER
#include <graticule/models/detail/device.hpp>
#endif

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace graticule::bench {
namespace {

#ifdef GRATICULE_BENCH_LAYER
#define GRATICULE_OF_LAYERS(run) run
#else
#define GRATICULE_OF_LAYERS(run) nullptr
#endif

/// Where a kind may compute.
enum class Place { host, kokkos_device, torch_device };

/// A kind of measurement.
struct Kind {
  std::string name;
  void (*run)(app::Context&, Options const&);  ///< nullptr: this build has no LibTorch
  /// Options that not all kinds take. With `--grid`: also the others of the grid.
  std::vector<std::string> options = {};
  Indices grid{721, 1440};
  Index channels = 64;
  bool has_poles = false;
  bool takes_file = false;
  bool may_only_weigh = false;  ///< no repetitions: memory and traffic alone
  Place place = Place::host;
};

std::vector<Kind> const& all_kinds() {
  static std::vector<Kind> const kinds{
      {.name = "halo",
       .run = run_halo,
       .options = {"--grid", "--dtype", "--partition", "--transport", "--widths", "--width", "--device"},
       .has_poles = true,
       .place = Place::kokkos_device},
      {.name = "repartition",
       .run = run_repartition,
       .options = {"--grid", "--dtype", "--partition", "--transport", "--levels", "--device"},
       .grid = {512, 512},
       .channels = 1,
       .place = Place::kokkos_device},
      {.name = "layer", .run = GRATICULE_OF_LAYERS(run_layer), .options = {"--grid"}, .channels = 8, .has_poles = true},
      {.name = "spherical",
       .run = GRATICULE_OF_LAYERS(run_spherical),
       .options = {"--grid"},
       .channels = 16,
       .has_poles = true},
      {.name = "unet",
       .run = GRATICULE_OF_LAYERS(run_unet),
       .options = {"--grid", "--device"},
       .channels = 8,
       .has_poles = true,
       .may_only_weigh = true,
       .place = Place::torch_device},
      {.name = "data-parallel",
       .run = GRATICULE_OF_LAYERS(run_data_parallel),
       .options = {"--grid", "--batch", "--device"},
       .grid = {32, 32},
       .place = Place::torch_device},
      {.name = "program",
       .run = GRATICULE_OF_LAYERS(run_program),
       .options = {"--share"},
       .takes_file = true,
       .may_only_weigh = true},
      {.name = "machine", .run = GRATICULE_OF_LAYERS(run_machine), .options = {"--machine"}},
      {.name = "replay", .run = run_replay, .takes_file = true}};
  return kinds;
}
#undef GRATICULE_OF_LAYERS

template <class Wanted>
std::vector<std::string> names_of_kinds(Wanted const& wanted) {
  std::vector<std::string> names;
  for (auto const& kind : all_kinds())
    if (wanted(kind)) names.push_back(kind.name);
  return names;
}

/// @pre it is the name of a kind
Kind const& kind_of(std::string const& name) { return *std::ranges::find(all_kinds(), name, &Kind::name); }

/// Options that not all kinds take, in the order of --help. `FILE` has a rule of its own.
std::vector<std::string> const limited_options{"--share",     "--nlat",      "--nlon",   "--grid",   "--dtype",
                                               "--partition", "--transport", "--widths", "--levels", "--channels",
                                               "--batch",     "--machine",   "--width",  "--device"};

bool takes(Kind const& kind, std::string const& option) {
  bool const is_of_grid = option == "--nlat" || option == "--nlon" || option == "--channels";
  return std::ranges::find(kind.options, is_of_grid ? "--grid" : option) != kind.options.end();
}

/// Adds the kinds that take an option to its help: `halo, io`, or `not program, replay` where that is shorter.
void describe_kinds(CLI::App& app) {
  for (auto const& name : limited_options) {
    auto const those = names_of_kinds([&](Kind const& kind) { return takes(kind, name); });
    auto const others = names_of_kinds([&](Kind const& kind) { return !takes(kind, name); });
    auto* const option = app.get_option(name);
    option->description(option->get_description() + " (" +
                        (others.size() < those.size() ? "not " + app::joined(others) : app::joined(those)) + ")");
  }
}

/// Takes their defaults from options that do not apply to the kind, so that `--dump-config` omits them.
void settle_kind(CLI::App& app, Options& options) {
  if (options.kind.empty()) return;
  for (auto const& name : limited_options) {
    if (takes(kind_of(options.kind), name)) continue;
    auto* const option = app.get_option(name);
    if (option->count() > 0) options.misplaced = name;
    option->default_str("");
    option->group("");  // not in `KIND --help`
  }
}

/// Kinds that measure a device; the others stay on the host, unless a device is asked for.
void choose_device(Options& options, Comm const& comm) {
  auto const place = kind_of(options.kind).place;
  if (place == Place::host) {
    auto const on_devices = names_of_kinds([](Kind const& kind) { return kind.place != Place::host; });
    if (options.device.asked() != "auto" && options.device.asked() != "cpu")
      refuse("--device " + options.device.asked() + ": " + options.kind + " is measured on the host; " +
             app::joined(on_devices) + " on devices, too");
    return;
  }
  app::DeviceOption::Library library;
#ifdef GRATICULE_BENCH_LAYER
  if (place == Place::torch_device)
    library = [](std::string const& kind) {
      auto const found = models::torch_devices(kind);
      return app::FoundDevices{found.count, found.missing};
    };
#endif
  options.device.choose(comm, library);
#ifdef GRATICULE_BENCH_LAYER
  options.network_device = models::torch_device_name(options.device.name());
#endif
}

void declare_case(CLI::App& app, Options& options) {
  app.footer(
      "KIND --help lists the options of that kind alone.\n\n"
      "Examples:\n"
      "  mpiexec -n 2 graticule-bench halo --grid 721x1440 --channels 8 --dtype f64\n"
      "  mpiexec -n 4 graticule-bench repartition --transport p2p\n"
      "  mpiexec -n 2 graticule-bench program net.pt2 --repetitions 0 --threads 1   # memory and traffic\n"
      "  mpiexec -n 2 graticule-bench machine --machine mine.json                   # for graticule-info network\n"
      "  mpiexec -n 2 graticule-bench replay plan.json");
  app.add_option("KIND,--kind", options.kind,
                 "Benchmark: layer is a convolution, spherical a transform, program an exported network, "
                 " machine rates for forecasts; replay times a plan")
      ->required()
      ->check(CLI::IsMember(names_of_kinds([](Kind const&) { return true; })));
  app.add_option("FILE,--plan", options.plan,
                 "Plan file written by GRATICULE_DUMP (replay), or network exported by torch.export (program)");
  app.add_option("--share", options.share,
                 "The same network exported for the rows of one rank, to compare with; default: FILE, which then "
                 "takes any number of rows")
      ->type_name("FILE");
  auto* const rows = app.add_option("--nlat", options.num_rows,
                                    "Number of latitudes; default: 721, for repartition 512, for data-parallel 32")
                         ->check(CLI::Range(Index(2), Index(1) << 20))
                         ->default_str("");
  auto* const columns =
      app.add_option("--nlon", options.num_columns,
                     "Number of longitudes, even; default: 1440, for repartition 512, for data-parallel 32")
          ->check(CLI::Range(Index(2), Index(1) << 20))
          ->default_str("");
  app.add_option("--grid", options.grid, "Grid, LATITUDESxLONGITUDES, such as 721x1440; replaces --nlat and --nlon")
      ->excludes(rows)
      ->excludes(columns);
  app.add_option("--dtype", options.dtype, "Data type; default: f64 for repartition, otherwise f32")
      ->check(CLI::IsMember({"f32", "f64"}));
  app::add_shared(app, "--partition", options.partition);
}

void declare_measurement(CLI::App& app, Options& options) {
  app.add_option("--transport", options.transport, "Transport between ranks of a node")
      ->check(CLI::IsMember({"auto", "p2p", "node"}));
  app.add_option("--widths", options.widths,
                 "Halo width on each side, ROWSxCOLUMNS or one number for both; default: --width");
  app.add_option("--levels", options.num_levels, "Extent of the third axis")
      ->check(CLI::Range(Index(1), Index(1) << 16));
  app.add_option("--channels", options.num_channels,
                 "Channels; 0: 1 for repartition, 8 for layer and unet, 16 for spherical, otherwise 64")
      ->check(CLI::Range(Index(0), Index(1) << 16));
  app.add_option("--batch", options.batch, "Images per rank")->check(CLI::Range(Index(1), Index(1) << 16));
  app.add_option("--machine", options.machine,
                 "File to write the rates to, for graticule-info network NET.pt2 --machine FILE")
      ->type_name("FILE");
  app.add_option("--width", options.width, "Halo rows on each side")->check(CLI::Range(Index(1), Index(64)));
  app.add_option("--repetitions", options.timing.num_repetitions,
                 "Timed repetitions per candidate, at least 3; with program and unet, 0: only memory and traffic")
      ->check(CLI::Range(0, 100000));
  options.device.declare(app);
  app.add_option("--caches", options.timing.caches,
                 "Cache contents before each call: cold (other data) or warm (the same call immediately before)")
      ->check(CLI::IsMember({"cold", "warm"}));
}

/// @throws `BadOption`, `BadBoundary` (usage)
void check_options(Options& options) {
  auto const& kind = kind_of(options.kind);
  if (kind.takes_file == options.plan.empty())
    refuse(options.kind + (options.plan.empty() ? " requires a file" : " accepts no file"));
  if (!options.misplaced.empty()) refuse(options.misplaced + " does not apply to the kind " + options.kind);
  if (options.timing.num_repetitions < 3 && (!kind.may_only_weigh || options.timing.num_repetitions > 0))
    refuse("--repetitions " + std::to_string(options.timing.num_repetitions) + ": " + options.kind +
           " takes at least 3" + (kind.may_only_weigh ? ", or 0" : ""));
  if (!options.grid.empty()) {
    auto const grid = app::two_counts_from(options.grid);
    if (!grid || (*grid)[0] < 2 || (*grid)[1] < 2)
      refuse("--grid " + options.grid + " is not LATITUDESxLONGITUDES such as 721x1440");
    options.num_rows = (*grid)[0];
    options.num_columns = (*grid)[1];
  }
  if (options.num_rows == 0) options.num_rows = kind.grid[0];
  if (options.num_columns == 0) options.num_columns = kind.grid[1];
  if (options.num_channels == 0) options.num_channels = kind.channels;
  if (kind.has_poles && options.num_columns % 2 != 0)
    throw Error(Fault::usage, "BadBoundary",
                "--nlon " + std::to_string(options.num_columns) + ": poles need an even number of longitudes");
}

/// Each rank's device and its memory.
app::Report::Json device_report(Options const& options, Comm const& comm) {
  std::optional<app::DeviceMemory> memory;
#ifdef GRATICULE_BENCH_LAYER
  if (auto const used = models::torch_device_memory(options.device.name()))
    memory = {used->total_bytes, used->free_bytes, used->peak_bytes, used->reserved_bytes};
#endif
  return options.device.report(comm, memory);
}

void run_kind(app::Context& context, Options const& options) {
  // Before the first plan, all of which ask rank 0's environment.
  if (options.transport != "auto") ::setenv("GRATICULE_TRANSPORT", options.transport.c_str(), 1);
  auto* const run = kind_of(options.kind).run;
  if (run == nullptr)
    throw Error(Fault::usage, "Unsupported", "this graticule-bench was built without LibTorch; layers need it");
  run(context, options);
  // Kinds of the engine's own fields report it while these exist.
  auto& data = context.report.data();
  if (!data.contains("device")) data["device"] = device_report(options, context.comm);
}

}  // namespace
}  // namespace graticule::bench

int main(int argc, char** argv) {
  using namespace graticule;
  bench::Options options;
  // The order is that of --help.
  auto const declare = [&](CLI::App& app) {
    bench::declare_case(app, options);
    bench::declare_measurement(app, options);
    bench::describe_kinds(app);
  };
  auto const run = [&](app::Context& context) -> int {
    bench::check_options(options);
    bench::run_kind(context, options);
    return app::good;
  };
  app::run_driver(argc, argv,
                  {.name = "graticule-bench",
                   .description = "Measures data movements and layers, as ratios within one run.",
                   .declare = declare,
                   .settle_defaults = [&](CLI::App& app) { bench::settle_kind(app, options); },
                   .run = run,
                   .before_start = [&](Comm const& comm) { bench::choose_device(options, comm); }});
}
