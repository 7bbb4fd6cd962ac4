// SPDX-License-Identifier: BSD-3-Clause
#include "taps.hpp"

#include "call/kept.hpp"
#include "call/wide_vectors.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace graticule::nn::detail {

void Taps::add(Index cell, double weight) {
  cells.push_back(cell);
  weights.push_back(weight);
}

Range Taps::span() const noexcept {
  if (cells.empty()) return {};
  auto const [least, most] = std::minmax_element(cells.begin(), cells.end());
  return {*least, *most + 1};
}

bool Taps::is_identity(Range outputs) const noexcept {
  if (Index(cells.size()) != outputs.size() || num_outputs() != outputs.size()) return false;
  for (std::size_t o = 0; o < cells.size(); ++o)
    if (cells[o] != outputs.lo + Index(o) || weights[o] != 1) return false;
  return true;
}

namespace {

Taps transposed(Taps const& taps, Index num_inputs) {
  Taps result;
  result.first.assign(std::size_t(num_inputs) + 1, 0);
  for (auto const cell : taps.cells) ++result.first[std::size_t(cell) + 1];
  for (std::size_t i = 1; i < result.first.size(); ++i) result.first[i] += result.first[i - 1];
  result.cells.resize(taps.cells.size());
  result.weights.resize(taps.cells.size());
  auto next = result.first;
  for (Index o = 0; o < taps.num_outputs(); ++o) {
    for (auto e = std::size_t(taps.first[std::size_t(o)]); e < std::size_t(taps.first[std::size_t(o) + 1]); ++e) {
      auto const place = std::size_t(next[std::size_t(taps.cells[e])]++);
      result.cells[place] = o;
      result.weights[place] = taps.weights[e];
    }
  }
  return result;
}

/// Extents before, along and after an axis of a contiguous tensor.
struct Planes {
  Index outer = 1;
  Index num_inputs = 0;
  Index inner = 1;
};

/// Rows of neighboring cells, one sum of rows for each output. Two rows are added in one pass, in their order.
template <class T>
void apply_row(Taps const& taps, std::vector<T> const& weights, Index output, T const* plane, T* row, Index inner) {
  auto e = std::size_t(taps.first[std::size_t(output)]);
  auto const end = std::size_t(taps.first[std::size_t(output) + 1]);
  auto const input = [&](std::size_t tap) { return plane + taps.cells[tap] * inner; };
  if (e == end) {
    std::fill_n(row, inner, T(0));
    return;
  }
  in_wide_vectors([&] {
    T const weight = weights[e];
    T const* const from = input(e);
    if (e + 1 == end) {
      for (Index i = 0; i < inner; ++i) row[i] = weight * from[i];
      return;
    }
    T const next_weight = weights[e + 1];
    T const* const next = input(e + 1);
    for (Index i = 0; i < inner; ++i) row[i] = weight * from[i] + next_weight * next[i];
  });
  for (e += 2; e < end; e += 2)
    in_wide_vectors([&] {
      T const weight = weights[e];
      T const* const from = input(e);
      if (e + 1 == end) {
        for (Index i = 0; i < inner; ++i) row[i] += weight * from[i];
        return;
      }
      T const next_weight = weights[e + 1];
      T const* const next = input(e + 1);
      for (Index i = 0; i < inner; ++i) row[i] = (row[i] + weight * from[i]) + next_weight * next[i];
    });
}

/// One row of inputs, cell by cell.
template <class T>
void apply_cells(Taps const& taps, std::vector<T> const& weights, T const* from, T* row) {
  for (std::size_t o = 0; o + 1 < taps.first.size(); ++o) {
    T sum = 0;
    for (auto e = std::size_t(taps.first[o]); e < std::size_t(taps.first[o + 1]); ++e)
      sum += weights[e] * from[taps.cells[e]];
    row[o] = sum;
  }
}

template <class T>
void apply_on_host(Taps const& taps, T const* x, T* y, Planes const& planes) {
  std::vector<T> const weights(taps.weights.begin(), taps.weights.end());
  auto const num_outputs = taps.num_outputs();
  bool const by_cells = planes.inner == 1;
  auto const num_jobs = by_cells ? planes.outer : planes.outer * num_outputs;
  auto const job_size = by_cells ? num_outputs : planes.inner;
  at::parallel_for(0, num_jobs, std::max<Index>(1, 32768 / job_size), [&](Index begin, Index end) {
    for (Index job = begin; job < end; ++job) {
      if (by_cells)
        apply_cells(taps, weights, x + job * planes.num_inputs, y + job * num_outputs);
      else
        apply_row(taps, weights, job % num_outputs, x + job / num_outputs * planes.num_inputs * planes.inner,
                  y + job * planes.inner, planes.inner);
    }
  });
}

std::vector<TapSelection> selections_of(Taps const& taps) {
  Index most = 0;
  for (Index o = 0; o < taps.num_outputs(); ++o)
    most = std::max(most, taps.first[std::size_t(o) + 1] - taps.first[std::size_t(o)]);
  std::vector<TapSelection> result;
  for (Index t = 0; t < most; ++t) {
    std::vector<std::int64_t> outputs;
    std::vector<std::int64_t> cells;
    std::vector<double> weights;
    for (Index o = 0; o < taps.num_outputs(); ++o) {
      auto const e = std::size_t(taps.first[std::size_t(o)] + t);
      if (Index(e) >= taps.first[std::size_t(o) + 1]) continue;
      outputs.push_back(o);
      cells.push_back(taps.cells[e]);
      weights.push_back(taps.weights[e]);
    }
    result.push_back({Constant(torch::tensor(outputs)), Constant(torch::tensor(cells)),
                      Constant(torch::tensor(weights, torch::kDouble))});
  }
  return result;
}

/// On other devices: a weighted selection for each place among an output's taps.
torch::Tensor apply_by_selection(TapMap const& map, bool back, torch::Tensor const& x, std::int64_t axis) {
  auto sizes = x.sizes().vec();
  sizes[std::size_t(axis)] = (back ? map.back() : map.there()).num_outputs();
  auto result = torch::zeros(sizes, x.options());
  std::vector<std::int64_t> shape(std::size_t(x.dim()), 1);
  shape[std::size_t(axis)] = -1;
  for (auto const& [outputs, cells, weights] : map.selections(back)) {
    auto const weighted =
        x.index_select(axis, cells.on(x.device())) * weights.on(x.device(), x.scalar_type()).view(shape);
    result.index_add_(axis, outputs.on(x.device()), weighted);
  }
  return result;
}

/// Writes `y`; both are contiguous.
void apply_contiguous(TapMap const& map, bool back, torch::Tensor const& x, torch::Tensor y, std::int64_t axis) {
  if (!x.is_cpu()) {
    y.copy_(apply_by_selection(map, back, x, axis));
    return;
  }
  auto const& taps = back ? map.back() : map.there();
  if (y.numel() == 0) return;
  Planes planes{1, x.size(axis), 1};
  for (std::int64_t a = 0; a < x.dim(); ++a) (a < axis ? planes.outer : planes.inner) *= a == axis ? 1 : x.size(a);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "apply_taps", [&] {
    apply_on_host(taps, x.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(), planes);
  });
}

