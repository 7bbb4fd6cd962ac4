// SPDX-License-Identifier: BSD-3-Clause
// Ratios in one run: what a data movement or a layer costs against what it must at least cost.
#include <graticule/app/shared_options.hpp>
#include <graticule/partition/error.hpp>

#include "case.hpp"
#include "kinds.hpp"
#include "options.hpp"

#ifdef GRATICULE_BENCH_LAYER
#include <graticule/models/detail/device.hpp>
#endif

#include <cstdlib>
#include <optional>

namespace graticule::bench {
namespace {

/// Kinds that measure a device; the others stay on the host, unless a device is asked for.
void choose_device(Options& options, Comm const& comm) {
  bool const is_of_library = options.kind == "unet" || options.kind == "data-parallel";
  if (!is_of_library && options.kind != "halo" && options.kind != "repartition") {
    if (options.device.asked() != "auto" && options.device.asked() != "cpu")
      throw Error(Fault::usage, "BadOption",
                  "--device " + options.device.asked() + ": " + options.kind +
                      " is measured on the host; halo, repartition, unet and data-parallel on devices, too");
    return;
  }
  app::DeviceOption::Library library;
#ifdef GRATICULE_BENCH_LAYER
  if (is_of_library)
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
      ->check(CLI::IsMember(all_kinds()));
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
  if ((options.kind == "replay" || options.kind == "program") == options.plan.empty())
    throw Error(Fault::usage, "BadOption",
                options.plan.empty() ? options.kind + " requires a file" : options.kind + " accepts no file");
  if (!options.misplaced.empty())
    throw Error(Fault::usage, "BadOption", options.misplaced + " does not apply to the kind " + options.kind);
  bool const weighs = options.kind == "program" || options.kind == "unet";
  if (options.timing.num_repetitions < 3 && (!weighs || options.timing.num_repetitions > 0))
    throw Error(Fault::usage, "BadOption",
                "--repetitions " + std::to_string(options.timing.num_repetitions) + ": " + options.kind +
                    " takes at least 3" + (weighs ? ", or 0" : ""));
  bool const moves = options.kind == "repartition";
  bool const trains = options.kind == "data-parallel";
  bool const has_poles =
      !moves && !trains && options.kind != "replay" && options.kind != "program" && options.kind != "machine";
  if (!options.grid.empty()) set_grid(options);
  if (options.num_rows == 0) options.num_rows = moves ? 512 : trains ? 32 : 721;
  if (options.num_columns == 0) options.num_columns = moves ? 512 : trains ? 32 : 1440;
  if (has_poles && options.num_columns % 2 != 0)
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
  if (options.kind == "repartition") run_repartition(context, options);
  if (options.kind == "halo") run_halo(context, options);
  if (options.kind == "replay") run_replay(context, options);
#ifdef GRATICULE_BENCH_LAYER
  if (options.kind == "layer") run_layer(context, options);
  if (options.kind == "repartition-layer") run_repartition_layer(context, options);
  if (options.kind == "spherical") run_spherical(context, options);
  if (options.kind == "unet") run_unet(context, options);
  if (options.kind == "program") run_program(context, options);
  if (options.kind == "data-parallel") run_data_parallel(context, options);
  if (options.kind == "machine") run_machine(context, options);
#else
  if (options.kind.ends_with("layer") || options.kind == "unet" || options.kind == "program" ||
      options.kind == "data-parallel" || options.kind == "machine")
    throw Error(Fault::usage, "Unsupported", "this graticule-bench was built without LibTorch; layers need it");
#endif
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
                   .settle_defaults = [&](CLI::App& app) { options.misplaced = bench::settle_kind(app, options.kind); },
                   .run = run,
                   .before_start = [&](Comm const& comm) { bench::choose_device(options, comm); }});
}
