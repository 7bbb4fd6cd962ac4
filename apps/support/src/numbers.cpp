// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/numbers.hpp>
#include <graticule/partition/error.hpp>

#include <utility>

namespace graticule::app {

std::optional<Index> count_from(std::string_view text) {
  auto const number = number_from<Index>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<Indices> two_counts_from(std::string_view text) {
  auto const x = text.find('x');
  if (x == std::string_view::npos) return std::nullopt;
  auto const first = count_from(text.substr(0, x));
  auto const second = count_from(text.substr(x + 1));
  if (!first || !second) return std::nullopt;
  return Indices{*first, *second};
}

ProcessGrid parse_partition(std::string const& text, int num_ranks) {
  if (text == "auto") return ProcessGrid{num_ranks, 1};
  auto const ranks = two_counts_from(text);
  if (!ranks || (*ranks)[0] < 1 || (*ranks)[1] < 1)
    throw Error(Fault::usage, "BadOption",
                "--partition " + text + " is neither 'auto' nor a process grid ROWSxCOLUMNS such as 4x1");
  auto const [rows, columns] = std::pair((*ranks)[0], (*ranks)[1]);
  if (rows > num_ranks || columns > num_ranks || rows * columns != num_ranks)
    throw Error(Fault::usage, "BadOption",
                "--partition " + text + " does not match the " + std::to_string(num_ranks) +
                    (num_ranks == 1 ? " rank" : " ranks") + " that the program runs on");
  return ProcessGrid{rows, columns};
}

}  // namespace graticule::app
