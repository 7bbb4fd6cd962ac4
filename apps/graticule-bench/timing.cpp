// SPDX-License-Identifier: BSD-3-Clause
#include "timing.hpp"

#include <graticule/repartition/detail/copy_kernels.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace graticule::bench {

double Samples::median() const {
  auto sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  auto const half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

namespace {

void empty_caches() {
  static std::vector<char> memory(std::size_t(16) << 20U);  // more than the caches that a core has to itself
  std::memset(memory.data(), memory[0] + 1, memory.size());
}

}  // namespace

std::vector<Candidate> every_copy(std::string const& first, std::byte* to, std::byte const* from,
                                  std::size_t num_bytes) {
  std::vector<Candidate> result{{first, [=] { std::memcpy(to, from, num_bytes); }, Candidate::Role::copy}};
  for (auto const& kernel : copy_kernels()) {
    if (!has_feature(kernel) || kernel.name == "memcpy") continue;
    result.push_back({"the same by " + std::string(kernel.name),
                      [=, &kernel] {
                        copy_run(kernel, to, from, num_bytes);
                        store_fence();
                      },
                      Candidate::Role::copy});
  }
  return result;
}

void require(Comm const& comm, bool holds, std::string const& what) {
  run_agreed(comm, [&] {
    if (!holds) throw Error(Fault::check, "CheckFailed", what);
  });
}

std::vector<Samples> interleave(app::Context& context, std::vector<Candidate> const& candidates, Timing const& timing) {
  int const num_warm_ups = 5;
  std::vector<Samples> samples;
  for (auto const& candidate : candidates) samples.push_back({candidate.name, {}, candidate.role});
  auto progress = context.progress("bench", timing.num_repetitions);
  for (int repetition = -num_warm_ups; repetition < timing.num_repetitions; ++repetition) {
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (timing.caches == "cold")
        empty_caches();
      else
        candidates[c].run();
      context.comm.barrier();
      auto const begin = MPI_Wtime();
      candidates[c].run();
      std::array<double, 1> slowest{MPI_Wtime() - begin};
      context.comm.max(slowest);
      if (repetition >= 0) samples[c].seconds.push_back(slowest[0]);
    }
    if (repetition >= 0) progress.update(repetition + 1);
  }
  return samples;
}

void show(app::Context& context, std::string const& title, std::vector<Samples> const& samples) {
  auto& data = context.report.data()["results"][title];
  double const unit = samples.front().median();
  Samples const* fastest = nullptr;
  for (auto const& sample : samples)
    if (sample.role == Candidate::Role::copy && (fastest == nullptr || sample.median() < fastest->median()))
      fastest = &sample;
  bool const is_root = context.comm.rank() == 0;
  if (is_root)
    std::printf("%s\n  %-42s %8s %12s %12s %12s%s\n", title.c_str(), "", "ratio", "minimum us", "median us",
                "maximum us", fastest == nullptr ? "" : "   to limit");
  for (auto const& sample : samples) {
    auto& entry = data[sample.name];
    entry["ratio"] = sample.median() / unit;
    entry["seconds"] = sample.seconds;
    bool const is_limited = fastest != nullptr && sample.role == Candidate::Role::as_copy;
    if (is_limited) entry["to_limit"] = sample.median() / fastest->median();
    if (!is_root) continue;
    std::printf("  %-42s %8.3f %12.1f %12.1f %12.1f", sample.name.c_str(), sample.median() / unit,
                1e6 * sample.minimum(), 1e6 * sample.median(), 1e6 * sample.maximum());
    if (is_limited) std::printf(" %10.3f", sample.median() / fastest->median());
    std::printf("\n");
  }
  if (fastest != nullptr) data["the fastest copy"] = fastest->name;
  if (!is_root) return;
  if (fastest != nullptr) std::printf("  the fastest copy: %s\n", fastest->name.c_str());
  if (auto const* const kernel = chosen_copy_kernel())
    std::printf("  long copies of the engine: by %s\n", std::string(kernel->name).c_str());
  std::fflush(stdout);
}

}  // namespace graticule::bench
