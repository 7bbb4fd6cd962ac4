// SPDX-License-Identifier: BSD-3-Clause
// Explains how a grid would be cut among ranks, or what a file holds and how it would be cut.
#include <graticule/app/driver.hpp>

#include "file_listing.hpp"
#include "grid_study.hpp"
#include "program_report.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace graticule;

/// What is shown.
enum class Subject { file, program, grid };

/// The command line without its first word, where that names the subject: `grid 721x1440`, `file PATH`, `network
/// NET.pt2`.
struct Command {
  std::optional<Subject> subject;
  bool is_old = false;           ///< `--grid` or `--file` in place of the word
  std::vector<char*> arguments;  ///< as `argv`, with a null pointer at the end
};

Command command_of(int argc, char** argv) {
  static char grid_option[] = "--grid";
  Command command;
  auto& arguments = command.arguments;
  arguments.assign(argv, argv + argc);
  std::string const word = argc > 1 ? argv[1] : "";
  std::error_code ignored;
  // A file may have such a name.
  if (argc > 2 || !std::filesystem::exists(word, ignored)) {
    if (word == "grid") command.subject = Subject::grid;
    if (word == "file") command.subject = Subject::file;
    if (word == "network") command.subject = Subject::program;
  }
  if (command.subject == Subject::grid && argc > 2 && argv[2][0] != '-')
    arguments[1] = grid_option;
  else if (command.subject)
    arguments.erase(arguments.begin() + 1);
  else
    command.is_old = std::any_of(arguments.begin(), arguments.end(), [](std::string_view argument) {
      return argument == "--grid" || argument == "--file" || argument.starts_with("--grid=") ||
             argument.starts_with("--file=");
    });
  arguments.push_back(nullptr);
  return command;
}

void declare(CLI::App& app, info::Options& options) {
  app.footer(
      "grid --help, file --help and network --help list the options of each.\n\n"
      "Examples:\n"
      "  graticule-info grid 721x1440 --ranks 64 --halo 2x2 --svg partition.svg   # how a grid can be cut\n"
      "  graticule-info file era5.nc --ranks 4                                     # contents, and bytes of each rank\n"
      "  graticule-info 'ta_day_*.nc'                                              # as one series, with its gaps\n"
      "  graticule-info network net.pt2 --ranks 4                                  # what each rank holds and "
      "receives\n"
      "  mpiexec -n 3 graticule-info network net.pt2 --check golden --cuts 10,23,0");
  app.add_option("FILE,--file", options.files,
                 "netCDF-4 or HDF5 file or Zarr store to list, several that follow each other in time, or a pattern in "
                 "quotes; or a network exported by torch.export (NET.pt2)");
  app.add_option("--grid", options.grid,
                 "Grid to cut, ROWSxCOLUMNS, such as 721x1440. With NET.pt2: the grid to run on, "
                 "if its sizes are dynamic");
  app.add_option("--ranks", options.ranks,
                 "Number of ranks to cut for; 0: by --partition. With NET.pt2: lists the values "
                 "that each rank would hold and receive; with --machine also for several numbers, "
                 "such as 2,8,64")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->default_str("0");
  app.add_option("--ranks-per-node", options.ranks_per_node, "Consecutive ranks that share a node; 0: all on one node")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--partition", options.partition,
                 "Process grid, ranks along rows x columns, such as 4x1; 8x0: any number along "
                 "columns; auto: the fastest exchange (for a file: bands of rows). With NET.pt2: "
                 "the blocks that fields come in")
      ->type_name("auto|RxC");
  app.add_option("--cuts", options.cuts,
                 "balanced (equal rows), area (equal area), a list such as 61,60,60,60 or 121,120x240,240, or "
                 "file:PATH with one line of numbers per axis");
  app.add_option("--levels", options.levels, "Values per cell, levels times fields")->check(CLI::Range(1, 1 << 20));
  app.add_option("--dtype", options.dtype, "Data type of the fields")->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--halo", options.halo,
                 "Halo width, ROWSxCOLUMNS, such as 1x1; 2:1x1 is 2 on the lower side of the rows "
                 "and 1 on the upper side");
  app.add_option("--boundary", options.boundary,
                 "Boundary rules of latitude and longitude: pole, periodic, zero, reflect, symmetric, replicate, "
                 "untouched, tripolar_row, ...; reflect:pole_row sets lower and upper side");
  app.add_option("--corners", options.corners, "Ghost cells at corners: fill them, or skip them")
      ->check(CLI::IsMember({"fill", "skip"}));
  app.add_option("--min-extents", options.min_extents, "Minimum cells per rank, ROWSxCOLUMNS");
  app.add_option("--candidates", options.num_candidates, "Number of process grids to compare in detail, at least")
      ->check(CLI::Range(1, 10000));
  app.add_option("--svg", options.svg, "Draw the chosen partition, or the layout of NET.pt2 on --ranks, to this file")
      ->type_name("FILE");
  app.add_option("--check", options.check,
                 "Run NET.pt2 forward and backward on the inputs of FOLDER/golden.json in --dtype and compare with the "
                 "figures there; on all ranks, cut by --partition and --cuts")
      ->type_name("FOLDER");
  app.add_option("--tolerance", options.tolerance,
                 "Largest relative difference that --check accepts. Default: 1e-4; 0.05 if the "
                 "network computes in f16, 0.3 in bf16; 1e-10 in f64 with figures in f64")
      ->check(CLI::NonNegativeNumber)
      ->default_str("");
  app.add_option("--layout", options.layout,
                 "Cut of NET.pt2. cheapest: by bytes, messages and work; divided: every value "
                 "that can be cut, whatever messages cost")
      ->check(CLI::IsMember({"cheapest", "divided"}));
}

