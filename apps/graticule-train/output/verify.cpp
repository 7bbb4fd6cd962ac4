// SPDX-License-Identifier: BSD-3-Clause
#include "verify.hpp"

#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <thread>

namespace graticule::train {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

/// |a - b|, infinite when either is not a number, so that no comparison can pass over it.
double distance(double a, double b) {
  double const difference = std::abs(a - b);
  return std::isnan(difference) ? infinity : difference;
}

double parameter_difference(TrainedNetwork const& run, TrainedNetwork const& reference) {
  if (run.parameters.size() != reference.parameters.size()) return infinity;
  double worst = 0;
  for (std::size_t p = 0; p < run.parameters.size(); ++p) {
    auto const& [name, values] = run.parameters[p];
    auto const& [other_name, other_values] = reference.parameters[p];
    if (name != other_name || values.size() != other_values.size()) return infinity;
    for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, distance(values[i], other_values[i]));
  }
  return worst;
}

}  // namespace

Comparison compare_runs(TrainedNetwork const& run, TrainedNetwork const& reference) {
  Comparison comparison;
  comparison.max_parameter_difference = parameter_difference(run, reference);
  if (run.losses.size() != reference.losses.size() || run.losses.empty()) {
    comparison.max_relative_loss_difference = infinity;
    return comparison;
  }
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    double const difference = distance(run.losses[step], reference.losses[step]);
    double const relative = difference == 0 ? 0 : difference / std::abs(reference.losses[step]);
    if (relative <= comparison.max_relative_loss_difference) continue;
    comparison.max_relative_loss_difference = relative;
    comparison.worst_step = Index(step) + 1;
  }
  return comparison;
}

double loss_tolerance(NetworkSettings const& settings) noexcept {
  if (settings.compute == Compute::bf16) return 5e-2;
  return settings.precision == Precision::f64 ? 1e-9 : 1e-3;
}

void require_agreement(Comparison const& comparison, NetworkSettings const& settings) {
  double const tolerance = loss_tolerance(settings);
  if (comparison.max_relative_loss_difference <= tolerance) return;
  throw Error(Fault::check, "CheckFailed",
              "the loss of step " + std::to_string(comparison.worst_step) + " differs from the run on one rank by " +
                  scientific(comparison.max_relative_loss_difference) + " (relative); " + scientific(tolerance) +
                  " is allowed");
}

void wait_politely(Comm const& comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm.handle(), &request), "MPI_Ibarrier");
  auto pause = std::chrono::microseconds(50);
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(20000));
  }
}

Comparison repeat_on_one_rank(Comm const& comm, RunSettings const& settings, TrainedNetwork const& run,
                              std::function<void(Index, double)> const& on_step) {
  Comm const alone = comm.split(comm.rank() == 0 ? 0 : 1, comm.rank());
  std::array<double, 3> result{};
  std::exception_ptr failure;
  if (comm.rank() == 0) {
    try {
      RunSettings repeated = settings;
      repeated.partition = {};
      repeated.data_teams = 1;
      repeated.network.parallel = Parallel::blocking;
      repeated.network.shards = Shards::none;
      repeated.checkpoints.reset();
      repeated.memory_bytes *= comm.num_ranks();  // the others' parts are now here
      RunResult const reference =
          run_training(alone, repeated, {.on_start = [](RunResult const&, Index) {}, .on_step = on_step});
      Comparison const comparison = compare_runs(run, reference.network);
      result = {comparison.max_relative_loss_difference, double(comparison.worst_step),
                comparison.max_parameter_difference};
    } catch (...) {
      failure = std::current_exception();
    }
  }
  wait_politely(comm);
  agree(comm, failure);
  comm.max(std::span<double>(result));  // zero on all ranks but rank 0
  return {result[0], Index(result[1]), result[2]};
}

}  // namespace graticule::train
