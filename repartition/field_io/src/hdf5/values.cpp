// SPDX-License-Identifier: BSD-3-Clause
#include "values.hpp"

#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <utility>

namespace graticule::detail {

namespace {

/// IEEE binary16 as its bits; converted by `as_double`.
struct Half {
  std::uint16_t bits;
};

double as_double(Half half) {
  int const exponent = half.bits >> 10U & 0x1fU;
  int const mantissa = half.bits & 0x3ffU;
  double magnitude = 0;
  if (exponent == 0x1f)
    magnitude = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else
    magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return (half.bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::uint16_t half_bits(double value) {
  auto const sign = std::uint16_t(std::signbit(value) ? 0x8000U : 0U);
  double const size = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00U;
  if (size >= 65520) return sign | 0x7c00U;
  int exponent = 0;
  std::frexp(size, &exponent);
  int const scale = size == 0 ? -24 : std::max(exponent - 11, -24);
  auto const units_in = std::nearbyint(std::ldexp(size, -scale));
  if (scale == -24) return std::uint16_t(sign + unsigned(units_in));
  return std::uint16_t(sign + unsigned(units_in) + (unsigned(scale + 24) << 10U));
}

namespace {

template <class T>
requires std::is_arithmetic_v<T>
double as_double(T value) { return double(value); }

template <int Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = std::uint64_t;
};
template <class T>
using BitsOf = typename UnsignedOf<sizeof(T)>::type;

template <class Bits>
Bits swapped(Bits bits) {
  if constexpr (sizeof(Bits) == 2) return __builtin_bswap16(bits);
  if constexpr (sizeof(Bits) == 4) return __builtin_bswap32(bits);
  if constexpr (sizeof(Bits) == 8) return __builtin_bswap64(bits);
  return bits;
}

/// Calls `visit` with a value of the C++ type that `type` stands for.
template <class Visit>
void with_type(ValueType type, Visit const& visit) {
  switch (type) {
    case ValueType::i8: return visit(std::int8_t());
    case ValueType::u8: return visit(std::uint8_t());
    case ValueType::i16: return visit(std::int16_t());
    case ValueType::u16: return visit(std::uint16_t());
    case ValueType::i32: return visit(std::int32_t());
    case ValueType::u32: return visit(std::uint32_t());
    case ValueType::i64: return visit(std::int64_t());
    case ValueType::u64: return visit(std::uint64_t());
    case ValueType::f16: return visit(Half());
    case ValueType::f32: return visit(float());
    case ValueType::f64: return visit(double());
    case ValueType::text:
    case ValueType::other: break;
  }
  throw Error("WrongType", "values of type " + std::string(to_string(type)) + " are no numbers");
}

/// `number` as bits of an integer type, if that type holds it exactly.
template <class T, class Number>
std::optional<std::uint64_t> integer_bits(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    // Both bounds are powers of two, so they are exact as double.
    double const low = double(std::numeric_limits<T>::min());
    double const high = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(number >= low && number < high) || number != std::trunc(number)) return {};
    return BitsOf<T>(T(number));
  } else {
    auto const value = T(number);
    // 64-bit unsigned values arrive with their bits in a signed integer.
    if constexpr (sizeof(T) < 8)
      if (Number(value) != number) return {};
    return BitsOf<T>(value);
  }
}

template <class T, class Number>
std::optional<std::uint64_t> missing_bits(Number number) {
  if constexpr (std::is_same_v<T, Half>) {
    for (std::uint32_t bits = 0; bits < 0x10000U; ++bits)
      if (as_double(Half{std::uint16_t(bits)}) == double(number)) return bits;
    return {};
  } else if constexpr (std::is_floating_point_v<T>) {
    // Files often give the missing value of a float variable as a double: it is meant rounded.
    return std::bit_cast<BitsOf<T>>(T(number));
  } else {
    return integer_bits<T>(number);
  }
}

/// Calls `visit(bits)` for each number of the attribute that the type holds.
template <class T, class Visit>
void for_each_bits(Attribute const& attribute, Visit const& visit) {
  auto const add = [&](std::optional<std::uint64_t> bits) {
    if (bits) visit(*bits);
  };
  if (auto const* integers = std::get_if<std::vector<Index>>(&attribute.value))
    for (auto const number : *integers) add(missing_bits<T>(number));
  if (auto const* floats = std::get_if<std::vector<double>>(&attribute.value))
    for (auto const number : *floats) add(missing_bits<T>(number));
}

void add_missing(Attribute const& attribute, ValueType type, std::vector<std::uint64_t>& missing) {
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    for_each_bits<T>(attribute, [&](std::uint64_t bits) {
      // NaN is missing by itself.
      if constexpr (!std::is_integral_v<T>)
        if (std::isnan(as_double(std::bit_cast<T>(BitsOf<T>(bits))))) return;
      missing.push_back(bits);
    });
    // Zeros of both signs are equal and differ in bits.
    if constexpr (!std::is_integral_v<T>) {
      constexpr std::uint64_t negative = std::uint64_t(1) << (8 * sizeof(T) - 1);
      bool const has_zero =
          std::any_of(missing.begin(), missing.end(), [&](auto bits) { return bits == 0 || bits == negative; });
      if (has_zero) missing.insert(missing.end(), {0, negative});
    }
  });
}

