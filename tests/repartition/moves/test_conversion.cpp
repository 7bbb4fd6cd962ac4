// SPDX-License-Identifier: BSD-3-Clause
// Values of every type become values of every other, as a plain reference says, on every path; or are refused by name.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::rule_of;

namespace {

constexpr Index num_values = 96;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

using MaybePacking = std::optional<Packing>;

bool is_integer(DType dtype) { return dtype <= DType::i64; }
bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }

/// The nearest number of `fraction_bits` and exponents from `least` to `most`, ties to even.
double rounded(double value, int fraction_bits, int least, int most) {
  if (!std::isfinite(value) || value == 0) return value;
  double const unit = std::ldexp(1.0, std::max(std::ilogb(value), least) - fraction_bits);
  double const result = std::nearbyint(value / unit) * unit;
  return std::abs(result) >= std::ldexp(1.0, most + 1) ? std::copysign(infinity, value) : std::copysign(result, value);
}

template <class T>
T loaded(std::byte const* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The number that the bytes of an element stand for.
std::complex<double> number(DType dtype, std::byte const* from) {
  switch (dtype) {
    case DType::u8: return double(loaded<std::uint8_t>(from));
    case DType::i8: return double(loaded<std::int8_t>(from));
    case DType::i16: return double(loaded<std::int16_t>(from));
    case DType::i32: return double(loaded<std::int32_t>(from));
    case DType::i64: return double(loaded<std::int64_t>(from));
    case DType::f16: {
      auto const bits = loaded<std::uint16_t>(from);
      int const exponent = bits >> 10U & 31;
      int const fraction = bits & 1023;
      double const size = exponent == 31  ? (fraction ? nan_value : infinity)
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(1024 + fraction, exponent - 25);
      return bits >> 15U ? -size : size;
    }
    case DType::bf16: {
      std::uint32_t const bits = std::uint32_t(loaded<std::uint16_t>(from)) << 16U;
      return double(loaded<float>(reinterpret_cast<std::byte const*>(&bits)));
    }
    case DType::f32: return double(loaded<float>(from));
    case DType::f64: return loaded<double>(from);
    case DType::c64: return std::complex<double>(loaded<std::complex<float>>(from));
    case DType::c128: return loaded<std::complex<double>>(from);
  }
  return 0;
}

/// The number that an element holds after `value` was stored.
double stored(DType dtype, double value) {
  auto const integer = [&](double low, double high) {
    return std::isnan(value) ? 0.0 : std::clamp(std::nearbyint(value), low, high);
  };
  switch (dtype) {
    case DType::u8: return integer(0, 255);
    case DType::i8: return integer(-128, 127);
    case DType::i16: return integer(-32768, 32767);
    case DType::i32: return integer(-0x1p31, 0x1p31 - 1);
    case DType::i64: return integer(-0x1p63, 0x1p63);
    case DType::f16: return rounded(value, 10, -14, 15);
    case DType::bf16: return rounded(value, 7, -126, 127);
    case DType::f32:
    case DType::c64: return double(float(value));
    default: return value;
  }
}

/// Element `i`: numbers that no type holds exactly, ties, limits, infinities and NaN; random numbers.
void set_element(DType dtype, Index i, std::byte* to) {
  auto const store = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  auto const random = bits_of<std::int64_t>({}, {i});
  std::vector<double> const special{
      0.0,      -0.0,      1 + 0x1p-11, 1 + 3 * 0x1p-11, -1 - 0x1p-8, 1 + 0x1p-24, 0.1, 65519.0, 65520.0, -1e30, 1e300,
      infinity, -infinity, nan_value,   0x1p-25,         0x3p-25,     -0x1p-140,   2.5, 3.5,     -0.5,    127.5};
  double const real =
      i < Index(special.size()) ? special[std::size_t(i)] : std::ldexp(double(random % 1000003), int(random % 31) - 20);
  switch (dtype) {
    case DType::u8: return store(std::uint8_t(random));
    case DType::i8: return store(std::int8_t(random));
    case DType::i16: return store(std::int16_t(i % 3 == 0 ? random % 120 : random));
    case DType::i32: return store(std::int32_t(i % 3 == 0 ? random % 120 : random));
    // Within what a double counts.
    case DType::i64: return store(std::int64_t(i % 3 == 0 ? random % 120 : random >> 12U));
    case DType::f16: return store(std::uint16_t(i < 8 ? 0x7bff + i : random));
    case DType::bf16: return store(std::uint16_t(i < 8 ? 0x7f7d + i : random));
    case DType::f32: return store(float(real));
    case DType::f64: return store(real);
    case DType::c64: return store(std::complex<float>(float(real), float(i)));
    case DType::c128: return store(std::complex<double>(real, 0.1 * double(i)));
  }
}

/// What a cell holds after `x` was moved into it.
double moved(double x, DType to, MaybePacking const& from_packing, MaybePacking const& to_packing) {
  double value = x;
  if (from_packing)
    value = from_packing->missing && x == double(*from_packing->missing)
                ? nan_value
                : x * from_packing->scale + from_packing->offset;
  if (!to_packing) return stored(to, value);
  double const packed = (value - to_packing->offset) / to_packing->scale;
  if (std::isnan(packed) && to_packing->missing) return double(*to_packing->missing);
  return stored(to, packed);
}

/// Types that become others without a packing: all of whose values the other type has, and floating-point types.
bool is_allowed(DType from, DType to, MaybePacking const& from_packing, MaybePacking const& to_packing) {
  if ((from_packing && !is_integer(from)) || (to_packing && !is_integer(to))) return false;
  if (from_packing || to_packing) return !is_complex(from) && !is_complex(to);
  constexpr std::string_view becomes[] = {
      "u8 i16 i32 i64",   "i8 i16 i32 i64",   "i16 i32 i64",      "i32 i64",  "i64",     "f16 bf16 f32 f64",
      "f16 bf16 f32 f64", "f16 bf16 f32 f64", "f16 bf16 f32 f64", "c64 c128", "c64 c128"};
  auto const name = to_string(to);
  auto const list = " " + std::string(becomes[std::size_t(from)]) + " ";
  return list.find(" " + name + " ") != std::string::npos;
}

bool is_equal(double a, double b, bool with_sign) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && (!with_sign || std::signbit(a) == std::signbit(b));
}

