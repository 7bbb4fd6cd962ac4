// SPDX-License-Identifier: BSD-3-Clause
// Explains how a grid would be cut among ranks, or what a file holds and how it would be cut.
#include <graticule/app/driver.hpp>

#include "file_listing.hpp"
#include "grid_study.hpp"
#include "program_report.hpp"

#include <iostream>

namespace {

using namespace graticule;

void declare(CLI::App& app, info::Options& options) {
  app.add_option("FILE,--file", options.file,
                 "netCDF-4 or HDF5 file to list, or a network exported by torch.export (NET.pt2)");
  app.add_option(
      "--grid", options.grid,
      "Grid to cut, LATITUDExLONGITUDE cells, such as 721x1440; with NET.pt2: its sizes, where they are dynamic");
  app.add_option(
         "--ranks", options.num_ranks,
         "Number of ranks to cut for; 0: that of the partition. For NET.pt2: what each rank would hold and receive")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--ranks-per-node", options.ranks_per_node, "Consecutive ranks that share a node; 0: all on one node")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--partition", options.partition,
                 "Process grid, ranks along LATITUDExLONGITUDE, such as 8x4 or 8x0 (0: any number); auto: the fastest "
                 "exchange (for a file: latitude only). For NET.pt2: the blocks that fields come in");
  app.add_option("--cuts", options.cuts,
                 "balanced (equal rows), area (equal area), a list such as 61,60,60,60 or 121,120x240,240, or "
                 "file:PATH with one line of numbers per axis");
  app.add_option("--levels", options.levels, "Values per cell, levels times fields")->check(CLI::Range(1, 1 << 20));
  app.add_option("--dtype", options.dtype, "Data type of the fields: f32 or f64")->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--halo", options.halo,
                 "Halo width LATITUDExLONGITUDE, such as 1x1; 2:1x1 sets lower and upper side of latitude");
  app.add_option("--boundary", options.boundary,
                 "Boundary rules of latitude and longitude: pole, periodic, zero, reflect, symmetric, replicate, "
                 "untouched, tripolar_row, ...; reflect:pole_row sets lower and upper side");
  app.add_option("--corners", options.corners, "Ghost cells beyond corners: fill or skip")
      ->check(CLI::IsMember({"fill", "skip"}));
  app.add_option("--min-extents", options.min_extents, "Minimum cells per rank, LATITUDExLONGITUDE");
  app.add_option("--candidates", options.num_candidates, "Minimum number of process grids to examine in detail")
      ->check(CLI::Range(1, 10000));
  app.add_option("--svg", options.svg, "Draw the chosen partition, or the layout of NET.pt2 on --ranks, to this file");
  app.add_option("--check", options.check,
                 "Run NET.pt2 forward and backward on the inputs of FOLDER/golden.json in --dtype and compare with the "
                 "figures there; on all ranks, cut by --partition and --cuts");
  app.add_option("--tolerance", options.tolerance,
                 "Largest relative difference that --check accepts; default 1e-4, or 1e-10 for f64 with figures in f64")
      ->check(CLI::NonNegativeNumber)
      ->default_str("");
  app.add_option("--layout", options.layout,
                 "With NET.pt2 on ranks: cheapest (by bytes, messages and work), or divided (cuts every value that can "
                 "be cut, whatever messages cost)")
      ->check(CLI::IsMember({"cheapest", "divided"}));
}

int run(app::Context& context, info::Options const& options) {
  bool const is_program = info::is_program(options.file);
  if (options.file.empty() == options.grid.empty() && !is_program)
    throw Error(Fault::usage, "BadOption",
                options.file.empty() ? "FILE or --grid is required (--help lists the options)"
                                     : "FILE and --grid exclude each other");
  if (!options.svg.empty() && (is_program ? options.num_ranks == 0 : options.grid.empty()))
    throw Error(Fault::usage, "BadOption", is_program ? "--svg needs --ranks" : "--svg needs --grid");
  if (!options.check.empty() && !is_program)
    throw Error(Fault::usage, "BadOption", "--check needs an exported network, NET.pt2");
  if (context.comm.rank() != 0) std::cout.setstate(std::ios::failbit);
  if (is_program) return info::show_program(context, options);
  if (options.grid.empty())
    info::list_file(context, options);
  else
    info::study_grid(context, options);
  std::cout.flush();
  return app::good;
}

}  // namespace

int main(int argc, char** argv) {
  info::start_program_reader(argc, argv);
  info::Options options;
  graticule::app::run_driver(
      argc, argv,
      {.name = "graticule-info",
       .description =
           "Shows how a grid, or the fields of a netCDF-4 file, would be cut among ranks, or what an exported network "
           "holds.",
       .declare = [&](CLI::App& app) { declare(app, options); },
       .run = [&](graticule::app::Context& context) { return run(context, options); }});
}
