// SPDX-License-Identifier: BSD-3-Clause
// The time of a training step of a network on ranks that are not there yet.
#pragma once

#include <graticule/program/detail/plan.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace graticule::info {

/// What a message costs between two ranks.
struct Link {
  double seconds_per_message = 0;
  double bytes_per_second = 0;
};

/// Rates of one rank and its links, as `graticule-bench machine` measures them: a JSON object with these names.
struct Machine {
  std::string name;
  int ranks_per_node = 1;
  double operations_per_second = 0;  ///< of convolutions and products, multiplications and additions counted apart
  double bytes_per_second = 0;       ///< that operators read and write, with all ranks of the node at work
  double seconds_per_operator = 0;   ///< of an operator on a few numbers
  double seconds_per_score = 0;      ///< of attention: a query and a key beyond their products
  Link within_node;
  Link between_nodes;
};

/// @throws Error `BadInput` (input) with file and key
[[nodiscard]] Machine read_machine(std::filesystem::path const& path);

/// Time of one stage in a step, forward and backward, of the busiest rank.
struct StageTime {
  std::string name;  ///< module and what is cut
  double compute = 0;
  double messages = 0;

  [[nodiscard]] double seconds() const { return compute + messages; }
};

/// One step of training on so many ranks, in seconds.
struct Forecast {
  int num_ranks = 1;
  std::string refusal;  ///< why the network does not run on them; the rest is empty then
  double compute = 0;
  double messages = 0;      ///< between stages and within
  double gradients = 0;     ///< sum over the ranks
  double memory_bytes = 0;  ///< weights, gradients and activations of the fullest rank
  std::vector<StageTime> stages;

  [[nodiscard]] double step() const { return compute + messages + gradients; }
};

/// A forward and a backward pass and the sum of gradients.
///
/// A node takes the longer of its operations and its bytes at the machine's rates, and the time of an operator;
/// attention the time of its scores as well; the backward twice that, and the messages of the forward once more. Nodes
/// do not overlap with messages. A message takes the time of a link, the slowest that the ranks have, and its bytes at
/// the link's rate; sums over ranks take log2 of the ranks in messages, and twice their bytes.
/// @param scale factor of all compute times, of a measured step
[[nodiscard]] Forecast forecast_of(program::Plan const& plan, Machine const& machine, double scale = 1);

/// Speed-up of `forecasts[i]` over the first that is not refused, per rank: 1 is perfect.
[[nodiscard]] double efficiency(std::vector<Forecast> const& forecasts, std::size_t i);

/// The stage, or the gradients, that costs most beyond a perfect division of the first forecast; empty for the first.
[[nodiscard]] std::string limit_of(std::vector<Forecast> const& forecasts, std::size_t i);

/// A table with a line per number of ranks.
[[nodiscard]] std::string to_text(std::string const& network, Machine const& machine,
                                  std::vector<Forecast> const& forecasts);

/// The curve of speed-up, and what a step consists of, as SVG.
[[nodiscard]] std::string to_svg(std::string const& network, Machine const& machine,
                                 std::vector<Forecast> const& forecasts);

}  // namespace graticule::info
