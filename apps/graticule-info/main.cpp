// SPDX-License-Identifier: BSD-3-Clause
// Explains how a grid would be cut among ranks, or what a file holds and how it would be cut.
#include <graticule/app/driver.hpp>
#include <graticule/halo/detail/edges.hpp>

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

/// An example for --help, one line or two.
char const* example_of(Subject subject) {
  switch (subject) {
    case Subject::grid:
      return "\n  graticule-info grid 721x1440 --ranks 64 --halo 2x2 --svg partition.svg   # how a grid can be cut";
    case Subject::file:
      return "\n  graticule-info file era5.nc --ranks 4                    # contents, and bytes of each rank"
             "\n  graticule-info file 'ta_day_*.nc'                        # as one series, with its gaps";
    case Subject::program:
      return "\n  graticule-info network net.pt2 --ranks 4                 # what each rank holds and receives"
             "\n  mpiexec -n 3 graticule-info network net.pt2 --check golden --cuts 10,23,0";
  }
  return "";
}

/// Lines that begin with "With NET.pt2" are for exported networks alone.
void declare(CLI::App& app, info::Options& options) {
  app.footer(std::string("grid --help, file --help and network --help list the options of each.\n\nExamples:") +
             example_of(Subject::grid) + example_of(Subject::file) + example_of(Subject::program));
  app.add_option(
      "FILE,--file", options.files,
      "netCDF-4 or HDF5 file or Zarr store to list; several that follow each other in time, or a pattern in "
      "quotes, are listed as one series.\n"
      "With NET.pt2, a network exported by torch.export: lists it, cuts it (--ranks) or checks it (--check)");
  app.add_option("--grid", options.grid,
                 "Grid to cut, LATITUDESxLONGITUDES, such as 721x1440.\n"
                 "With NET.pt2: the grid to run it on, if it was exported with dynamic sizes");
  app.add_option("--ranks", options.ranks,
                 "Number of ranks to cut for; none is started.\n"
                 "0: as many as --partition has\n"
                 "With NET.pt2: lists what each of these ranks would hold and receive; with --machine also for several "
                 "numbers, such as 2,8,64")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->default_str("0");
  app.add_option("--ranks-per-node", options.ranks_per_node,
                 "Number of ranks on each node, in the order of their numbers.\n0: all on one node")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--partition", options.partition,
                 "Process grid: numbers of ranks that the rows and the columns are cut among, such as 4x1.\n"
                 "8x0: 8 along the rows, any number along the columns\n"
                 "auto: the process grid with the fastest exchange; for a file: bands of rows\n"
                 "With NET.pt2: the blocks that its fields come in")
      ->type_name("auto|ROWSxCOLUMNS");
  app.add_option("--cuts", options.cuts,
                 "Rows of each rank.\n"
                 "balanced: equal numbers\n"
                 "area: equal areas of the globe\n"
                 "A list: 61,60,60,60 for 4 ranks; 121,120x240,240 for rows and columns of --partition 2x2\n"
                 "file:PATH: numbers from a file, a line for the rows and a line for the columns");
  app.add_option("--levels", options.levels, "Values per cell: levels times fields")->check(CLI::Range(1, 1 << 20));
  app.add_option("--dtype", options.dtype, "Data type of the fields")->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--halo", options.halo,
                 "Width of the halo, the cells of its neighbors that a rank needs: ROWSxCOLUMNS, such as 1x1.\n"
                 "2:1x1: 2 rows on the lower side, 1 row on the upper side, 1 column on both sides");
  app.add_option("--boundary", options.boundary,
                 "Rules for cells beyond the edges, for latitude and for longitude.\n"
                 "pole: at a pole, on the outer rows of an odd number of rows, and beyond them of an even number\n"
                 "reflect:pole_row,periodic: different rules at the lower and the upper edge of the latitudes\n"
                 "Rules: pole, zero, " +
                     graticule::detail::enum_names<Edge>());
  app.add_option("--corners", options.corners,
                 "Cells of the halo that lie diagonally beyond the corners of a rank's cells.\n"
                 "fill: exchanged, as stencils such as 3x3 need\n"
                 "skip: not exchanged")
      ->check(CLI::IsMember({"fill", "skip"}));
  app.add_option("--min-extents", options.min_extents, "Smallest number of cells of a rank, ROWSxCOLUMNS, such as 8x8");
  app.add_option("--candidates", options.num_candidates,
                 "Process grids to examine in detail and to list: at least so many of all that are possible")
      ->check(CLI::Range(1, 10000));
  app.add_option("--svg", options.svg,
                 "Draw the chosen partition to this file.\n"
                 "With NET.pt2: draws its layout on --ranks")
      ->type_name("FILE");
  app.add_option(
         "--check", options.check,
         "Compare with PyTorch: run the network on the inputs of FOLDER/golden.json, forward and backward, in "
         "--dtype, on all ranks (cut by --partition and --cuts), and compare outputs, loss and gradients with the "
         "figures there")
      ->type_name("FOLDER");
  app.add_option(
         "--tolerance", options.tolerance,
         "Largest relative difference that --check accepts; beyond it the exit code is 4. Default: 1e-4; 0.05 if "
         "the network computes in f16, 0.3 in bf16; 1e-10 with --dtype f64 and figures in f64")
      ->check(CLI::NonNegativeNumber)
      ->default_str("");
  app.add_option("--layout", options.layout,
                 "How the values of the network are divided among the ranks.\n"
                 "cheapest: so that bytes, messages and work cost least; small values may be whole on every rank\n"
                 "divided: every value that can be divided, whatever the messages cost")
      ->check(CLI::IsMember({"cheapest", "divided"}));
}

void declare_forecast(CLI::App& app, info::Options& options) {
  app.add_option("--machine", options.machine,
                 "Predict the time of a training step on --ranks, by the rates of a machine in this file, which "
                 "`graticule-bench machine --machine FILE` writes")
      ->type_name("FILE");
  app.add_option(
         "--step-seconds", options.step_seconds,
         "With --machine: measured seconds of a step on one rank of that machine, by which the predicted computing "
         "times are corrected.\n"
         "0: by the rates of the file alone")
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

/// The --help of a subject: without the lines about exported networks unless it is one.
void show_only(CLI::App& app, Subject subject) {
  if (subject != Subject::program) app.get_option(subject == Subject::grid ? "--file" : "--grid")->group("");
  app.footer(std::string("Examples:") + example_of(subject));
  app.name(app.get_name() + (subject == Subject::grid ? " grid" : subject == Subject::file ? " file" : " network"));
  for (auto* option : app.get_options([&](auto*) { return subject != Subject::program; }))
    if (auto const line = option->get_description().find("\nWith NET.pt2"); line != std::string::npos)
      option->description(option->get_description().substr(0, line));
}

/// Takes their defaults from options that do not apply, so that `--dump-config` omits them.
/// @return what is wrong with one of them that was given; empty: nothing
std::string settle(CLI::App& app, info::Options const& options, Command const& command) {
  auto const subject = command.subject.value_or(subject_of(options));
  std::string wrong;
  if (command.subject) show_only(app, *command.subject);
  for (auto const& [name, subjects] : limited_options) {
    auto* const option = app.get_option(name);
    if (!command.subject)
      option->description(option->get_description() + (subjects.size() == 2                ? "\nFor grid, network"
                                                       : subjects.front() == Subject::grid ? "\nFor grid"
                                                                                           : "\nFor network"));
    if (std::find(subjects.begin(), subjects.end(), subject) != subjects.end()) continue;
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
  return program.ends_with("-network")
             ? text + " Do not start this program yourself: it is a part of graticule-info, which starts it."
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
