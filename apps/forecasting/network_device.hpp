// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/device.hpp>
#include <graticule/partition/comm.hpp>

#include <string>

namespace graticule::forecasting {

/// `DeviceOption::choose` for Kokkos and LibTorch together. Collective; before Kokkos starts.
/// @return this rank's device as LibTorch names it
[[nodiscard]] std::string choose_network_device(app::DeviceOption& option, Comm const& comm);

/// `DeviceOption::report` with the memory that LibTorch has used. Collective.
[[nodiscard]] app::Report::Json network_device_report(app::DeviceOption const& option, Comm const& comm);

}  // namespace graticule::forecasting
