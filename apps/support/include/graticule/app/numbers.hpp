// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/partition/process_grid.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace graticule::app {

/// The number that fills all of `text`, in decimal digits; none where something else stands there or it does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> number_from(std::string_view text) {
  Number number{};
  auto const* const end = text.data() + text.size();
  auto const [last, status] = std::from_chars(text.data(), end, number);
  return status == std::errc{} && last == end ? std::optional(number) : std::nullopt;
}

/// A whole number from 0 that fills all of `text`.
[[nodiscard]] std::optional<Index> count_from(std::string_view text);

/// Two whole numbers from 0, separated by `x`: `721x1440`.
[[nodiscard]] std::optional<Indices> two_counts_from(std::string_view text);

/// The process grid of an option `--partition ROWSxCOLUMNS`; `auto` is bands of rows.
/// @throws `BadOption` (usage) where the grid has not as many ranks as `num_ranks`
[[nodiscard]] ProcessGrid parse_partition(std::string const& text, int num_ranks);

}  // namespace graticule::app
