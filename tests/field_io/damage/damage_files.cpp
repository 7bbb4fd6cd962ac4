// SPDX-License-Identifier: BSD-3-Clause
// Opens and reads damaged files, and counts what ends in another way than by an error that names the file.
//
//   damage_files [--count N] [--seed S] [--ranks R] [--launcher 'mpiexec -n'] [--keep FOLDER] FILE...
//   damage_files [--count N] [--seed S] [--seconds 10] [--keep FOLDER] --program 'graticule-info {}' FILE...
//   damage_files --make FOLDER [FILE...]
//   damage_files [--seed S] --mutant NUMBER FILE OUT
//
// Damages the files given and some of Graticule's own (fields, deflated and not, and a checkpoint): half of the mutants
// near headers, heaps and trees. The first form opens each by the library, on R ranks, and reads of each variable its
// ends, or all of it where that is little. The second one runs a program on each, {} standing for its path. Fails on
// signals, on more than so many seconds, on more than 2 GiB and on errors of another kind. --keep leaves those mutants
// in a folder. The third one copies the whole files to a folder: a corpus for `fuzz_files`. The last one writes one
// mutant of a file, for scripts; every fifth has a range of zeros, and every fifth is cut short.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/repartition/runtime.hpp>

#include "file_mutants.hpp"
#include "files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

namespace {

using namespace graticule;
using test::read_bytes;
using Clock = std::chrono::steady_clock;

constexpr long most_kilobytes = 2L << 20;

struct Options {
  std::uint64_t count = 300;
  std::uint64_t seed = 1;
  std::chrono::seconds most_time{10};
  std::string ranks = "1";
  std::string launcher;
  std::string program;
  std::filesystem::path keep;
  std::filesystem::path folder;  ///< of the worker: set by the one that starts it
  std::filesystem::path make;
  std::optional<std::uint64_t> mutant;
  std::uint64_t first = 0;
  std::vector<std::filesystem::path> files;
};

/// Where the worker is; the one that watches it maps the same file.
struct Status {
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> refused;
  std::atomic<std::uint64_t> read;
  std::atomic<std::uint64_t> wrong;
  std::atomic<long> most_kilobytes;
  std::atomic<bool> is_done;
};

Status& map_status(std::filesystem::path const& folder) {
  auto const path = folder / "status";
  int const file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Status)) != 0) throw Error("NoStatus", path.string());
  void* const memory = ::mmap(nullptr, sizeof(Status), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw Error("NoStatus", path.string());
  return *static_cast<Status*>(memory);
}

std::vector<double> ramp(Index count, double first, double step) {
  std::vector<double> values(std::size_t(count), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * double(i);
  return values;
}

/// As graticule-train writes predictions, and a variable in one piece.
void make_fields(Comm const& comm, std::filesystem::path const& path) {
  FieldWriter writer(comm, path, {Attribute::of_text("title", "fields to be damaged")});
  writer.add_dimension("time", 4, DimensionKind::unlimited);
  writer.add_coordinate("latitude", ramp(19, -90, 10), ValueType::f64, {Attribute::of_text("units", "degrees_north")});
  writer.add_coordinate("longitude", ramp(36, 0, 10), ValueType::f64, {Attribute::of_text("units", "degrees_east")});
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {Attribute::of_text("units", "hours since 2000-01-01")}});
  std::vector<std::string> const axes{"time", "latitude", "longitude"};
  writer.add_variable({.name = "z", .dimensions = axes, .chunk = {1, 19, 36}, .deflate = 4, .fill = -9999.0});
  writer.add_variable(
      {.name = "t", .dimensions = axes, .type = ValueType::i16, .packing = Packing{0.01, 273.15}, .fill = -32768.0});
  writer.add_variable({.name = "mask", .dimensions = {"latitude", "longitude"}});
  Index const mine = comm.rank() == 0 ? 1 : 0;
  auto const cells = ramp(mine * 4 * 19 * 36, 250, 0.01);
  writer.write("time", Box({0}, {4 * mine}), std::span<double const>(cells).first(std::size_t(4 * mine)));
  for (auto const* name : {"z", "t"})
    writer.write(name, Box({0, 0, 0}, {4 * mine, 19 * mine, 36 * mine}), std::span<double const>(cells));
  writer.write("mask", Box({0, 0}, {19 * mine, 36 * mine}),
               std::span<double const>(cells).first(std::size_t(19 * 36 * mine)));
  writer.commit();
}

std::filesystem::path make_checkpoint(Comm const& comm, std::filesystem::path const& folder) {
  CheckpointStore store(comm, folder);
  auto writer = store.begin(1);
  auto z = ramp(19 * 36, 0, 1);
  writer.add("model/z", field_view(z.data(), {19, 36}, 0));
  writer.add_value("seconds", 1.5);
  writer.add_value("settings", std::string("learning_rate: 0.001"));
  writer.add_value("random", std::vector<Index>{1, 2, 3});
  writer.commit();
  return store.files().front();
}

