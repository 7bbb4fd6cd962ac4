// SPDX-License-Identifier: BSD-3-Clause
// Reading cells of a store's arrays.
#pragma once

#include "array.hpp"
#include "codecs.hpp"
#include "hdf5/chunk_cells.hpp"
#include "hdf5/hyperslab.hpp"
#include "hdf5/kept_chunks.hpp"
#include "shard_index.hpp"
#include "store.hpp"

#include <optional>
#include <string>

namespace graticule::detail::zarr {

/// Reads an array; for one caller at a time.
class ArrayReader {
 public:
  /// @param key of the array in the store, "" for the store itself. `store` outlives this object
  /// @param num_threads that decode chunks
  ArrayReader(Store const& store, std::string key, Array array, int num_threads);

  /// The slab's cells in this machine's byte order, in row-major order. Cells of absent chunks have the fill value.
  /// @pre the slab lies in the array
  /// @throws `BrokenFile`, `UnreadableVariable` (input); `UnreadableFile` (input), also for absent chunks of a store
  /// that was removed or replaced since it was opened Cost: each chunk that the slab meets is read and decoded once; of
  /// chunks of blosc only the blocks that are met; of shards only the inner chunks that are met. Some chunks are kept
  /// for the next call
  void read(Slab const& slab, std::byte* target);

 private:
  struct Request {
    Slab const& slab;
    Box places;  ///< of the slab's cells in the chunk
    std::byte* target;
  };

  void read_scalar(std::byte* target);
  void require_present() const;
  void read_shard(Item const& item, ChunkPlace const& shard, Slab const& slab, std::byte* target);
  void read_chunk(Item const& item, Index from, Index bytes, ChunkPlace const& chunk, Request const& request);
  /// A chunk of blosc, of which bytes outside of the blocks that hold these plain bytes are left out.
  [[nodiscard]] static Bytes read_blocks(Item const& item, Index from, Index bytes, Index first, Index count);

  Store const& store_;
  std::string key_;
  Array array_;
  int num_threads_;
  Store::Metadata metadata_;  ///< when it was opened
  KeptChunks kept_;
  std::optional<Indices> shard_;  ///< whose index is known
  std::optional<ShardIndex> index_;
};

}  // namespace graticule::detail::zarr
