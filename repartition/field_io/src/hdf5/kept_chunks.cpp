// SPDX-License-Identifier: BSD-3-Clause
#include "kept_chunks.hpp"

#include <algorithm>
#include <utility>

namespace graticule::detail {

KeptChunks::Chunk KeptChunks::find(Index array, Indices const& first) {
  std::lock_guard const lock(mutex_);
  auto const found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](Kept const& one) { return one.array == array && one.first == first; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front().values;
}

KeptChunks::Chunk KeptChunks::keep(Index array, Indices const& first, Bytes values) {
  auto const chunk = std::make_shared<Bytes const>(std::move(values));
  std::lock_guard const lock(mutex_);
  num_bytes_ += chunk->size();
  kept_.push_front({array, first, chunk});
  while (kept_.size() > 1 && num_bytes_ > most_bytes_) {
    num_bytes_ -= kept_.back().values->size();
    kept_.pop_back();
  }
  return chunk;
}

void KeptChunks::drop_large() {
  std::lock_guard const lock(mutex_);
  if (num_bytes_ <= most_bytes_) return;
  kept_.clear();
  num_bytes_ = 0;
}

}  // namespace graticule::detail