/// Fields and a checkpoint, made when they are not there.
std::vector<std::filesystem::path> own_files(Comm const& comm, std::filesystem::path const& folder) {
  auto const fields = folder / "fields.nc";
  auto const checkpoints = folder / "checkpoints";
  bool const are_there = std::filesystem::exists(checkpoints);
  comm.barrier();
  if (are_there) return {fields, CheckpointStore(comm, checkpoints).files().front()};
  make_fields(comm, fields);
  return {fields, make_checkpoint(comm, checkpoints)};
}

void read_some(FieldFile const& file, Variable const& variable) {
  constexpr double all_cells = 1 << 21;
  auto const whole = Box::from_extents(variable.extents);
  if (whole.empty()) return;
  double num_cells = 1;
  for (Index const extent : variable.extents) num_cells *= double(extent);
  std::vector<Box> boxes{whole};
  if (num_cells > all_cells) {
    // Rows at both ends; hostile extents would need more memory than there is.
    boxes.assign(2, whole);
    for (int axis = 0; axis < whole.ndim(); ++axis) {
      Index const most = std::min<Index>(whole.extent(axis), axis + 1 == whole.ndim() ? 4096 : 1);
      boxes[0].set(axis, 0, most);
      boxes[1].set(axis, whole.hi(axis) - most, whole.hi(axis));
    }
  }
  std::vector<double> values;
  for (auto const& box : boxes) {
    values.resize(std::size_t(box.num_cells()));
    file.read(variable.name, box, std::span(values));
  }
}

/// @return what is wrong with how the file was refused; empty when all is well
std::string look_at(Comm const& comm, std::filesystem::path const& path, bool is_checkpoint, Status& status) {
  try {
    if (is_checkpoint) {
      Checkpoint(comm, path).verify();
    } else {
      FieldFile const file(comm, path);
      std::exception_ptr refused;
      for (auto const& variable : file.contents().variables) try {
          read_some(file, variable);
        } catch (Error const& error) {
          if (error.fault() != Fault::input) throw;
          if (error.text().find(variable.name) == std::string::npos) return "no variable in: " + error.text();
          refused = std::current_exception();
        }
      if (refused) std::rethrow_exception(refused);
    }
    ++status.read;
  } catch (Error const& error) {
    ++status.refused;
    if (error.fault() != Fault::input) return error.what();
    if (error.text().find(path.string()) == std::string::npos) return "no path in: " + error.text();
    if (error.text().find("bad_alloc") != std::string::npos) return error.text();
  } catch (std::exception const& error) {
    return error.what();
  }
  return {};
}

class Mutants {
 public:
  explicit Mutants(std::vector<std::filesystem::path> const& files) {
    for (auto const& file : files) mutators_.emplace_back(read_bytes(file));
  }
  [[nodiscard]] std::size_t file_of(std::uint64_t number) const { return number / 4 % mutators_.size(); }
  void write(std::uint64_t seed, std::uint64_t number, std::filesystem::path const& path) const {
    std::ofstream(path, std::ios::binary) << mutators_[file_of(number)].mutant(seed, number);
  }
  [[nodiscard]] std::size_t num_structures() const {
    std::size_t sum = 0;
    for (auto const& mutator : mutators_) sum += mutator.num_structures();
    return sum;
  }

 private:
  std::vector<test::Mutator> mutators_;
};

long peak_kilobytes() {
  std::ifstream file("/proc/self/status");
  long kilobytes = 0;
  for (std::string word; file >> word;)
    if (word == "VmHWM:") file >> kilobytes;
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  return std::max(kilobytes, children.ru_maxrss);
}

int work(Options const& options, int argc, char** argv) {
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  auto files = options.files;
  for (auto const& own : own_files(comm, options.folder)) files.push_back(own);
  auto& status = map_status(options.folder);
  Mutants const mutants(files);
  auto const path = options.folder / "mutant.nc";
  for (auto number = options.first; number < options.count; ++number) {
    if (comm.rank() == 0) {
      mutants.write(options.seed, number, path);
      status.number = number;
    }
    comm.barrier();
    Status own{};
    auto const what = look_at(comm, path, mutants.file_of(number) + 1 == files.size(), comm.rank() == 0 ? status : own);
    if (comm.rank() == 0 && !what.empty()) {
      ++status.wrong;
      std::printf("mutant %llu: %s\n", static_cast<unsigned long long>(number), what.c_str());
      if (!options.keep.empty())
        mutants.write(options.seed, number, options.keep / ("wrong-" + std::to_string(number) + ".nc"));
    }
    if (comm.rank() == 0) status.most_kilobytes = std::max(status.most_kilobytes.load(), peak_kilobytes());
  }
  comm.barrier();
  if (comm.rank() == 0) status.is_done = true;
  return 0;
}

