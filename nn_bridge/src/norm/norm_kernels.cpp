// SPDX-License-Identifier: BSD-3-Clause
#include "norm_kernels.hpp"

#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>

#include "call/wide_vectors.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace graticule::nn::detail {

namespace {

// Kernels for f32 and f64 on the host. LibTorch has no kernels that return moments without the normalised tensor, or
// accept them; its var_mean and elementwise operations would take three to five more passes over the data.

/// Threads process a row in pieces; its moments are merged from blocks that fit in the first-level cache.
constexpr std::int64_t piece_length = 1 << 16;
constexpr std::int64_t block_length = 1024;

/// Number of parallel sums with which the compiler uses vector registers without reordering any of them.
template <class T>
constexpr std::int64_t num_lanes = 128 / sizeof(T);

bool has_kernel(torch::Tensor const& x) {
  return x.is_cpu() && (x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble);
}

/// Calls `work(row, first, last, piece)` for all pieces of [rows, cells].
template <class Work>
void for_pieces(std::int64_t rows, std::int64_t cells, Work const& work) {
  auto const pieces = std::max<std::int64_t>(1, (cells + piece_length - 1) / piece_length);
  auto const grain = std::max<std::int64_t>(1, piece_length / std::max<std::int64_t>(cells, 1));
  at::parallel_for(0, rows * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      auto const first = i % pieces * piece_length;
      work(i / pieces, first, std::min(cells, first + piece_length), i);
    }
  });
}

std::int64_t num_pieces(std::int64_t rows, std::int64_t cells) {
  return rows * std::max<std::int64_t>(1, (cells + piece_length - 1) / piece_length);
}

/// sum(f(i), 0 <= i < n) and the same of a second term; `f` adds its two terms.
template <class T, class Terms>
std::array<double, 2> sums(std::int64_t n, Terms const& terms) {
  constexpr auto lanes = num_lanes<T>;
  std::array<T, lanes> a{};
  std::array<T, lanes> b{};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::int64_t k = 0; k < lanes; ++k) terms(i + k, a[std::size_t(k)], b[std::size_t(k)]);
  for (std::int64_t k = 0; i + k < n; ++k) terms(i + k, a[std::size_t(k)], b[std::size_t(k)]);
  std::array<double, 2> result{};
  for (std::size_t k = 0; k < std::size_t(lanes); ++k) {
    result[0] += double(a[k]);
    result[1] += double(b[k]);
  }
  return result;
}

struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;

  /// Chan, Golub, LeVeque 1979.
  void merge(Moments const& other) {
    if (other.count == 0) return;
    auto const total = count + other.count;
    auto const delta = other.mean - mean;
    mean += delta * (other.count / total);
    m2 += other.m2 + delta * delta * (count * other.count / total);
    count = total;
  }
};

template <class T>
Moments moments(T const* x, std::int64_t n, bool centered) {
  Moments result;
  T center = 0;
  for (std::int64_t first = 0; first < n; first += block_length) {
    auto const* block = x + first;
    auto const length = std::min(block_length, n - first);
    // Any number near the mean is sufficient: the sum of deviations corrects the rounding error. The mean of the block
    // before is far from this one's only where their distance makes up most of the squares of both.
    if (centered && first == 0)
      center = T(sums<T>(length, [&](std::int64_t i, T& a, T&) { a += block[i]; })[0] / double(length));
    auto const [sum, squares] = sums<T>(length, [&](std::int64_t i, T& a, T& b) {
      T const d = block[i] - center;
      a += d;
      b += d * d;
    });
    if (!centered) {
      result.m2 += squares;
      continue;
    }
    auto const rest = sum / double(length);
    result.merge({double(length), double(center) + rest, std::max(0.0, squares - sum * rest)});
    center = T(double(center) + rest);
  }
  return result;
}

/// An f64 mean as a sum of two numbers of the data's type: a value near the mean minus the first is exact.
template <class T>
struct Split {
  explicit Split(double mean) : hi(T(mean)), lo(T(mean - double(hi))) {}
  T operator()(T x) const { return (x - hi) - lo; }
  T hi;
  T lo;
};

