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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define GRATICULE_WIDE_LOOPS 1
#define GRATICULE_WIDE __attribute__((target("avx2")))
#include <immintrin.h>
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

template <class To>
constexpr double lowest_of = double(std::numeric_limits<To>::min());
template <class To>
constexpr double highest_of = double(std::numeric_limits<To>::max());

/// In the range of `To`, where NaN becomes `fill`.
template <class To>
GRATICULE_INLINE Four in_range(Four value, Four fill) {
  Four const lowest = Four{} + lowest_of<To>;
  Four const highest = Four{} + highest_of<To>;
  value = value == value ? value : fill;
  value = value > lowest ? value : lowest;
  return value < highest ? value : highest;
}

/// Quotients that may be of numbers which `To` does not hold, and some others near the ends of its range and `fill`.
template <class To>
GRATICULE_INLINE FourChoices suspects(Four quotient, Four fill, FourChoices has_fill) {
  Four const lowest = Four{} + lowest_of<To>;
  Four const highest = Four{} + highest_of<To>;
  Four const near = Four{} + 0.75;
  Four const distance = quotient - fill;
  FourChoices const is_fill = (distance < near) & (distance > -near) & has_fill;
  FourChoices const is_nan = (quotient != quotient) & ~has_fill;
  return (quotient < lowest) | (quotient > highest) | is_nan | is_fill;
}

/// Quotients in range by multiplication; false if one of them may be rounded differently than by division, or may be
/// of a number that is to be noted.
/// @param count a multiple of 4
template <class From, class To>
GRATICULE_INLINE bool multiply(Chunk& values, From const* from, Index count, PackedRows const& rows) {
  Four const alpha = Four{} + rows.alpha;
  Four const offset = Four{} + rows.offset;
  Four const inverse = Four{} + rows.inverse_scale;
  Four const fill = Four{} + rows.fill;
  Four const magic = Four{} + 0x1.8p52;
  Four const distant = Four{} + certain<To>;
  FourChoices const has_fill = FourChoices{} - std::int64_t(rows.has_fill);
  FourChoices const notes = FourChoices{} - std::int64_t(rows.unfit != nullptr);
  FourChoices uncertain{};
  for (Index i = 0; i < count; i += 4) {
    Four const quotient = (load_four(from + i) * alpha - offset) * inverse;
    uncertain |= suspects<To>(quotient, fill, has_fill) & notes;
    Four const value = in_range<To>(quotient, fill);
    std::memcpy(&values[std::size_t(i)], &value, sizeof value);
    Four const distance = value - (value + magic - magic);
    uncertain |= (distance >= distant) | (distance <= -distant);
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

/// Apart from the loops that are compiled for wider registers: few rows need it.
template <class From, class To>
__attribute__((noinline)) void note_unfit_of(From const* from, Index count, PackedRows const& rows) {
  double const fill = to_double(from_double<To>(rows.fill));
  for (Index i = 0; i < count; ++i)
    note_unfit<To>(*rows.unfit, rows.has_fill, fill, (double(from[i]) * rows.alpha - rows.offset) / rows.scale);
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
    if (!rows.multiply || !multiply<From, To>(values, read, whole, rows)) {
      divide<From, To>(values, read, whole, rows);
      if (rows.unfit) note_unfit_of<From, To>(read, size, rows);
    }
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
GRATICULE_WIDE void convert_wide(void* to, void const* from, Index count, PackedRows const& rows) {
  convert<From, To>(to, from, count, rows);
}

// f32 and i16, the pair of most archives, in a few instructions per element.

/// `x * factor + addend` is a quotient plus 1.5 * 2^37: the last bit of such a sum counts 2^-15, so that its low 32
/// bits are the quotient in fixed point. The addend also has one half, as the integer is then found by cutting the
/// fraction off, and 2 units. A sum is less than 2 units off where products are below 2^27; fractions of up to 4 units
/// may therefore be of quotients that division rounds the other way.
constexpr double fixed_point = 0x1.8p37;
constexpr int fraction_bits = 15;
constexpr double rounding_up = 0.5 + 0x1p-14;
constexpr int uncertain_units = 4;

struct FixedPoint {
  double factor;
  double addend;

  explicit FixedPoint(PackedRows const& rows)
      : factor(rows.alpha * rows.inverse_scale), addend(fixed_point + rounding_up - rows.offset * rows.inverse_scale) {}
  /// False where factors are so large, small or special that sums may be further off.
  [[nodiscard]] static bool holds(PackedRows const& rows) {
    auto const moderate = [](double value) { return std::abs(value) >= 0x1p-400 && std::abs(value) <= 0x1p400; };
    return moderate(rows.alpha) && moderate(rows.scale) && std::abs(rows.offset * rows.inverse_scale) <= 0x1p26;
  }
};

/// Eight quotients in the range of i16, in fixed point, in the order 0, 1, 4, 5, 2, 3, 6, 7.
GRATICULE_WIDE inline __m256i eight_quotients(float const* from, FixedPoint const& fixed) {
  __m256d const factor = _mm256_set1_pd(fixed.factor);
  __m256d const addend = _mm256_set1_pd(fixed.addend);
  __m256d const lowest = _mm256_set1_pd(fixed_point + rounding_up - 32768);
  __m256d const highest = _mm256_set1_pd(fixed_point + rounding_up + 32767);
  __m256d a = _mm256_add_pd(_mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(from)), factor), addend);
  __m256d b = _mm256_add_pd(_mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(from + 4)), factor), addend);
  // NaN becomes the second operand.
  a = _mm256_min_pd(_mm256_max_pd(a, lowest), highest);
  b = _mm256_min_pd(_mm256_max_pd(b, lowest), highest);
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0x88));
}