struct Elements {
  std::vector<std::byte> bytes;
  FieldView view;

  Elements(DType dtype, Box const& box) : bytes(std::size_t(size_of(dtype) * box.num_cells())) {
    view = {bytes.data(), dtype, box.extents(), {1}, {0}, MemorySpace::host};
  }
};

/// The element `i` as it is stored in `from` becomes a number that `to` holds.
bool fits(DType from, Index i, DType to, MaybePacking const& from_packing, MaybePacking const& to_packing) {
  if (!is_integer(to) || !(from_packing || to_packing)) return true;
  std::vector<std::byte> element(std::size_t(size_of(from)));
  set_element(from, i, element.data());
  double value = number(from, element.data()).real();
  if (from_packing)
    value = from_packing->missing && value == double(*from_packing->missing)
                ? nan_value
                : value * from_packing->scale + from_packing->offset;
  auto const missing = to_packing ? to_packing->missing : std::nullopt;
  if (std::isnan(value)) return missing.has_value();
  double const nearest = std::nearbyint(to_packing ? (value - to_packing->offset) / to_packing->scale : value);
  double const end = to == DType::u8 ? 256 : std::ldexp(1.0, int(8 * size_of(to)) - 1);
  double const begin = to == DType::u8 ? 0 : -end;
  return nearest >= begin && nearest < end && !(missing && nearest == double(*missing));
}