/// Writes results. So many that no cache keeps them are written past the caches.
template <class T>
class Results {
 public:
  explicit Results(torch::Tensor& result)
      : to_(result.mutable_data_ptr<T>()), past_caches_(has_wide_vectors() && writes_past_caches(result.nbytes())) {}

  /// to[i] = value(i) for first <= i < last.
  template <class Value>
  void write(std::int64_t first, std::int64_t last, Value const& value) const {
#ifdef GRATICULE_WIDE_VECTORS
    if (past_caches_) {
      stream_in_avx2(to_, first, last, value);
      store_fence();
      return;
    }
#endif
    in_wide_vectors([=, to = to_] {
      for (auto i = first; i < last; ++i) to[i] = value(i);
    });
  }

 private:
  T* to_;
  bool past_caches_;
};

template <class T>
std::pair<torch::Tensor, torch::Tensor> host_moments(torch::Tensor const& x, bool centered) {
  auto const rows = x.size(0);
  auto const cells = x.size(1);
  std::vector<Moments> parts(std::size_t(num_pieces(rows, cells)));
  auto const* data = x.const_data_ptr<T>();
  for_pieces(rows, cells, [&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t piece) {
    in_wide_vectors([&] { parts[std::size_t(piece)] = moments(data + row * cells + first, last - first, centered); });
  });
  auto mean = torch::empty({rows}, torch::kDouble);
  auto m2 = torch::empty({rows}, torch::kDouble);
  auto const per_row = rows == 0 ? 0 : parts.size() / std::size_t(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    Moments total;
    for (std::size_t p = 0; p < per_row; ++p) {
      auto const& part = parts[std::size_t(row) * per_row + p];
      if (centered)
        total.merge(part);
      else
        total.m2 += part.m2;
    }
    mean.mutable_data_ptr<double>()[row] = total.mean;
    m2.mutable_data_ptr<double>()[row] = total.m2;
  }
  return {mean, m2};
}

/// Coefficients of rows as the kernels read them: one of a single group for all rows comes with stride 0.
class Values {
 public:
  explicit Values(torch::Tensor const& coefficients)
      : tensor_(coefficients.contiguous()), data_(tensor_.const_data_ptr<double>()) {}
  double operator[](std::int64_t row) const noexcept { return data_[row]; }

 private:
  torch::Tensor tensor_;
  double const* data_;
};

template <class T>
torch::Tensor host_affine(torch::Tensor const& x, Values const& mean, Values const& scale, Values const& shift) {
  auto result = torch::empty_like(x);
  auto const cells = x.size(1);
  auto const* from = x.const_data_ptr<T>();
  Results<T> const results(result);
  for_pieces(x.size(0), cells, [&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t) {
    Split<T> const deviation(mean[row]);
    T const factor(scale[row]);
    T const constant(shift[row]);
    results.write(row * cells + first, row * cells + last,
                  [=](std::int64_t i) { return deviation(from[i]) * factor + constant; });
  });
  return result;
}

template <class T>
std::pair<torch::Tensor, torch::Tensor> host_dots(torch::Tensor const& g, torch::Tensor const& x, Values const& mean) {
  auto const rows = x.size(0);
  auto const cells = x.size(1);
  std::vector<std::array<double, 2>> parts(std::size_t(num_pieces(rows, cells)));
  auto const* xs = x.const_data_ptr<T>();
  auto const* gs = g.const_data_ptr<T>();
  for_pieces(rows, cells, [&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t piece) {
    Split<T> const deviation(mean[row]);
    std::array<double, 2> total{};
    in_wide_vectors([&] {
      for (auto at = first; at < last; at += block_length) {
        auto const* const x_block = xs + row * cells + at;
        auto const* const g_block = gs + row * cells + at;
        auto const part = sums<T>(std::min(block_length, last - at), [&](std::int64_t i, T& a, T& b) {
          a += g_block[i];
          b += g_block[i] * deviation(x_block[i]);
        });
        total[0] += part[0];
        total[1] += part[1];
      }
    });
    parts[std::size_t(piece)] = total;
  });
  auto ones = torch::zeros({rows}, torch::kDouble);
  auto dots = torch::zeros({rows}, torch::kDouble);
  auto const per_row = rows == 0 ? 1 : parts.size() / std::size_t(rows);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    ones.mutable_data_ptr<double>()[p / per_row] += parts[p][0];
    dots.mutable_data_ptr<double>()[p / per_row] += parts[p][1];
  }
  return {ones, dots};
}

