// SPDX-License-Identifier: BSD-3-Clause
// Sums of floating-point numbers without rounding: a fixed-point number as wide as the type's range, in integer words.
// Words of different ranks are added as integers, so neither order nor split of the terms matters.
// Source: R. M. Neal, "Fast exact summation using small and large superaccumulators", arXiv:1505.05571 (2015), the
// small one; here with 48 bits per word, so that the words of 2^15 ranks add up without a carry.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace graticule::detail {

template <class T>
struct FloatFormat;

template <>
struct FloatFormat<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 53;  ///< with the hidden one
  static constexpr int exponent_bits = 11;
};

template <>
struct FloatFormat<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 24;
  static constexpr int exponent_bits = 8;
};

/// Exact sum of numbers of type `T`; trivially copyable, `num_words` integers.
///
/// Word w counts units of 2^(48 w) times the smallest positive number. The last word marks what the others cannot
/// express: infinities (NaN: both), and whether all terms are -0.
template <class T>
class ExactSum {
  using Format = FloatFormat<T>;
  using Bits = typename Format::Bits;
  static constexpr int word_bits = 48;
  static constexpr std::int64_t word_mask = (std::int64_t(1) << word_bits) - 1;
  static constexpr int max_exponent = (1 << Format::exponent_bits) - 1;
  static constexpr Bits fraction_mask = (Bits(1) << (Format::mantissa_bits - 1)) - 1;
  /// Terms after which carries must be moved on: a term adds less than 2^53 to a word.
  static constexpr int terms_between_carries = 512;
  // Marked once a sum: the marks of 2^15 ranks add up.
  static constexpr std::int64_t one_infinity = 1;
  static constexpr std::int64_t one_negative_infinity = std::int64_t(1) << 16;
  static constexpr std::int64_t negative_zeros = std::int64_t(1) << 32;
  static constexpr std::int64_t other_terms = std::int64_t(1) << 48;
  static constexpr std::int64_t infinities = one_negative_infinity * 0x10000 - 1;

 public:
  /// The highest term reaches into the second last of these; the last takes carries.
  static constexpr int num_digits = (max_exponent - 2) / word_bits + 3;
  static constexpr int num_words = num_digits + 1;

  KOKKOS_INLINE_FUNCTION ExactSum() {
    for (auto& word : words_) word = 0;
  }
  /// From words that were added, word by word, from those of several sums.
  KOKKOS_INLINE_FUNCTION explicit ExactSum(std::int64_t const* words) {
    for (int w = 0; w < num_words; ++w) words_[w] = words[w];
    carry();
  }

  KOKKOS_INLINE_FUNCTION void add(T const* values, std::int64_t count, std::int64_t stride) {
    std::int64_t num_zeros = 0;
    while (num_zeros < count && is_negative_zero(values[num_zeros * stride])) ++num_zeros;
    if (num_zeros > 0) words_[num_digits] |= negative_zeros;
    if (num_zeros < count) words_[num_digits] |= other_terms;
    for (std::int64_t done = 0; done < count;) {
      std::int64_t const last = done + terms_between_carries < count ? done + terms_between_carries : count;
      // Neighbors mostly go to the same two words, which stay in registers until another pair is needed.
      int word = 0;
      std::int64_t low = 0;
      std::int64_t high = 0;
      for (; done < last; ++done) {
        prefetch(values + (done + prefetch_distance < count ? done + prefetch_distance : done) * stride);
        Term const term = term_of(values[done * stride]);
        if (term.mantissa == not_finite) continue;
        unsigned shift = unsigned(term.position - word * word_bits);
        if (shift >= unsigned(word_bits)) {
          words_[word] += low;
          words_[word + 1] += high;
          low = high = 0;
          word = term.position / word_bits;
          shift = unsigned(term.position - word * word_bits);
        }
        low += ((std::int64_t(std::uint64_t(term.mantissa) << shift) & word_mask) ^ term.sign) - term.sign;
        high += ((term.mantissa >> (unsigned(word_bits) - shift)) ^ term.sign) - term.sign;
      }
      words_[word] += low;
      words_[word + 1] += high;
      carry();
    }
  }

