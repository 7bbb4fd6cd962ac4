// SPDX-License-Identifier: BSD-3-Clause
#include "grouped_axis.hpp"

#include <graticule/partition/detail/division.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <algorithm>
#include <numeric>

namespace graticule::nn::detail {

Index GroupedAxis::num_groups() const noexcept {
  if (kind == Kind::dilated || periodic || shift == 0) return graticule::detail::ceil_div(num_cells, size);
  return num_cells == 0 ? 0 : graticule::detail::ceil_div(num_cells + size - shift, size);
}

Index GroupedAxis::cell(Index group, Index member) const noexcept {
  if (kind == Kind::dilated) {
    auto const found = member * num_groups() + group;
    return found < num_cells ? found : absent;
  }
  auto const place = group * size + member;
  if (periodic) return place < num_cells ? (place + shift) % num_cells : absent;
  auto const found = shift > 0 ? place - (size - shift) : place;
  return found >= 0 && found < num_cells ? found : absent;
}

Cuts GroupedAxis::cuts_of_groups(Cuts const& cells) const {
  auto const groups = num_groups();
  auto const parts = cells.num_parts();
  if (kind == Kind::dilated) return balanced_cuts(groups, parts);
  std::vector<Index> sizes;
  Index lo = 0;
  for (int p = 0; p < parts; ++p) {
    auto const place = cells.hi(p) + (periodic ? -shift : shift > 0 ? size - shift : 0);
    auto const nearest = std::max(Index(0), 2 * place + size) / (2 * size);
    auto const hi = p == parts - 1 ? groups : std::clamp(nearest, lo, groups);
    sizes.push_back(hi - lo);
    lo = hi;
  }
  return Cuts(sizes);
}

namespace {

/// The cells of all parts' members in the order in which they are held.
struct AxisOrder {
  std::vector<Index> cells;
  Cuts parts;   ///< of `cells`
  Cuts groups;  ///< of the same parts
};

AxisOrder order_of(GroupedAxis const& axis, Cuts const& cells) {
  auto const groups = axis.cuts_of_groups(cells);
  std::vector<Index> sizes;
  std::vector<Index> order;
  for (int p = 0; p < groups.num_parts(); ++p) {
    sizes.push_back(groups.size(p) * axis.size);
    for (Index i = 0; i < sizes.back(); ++i) {
      bool const adjacent = axis.kind == GroupedAxis::Kind::adjacent;
      auto const group = adjacent ? i / axis.size : i % groups.size(p);
      auto const member = adjacent ? i % axis.size : i / groups.size(p);
      order.push_back(axis.cell(groups.lo(p) + group, member));
    }
  }
  return {std::move(order), Cuts(sizes), groups};
}

/// True when each part's members are the cells that the part owns.
bool stays(AxisOrder const& order, Cuts const& cells) {
  for (int p = 0; p < cells.num_parts(); ++p) {
    std::vector<Index> held(order.cells.begin() + order.parts.lo(p), order.cells.begin() + order.parts.hi(p));
    std::erase(held, GroupedAxis::absent);
    std::vector<Index> owned(std::size_t(cells.size(p)));
    std::iota(owned.begin(), owned.end(), cells.lo(p));
    std::sort(held.begin(), held.end());
    if (held != owned) return false;
  }
  return true;
}

/// A run of places whose cells follow each other, or are absent.
struct Run {
  Index lo;
  Index hi;
  Index first_cell;
};

std::vector<Run> runs_of(std::vector<Index> const& cells, Index lo, Index hi) {
  std::vector<Run> runs;
  for (Index i = lo; i < hi; ++i) {
    auto const cell = cells[std::size_t(i)];
    if (!runs.empty()) {
      auto& last = runs.back();
      bool const follows = last.first_cell == GroupedAxis::absent ? cell == GroupedAxis::absent
                                                                  : cell == last.first_cell + (i - last.lo);
      if (follows) {
        last.hi = i + 1;
        continue;
      }
    }
    runs.push_back({i, i + 1, cell});
  }
  return runs;
}

/// An axis that does not move reads its own cells.
std::vector<Index> own_order(Index num_cells) {
  std::vector<Index> cells(static_cast<std::size_t>(num_cells));
  std::iota(cells.begin(), cells.end(), Index(0));
  return cells;
}

IndexMap map_of(std::array<std::vector<Index>, 2> cells) {
  return [cells = std::move(cells)](Box const& needed) {
    std::vector<Piece> pieces;
    for (auto const& row : runs_of(cells[0], needed.lo(0), needed.hi(0))) {
      for (auto const& column : runs_of(cells[1], needed.lo(1), needed.hi(1))) {
        Piece piece{.box = Box({row.lo, column.lo}, {row.hi, column.hi})};
        piece.filled = row.first_cell == GroupedAxis::absent || column.first_cell == GroupedAxis::absent;
        piece.maps[0] = {0, 1, row.first_cell - row.lo};
        piece.maps[1] = {1, 1, column.first_cell - column.lo};
        pieces.push_back(piece);
      }
    }
    return pieces;
  };
}

torch::Tensor presence(GroupedAxis const& axis, Index first_group, Index num_groups) {
  auto result = torch::empty({num_groups, axis.size}, torch::kBool);
  auto values = result.accessor<bool, 2>();
  for (Index g = 0; g < num_groups; ++g)
    for (Index t = 0; t < axis.size; ++t) values[g][t] = axis.cell(first_group + g, t) != GroupedAxis::absent;
  return result;
}

}  // namespace

GroupedField::GroupedField(Comm const& comm, Layout const& fields, std::array<GroupedAxis, 2> const& axes) {
  auto const coords = fields.grid()->coords(comm.rank());
  std::array<std::vector<Index>, 2> sources;
  Box needed({0, 0}, {0, 0});
  bool moved = false;
  Hash hash;
  for (int a = 0; a < 2; ++a) {
    auto const& axis = axes[std::size_t(a)];
    auto const& cells = *fields.cuts(a);
    auto const order = order_of(axis, cells);
    int const p = int(coords[a]);
    auto& own = axes_[std::size_t(a)];
    own = {.kind = axis.kind, .size = axis.size, .num_groups = order.groups.size(p), .num_cells = cells.size(p)};
    own.present = presence(axis, order.groups.lo(p), own.num_groups);
    if (stays(order, cells)) {
      sources[std::size_t(a)] = own_order(cells.extent());
      needed.set(a, cells.lo(p), cells.hi(p));
      std::vector<Index> there;
      std::vector<Index> back(std::size_t(own.num_cells));
      for (Index i = order.parts.lo(p); i < order.parts.hi(p); ++i) {
        auto const cell = order.cells[std::size_t(i)];
        there.push_back(cell == GroupedAxis::absent ? own.num_cells : cell - cells.lo(p));
        if (cell != GroupedAxis::absent) back[std::size_t(cell - cells.lo(p))] = i - order.parts.lo(p);
      }
      own.selects = there != own_order(own.num_cells);
      own.there = Constant(torch::tensor(there, torch::kLong));
      own.back = Constant(torch::tensor(back, torch::kLong));
    } else {
      moved = true;
      sources[std::size_t(a)] = order.cells;
      needed.set(a, order.parts.lo(p), order.parts.hi(p));
    }
    hash.add(sources[std::size_t(a)]);
  }
  auto const present =
      (axes_[0].present.view({-1, 1, axes_[0].size, 1}) & axes_[1].present.view({1, -1, 1, axes_[1].size}))
          .reshape({axes_[0].num_groups * axes_[1].num_groups, axes_[0].size * axes_[1].size});
  if (!present.all().item<bool>()) absent_ = Constant(present.logical_not());
  if (!moved) return;
  pull_ = std::make_shared<TensorPull const>(comm, TensorPullDescription{.source = fields,
                                                                         .map = map_of(std::move(sources)),
                                                                         .targets = {{needed, {needed}}},
                                                                         .fingerprint = hash.value()});
}

namespace {

/// Cells by place, and 0 for the place behind the last cell.
torch::Tensor select(torch::Tensor const& x, std::int64_t axis, Constant const& places, bool some_absent) {
  if (!some_absent) return x.index_select(axis, places.on(x.device()));
  auto sizes = x.sizes().vec();
  sizes[std::size_t(x.dim() + axis)] = 1;
  auto const zero = torch::zeros(sizes, x.options().requires_grad(false));
  return torch::cat({x, zero}, axis).index_select(axis, places.on(x.device()));
}

}  // namespace

torch::Tensor GroupedField::group(torch::Tensor const& x, CallTies const& ties) const {
  auto y = ties.apply(pull_, Way::forward, x);
  for (int a = 0; a < 2; ++a) {
    auto const& axis = axes_[std::size_t(a)];
    if (axis.selects) y = select(y, a - 2, axis.there, axis.num_groups * axis.size > axis.num_cells);
  }
  auto sizes = x.sizes().vec();
  sizes.resize(sizes.size() - 2);
  for (auto const& axis : axes_) {
    bool const adjacent = axis.kind == GroupedAxis::Kind::adjacent;
    sizes.push_back(adjacent ? axis.num_groups : axis.size);
    sizes.push_back(adjacent ? axis.size : axis.num_groups);
  }
  y = y.reshape(sizes);
  if (axes_[0].kind == GroupedAxis::Kind::dilated) y = y.transpose(-4, -3);
  if (axes_[1].kind == GroupedAxis::Kind::dilated) y = y.transpose(-2, -1);
  return y;
}

torch::Tensor GroupedField::ungroup(torch::Tensor const& y, CallTies const& ties) const {
  auto x = y;
  if (axes_[0].kind == GroupedAxis::Kind::dilated) x = x.transpose(-4, -3);
  if (axes_[1].kind == GroupedAxis::Kind::dilated) x = x.transpose(-2, -1);
  auto sizes = x.sizes().vec();
  sizes.resize(sizes.size() - 4);
  for (auto const& axis : axes_) sizes.push_back(axis.num_groups * axis.size);
  x = x.reshape(sizes);
  for (int a = 0; a < 2; ++a)
    if (axes_[std::size_t(a)].selects) x = select(x, a - 2, axes_[std::size_t(a)].back, false);
  // Each cell is in one group, so that the sum over its images is the value itself.
  return ties.apply(pull_, Way::adjoint, x);
}

}  // namespace graticule::nn::detail
