// SPDX-License-Identifier: BSD-3-Clause
#include "reader.hpp"

#include <graticule/partition/error.hpp>

#include "hdf5/reading_threads.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr std::size_t most_kept_bytes = std::size_t(32) << 20;
constexpr Index most_stored_bytes = Index(1) << 32;

}  // namespace

ArrayReader::ArrayReader(Store const& store, std::string key, Array array, int num_threads)
    : store_(store),
      key_(std::move(key)),
      array_(std::move(array)),
      num_threads_(num_threads),
      metadata_(store.metadata_of(key_)),
      kept_(most_kept_bytes) {}

void ArrayReader::read(Slab const& slab, std::byte* target) {
  if (slab.counts.size() == 0) return read_scalar(target);
  auto const shards = chunks_of(slab, slab.counts, array_.chunk);
  if (shards.empty()) return;
  std::atomic<bool> lacks_some = false;
  // Of shards, the chunks within each are decoded at the same time.
  for_each_cell_by_threads(array_.is_sharded ? 1 : num_threads_, shards, [&](Indices const& number) {
    ChunkPlace chunk{number, array_.chunk};
    for (int axis = 0; axis < number.size(); ++axis) chunk.first[axis] *= array_.chunk[axis];
    auto const places = places_in(slab, slab.counts, chunk);
    if (places.empty()) return;  // between two steps
    auto const key = joined(key_, array_.key(number));
    try {
      auto const item = store_.find(key);
      if (!item) {
        lacks_some = true;
        fill_cells(array_.fill, slab, places, target);
      } else if (array_.is_sharded) {
        read_shard(*item, chunk, slab, target);
      } else {
        read_chunk(*item, 0, item->bytes, chunk, {slab, places, target});
      }
    } catch (Error const& error) {
      throw Error(error.fault(), error.rule(), key + ": " + error.text());
    }
  });
  if (lacks_some) require_present();
}

void ArrayReader::require_present() const {
  auto const now = store_.metadata_of(key_);
  if (now == Store::Metadata::gone || now < metadata_)
    throw Error(Fault::input, "UnreadableFile",
                "the store was removed or replaced after it had been opened, and chunks are absent; open it again");
}

void ArrayReader::read_scalar(std::byte* target) {
  auto const item = store_.find(joined(key_, array_.key({})));
  if (!item) {
    std::copy(array_.fill.begin(), array_.fill.end(), target);
    return require_present();
  }
  if (item->bytes > most_stored_bytes) throw Error(Fault::input, "BrokenFile", "a chunk has more than 4 GiB");
  Bytes stored{std::size_t(item->bytes)};
  item->read(stored.data(), 0, item->bytes);
  auto const value = values_of(array_, decoded(array_.codecs, std::move(stored), array_.stored_bytes));
  std::copy_n(value.data(), value.size(), target);
}

void ArrayReader::read_shard(Item const& item, ChunkPlace const& shard, Slab const& slab, std::byte* target) {
  if (shard_ != shard.first) {
    shard_.reset();
    index_.emplace(array_, item);
    shard_ = shard.first;
  }
  auto const& numbers = index_->counts();
  // Inner chunks that the slab may meet.
  Box met = Box::from_extents(numbers);
  for (int axis = 0; axis < numbers.size(); ++axis) {
    auto const last = slab.start[axis] + (slab.counts[axis] - 1) * slab.steps[axis];
    auto const number = [&](Index cell) { return (cell - shard.first[axis]) / array_.inner[axis]; };
    met.set(axis, std::max<Index>(0, slab.start[axis] > shard.first[axis] ? number(slab.start[axis]) : 0),
            std::min(numbers[axis], number(last) + 1));
  }
  for_each_cell_by_threads(num_threads_, met, [&](Indices const& number) {
    ChunkPlace chunk{number, array_.inner};
    for (int axis = 0; axis < number.size(); ++axis)
      chunk.first[axis] = shard.first[axis] + number[axis] * array_.inner[axis];
    auto const places = places_in(slab, slab.counts, chunk);
    if (places.empty()) return;
    auto const range = index_->find(number);
    if (!range) return fill_cells(array_.fill, slab, places, target);
    read_chunk(item, range->first, range->count, chunk, {slab, places, target});
  });
}

void ArrayReader::read_chunk(Item const& item, Index from, Index bytes, ChunkPlace const& chunk,
                             Request const& request) {
  auto const copy = [&](Bytes const& values, Index first_cell) {
    copy_cells(array_.value_bytes, request.slab, chunk, request.places, values.data(), request.target, first_cell);
  };
  if (auto const kept = kept_.find(0, chunk.first)) return copy(*kept, 0);
  if (bytes > most_stored_bytes) throw Error(Fault::input, "BrokenFile", "a chunk has more than 4 GiB");
  auto const num_values = Box::from_extents(chunk.extents).num_cells();
  if (array_.codecs.empty() && bytes != num_values * array_.stored_bytes)
    throw Error(Fault::input, "BrokenFile",
                "a chunk has " + std::to_string(bytes) + " bytes instead of " +
                    std::to_string(num_values * array_.stored_bytes));
  // The run of values from the first to the last that is wanted.
  auto last = request.places.hi();
  for (auto& place : last) --place;
  auto const first_value = place_of(cell_at(request.slab, request.places.lo(), chunk), chunk.extents);
  auto const run = place_of(cell_at(request.slab, last, chunk), chunk.extents) - first_value + 1;
  if (has_parts(array_) && run <= num_values / 2) {
    auto const part = read_blocks(item, from, bytes, first_value * array_.stored_bytes, run * array_.stored_bytes);
    return copy(values_of(array_, decoded_part(array_, part, num_values, first_value, run)), first_value);
  }
  Bytes stored{std::size_t(bytes)};
  item.read(stored.data(), from, bytes);
  auto values = values_of(array_, decoded(array_.codecs, std::move(stored), num_values * array_.stored_bytes));
  // A chunk of which all cells were wanted is not asked for again.
  if (request.places.num_cells() == num_values) return copy(values, 0);
  copy(*kept_.keep(0, chunk.first, std::move(values)), 0);
}

Bytes ArrayReader::read_blocks(Item const& item, Index from, Index bytes, Index first, Index count) {
  Bytes stored{std::size_t(bytes)};
  auto const all = [&] {
    item.read(stored.data(), from, bytes);
    return std::move(stored);
  };
  // Several calls cost more than the bytes of a small chunk.
  constexpr Index least_bytes = 65536;
  if (bytes < least_bytes) return all();
  item.read(stored.data(), from, blosc_header_bytes);
  auto const table = table_bytes(stored.span().first(std::size_t(blosc_header_bytes)), bytes);
  item.read(stored.data() + blosc_header_bytes, from + blosc_header_bytes, table - blosc_header_bytes);
  auto const ranges = needed_ranges(stored.span().first(std::size_t(table)), bytes, first, count);
  if (ranges.empty()) return all();
  for (auto const& range : ranges) item.read(stored.data() + range.first, from + range.first, range.count);
  return stored;
}

}  // namespace graticule::detail::zarr
