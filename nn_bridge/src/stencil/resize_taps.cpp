// SPDX-License-Identifier: BSD-3-Clause
#include "resize_taps.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::nn::detail {

namespace {

torch::Tensor nearest(torch::Tensor const& x, std::vector<std::int64_t> const& out, ResizeKind kind,
                      std::vector<std::optional<double>> const& factors) {
  bool const exact = kind == ResizeKind::nearest_exact;
  auto const& f = factors;
  if (out.size() == 1)
    return exact ? at::_upsample_nearest_exact1d(x, out, f[0]) : at::upsample_nearest1d(x, out, f[0]);
  if (out.size() == 2)
    return exact ? at::_upsample_nearest_exact2d(x, out, f[0], f[1]) : at::upsample_nearest2d(x, out, f[0], f[1]);
  return exact ? at::_upsample_nearest_exact3d(x, out, f[0], f[1], f[2])
               : at::upsample_nearest3d(x, out, f[0], f[1], f[2]);
}

/// The nearest modes' rounding depends on type, device and number of axes, on the output's size (LibTorch 2.13 has two
/// kernels and chooses by the sum of extents), and on the release. LibTorch's choice is therefore measured by resizing
/// the cell numbers; their digits in base 256 are exact in any type.
std::vector<std::int64_t> nearest_cells(ResizeAxis const& a, torch::Tensor const& like, std::int64_t axis) {
  torch::NoGradGuard const no_grad;
  auto const spatial = std::size_t(like.dim()) - 2;
  auto const place = std::size_t(like.dim() - 2 + axis);
  std::vector<std::int64_t> sizes(spatial + 2, 1);
  sizes[place + 2] = a.num_inputs;
  auto const cells = torch::arange(a.num_inputs);
  auto const digit = [&](std::int64_t base) { return cells.floor_divide(base).remainder(256).view(sizes); };
  auto const ramp = torch::cat({digit(1), digit(256), digit(65536), digit(16777216)}, 1);
  std::vector<std::int64_t> out(spatial, 1);
  std::vector<std::optional<double>> factors(spatial);
  if (spatial > 1) out[place == 0 ? 1 : 0] = std::max<Index>(1, a.other_outputs - Index(spatial) + 2);
  out[place] = a.num_outputs;
  factors[place] = a.factor;
  auto found = nearest(ramp.to(like.options()), out, a.kind, factors).to(torch::kCPU, torch::kLong);
  for (auto d = std::int64_t(spatial) + 1; d > 1; --d)
    if (std::size_t(d) != place + 2) found = found.select(d, 0);
  auto const weight = torch::tensor({1, 256, 65536, 16777216}).unsqueeze(1);
  auto const chosen = (found[0] * weight).sum(0).contiguous();
  return {chosen.const_data_ptr<std::int64_t>(), chosen.const_data_ptr<std::int64_t>() + chosen.numel()};
}

/// Distance of outputs in inputs. T is the type that LibTorch computes in.
template <class T>
T spacing(ResizeAxis const& a) {
  if (a.align_corners) return a.num_outputs > 1 ? T(a.num_inputs - 1) / T(a.num_outputs - 1) : T(0);
  return a.factor ? T(1.0 / *a.factor) : T(a.num_inputs) / T(a.num_outputs);
}

/// Where output o lies among the inputs: in the cell's middle, or with first and last cells on each other.
template <class T>
T position(ResizeAxis const& a, Index o) {
  return a.align_corners ? spacing<T>(a) * T(o) : spacing<T>(a) * (T(o) + T(0.5)) - T(0.5);
}

/// LibTorch takes the floor in f32.
template <class T>
Index cell_below(T at, Index last) {
  return std::min(Index(std::floor(float(at))), last);
}

template <class T>
void add_linear(ResizeAxis const& a, Index o, Taps& taps) {
  if (a.num_inputs == a.num_outputs) {
    taps.add(o, 1);
    return taps.end_output();
  }
  bool const stops = a.beyond == BeyondEdge::edge_cell || a.align_corners;
  T const at = stops ? std::max(position<T>(a, o), T(0)) : position<T>(a, o);
  Index const last = a.num_inputs - 1;
  Index const cell = cell_below(at, last);
  T const weight = std::clamp(at - T(cell), T(0), T(1));
  taps.add(cell, double(T(1) - weight));
  taps.add(stops ? std::min(cell + 1, last) : cell + 1, double(weight));
  taps.end_output();
}

/// Weights of the four cells round a place `t` behind the second one: Keys (1981), with A = -0.75.
template <class T>
std::array<T, 4> cubic_weights(T t) {
  constexpr T factor = T(-0.75);
  auto const near = [](T x) { return ((factor + 2) * x - (factor + 3)) * x * x + 1; };
  auto const far = [](T x) { return ((factor * x - 5 * factor) * x + 8 * factor) * x - 4 * factor; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

template <class T>
void add_cubic(ResizeAxis const& a, Index o, Taps& taps) {
  T const at = position<T>(a, o);
  Index const last = a.num_inputs - 1;
  Index const cell = cell_below(at, last);
  auto const weights = cubic_weights<T>(std::clamp(at - T(cell), T(0), T(1)));
  for (Index j = 0; j < 4; ++j) {
    Index const read = cell - 1 + j;
    taps.add(a.beyond == BeyondEdge::cells ? read : std::clamp<Index>(read, 0, last), double(weights[std::size_t(j)]));
  }
  taps.end_output();
}

void add_area(ResizeAxis const& a, Index o, Taps& taps) {
  Index const lo = o * a.num_inputs / a.num_outputs;
  Index const hi = ceil_div((o + 1) * a.num_inputs, a.num_outputs);
  for (Index cell = lo; cell < hi; ++cell) taps.add(cell, 1 / double(hi - lo));
  taps.end_output();
}

}  // namespace

Taps ResizeAxis::taps(Range outputs, torch::Tensor const& like, std::int64_t axis) const {
  Taps taps;
  if (outputs.size() == 0) return taps;
  bool const wide = like.scalar_type() == torch::kDouble;
  std::vector<std::int64_t> nearest;
  if (kind == ResizeKind::nearest || kind == ResizeKind::nearest_exact) nearest = nearest_cells(*this, like, axis);
  for (Index o = outputs.lo; o < outputs.hi; ++o) {
    if (!nearest.empty()) {
      taps.add(nearest[std::size_t(o)], 1);
      taps.end_output();
    } else if (kind == ResizeKind::linear) {
      wide ? add_linear<double>(*this, o, taps) : add_linear<float>(*this, o, taps);
    } else if (kind == ResizeKind::cubic) {
      wide ? add_cubic<double>(*this, o, taps) : add_cubic<float>(*this, o, taps);
    } else {
      add_area(*this, o, taps);
    }
  }
  return taps;
}

Cuts ResizeAxis::output_cuts(Cuts const& inputs) const {
  Index const n = num_inputs;
  Index const m = num_outputs;
  return cuts_of_outputs(inputs, m, [&](Index input) { return ceil_div(2 * m * input - n, 2 * n); });
}

}  // namespace graticule::nn::detail
