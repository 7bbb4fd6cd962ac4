// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/cuts.hpp>

#include "options.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <vector>

namespace graticule::bench {

/// Each rank by itself, on its own rows: what is left without messages is the compute.
[[nodiscard]] inline nn::Domain domain_alone(Comm const& comm) {
  return nn::Domain(comm.split(comm.rank(), 0), ProcessGrid{1, 1}, Boundary::uniform(2, Edge::replicate));
}

/// Until the device has done its work.
inline void wait_for(torch::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// Equally spaced rows from pole to pole.
[[nodiscard]] inline std::vector<double> latitudes_of(Index num_rows) {
  std::vector<double> result;
  for (Index i = 0; i < num_rows; ++i) result.push_back(90 - 180 * double(i) / double(num_rows - 1));
  return result;
}

/// Bands of latitude for layers: this rank's tensors.
struct Shards {
  Shards(app::Context const& context, Options const& options)
      : channels(options.num_channels),
        rows(balanced_cuts(options.num_rows, context.comm.num_ranks()).size(context.comm.rank())),
        columns(options.num_columns),
        domain(context.comm, bands(context.comm)),
        size_text(std::to_string(channels) + " x " + std::to_string(options.num_rows) + " x " +
                  std::to_string(columns) + " f32, " + std::to_string(context.comm.num_ranks()) + " ranks") {
    torch::set_num_threads(context.num_threads);
    torch::manual_seed(1);
  }

  /// [1, channels, rows, columns] of random numbers.
  [[nodiscard]] torch::Tensor random() const { return torch::randn({1, channels, rows, columns}); }

  Index channels;
  Index rows;  ///< of this rank
  Index columns;
  nn::Domain domain;
  std::string size_text;  ///< of the whole field, for titles
};

}  // namespace graticule::bench
