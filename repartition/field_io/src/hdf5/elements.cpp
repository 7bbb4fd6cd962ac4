// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace graticule::detail {

namespace {

/// Of the same name; `other` for a type that files do not store.
ValueType value_type(DType dtype) {
  std::string_view const name = enum_row(dtype).name;
  for (ValueType const type : enum_values<ValueType>)
    if (enum_row(type).name == name) return type;
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
  with_type(dtype, [&]<class T>(T*) {
    if constexpr (std::is_floating_point_v<T>) {
      unpack(unpacking, stored, all_of<T>(elements, count));
    } else if constexpr (std::is_integral_v<T>) {
      unpack_integers<T>(unpacking, stored, count, elements);
    } else if constexpr (is_complex_element<T>) {
      throw Error("WrongType", "files hold no elements of type " + to_string(dtype));
    } else {
      std::array<double, block> numbers{};
      auto const size = std::size_t(size_in_bytes(unpacking.type));
      for_each_block(count, [&](std::size_t first, std::size_t some) {
        unpack(unpacking, static_cast<std::byte const*>(stored) + first * size, std::span(numbers).first(some));
        convert(some, dtype, static_cast<T*>(elements) + first, DType::f64, numbers.data());
      });
    }
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
  with_type(dtype, [&]<class T>(T*) {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::int64_t>) {
      pack(plan, std::span(static_cast<T const*>(elements), count), stored);
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(sizeof(T) < 8, "double does not hold all values");
      pack_as_double<T>(plan, elements, count, stored);
    } else if constexpr (is_complex_element<T>) {
      throw Error("WrongType", "files hold no elements of type " + to_string(dtype));
    } else {
      std::array<double, block> numbers{};
      auto const size = std::size_t(size_in_bytes(plan.type));
      for_each_block(count, [&](std::size_t first, std::size_t some) {
        convert(some, DType::f64, numbers.data(), dtype, static_cast<T const*>(elements) + first);
        pack(plan, std::span<double const>(numbers).first(some), static_cast<std::byte*>(stored) + first * size);
      });
    }
  });
}

}  // namespace graticule::detail