/// Bits of the attribute's first number that the type holds.
std::optional<std::uint64_t> first_bits(Attribute const& attribute, ValueType type) {
  std::optional<std::uint64_t> first;
  with_type(type, [&](auto sample) {
    for_each_bits<decltype(sample)>(attribute, [&](std::uint64_t bits) { first = first.value_or(bits); });
  });
  return first;
}

ValueType signed_of(ValueType type) {
  auto const row = enum_row(type);
  if (row.kind != StoredKind::unsigned_integer) return type;
  for (ValueType const other : enum_values<ValueType>)
    if (unsigned_of(other) == type && other != type) return other;
  return type;
}

/// The type of the stored bits: servers of OPeNDAP pass bytes on as unsigned ones, with `_Unsigned = "false"` for those
/// that are not.
ValueType meant_type(Variable const& variable) {
  // Python's str(True) is 'True', and netCDF4 reads it so.
  auto text = variable.text("_Unsigned");
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (text == "true") return unsigned_of(variable.type);
  return text == "false" ? signed_of(variable.type) : variable.type;
}

bool counts_up(Variable const& variable) {
  auto const type = meant_type(variable);
  return type == ValueType::u8 || type == ValueType::u16 || type == ValueType::u32 || type == ValueType::u64;
}

/// For messages: `'0.5'`, `nan`, `1, 2`.
std::string shown(Attribute const& attribute) {
  if (attribute.type == ValueType::text) return "'" + attribute.text() + "'";
  std::ostringstream text;
  for (double const number : attribute.numbers()) text << (text.tellp() > 0 ? ", " : "") << number;
  return text.str();
}

double single_number(FileContents const& contents, Variable const& variable, Attribute const& attribute) {
  auto const numbers = attribute.numbers();
  bool const is_scale = attribute.name == "scale_factor";
  bool const is_number = numbers.size() == 1 && std::isfinite(numbers.front());
  if (is_number && !(is_scale && numbers.front() == 0)) return numbers.front();
  throw Error(Fault::input, "UnreadableVariable",
              attribute.name + " of variable " + variable.name + " of " + contents.path.string() + " is " +
                  shown(attribute) + ", not one finite number" + (is_scale ? " other than 0" : "") +
                  "; correct it with `ncatted -O -a " + attribute.name + "," + variable.name + ",o,d,NUMBER FILE`");
}

/// A number of the stored type as the one that its bits stand for.
double as_meant(Variable const& variable, double number) {
  double const all = std::ldexp(1.0, 8 * size_in_bytes(variable.type));
  if (counts_up(variable)) return number < 0 ? number + all : number;
  return meant_type(variable) != variable.type && number >= all / 2 ? number - all : number;
}

