// SPDX-License-Identifier: BSD-3-Clause
#include "ending.hpp"

#include <graticule/app/driver.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/failure.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

namespace graticule::app {

namespace {

/// How long a rank that failed waits for the others before it tells them, and before it takes them for stuck.
constexpr auto courtesy = std::chrono::seconds(1);
constexpr auto patience = std::chrono::seconds(10);

/// Failures of other ranks count less than those of a rank itself.
constexpr Index own_failure = Index(1) << 40;

bool is_of_peer(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (Error const& error) {
    return error.rule() == "PeerFailed";
  } catch (...) {
    return false;
  }
}

std::string& terminating_name() {
  static std::string name;
  return name;
}

void print_message(std::string const& name, std::string message) {
  if (message.empty()) return;
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fputs((name + ": " + message + "\n").c_str(), stderr);
  std::fflush(stderr);
}

[[noreturn]] void on_terminate() {
  auto const failure = std::current_exception();
  auto const verdict = failure ? verdict_of(failure) : Verdict{run_time_failure, "ended without an exception"};
  print_message(terminating_name(), verdict.message);
  detail::abort_all_ranks(verdict.code);
}

/// Whether the machine, the data or the user ended the program, so that a place in the source says nothing more.
bool explains_itself(std::string const& rule) {
  constexpr std::array rules{"Interrupted", "NoDevice",    "NoProcess",   "NotFinite",
                             "OutOfMemory", "OutputError", "TooFewValues"};
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

int code_of(Fault fault) {
  switch (fault) {
    case Fault::program: return run_time_failure;
    case Fault::usage: return wrong_usage;
    case Fault::input: return bad_input;
    case Fault::check: return check_failed;
  }
  return run_time_failure;
}

}  // namespace

Verdict verdict_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (Error const& error) {
    if (error.fault() != Fault::program || explains_itself(error.rule())) return {code_of(error.fault()), error.text()};
    auto const file = std::filesystem::path(error.where().file_name()).filename().string();
    return {run_time_failure,
            error.rule() + ": " + error.text() + " (" + file + ":" + std::to_string(error.where().line()) + ")"};
  } catch (std::bad_alloc const&) {
    return {run_time_failure, "out of memory"};
  } catch (std::exception const& error) {
    return {run_time_failure, error.what()};
  } catch (...) {
    return {run_time_failure, "an exception of unknown type"};
  }
}

int end_together(Comm const& comm, std::string const& name, int code, std::exception_ptr const& failure) {
  auto const own = failure ? verdict_of(failure) : Verdict{code, ""};
  // The lowest rank that failed wins, and its exit code with it; without a failure the largest code does.
  Index const weight = !failure ? 0 : Index(comm.num_ranks() - comm.rank()) * 256 + own.code;
  std::array<Index, 2> const mine{weight + (failure && !is_of_peer(failure) ? own_failure : 0), own.code};
  std::array<Index, 2> all{};
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(mine.data(), all.data(), 2, MPI_INT64_T, MPI_MAX, comm.handle(), &request),
            "MPI_Iallreduce");
  // Ranks that fail apart from each other do not speak all at once.
  auto const limit = patience + std::chrono::milliseconds(100) * std::min(comm.rank(), 50);
  auto const begin = std::chrono::steady_clock::now();
  auto const rank = comm.num_ranks() > 1 ? "rank " + std::to_string(comm.rank()) + ": " : std::string();
  bool told = false;
  auto pause = std::chrono::microseconds(0);
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    auto const waited = std::chrono::steady_clock::now() - begin;
    if (failure && waited > courtesy && !std::exchange(told, true)) announce_failure(failure);
    if (failure && waited > limit) {
      print_message(name, rank + own.message);
      detail::abort_all_ranks(own.code);
    }
    pause = std::min(pause + std::chrono::microseconds(20), std::chrono::microseconds(2000));
    std::this_thread::sleep_for(pause);
  }
  if (all[0] == 0) return int(all[1]);
  if (failure && mine[0] == all[0]) print_message(name, (told ? rank : "") + own.message);
  return int(all[0] % 256);
}

void end_all_ranks_on_terminate(std::string const& name) {
  terminating_name() = name;
  std::set_terminate(on_terminate);
}

}  // namespace graticule::app
