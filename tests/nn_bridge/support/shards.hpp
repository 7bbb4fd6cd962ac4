// SPDX-License-Identifier: BSD-3-Clause
// Serial counterparts: every rank holds the whole field and compares its own part with the serial result.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/cuts.hpp>

#include "random.hpp"
#include "world.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace graticule::test {

/// All ranks, one band of rows each, on a communicator of its own where none is given. Collective.
inline nn::Domain bands(Comm const& comm = Comm::world()) { return {comm, ProcessGrid{comm.num_ranks(), 1}}; }

/// Rows and columns of this rank.
struct Part {
  Index row = 0;
  Index num_rows = 0;
  Index column = 0;
  Index num_columns = 0;

  Part(nn::Domain const& domain, Cuts const& rows, Cuts const& columns)
      : row(rows.lo(domain.latitude_part())),
        num_rows(rows.size(domain.latitude_part())),
        column(columns.lo(domain.longitude_part())),
        num_columns(columns.size(domain.longitude_part())) {}
  Part(nn::Domain const& domain, nn::FieldCuts const& cuts) : Part(domain, cuts.rows, cuts.columns) {}

  [[nodiscard]] torch::Tensor of(torch::Tensor const& whole) const {
    return whole.narrow(-2, row, num_rows).narrow(-1, column, num_columns);
  }
};

/// Weights of 7 rows from pole to pole.
inline std::vector<double> row_weights() { return {0.1, 0.5, 0.9, 1.0, 0.8, 0.4, 0.05}; }

/// Those of this rank's rows.
inline std::vector<double> row_weights_of(Part const& part) {
  auto const all = row_weights();
  return {all.begin() + part.row, all.begin() + part.row + part.num_rows};
}

/// A random tensor that is the same on all ranks.
inline torch::Tensor random_tensor(std::mt19937& random, std::vector<std::int64_t> const& sizes,
                                   torch::ScalarType type = torch::kDouble) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(random());
  return torch::randn(sizes, generator, torch::dtype(torch::kDouble)).to(type);
}

inline torch::Tensor random_complex(std::mt19937& random, std::vector<std::int64_t> sizes) {
  sizes.push_back(2);
  return torch::view_as_complex(random_tensor(random, sizes));
}

/// All process grids of two axes for `num_ranks`.
inline std::vector<ProcessGrid> grids_of(int num_ranks) {
  std::vector<ProcessGrid> grids;
  for (int rows = 1; rows <= num_ranks; ++rows)
    if (num_ranks % rows == 0) grids.push_back(ProcessGrid{rows, num_ranks / rows});
  return grids;
}

/// A domain of all ranks on each of their process grids; for fields of one spatial axis only on those that leave the
/// longitude whole.
inline std::vector<nn::Domain> domains(Boundary const& boundary = Boundary::sphere(Edge::pole_face),
                                       std::size_t num_axes = 2) {
  auto const comm = world();
  std::vector<nn::Domain> result;
  for (auto const& grid : grids_of(comm.num_ranks()))
    if (num_axes > 1 || grid.extent(1) == 1) result.emplace_back(comm, grid, boundary);
  return result;
}

/// Random cuts of a field with the spatial axes (levels, rows, columns), (rows, columns) or (rows).
inline nn::FieldCuts random_field_cuts(nn::Domain const& domain, std::mt19937& random, at::IntArrayRef space) {
  auto const rows =
      random_cuts(random, space.size() == 1 ? space[0] : space[space.size() - 2], domain.grid().extent(0));
  return {rows, random_cuts(random, space.size() == 1 ? 1 : space.back(), domain.grid().extent(1))};
}

/// A random box, perhaps empty, of the last two axes of tensors of these sizes.
inline Part random_part(nn::Domain const& domain, std::mt19937& random, at::IntArrayRef sizes) {
  return {domain, random_field_cuts(domain, random, sizes.slice(sizes.size() - 2))};
}

/// Cuts of outputs of which each belongs to the owner of one input, found by asking for each output in turn.
/// @param input_of the input of output `o`, or one beyond the edges for the nearest one
template <class InputOf>
Cuts owner_cuts(Cuts const& inputs, Index num_outputs, InputOf const& input_of) {
  std::vector<Index> sizes(std::size_t(inputs.num_parts()), 0);
  for (Index o = 0; o < num_outputs; ++o)
    ++sizes[std::size_t(inputs.part_of(std::clamp<Index>(input_of(o), 0, inputs.extent() - 1)))];
  return Cuts(sizes);
}

