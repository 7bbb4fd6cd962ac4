// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/types.hpp>

#include "loss_terms.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <DifferenceKind K>
struct Cell {
  double bend;

  double loss(double d) const noexcept {
    double const size = std::abs(d);
    double const bent = size <= bend ? 0.5 * d * d : bend * (size - 0.5 * bend);
    if constexpr (K == DifferenceKind::absolute) return size;
    if constexpr (K == DifferenceKind::squared) return d * d;
    if constexpr (K == DifferenceKind::huber) return bent;
    return bent / bend;
  }
  /// As LibTorch's, 0 where |d| has none.
  double derivative(double d) const noexcept {
    // Comparisons keep a NaN, which clamping by std::min and std::max would hide.
    double const bent = d > bend ? bend : d < -bend ? -bend : d;
    if constexpr (K == DifferenceKind::absolute) return d > 0 ? 1 : d < 0 ? -1 : d;
    if constexpr (K == DifferenceKind::squared) return 2 * d;
    if constexpr (K == DifferenceKind::huber) return bent;
    return bent / bend;
  }
};

/// Calls `body` with the cell's functions.
template <class Body>
void with_cell(DifferenceLoss const& loss, Body const& body) {
  switch (loss.kind) {
    case DifferenceKind::absolute: return body(Cell<DifferenceKind::absolute>{loss.bend});
    case DifferenceKind::squared: return body(Cell<DifferenceKind::squared>{loss.bend});
    case DifferenceKind::huber: return body(Cell<DifferenceKind::huber>{loss.bend});
    case DifferenceKind::smooth: return body(Cell<DifferenceKind::smooth>{loss.bend});
  }
}

/// Calls `row(index)` for each row of `columns` cells.
template <class Row>
void for_rows(std::int64_t num_cells, std::int64_t columns, Row const& row) {
  if (num_cells == 0) return;
  std::int64_t const grain = std::max<std::int64_t>(1, 32768 / columns);
  at::parallel_for(0, num_cells / columns, grain, [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t r = lo; r < hi; ++r) row(r);
  });
}

/// Sum of `value(i)`, in partial sums that fill vector registers and wait less for each other.
template <class Value>
double sum_of(std::int64_t count, Value const& value) {
  std::array<double, 4> parts{};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t l = 0; l < 4; ++l) parts[l] += value(i + std::int64_t(l));
  for (; i < count; ++i) parts[0] += value(i);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

torch::Tensor sums_like(torch::Tensor const& x) {
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  return torch::zeros(sizes, torch::dtype(torch::kDouble).device(x.device()));
}

struct RowSums : torch::autograd::Function<RowSums> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& x) {
    ctx->saved_data["sizes"] = x.sizes().vec();
    ctx->saved_data["dtype"] = std::int64_t(x.scalar_type());
    if (!x.is_cpu() || is_narrow(x.scalar_type())) return x.sum({-1}, true, torch::kDouble);
    auto const cells = x.contiguous();
    auto sums = sums_like(x);
    auto const columns = x.size(-1);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sums", [&] {
      auto const* const from = cells.const_data_ptr<scalar_t>();
      auto* const to = sums.mutable_data_ptr<double>();
      for_rows(cells.numel(), columns, [&](std::int64_t r) {
        auto const* const row = from + r * columns;
        to[r] = sum_of(columns, [row](std::int64_t i) { return double(row[i]); });
      });
    });
    return sums;
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    if (!grads[0].defined()) return {torch::Tensor()};
    auto const dtype = torch::ScalarType(ctx->saved_data["dtype"].toInt());
    return {grads[0].to(dtype).expand(ctx->saved_data["sizes"].toIntVector())};
  }
};

