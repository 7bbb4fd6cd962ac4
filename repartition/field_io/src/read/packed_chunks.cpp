// SPDX-License-Identifier: BSD-3-Clause
#include "packed_chunks.hpp"

#include <graticule/field_io/file.hpp>
#include <graticule/partition/cells.hpp>

#include "hdf5/chunk_cells.hpp"
#include "hdf5/kept_chunks.hpp"
#include "hdf5/packed_bytes.hpp"
#include "hdf5/reading_threads.hpp"
#include "hdf5/values.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

constexpr std::size_t fletcher_bytes = 4;

std::atomic<Index> num_unpacked = 0;

[[noreturn]] void damaged(std::string const& what) { throw Error("Hdf5Error", what); }

/// As HDF5 computes it, over big-endian words of 16 bits.
std::uint32_t fletcher32(std::byte const* bytes, std::size_t count) {
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  auto const fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); };
  auto const at = [&](std::size_t i) { return i < count ? std::to_integer<std::uint32_t>(bytes[i]) : 0U; };
  for (std::size_t i = 0; i < count;) {
    // So many sums do not overflow.
    for (auto const end = std::min(i + 720, count); i < end; i += 2) {
      sum1 += at(i) << 8U | at(i + 1);
      sum2 += sum1;
    }
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  return fold(sum2) << 16U | fold(sum1);
}

void check_fletcher32(Bytes& bytes) {
  if (bytes.size() < fletcher_bytes) damaged("a chunk is shorter than its checksum");
  auto const length = bytes.size() - fletcher_bytes;
  std::uint32_t stored = 0;
  for (std::size_t i = 0; i < fletcher_bytes; ++i)
    stored |= std::to_integer<std::uint32_t>(bytes.data()[length + i]) << (8U * unsigned(i));
  auto const sum = fletcher32(bytes.data(), length);
  // HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
  auto const swapped = (sum & 0x00ff00ffU) << 8U | (sum >> 8U & 0x00ff00ffU);
  if (stored != sum && stored != swapped) damaged("a chunk does not have its checksum");
  bytes.shorten(length);
}

/// Gives exactly `count` bytes or an error.
Bytes inflated(Bytes const& packed, std::size_t count) {
  Bytes bytes(count);
  auto const result = inflate_into(Wrapping::zlib, packed, bytes);
  if (!result.is_whole) damaged("a chunk cannot be inflated to its " + std::to_string(count) + " bytes");
  if (result.written != count)
    damaged("a chunk inflates to " + std::to_string(result.written) + " bytes instead of " + std::to_string(count));
  return bytes;
}

/// Undoes the filters that the chunk passed through: all but those that `mask` names.
Bytes unpacked(Variable const& variable, Bytes bytes, std::uint32_t mask, std::size_t chunk_bytes) {
  auto const passed = [&](std::size_t i) { return (mask >> i & 1U) == 0; };
  for (std::size_t i = variable.filters.size(); i-- > 0;) {
    if (!passed(i)) continue;
    auto const& filter = variable.filters[i];
    if (filter.id == H5Z_FILTER_FLETCHER32) check_fletcher32(bytes);
    if (filter.id == H5Z_FILTER_SHUFFLE)
      bytes = unshuffled(std::move(bytes), filter.parameters.empty() ? 0 : std::size_t(filter.parameters.front()));
    if (filter.id == H5Z_FILTER_DEFLATE) {
      auto count = chunk_bytes;
      for (std::size_t before = 0; before < i; ++before)
        if (passed(before) && variable.filters[before].id == H5Z_FILTER_FLETCHER32) count += fletcher_bytes;
      bytes = inflated(bytes, count);
    }
  }
  if (bytes.size() != chunk_bytes)
    damaged("a chunk has " + std::to_string(bytes.size()) + " bytes instead of " + std::to_string(chunk_bytes));
  return bytes;
}

std::size_t bytes_of_chunk(Variable const& variable) {
  std::size_t bytes = std::size_t(variable.value_bytes);
  for (Index const extent : variable.chunk)
    if (__builtin_mul_overflow(bytes, std::size_t(extent), &bytes) || bytes > std::numeric_limits<std::uint32_t>::max())
      damaged("a chunk of more than 4 GiB");
  return bytes;
}

/// Identifiers of HDF5 are not used twice.
KeptChunks& kept_chunks() {
  static auto& only = *new KeptChunks(std::size_t(4) << 20);
  return only;
}

/// A chunk as it lies in the file.
struct PackedChunk {
  ChunkPlace place;
  Box cells;  ///< of the slab, by their places in it
  Bytes bytes;
  std::uint32_t mask = 0;
};