/// A program that runs for as long as it may.
struct Run {
  int status = 0;
  bool hung = false;
  rusage used{};
};

/// `number()` changes when the program is at another mutant.
template <class Number>
Run watch(std::vector<std::string> words, std::filesystem::path const& errors, std::chrono::seconds most_time,
          Number const& number) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t const id = ::fork();
  if (id == 0) {
    ::setpgid(0, 0);
    if (!errors.empty()) {
      int const file = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, STDERR_FILENO);
      int const nothing = ::open("/dev/null", O_WRONLY);
      ::dup2(nothing, STDOUT_FILENO);
    }
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  Run run;
  auto last = number();
  auto since = Clock::now();
  while (::wait4(id, &run.status, WNOHANG, &run.used) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(errors.empty() ? 20 : 2));
    if (auto const now = number(); now != last) {
      last = now;
      since = Clock::now();
    }
    if (Clock::now() - since < most_time) continue;
    ::kill(-id, SIGKILL);
    ::wait4(id, &run.status, 0, &run.used);
    run.hung = true;
    break;
  }
  return run;
}

std::string end_text(Run const& run) {
  if (run.hung) return "hung";
  if (WIFSIGNALED(run.status)) return "signal " + std::to_string(WTERMSIG(run.status));
  return "exit " + std::to_string(WEXITSTATUS(run.status));
}

struct Totals {
  std::map<std::string, int> ends;
  int bad = 0;
};

void note_bad(Options const& options, Mutants const* mutants, std::uint64_t number, std::string const& what,
              Totals& totals) {
  ++totals.bad;
  ++totals.ends[what];
  std::printf("mutant %llu: %s\n", static_cast<unsigned long long>(number), what.c_str());
  std::fflush(stdout);
  if (options.keep.empty()) return;
  auto const kept = options.keep / (std::to_string(number) + ".nc");
  if (mutants != nullptr)
    mutants->write(options.seed, number, kept);
  else
    std::filesystem::copy_file(options.folder / "mutant.nc", kept, std::filesystem::copy_options::overwrite_existing);
}

int watch_workers(Options const& options, std::string const& self) {
  auto& status = map_status(options.folder);
  Totals totals;
  for (auto first = options.first; first < options.count && !status.is_done;) {
    std::vector<std::string> words;
    std::string const launch = options.launcher.empty() ? "" : options.launcher + " " + options.ranks;
    for (std::size_t at = 0; at < launch.size();) {
      auto const end = std::min(launch.find(' ', at), launch.size());
      if (end > at) words.push_back(launch.substr(at, end - at));
      at = end + 1;
    }
    words.insert(words.end(), {self, "--count", std::to_string(options.count), "--seed", std::to_string(options.seed),
                               "--worker", options.folder.string(), std::to_string(first)});
    if (!options.keep.empty()) words.insert(words.end(), {"--keep", options.keep.string()});
    for (auto const& file : options.files) words.push_back(file.string());
    status.number = first;
    auto const run = watch(words, {}, options.most_time, [&] { return status.number.load(); });
    // With the processes that it had started.
    status.most_kilobytes = std::max(status.most_kilobytes.load(), run.used.ru_maxrss);
    if (status.is_done) break;
    note_bad(options, nullptr, status.number, end_text(run), totals);
    first = status.number + 1;
  }
  if (!status.is_done && totals.bad == 0) throw Error("NoWorker", "the worker did not start");
  bool const too_much = status.most_kilobytes > most_kilobytes;
  std::printf(
      "seed %llu, %llu mutants: %llu read, %llu refused, %llu refused wrongly, %d ended by signal or hung, at "
      "most %ld MiB\n",
      static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.count),
      static_cast<unsigned long long>(status.read), static_cast<unsigned long long>(status.refused),
      static_cast<unsigned long long>(status.wrong), totals.bad, status.most_kilobytes.load() / 1024);
  return totals.bad == 0 && status.wrong == 0 && !too_much ? 0 : 1;
}

/// What the worker makes of nothing: Graticule's own files. MPI is not started in this process.
void add_own_files(Options& options, std::string const& self) {
  watch({self, "--count", "0", "--worker", options.folder.string(), "0"}, {}, options.most_time, [] { return 0; });
  options.files.push_back(options.folder / "fields.nc");
  for (auto const& entry : std::filesystem::directory_iterator(options.folder / "checkpoints"))
    options.files.push_back(entry.path());
}

