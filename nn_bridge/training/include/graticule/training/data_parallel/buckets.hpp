// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule::training {

/// Sizes of the messages that carry gradients.
struct BucketSizes {
  Index first_bytes = Index(1) << 20;  ///< of the first bucket, which should be sent early
  Index bytes = Index(25) << 20;       ///< of the others; a larger gradient is sent alone
};

}  // namespace graticule::training
