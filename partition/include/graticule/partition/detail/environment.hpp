// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace graticule::detail {

/// The number of an environment variable's value among `values`; 0 where it is not set or empty.
/// @throws `BadOption` with the variable, its value and what is valid
[[nodiscard]] std::size_t choice_of_environment(char const* variable, std::initializer_list<std::string_view> values);

}  // namespace graticule::detail