/// Reads the limits of valid values, in units of unpacked values. By the netCDF conventions, limits of the stored
/// values' type, or of another integer type, are packed as these are. An interval without extent is a placeholder.
/// Coordinates are taken as they are.
void read_limits(Variable const& variable, Unpacking& unpacking) {
  if (variable.ndim() == 1 && variable.dimensions.front() == variable.name) return;
  bool const stores_integers =
      variable.type != ValueType::f16 && variable.type != ValueType::f32 && variable.type != ValueType::f64;
  auto const unpacked = [&](Attribute const& attribute, double number) {
    bool const is_real = std::holds_alternative<std::vector<double>>(attribute.value);
    if (unpacking.scales && is_real && stores_integers) return number;
    if (unpacking.scales && attribute.type == ValueType::f64 && variable.type == ValueType::f32) return number;
    if (!is_real) number = as_meant(variable, number);
    // Often given as a double: it is meant rounded.
    if (variable.type == ValueType::f32) number = double(float(number));
    return unpacking.scales ? number * unpacking.scale + unpacking.offset : number;
  };
  auto limits = std::pair(unpacking.lower, unpacking.upper);
  auto const read = [&](char const* name, std::size_t count, double* first, double* second) {
    auto const* attribute = variable.attribute(name);
    auto const numbers = attribute != nullptr ? attribute->numbers() : std::vector<double>();
    if (numbers.size() != count) return;
    *first = unpacked(*attribute, numbers.front());
    *second = unpacked(*attribute, numbers.back());
  };
  bool const is_falling = unpacking.scales && unpacking.scale < 0;
  double range[2] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  read("valid_range", 2, &range[0], &range[1]);
  if (std::isnan(range[0]) || std::isnan(range[1])) {
    read("valid_min", 1, &range[0], &range[0]);
    read("valid_max", 1, &range[1], &range[1]);
    if (is_falling) std::swap(range[0], range[1]);
  } else if (range[0] > range[1] && is_falling) {
    std::swap(range[0], range[1]);
  }
  if (!std::isnan(range[0])) limits.first = range[0];
  if (!std::isnan(range[1])) limits.second = range[1];
  if (limits.first < limits.second) std::tie(unpacking.lower, unpacking.upper) = limits;
}

bool holds_default_fill(Variable const& variable, Unpacking const& unpacking) {
  if (variable.attribute("_FillValue") != nullptr || variable.type == ValueType::f16) return false;
  bool const is_real = variable.type == ValueType::f32 || variable.type == ValueType::f64;
  return is_real || (unpacking.scales && size_in_bytes(variable.type) > 1);
}

/// Calls `visit(i, bits, number)` for each stored value, unpacked. Plain loops, so that compilers vectorise them.
template <class Stored, bool Swaps, class Visit>
void for_each_number(Unpacking const& unpacking, void const* stored, std::size_t count, Visit const& visit) {
  using Bits = BitsOf<Stored>;
  auto const* bytes = static_cast<char const*>(stored);
  auto const load = [bytes](std::size_t i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    if constexpr (Swaps) bits = swapped(bits);
    return bits;
  };
  double const scale = unpacking.scale;
  double const offset = unpacking.offset;
  if (unpacking.scales) {
    for (std::size_t i = 0; i < count; ++i) {
      Bits const bits = load(i);
      visit(i, bits, as_double(std::bit_cast<Stored>(bits)) * scale + offset);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      Bits const bits = load(i);
      visit(i, bits, as_double(std::bit_cast<Stored>(bits)));
    }
  }
}

/// NaN is.
bool is_valid(Unpacking const& unpacking, double number) {
  return !(number < unpacking.lower || number > unpacking.upper);
}

template <class Stored, bool Swaps, class Value>
void unpack_as(Unpacking const& unpacking, void const* stored, std::span<Value> values) {
  using Bits = BitsOf<Stored>;
  constexpr auto nan = std::numeric_limits<Value>::quiet_NaN();
  auto* const out = values.data();
  auto const& missing = unpacking.missing;
  if (unpacking.has_limits()) {
    for_each_number<Stored, Swaps>(unpacking, stored, values.size(), [&](std::size_t i, Bits bits, double number) {
      bool const is_missing =
          !is_valid(unpacking, number) || std::binary_search(missing.begin(), missing.end(), std::uint64_t(bits));
      out[i] = is_missing ? nan : Value(number);
    });
  } else if (missing.empty()) {
    for_each_number<Stored, Swaps>(unpacking, stored, values.size(),
                                   [out](std::size_t i, Bits, double number) { out[i] = Value(number); });
  } else if (missing.size() == 1) {
    auto const gap = Bits(missing.front());
    for_each_number<Stored, Swaps>(
        unpacking, stored, values.size(),
        [out, gap](std::size_t i, Bits bits, double number) { out[i] = bits == gap ? nan : Value(number); });
  } else {
    for_each_number<Stored, Swaps>(unpacking, stored, values.size(), [&](std::size_t i, Bits bits, double number) {
      bool const is_missing = std::binary_search(missing.begin(), missing.end(), std::uint64_t(bits));
      out[i] = is_missing ? nan : Value(number);
    });
  }
}