int run_program(Options options, std::string const& self) {
  add_own_files(options, self);
  Mutants const mutants(options.files);
  auto const path = options.folder / "mutant.nc";
  auto const errors = options.folder / "stderr";
  auto command = options.program;
  for (auto at = command.find("{}"); at != std::string::npos; at = command.find("{}"))
    command.replace(at, 2, path.string());
  Totals totals;
  long kilobytes = 0;
  double longest = 0;
  for (auto number = options.first; number < options.count; ++number) {
    mutants.write(options.seed, number, path);
    auto const start = Clock::now();
    auto const run = watch({"sh", "-c", "exec " + command}, errors, options.most_time, [] { return 0; });
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - start).count());
    kilobytes = std::max(kilobytes, run.used.ru_maxrss);
    auto const text = read_bytes(errors);
    auto const num_lines = std::count(text.begin(), text.end(), '\n');
    bool const failed = run.status != 0;
    if (run.hung || WIFSIGNALED(run.status) || WEXITSTATUS(run.status) > 4 || run.used.ru_maxrss > most_kilobytes)
      note_bad(options, &mutants, number, end_text(run) + ": " + text, totals);
    else if (failed && (num_lines != 1 || text.find(path.string()) == std::string::npos))
      note_bad(options, &mutants, number, "not one message: " + text, totals);
    else
      ++totals.ends[end_text(run)];
  }
  std::printf("%s, seed %llu, %llu mutants: %d bad; at most %.1f s, %ld MiB", options.program.c_str(),
              static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.count), totals.bad,
              longest, kilobytes / 1024);
  for (auto const& [end, count] : totals.ends)
    if (end.find('\n') == std::string::npos) std::printf("; %s: %d", end.c_str(), count);
  std::printf("\n");
  return totals.bad == 0 ? 0 : 1;
}

void write_mutant(Options const& options) {
  if (options.files.size() != 2) throw Error(Fault::usage, "Usage", "--mutant NUMBER FILE OUT");
  test::Mutator const mutator(read_bytes(options.files[0]));
  auto const number = *options.mutant;
  auto bytes = number % 5 < 3 ? mutator.mutant(options.seed, number) : mutator.whole();
  if (bytes.empty()) throw Error(Fault::usage, "Usage", options.files[0].string() + " is empty");
  std::mt19937_64 random(options.seed * 1000003 + number);
  auto const at = random() % bytes.size();
  if (number % 5 == 3)
    std::fill_n(bytes.begin() + std::ptrdiff_t(at), std::min(bytes.size() - at, 1 + random() % 4096), '\0');
  if (number % 5 == 4) bytes.resize(at);
  std::ofstream(options.files[1], std::ios::binary) << bytes;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    auto const next = [&] {
      if (i + 1 >= argc) throw Error(Fault::usage, "Usage", word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--count")
      options.count = std::stoull(next());
    else if (word == "--seed")
      options.seed = std::stoull(next());
    else if (word == "--seconds")
      options.most_time = std::chrono::seconds(std::stoi(next()));
    else if (word == "--ranks")
      options.ranks = next();
    else if (word == "--launcher")
      options.launcher = next();
    else if (word == "--program")
      options.program = next();
    else if (word == "--keep")
      options.keep = next();
    else if (word == "--first")
      options.first = std::stoull(next());
    else if (word == "--make")
      options.make = next();
    else if (word == "--mutant")
      options.mutant = std::stoull(next());
    else if (word == "--worker")
      options.folder = next(), options.first = std::stoull(next());
    else if (std::filesystem::exists(word) || (options.mutant && options.files.size() == 1))
      options.files.emplace_back(word);
    else
      throw Error(Fault::usage, "Usage", word + " is neither an option nor a file");
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto options = parse(argc, argv);
    if (options.mutant) {
      write_mutant(options);
      return 0;
    }
    if (!options.folder.empty()) return work(options, argc, argv);
    auto text = (std::filesystem::temp_directory_path() / "graticule-XXXXXX").string();
    if (::mkdtemp(text.data()) == nullptr) throw Error("NoFolder", text);
    options.folder = text;
    if (!options.keep.empty()) std::filesystem::create_directories(options.keep);
    if (!options.make.empty()) {
      add_own_files(options, argv[0]);
      std::filesystem::create_directories(options.make);
      for (auto const& file : options.files)
        std::filesystem::copy_file(file, options.make / file.filename(), std::filesystem::copy_options::skip_existing);
      std::filesystem::remove_all(options.folder);
      return 0;
    }
    int const code = options.program.empty() ? watch_workers(options, argv[0]) : run_program(options, argv[0]);
    std::filesystem::remove_all(options.folder);
    return code;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
