// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/cuts.hpp>

#include "options.hpp"

#include <torch/torch.h>

namespace graticule::bench {

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