std::uint64_t unwritten_bits(Variable const& variable) {
  auto const* attribute = variable.attribute("_FillValue");
  if (attribute == nullptr) return enum_row(variable.type).fill;
  auto bits = first_bits(*attribute, variable.type);
  if (!bits) bits = first_bits(*attribute, meant_type(variable));
  return bits.value_or(enum_row(variable.type).fill);
}

}  // namespace

bool swaps_bytes(Variable const& variable) {
  return size_in_bytes(variable.type) > 1 && variable.is_big_endian != (std::endian::native == std::endian::big);
}

std::vector<std::byte> unwritten_value(Variable const& variable) {
  std::vector<std::byte> value(std::size_t(variable.value_bytes), std::byte{});
  if (variable.type == ValueType::text) {
    auto const text = variable.text("_FillValue");
    std::memcpy(value.data(), text.data(), std::min(text.size(), value.size()));
    return value;
  }
  auto const bits = unwritten_bits(variable);
  with_type(variable.type, [&](auto sample) {
    auto const stored = BitsOf<decltype(sample)>(bits);
    std::memcpy(value.data(), &stored, sizeof stored);
  });
  return value;
}

void fill_unwritten(Variable const& variable, Index num_cells, void* target) {
  auto value = unwritten_value(variable);
  if (swaps_bytes(variable)) swap_bytes(value.data(), variable.value_bytes, 1);
  auto* at = static_cast<std::byte*>(target);
  for (Index i = 0; i < num_cells; ++i, at += value.size()) std::copy(value.begin(), value.end(), at);
}

Attribute default_fill(ValueType type) {
  auto const bits = enum_row(type).fill;
  if (type == ValueType::f16) return Attribute::of_number("_FillValue", as_double(Half{std::uint16_t(bits)}), type);
  if (type == ValueType::f32)
    return Attribute::of_number("_FillValue", std::bit_cast<float>(std::uint32_t(bits)), type);
  if (type == ValueType::f64) return Attribute::of_number("_FillValue", std::bit_cast<double>(bits), type);
  Attribute attribute{"_FillValue", type, std::vector<Index>{}};
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_integral_v<T>) attribute.value = std::vector<Index>{Index(T(bits))};
  });
  return attribute;
}

Unpacking unpacking_of(FileContents const& contents, Variable const& variable) {
  Unpacking unpacking;
  unpacking.type = meant_type(variable);
  unpacking.swaps_bytes = swaps_bytes(variable);
  if (auto const* scale = variable.attribute("scale_factor")) {
    unpacking.scale = single_number(contents, variable, *scale);
    unpacking.scales = true;
  }
  if (auto const* offset = variable.attribute("add_offset")) {
    unpacking.offset = single_number(contents, variable, *offset);
    unpacking.scales = true;
  }
  for (auto const* name : {"_FillValue", "missing_value"})
    if (auto const* attribute = variable.attribute(name)) {
      if (attribute->type == ValueType::text && !attribute->text().empty())
        throw Error(Fault::input, "UnreadableVariable",
                    std::string(name) + " of variable " + variable.name + " of " + contents.path.string() +
                        " is text, not a number; remove it with `ncatted -O -a " + name + "," + variable.name +
                        ",d,, FILE`");
      add_missing(*attribute, unpacking.type, unpacking.missing);
      // `_Unsigned` speaks of the attributes as well: those of the stored type have the sign that the data have.
      if (variable.type != unpacking.type) add_missing(*attribute, variable.type, unpacking.missing);
    }
  if (variable.is_short() || holds_default_fill(variable, unpacking))
    unpacking.missing.push_back(unwritten_bits(variable));
  read_limits(variable, unpacking);
  std::sort(unpacking.missing.begin(), unpacking.missing.end());
  unpacking.missing.erase(std::unique(unpacking.missing.begin(), unpacking.missing.end()), unpacking.missing.end());
  return unpacking;
}

template <class Value>
bool reads_in_place(Unpacking const& unpacking) {
  return !unpacking.swaps_bytes && !unpacking.scales &&
         unpacking.type == (std::is_same_v<Value, float> ? ValueType::f32 : ValueType::f64);
}