void declare_forecast(CLI::App& app, info::Options& options) {
  app.add_option("--machine", options.machine,
                 "File of rates that graticule-bench machine has written. Predicts the time of a "
                 "training step of NET.pt2 on --ranks")
      ->type_name("FILE");
  app.add_option("--step-seconds", options.step_seconds,
                 "Measured seconds of a step on one rank of that machine, to correct computing "
                 "times; 0: use the rates of the file")
      ->check(CLI::NonNegativeNumber);
}

Subject subject_of(info::Options const& options) {
  if (info::is_program(options.file)) return Subject::program;
  return options.grid.empty() ? Subject::file : Subject::grid;
}

struct LimitedOption {
  std::string name;
  std::vector<Subject> subjects;
};

/// Options that do not apply to every subject.
std::vector<LimitedOption> const limited_options{{"--ranks-per-node", {Subject::grid}},
                                                 {"--levels", {Subject::grid}},
                                                 {"--dtype", {Subject::grid, Subject::program}},
                                                 {"--halo", {Subject::grid}},
                                                 {"--boundary", {Subject::grid}},
                                                 {"--corners", {Subject::grid}},
                                                 {"--min-extents", {Subject::grid}},
                                                 {"--candidates", {Subject::grid}},
                                                 {"--svg", {Subject::grid, Subject::program}},
                                                 {"--check", {Subject::program}},
                                                 {"--tolerance", {Subject::program}},
                                                 {"--layout", {Subject::program}},
                                                 {"--machine", {Subject::program}},
                                                 {"--step-seconds", {Subject::program}}};

/// @return which option says how an exported network would be cut or checked, where it is neither; empty: none
std::string without_use(CLI::App const& app, info::Options const& options) {
  bool const is_cut =
      info::total_ranks(info::parse_partition(options.partition), options.num_ranks, options.partition) > 0;
  bool const is_checked = !options.check.empty();
  struct Need {
    std::string name;
    bool is_met;
    std::string what;
  };
  for (auto const& [name, is_met, what] : {Need{"--grid", is_cut || is_checked, "--ranks or --check"},
                                           {"--svg", is_cut, "--ranks"},
                                           {"--layout", is_cut || is_checked, "--ranks or --check"},
                                           {"--partition", is_cut || is_checked, "--ranks or --check"},
                                           {"--cuts", is_cut || is_checked, "--ranks or --check"},
                                           {"--dtype", is_checked, "--check"},
                                           {"--tolerance", is_checked, "--check"},
                                           {"--machine", is_cut, "--ranks"},
                                           {"--step-seconds", !options.machine.empty(), "--machine"}})
    if (!is_met && app.get_option(name)->count() > 0) return name + " needs " + what;
  return {};
}

