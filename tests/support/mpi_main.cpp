// SPDX-License-Identifier: BSD-3-Clause
// The main function of the MPI tests: a failure on one rank fails the test on all, the ranks stay in the same test,
// no rank waits for ever for one that failed, temporary files of two runs never meet, and skipped cases leave a line
// each. Ranks of a node share its GPUs where the run is one on GPUs.
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/detail/devices.hpp>
#include <graticule/repartition/runtime.hpp>

#include "devices/gpu_memory.hpp"
#include "remove_folder.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

/// Read by LeakSanitizer: HDF5 1.10.8 forgets blocks of files that turned out to be damaged ("infinite loop closing
/// library"), whatever its caller closes.
extern "C" char const* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" char const* __lsan_default_suppressions() { return "leak:libhdf5\n"; }

namespace {

/// Exit status that tells ctest "skipped".
constexpr int skipped_status = 77;

struct World {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int num_ranks = 1;

  std::string prefix() const { return "[rank " + std::to_string(rank) + "/" + std::to_string(num_ranks) + "] "; }
};

/// Seconds that a rank whose test failed waits for the others before it ends them all.
double patience_seconds() {
  char const* text = std::getenv("GRATICULE_TEST_PATIENCE");
  return text != nullptr ? std::atof(text) : 15.0;
}

void print_failure(World const& world, std::string const& text) {
  std::string lines;
  std::string line;
  for (char const c : text + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (!line.empty()) {
      lines += (world.num_ranks > 1 ? world.prefix() : std::string{}) + line + "\n";
    }
    line.clear();
  }
  std::fputs(lines.c_str(), stderr);
  std::fflush(stderr);
}

/// Ranks on which a test failed, and on which it was skipped.
struct Outcome {
  int num_failed = 0;
  int num_skipped = 0;
};

/// Of all ranks together. Also the barrier between two tests. A rank that failed and finds that the others stay away
/// (they wait inside the test for a message that never comes) ends the run.
Outcome agree_outcome(World const& world, bool failed, bool skipped, std::string const& where) {
  std::array<int, 2> const mine{failed ? 1 : 0, skipped ? 1 : 0};
  std::array<int, 2> sum{};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(mine.data(), sum.data(), 2, MPI_INT, MPI_SUM, world.comm, &request);
  auto const begin = std::chrono::steady_clock::now();
  auto pause = std::chrono::microseconds(0);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) {
      return {sum[0], sum[1]};
    }
    double const waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (failed && waited > patience_seconds()) {
      print_failure(world, "failed in " + where + ", and other ranks did not finish it within " +
                               std::to_string(static_cast<int>(waited)) + " s: ending all ranks");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pause = std::min(pause + std::chrono::microseconds(20), std::chrono::microseconds(1000));
    std::this_thread::sleep_for(pause);
  }
}

std::string skip_reason(testing::TestInfo const& info) {
  std::string reason;
  for (int i = 0; i < info.result()->total_part_count(); ++i)
    if (info.result()->GetTestPartResult(i).skipped()) reason = info.result()->GetTestPartResult(i).message();
  // Without the heading that GoogleTest gives to messages, and on one line.
  if (auto const end = reason.find_last_not_of(" \n"); end != std::string::npos) reason.resize(end + 1);
  if (reason.starts_with("Skipped\n")) reason.erase(0, 8);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason.empty() ? "no reason given" : reason;
}

/// One line in the file that GRATICULE_TEST_SKIPS names: registered test, case, reason. scripts/test counts them.
void record_skip(std::string const& what, std::string const& reason) {
  char const* const path = std::getenv("GRATICULE_TEST_SKIPS");
  if (path == nullptr) return;
  char const* const name = std::getenv("GRATICULE_TEST_NAME");
  std::string const line =
      std::string(name != nullptr ? name : "a program by hand") + '\t' + what + '\t' + reason + '\n';
  std::ofstream(path, std::ios::app) << line;
}

void record_skip(World const& world, testing::TestInfo const& info, int num_skipped) {
  auto const ranks = num_skipped == world.num_ranks ? std::string() : " (on rank " + std::to_string(world.rank) + ")";
  record_skip(std::string(info.test_suite_name()) + '.' + info.name(), skip_reason(info) + ranks);
}