namespace {

/// A function of its own: within another loop GCC 12 compares one value at a time, three times as slow.
template <class Value>
[[gnu::noinline]] bool holds_bits(std::span<Value> part, BitsOf<Value> bits) {
  BitsOf<Value> found = 0;
  for (Value const value : part) found |= BitsOf<Value>(std::bit_cast<BitsOf<Value>>(value) == bits);
  return found != 0;
}

/// Marks missing values where they lie. Most blocks have none: they are only compared.
template <class Value>
void mark_missing(Unpacking const& unpacking, std::span<Value> values) {
  using Bits = BitsOf<Value>;
  constexpr std::size_t block = 1024;
  auto const lower = Value(unpacking.lower);
  auto const upper = Value(unpacking.upper);
  bool const has_limits = unpacking.has_limits();
  for (std::size_t first = 0; first < values.size(); first += block) {
    auto const part = values.subspan(first, std::min(block, values.size() - first));
    unsigned found = 0;
    for (auto const missing : unpacking.missing) found |= unsigned(holds_bits(part, Bits(missing)));
    if (has_limits)
      for (Value const value : part) found |= unsigned(value < lower) | unsigned(value > upper);
    if (found == 0) continue;
    unpack_as<Value, false, Value>(unpacking, part.data(), part);
  }
}

}  // namespace

template <class Value>
void unpack(Unpacking const& unpacking, void const* stored, std::span<Value> values) {
  if (reads_in_place<Value>(unpacking) && stored == static_cast<void const*>(values.data()))
    return mark_missing(unpacking, values);
  with_type(unpacking.type, [&](auto sample) {
    using Stored = decltype(sample);
    if (unpacking.swaps_bytes)
      unpack_as<Stored, true>(unpacking, stored, values);
    else
      unpack_as<Stored, false>(unpacking, stored, values);
  });
}

namespace {

/// Nothing unless the integer type holds `number` exactly.
template <class Integer, class Number>
std::optional<Integer> exactly(Number number) {
  if constexpr (std::is_integral_v<Number>) {
    if (!std::in_range<Integer>(number)) return {};
  } else {
    // Both bounds are powers of two, so they are exact as double.
    double const low = double(std::numeric_limits<Integer>::min());
    double const high = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
    if (!(number >= low && number < high) || number != std::trunc(number)) return {};
  }
  return Integer(number);
}

template <class Stored, class Integer>
std::optional<Integer> exact_value(Unpacking const& unpacking, BitsOf<Stored> bits) {
  auto const& missing = unpacking.missing;
  if (std::binary_search(missing.begin(), missing.end(), std::uint64_t(bits))) return {};
  auto const value = std::bit_cast<Stored>(bits);
  if constexpr (std::is_integral_v<Stored>)
    if (!unpacking.scales) return is_valid(unpacking, as_double(value)) ? exactly<Integer>(value) : std::nullopt;
  double const number = unpacking.scales ? as_double(value) * unpacking.scale + unpacking.offset : as_double(value);
  return is_valid(unpacking, number) ? exactly<Integer>(number) : std::nullopt;
}

}  // namespace

template <class Integer>
std::size_t unpack_exactly(Unpacking const& unpacking, void const* stored, std::span<Integer> values) {
  auto const* const bytes = static_cast<char const*>(stored);
  std::size_t i = 0;
  with_type(unpacking.type, [&](auto sample) {
    using Stored = decltype(sample);
    for (; i < values.size(); ++i) {
      BitsOf<Stored> bits;
      std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
      if (unpacking.swaps_bytes) bits = swapped(bits);
      auto const value = exact_value<Stored, Integer>(unpacking, bits);
      if (!value) return;
      values[i] = *value;
    }
  });
  return i;
}

template std::size_t unpack_exactly<std::uint8_t>(Unpacking const&, void const*, std::span<std::uint8_t>);
template std::size_t unpack_exactly<std::int8_t>(Unpacking const&, void const*, std::span<std::int8_t>);
template std::size_t unpack_exactly<std::int16_t>(Unpacking const&, void const*, std::span<std::int16_t>);
template std::size_t unpack_exactly<std::int32_t>(Unpacking const&, void const*, std::span<std::int32_t>);
template std::size_t unpack_exactly<std::int64_t>(Unpacking const&, void const*, std::span<std::int64_t>);