/// The same for rows and columns of `outputs`, a tensor whose last `num_axes` axes are spatial.
/// @param input_of of (spatial axis, output)
template <class InputOf>
nn::FieldCuts owner_cuts(nn::FieldCuts const& inputs, torch::Tensor const& outputs, std::size_t num_axes,
                         InputOf const& input_of) {
  std::size_t const row = num_axes == 3 ? 1 : 0;
  auto const along = [&](std::size_t axis) { return [&input_of, axis](Index o) { return Index(input_of(axis, o)); }; };
  auto const rows = owner_cuts(inputs.rows, outputs.size(num_axes == 1 ? -1 : -2), along(row));
  if (num_axes == 1) return {rows, inputs.columns};
  return {rows, owner_cuts(inputs.columns, outputs.size(-1), along(row + 1))};
}

/// Random values, the same on all ranks, for all parameters.
inline void randomize(torch::nn::Module& module, std::mt19937& random) {
  torch::NoGradGuard const no_grad;
  for (auto& parameter : module.parameters()) parameter.copy_(random_tensor(random, parameter.sizes().vec()));
}

/// A leaf of the same values that is differentiated by itself. Undefined where `values` is.
inline torch::Tensor leaf_of(torch::Tensor const& values) {
  return values.defined() ? values.detach().clone().requires_grad_() : torch::Tensor();
}

/// In f64 or complex128.
inline torch::Tensor widened(torch::Tensor const& x) {
  return x.to(x.is_complex() ? torch::kComplexDouble : torch::kDouble);
}

/// The sum, in f64 or complex128, of what ranks hold. Collective.
inline torch::Tensor over_ranks(Comm const& comm, torch::Tensor const& part) {
  auto sum = torch::view_as_real(widened(part.detach()).to(torch::kComplexDouble)).contiguous();
  comm.sum(std::span(sum.data_ptr<double>(), std::size_t(sum.numel())));
  auto const whole = torch::view_as_complex(sum);
  return part.is_complex() ? whole : at::real(whole);
}

/// Serial padding of the sphere: periodic columns, rows across the poles from half way round, channels in
/// `odd_channels` with changed sign there. Written from the formulas, cell by cell, not from the engine.
inline torch::Tensor pad_sphere(torch::Tensor const& x, Width rows, Width columns, bool pole_on_row,
                                std::vector<std::int64_t> const& odd_channels) {
  auto const n = x.size(-2);
  auto const m = x.size(-1);
  auto sign = torch::ones({x.size(-3), 1, 1}, x.options().requires_grad(false));
  for (auto const channel : odd_channels) sign[channel].fill_(-1);
  std::vector<torch::Tensor> lines;
  for (Index e = -rows.lower; e < n + rows.upper; ++e) {
    Index at = e;
    int folds = 0;
    while (at < 0 || at >= n) {
      if (at < 0)
        at = pole_on_row ? -at : -1 - at;
      else
        at = pole_on_row ? 2 * (n - 1) - at : 2 * n - 1 - at;
      ++folds;
    }
    auto line = x.narrow(-2, at, 1);
    if (folds % 2) line = line.roll(m / 2, -1) * sign;
    lines.push_back(line);
  }
  auto const tall = torch::cat(lines, -2);
  std::vector<std::int64_t> index;
  for (Index e = -columns.lower; e < m + columns.upper; ++e) index.push_back(((e % m) + m) % m);
  return tall.index_select(-1, torch::tensor(index));
}

/// The same for a field whose last `num_axes` axes are (levels, rows, columns), (rows, columns) or (rows): neither
/// levels nor a missing longitude are padded.
inline torch::Tensor pad_sphere_along(torch::Tensor const& x, std::size_t num_axes, Width rows, Width columns,
                                      bool pole_on_row, std::vector<std::int64_t> const& odd_channels) {
  if (num_axes == 1) return pad_sphere(x.unsqueeze(-1), rows, {0, 0}, pole_on_row, odd_channels).squeeze(-1);
  if (num_axes == 2) return pad_sphere(x, rows, columns, pole_on_row, odd_channels);
  return pad_sphere(x.transpose(-4, -3), rows, columns, pole_on_row, odd_channels).transpose(-4, -3);
}

/// Largest difference relative to the largest magnitude of `expected`, 0 for empty tensors.
inline double difference(torch::Tensor const& found, torch::Tensor const& expected) {
  if (found.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  if (found.numel() == 0) return 0;
  auto const scale = std::max(1.0, expected.abs().max().item<double>());
  return (found - expected).abs().max().item<double>() / scale;
}

}  // namespace graticule::test