/// A tensor of its own in the memory format of `x`. Channels-last tensors are contiguous with the channels moved to the
/// end.
torch::Tensor apply(TapMap const& map, bool back, torch::Tensor const& x, std::int64_t axis) {
  auto const format = x.suggest_memory_format();
  auto sizes = x.sizes().vec();
  sizes[std::size_t(x.dim() + axis)] = (back ? map.back() : map.there()).num_outputs();
  auto y = torch::empty(sizes, x.options(), format);
  if (format == torch::MemoryFormat::Contiguous)
    apply_contiguous(map, back, x.contiguous(), y, x.dim() + axis);
  else
    apply_contiguous(map, back, x.movedim(1, -1).contiguous(), y.movedim(1, -1), x.dim() + axis - 1);
  return y;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using TapMapPointer = std::shared_ptr<TapMap const>;

template <bool back>
struct TapFunction : torch::autograd::Function<TapFunction<back>> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& x, TapMapPointer const& map,
                               std::int64_t axis) {
    keep(ctx, map);
    ctx->saved_data["axis"] = axis;
    return apply(*map, back, x, axis);
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const map = kept<TapMapPointer>(ctx);
    return {TapFunction<!back>::apply(grads[0], map, ctx->saved_data["axis"].toInt()), {}, {}};
  }
};

}  // namespace

TapMap::TapMap(Taps taps, Range inputs) : there_{std::move(taps)}, back_{} {
  for (auto& cell : there_.taps.cells) cell -= inputs.lo;
  back_.taps = transposed(there_.taps, inputs.size());
}

std::vector<TapSelection> const& TapMap::selections(bool back) const {
  auto const& way = back ? back_ : there_;
  std::call_once(way.once, [&] { way.selections = selections_of(way.taps); });
  return way.selections;
}

torch::Tensor apply_taps(TapMapPointer const& map, torch::Tensor const& x, std::int64_t axis) {
  return TapFunction<false>::apply(x, map, axis);
}

}  // namespace graticule::nn::detail
