// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>

namespace graticule::detail {

/// A number that all ranks of a communicator and of its copies know it by, and that no other communicator of these
/// ranks has. It stays when the communicator is renewed.
[[nodiscard]] std::int64_t identity(Comm const& comm) noexcept;

}  // namespace graticule::detail
