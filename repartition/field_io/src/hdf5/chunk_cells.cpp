// SPDX-License-Identifier: BSD-3-Clause
#include "chunk_cells.hpp"

#include <graticule/partition/cells.hpp>

#include <algorithm>
#include <cstring>

namespace graticule::detail {

Box chunks_of(Slab const& slab, Indices const& counts, Indices const& chunk) {
  Box chunks = Box::from_extents(counts);
  if (chunks.empty()) return chunks;
  for (int axis = 0; axis < chunks.ndim(); ++axis) {
    Index const last = slab.start[axis] + (counts[axis] - 1) * slab.steps[axis];
    chunks.set(axis, slab.start[axis] / chunk[axis], last / chunk[axis] + 1);
  }
  return chunks;
}

Box places_in(Slab const& slab, Indices const& counts, ChunkPlace const& chunk) {
  Box box = Box::from_extents(counts);
  for (int axis = 0; axis < counts.size(); ++axis) {
    auto const place = [&](Index cell) {
      return std::clamp<Index>((cell - slab.start[axis] + slab.steps[axis] - 1) / slab.steps[axis], 0, counts[axis]);
    };
    auto const end = chunk.first[axis] + chunk.extents[axis];
    box.set(axis, chunk.first[axis] > slab.start[axis] ? place(chunk.first[axis]) : 0,
            end > slab.start[axis] ? place(end) : 0);
  }
  return box;
}

Index place_of(Indices const& cell, Indices const& extents) {
  Index place = 0;
  for (int axis = 0; axis < extents.size(); ++axis) place = place * extents[axis] + cell[axis];
  return place;
}

Indices cell_at(Slab const& slab, Indices const& place, ChunkPlace const& chunk) {
  Indices cell = place;
  for (int axis = 0; axis < place.size(); ++axis)
    cell[axis] = slab.start[axis] + place[axis] * slab.steps[axis] - chunk.first[axis];
  return cell;
}

void for_each_row(Box rows, std::function<void(Indices const&)> const& visit) {
  rows.set(rows.ndim() - 1, rows.lo(rows.ndim() - 1), rows.lo(rows.ndim() - 1) + 1);
  for_each_cell(rows, visit);
}

void copy_cells(Index value_bytes, Slab const& slab, ChunkPlace const& chunk, Box const& places, std::byte const* from,
                std::byte* to, Index first_cell) {
  auto const size = std::size_t(value_bytes);
  int const last = places.ndim() - 1;
  Index const step = slab.steps[last];
  auto const count = std::size_t(places.extent(last));
  for_each_row(places, [&](Indices const& place) {
    auto const* source = from + std::size_t(place_of(cell_at(slab, place, chunk), chunk.extents) - first_cell) * size;
    auto* target = to + std::size_t(place_of(place, slab.counts)) * size;
    if (step == 1) {
      std::memcpy(target, source, count * size);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) std::memcpy(target + i * size, source + i * std::size_t(step) * size, size);
  });
}

void put_cells(Index value_bytes, Slab const& slab, ChunkPlace const& chunk, Box const& places, std::byte const* from,
               std::byte* to) {
  auto const size = std::size_t(value_bytes);
  int const last = places.ndim() - 1;
  auto const step = std::size_t(slab.steps[last]);
  auto const count = std::size_t(places.extent(last));
  for_each_row(places, [&](Indices const& place) {
    auto* target = to + std::size_t(place_of(cell_at(slab, place, chunk), chunk.extents)) * size;
    if (step == 1)
      std::memcpy(target, from, count * size);
    else
      for (std::size_t i = 0; i < count; ++i) std::memcpy(target + i * step * size, from + i * size, size);
    from += count * size;
  });
}

void fill_cells(std::span<std::byte const> value, Slab const& slab, Box const& places, std::byte* to) {
  auto const size = value.size();
  auto const count = std::size_t(places.extent(places.ndim() - 1));
  for_each_row(places, [&](Indices const& place) {
    auto* target = to + std::size_t(place_of(place, slab.counts)) * size;
    for (std::size_t i = 0; i < count; ++i) std::memcpy(target + i * size, value.data(), size);
  });
}

}  // namespace graticule::detail
