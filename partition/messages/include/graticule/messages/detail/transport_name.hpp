// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/transport.hpp>

#include <string_view>

namespace graticule::messages {

/// The transport of a name, `auto`, `p2p` or `node`. @throws `BadOption`
[[nodiscard]] Transport transport_from(std::string_view name);

}  // namespace graticule::messages
