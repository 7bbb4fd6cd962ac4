// SPDX-License-Identifier: BSD-3-Clause
// Decoded chunks that the next call may need again.
#pragma once

#include <graticule/partition/indices.hpp>

#include "packed_bytes.hpp"

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

namespace graticule::detail {

/// Those used last, up to a number of bytes. Safe for threads.
class KeptChunks {
 public:
  using Chunk = std::shared_ptr<Bytes const>;

  explicit KeptChunks(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Nothing where the chunk is not held. @param array that the chunk belongs to, such as an identifier of HDF5
  [[nodiscard]] Chunk find(Index array, Indices const& first);
  /// One chunk is held in any case, until the next one comes.
  Chunk keep(Index array, Indices const& first, Bytes values);
  /// A chunk of more than all that may be held is not held on to.
  void drop_large();

 private:
  struct Kept {
    Index array;
    Indices first;
    Chunk values;
  };
  std::size_t const most_bytes_;
  std::mutex mutex_;
  std::list<Kept> kept_;  ///< the last used first
  std::size_t num_bytes_ = 0;
};

}  // namespace graticule::detail
