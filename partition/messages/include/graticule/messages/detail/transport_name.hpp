// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/transport.hpp>

#include <string_view>

namespace graticule::messages {

/// The transport of a name, `auto`, `p2p` or `node`. @throws `BadOption`
[[nodiscard]] Transport transport_from(std::string_view name);

/// The value of the environment variable `GRATICULE_TRANSPORT`; `automatic` where it is not set. @throws `BadOption`
[[nodiscard]] Transport transport_from_environment();

}  // namespace graticule::messages