  KOKKOS_INLINE_FUNCTION void store(std::int64_t* words) const {
    for (int w = 0; w < num_words; ++w) words[w] = words_[w];
  }

  /// The sum, rounded once to nearest even; beyond the largest number infinity. NaN with a NaN or infinities of both
  /// signs among the terms; -0 when all terms are -0.
  [[nodiscard]] KOKKOS_INLINE_FUNCTION T rounded() const {
    if ((words_[num_digits] & infinities) != 0) return special();
    if (all_negative_zeros()) return -T(0);
    bool negative = false;
    Number const number = leading_bits(Format::mantissa_bits, negative);
    Bits const sign = Bits(negative ? 1 : 0) << (sizeof(Bits) * 8 - 1);
    // Below 2^mantissa_bits units the sum is a number as it is: its bits are the number of units.
    if (number.low == 0) return from_bits(sign | Bits(number.mantissa));
    if (number.low + 1 >= max_exponent) return from_bits(infinite(negative));
    return from_bits(sign | Bits(number.low + 1) << (Format::mantissa_bits - 1) |
                     (Bits(number.mantissa) & fraction_mask));
  }

  /// The same in double precision, in which no sum of single precision overflows.
  [[nodiscard]] KOKKOS_INLINE_FUNCTION double rounded_to_double() const {
    if constexpr (sizeof(T) == sizeof(double)) {
      return rounded();
    } else {
      if ((words_[num_digits] & infinities) != 0) return double(special());
      if (all_negative_zeros()) return -0.0;
      bool negative = false;
      Number const number = leading_bits(FloatFormat<double>::mantissa_bits, negative);
      // One unit is 2^-149; powers of two of this size are normal numbers.
      std::uint64_t const bits = std::uint64_t(number.low - 149 + 1023) << 52;
      double scale;
      memcpy(&scale, &bits, sizeof scale);
      double const value = double(number.mantissa) * scale;
      return negative ? -value : value;
    }
  }

 private:
  KOKKOS_INLINE_FUNCTION static T from_bits(Bits bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }

  KOKKOS_INLINE_FUNCTION static Bits infinite(bool negative) {
    return (Bits(max_exponent) << (Format::mantissa_bits - 1)) | (Bits(negative ? 1 : 0) << (sizeof(Bits) * 8 - 1));
  }

  KOKKOS_INLINE_FUNCTION static bool is_negative_zero(T value) {
    Bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == Bits(1) << (sizeof(Bits) * 8 - 1);
  }

  [[nodiscard]] KOKKOS_INLINE_FUNCTION bool all_negative_zeros() const {
    return (words_[num_digits] & negative_zeros * 0xffff) != 0 &&
           std::uint64_t(words_[num_digits]) < std::uint64_t(other_terms);
  }

  static constexpr std::int64_t not_finite = -1;

  /// The work per term is so large that the processor does not look far enough ahead by itself.
  static constexpr std::int64_t prefetch_distance = 128;
  KOKKOS_INLINE_FUNCTION static void prefetch(T const* value) {
#if !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__) && !defined(__SYCL_DEVICE_ONLY__)
    __builtin_prefetch(value);
#else
    (void)value;
#endif
  }

  /// mantissa times 2^position units; `sign` is 0, or -1 for negative terms.
  struct Term {
    std::int64_t mantissa;
    std::int64_t sign;
    int position;
  };

