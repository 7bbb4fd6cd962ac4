// SPDX-License-Identifier: BSD-3-Clause
// What the tests of strided kernels share: both kernels, random memory, 16-bit numbers by their definition.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include "random_layout.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace graticule::test {

inline constexpr bool device_is_host =
    Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                               Kokkos::DefaultExecutionSpace::memory_space>::accessible;

/// Names of element types for `TYPED_TEST_SUITE`.
struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return to_string(dtype_of<T>());
  }
};

using Runner = void (*)(std::span<detail::StridedTask const>);

inline std::vector<Runner> runners() {
  std::vector<Runner> result{detail::run_strided_host};
  if (device_is_host)
    result.push_back([](std::span<detail::StridedTask const> tasks) { detail::run_strided_device(tasks); });
  return result;
}

/// One side of a task: memory, place of the first element, strides.
struct Side {
  Indices strides;
  Index first = 0;
  Index size = 1;
};

/// Strides in random order, padded, backwards, or 0 along the axes named by `zero`.
inline Side random_side(Random& random, Indices const& extents, Indices const& zero) {
  Side side;
  side.strides = Indices::filled(extents.size(), 0);
  for (Index a : test::random_permutation(random, extents.size())) {
    int const axis = int(a);
    if (zero[axis] != 0) continue;
    Index const direction = draw(random, 0, 2) == 0 ? -1 : 1;
    side.strides[axis] = side.size * direction;
    if (direction < 0 && extents[axis] > 0) side.first += side.size * (extents[axis] - 1);
    side.size *= std::max<Index>(extents[axis], 1) + std::max<Index>(0, draw(random, -3, 2));
  }
  return side;
}

inline Index offset(Indices const& at, Side const& side) {
  Index result = side.first;
  for (int a = 0; a < at.size(); ++a) result += at[a] * side.strides[a];
  return result;
}

/// A 16-bit floating-point type: `fraction` bits of fraction, `bias` of the exponent.
struct Format {
  DType dtype;
  int fraction;
  int bias;
  std::uint16_t infinity;
};

inline constexpr std::array<Format, 2> formats{{{DType::f16, 10, 15, 0x7c00}, {DType::bf16, 7, 127, 0x7f80}}};

inline double value_of(Format const& format, std::uint16_t bits) {
  int const exponent = (bits & 0x7fff) >> format.fraction;
  int const fraction = bits & ((1 << format.fraction) - 1);
  double const sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(double(fraction), 1 - format.bias - format.fraction);
  if (bits % 0x8000 >= format.infinity)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(double(fraction + (1 << format.fraction)), exponent - format.bias - format.fraction);
}

/// Nearest number of the format, ties to even, found by bisection over all of them.
inline std::uint16_t nearest(Format const& format, double value) {
  std::uint16_t const sign = std::signbit(value) ? 0x8000 : 0;
  double const size = std::abs(value);
  std::uint16_t low = 0;
  std::uint16_t high = format.infinity;
  while (high - low > 1) {
    auto const middle = std::uint16_t((low + high) / 2);
    (value_of(format, middle) <= size ? low : high) = middle;
  }
  // The step beyond the largest number is as long as the step before it; from its middle on, infinity is nearest.
  double const below = value_of(format, low);
  double const above =
      high == format.infinity ? 2 * below - value_of(format, std::uint16_t(low - 1)) : value_of(format, high);
  bool const up = size - below > above - size || (size - below == above - size && low % 2 == 1);
  return std::uint16_t(sign | (up ? high : low));
}

}  // namespace graticule::test
