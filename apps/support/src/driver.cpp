// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/driver.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/app/shared_file.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/printable.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/repartition/runtime.hpp>

#include "config.hpp"
#include "cores.hpp"
#include "ending.hpp"
#include "help.hpp"
#include "launchers.hpp"
#include "version.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

namespace graticule::app {

namespace {

/// MPI from here to the end of `main`, unless somebody else started it.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv) {
    int started = 0;
    MPI_Initialized(&started);
    if (started != 0) return;
    int level = 0;
    // UCX, which MPI may use, would take the hang-up of a terminal as a request for debug messages.
    struct sigaction at_hang_up {};
    sigaction(SIGHUP, nullptr, &at_hang_up);
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    sigaction(SIGHUP, &at_hang_up, nullptr);
    owns_ = true;
    if (level < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      throw Error("ThreadLevel", "this MPI gives thread level " + std::to_string(level) +
                                     "; drivers read in the background and need MPI_THREAD_SERIALIZED (" +
                                     std::to_string(MPI_THREAD_SERIALIZED) + ")");
    }
  }
  MpiSession(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  ~MpiSession() {
    if (owns_) MPI_Finalize();
  }

 private:
  bool owns_ = false;
};

/// Seconds after which a wait for other ranks ends a driver.
constexpr double usual_stall_limit = 600;

/// Of Kokkos' OpenMP back end.
constexpr int most_threads = 512;

/// What the command line asks for instead of a run.
struct Questions {
  bool help = false;
  bool version = false;
  bool dump_config = false;
};

struct CommandLine {
  CLI::App app;
  CommonOptions common;
  Questions questions;
  std::string config;
};

std::map<std::string, ProgressMode> const progress_modes{{"auto", ProgressMode::automatic},
                                                         {"bar", ProgressMode::bar},
                                                         {"lines", ProgressMode::lines},
                                                         {"none", ProgressMode::none}};

/// A whole number in the form that CLI11 reads as it is meant.
template <class Number>
std::optional<std::string> whole_number(std::string const& text) {
  auto const number = number_from<Number>(text);
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

/// CLI11 2.1 takes an empty text for 0 and 010 for 8, wraps unsigned numbers that are negative or too large, and finds
/// that "nan" lies in every range.
/// @param type the option's, in CLI11's words @return what to say of `text`; empty where it is good
std::string checked_text(std::string const& type, std::string& text) {
  if (text.empty()) return "the value is empty";
  if (type.starts_with("FLOAT") && std::isnan(std::strtod(text.c_str(), nullptr)))
    return "'" + text + "' is not a number";
  bool const is_unsigned = type.starts_with("UINT");
  if (!is_unsigned && !type.starts_with("INT")) return {};
  auto const number = is_unsigned ? whole_number<std::uint64_t>(text) : whole_number<std::int64_t>(text);
  if (!number)
    return "'" + text + "' is not a whole number" + (is_unsigned ? " from 0 to 18446744073709551615" : " of 64 bits");
  text = *number;
  return {};
}

/// Before the checks that options have of their own.
void check_values(CLI::App& app) {
  for (auto* option : app.get_options([](CLI::Option const* one) { return one->get_expected_max() > 0; })) {
    auto const type = option->get_type_name();
    option->transform(CLI::Validator([type](std::string& text) { return checked_text(type, text); }, ""));
  }
}

void declare(CommandLine& line, Driver const& driver) {
  auto& app = line.app;
  app.name(driver.name);
  app.description(driver.description);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag();
  app.option_defaults()->always_capture_default();
  driver.declare(app);
  auto const group = common_group;
  app.add_flag("-h,--help", line.questions.help, "Print this help and exit")->group(group);
  app.add_flag("--version", line.questions.version, "Print the versions of the program and its libraries, and exit")
      ->group(group);
  app.add_option("--config", line.config, "YAML file of options; the command line takes precedence")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--dump-config", line.questions.dump_config, "Print the effective options as YAML and exit")
      ->group(group);
  app.add_option("--report", line.common.report, "Write a JSON report to this file")->type_name("FILE")->group(group);
  app.add_option_function<std::string>(
         "--progress", [&line](std::string const& mode) { line.common.progress = progress_modes.at(mode); },
         "Progress display.\n"
         "auto: a bar on a terminal, lines in a log\n"
         "none: nothing")
      ->check(CLI::IsMember({"auto", "bar", "lines", "none"}))
      ->default_str("auto")
      ->group(group);
  app.add_option("--log-level", line.common.log_level, "Minimum severity of log messages")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->envname("GRATICULE_LOG_LEVEL")
      ->group(group);
  app.add_option("--threads", line.common.num_threads,
                 "Threads per rank.\n0: the cores of the node divided by its ranks")
      ->check(CLI::Range(0, most_threads))
      ->group(group);
  app.add_option("--stall-limit", line.common.stall_limit,
                 "Longest wait for another rank, in seconds, before the job ends with an error.\n0: no limit")
      ->check(CLI::Range(0.0, 1e9))
      ->default_str("600")
      ->group(group);
  app.add_flag("--allow-single-rank", line.common.allow_single_rank,
               "Run even if this MPI finds one rank where the launcher has started several processes. Each then does "
               "all of the work")
      ->group(group);
  check_values(app);
}

/// What to say of an argument that belongs to nothing. An option that may stand alone takes its value after '='.
std::string stray_argument(CLI::App const& app, std::string const& stray, std::vector<std::string> const& arguments) {
  auto const place = std::find(arguments.begin(), arguments.end(), stray);
  if (place != arguments.begin() && place != arguments.end()) {
    auto const& before = *(place - 1);
    auto const* const option = before.starts_with("--") ? app.get_option_no_throw(before) : nullptr;
    bool const may_stand_alone = option != nullptr && option->get_expected_max() == 0;
    if (may_stand_alone && !option->get_default_str().empty())
      return before + " takes its value after '=': write " + before + "=" + stray;
    if (may_stand_alone) return before + " takes no value, but '" + stray + "' follows it";
  }
  return "'" + stray + "' belongs to no option";
}

void parse(Comm const& comm, CommandLine& line, std::vector<std::string> arguments) {
  Hash hash;
  std::string shown;
  for (auto const& argument : arguments) {
    hash.add(std::string_view(argument));
    shown += " " + argument;
  }
  require_same(comm, "BadOption", hash.value(), "the command line" + shown);
  if (auto const path = config_path(arguments); !path.empty())
    arguments = with_config(line.app, std::move(arguments), path, read_shared(comm, path, "--config"));
  auto const& app = line.app;
  auto const given = arguments;
  try {
    std::reverse(arguments.begin(), arguments.end());
    line.app.parse(std::move(arguments));
  } catch (CLI::ParseError const& error) {
    // A missing argument is no error for one who asks for help.
    if (line.questions.help || line.questions.version) return;
    std::string text = error.what();
    if (auto const extras = app.remaining(); !extras.empty() && extras.front().starts_with("--")) {
      auto const name = extras.front().substr(2, extras.front().find('=') - 2);
      text = "unknown option --" + name + "; the nearest known one is --" + nearest_option(app, name);
    } else if (!extras.empty()) {
      text = stray_argument(app, extras.front(), given);
    }
    throw Error(Fault::usage, "BadOption", text + " (--help lists the options)");
  }
}

/// The message, without what would command a terminal: names and attributes of files are quoted in messages.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(spdlog::details::log_msg const& message, std::tm const&, spdlog::memory_buf_t& out) override {
    auto const text = printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableMessage>();
  }
};

