// SPDX-License-Identifier: BSD-3-Clause
// Conversions, factors and packed integers of both kernels against a loop over all elements that follows the
// definition.
#include "expect_error.hpp"
#include "strided_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

using namespace graticule;
using detail::Packed;
using detail::StridedOp;
using detail::StridedTask;
using detail::Transform;
using test::draw;
using test::for_each_cell;
using test::Format;
using test::formats;
using test::nearest;
using test::Random;
using test::Runner;
using test::runners;
using test::Side;
using test::value_of;

namespace {

using Value = std::complex<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<DType, 9> real_types{DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                                          DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr std::array<DType, 2> complex_types{DType::c64, DType::c128};

bool is_integer(DType dtype) { return dtype <= DType::i64; }
bool is_complex(DType dtype) { return dtype >= DType::c64; }

template <class T>
T read(std::byte const* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

Format const& format_of(DType dtype) { return dtype == DType::f16 ? formats[0] : formats[1]; }

/// The number stored in one element.
Value stored(DType dtype, std::byte const* bytes) {
  switch (dtype) {
    case DType::u8: return double(read<std::uint8_t>(bytes));
    case DType::i8: return double(read<std::int8_t>(bytes));
    case DType::i16: return double(read<std::int16_t>(bytes));
    case DType::i32: return double(read<std::int32_t>(bytes));
    case DType::i64: return double(read<std::int64_t>(bytes));
    case DType::f16:
    case DType::bf16: return value_of(format_of(dtype), read<std::uint16_t>(bytes));
    case DType::f32: return double(read<float>(bytes));
    case DType::f64: return read<double>(bytes);
    case DType::c64: return Value(read<std::complex<float>>(bytes));
    case DType::c128: return read<Value>(bytes);
  }
  return 0;
}

template <class T>
void write_integer(std::byte* bytes, double value) {
  T result = 0;
  double const rounded = std::nearbyint(value);
  if (rounded >= std::ldexp(1.0, std::numeric_limits<T>::digits))
    result = std::numeric_limits<T>::max();
  else if (rounded <= double(std::numeric_limits<T>::min()))
    result = std::numeric_limits<T>::min();
  else if (!std::isnan(value))
    result = T(rounded);
  std::memcpy(bytes, &result, sizeof result);
}

template <class T>
void write(std::byte* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

void write_stored(DType dtype, std::byte* bytes, Value value) {
  switch (dtype) {
    case DType::u8: return write_integer<std::uint8_t>(bytes, value.real());
    case DType::i8: return write_integer<std::int8_t>(bytes, value.real());
    case DType::i16: return write_integer<std::int16_t>(bytes, value.real());
    case DType::i32: return write_integer<std::int32_t>(bytes, value.real());
    case DType::i64: return write_integer<std::int64_t>(bytes, value.real());
    case DType::f16:
    case DType::bf16: {
      auto const& format = format_of(dtype);
      bool const is_nan = std::isnan(value.real());
      return write(bytes, is_nan ? std::uint16_t(0x7fff) : nearest(format, value.real()));
    }
    case DType::f32: return write(bytes, float(value.real()));
    case DType::f64: return write(bytes, value.real());
    case DType::c64: return write(bytes, std::complex<float>(float(value.real()), float(value.imag())));
    case DType::c128: return write(bytes, value);
  }
}

/// The stored value of missing cells, rounded to the type.
double fill_of(DType dtype, Packed const& packed) {
  std::array<std::byte, 16> bytes{};
  write_stored(dtype, bytes.data(), packed.fill);
  return stored(dtype, bytes.data()).real();
}

bool is_scaled(Packed const& packed) { return packed.scale != 1 || packed.offset != 0; }

Value unpack(DType dtype, Packed const& packed, std::byte const* bytes) {
  Value const number = stored(dtype, bytes);
  if (is_complex(dtype)) return number;
  if (packed.has_fill && number.real() == fill_of(dtype, packed)) return nan_value;
  return is_scaled(packed) ? number.real() * packed.scale + packed.offset : number;
}

void pack(DType dtype, Packed const& packed, std::byte* bytes, Value value) {
  if (is_complex(dtype)) return write_stored(dtype, bytes, value);
  if (std::isnan(value.real())) return write_stored(dtype, bytes, packed.has_fill ? packed.fill : nan_value);
  write_stored(dtype, bytes, is_scaled(packed) ? (value.real() - packed.offset) / packed.scale : value.real());
}

Value times(double const (&factor)[2], Value value) {
  if (factor[1] == 0) return {factor[0] * value.real(), factor[0] * value.imag()};
  return {factor[0] * value.real() - factor[1] * value.imag(), factor[0] * value.imag() + factor[1] * value.real()};
}

Value term_of(Transform const& transform, Value from) {
  return times(transform.alpha, transform.conjugate ? std::conj(from) : from);
}

bool same_number(DType dtype, std::byte const* a, std::byte const* b) {
  if (std::memcmp(a, b, std::size_t(size_of(dtype))) == 0) return true;
  auto const same_part = [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
  };
  Value const x = stored(dtype, a);
  Value const y = stored(dtype, b);
  return !is_integer(dtype) && same_part(x.real(), y.real()) && same_part(x.imag(), y.imag());
}

/// Memory of one type with `side.size` elements, and its numbers.
struct Memory {
  DType dtype;
  Side side;
  std::vector<std::byte> bytes;

  Memory(DType type, Side const& place)
      : dtype(type), side(place), bytes(std::size_t(place.size * size_of(type)), std::byte{0x5a}) {}
  [[nodiscard]] std::byte* at(Index element) { return bytes.data() + element * size_of(dtype); }
  [[nodiscard]] std::byte* at(Indices const& index) { return at(test::offset(index, side)); }
  [[nodiscard]] detail::Elements elements() { return {at(side.first), dtype, side.strides}; }
};

/// Multiples of 1/8, so that arithmetic is exact; now and then the ends of the range, infinities, NaN.
double random_number(Random& random, DType dtype) {
  constexpr std::array<double, 8> odd{0.0, -0.0, infinity, -infinity, nan_value, 1e300, -70000, 3e9};
  if (draw(random, 0, 7) == 0 && !is_integer(dtype)) return odd[std::size_t(draw(random, 0, 7))];
  if (draw(random, 0, 7) == 0 && is_integer(dtype)) return draw(random, 0, 1) == 0 ? -1e300 : 1e300;
  return double(draw(random, -800, 800)) * 0.125;
}

void fill_randomly(Random& random, Memory& memory, Packed const& packed) {
  for (Index i = 0; i < memory.side.size; ++i)
    if (packed.has_fill && draw(random, 0, 5) == 0)
      write_stored(memory.dtype, memory.at(i), packed.fill);
    else
      write_stored(memory.dtype, memory.at(i),
                   {random_number(random, memory.dtype), random_number(random, memory.dtype)});
}

Packed random_packing(Random& random, DType dtype, bool is_target) {
  Packed result;
  if (is_complex(dtype) || draw(random, 0, 1) == 0) return result;
  if (draw(random, 0, 1) == 0) {
    result.scale = is_target && draw(random, 0, 1) == 0 ? 0.01 : 0.25;
    result.offset = double(draw(random, -2, 2));
  }
  result.has_fill = draw(random, 0, 1) == 0;
  result.fill = draw(random, 0, 3) == 0 ? nan_value : double(draw(random, -3, 100));
  return result;
}

Transform random_transform(Random& random, DType to, DType from, bool sums) {
  constexpr std::array<double, 5> factors{1, 1, -1, 2.5, 0.5};
  Transform result;
  result.alpha[0] = factors[std::size_t(draw(random, 0, 4))];
  result.beta[0] = sums ? 1 : std::array<double, 4>{0, 0, 1, -1.5}[std::size_t(draw(random, 0, 3))];
  if (is_complex(to) && draw(random, 0, 2) == 0) result.alpha[1] = -0.5;
  if (is_complex(to) && !sums && draw(random, 0, 2) == 0) result.beta[1] = 2;
  result.conjugate = draw(random, 0, 1) == 0;
  result.from = random_packing(random, from, false);
  result.to = random_packing(random, to, true);
  return result;
}

/// Follows the definition, cell by cell.
void run_reference(Transform const& transform, Indices const& extents, Memory& to, Memory& from, bool clear) {
  auto kept = Indices::filled(extents.size(), 1);
  auto summed = extents;
  for (int a = 0; a < extents.size(); ++a)
    if (to.side.strides[a] != 0) {
      kept[a] = extents[a];
      summed[a] = std::min<Index>(extents[a], 1);
    }
  for_each_cell(Box::from_extents(kept), [&](Indices const& cell) {
    bool const reads = transform.beta[0] != 0 || transform.beta[1] != 0;
    Value sum = reads ? times(transform.beta, unpack(to.dtype, transform.to, to.at(cell))) : Value(-0.0, -0.0);
    bool empty = true;
    for_each_cell(Box::from_extents(summed), [&](Indices const& at) {
      auto place = cell;
      for (int a = 0; a < extents.size(); ++a) place[a] += at[a];
      sum += term_of(transform, unpack(from.dtype, transform.from, from.at(place)));
      empty = false;
    });
    if (!empty) pack(to.dtype, transform.to, to.at(cell), sum);
  });
  if (clear)
    for_each_cell(Box::from_extents(extents),
                  [&](Indices const& at) { std::memset(from.at(at), 0, std::size_t(size_of(from.dtype))); });
}

std::string describe(Transform const& t) {
  auto const packing = [](Packed const& p) {
    return " * " + std::to_string(p.scale) + " + " + std::to_string(p.offset) +
           (p.has_fill ? " fill " + std::to_string(p.fill) : "");
  };
  return "alpha " + std::to_string(t.alpha[0]) + ", " + std::to_string(t.alpha[1]) + "; beta " +
         std::to_string(t.beta[0]) + ", " + std::to_string(t.beta[1]) + (t.conjugate ? "; conjugate" : "") + "; from" +
         packing(t.from) + "; to" + packing(t.to);
}

/// What differs from one trial to the next.
struct Trial {
  Runner run;
  Indices extents;
  bool sums = false;
  bool clear = false;
};

void expect_as_defined(Random& random, Trial const& trial, DType to_type, DType from_type) {
  auto const& extents = trial.extents;
  auto zero_to = Indices::filled(extents.size(), 0);
  auto zero_from = zero_to;
  for (int a = 0; a < extents.size(); ++a) {
    zero_to[a] = trial.sums && draw(random, 0, 1) == 0 ? 1 : 0;
    zero_from[a] = !trial.clear && draw(random, 0, 4) == 0 ? 1 : 0;
  }
  auto const transform = random_transform(random, to_type, from_type, trial.sums);
  Memory to(to_type, test::random_side(random, extents, zero_to));
  Memory from(from_type, test::random_side(random, extents, zero_from));
  fill_randomly(random, to, transform.to);
  fill_randomly(random, from, transform.from);
  auto task = detail::make_transform(transform, extents, to.elements(), from.elements());
  // The plain operations wrap integers, and round 16-bit sums twice: tested elsewhere.
  if (task.op != StridedOp::transform) return;
  task.clear_from = trial.clear;
  auto expected = to;
  auto cleared = from;
  run_reference(transform, extents, expected, cleared, trial.clear);

  trial.run(std::span(&task, 1));

  for (Index i = 0; i < to.side.size; ++i)
    ASSERT_TRUE(same_number(to_type, to.at(i), expected.at(i)))
        << to_string(from_type) << " to " << to_string(to_type) << ", element " << i << " of " << to_string(extents)
        << " is " << stored(to_type, to.at(i)) << ", not " << stored(to_type, expected.at(i)) << "; "
        << describe(transform);
  ASSERT_EQ(from.bytes, cleared.bytes) << "the cells that were read";
}

template <class Types, class Action>
void for_each_pair(Types const& types, Action const& action) {
  for (DType const to : types)
    for (DType const from : types) action(to, from);
}

template <class Action>
void for_all_pairs(Action const& action) {
  for_each_pair(real_types, action);
  for_each_pair(complex_types, action);
}

TEST(StridedTransform, follows_the_definition_for_all_types) {
  Random random(11);
  for (Runner const run : runners())
    for_all_pairs([&](DType to, DType from) {
      for (int trial = 0; trial < 40 && !testing::Test::HasFatalFailure(); ++trial) {
        auto extents = Indices::filled(int(draw(random, 0, 4)), 0);
        for (auto& extent : extents) extent = draw(random, 0, 9) == 0 ? 0 : draw(random, 1, 5);
        expect_as_defined(random, {run, extents, trial % 4 == 3, trial % 3 == 0}, to, from);
      }
    });
}

TEST(StridedTransform, follows_the_definition_on_long_rows_and_many_threads) {
  Random random(12);
  for_all_pairs([&](DType to, DType from) {
    for (Indices const& extents : std::vector<Indices>{{700}, {3, 517}, {2, 2, 300}, {1 << 16}, {40, 1700}})
      if (extents[0] < 40 || to == DType::f64 || from == DType::i16)
        for (bool const sums : {false, true})
          if (!testing::Test::HasFatalFailure())
            expect_as_defined(random, {detail::run_strided_host, extents, sums, false}, to, from);
  });
}

TEST(StridedTransform, is_a_plain_operation_where_it_can_be) {
  struct Row {
    double alpha;
    double beta;
    bool conjugate;
    Packed from;
    Packed to;
    StridedOp expected;
  };
  Packed const none;
  Packed const packed{0.1, 2, true, -1};
  for (auto const& row : std::vector<Row>{{1, 0, false, none, none, StridedOp::copy},
                                          {1, 0, true, none, none, StridedOp::copy},
                                          {-1, 0, false, none, none, StridedOp::negate},
                                          {1, 1, false, none, none, StridedOp::add},
                                          {-1, 1, true, none, none, StridedOp::subtract},
                                          {1, 0, false, packed, packed, StridedOp::copy},
                                          {-1, 0, false, packed, packed, StridedOp::transform},
                                          {1, 0, false, packed, none, StridedOp::transform},
                                          {2, 0, false, none, none, StridedOp::transform},
                                          {1, 2, false, none, none, StridedOp::transform}}) {
    Transform const transform{{row.alpha, 0}, {row.beta, 0}, row.conjugate, row.from, row.to};
    std::array<std::int32_t, 2> cells{};
    auto const task =
        detail::make_transform(transform, {2}, {&cells[0], DType::i32, {1}}, {&cells[0], DType::i32, {1}});
    auto const wider =
        detail::make_transform(transform, {1}, {&cells[0], DType::i64, {1}}, {&cells[0], DType::i32, {1}});

    EXPECT_EQ(task.op, row.expected) << describe(transform);
    EXPECT_EQ(wider.op, StridedOp::transform);
    EXPECT_EQ(wider.from_dtype, DType::i32);
    EXPECT_EQ(detail::is_ordered(task), row.beta != 0);
  }
  Transform const conjugate{{1, 0}, {0, 0}, true, {}, {}};
  Value cell;
  EXPECT_EQ(detail::make_transform(conjugate, {1}, {&cell, DType::c128, {1}}, {&cell, DType::c128, {1}}).op,
            StridedOp::transform);
}

TEST(StridedTransform, refuses_what_has_no_meaning) {
  std::array<double, 4> cells{};
  auto const rule = [&](Transform const& transform, DType to, DType from, Index to_stride) {
    return test::rule_of([&] {
      (void)detail::make_transform(transform, {2}, {&cells[0], to, {to_stride}}, {&cells[2], from, {1}});
    });
  };

  EXPECT_EQ(rule({}, DType::f64, DType::c64, 1), "Conversion");
  EXPECT_EQ(rule({}, DType::c128, DType::f64, 1), "Conversion");
  EXPECT_EQ(rule({{1, 2}, {0, 0}, false, {}, {}}, DType::f64, DType::f32, 1), "Conversion");
  EXPECT_EQ(rule({{1, 0}, {0, 0}, false, {2, 0}, {}}, DType::c64, DType::c64, 1), "Conversion");
  EXPECT_EQ(rule({{1, 0}, {0.5, 0}, false, {}, {}}, DType::f64, DType::f32, 0), "Conversion");
}

/// One row through both kernels.
template <class To, class From>
void convert(Runner run, Transform const& transform, DType to_type, DType from_type, std::vector<To>& to,
             std::vector<From>& from) {
  auto const task =
      detail::make_transform(transform, {Index(to.size())}, {to.data(), to_type, {1}}, {from.data(), from_type, {1}});
  run(std::span(&task, 1));
}

// Through f32 a value just above a tie of the narrow type would become the tie, and fall.
TEST(StridedTransform, rounds_doubles_to_16_bits_once) {
  for (auto const& format : formats) {
    std::vector<double> from{0.0, -0.0, infinity, -infinity, nan_value, 5e-324, 1e-46, 1e300, -1e300, 3.4e38, -3.5e38};
    for (std::uint16_t bits = 0; bits < format.infinity; ++bits) {
      double const below = value_of(format, bits);
      double const above = value_of(format, std::uint16_t(bits + 1));
      double const tie = std::isinf(above) ? below + (below - value_of(format, std::uint16_t(bits - 1))) / 2
                                           : below + (above - below) / 2;
      for (double const value : {below, tie, std::nextafter(tie, 0.0), std::nextafter(tie, infinity),
                                 tie * (1 - 0x1p-30), tie * (1 + 0x1p-30), below + (tie - below) / 3})
        from.push_back(bits % 2 == 0 ? value : -value);
    }
    for (Runner const run : runners()) {
      std::vector<std::uint16_t> to(from.size());

      convert(run, {}, format.dtype, DType::f64, to, from);

      for (std::size_t i = 0; i < from.size(); ++i) {
        if (std::isnan(from[i]))
          ASSERT_TRUE(std::isnan(value_of(format, to[i])));
        else
          ASSERT_EQ(to[i], nearest(format, from[i])) << to_string(format.dtype) << " of " << from[i];
      }
    }
  }
}

TEST(StridedTransform, rounds_to_even_and_saturates_integers) {
  std::vector<double> from{0.5,           1.5,   -0.5,      -2.5,      2147483647.5,
                           -2147483648.5, 1e300, -infinity, nan_value, 0.49999999999999994};
  std::vector<std::int32_t> const as_i32{0, 2, 0, -2, 2147483647, INT32_MIN, 2147483647, INT32_MIN, 0, 0};
  std::vector<std::int64_t> const as_i64{0, 2, 0, -2, 2147483648, -2147483648, INT64_MAX, INT64_MIN, 0, 0};
  std::vector<std::uint8_t> const as_u8{0, 2, 0, 0, 255, 0, 255, 0, 0, 0};
  for (Runner const run : runners()) {
    std::vector<std::int32_t> i32(from.size());
    std::vector<std::int64_t> i64(from.size());
    std::vector<std::uint8_t> u8(from.size());

    convert(run, {}, DType::i32, DType::f64, i32, from);
    convert(run, {}, DType::i64, DType::f64, i64, from);
    convert(run, {}, DType::u8, DType::f64, u8, from);

    EXPECT_EQ(i32, as_i32);
    EXPECT_EQ(i64, as_i64);
    EXPECT_EQ(u8, as_u8);
  }
}

TEST(StridedTransform, keeps_all_bits_of_64_bit_integers) {
  std::vector<std::int64_t> from{INT64_MAX, INT64_MIN, (std::int64_t(1) << 53) + 1, -7};
  for (Runner const run : runners()) {
    std::vector<std::int64_t> to(from.size());

    convert(run, {}, DType::i64, DType::i64, to, from);

    EXPECT_EQ(to, from);
  }
}

TEST(StridedTransform, unpacks_and_packs_every_16_bit_integer) {
  Packed const packed{0.01, 273.15, true, -32767};
  std::vector<std::int16_t> from(65536);
  for (int i = 0; i < 65536; ++i) from[std::size_t(i)] = std::int16_t(i - 32768);
  for (Runner const run : runners()) {
    std::vector<float> values(from.size());
    std::vector<std::int16_t> back(from.size());

    convert(run, {{1, 0}, {0, 0}, false, packed, {}}, DType::f32, DType::i16, values, from);
    convert(run, {{1, 0}, {0, 0}, false, {}, packed}, DType::i16, DType::f32, back, values);

    EXPECT_EQ(values[0], float(-32768 * 0.01 + 273.15));
    EXPECT_TRUE(std::isnan(values[1]));
    EXPECT_EQ(back, from);
  }
}

TEST(StridedTransform, does_not_read_what_it_overwrites) {
  for (Runner const run : runners()) {
    std::vector<double> to{nan_value, infinity, nan_value};
    std::vector<float> from{1, 2, 3};

    convert(run, {{-2, 0}, {0, 0}, false, {}, {}}, DType::f64, DType::f32, to, from);

    EXPECT_EQ(to, (std::vector<double>{-2, -4, -6}));
  }
}

TEST(StridedTransform, multiplies_complex_numbers_and_their_conjugates) {
  Transform const transform{{0, 2}, {0, 1}, true, {}, {}};
  for (Runner const run : runners()) {
    std::vector<std::complex<float>> to{{5, 7}, {0, 1}};
    std::vector<Value> from{{1, 3}, {-2, 4}};

    convert(run, transform, DType::c64, DType::c128, to, from);

    // 2i * (1 - 3i) + i * (5 + 7i) and 2i * (-2 - 4i) + i * i
    EXPECT_EQ(to, (std::vector<std::complex<float>>{{-1, 7}, {7, -4}}));
  }
}

// In 16 bits, 2048 + 1 is 2048: the terms must meet before they are rounded.
TEST(StridedTransform, rounds_a_sum_once) {
  Transform const transform{{1, 0}, {1, 0}, false, {}, {}};
  for (Runner const run : runners()) {
    std::uint16_t cell = nearest(formats[0], 2048);
    std::vector<float> from(300, 1.0F);
    auto const task =
        detail::make_transform(transform, {3, 100}, {&cell, DType::f16, {0, 0}}, {from.data(), DType::f32, {100, 1}});

    run(std::span(&task, 1));

    EXPECT_EQ(value_of(formats[0], cell), 2348);
  }
}

/// Numbers that lie on ties between two integers or beside them, and what may become of the others in their row.
template <class From>
std::vector<From> numbers_near_ties(Random& random, Packed const& packed, Index count) {
  std::vector<From> values;
  for (Index i = 0; i < count; ++i) {
    auto value = From(packed.offset + (double(draw(random, -40000, 40000)) + 0.5) * packed.scale);
    for (Index step = draw(random, -2, 2); step != 0; step += step < 0 ? 1 : -1)
      value = std::nextafter(value, From(step < 0 ? -infinity : infinity));
    values.push_back(value);
  }
  values[3] = From(nan_value);
  values[5] = From(infinity);
  values[6] = From(-infinity);
  return values;
}

template <class To, class From>
void expect_packed_as_divided(std::vector<From> const& from, Packed const& packed, double alpha) {
  auto const count = Index(from.size());
  std::vector<To> to(from.size() + 1, To(77));
  StridedTask task;
  task.op = StridedOp::transform;
  task.from_dtype = sizeof(From) == 4 ? DType::f32 : DType::f64;
  task.dtype = sizeof(To) == 4 ? DType::i32 : sizeof(To) == 2 ? DType::i16 : DType(std::is_signed_v<To> ? 1 : 0);
  task.from = from.data();
  task.to = to.data();
  task.ndim = 1;
  task.extent = {count};
  task.from_stride = {1};
  task.to_stride = {1};
  task.transform.to = packed;
  task.transform.alpha[0] = alpha;
  detail::Unfit noted;
  detail::Unfit expected;
  task.unfit = &noted;

  detail::run_strided_host(std::span(&task, 1));

  for (std::size_t i = 0; i < from.size(); ++i) {
    double const exact = (double(from[i]) * alpha - packed.offset) / packed.scale;
    double const nearest = std::nearbyint(exact);
    if (std::isnan(exact))
      expected.not_a_number |= packed.has_fill ? 0 : 1;
    else if (nearest < double(std::numeric_limits<To>::min()) || nearest > double(std::numeric_limits<To>::max()))
      expected.beyond = 1;
    else if (packed.has_fill && nearest == packed.fill)
      expected.missing = 1;
    double const divided = (double(from[i]) * alpha - packed.offset) / packed.scale;
    double const number = std::isnan(divided) ? (packed.has_fill ? packed.fill : 0) : divided;
    double const limited =
        std::clamp(number, double(std::numeric_limits<To>::min()), double(std::numeric_limits<To>::max()));
    ASSERT_EQ(to[i], To(std::nearbyint(limited)))
        << i << ": " << from[i] << " in " << packed.scale << " from " << packed.offset;
  }
  ASSERT_EQ(to.back(), To(77));
  // In u8, -99 is no stored value.
  if (packed.has_fill && packed.fill < double(std::numeric_limits<To>::min())) noted.missing = expected.missing;
  ASSERT_EQ(noted.beyond, expected.beyond) << packed.scale << " from " << packed.offset;
  ASSERT_EQ(noted.not_a_number, expected.not_a_number) << packed.scale << " from " << packed.offset;
  ASSERT_EQ(noted.missing, expected.missing) << packed.scale << " from " << packed.offset;
}

/// A single number that does not fit, at any place of a row whose other numbers do.
TEST(StridedTransform, notes_a_single_number_that_does_not_fit) {
  Random random(73);
  for (int trial = 0; trial < 4000; ++trial) {
    double const scale = std::ldexp(double(draw(random, 1, 1000)) * (draw(random, 0, 1) == 0 ? -0.01 : 0.01), -3);
    Packed const packed{scale, double(draw(random, -300, 300)), draw(random, 0, 1) == 0, -77};
    std::vector<float> from(std::size_t(draw(random, 1, 70)));
    for (auto& value : from) {
      value = packed.has_fill && draw(random, 0, 9) == 0
                  ? float(nan_value)
                  : float(packed.offset + scale * double(draw(random, -32000, 32000)));
      if (!std::isnan(value) && std::nearbyint((double(value) - packed.offset) / scale) == -77) value = 0;
    }
    auto& one = from[std::size_t(draw(random, 0, Index(from.size()) - 1))];
    Index const kind = draw(random, 0, 4);
    // The border on either side and just outside, as near as f32 has it.
    double const edge =
        draw(random, 0, 1) == 0 ? 32767.0 + double(draw(random, 0, 4)) / 4 : -32768.0 - double(draw(random, 0, 4)) / 4;
    if (kind == 0) one = float(nan_value);
    if (kind == 1) one = infinity;
    if (kind == 2) one = float(packed.offset + scale * edge);
    if (kind == 3) one = float(packed.offset + scale * -77);

    expect_packed_as_divided<std::int16_t>(from, packed, 1);
    expect_packed_as_divided<std::int16_t>(std::vector<double>(from.begin(), from.end()), packed, 1);
    expect_packed_as_divided<std::int32_t>(std::vector<double>(from.begin(), from.end()), packed, 1);
    if (HasFatalFailure()) return;
  }
}

/// Multiplying by the inverse scale would round some of them to the other side.
TEST(StridedTransform, packs_as_a_division_does) {
  static_assert(int(DType::u8) == 0 && int(DType::i8) == 1);
  Random random(71);
  for (double const scale : {0.01, 0.3, -1e-3, 2.0, 7e4, 0x1p-1000})
    for (auto const& packed :
         {Packed{.scale = scale, .offset = 273.15, .has_fill = true, .fill = -99}, Packed{.scale = scale}}) {
      double const alpha = scale == 0.3 ? -1.5 : 1;
      expect_packed_as_divided<std::int16_t>(numbers_near_ties<float>(random, packed, 301), packed, alpha);
      expect_packed_as_divided<std::int16_t>(numbers_near_ties<double>(random, packed, 301), packed, alpha);
      expect_packed_as_divided<std::int32_t>(numbers_near_ties<double>(random, packed, 301), packed, alpha);
      expect_packed_as_divided<std::int8_t>(numbers_near_ties<double>(random, packed, 301), packed, alpha);
      expect_packed_as_divided<std::uint8_t>(numbers_near_ties<float>(random, packed, 301), packed, alpha);
    }
}

/// One number of a row has a quotient that close to a tie that sums of fixed precision may round it to the other side,
/// some are missing, and the others lie anywhere.
TEST(StridedTransform, packs_as_a_division_does_wherever_the_offset_lies) {
  Random random(72);
  for (int trial = 0; trial < 4000; ++trial) {
    double const scale = double(draw(random, 1, 1000)) * std::ldexp(0.001, int(draw(random, -20, 10)));
    double const quotient = double(draw(random, -32768, 32766)) + 0.5 + std::ldexp(double(draw(random, -32, 32)), -18);
    double const spread = std::ldexp(scale, int(draw(random, 8, 28)));
    std::vector<float> from(19);
    for (auto& value : from)
      value = draw(random, 0, 9) == 0 ? float(nan_value) : float(double(draw(random, -1000, 1000)) / 1000 * spread);
    auto const at = std::size_t(draw(random, 0, 15));
    from[at] = float(double(draw(random, -1000, 1000)) / 1000 * spread);
    double const alpha = draw(random, 0, 1) == 0 ? 1 : -2.5;
    Packed const packed{scale, double(from[at]) * alpha - quotient * scale, true, double(draw(random, -32768, 32767))};
    for (std::size_t i = 0; i < from.size(); ++i)
      if (i != at && draw(random, 0, 2) != 0)
        from[i] = float((packed.offset + scale * double(draw(random, -40000, 40000))) / alpha);

    expect_packed_as_divided<std::int16_t>(from, packed, alpha);
    if (HasFatalFailure()) return;
  }
}

/// Rows of integers and floats in one memory, element for element.
TEST(StridedTransform, unpacks_in_place) {
  std::vector<std::int32_t> cells(1000);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = std::int32_t(i) - 500;
  StridedTask task;
  task.op = StridedOp::transform;
  task.from_dtype = DType::i32;
  task.dtype = DType::f32;
  task.from = cells.data();
  task.to = cells.data();
  task.ndim = 1;
  task.extent = {Index(cells.size())};
  task.from_stride = {1};
  task.to_stride = {1};
  task.transform.from = {.scale = 0.25, .offset = 2, .has_fill = true, .fill = 0};

  detail::run_strided_host(std::span(&task, 1));

  for (std::size_t i = 0; i < cells.size(); ++i) {
    float value = 0;
    std::memcpy(&value, &cells[i], sizeof value);
    if (i == 500)
      ASSERT_TRUE(std::isnan(value));
    else
      ASSERT_EQ(value, 0.25F * (float(i) - 500) + 2);
  }
}

}  // namespace