TEST(Conversion, of_every_type_to_every_other_is_as_the_reference_says_or_refused) {
  auto const comm = Comm::world();
  auto const all = Box::from_extents({num_values});
  Layout const parts(ProcessGrid{comm.num_ranks()}, Indices{num_values});
  RepartitionPlan const plan(comm, parts, all);
  std::vector<MaybePacking> const from_packings{{}, Packing{0.5, 3, 7}};
  std::vector<MaybePacking> const to_packings{{}, Packing{0.25, -1, 100}, Packing{2, 0.5, {}}};
  int num_moved = 0;
  int num_refused = 0;
  for (int pair = 0; pair < test::num_dtypes * test::num_dtypes; ++pair) {
    auto const from = DType(pair / test::num_dtypes);
    auto const to = DType(pair % test::num_dtypes);
    for (auto const& from_packing : from_packings)
      for (auto const& to_packing : to_packings) {
        SCOPED_TRACE(to_string(from) + (from_packing ? " packed" : "") + " to " + to_string(to) +
                     (to_packing ? " packed" : ""));
        bool const allowed = is_allowed(from, to, from_packing, to_packing);
        auto const does_fit = [&](Index i) { return fits(from, i, to, from_packing, to_packing); };
        // In the place of numbers that the target does not hold, one that it does.
        std::vector<Index> elements;
        Index good = 0;
        Index bad = -1;
        while (allowed && !does_fit(good)) ++good;
        ASSERT_LT(good, num_values);
        for (Index i = 0; i < num_values; ++i) {
          elements.push_back(allowed && does_fit(i) ? i : good);
          if (allowed && !does_fit(i) && (bad < 0 || i % 7 == 3)) bad = i;
        }
        Elements source(from, plan.source_box());
        auto const fill = [&] {
          for (Index i = 0; i < plan.source_box().extent(0); ++i)
            set_element(from, elements[std::size_t(plan.source_box().lo(0) + i)],
                        source.bytes.data() + i * size_of(from));
        };
        fill();
        Elements target(to, all);
        RepartitionField const field{.from = source.view,
                                     .to = target.view,
                                     .update = {},
                                     .from_packing = from_packing,
                                     .to_packing = to_packing};

        ASSERT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), allowed ? "nothing was thrown" : "Conversion");

        if (!allowed) continue;
        ++num_moved;
        for (Index i = 0; i < num_values; ++i) {
          std::vector<std::byte> element(std::size_t(size_of(from)));
          set_element(from, elements[std::size_t(i)], element.data());
          auto const x = number(from, element.data());
          auto const y = number(to, target.bytes.data() + i * size_of(to));
          auto const expected = moved(x.real(), to, from_packing, to_packing);
          ASSERT_TRUE(is_equal(y.real(), expected, !is_integer(to)))
              << "element " << i << ", " << x.real() << ", becomes " << y.real() << ", not " << expected;
          ASSERT_TRUE(is_equal(y.imag(), stored(to, x.imag()), false)) << "element " << i;
        }
        if (bad < 0) continue;
        ++num_refused;
        elements[std::size_t(bad)] = bad;
        fill();
        ASSERT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), "Conversion") << "element " << bad;
      }
  }
  // 34 pairs without a packing; packed integers from and to all real types.
  EXPECT_EQ(num_moved, 34 + 5 * 9 + 2 * 9 * 5 + 2 * 5 * 5);
  EXPECT_GT(num_refused, 80);
}

using test::ErrorWith;

