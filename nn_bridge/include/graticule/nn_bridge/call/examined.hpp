// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/forward_scope.hpp>

namespace graticule::nn {

/// A scope whose operators are right on shards as they are, although they look as if they mixed cells: a model that
/// `shard` has converted does not refuse them. For code that `try_sharded` has compared.
/// Example: `{ nn::Examined const examined; h = h - global_mean_of(h); }`
class Examined {
 private:
  detail::OwnCode own_;
};

}  // namespace graticule::nn
