// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/cell_sum.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/convert_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include "covers.hpp"
#include "exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace graticule {

namespace {

using Sum = detail::ExactSum<double>;

void check_cells(FieldView const& view, Box const& owned, char const* role) {
  auto const name = std::string(role) + " of " + to_string(view.dtype);
  if (view.dtype != DType::f32 && view.dtype != DType::f64)
    throw Error("WrongType", name + "; sums are of f32 and f64");
  if (view.space != MemorySpace::host)
    throw Error("FieldMismatch",
                name + " " + to_string(view.extents) + ": sums with weights of cells read host memory");
  detail::check_covers(view, owned, role);
}

/// The same cells with the batch axes first, in row-major order, then the grid axes.
FieldView batch_first(FieldView const& view) {
  FieldView result = view;
  result.extents = {};
  result.strides = {};
  auto const add = [&](Index m) {
    result.extents.push_back(view.extents[int(m)]);
    result.strides.push_back(view.strides[int(m)]);
  };
  for (int m = 0; m < view.ndim(); ++m)
    if (std::count(view.grid_axes.begin(), view.grid_axes.end(), Index(m)) == 0) add(m);
  int const num_batch_axes = result.extents.size();
  for (Index const m : view.grid_axes) add(m);
  for (int a = 0; a < view.grid_axes.size(); ++a) result.grid_axes[a] = num_batch_axes + a;
  return result;
}

double total_of(Comm const& comm, std::vector<double> const& values) {
  Sum sum;
  sum.add(values.data(), std::ssize(values), 1);
  std::vector<Index> words(std::size_t(Sum::num_words), 0);
  sum.store(words.data());
  comm.sum(words);
  return Sum(words.data()).rounded();
}

}  // namespace

CellSum::CellSum(Comm const& comm, Layout const& layout, FieldView const& weights, AxisSumScale scale)
    : comm_(comm), owned_(layout.owned(comm.rank())) {
  run_agreed(comm, [&] {
    if (layout.num_ranks() > comm.num_ranks())
      throw Error("BadProcessGrid", "the layout must have the communicator's " + std::to_string(comm.num_ranks()) +
                                        " ranks, got " + std::to_string(layout.num_ranks()));
    check_cells(weights, owned_, "weights");
    if (weights.num_batch() != 1)
      throw Error("FieldMismatch", "weights of " + to_string(weights.extents) + ": one weight per cell is needed");
    if (owned_.empty()) return;
    weights_.resize(std::size_t(owned_.num_cells()));
    auto const from = batch_first(weights);
    auto to = from;
    to.data = weights_.data();
    to.dtype = DType::f64;
    to.strides = row_major_strides(from.extents);
    detail::convert_cells(from, to);
    if (auto const bad = std::find_if(weights_.begin(), weights_.end(), [](double w) { return !std::isfinite(w); });
        bad != weights_.end())
      throw Error("NotFinite", "a weight of " + to_string(owned_) + " is " + std::to_string(*bad));
  });
  require_same(comm, "ArgumentDisagreement", Hash().add(layout.fingerprint()).add(int(scale)).value(),
               std::string(scale == AxisSumScale::mean ? "a mean" : "a sum") + " with weights of the cells of " +
                   to_string(layout));
  if (scale == AxisSumScale::sum) return;
  total_weight_ = total_of(comm, weights_);
  if (total_weight_ == 0) throw Error("TooFewValues", "a mean with weights of cells that sum to 0");
}

std::vector<double> CellSum::apply(FieldView const& cells) const {
  run_agreed(comm_, [&] { check_cells(cells, owned_, "cells"); });
  Index const batch = cells.num_batch();
  require_same(comm_, "FieldMismatch", Hash().add(batch).value(), std::to_string(batch) + " batch elements");
  std::vector<Index> words(std::size_t(batch * Sum::num_words), 0);
  Index const num_cells = owned_.num_cells();
  if (num_cells > 0) {
    detail::DenseField const wide(batch_first(cells), DType::f64);
    detail::convert_cells(batch_first(cells), wide.view());
    auto* values = static_cast<double*>(wide.view().data);
    for (Index b = 0; b < batch; ++b, values += num_cells) {
      for (Index i = 0; i < num_cells; ++i)
        values[i] = weights_[std::size_t(i)] == 0 ? 0 : weights_[std::size_t(i)] * values[i];
      Sum sum;
      sum.add(values, num_cells, 1);
      sum.store(words.data() + b * Sum::num_words);
    }
  }
  comm_.sum(words);
  std::vector<double> result;
  for (Index b = 0; b < batch; ++b) result.push_back(Sum(words.data() + b * Sum::num_words).rounded() / total_weight_);
  return result;
}

void CellSum::apply_adjoint(FieldView const& cells, std::span<double const> cotangents) const {
  check_cells(cells, owned_, "cells");
  if (Index(cotangents.size()) != cells.num_batch())
    throw Error("FieldMismatch", "a cotangent is needed for each value of cells of " + to_string(cells.extents) +
                                     ", got " + std::to_string(cotangents.size()));
  Index const num_cells = owned_.num_cells();
  if (num_cells == 0) return;
  auto const ordered = batch_first(cells);
  detail::DenseField const wide(ordered, DType::f64);
  detail::convert_cells(ordered, wide.view());
  auto* values = static_cast<double*>(wide.view().data);
  for (double const cotangent : cotangents) {
    for (Index i = 0; i < num_cells; ++i) values[i] += weights_[std::size_t(i)] * (cotangent / total_weight_);
    values += num_cells;
  }
  detail::convert_cells(wide.view(), ordered);
}

}  // namespace graticule