/// Of packed integers, of factors, and of sums; in one cell of one rank that moves to another, forwards and back.
TEST(Conversion, to_integers_that_do_not_hold_a_number_is_an_error_on_all_ranks) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{2 * n, 40 * n});
  Layout const columns(ProcessGrid{1, n}, Indices{2 * n, 40 * n});
  RepartitionPlan const plan(comm, rows, columns);
  RepartitionPlan const back(comm, columns, rows);
  std::vector<double> numbers(std::size_t(80 * n), 5);
  std::vector<double> numbers_to_come(numbers);
  std::vector<std::int16_t> shorts(numbers.size(), 3);
  auto const source = field_view(numbers.data(), {2, 40 * n}, 2);
  // Dense rows, and every cell by itself.
  std::vector<std::int16_t> scattered(2 * numbers.size(), 3);
  std::vector<FieldView> const targets{field_view(shorts.data(), {2 * n, 40}, 2),
                                       field_view(scattered.data(), {2 * n, 40}, {80, 2}, {0, 1})};
  struct Row {
    double number;
    Packing packing;
    char const* words;
  };
  // Columns that stay on the last rank, and that move to it.
  for (Index const column : {Index(40 * n - 1), Index(0)})
    for (auto const& target : targets)
      for (auto const& row : std::vector<Row>{
               {nan_value, {0.5, 10, {}}, "NaN cannot be stored as i16 with scale 0.5 and offset 10"},
               {1e9, {0.5, 10, -1}, "outside of -16374 to 16393.5 cannot be stored as i16"},
               {-infinity, {1, 0, {}}, "outside of -32768 to 32767 cannot be stored as i16"},
               {32767.5, {1, 0, {}}, "outside of -32768 to 32767"},
               {9.6,
                {0.5, 10, -1},
                "a number near 9.5 cannot be stored as i16 with scale 0.5 and offset 10: it becomes -1"}}) {
        auto const with_packing = [&](Packing const& packing) {
          return RepartitionField{.from = source, .to = target, .to_packing = packing};
        };
        auto const field = with_packing(row.packing);
        auto& cell = numbers[std::size_t(40 * n + column)];
        if (comm.rank() == n - 1) cell = row.number;

        EXPECT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), (ErrorWith{"Conversion", row.words}));
        EXPECT_EQ(rule_of([&] { plan.start(std::span(&field, 1)).wait(); }), (ErrorWith{"Conversion", row.words}));
        RepartitionField const inverse{.from = target, .to = source, .from_packing = row.packing};
        EXPECT_EQ(rule_of([&] { back.apply_inverse(std::span(&inverse, 1)); }),
                  (ErrorWith{"Conversion", "cannot be stored as i16"}));

        // The next call is not touched by it.
        cell = 5;
        EXPECT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), "nothing was thrown");
      }
  // Factors and sums, without a packing.
  auto const small = targets[0];
  std::vector<std::int16_t> from(numbers.size(), 300);
  auto const integers = field_view(from.data(), {2, 40 * n}, 2);
  for (auto const& update : std::vector<Update>{{.alpha = 200}, {.alpha = -110}, {.alpha = 1, .beta = 11000.0}})
    EXPECT_EQ(rule_of([&] { plan.apply(integers, small, update); }),
              (ErrorWith{"Conversion", "outside of -32768 to 32767 cannot be stored as i16"}));
  std::fill(shorts.begin(), shorts.end(), std::int16_t(32600));
  EXPECT_EQ(rule_of([&] { plan.apply(integers, small, {.beta = 1.0}); }), (ErrorWith{"Conversion", "i16"}));
  EXPECT_EQ(rule_of([&] { plan.apply(integers, small, {.alpha = 109}); }), "nothing was thrown");
  EXPECT_EQ(shorts.front(), 32700);
  std::vector<std::uint8_t> bytes(numbers.size(), 7);
  std::vector<std::uint8_t> negative(numbers.size());
  EXPECT_EQ(rule_of([&] {
              plan.apply(field_view(bytes.data(), {2, 40 * n}, 2), field_view(negative.data(), {2 * n, 40}, 2),
                         {.alpha = -1});
            }),
            (ErrorWith{"Conversion", "outside of 0 to 255 cannot be stored as u8"}));
}

/// The same where the fields of the tests lie, which may be a device.
TEST(Conversion, to_integers_that_do_not_hold_a_number_is_found_where_fields_lie) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  RepartitionPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{2 * n, 6 * n}),
                             Layout(ProcessGrid{1, n}, Indices{2 * n, 6 * n}));
  auto const shape = test::MemoryShape::dense(2, 0);
  test::TestField<double> from(plan.source_box(), {}, shape, 1);
  test::TestField<std::int16_t> to(plan.target_box(), {}, shape, 2);
  RepartitionField const field{.from = from.view(), .to = to.view(), .to_packing = Packing{0.5, 10, -1}};
  Indices const last{2 * n - 1, 6 * n - 1};
  for (double const number : {5.0, 1e9, 9.5, nan_value, 6.0}) {
    from.set(plan.source_box(), [&](auto const&, auto const& cell) { return cell == last ? number : 5.0; });
    bool const fits = number == 5 || number == 6 || std::isnan(number);

    EXPECT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), fits ? "nothing was thrown" : "Conversion") << number;

    if (fits && plan.target_box().contains(last)) {
      EXPECT_EQ(to.at({}, last), std::isnan(number) ? -1 : std::int16_t(2 * (number - 10))) << number;
    }
  }
}