template <class T>
torch::Tensor host_gradient(torch::Tensor const& g, torch::Tensor const& x, Values const& mean, RowGradient const& by) {
  auto result = torch::empty_like(x);
  auto const cells = x.size(1);
  auto const* xs = x.const_data_ptr<T>();
  auto const* gs = g.const_data_ptr<T>();
  Results<T> const results(result);
  Values const of_g(by.of_g);
  Values const of_x(by.of_x);
  Values const constant(by.constant);
  for_pieces(x.size(0), cells, [&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t) {
    Split<T> const deviation(mean[row]);
    T const a(of_g[row]);
    T const b(of_x[row]);
    T const c(constant[row]);
    results.write(row * cells + first, row * cells + last,
                  [=](std::int64_t i) { return a * gs[i] + (b * deviation(xs[i]) + c); });
  });
  return result;
}

torch::Tensor column(torch::Tensor const& coefficients, torch::ScalarType type) {
  return coefficients.to(type).unsqueeze(-1);
}

}  // namespace

torch::Tensor deviations(torch::Tensor const& x, torch::Tensor const& mean) {
  auto const type = type_of_sums(x.scalar_type());
  auto const hi = mean.to(type);
  return (x.to(type) - hi) - (mean - hi.to(torch::kDouble)).to(type);
}

std::pair<torch::Tensor, torch::Tensor> row_moments(torch::Tensor const& x, bool centered) {
  if (has_kernel(x))
    return x.scalar_type() == torch::kFloat ? host_moments<float>(x, centered) : host_moments<double>(x, centered);
  auto const double_options = x.options().dtype(torch::kDouble);
  if (x.size(1) == 0) return {torch::zeros({x.size(0)}, double_options), torch::zeros({x.size(0)}, double_options)};
  auto const wide = x.to(type_of_sums(x.scalar_type()));
  if (!centered) return {torch::zeros({x.size(0)}, double_options), wide.square().sum(1).to(torch::kDouble)};
  auto const center = wide.mean(1).to(torch::kDouble);
  auto const mean = center + deviations(wide, center.unsqueeze(-1)).mean(1).to(torch::kDouble);
  return {mean, deviations(wide, mean.unsqueeze(-1)).square().sum(1).to(torch::kDouble)};
}

torch::Tensor row_affine(torch::Tensor const& x, torch::Tensor const& mean, torch::Tensor const& scale,
                         torch::Tensor const& shift) {
  auto const type = x.scalar_type();
  if (has_kernel(x))
    return type == torch::kFloat ? host_affine<float>(x, Values(mean), Values(scale), Values(shift))
                                 : host_affine<double>(x, Values(mean), Values(scale), Values(shift));
  auto const sums = type_of_sums(type);
  return (deviations(x, mean.unsqueeze(-1)) * column(scale, sums) + column(shift, sums)).to(type);
}

std::pair<torch::Tensor, torch::Tensor> row_dots(torch::Tensor const& g, torch::Tensor const& x,
                                                 torch::Tensor const& mean) {
  auto const type = x.scalar_type();
  if (has_kernel(x))
    return type == torch::kFloat ? host_dots<float>(g, x, Values(mean)) : host_dots<double>(g, x, Values(mean));
  auto const wide = g.to(type_of_sums(type));
  return {wide.sum(1).to(torch::kDouble), (wide * deviations(x, mean.unsqueeze(-1))).sum(1).to(torch::kDouble)};
}

torch::Tensor row_gradient(torch::Tensor const& g, torch::Tensor const& x, torch::Tensor const& mean,
                           RowGradient const& by) {
  auto const type = x.scalar_type();
  if (has_kernel(x))
    return type == torch::kFloat ? host_gradient<float>(g, x, Values(mean), by)
                                 : host_gradient<double>(g, x, Values(mean), by);
  auto const sums = type_of_sums(type);
  return (g.to(sums) * column(by.of_g, sums) + deviations(x, mean.unsqueeze(-1)) * column(by.of_x, sums) +
          column(by.constant, sums))
      .to(type);
}

}  // namespace graticule::nn::detail
