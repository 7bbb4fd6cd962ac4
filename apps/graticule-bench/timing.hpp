// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include <functional>
#include <string>
#include <vector>

namespace graticule::bench {

/// One way of doing the work that is compared.
struct Candidate {
  std::string name;
  std::function<void()> run;
};

/// Seconds of each repetition of one candidate: of the slowest rank.
struct Samples {
  std::string name;
  std::vector<double> seconds;
  [[nodiscard]] double minimum() const;
  [[nodiscard]] double median() const;
  [[nodiscard]] double maximum() const;
};

/// Runs the candidates in turn, `num_repetitions` times after `num_warm_ups`, each from a common start of all ranks.
/// Collective.
[[nodiscard]] std::vector<Samples> interleave(app::Context& context, std::vector<Candidate> const& candidates,
                                              int num_repetitions, int num_warm_ups);

/// Prints the table of ratios to the median of the first candidate, and stores every sample in the report. Rank 0.
void show(app::Context& context, std::string const& title, std::vector<Samples> const& samples);

}  // namespace graticule::bench