/// A rank that refuses such a call refuses it for all.
TEST(Conversion, to_integers_that_one_rank_refuses_ends_on_all_ranks) {
  auto const comm = Comm::world();
  if (std::getenv("GRATICULE_CHECK")) GTEST_SKIP() << "in check mode the others get CallDisagreement";
  Index const n = comm.num_ranks();
  Layout const parts(ProcessGrid{n}, Indices{4 * n});
  RepartitionPlan const plan(comm, parts, parts);
  std::vector<double> from(4, 1);
  std::vector<std::int16_t> to(4);
  auto const source = field_view(from.data(), {4}, 1);
  RepartitionField const good{.from = source, .to = field_view(to.data(), {4}, 1), .to_packing = Packing{0.5, 0, {}}};
  auto wrong = good;
  if (comm.rank() == n - 1) wrong.to = field_view(to.data(), {3}, 1);

  EXPECT_EQ(rule_of([&] { plan.apply(std::span(&wrong, 1)); }), "FieldMismatch");
  plan.apply(std::span(&good, 1));

  EXPECT_EQ(to, std::vector<std::int16_t>(4, 2));
}

TEST(Conversion, of_packed_integers_adds_numbers_not_what_is_stored) {
  auto const comm = Comm::world();
  auto const all = Box::from_extents({num_values});
  Layout const parts(ProcessGrid{comm.num_ranks()}, Indices{num_values});
  RepartitionPlan const plan(comm, parts, all);
  std::vector<double> from(std::size_t(plan.source_box().num_cells()));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = double(plan.source_box().lo(0)) + double(i);
  std::vector<std::int16_t> to(num_values);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::int16_t(i % 10 == 0 ? -1 : 4 * Index(i));
  RepartitionField const field{.from = field_view(from.data(), {Index(from.size())}, 1),
                               .to = field_view(to.data(), {num_values}, 1),
                               .update = {.alpha = 2, .beta = 3.0},
                               .to_packing = Packing{0.5, 10, -1}};

  plan.apply(std::span(&field, 1));

  for (Index i = 0; i < num_values; ++i) {
    // 2 x + 3 (10 + stored / 2), stored with the same packing; what is missing stays missing.
    Index const expected = i % 10 == 0 ? -1 : 2 * (2 * i + 3 * (10 + 2 * i) - 10);
    ASSERT_EQ(to[std::size_t(i)], expected) << i;
  }
}

TEST(Conversion, back_from_packed_integers_returns_what_was_stored) {
  auto const comm = Comm::world();
  auto const all = Box::from_extents({num_values});
  Layout const parts(ProcessGrid{comm.num_ranks()}, Indices{num_values});
  RepartitionPlan const plan(comm, parts, all);
  Index const count = plan.source_box().num_cells();
  Index const lo = plan.source_box().lo(0);
  std::vector<std::int16_t> from(std::size_t(count), -7);
  std::vector<float> to(num_values, -7);
  for (Index i = 0; i < count; ++i) from[std::size_t(i)] = std::int16_t(i % 7 == 0 ? -1 : 300 * (lo + i));
  auto const before = from;
  RepartitionField const field{.from = field_view(from.data(), {count}, 1),
                               .to = field_view(to.data(), {num_values}, 1),
                               .update = {},
                               .from_packing = Packing{0.01, 273.15, -1}};
  plan.apply(std::span(&field, 1));
  for (auto& value : from) value = 0;

  plan.apply_inverse(std::span(&field, 1));

  EXPECT_EQ(from, before);
}

TEST(Conversion, refuses_packings_without_numbers) {
  auto const comm = Comm::world();
  Layout const parts(ProcessGrid{comm.num_ranks()}, Indices{num_values});
  RepartitionPlan const plan(comm, parts, parts);
  Elements from(DType::f64, plan.source_box());
  Elements to(DType::i16, plan.target_box());
  for (auto const& packing : {Packing{0, 1, {}}, Packing{nan_value, 1, {}}, Packing{1, infinity, {}},
                              Packing{1, 0, 32768}, Packing{1, 0, -32769}}) {
    RepartitionField const field{.from = from.view, .to = to.view, .to_packing = packing};
    EXPECT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), "Conversion");
  }
}

}  // namespace