/// All bits of the elements that are NaN, in the order of `eight_quotients`.
GRATICULE_WIDE inline __m256i eight_missing(float const* from) {
  __m256 const values = _mm256_loadu_ps(from);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)), 0xd8);
}

GRATICULE_WIDE void pack_f32_to_i16(void* to, void const* from, Index count, PackedRows const& rows) {
  if (!FixedPoint::holds(rows)) return convert_wide<float, std::int16_t>(to, from, count, rows);
  FixedPoint const fixed(rows);
  auto const* const read = static_cast<float const*>(from);
  auto* const write = static_cast<std::int16_t*>(to);
  float const nan = std::numeric_limits<float>::quiet_NaN();
  std::int16_t missing = 0;
  auto silent = rows;
  silent.unfit = nullptr;
  convert_wide<float, std::int16_t>(&missing, &nan, 1, silent);
  __m256i const fill = _mm256_set1_epi16(missing);
  __m256i const fraction = _mm256_set1_epi32((1 << fraction_bits) - 1);
  __m256i const certain_from = _mm256_set1_epi32(uncertain_units + 1);
  __m256i const order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  Index i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256i const a = eight_quotients(read + i, fixed);
    __m256i const b = eight_quotients(read + i + 8, fixed);
    __m256i const least = _mm256_min_epi32(_mm256_and_si256(a, fraction), _mm256_and_si256(b, fraction));
    if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(certain_from, least)) != 0) {
      convert_wide<float, std::int16_t>(write + i, read + i, 16, rows);
      continue;
    }
    __m256i const integers =
        _mm256_packs_epi32(_mm256_srai_epi32(a, fraction_bits), _mm256_srai_epi32(b, fraction_bits));
    __m256i const nans = _mm256_packs_epi32(eight_missing(read + i), eight_missing(read + i + 8));
    if (rows.unfit) {
      __m256i const ends = _mm256_or_si256(_mm256_cmpeq_epi16(integers, _mm256_set1_epi16(32767)),
                                           _mm256_cmpeq_epi16(integers, _mm256_set1_epi16(-32768)));
      __m256i const suspect =
          rows.has_fill ? _mm256_andnot_si256(nans, _mm256_or_si256(ends, _mm256_cmpeq_epi16(integers, fill))) : ends;
      if (_mm256_movemask_epi8(suspect) != 0) {
        convert_wide<float, std::int16_t>(write + i, read + i, 16, rows);
        continue;
      }
    }
    __m256i const packed = _mm256_permutevar8x32_epi32(_mm256_blendv_epi8(integers, fill, nans), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(write + i), packed);
  }
  if (i < count) convert_wide<float, std::int16_t>(write + i, read + i, count - i, rows);
}

GRATICULE_WIDE void unpack_i16_to_f32(void* to, void const* from, Index count, PackedRows const& rows) {
  auto const* const read = static_cast<std::int16_t const*>(from);
  auto* const write = static_cast<float*>(to);
  // One that no i16 is equal to where there is no fill.
  __m256i const fill = _mm256_set1_epi32(rows.has_fill ? int(rows.fill) : 1 << 16);
  __m256 const missing = _mm256_set1_ps(float((not_a_number() * rows.scale + rows.offset) * rows.alpha));
  __m256d const scale = _mm256_set1_pd(rows.scale);
  __m256d const offset = _mm256_set1_pd(rows.offset);
  __m256d const alpha = _mm256_set1_pd(rows.alpha);
  Index i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i const stored = _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(read + i)));
    __m256d a = _mm256_cvtepi32_pd(_mm256_castsi256_si128(stored));
    __m256d b = _mm256_cvtepi32_pd(_mm256_extracti128_si256(stored, 1));
    a = _mm256_mul_pd(_mm256_add_pd(_mm256_mul_pd(a, scale), offset), alpha);
    b = _mm256_mul_pd(_mm256_add_pd(_mm256_mul_pd(b, scale), offset), alpha);
    __m256 const values = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a)), _mm256_cvtpd_ps(b), 1);
    __m256 const is_missing = _mm256_castsi256_ps(_mm256_cmpeq_epi32(stored, fill));
    _mm256_storeu_ps(write + i, _mm256_blendv_ps(values, missing, is_missing));
  }
  unpack<std::int16_t, float>(write + i, read + i, count - i, rows);
}
#endif

template <class From, class To>
PackedRows::Convert chosen() {
#ifdef GRATICULE_WIDE_LOOPS
  if (__builtin_cpu_supports("avx2")) {
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, std::int16_t>) return pack_f32_to_i16;
    if constexpr (std::is_same_v<From, std::int16_t> && std::is_same_v<To, float>) return unpack_i16_to_f32;
    return convert_wide<From, To>;
  }
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
        result->unfit = packs ? task.unfit : nullptr;
        result->fill = packs ? (packed.has_fill ? packed.fill : 0) : rounded_fill(packed, task.from_dtype);
        result->convert = chosen<From, To>();
      }
    });
  });
  return result;
}

}  // namespace graticule::detail
