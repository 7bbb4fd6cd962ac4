// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace graticule::detail {

namespace {

ValueType value_type(DType dtype) {
  switch (dtype) {
    case DType::u8: return ValueType::u8;
    case DType::i8: return ValueType::i8;
    case DType::i16: return ValueType::i16;
    case DType::i32: return ValueType::i32;
    case DType::i64: return ValueType::i64;
    case DType::f16: return ValueType::f16;
    case DType::f32: return ValueType::f32;
    case DType::f64: return ValueType::f64;
    case DType::bf16:
    case DType::c64:
    case DType::c128: break;
  }
  return ValueType::other;
}

/// Between half precision and double, rounded once.
void convert(std::size_t count, DType to_type, void* to, DType from_type, void const* from) {
  auto const task = make_transform({}, {Index(count)}, {to, to_type, {1}}, {const_cast<void*>(from), from_type, {1}});
  run_strided_host({&task, 1});
}

/// Values that go through double in one turn: they stay in the fastest cache.
constexpr std::size_t block = 2048;

template <class Visit>
void for_each_block(std::size_t count, Visit const& visit) {
  for (std::size_t done = 0; done < count; done += block) visit(done, std::min(block, count - done));
}

template <class Value>
std::span<Value> all_of(void* elements, std::size_t count) {
  return {static_cast<Value*>(elements), count};
}

template <class Integer>
void unpack_integers(Unpacking const& unpacking, void const* stored, std::size_t count, void* elements) {
  auto const part = all_of<Integer>(elements, count);
  if (auto const wrong = unpack_exactly(unpacking, stored, part); wrong < count)
    throw Error("Conversion", "stored value number " + std::to_string(wrong) +
                                  " of a piece is missing, has a fraction, or is too large for an integer of " +
                                  std::to_string(sizeof(Integer)) + " bytes");
}

}  // namespace

bool is_same(Unpacking const& unpacking, DType dtype) {
  bool const can_mark = dtype == DType::f32 || dtype == DType::f64;
  return !unpacking.swaps_bytes && !unpacking.scales && unpacking.type == value_type(dtype) &&
         (can_mark || unpacking.has_all());
}

bool is_same(PackingPlan const& plan, DType dtype) {
  return !plan.scales && !plan.fill && plan.type == value_type(dtype);
}

void unpack_elements(Unpacking const& unpacking, void const* stored, std::size_t count, DType dtype, void* elements) {
  switch (dtype) {
    case DType::f32: return unpack(unpacking, stored, all_of<float>(elements, count));
    case DType::f64: return unpack(unpacking, stored, all_of<double>(elements, count));
    case DType::u8: return unpack_integers<std::uint8_t>(unpacking, stored, count, elements);
    case DType::i8: return unpack_integers<std::int8_t>(unpacking, stored, count, elements);
    case DType::i16: return unpack_integers<std::int16_t>(unpacking, stored, count, elements);
    case DType::i32: return unpack_integers<std::int32_t>(unpacking, stored, count, elements);
    case DType::i64: return unpack_integers<std::int64_t>(unpacking, stored, count, elements);
    case DType::f16:
    case DType::bf16: break;
    case DType::c64:
    case DType::c128: throw Error("WrongType", "elements of type " + to_string(dtype));
  }
  std::array<double, block> numbers{};
  auto const size = std::size_t(size_in_bytes(unpacking.type));
  for_each_block(count, [&](std::size_t first, std::size_t some) {
    unpack(unpacking, static_cast<std::byte const*>(stored) + first * size, std::span(numbers).first(some));
    convert(some, dtype, static_cast<std::uint16_t*>(elements) + first, DType::f64, numbers.data());
  });
}

namespace {

template <class Integer>
void pack_as_double(PackingPlan const& plan, void const* elements, std::size_t count, void* stored) {
  std::array<double, block> numbers{};
  auto const size = std::size_t(size_in_bytes(plan.type));
  for_each_block(count, [&](std::size_t first, std::size_t some) {
    auto const* const part = static_cast<Integer const*>(elements) + first;
    std::copy_n(part, some, numbers.begin());
    pack(plan, std::span<double const>(numbers).first(some), static_cast<std::byte*>(stored) + first * size);
  });
}

}  // namespace

void pack_elements(PackingPlan const& plan, DType dtype, void const* elements, std::size_t count, void* stored) {
  switch (dtype) {
    case DType::f32: return pack(plan, std::span(static_cast<float const*>(elements), count), stored);
    case DType::f64: return pack(plan, std::span(static_cast<double const*>(elements), count), stored);
    case DType::i64: return pack(plan, std::span(static_cast<std::int64_t const*>(elements), count), stored);
    case DType::u8: return pack_as_double<std::uint8_t>(plan, elements, count, stored);
    case DType::i8: return pack_as_double<std::int8_t>(plan, elements, count, stored);
    case DType::i16: return pack_as_double<std::int16_t>(plan, elements, count, stored);
    case DType::i32: return pack_as_double<std::int32_t>(plan, elements, count, stored);
    case DType::f16:
    case DType::bf16: break;
    case DType::c64:
    case DType::c128: throw Error("WrongType", "elements of type " + to_string(dtype));
  }
  std::array<double, block> numbers{};
  auto const size = std::size_t(size_in_bytes(plan.type));
  for_each_block(count, [&](std::size_t first, std::size_t some) {
    convert(some, DType::f64, numbers.data(), dtype, static_cast<std::uint16_t const*>(elements) + first);
    pack(plan, std::span<double const>(numbers).first(some), static_cast<std::byte*>(stored) + first * size);
  });
}

}  // namespace graticule::detail