void start_logging(Comm const& comm, CommonOptions const& options) {
  auto logger = std::make_shared<spdlog::logger>("graticule", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  auto const level = spdlog::level::from_str(options.log_level);
  logger->set_level(comm.rank() == 0 ? level : std::max(level, spdlog::level::warn));
  auto const place = comm.num_ranks() > 1
                         ? "[rank " + std::to_string(comm.rank()) + "/" + std::to_string(comm.num_ranks()) + "] "
                         : std::string();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern(comm.rank() == 0 ? "%H:%M:%S %^%l%$ %*"
                                                                          : "%H:%M:%S %^%l%$ " + place + "%*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
}

std::string command_text(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i > 0 ? " " : "") + std::string(argv[i]);
  return text;
}

/// Whether they are one file, or will be; `given` may be a pattern.
bool is_same_file(std::string const& given, std::filesystem::path const& report) {
  std::error_code ignored;
  if (std::filesystem::equivalent(given, report, ignored)) return true;
  if (given.find_first_of("*?[") != std::string::npos) return fnmatch(given.c_str(), report.c_str(), FNM_PATHNAME) == 0;
  return std::filesystem::weakly_canonical(given, ignored) == std::filesystem::weakly_canonical(report, ignored);
}

/// @throws `BadOption` if the report would replace a file that another option names
void refuse_overwriting(CLI::App const& app, std::string const& report) {
  std::error_code ignored;
  auto const kind = std::filesystem::status(report, ignored).type();
  using std::filesystem::file_type;
  if (kind != file_type::not_found && kind != file_type::regular && kind != file_type::directory)
    return;  // /dev/stdout
  for (auto const* option : app.get_options([](CLI::Option const* one) { return one->get_expected_max() > 0; })) {
    if (option->check_lname("report")) continue;
    for (auto const& given : option->results())
      if (is_same_file(given, report))
        throw Error(Fault::usage, "BadOption",
                    "--report " + report + " is also the path of " + option->get_name(false, true));
  }
}

/// Whether `report` is to lie in the folder of `--output`, which the driver has yet to create.
bool is_in_new_folder(CLI::App const& app, std::filesystem::path const& report) {
  auto const* option = app.get_option_no_throw("--output");
  auto const folder = report.parent_path();
  std::error_code ignored;
  if (option == nullptr || folder.empty() || std::filesystem::exists(folder, ignored)) return false;
  auto const output = option->count() > 0 ? option->as<std::string>() : option->get_default_str();
  // A default that has no effect is left out.
  if (output.empty()) return false;
  auto const whole = [](std::filesystem::path const& path) {
    return std::filesystem::absolute(path / "").lexically_normal();
  };
  return whole(folder) == whole(output);
}

int run(Comm const& comm, CommandLine const& line, Driver const& driver, std::string const& command) {
  // Not after hours of work.
  run_agreed(comm, [&] {
    if (comm.rank() != 0 || line.common.report.empty()) return;
    refuse_overwriting(line.app, line.common.report);
    if (!is_in_new_folder(line.app, line.common.report)) require_writable(line.common.report);
  });
  Report report;
  auto& data = report.data();
  data["driver"] = driver.name;
  data["version"] = release();
  data["command"] = command;
  data["num_ranks"] = comm.num_ranks();
  data["num_nodes"] = comm.num_nodes();
  data["partition"] = Report::Json::object();
  data["seconds"] = Report::Json::object();
  data["transport"] = Report::Json::object();
  int asked = 0;
  run_agreed(comm, [&] { asked = graticule::detail::chosen_threads(line.common.num_threads); });
  int const num_threads = asked > 0 ? asked : std::min(cores_per_rank(comm), most_threads);
  data["num_threads"] = num_threads;
  // Kokkos' own advice on this variable would stand between our lines; threads are not bound by default.
  ::setenv("OMP_PROC_BIND", "false", 0);
#ifdef _OPENMP
  // Else Kokkos warns when OMP_NUM_THREADS asks for fewer.
  omp_set_num_threads(num_threads);
#endif
  if (driver.before_start) driver.before_start(comm);
  char name[] = "graticule";
  char* no_arguments[] = {name, nullptr};
  int one = 1;
  char** first = no_arguments;
  Runtime const runtime(one, first, num_threads);
  if (driver.set_threads) driver.set_threads(num_threads);
  Context context{comm, line.common, report, num_threads};
  int const code = driver.run(context);
  run_agreed(comm, [&] {
    if (comm.rank() == 0 && !line.common.report.empty()) report.write(line.common.report);
  });
  return code;
}

int answer(Comm const& comm, CommandLine const& line, Driver const& driver) {
  if (comm.rank() != 0) return good;
  if (line.questions.help)
    std::cout << line.app.help();
  else if (line.questions.version)
    std::cout << version_text(driver);
  else
    std::cout << dumped_config(line.app);
  return good;
}

/// @throws `OutputError` if what was printed is lost, as on a full disk
void require_complete_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || std::cout.bad())
    throw Error("OutputError", "the standard output cannot be written: " +
                                   (errno != 0 ? std::generic_category().message(errno) : "an earlier write failed"));
}

