// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <string>

namespace graticule::app {

/// The bytes given by an option such as `--memory`: `2GiB`, `512MiB`, `1.5GB`, `65536`. `KB` and `kB` are 1000
/// bytes, `KiB`, `K` and `k` 1024, and so on for M, G and T.
/// @throws `BadOption` (usage)
[[nodiscard]] Index parse_bytes(std::string const& option, std::string const& text);

}  // namespace graticule::app
