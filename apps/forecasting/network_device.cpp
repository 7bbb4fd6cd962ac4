// SPDX-License-Identifier: BSD-3-Clause
#include "network_device.hpp"

#include <graticule/models/detail/device.hpp>

namespace graticule::forecasting {

std::string choose_network_device(app::DeviceOption& option, Comm const& comm) {
  option.choose(comm, [](std::string const& kind) {
    auto const found = models::torch_devices(kind);
    return app::FoundDevices{found.count, found.missing};
  });
  return models::torch_device_name(option.name());
}

app::Report::Json network_device_report(app::DeviceOption const& option, Comm const& comm) {
  auto const used = models::torch_device_memory(option.name());
  if (!used) return option.report(comm);
  return option.report(comm,
                       app::DeviceMemory{used->total_bytes, used->free_bytes, used->peak_bytes, used->reserved_bytes});
}

}  // namespace graticule::forecasting
