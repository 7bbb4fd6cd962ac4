// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace graticule::bench {

/// One way of doing the work that is compared.
struct Candidate {
  /// `copy`: one of the ways of copying the same bytes; `as_copy`: the fastest of them is its physical limit.
  enum class Role : std::uint8_t { plain, copy, as_copy };
  std::string name;
  std::function<void()> run;
  Role role = Role::plain;
};

/// Every way of copying `num_bytes` that this processor has, memcpy first, under the name `first`. The memory outlives
/// the candidates.
[[nodiscard]] std::vector<Candidate> every_copy(std::string const& first, std::byte* to, std::byte const* from,
                                                std::size_t num_bytes);

/// Seconds of each repetition of one candidate: of the slowest rank.
struct Samples {
  std::string name;
  std::vector<double> seconds;
  Candidate::Role role = Candidate::Role::plain;
  [[nodiscard]] double minimum() const { return *std::min_element(seconds.begin(), seconds.end()); }
  [[nodiscard]] double median() const;
  [[nodiscard]] double maximum() const { return *std::max_element(seconds.begin(), seconds.end()); }
};

struct Timing {
  int num_repetitions = 40;
  /// `cold`: each call starts with other things in the caches, as after a step of a model; `warm`: the same call has
  /// just been made.
  std::string caches = "cold";
};

/// Runs the candidates in turn, `num_repetitions` times after five that do not count, each from a common start of all
/// ranks. Collective.
[[nodiscard]] std::vector<Samples> interleave(app::Context& context, std::vector<Candidate> const& candidates,
                                              Timing const& timing);

/// Throws `CheckFailed` on all ranks unless it holds on all. Collective.
void require(Comm const& comm, bool holds, std::string const& what);

/// Prints the table of ratios to the median of the first candidate, and to the fastest copy where that is a limit;
/// stores every sample in the report. Rank 0.
void show(app::Context& context, std::string const& title, std::vector<Samples> const& samples);

}  // namespace graticule::bench
