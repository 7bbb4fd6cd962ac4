// SPDX-License-Identifier: BSD-3-Clause
#include "polar_filter.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graticule::swe {

namespace {

using std::numbers::pi;

double const critical_cosine = 0.5;  // of 60 degrees

/// The even kernel applied to a periodic row, in place. Terms are added in the same order for every column.
void convolve(std::vector<double> const& kernel, double* row, Index n) {
  Index const half = n / 2;
  std::vector<double> padded(std::size_t(n + 2 * half));
  for (Index i = 0; i < n + 2 * half; ++i) padded[std::size_t(i)] = row[(i + n - half) % n];
  double const* const x = padded.data() + half;
  for (Index i = 0; i < n; ++i) row[i] = kernel[0] * x[i];
  Index const last = (n - 1) / 2;
  for (Index m = 1; m <= last; ++m) {
    double const k = kernel[std::size_t(m)];
    for (Index i = 0; i < n; ++i) row[i] += k * (x[i - m] + x[i + m]);
  }
  if (n % 2 == 0)
    for (Index i = 0; i < n; ++i) row[i] += kernel[std::size_t(half)] * x[i - half];
}

}  // namespace

Index PolarFilter::num_polar_rows(Grid const& grid) {
  Index rows = 0;
  // The southern face of row j is the one nearer to the south pole: j counts where either is beyond 60 degrees.
  while (rows < (grid.num_rows() + 1) / 2 && grid.face_cosine(rows) < critical_cosine) ++rows;
  return rows;
}

std::vector<double> PolarFilter::row_weights(Grid const& grid) {
  std::vector<double> weights(std::size_t(grid.num_rows()), 1.0);
  // Operations of a filtered value, half a row's multiplications, to those of a cell's tendencies.
  double const filtered = 1 + double(grid.num_columns()) / 150;
  Index const polar = num_polar_rows(grid);
  for (Index j = 0; j < polar; ++j) weights[std::size_t(j)] = weights[std::size_t(grid.num_rows() - 1 - j)] = filtered;
  return weights;
}

std::vector<double> PolarFilter::kernel(double cosine) const {
  Index const n = grid_.num_columns();
  std::vector<double> factors;
  for (Index k = 0; k <= n / 2; ++k)
    factors.push_back(k == 0 ? 1 : std::min(1.0, cosine / critical_cosine / std::sin(double(k) * grid_.dlambda() / 2)));
  if (std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; })) return {};
  std::vector<double> result;
  for (Index m = 0; m <= n / 2; ++m) {
    double sum = factors[0];
    for (Index k = 1; k <= n / 2; ++k) {
      double const terms = 2 * k == n ? 1 : 2;
      sum += terms * factors[std::size_t(k)] * std::cos(2 * pi * double(k * m % n) / double(n));
    }
    result.push_back(sum / double(n));
  }
  return result;
}

PolarFilter::PolarFilter(Grid const& grid, Comm const& comm, Layout const& layout)
    : grid_(grid), owned_(layout.owned(comm.rank())) {
  for (Index j = 0; j < grid.num_rows(); ++j) {
    centres_.push_back(kernel(grid.cosine(j)));
    // v is 0 on the pole itself.
    faces_.push_back(j == 0 ? std::vector<double>() : kernel(grid.face_cosine(j)));
  }
  bool whole = true;
  for (int rank = 0; rank < comm.num_ranks(); ++rank) {
    auto const box = layout.owned(rank);
    whole = whole && (box.empty() || box.extent(1) == grid.num_columns());
  }
  if (whole) return;
  Index const polar = num_polar_rows(grid);
  Index const lo = polar * comm.rank() / comm.num_ranks();
  Index const hi = polar * (comm.rank() + 1) / comm.num_ranks();
  Index const north = grid.num_rows() - polar;
  std::vector<Box> const targets{Box({lo, 0}, {hi, grid.num_columns()}),
                                 Box({north + lo, 0}, {north + hi, grid.num_columns()})};
  plan_ = std::make_unique<RepartitionPlan>(comm, layout, targets);
  for (std::size_t t = 0; t < 2; ++t) moved_[t].fill(Cells(targets[t]));
}

void PolarFilter::apply(State& tendencies) {
  if (!plan_) {
    if (!owned_.empty()) filter(owned_, tendencies.fields());
    return;
  }
  auto const fields = tendencies.fields();
  std::array<std::array<FieldView, 2>, 3> targets;
  std::vector<RepartitionField> calls;
  for (std::size_t f = 0; f < 3; ++f) {
    targets[f] = {moved_[0][f].view(), moved_[1][f].view()};
    calls.push_back({.from = fields[f]->view(), .to = {}, .targets = targets[f]});
  }
  plan_->apply(calls);
  for (auto& part : moved_)
    if (!part[0].box().empty()) filter(part[0].box(), {&part[0], &part[1], &part[2]});
  plan_->apply_inverse(calls);
}

void PolarFilter::filter(Box const& rows, std::array<Cells*, 3> const& fields) const {
  using Rows = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;
  Index const n = grid_.num_columns();
  Kokkos::parallel_for("polar_filter", Rows(long(rows.lo(0)), long(rows.hi(0))), [&](long row) {
    auto const j = std::size_t(row);
    if (!centres_[j].empty()) convolve(centres_[j], fields[0]->at(row, 0), n);
    if (!centres_[j].empty()) convolve(centres_[j], fields[1]->at(row, 0), n);
    if (!faces_[j].empty()) convolve(faces_[j], fields[2]->at(row, 0), n);
  });
  Kokkos::fence();
}

}  // namespace graticule::swe