/// Nothing when the file does not hold the chunk.
std::optional<PackedChunk> packed_chunk_at(Variable const& variable, hid_t dataset, ChunkPlace const& place,
                                           Box const& cells) {
  auto const offset = sizes_of(place.first);
  hsize_t size = 0;
  // HDF5 1.10 fails where a chunk was never written, later ones say 0.
  if (H5Dget_chunk_storage_size(dataset, offset.data(), &size) < 0 || size == 0) return {};
  auto const chunk_bytes = bytes_of_chunk(variable);
  // Deflate adds next to nothing to what it cannot make smaller.
  if (size > hsize_t(2 * chunk_bytes + 65536))
    damaged("a chunk of " + std::to_string(size) + " bytes for " + std::to_string(chunk_bytes));
  PackedChunk chunk{place, cells, Bytes{std::size_t(size)}};
  h5::check(H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &chunk.mask, chunk.bytes.data()), "H5Dread_chunk");
  return chunk;
}

/// HDF5 knows what cells hold that were never written, or leaves them as they are.
void read_unwritten(Variable const& variable, hid_t dataset, Slab const& slab, Box const& places, std::byte* to) {
  auto const part = part_of(slab, Box::from_extents(slab.counts), places);
  Bytes cells(std::size_t(places.num_cells() * variable.value_bytes));
  fill_unwritten(variable, places.num_cells(), cells.data());
  auto const selection = select(dataset, part);
  h5::Type const type(h5::check(H5Dget_type(dataset), "H5Dget_type"));
  h5::check(H5Dread(dataset, type.get(), selection.memory.get(), selection.file.get(), H5P_DEFAULT, cells.data()),
            "H5Dread");
  auto const size = std::size_t(variable.value_bytes);
  auto const row_bytes = std::size_t(places.extent(places.ndim() - 1)) * size;
  auto const* from = cells.data();
  for_each_row(places, [&](Indices const& place) {
    std::memcpy(to + std::size_t(place_of(place, slab.counts)) * size, from, row_bytes);
    from += row_bytes;
  });
}

}  // namespace

bool is_packed(Variable const& variable) {
  auto const times = [&](int id) {
    return std::count_if(variable.filters.begin(), variable.filters.end(),
                         [&](auto const& filter) { return filter.id == id; });
  };
  auto const deflated = times(H5Z_FILTER_DEFLATE);
  auto const shuffled = times(H5Z_FILTER_SHUFFLE);
  auto const checked = times(H5Z_FILTER_FLETCHER32);
  return !variable.filters.empty() && variable.chunk.size() == variable.ndim() && variable.ndim() > 0 &&
         deflated <= 1 && shuffled <= 1 && checked <= 1 &&
         std::size_t(deflated + shuffled + checked) == variable.filters.size();
}

void read_packed(Variable const& variable, hid_t dataset, Slab const& slab, Indices const& counts, void* target,
                 int num_threads) {
  auto const ndim = variable.ndim();
  Box const chunks = chunks_of(slab, counts, variable.chunk);
  if (chunks.empty()) return;
  auto* const to = static_cast<std::byte*>(target);
  auto const chunk_bytes = bytes_of_chunk(variable);
  std::vector<PackedChunk> packed;  // HDF5 is for one thread: it reads as many as are then unpacked at once
  auto const unpack_all = [&] {
    by_threads(num_threads, Index(packed.size()), [&](Index i) {
      auto& one = packed[std::size_t(i)];
      auto const bytes =
          kept_chunks().keep(dataset, one.place.first, unpacked(variable, std::move(one.bytes), one.mask, chunk_bytes));
      ++num_unpacked;
      copy_cells(variable.value_bytes, slab, one.place, one.cells, bytes->data(), to);
    });
    packed.clear();
  };
  for_each_cell(chunks, [&](Indices const& chunk) {
    ChunkPlace place{chunk, variable.chunk};
    for (int axis = 0; axis < ndim; ++axis) place.first[axis] *= variable.chunk[axis];
    auto const cells = places_in(slab, counts, place);
    if (cells.empty()) return;
    if (auto const kept = kept_chunks().find(dataset, place.first))
      return copy_cells(variable.value_bytes, slab, place, cells, kept->data(), to);
    auto found = packed_chunk_at(variable, dataset, place, cells);
    if (!found) return read_unwritten(variable, dataset, slab, cells, to);
    packed.push_back(std::move(*found));
    if (Index(packed.size()) >= num_threads) unpack_all();
  });
  unpack_all();
  kept_chunks().drop_large();
}

}  // namespace graticule::detail

namespace graticule {

Index FieldFile::num_unpacked_chunks() noexcept { return detail::num_unpacked; }

}  // namespace graticule
