// SPDX-License-Identifier: BSD-3-Clause
#include "timing.hpp"

#include <graticule/repartition/detail/copy_kernels.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace graticule::bench {

double Samples::minimum() const { return *std::min_element(seconds.begin(), seconds.end()); }

double Samples::maximum() const { return *std::max_element(seconds.begin(), seconds.end()); }

double Samples::median() const {
  auto sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  auto const half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

namespace {

/// More than the caches that a core has to itself.
constexpr std::size_t cache_bytes = std::size_t(16) << 20U;

void empty_caches() {
  static std::vector<char> memory(cache_bytes);
  std::memset(memory.data(), memory[0] + 1, memory.size());
}

}  // namespace

std::vector<Candidate> every_copy(std::string const& first, std::byte* to, std::byte const* from,
                                  std::size_t num_bytes) {
  std::vector<Candidate> result{{first, [=] { std::memcpy(to, from, num_bytes); }, {}, true}};
  for (auto const& kernel : copy_kernels()) {
    if (!has_feature(kernel) || kernel.name == "memcpy") continue;
    result.push_back({"the same by " + std::string(kernel.name),
                      [=, &kernel] {
                        copy_run(kernel, to, from, num_bytes);
                        store_fence();
                      },
                      {},
                      true});
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
  int const num_repetitions = timing.num_repetitions;
  std::vector<Samples> samples;
  for (auto const& candidate : candidates) samples.push_back({candidate.name, {}, candidate.limit, candidate.is_copy});
  auto progress = context.progress("bench", num_repetitions);
  for (int repetition = -num_warm_ups; repetition < num_repetitions; ++repetition) {
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

namespace {

/// The sample of a part of a limit.
Samples const& part_of_limit(std::string const& name, std::vector<Samples> const& samples) {
  auto const median = [](Samples const* sample) { return sample->median(); };
  if (name != fastest_copy)
    return *std::find_if(samples.begin(), samples.end(), [&](auto const& other) { return other.name == name; });
  std::vector<Samples const*> copies;
  for (auto const& sample : samples)
    if (sample.is_copy) copies.push_back(&sample);
  return **std::ranges::min_element(copies, {}, median);
}

/// 0: the candidate has no limit.
double to_limit(Samples const& sample, std::vector<Samples> const& samples) {
  double seconds = 0;
  for (auto const& name : sample.limit) seconds += part_of_limit(name, samples).median();
  return seconds > 0 ? sample.median() / seconds : 0;
}

}  // namespace

void show(app::Context& context, std::string const& title, std::vector<Samples> const& samples) {
  auto& data = context.report.data()["results"][title];
  double const unit = samples.front().median();
  for (auto const& sample : samples) {
    data[sample.name]["ratio"] = sample.median() / unit;
    data[sample.name]["seconds"] = sample.seconds;
    if (sample.limit.empty()) continue;
    data[sample.name]["limit"] = sample.limit;
    data[sample.name]["to_limit"] = to_limit(sample, samples);
  }
  if (std::any_of(samples.begin(), samples.end(), [](auto const& sample) { return sample.is_copy; }))
    data[fastest_copy] = part_of_limit(fastest_copy, samples).name;
  if (context.comm.rank() != 0) return;
  bool const limits =
      std::any_of(samples.begin(), samples.end(), [](auto const& sample) { return !sample.limit.empty(); });
  std::printf("%s\n  %-42s %8s %12s %12s %12s%s\n", title.c_str(), "", "ratio", "minimum us", "median us", "maximum us",
              limits ? "   to limit" : "");
  for (auto const& sample : samples) {
    std::printf("  %-42s %8.3f %12.1f %12.1f %12.1f", sample.name.c_str(), sample.median() / unit,
                1e6 * sample.minimum(), 1e6 * sample.median(), 1e6 * sample.maximum());
    if (!sample.limit.empty()) std::printf(" %10.3f", to_limit(sample, samples));
    std::printf("\n");
  }
  if (std::any_of(samples.begin(), samples.end(), [](auto const& sample) { return sample.is_copy; }))
    std::printf("  %s: %s\n", fastest_copy, part_of_limit(fastest_copy, samples).name.c_str());
  if (auto const* const kernel = chosen_copy_kernel())
    std::printf("  long copies of the engine: by %s\n", std::string(kernel->name).c_str());
  std::fflush(stdout);
}

}  // namespace graticule::bench