namespace {

template <class Bits>
void swap_each(void* values, std::size_t count) {
  auto* const bytes = static_cast<char*>(values);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    bits = swapped(bits);
    std::memcpy(bytes + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

}  // namespace

void swap_bytes(void* values, Index value_bytes, std::size_t count) {
  if (value_bytes == 2) swap_each<std::uint16_t>(values, count);
  if (value_bytes == 4) swap_each<std::uint32_t>(values, count);
  if (value_bytes == 8) swap_each<std::uint64_t>(values, count);
}

namespace {

[[noreturn]] void refuse_value(double value, ValueType type) {
  throw Error("Conversion",
              "a cell of " + std::to_string(value) + " cannot be stored as " + std::string(to_string(type)));
}

template <class Stored>
Stored stored_value(PackingPlan const& plan, double value) {
  if (std::isnan(value) && plan.fill) {
    if constexpr (std::is_same_v<Stored, Half>)
      return Half{half_bits(*plan.fill)};
    else
      return Stored(*plan.fill);
  }
  double const packed = plan.scales ? (value - plan.offset) / plan.scale : value;
  if constexpr (std::is_same_v<Stored, Half>) {
    return Half{half_bits(packed)};
  } else if constexpr (std::is_floating_point_v<Stored>) {
    return Stored(packed);
  } else {
    double const rounded = std::nearbyint(packed);
    double const low = double(std::numeric_limits<Stored>::min());
    double const high = std::ldexp(1.0, std::numeric_limits<Stored>::digits);
    if (!(rounded >= low && rounded < high)) refuse_value(value, plan.type);
    // A value that looks like a missing one would be lost.
    if (plan.fill && rounded == *plan.fill) refuse_value(value, plan.type);
    return Stored(rounded);
  }
}

}  // namespace

namespace {

/// 64-bit integers as they are: not all of them are numbers of double.
template <class Stored>
Stored stored_value(PackingPlan const& plan, std::int64_t value) {
  if constexpr (std::is_integral_v<Stored>)
    if (!plan.scales) {
      bool const looks_missing = plan.fill && exactly<std::int64_t>(*plan.fill) == value;
      if (!std::in_range<Stored>(value) || looks_missing) refuse_value(double(value), plan.type);
      return Stored(value);
    }
  return stored_value<Stored>(plan, double(value));
}

}  // namespace

template <class Value>
void pack(PackingPlan const& plan, std::span<Value const> values, void* stored) {
  with_type(plan.type, [&](auto sample) {
    using Stored = decltype(sample);
    auto* bytes = static_cast<char*>(stored);
    for (std::size_t i = 0; i < values.size(); ++i) {
      using Number = std::conditional_t<std::is_integral_v<Value>, std::int64_t, double>;
      auto const value = stored_value<Stored>(plan, Number(values[i]));
      std::memcpy(bytes + i * sizeof(Stored), &value, sizeof(Stored));
    }
  });
}

template void pack<float>(PackingPlan const&, std::span<float const>, void*);
template void pack<std::int64_t>(PackingPlan const&, std::span<std::int64_t const>, void*);
template void pack<double>(PackingPlan const&, std::span<double const>, void*);
template bool reads_in_place<float>(Unpacking const&);
template bool reads_in_place<double>(Unpacking const&);
template void unpack<float>(Unpacking const&, void const*, std::span<float>);
template void unpack<double>(Unpacking const&, void const*, std::span<double>);

}  // namespace graticule::detail

namespace graticule {

void require_packing(FileContents const& contents, Variable const& variable) {
  for (auto const* name : {"scale_factor", "add_offset"})
    if (auto const* attribute = variable.attribute(name))
      static_cast<void>(detail::single_number(contents, variable, *attribute));
}

std::optional<double> probable_fill(Variable const& variable) {
  if (variable.attribute("_FillValue") != nullptr || variable.attribute("scale_factor") != nullptr ||
      variable.attribute("add_offset") != nullptr)
    return {};
  auto const row = enum_row(variable.type);
  bool const is_integer =
      row.kind == detail::StoredKind::signed_integer || row.kind == detail::StoredKind::unsigned_integer;
  if (!is_integer || row.bytes == 1) return {};
  return detail::as_meant(variable, detail::default_fill(variable.type).numbers().front());
}

std::string probable_fill_text(Variable const& variable) {
  if (!probable_fill(variable)) return {};
  auto const bits = enum_row(variable.type).fill;
  if (detail::counts_up(variable)) return std::to_string(bits);
  int const unused = 64 - 8 * int(size_in_bytes(variable.type));
  return std::to_string(std::int64_t(bits << unused) >> unused);
}

std::string limits_text(Variable const& variable) {
  std::string text;
  for (auto const* name : {"valid_range", "valid_min", "valid_max"})
    if (auto const* attribute = variable.attribute(name); attribute != nullptr && !attribute->numbers().empty())
      text += (text.empty() ? "" : ", ") + std::string(name) + " = " + detail::shown(*attribute);
  return text;
}

}  // namespace graticule