  KOKKOS_INLINE_FUNCTION Term term_of(T value) {
    Bits bits;
    memcpy(&bits, &value, sizeof bits);
    bool const negative = bits >> (sizeof(Bits) * 8 - 1) != 0;
    int const exponent = int(bits >> (Format::mantissa_bits - 1)) & max_exponent;
    Bits const fraction = bits & fraction_mask;
    if (exponent == max_exponent) {
      if (fraction != 0 || negative) words_[num_digits] |= one_negative_infinity;
      if (fraction != 0 || !negative) words_[num_digits] |= one_infinity;
      return {not_finite, 0, 0};
    }
    Bits const hidden = exponent == 0 ? 0 : Bits(1) << (Format::mantissa_bits - 1);
    return {std::int64_t(fraction | hidden), negative ? -1 : 0, exponent == 0 ? 0 : exponent - 1};
  }

  /// Brings all words but the highest into [0, 2^48).
  KOKKOS_INLINE_FUNCTION void carry() {
    for (int w = 0; w + 1 < num_digits; ++w) {
      words_[w + 1] += words_[w] >> word_bits;
      words_[w] &= word_mask;
    }
  }

  [[nodiscard]] KOKKOS_INLINE_FUNCTION T special() const {
    bool const negative_infinity = (words_[num_digits] & infinities) >= one_negative_infinity;
    bool const infinity = (words_[num_digits] & (one_negative_infinity - 1)) != 0;
    Bits const quiet = Bits(1) << (Format::mantissa_bits - 2);
    if (infinity && negative_infinity) return from_bits(infinite(false) | quiet);
    return from_bits(infinite(negative_infinity));
  }

  /// A magnitude of mantissa times 2^low units.
  struct Number {
    std::uint64_t mantissa;
    int low;
  };

  /// The sum rounded to `count` bits; with `low` 0 it is exact.
  [[nodiscard]] KOKKOS_INLINE_FUNCTION Number leading_bits(int count, bool& negative) const {
    ExactSum magnitude = *this;
    negative = words_[num_digits - 1] < 0;
    if (negative) {
      for (int w = 0; w < num_digits; ++w) magnitude.words_[w] = -magnitude.words_[w];
      magnitude.carry();
    }
    int top = num_digits - 1;
    while (top > 0 && magnitude.words_[top] == 0) --top;
    int num_bits = top * word_bits;
    for (std::int64_t rest = magnitude.words_[top]; rest != 0; rest >>= 1) ++num_bits;
    int low = num_bits - count;
    if (low <= 0) return {magnitude.bits_at(0, count), 0};
    std::uint64_t mantissa = magnitude.bits_at(low, count);
    bool const half = magnitude.bits_at(low - 1, 1) != 0;
    if (half && ((mantissa & 1) != 0 || magnitude.any_below(low - 1))) ++mantissa;
    if (mantissa >> count != 0) {
      mantissa >>= 1;
      ++low;
    }
    return {mantissa, low};
  }

  /// `count` bits from bit `first` on. @pre all words carried
  [[nodiscard]] KOKKOS_INLINE_FUNCTION std::uint64_t bits_at(int first, int count) const {
    std::uint64_t result = 0;
    int taken = 0;
    while (taken < count) {
      int const bit = first + taken;
      int const word = bit / word_bits < num_digits - 1 ? bit / word_bits : num_digits - 1;
      int const shift = bit - word * word_bits;
      int const available = word == num_digits - 1 ? count - taken : word_bits - shift;
      result |= (shift > 63 ? 0 : std::uint64_t(words_[word]) >> shift) << taken;
      taken += available;
    }
    return result & ((std::uint64_t(1) << count) - 1);
  }

  [[nodiscard]] KOKKOS_INLINE_FUNCTION bool any_below(int bit) const {
    for (int w = 0; w < num_digits && w * word_bits < bit; ++w) {
      int const count = bit - w * word_bits;
      std::uint64_t const mask = count > 62 ? ~std::uint64_t(0) : (std::uint64_t(1) << count) - 1;
      if ((std::uint64_t(words_[w]) & mask) != 0) return true;
    }
    return false;
  }

  std::int64_t words_[num_words];
};

}  // namespace graticule::detail
