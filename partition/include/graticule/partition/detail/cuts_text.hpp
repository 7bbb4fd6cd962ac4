// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

#include <string_view>
#include <vector>

namespace graticule::detail {

/// The cuts in the text of a file as `read_cuts` describes it; `name` identifies the text in messages.
/// @throws `BadInput` (input) with the name and the line
[[nodiscard]] std::vector<Cuts> parse_cuts(std::string_view text, std::string_view name);

}  // namespace graticule::detail
