// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/chunk_cuts.hpp>

#include <algorithm>
#include <vector>

namespace graticule {

Cuts chunk_aligned_cuts(Index extent, Index chunk, int num_parts) {
  if (chunk < 1) throw Error("BadCuts", "chunks need at least 1 cell, got " + std::to_string(chunk));
  if (extent < 0) throw Error("BadCuts", "an axis needs at least 0 cells, got " + std::to_string(extent));
  auto const num_chunks = extent / chunk + (extent % chunk != 0 ? 1 : 0);
  auto sizes = balanced_cuts(num_chunks, num_parts).sizes();
  // The last chunk may be short, so it goes to a part with one chunk more.
  if (num_chunks >= num_parts) std::reverse(sizes.begin(), sizes.end());
  Index lo = 0;
  for (auto& size : sizes) {
    Index const hi = size > (extent - lo) / chunk ? extent : lo + size * chunk;
    size = hi - lo;
    lo = hi;
  }
  return Cuts(sizes);
}

}  // namespace graticule