/// g times the derivative at p - t, cell by cell. @param g [..., 1] f64
torch::Tensor gradient(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t,
                       torch::Tensor const& g) {
  auto const prediction = p.contiguous();
  auto const target = t.contiguous();
  auto const scale = g.contiguous();
  auto result = torch::empty_like(prediction, torch::MemoryFormat::Contiguous);
  auto const columns = p.size(-1);
  with_cell(loss, [&](auto const& cell) {
    AT_DISPATCH_FLOATING_TYPES(p.scalar_type(), "difference_gradient", [&] {
      auto const* const at_p = prediction.template const_data_ptr<scalar_t>();
      auto const* const at_t = target.template const_data_ptr<scalar_t>();
      auto const* const factor = scale.template const_data_ptr<double>();
      auto* const to = result.template mutable_data_ptr<scalar_t>();
      for_rows(prediction.numel(), columns, [&](std::int64_t r) {
        double const f = factor[r];
        for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i)
          to[i] = scalar_t(f * cell.derivative(double(at_p[i] - at_t[i])));
      });
    });
  });
  return result;
}

/// The same by functions that are differentiable themselves.
torch::Tensor differentiable_gradient(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t,
                                      torch::Tensor const& g) {
  auto const d = p - t;
  auto const scale = g.to(p.scalar_type());
  switch (loss.kind) {
    case DifferenceKind::absolute: return scale * d.sign();
    case DifferenceKind::squared: return scale * (2 * d);
    case DifferenceKind::huber: return scale * d.clamp(-loss.bend, loss.bend);
    case DifferenceKind::smooth: break;
  }
  return scale * (d.clamp(-loss.bend, loss.bend) / loss.bend);
}

struct DifferenceSums : torch::autograd::Function<DifferenceSums> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& p, torch::Tensor const& t, std::int64_t kind,
                               double bend) {
    ctx->save_for_backward({p, t});
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["bend"] = bend;
    auto const prediction = p.contiguous();
    auto const target = t.contiguous();
    auto sums = sums_like(p);
    auto const columns = p.size(-1);
    with_cell({DifferenceKind(kind), bend}, [&](auto const& cell) {
      AT_DISPATCH_FLOATING_TYPES(p.scalar_type(), "difference_sums", [&] {
        auto const* const at_p = prediction.template const_data_ptr<scalar_t>();
        auto const* const at_t = target.template const_data_ptr<scalar_t>();
        auto* const to = sums.template mutable_data_ptr<double>();
        for_rows(prediction.numel(), columns, [&](std::int64_t r) {
          auto const* const row_p = at_p + r * columns;
          auto const* const row_t = at_t + r * columns;
          to[r] = sum_of(columns, [&](std::int64_t i) { return cell.loss(double(row_p[i] - row_t[i])); });
        });
      });
    });
    return sums;
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    variable_list result(4);
    if (!grads[0].defined()) return result;
    auto const saved = ctx->get_saved_variables();
    DifferenceLoss const loss{DifferenceKind(ctx->saved_data["kind"].toInt()), ctx->saved_data["bend"].toDouble()};
    auto const of_p = torch::GradMode::is_enabled() ? differentiable_gradient(loss, saved[0], saved[1], grads[0])
                                                    : gradient(loss, saved[0], saved[1], grads[0]);
    if (ctx->needs_input_grad(0)) result[0] = of_p;
    if (ctx->needs_input_grad(1)) result[1] = -of_p;
    return result;
  }
};

}  // namespace

torch::Tensor elements(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t) {
  switch (loss.kind) {
    case DifferenceKind::absolute: return (p - t).abs();
    case DifferenceKind::squared: return torch::mse_loss(p, t, at::Reduction::None);
    case DifferenceKind::huber: return torch::huber_loss(p, t, at::Reduction::None, loss.bend);
    case DifferenceKind::smooth: break;
  }
  return torch::smooth_l1_loss(p, t, at::Reduction::None, loss.bend);
}

torch::Tensor row_sums(torch::Tensor const& x) { return RowSums::apply(x); }

torch::Tensor row_sums(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t) {
  if (!p.is_cpu() || !t.is_cpu()) return row_sums(elements(loss, p, t));
  return DifferenceSums::apply(p, t, std::int64_t(loss.kind), loss.bend);
}

}  // namespace graticule::nn::detail
