// SPDX-License-Identifier: BSD-3-Clause
// Packed integers on the host, in one loop per direction. The sums and products are those of `Passes` in
// strided_transform.cpp, element by element, on all processors: the loops are compiled a second time for wider
// registers, without fused multiply-adds.
#include "strided_packed.hpp"

#include "transform.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define GRATICULE_WIDE_LOOPS 1
#endif

namespace graticule::detail {

namespace {

#define GRATICULE_INLINE inline __attribute__((always_inline))

/// Elements that are packed together: few, because one quotient that is close to a tie makes all of them divisions.
constexpr Index chunk = 128;
using Chunk = std::array<double, std::size_t(chunk)>;

/// A quotient by multiplication with the inverse is off by less than 2^-19 for integers of 32 bits, and less than 2^-35
/// for those of 16. Rounding to an integer gives what the division gives, unless the quotient is as close to a tie.
template <class To>
constexpr double certain = 0.5 - (sizeof(To) > 2 ? 0x1p-16 : 0x1p-32);

/// Rounds to the nearest integer, ties to even.
GRATICULE_INLINE double rounded_double(double value) { return value + 0x1.8p52 - 0x1.8p52; }

// Vectors of GCC and Clang: four numbers in the registers that there are. The same choices written for single numbers
// become many more instructions, because compilers merge them first.
using Four = double __attribute__((vector_size(32)));
using FourChoices = std::int64_t __attribute__((vector_size(32)));

GRATICULE_INLINE Four load_four(float const* from) {
  using FourFloats = float __attribute__((vector_size(16)));
  FourFloats loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return __builtin_convertvector(loaded, Four);
}

GRATICULE_INLINE Four load_four(double const* from) {
  Four loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

/// In the range of `To`, where NaN becomes `fill`.
template <class To>
GRATICULE_INLINE Four in_range(Four value, Four fill) {
  constexpr double low = double(std::numeric_limits<To>::min());
  constexpr double high = double(std::numeric_limits<To>::max());
  Four const lowest = Four{} + low;
  Four const highest = Four{} + high;
  value = value == value ? value : fill;
  value = value > lowest ? value : lowest;
  return value < highest ? value : highest;
}

/// Quotients in range by multiplication; false if one of them may be rounded differently than by division.
/// @param count a multiple of 4
template <class From, class To>
GRATICULE_INLINE bool multiply(Chunk& values, From const* from, Index count, PackedRows const& rows) {
  Four const alpha = Four{} + rows.alpha;
  Four const offset = Four{} + rows.offset;
  Four const inverse = Four{} + rows.inverse_scale;
  Four const fill = Four{} + rows.fill;
  Four const magic = Four{} + 0x1.8p52;
  Four const distant = Four{} + certain<To>;
  FourChoices uncertain{};
  for (Index i = 0; i < count; i += 4) {
    Four const value = in_range<To>((load_four(from + i) * alpha - offset) * inverse, fill);
    std::memcpy(&values[std::size_t(i)], &value, sizeof value);
    Four const distance = value - (value + magic - magic);
    uncertain += (distance >= distant) | (distance <= -distant);
  }
  return (uncertain[0] | uncertain[1] | uncertain[2] | uncertain[3]) == 0;
}

template <class From, class To>
GRATICULE_INLINE void divide(Chunk& values, From const* from, Index count, PackedRows const& rows) {
  Four const alpha = Four{} + rows.alpha;
  Four const offset = Four{} + rows.offset;
  Four const scale = Four{} + rows.scale;
  Four const fill = Four{} + rows.fill;
  for (Index i = 0; i < count; i += 4) {
    Four const value = in_range<To>((load_four(from + i) * alpha - offset) / scale, fill);
    std::memcpy(&values[std::size_t(i)], &value, sizeof value);
  }
}

/// In two loops: one that also converts to integers is vectorised badly.
template <class From, class To>
GRATICULE_INLINE void pack(void* to, void const* from, Index count, PackedRows const& rows) {
  Chunk values;
  for (Index first = 0; first < count; first += chunk) {
    Index const size = count - first < chunk ? count - first : chunk;
    auto const* read = static_cast<From const*>(from) + first;
    auto* const write = static_cast<To*>(to) + first;
    std::array<From, std::size_t(chunk)> last;
    if (size % 4 != 0) {  // The last ones are read with zeros behind them.
      last.fill(0);
      std::memcpy(last.data(), read, std::size_t(size) * sizeof(From));
      read = last.data();
    }
    Index const whole = (size + 3) / 4 * 4;
    if (!rows.multiply || !multiply<From, To>(values, read, whole, rows)) divide<From, To>(values, read, whole, rows);
    for (Index i = 0; i < size; ++i) write[i] = To(std::int32_t(rounded_double(values[std::size_t(i)])));
  }
}

template <class From, class To>
GRATICULE_INLINE void unpack(void* to, void const* from, Index count, PackedRows const& rows) {
  auto* __restrict const write = static_cast<To*>(to);
  auto const* __restrict const read = static_cast<From const*>(from);
  double const missing = rows.has_fill ? not_a_number() : rows.fill;
  for (Index i = 0; i < count; ++i) {
    double const stored = double(read[i]);
    double const value = stored == rows.fill ? missing : stored;
    write[i] = To((value * rows.scale + rows.offset) * rows.alpha);
  }
}

template <class From, class To>
GRATICULE_INLINE void convert(void* to, void const* from, Index count, PackedRows const& rows) {
  if constexpr (std::is_integral_v<To>)
    pack<From, To>(to, from, count, rows);
  else
    unpack<From, To>(to, from, count, rows);
}

template <class From, class To>
void convert_anywhere(void* to, void const* from, Index count, PackedRows const& rows) {
  convert<From, To>(to, from, count, rows);
}

#ifdef GRATICULE_WIDE_LOOPS
template <class From, class To>
__attribute__((target("avx2"))) void convert_wide(void* to, void const* from, Index count, PackedRows const& rows) {
  convert<From, To>(to, from, count, rows);
}
#endif

template <class From, class To>
PackedRows::Convert chosen() {
#ifdef GRATICULE_WIDE_LOOPS
  if (__builtin_cpu_supports("avx2")) return convert_wide<From, To>;
#endif
  return convert_anywhere<From, To>;
}

bool is_normal(double value) {
  return std::isfinite(value) && std::abs(value) >= 0x1p-900 && std::abs(value) <= 0x1p900;
}

}  // namespace

std::optional<PackedRows> packed_rows(StridedTask const& task) {
  auto const& transform = task.transform;
  auto const inner = std::size_t(task.ndim) - 1;
  if (task.num_sum_axes > 0 || task.to_stride[inner] != 1 || task.from_stride[inner] != 1) return std::nullopt;
  if (transform.beta[0] != 0 || transform.beta[1] != 0 || transform.alpha[1] != 0) return std::nullopt;
  std::optional<PackedRows> result;
  with_type(task.dtype, [&]<class To>(To*) {
    with_type(task.from_dtype, [&]<class From>(From*) {
      constexpr bool packs = std::is_floating_point_v<From> && is_short_integer<To>;
      constexpr bool unpacks = is_short_integer<From> && std::is_floating_point_v<To>;
      if constexpr (packs || unpacks) {
        auto const& packed = packs ? transform.to : transform.from;
        if (!(packs ? transform.from : transform.to).is_trivial()) return;
        result.emplace();
        result->alpha = transform.alpha[0];
        result->scale = packed.scale;
        result->offset = packed.offset;
        result->inverse_scale = 1 / packed.scale;
        result->multiply = is_normal(packed.scale) && is_normal(result->inverse_scale);
        result->has_fill = packed.has_fill;
        result->fill = packs ? (packed.has_fill ? packed.fill : 0) : rounded_fill(packed, task.from_dtype);
        result->convert = chosen<From, To>();
      }
    });
  });
  return result;
}

}  // namespace graticule::detail