/// Passes events on to GoogleTest's printer on rank 0, prints failures of every rank, and keeps the ranks together.
class MpiListener : public testing::TestEventListener {
 public:
  MpiListener(World const& world, testing::TestEventListener* printer) : world_(world), printer_(printer) {}

  void OnTestProgramStart(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnTestProgramStart(unit);
    }
  }
  void OnTestIterationStart(testing::UnitTest const& unit, int iteration) override {
    if (printer_) {
      printer_->OnTestIterationStart(unit, iteration);
    }
  }
  void OnEnvironmentsSetUpStart(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnEnvironmentsSetUpStart(unit);
    }
  }
  void OnEnvironmentsSetUpEnd(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnEnvironmentsSetUpEnd(unit);
    }
  }
  void OnTestSuiteStart(testing::TestSuite const& suite) override {
    if (printer_) {
      printer_->OnTestSuiteStart(suite);
    }
  }
  void OnTestStart(testing::TestInfo const& info) override {
    if (printer_) {
      printer_->OnTestStart(info);
    }
  }
  void OnTestPartResult(testing::TestPartResult const& result) override {
    if (result.failed()) {
      std::string const file = result.file_name() != nullptr ? result.file_name() : "unknown file";
      print_failure(world_, file + ":" + std::to_string(result.line_number()) + ": failure\n" + result.message());
    } else if (printer_) {
      printer_->OnTestPartResult(result);
    }
  }
  void OnTestEnd(testing::TestInfo const& info) override {
    bool const failed = info.result()->Failed();
    bool const skipped = info.result()->Skipped();
    auto const [num_failed, num_skipped] =
        agree_outcome(world_, failed, skipped, std::string(info.test_suite_name()) + "." + info.name());
    // Skipped on all ranks: one of them writes it down.
    if (skipped && (world_.rank == 0 || num_skipped < world_.num_ranks)) record_skip(world_, info, num_skipped);
    if (num_failed > 0 && !failed) {
      failed_elsewhere_ = true;
      if (printer_) {
        ADD_FAILURE() << "failed on " << num_failed << " of " << world_.num_ranks << " ranks, not on this one";
      }
    }
    if (printer_) {
      printer_->OnTestEnd(info);
    }
  }
  void OnTestSuiteEnd(testing::TestSuite const& suite) override {
    if (printer_) {
      printer_->OnTestSuiteEnd(suite);
    }
  }
  void OnEnvironmentsTearDownStart(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnEnvironmentsTearDownStart(unit);
    }
  }
  void OnEnvironmentsTearDownEnd(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnEnvironmentsTearDownEnd(unit);
    }
  }
  void OnTestIterationEnd(testing::UnitTest const& unit, int iteration) override {
    if (printer_) {
      printer_->OnTestIterationEnd(unit, iteration);
    }
  }
  void OnTestProgramEnd(testing::UnitTest const& unit) override {
    if (printer_) {
      printer_->OnTestProgramEnd(unit);
    }
  }

  bool failed_elsewhere() const { return failed_elsewhere_; }

 private:
  World world_;
  std::unique_ptr<testing::TestEventListener> printer_;  // rank 0 only
  bool failed_elsewhere_ = false;
};

/// Ends all ranks on an exception that nobody caught (outside of a test, or through a noexcept function).
[[noreturn]] void end_all_ranks() {
  std::string text = "terminate without an active exception";
  if (std::exception_ptr const active = std::current_exception()) {
    try {
      std::rethrow_exception(active);
    } catch (std::exception const& error) {
      text = error.what();
    } catch (...) {
      text = "an exception of unknown type";
    }
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "[rank %d] uncaught: %s\n", rank, text.c_str());
  std::fflush(stderr);
  graticule::detail::abort_all_ranks(1);
}

/// True when the launcher started as many ranks as the test was registered with; a launcher of another MPI starts
/// worlds of one rank, in which every test about exchange would pass.
bool has_expected_size(World const& world) {
  char const* expected = std::getenv("GRATICULE_TEST_NP");
  if (expected == nullptr || std::atoi(expected) == world.num_ranks) {
    return true;
  }
  std::fprintf(stderr, "The test asked for %s ranks and runs with %d: the launcher belongs to another MPI\n", expected,
               world.num_ranks);
  return false;
}