/// Of an option, in the --help of `grid` or `file`: the part about exported networks is left out.
void drop_networks(CLI::App& app, Subject subject) {
  auto const describe = [&app](char const* option, char const* text) { app.get_option(option)->description(text); };
  describe("--ranks", "Number of ranks to cut for; 0: by --partition");
  if (subject == Subject::file) {
    describe("--file",
             "netCDF-4 or HDF5 file or Zarr store to list, several that follow each other in time, or a "
             "pattern in quotes");
    describe("--partition",
             "Process grid, ranks along rows x columns, such as 4x1; 8x0: any number along columns; "
             "auto: bands of rows");
  } else {
    describe("--grid", "Grid to cut, ROWSxCOLUMNS, such as 721x1440");
    describe("--partition",
             "Process grid, ranks along rows x columns, such as 4x1; 8x0: any number along columns; "
             "auto: the fastest exchange");
    describe("--svg", "Draw the chosen partition to this file");
  }
}

/// Takes their defaults from options that do not apply, so that `--dump-config` omits them.
/// @return what is wrong with one of them that was given; empty: nothing
std::string settle(CLI::App& app, info::Options const& options, Command const& command) {
  auto const subject = command.subject.value_or(subject_of(options));
  std::string wrong;
  // Not in the --help of a subject.
  if (command.subject == Subject::grid) app.get_option("--file")->group("");
  if (command.subject == Subject::file) app.get_option("--grid")->group("");
  if (command.subject && *command.subject != Subject::program) drop_networks(app, *command.subject);
  for (auto const& [name, subjects] : limited_options) {
    if (std::find(subjects.begin(), subjects.end(), subject) != subjects.end()) continue;
    auto* const option = app.get_option(name);
    option->default_str("");
    if (command.subject) option->group("");
    if (option->count() == 0) continue;
    if (subject == Subject::program)
      wrong = name + " does not apply to an exported network";
    else
      wrong = name + (subjects.front() == Subject::grid ? " needs --grid" : " needs an exported network, NET.pt2");
  }
  if (options.ranks.size() > 1 && options.machine.empty()) return "--ranks of several numbers need --machine";
  if (command.subject == Subject::program && !info::is_program(options.file))
    return "network needs an exported network, NET.pt2";
  return wrong.empty() && subject == Subject::program ? without_use(app, options) : wrong;
}

int run(app::Context& context, info::Options const& options, std::string const& wrong, Command const& command) {
  bool const is_program = info::is_program(options.file);
  if (options.file.empty() == options.grid.empty() && !is_program)
    throw Error(Fault::usage, "BadOption",
                options.file.empty() ? "FILE or --grid is required (--help lists the options)"
                                     : "FILE and --grid exclude each other");
  if (!wrong.empty()) throw Error(Fault::usage, "BadOption", wrong);
  if (context.comm.rank() != 0) std::cout.setstate(std::ios::failbit);
  if (is_program && options.files.size() > 1)
    throw Error(Fault::usage, "BadOption",
                "FILE: give one exported network, got " + std::to_string(options.files.size()));
  if (is_program) return info::show_program(context, options);
  if (options.grid.empty())
    info::list_file(context, options);
  else
    info::study_grid(context, options);
  std::cout.flush();
  if (command.is_old)
    spdlog::info(options.grid.empty() ? "graticule-info file " + options.file + " is the new form of --file"
                                      : "graticule-info grid " + options.grid + " is the new form of --grid");
  return app::good;
}

/// Of the program that a user has started: graticule-info starts graticule-info-network under its own name.
std::string description_of(std::string_view program) {
  std::string const text =
      "Shows how a grid or the fields of a file would be cut among ranks, or the contents of an exported network.";
  return program.ends_with("-network") ? text + " This program is a part of graticule-info: start that one instead."
                                       : text;
}

}  // namespace

int main(int argc, char** argv) {
  auto command = command_of(argc, argv);
  auto& arguments = command.arguments;
  info::start_program_reader(int(arguments.size()) - 1, arguments.data());
  info::Options options;
  std::string wrong;
  graticule::app::run_driver(
      int(arguments.size()) - 1, arguments.data(),
      {.name = "graticule-info",
       .description = description_of(argv[0]),
       .declare =
           [&](CLI::App& app) {
             declare(app, options);
             declare_forecast(app, options);
           },
       .settle_defaults =
           [&](CLI::App& app) {
             if (!options.ranks.empty()) options.num_ranks = options.ranks.front();
             if (!options.files.empty()) options.file = options.files.front();
             wrong = settle(app, options, command);
           },
       .run = [&](graticule::app::Context& context) { return run(context, options, wrong, command); }});
}