int run_to_the_end(int argc, char** argv, Driver const& driver) {
  auto const command = command_text(argc, argv);
  end_all_ranks_on_terminate(driver.name);
  // A file that grows beyond a limit is an error of the call that writes it.
  std::signal(SIGXFSZ, SIG_IGN);
  int rank = 0;
  try {
    MpiSession const session(argc, argv);
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    auto const comm = Comm::world();
    auto const ending = Comm::world();
    std::exception_ptr failure;
    int code = good;
    try {
      CommandLine line;
      declare(line, driver);
      parse(comm, line, {argv + 1, argv + argc});
      if (driver.settle_defaults) driver.settle_defaults(line.app);
      auto rule = StallRule::of_environment({.error_seconds = usual_stall_limit});
      rule.error_seconds = line.common.stall_limit.value_or(rule.error_seconds);
      set_stall_rule(rule);
      start_logging(comm, line.common);
      bool const asks = line.questions.help || line.questions.version || line.questions.dump_config;
      if (!asks && !line.common.allow_single_rank) refuse_accidental_single_ranks(comm);
      code = asks ? answer(comm, line, driver) : run(comm, line, driver, command);
      if (code == good) require_complete_output();
    } catch (...) {
      failure = std::current_exception();
    }
    return end_together(ending, driver.name, code, failure);
  } catch (std::exception const& error) {
    // MPI itself failed to start or to end, and there is nobody to agree with; or the environment makes no sense, which
    // all ranks know.
    auto const verdict = verdict_of(std::current_exception());
    if (verdict.code != wrong_usage || rank == 0) std::cerr << driver.name << ": " << verdict.message << std::endl;
    return verdict.code;
  }
}

}  // namespace

void run_driver(int argc, char** argv, Driver const& driver) {
  detail::end_process(run_to_the_end(argc, argv, driver));
}

}  // namespace graticule::app
