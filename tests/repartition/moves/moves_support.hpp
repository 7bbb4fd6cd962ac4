// SPDX-License-Identifier: BSD-3-Clause
// Random repartitions, and where each of their cells comes from.
#pragma once

#include <graticule/repartition/plan.hpp>

#include "test_field.hpp"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::test {

/// The seed of a test: `own`, or what `GRATICULE_TEST_SEED` says, to find a failure again or to look for others.
inline std::uint64_t seed_or(std::uint64_t own) {
  char const* const given = std::getenv("GRATICULE_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : own;
}

/// Draws for one trial, and says in failures how to make it again.
struct Trial {
  Trial(std::uint64_t seed, int number)
      : random(seed * 1000 + std::uint64_t(number)),
        name("GRATICULE_TEST_SEED=" + std::to_string(seed) + ", trial " + std::to_string(number)) {}

  Random random;
  std::string name;
};

inline int num_move_trials(Comm const& comm) { return comm.num_ranks() == 1 ? 30 : comm.num_ranks() == 2 ? 12 : 6; }

/// Ranks among `num_ranks`, at least one.
inline std::vector<int> random_ranks(Random& random, int num_ranks) {
  auto const order = random_permutation(random, num_ranks);
  std::vector<int> ranks;
  auto const count = draw(random, 1, num_ranks);
  for (int r = 0; r < int(count); ++r) ranks.push_back(int(order[r]));
  return ranks;
}

/// Boxes in no arrangement on some ranks; the others own nothing, and some of these may own nothing either.
inline Layout layout_on(Random& random, std::vector<int> const& ranks, int num_ranks, Indices const& extents) {
  std::vector<Box> parts;
  bisect(random, Box::from_extents(extents), Index(ranks.size()), parts);
  std::vector<Box> boxes(std::size_t(num_ranks), Box::from_extents(Indices::filled(extents.size(), 0)));
  for (std::size_t i = 0; i < ranks.size(); ++i) boxes[std::size_t(ranks[i])] = parts[i];
  return Layout::from_boxes(extents, boxes);
}

inline Layout any_layout(Random& random, int num_ranks, Indices const& extents) {
  if (draw(random, 0, 1) == 0) return random_grid_layout(random, num_ranks, extents);
  return layout_on(random, random_ranks(random, num_ranks), num_ranks, extents);
}

inline Box random_box(Random& random, Indices const& extents) {
  Box box = Box::from_extents(extents);
  for (int a = 0; a < box.ndim(); ++a) {
    Index const lo = draw(random, 0, extents[a]);
    box.set(a, lo, draw(random, lo, extents[a]));
  }
  return box;
}

inline MemoryShape random_shape(Random& random, int num_grid, int num_batch) {
  return MemoryShape::random(random, num_grid, num_batch).run_backwards_at_random(random);
}

/// `count[a]` cells of each axis of a grid of `extents`, with any steps either way.
inline Selection random_selection(Random& random, Indices const& extents, Indices const& count) {
  Selection result{extents, extents, count};
  for (int a = 0; a < extents.size(); ++a) {
    Index const steps = std::max<Index>(count[a] - 1, 0);
    Index const step = draw(random, 1, steps == 0 ? 3 : std::max<Index>(1, (extents[a] - 1) / steps));
    Index const first = draw(random, 0, std::max<Index>(0, extents[a] - 1 - steps * step));
    bool const backwards = draw(random, 0, 1) == 1;
    result.step[a] = backwards ? -step : step;
    result.first[a] = backwards ? first + steps * step : first;
  }
  return result;
}

/// Cells of one grid that become cells of another.
struct Geometry {
  Indices old_extents;
  Indices new_extents;
  RepartitionOptions options;

  /// The old cell that becomes `cell` of the new grid, if any.
  [[nodiscard]] std::optional<Indices> image(Indices const& cell) const {
    Indices result = cell;
    for (int a = 0; a < cell.size(); ++a) {
      int const axis = options.permutation.size() == 0 ? a : int(options.permutation[a]);
      Index number = cell[a];
      if (options.to) {
        Index const distance = cell[a] - options.to->first[a];
        if (distance % options.to->step[a] != 0) return {};
        number = distance / options.to->step[a];
        if (number < 0 || number >= options.to->extents[a]) return {};
      }
      result[axis] = options.from ? options.from->first[axis] + number * options.from->step[axis] : number;
    }
    return result;
  }
};

/// How large the new grid is: as large as the permuted old one, or of any size that holds the cells.
enum class NewGrid { permuted, any };

inline Geometry random_geometry(Random& random, NewGrid grid = NewGrid::any) {
  int const ndim = int(draw(random, 1, 3));
  Geometry result;
  result.old_extents = random_extents(random, ndim, ndim == 1 ? 20 : 7);
  auto const permutation = random_permutation(random, ndim);
  result.new_extents = result.old_extents;
  bool const from = draw(random, 0, 2) > 0;
  bool const to = draw(random, 0, 2) > 0 || (from && grid == NewGrid::permuted);
  auto count = result.old_extents;
  if (from)
    for (int a = 0; a < ndim; ++a) count[a] = draw(random, 1, result.old_extents[a]);
  if (from) result.options.from = random_selection(random, result.old_extents, count);
  auto new_count = count;
  for (int a = 0; a < ndim; ++a) new_count[a] = count[int(permutation[a])];
  result.new_extents = new_count;
  if (grid == NewGrid::permuted)
    for (int a = 0; a < ndim; ++a) result.new_extents[a] = result.old_extents[int(permutation[a])];
  else if (to)
    for (auto& extent : result.new_extents) extent += draw(random, 0, 2 * extent);
  if (to) result.options.to = random_selection(random, result.new_extents, new_count);
  if (draw(random, 0, 3) > 0 || !std::is_sorted(permutation.begin(), permutation.end()))
    result.options.permutation = permutation;
  return result;
}

/// Types of each element, and one to hold it.
template <class Action>
void with_element(DType dtype, Action&& action) {
  switch (dtype) {
    case DType::u8: return action(std::uint8_t{});
    case DType::i8: return action(std::int8_t{});
    case DType::i16: return action(std::int16_t{});
    case DType::f16:
    case DType::bf16: return action(std::uint16_t{});
    case DType::i32: return action(std::int32_t{});
    case DType::i64: return action(std::int64_t{});
    case DType::f32: return action(float{});
    case DType::f64: return action(double{});
    case DType::c64: return action(std::complex<float>{});
    case DType::c128: return action(std::complex<double>{});
  }
}

inline constexpr int num_dtypes = 11;
inline DType dtype_number(Index number) { return DType(number % num_dtypes); }

/// Moves a numbered field and compares all of the target's memory with the formula.
/// @param image the old cell that becomes a cell of the target, if any
template <class T, class Image>
void expect_moved(Random& random, RepartitionPlan const& plan, Image const& image, DType dtype) {
  auto const batch = random_batch(random);
  int const ndim = plan.source_box().ndim();
  auto from = numbered<T>(plan.source_box(), batch, random_shape(random, ndim, batch.size()));
  TestField<T> to(plan.target_box(), batch, random_shape(random, ndim, batch.size()), bits_of<T>({}, {}, 2));
  auto const source_before = from;
  auto expected = to;
  to.for_each(plan.target_box(), [&](auto const& b, auto const& cell) {
    if (std::optional<Indices> const old = image(cell)) expected.at(b, cell) = bits_of<T>(b, *old);
  });

  plan.apply(from.view(dtype), to.view(dtype));

  EXPECT_TRUE(to.holds(expected)) << to_string(dtype);
  EXPECT_TRUE(from.holds(source_before)) << to_string(dtype);
}

}  // namespace graticule::test
