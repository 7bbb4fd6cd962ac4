// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "layout/cut_moves.hpp"
#include "layout/pull.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace graticule::test {

/// A row-major array of integers, on which tests compute by brute force.
struct IntArray {
  program::Shape shape;
  std::vector<std::int64_t> values;

  explicit IntArray(program::Shape sizes, std::int64_t value = 0)
      : shape(std::move(sizes)), values(static_cast<std::size_t>(program::num_elements(shape)), value) {}

  bool operator==(IntArray const&) const = default;

  [[nodiscard]] std::int64_t extent(std::int64_t axis) const { return shape[static_cast<std::size_t>(axis)]; }

  [[nodiscard]] std::int64_t offset(program::Shape const& at) const {
    std::int64_t flat = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      flat = flat * shape[axis] + at[axis];
    }
    return flat;
  }
  [[nodiscard]] std::int64_t& operator()(program::Shape const& at) {
    return values[static_cast<std::size_t>(offset(at))];
  }
  [[nodiscard]] std::int64_t operator()(program::Shape const& at) const {
    return values[static_cast<std::size_t>(offset(at))];
  }
};

/// Calls f(place) for all places of an array of this shape, in order.
template <typename F>
void for_all_places(program::Shape const& shape, F const& f) {
  if (program::num_elements(shape) == 0) {
    return;
  }
  program::Shape at(shape.size(), 0);
  while (true) {
    f(at);
    std::size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) {
      at[--axis] = 0;
    }
    if (axis == 0) {
      return;
    }
  }
}

/// Each element its own flat index, from 1 on, so that any misplaced one shows.
inline IntArray counting(program::Shape const& shape) {
  IntArray array(shape);
  std::iota(array.values.begin(), array.values.end(), 1);
  return array;
}

inline IntArray viewed(IntArray array, program::Shape const& shape) {
  array.shape = shape;
  return array;
}

inline IntArray permuted(IntArray const& array, std::vector<std::int64_t> const& order) {
  program::Shape shape;
  for (std::int64_t const axis : order) {
    shape.push_back(array.extent(axis));
  }
  IntArray result(shape);
  for_all_places(shape, [&](program::Shape const& at) {
    program::Shape from(at.size());
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      from[static_cast<std::size_t>(order[axis])] = at[axis];
    }
    result(at) = array(from);
  });
  return result;
}

/// Rows of an axis by their indices; -1 is a row of `fill`.
inline IntArray taken(IntArray const& array, std::int64_t axis, std::vector<std::int64_t> const& rows,
                      std::int64_t fill = 0) {
  auto const a = static_cast<std::size_t>(axis);
  program::Shape shape = array.shape;
  shape[a] = static_cast<std::int64_t>(rows.size());
  IntArray result(shape);
  for_all_places(shape, [&](program::Shape at) {
    std::int64_t& value = result(at);
    at[a] = rows[static_cast<std::size_t>(at[a])];
    value = at[a] < 0 ? fill : array(at);
  });
  return result;
}

/// The part that a rank owns.
inline IntArray part(IntArray const& array, std::optional<program::Cut> const& cut, std::int64_t rank) {
  return cut ? taken(array, cut->axis, cut->owned_indices(array.extent(cut->axis), rank)) : array;
}

/// The global array of its parts.
inline IntArray joined(std::vector<IntArray> const& parts, program::Cut const& cut, program::Shape const& shape) {
  auto const axis = static_cast<std::size_t>(cut.axis);
  IntArray result(shape, -1);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    auto const rows = cut.owned_indices(shape[axis], static_cast<std::int64_t>(rank));
    for_all_places(parts[rank].shape, [&](program::Shape const& at) {
      program::Shape to = at;
      to[axis] = rows.at(static_cast<std::size_t>(at[axis]));
      result(to) = parts[rank](at);
    });
  }
  return result;
}

/// The rows of one tensor that a pull table names.
inline std::vector<std::int64_t> rows_of(program::PullTable const& table) {
  std::vector<std::int64_t> rows;
  for (program::Source const& source : table) {
    rows.push_back(source.index);
  }
  return rows;
}

}  // namespace graticule::test
