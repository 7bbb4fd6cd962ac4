// SPDX-License-Identifier: BSD-3-Clause
#include "conversion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace graticule::detail {

namespace {

bool is_unsigned(DType dtype) { return enum_row(dtype).kind == NumberKind::unsigned_integer; }

/// Every value of `from` is a value of `to`.
bool widens(DType from, DType to) { return size_of(from) < size_of(to) && (!is_unsigned(to) || is_unsigned(from)); }

struct IntegerRange {
  Index low;
  Index high;
};

/// @pre `dtype` is an integer type
IntegerRange range_of(DType dtype) {
  if (is_unsigned(dtype)) return {0, std::numeric_limits<Index>::max() >> std::max<Index>(63 - 8 * size_of(dtype), 0)};
  Index const high = std::numeric_limits<Index>::max() >> (64 - 8 * size_of(dtype));
  return {-high - 1, high};
}

Packed packed(StoredAs const& stored) {
  Packed result;
  if (!stored.packing) return result;
  result.scale = stored.packing->scale;
  result.offset = stored.packing->offset;
  result.has_fill = stored.packing->missing.has_value();
  result.fill = double(stored.packing->missing.value_or(0));
  return result;
}

void check(StoredAs const& from, StoredAs const& to, std::complex<double> alpha, std::complex<double> beta) {
  auto const fail = [&](std::string const& why) {
    throw Error("Conversion", to_string(from.dtype) + " cannot become " + to_string(to.dtype) + ": " + why);
  };
  for (auto const* side : {&from, &to}) {
    if (!side->packing) continue;
    if (!is_integer(side->dtype)) fail("a packing of " + to_string(side->dtype) + ", which is no integer type");
    if (!std::isfinite(side->packing->scale) || side->packing->scale == 0 || !std::isfinite(side->packing->offset))
      fail("a packing with scale " + std::to_string(side->packing->scale) + " and offset " +
           std::to_string(side->packing->offset));
    auto const& missing = side->packing->missing;
    if (missing && (*missing < range_of(side->dtype).low || *missing > range_of(side->dtype).high))
      fail("a packing with missing " + std::to_string(*missing) + ", which " + to_string(side->dtype) +
           " does not hold");
  }
  if (is_complex(from.dtype) != is_complex(to.dtype)) fail("real and complex fields are not converted");
  if (!is_complex(to.dtype) && (alpha.imag() != 0 || beta.imag() != 0)) fail("factors of a real field must be real");
  for (auto const factor : {alpha, beta})
    if (!std::isfinite(factor.real()) || !std::isfinite(factor.imag())) fail("factors must be finite");
  if (from.packing || to.packing || from.dtype == to.dtype) return;
  if (is_integer(from.dtype) != is_integer(to.dtype)) fail("say how integers stand for numbers (Packing)");
  if (is_integer(from.dtype) && !widens(from.dtype, to.dtype)) fail("say what large integers become (Packing)");
}

}  // namespace

Conversion conversion(StoredAs const& from, StoredAs const& to, Update const& update) {
  auto const beta = update.beta.value_or(0);
  check(from, to, update.alpha, beta);
  Conversion result;
  result.direct.alpha[0] = update.alpha.real();
  result.direct.alpha[1] = update.alpha.imag();
  result.direct.beta[0] = beta.real();
  result.direct.beta[1] = beta.imag();
  result.direct.conjugate = update.operation == Operation::conjugate;
  result.direct.from = packed(from);
  result.direct.to = packed(to);
  bool const plain = update.alpha == 1.0 && beta == 0.0 && update.operation == Operation::identity;
  if (plain && size_of(to.dtype) < size_of(from.dtype)) {
    result.wire = to.dtype;
    result.pack = result.direct;
  } else {
    result.wire = from.dtype;
    result.arrive = result.direct;
  }
  return result;
}

std::string text_of(Unfit const& unfit, DType dtype, Packed const& packed) {
  auto const [low, high] = range_of(dtype);
  auto const number = [](double value) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.9g", value);
    return std::string(text.data());
  };
  auto const value = [&](double stored) { return stored * packed.scale + packed.offset; };
  std::string const type = to_string(dtype) + (packed.is_trivial() ? std::string()
                                                                   : " with scale " + number(packed.scale) +
                                                                         " and offset " + number(packed.offset));
  if (unfit.not_a_number != 0)
    return "NaN cannot be stored as " + type + ": a packing with `missing` says what stands for missing values";
  if (unfit.beyond != 0)
    return "a number outside of " + number(std::min(value(double(low)), value(double(high)))) + " to " +
           number(std::max(value(double(low)), value(double(high)))) + " cannot be stored as " + type;
  return "a number near " + number(value(packed.fill)) + " cannot be stored as " + type + ": it becomes " +
         number(packed.fill) + ", which stands for missing values";
}

Update adjoint_of(Update const& update) {
  // For y = a conj(x), Re<y, g> = Re<x, a conj(g)>; for y = a x, Re<y, g> = Re<x, conj(a) g>.
  auto result = update;
  if (update.operation == Operation::identity) result.alpha = std::conj(update.alpha);
  result.beta = update.beta.value_or(1);
  return result;
}

}  // namespace graticule::detail
