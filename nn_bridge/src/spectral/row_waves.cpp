// SPDX-License-Identifier: BSD-3-Clause
#include "row_waves.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

/// Of the fields in one part on the host: transforms and transposition of a part share a second-level cache.
constexpr Index part_bytes = 1 << 19;

}  // namespace

RowWaves::RowWaves(std::vector<double> const& weights, Index num_columns, Index num_orders, Orders counted,
                   torch::TensorOptions const& options)
    : num_columns_(num_columns), num_orders_(num_orders), counted_(counted) {
  auto const w = torch::tensor(weights, torch::kDouble).view({-1, 1});
  forward_ = (counted == Orders::twice ? 2 * w : w).to(options);
  adjoint_ = (counted == Orders::twice ? w : w / 2).to(options);
}

void RowWaves::scale_single(torch::Tensor const& waves, double factor) const {
  waves.select(2, 0).mul_(factor);
  if (num_columns_ > 1 && 2 * (num_orders_ - 1) == num_columns_) waves.select(2, num_orders_ - 1).mul_(factor);
}

template <class Work>
void RowWaves::for_rows(torch::Tensor const& tensor, Index batch, Work const& work) const {
  auto const rows = forward_.size(0);
  auto step = rows;
  if (tensor.is_cpu()) {
    auto const row_bytes = batch * num_columns_ * Index(forward_.element_size());
    step = std::max(Index(1), at::get_num_threads() * part_bytes / std::max(Index(1), row_bytes));
  }
  for (Index i = 0; batch > 0 && i < rows; i += step) work(i, std::min(step, rows - i));
}

torch::Tensor RowWaves::apply(torch::Tensor const& x) const {
  auto y = torch::empty({num_orders_, x.size(1), x.size(0)},
                        x.options().requires_grad(false).dtype(c10::toComplexType(x.scalar_type())));
  for_rows(x, x.size(0), [&](Index row, Index size) {
    auto const part = x.narrow(1, row, size) * forward_.narrow(0, row, size);
    auto const waves = torch::fft_rfft(part).narrow(2, 0, num_orders_);
    if (counted_ == Orders::twice) scale_single(waves, 0.5);
    y.narrow(1, row, size).copy_(waves.permute({2, 1, 0}));
  });
  return y;
}

torch::Tensor RowWaves::apply_adjoint(torch::Tensor const& y) const {
  auto x = torch::empty({y.size(2), y.size(1), num_columns_},
                        y.options().requires_grad(false).dtype(c10::toRealValueType(y.scalar_type())));
  for_rows(y, y.size(2), [&](Index row, Index size) {
    auto all = torch::zeros({x.size(0), size, num_columns_ / 2 + 1}, y.options().requires_grad(false));
    auto const waves = all.narrow(2, 0, num_orders_);
    waves.copy_(y.narrow(1, row, size).permute({2, 1, 0}));
    if (counted_ == Orders::once) scale_single(waves, 2);
    auto part = x.narrow(1, row, size);
    at::mul_out(part, torch::fft_irfft(all, num_columns_, -1, "forward"), adjoint_.narrow(0, row, size));
  });
  return x;
}

}  // namespace graticule::nn::detail
