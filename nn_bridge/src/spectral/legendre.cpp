// SPDX-License-Identifier: BSD-3-Clause
#include "legendre.hpp"

#include <graticule/partition/detail/hash.hpp>

#include "batched_product.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

namespace graticule::nn::detail {

namespace {

/// Orders in one batch of matrix products: few enough that padding them to equal degrees costs little.
constexpr Index block_orders = 8;

/// A number times radix^exponent.
constexpr double radix = 0x1p960;
constexpr double root = 0x1p480;

struct Scaled {
  double number;
  int exponent = 0;

  void normalize() noexcept {
    if (std::abs(number) >= root) {
      number /= radix;
      ++exponent;
    } else if (std::abs(number) < 1 / root && number != 0) {
      number *= radix;
      --exponent;
    }
  }
  [[nodiscard]] double value() const noexcept { return exponent == 0 ? number : exponent < 0 ? 0 : HUGE_VAL; }
};

/// (-1)^m sqrt((2 m + 1)!! / (4 pi (2 m)!!)) cosine^m
Scaled sectoral(double cosine, Index m) {
  Scaled p{std::sqrt(0.25 / std::numbers::pi)};
  for (Index k = 1; k <= m; ++k) {
    p.number *= -std::sqrt(double(2 * k + 1) / double(2 * k)) * cosine;
    p.normalize();
  }
  return p;
}

/// Complex [orders, lines, batch], with elements, as real [orders, lines, 2 batch] that shares memory where it can.
torch::Tensor parts_of(torch::Tensor const& x) {
  return torch::view_as_real(x.contiguous()).view({x.size(0), x.size(1), 2 * x.size(2)});
}

/// Orders first, first + 2, ... of a block.
torch::Tensor orders_of(torch::Tensor const& x, Index first, Index num_orders) {
  return x.slice(0, first, first + 2 * num_orders - 1, 2);
}

}  // namespace

MirroredRows::MirroredRows(LatitudeRule const& rule) : num_rows(rule.num_rows()) {
  // Equally spaced rows with one pole mirror each other, except for that pole.
  Index first = 0;
  Index last = 0;
  auto const mirror = [&](Index begin, Index end) {
    for (Index i = begin, j = end - 1; i < j; ++i, --j) {
      auto const [north, south] = std::pair(std::size_t(i), std::size_t(j));
      if (rule.sines[north] != -rule.sines[south] || rule.cosines[north] != rule.cosines[south]) return false;
    }
    first = begin;
    last = end;
    return true;
  };
  (void)(mirror(0, num_rows) || mirror(1, num_rows) || mirror(0, num_rows - 1));
  first_pair = first;
  num_pairs = (last - first) / 2;
  last_partner = last - num_pairs;
  num_places = num_rows - num_pairs;
  auto const add = [&](Index row, Index place, Index size) {
    if (size > 0) singles.push_back({row, place, size});
  };
  add(0, 0, first);
  add(first + num_pairs, first + num_pairs, last_partner - first - num_pairs);
  add(last, last - num_pairs, num_rows - last);
}

std::vector<double> legendre_functions(LatitudeRule const& rule, MirroredRows const& rows, Index num_degrees, Index m) {
  auto const places = std::size_t(rows.num_places);
  auto const degrees = std::size_t(std::max(Index(0), num_degrees - m));
  std::vector<double> values(degrees * places);
  std::vector<double> a(degrees);
  std::vector<double> b(degrees);
  for (std::size_t d = 1; d < degrees; ++d) {
    auto const l = double(m + Index(d));
    auto const before = l - 1;
    a[d] = std::sqrt((4 * l * l - 1) / (l * l - double(m * m)));
    b[d] = std::sqrt((before * before - double(m * m)) / (4 * before * before - 1));
  }
  for (std::size_t i = 0; i < places && degrees > 0; ++i) {
    auto const row = Index(i) < rows.last_partner ? i : i + std::size_t(rows.num_pairs);
    auto const sine = rule.sines[row];
    auto now = sectoral(rule.cosines[row], m);
    Scaled last{0, now.exponent};
    values[i] = now.value();
    for (std::size_t d = 1; d < degrees; ++d) {
      Scaled next{a[d] * (sine * now.number - b[d] * last.number), now.exponent};
      last = now;
      now = next;
      if (now.exponent < 0 && std::abs(now.number) >= root) {
        now.normalize();
        last = {last.number / radix, now.exponent};
      }
      values[d * places + i] = now.value();
    }
  }
  return values;
}

LegendreTable::LegendreTable(LatitudeRule const& rule, Index num_degrees, Index first_order, Index num_orders,
                             torch::TensorOptions const& options)
    : rows_(rule), num_degrees_(num_degrees), num_orders_(num_orders) {
  for (Index at = 0; at < num_orders; at += 2 * block_orders) {
    auto const end = std::min(num_orders, at + 2 * block_orders);
    for (Index first = at; first < std::min(end, at + 2); ++first) {
      auto block = make_block(rule, first, (end - first + 1) / 2, first_order);
      block.even = block.even.to(options);
      block.odd = block.odd.to(options);
      blocks_.push_back(std::move(block));
    }
  }
}

LegendreTable::Block LegendreTable::make_block(LatitudeRule const& rule, Index first, Index num_orders,
                                               Index first_order) const {
  auto const places = rows_.num_places;
  auto const degree = first_order + first;
  auto const num_even = (num_degrees_ - degree + 1) / 2;
  auto const num_odd = (num_degrees_ - degree) / 2;
  Block block{.first = first,
              .num_orders = num_orders,
              .degree = degree,
              .even = torch::zeros({num_orders, num_even, places}, torch::kDouble),
              .odd = torch::zeros({num_orders, num_odd, places}, torch::kDouble)};
  for (Index o = 0; o < num_orders; ++o) {
    auto const values = legendre_functions(rule, rows_, num_degrees_, degree + 2 * o);
    auto const degrees = num_degrees_ - degree - 2 * o;
    for (Index d = 0; d < degrees; ++d) {
      auto const& part = d % 2 == 0 ? block.even : block.odd;
      auto* const to = part.data_ptr<double>() + (o * part.size(1) + o + d / 2) * places;
      std::copy_n(values.begin() + d * places, places, to);
    }
  }
  return block;
}

std::shared_ptr<LegendreTable const> LegendreTable::find(LatitudeRule const& rule, Index num_degrees, Index first_order,
                                                         Index num_orders, torch::TensorOptions const& options) {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::weak_ptr<LegendreTable const>> tables;
  auto const device = options.device();
  auto const key = Hash()
                       .add(rule.fingerprint())
                       .add(num_degrees)
                       .add(first_order)
                       .add(num_orders)
                       .add(int(c10::typeMetaToScalarType(options.dtype())))
                       .add(int(device.type()))
                       .add(int(device.index()))
                       .value();
  std::lock_guard const lock(mutex);
  std::erase_if(tables, [](auto const& entry) { return entry.second.expired(); });
  auto table = tables[key].lock();
  if (!table) {
    table = std::make_shared<LegendreTable const>(rule, num_degrees, first_order, num_orders, options);
    tables[key] = table;
  }
  return table;
}

torch::Tensor LegendreTable::apply(torch::Tensor const& y) const {
  auto c = torch::empty({num_orders_, num_degrees_, y.size(2)}, y.options().requires_grad(false));
  if (c.numel() == 0) return c;
  auto const from = parts_of(y);
  for (auto const& block : blocks_) analyse(block, from, parts_of(c));
  return c;
}

torch::Tensor LegendreTable::apply_adjoint(torch::Tensor const& c) const {
  auto y = torch::empty({num_orders_, rows_.num_rows, c.size(2)}, c.options().requires_grad(false));
  if (y.numel() == 0) return y;
  auto const from = parts_of(c);
  for (auto const& block : blocks_) synthesise(block, from, parts_of(y));
  return y;
}

void LegendreTable::analyse(Block const& block, torch::Tensor const& y, torch::Tensor const& c) const {
  auto const all = orders_of(y, block.first, block.num_orders);
  auto even = torch::empty({block.num_orders, rows_.num_places, y.size(2)}, y.options());
  auto odd = torch::empty_like(even);
  auto const [first, size] = std::pair(rows_.first_pair, rows_.num_pairs);
  auto const north = all.narrow(1, first, size);
  auto const south = all.narrow(1, rows_.last_partner, size).flip(1);
  auto even_pairs = even.narrow(1, first, size);
  auto odd_pairs = odd.narrow(1, first, size);
  at::add_out(even_pairs, north, south);
  at::sub_out(odd_pairs, north, south);
  for (auto const& single : rows_.singles)
    for (auto const& part : {even, odd})
      part.narrow(1, single.place, single.size).copy_(all.narrow(1, single.row, single.size));

  auto const degrees = orders_of(c, block.first, block.num_orders);
  degrees.narrow(1, 0, block.degree).zero_();
  batched_product(degrees.slice(1, block.degree, {}, 2), block.even, even);
  if (block.odd.size(1) > 0) batched_product(degrees.slice(1, block.degree + 1, {}, 2), block.odd, odd);
}

void LegendreTable::synthesise(Block const& block, torch::Tensor const& c, torch::Tensor const& y) const {
  auto const degrees = orders_of(c, block.first, block.num_orders);
  auto const even = torch::empty({block.num_orders, rows_.num_places, c.size(2)}, c.options());
  auto const odd = torch::empty_like(even);
  batched_product(even, block.even.transpose(1, 2), degrees.slice(1, block.degree, {}, 2));
  batched_product(odd, block.odd.transpose(1, 2), degrees.slice(1, block.degree + 1, {}, 2));
  auto const all = orders_of(y, block.first, block.num_orders);
  auto const [first, size] = std::pair(rows_.first_pair, rows_.num_pairs);
  auto north = all.narrow(1, first, size);
  at::add_out(north, even.narrow(1, first, size), odd.narrow(1, first, size));
  all.narrow(1, rows_.last_partner, size).copy_((even.narrow(1, first, size) - odd.narrow(1, first, size)).flip(1));
  for (auto const& single : rows_.singles) {
    auto row = all.narrow(1, single.row, single.size);
    at::add_out(row, even.narrow(1, single.place, single.size), odd.narrow(1, single.place, single.size));
  }
}

}  // namespace graticule::nn::detail
