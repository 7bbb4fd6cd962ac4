// SPDX-License-Identifier: BSD-3-Clause
#include "legendre.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

namespace graticule::nn::detail {

namespace {

/// Orders in one batch of matrix products: few enough that padding them to equal degrees costs little.
constexpr Index block_orders = 16;

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

}  // namespace

std::vector<double> legendre_functions(LatitudeRule const& rule, Index num_degrees, Index m) {
  auto const rows = std::size_t(rule.num_rows());
  auto const degrees = std::size_t(std::max(Index(0), num_degrees - m));
  std::vector<double> values(degrees * rows);
  std::vector<double> a(degrees);
  std::vector<double> b(degrees);
  for (std::size_t d = 1; d < degrees; ++d) {
    auto const l = double(m + Index(d));
    auto const before = l - 1;
    a[d] = std::sqrt((4 * l * l - 1) / (l * l - double(m * m)));
    b[d] = std::sqrt((before * before - double(m * m)) / (4 * before * before - 1));
  }
  for (std::size_t i = 0; i < rows && degrees > 0; ++i) {
    auto const sine = rule.sines[i];
    auto now = sectoral(rule.cosines[i], m);
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
      values[d * rows + i] = now.value();
    }
  }
  return values;
}

LegendreTable::LegendreTable(LatitudeRule const& rule, Index num_degrees, Index first_order, Index num_orders,
                             torch::TensorOptions const& options)
    : num_degrees_(num_degrees) {
  // One block without orders where there are none, so that products keep their shapes and their graph.
  for (Index at = 0; at == 0 || at < num_orders; at += block_orders) {
    auto const orders = std::min(block_orders, num_orders - at);
    auto const degrees = orders > 0 ? num_degrees - (first_order + at) : num_degrees;
    auto values = torch::zeros({orders, degrees, rule.num_rows()}, torch::kDouble);
    for (Index o = 0; o < orders; ++o) {
      auto const functions = legendre_functions(rule, num_degrees, first_order + at + o);
      auto* const to = values.data_ptr<double>() + ((o * degrees) + o) * rule.num_rows();
      std::copy(functions.begin(), functions.end(), to);
    }
    blocks_.push_back({orders, degrees, values.to(options)});
  }
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

namespace {

/// `torch::view_as_real` and `view_as_complex`, also for tensors without elements: LibTorch refuses their strides.
torch::Tensor parts_of(torch::Tensor const& x) {
  if (x.numel() > 0) return torch::view_as_real(x.resolve_conj());
  return torch::stack({torch::real(x), torch::imag(x)}, -1);
}

torch::Tensor complex_of(torch::Tensor const& parts) {
  if (parts.numel() > 0) return torch::view_as_complex(parts.contiguous());
  return torch::complex(parts.select(-1, 0), parts.select(-1, 1));
}

/// Complex [..., lines, orders] as real [orders, 2 * batch, lines], and the way back.
torch::Tensor orders_first(torch::Tensor const& x) {
  auto const batch = c10::multiply_integers(x.sizes().slice(0, std::size_t(x.dim() - 2)));
  return parts_of(x).movedim({-2, -1}, {0, -2}).reshape({x.size(-1), 2 * batch, x.size(-2)});
}

torch::Tensor orders_last(torch::Tensor const& y, torch::Tensor const& like) {
  auto sizes = like.sizes().vec();
  auto const orders = sizes.back();
  sizes.erase(sizes.end() - 2, sizes.end());
  sizes.insert(sizes.begin(), orders);
  sizes.push_back(2);
  sizes.push_back(y.size(-1));
  return complex_of(y.reshape(sizes).movedim({0, -2}, {-2, -1}));
}

}  // namespace

torch::Tensor LegendreTable::analyse(torch::Tensor const& x) const {
  auto const flat = orders_first(x);
  std::vector<torch::Tensor> parts;
  Index at = 0;
  for (auto const& block : blocks_) {
    auto const product = torch::bmm(flat.narrow(0, at, block.num_orders), block.values.transpose(1, 2));
    parts.push_back(torch::constant_pad_nd(product, {num_degrees_ - block.num_degrees, 0}));
    at += block.num_orders;
  }
  return orders_last(parts.size() == 1 ? parts.front() : torch::cat(parts), x);
}

torch::Tensor LegendreTable::synthesise(torch::Tensor const& c) const {
  auto const flat = orders_first(c);
  std::vector<torch::Tensor> parts;
  Index at = 0;
  for (auto const& block : blocks_) {
    auto const degrees =
        flat.narrow(0, at, block.num_orders).narrow(2, num_degrees_ - block.num_degrees, block.num_degrees);
    parts.push_back(torch::bmm(degrees, block.values));
    at += block.num_orders;
  }
  return orders_last(parts.size() == 1 ? parts.front() : torch::cat(parts), c);
}

}  // namespace graticule::nn::detail