/// A folder of this run alone, in which `std::filesystem::temp_directory_path` is from now on; removed at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(World const& world) : world_(world), path_(own_name()) {
    auto length = static_cast<int>(path_.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, world.comm);
    path_.resize(static_cast<std::size_t>(length));
    MPI_Bcast(path_.data(), length, MPI_CHAR, 0, world.comm);
    if (!path_.empty()) setenv("TMPDIR", path_.c_str(), 1);
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  ~TemporaryFolder() {
    MPI_Barrier(world_.comm);
    if (world_.rank == 0 && !path_.empty()) graticule::test::remove_folder(path_);
  }

 private:
  /// Of a new folder on rank 0; empty elsewhere, and where none can be made.
  std::string own_name() const {
    if (world_.rank != 0) return {};
    std::error_code none;
    auto text = (std::filesystem::temp_directory_path(none) / "graticule-test-XXXXXX").string();
    if (none || ::mkdtemp(text.data()) == nullptr) text.clear();
    return text;
  }

  World world_;
  std::string path_;
};

int run_tests(World const& world) {
  TemporaryFolder const folder(world);
  // A shuffled order must be the same on every rank.
  int seed = static_cast<int>(std::chrono::steady_clock::now().time_since_epoch().count() % 99999) + 1;
  MPI_Bcast(&seed, 1, MPI_INT, 0, world.comm);
  if (testing::GTEST_FLAG(random_seed) == 0) {
    testing::GTEST_FLAG(random_seed) = seed;
  }
  if (world.rank != 0) {
    testing::GTEST_FLAG(output) = "";  // one report file
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  std::unique_ptr<testing::TestEventListener> printer(listeners.Release(listeners.default_result_printer()));
  auto* listener = new MpiListener(world, world.rank == 0 ? printer.release() : nullptr);
  listeners.Append(listener);

  int status = RUN_ALL_TESTS() != 0 || listener->failed_elsewhere() ? 1 : 0;
  auto const& unit = *testing::UnitTest::GetInstance();
  if (unit.test_to_run_count() == 0 && !testing::GTEST_FLAG(list_tests)) {
    print_failure(world, "no test was run");
    status = 1;
  } else if (status == 0 && unit.test_to_run_count() > 0 && unit.skipped_test_count() == unit.test_to_run_count()) {
    status = skipped_status;
  }
  // A failure anywhere beats a skip elsewhere.
  int const mine[2] = {status == 1 ? 1 : 0, status};
  int all[2] = {0, 0};
  MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, world.comm);
  return all[0] != 0 ? 1 : all[1];
}

/// Before Kokkos starts: the ranks of a node take its GPUs in turn. False where a rank finds none: rank 0 says so.
bool choose_gpu(World const& world) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(world.comm, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &node);
  int node_rank = 0;
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_free(&node);
  int const count = graticule::devices_of_backend().count;
  int least = 0;
  MPI_Allreduce(&count, &least, 1, MPI_INT, MPI_MIN, world.comm);
  if (least > 0) {
    setenv("KOKKOS_DEVICE_ID", std::to_string(node_rank % count).c_str(), 1);
    return true;
  }
  if (world.rank == 0) {
    std::string const reason = std::string("GRATICULE_TEST_MEMORY=gpu, and Kokkos (") +
                               Kokkos::DefaultExecutionSpace::name() + ") finds no device";
    std::printf("skipped: %s\n", reason.c_str());
    std::fflush(stdout);
    record_skip("the whole test", reason);
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  std::set_terminate(end_all_ranks);
  World world;
  MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
  MPI_Comm_rank(world.comm, &world.rank);
  MPI_Comm_size(world.comm, &world.num_ranks);

  int status = 1;
  if (has_expected_size(world)) {
    testing::InitGoogleTest(&argc, argv);
    if (graticule::test::gpu_is_wanted() && !choose_gpu(world)) {
      status = skipped_status;
    } else {
      // Without a device where Kokkos needs one, its error ends all ranks.
      graticule::Runtime const runtime(argc, argv);
      status = run_tests(world);
    }
  }
  MPI_Comm_free(&world.comm);
  MPI_Finalize();
  graticule::detail::end_process(status);
}
