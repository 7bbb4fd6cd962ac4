// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/forward_scope.hpp>

namespace graticule::nn {

/// A scope whose operators see this rank's shards alone, instead of the globe, and are not refused in a model that
/// `shard` has converted. For code that is right on shards, as `try_sharded` shows.
/// Example: `{ nn::Examined const examined; h = h - global_mean_of(h); }`
class Examined {
 private:
  detail::OwnCode own_;
};

}  // namespace graticule::nn
