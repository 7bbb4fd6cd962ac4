// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::detail {

/// What the last `Error` of this thread says; empty when there was none, and when it has been handled.
[[nodiscard]] std::string last_error_text();

}  // namespace graticule::detail
