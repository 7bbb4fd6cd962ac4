// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "options.hpp"

namespace graticule::bench {

/// A halo of a field in memory of a device, checked, against a copy of as many bytes on the device. Collective.
void run_halo_on_device(app::Context& context, Options const& options);

/// A repartition of such a field, checked, against a copy of its volume on the device. Collective.
void run_repartition_on_device(app::Context& context, Options const& options);

}  // namespace graticule::bench
