// SPDX-License-Identifier: BSD-3-Clause
#include "timing.hpp"

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

std::vector<Samples> interleave(app::Context& context, std::vector<Candidate> const& candidates, Timing const& timing) {
  int const num_warm_ups = 5;
  int const num_repetitions = timing.num_repetitions;
  std::vector<Samples> samples;
  for (auto const& candidate : candidates) samples.push_back({candidate.name, {}, candidate.limit});
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

/// 0: the candidate has no limit.
double to_limit(Samples const& sample, std::vector<Samples> const& samples) {
  double seconds = 0;
  for (auto const& name : sample.limit)
    seconds +=
        std::find_if(samples.begin(), samples.end(), [&](auto const& other) { return other.name == name; })->median();
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
  std::fflush(stdout);
}

}  // namespace graticule::bench
