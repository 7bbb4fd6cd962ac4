// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/partition/detail/numbering.hpp>

#include "move/tensor_move.hpp"

#include <algorithm>

namespace graticule::nn {

namespace {

void check_sharding(Sharding const& sharding, Comm const& comm) {
  auto axes = sharding.axes;
  std::sort(axes.begin(), axes.end());
  bool const distinct = std::adjacent_find(axes.begin(), axes.end()) == axes.end();
  if (axes.empty() || axes.back() >= 0 || !distinct || sharding.grid.ndim() != int(axes.size()))
    throw Error("BadOption", "a grid of " + to_string(sharding.grid) + " ranks does not fit " +
                                 std::to_string(axes.size()) + " axes (" + to_string(sharding) +
                                 "); axes count from the last, -1, and appear once");
  if (sharding.grid.num_ranks() != comm.num_ranks() || sharding.grid.last_rank() != comm.num_ranks() - 1)
    throw Error("BadOption", "the grid must have the " + std::to_string(comm.num_ranks()) +
                                 " ranks of the domain, got " + to_string(sharding.grid));
}

std::vector<std::int64_t> all_axes(RepartitionOptions const& options) {
  auto axes = options.from.axes;
  axes.insert(axes.end(), options.to.axes.begin(), options.to.axes.end());
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

/// Place of `axis` in `axes`, or -1.
int place_of(std::int64_t axis, std::vector<std::int64_t> const& axes) {
  auto const found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() ? -1 : int(found - axes.begin());
}

/// The same ranks over more axes: one part along those that the sharding does not cut.
ProcessGrid widened(Sharding const& sharding, std::vector<std::int64_t> const& axes) {
  Indices extents;
  for (auto const axis : axes) {
    int const place = place_of(axis, sharding.axes);
    extents.push_back(place < 0 ? 1 : sharding.grid.extent(place));
  }
  std::vector<int> ranks;
  for (int place = 0; place < sharding.grid.num_ranks(); ++place) {
    auto const wide = coords_of(place, extents);
    Indices coords;
    for (auto const axis : sharding.axes) coords.push_back(wide[place_of(axis, axes)]);
    ranks.push_back(sharding.grid.rank(coords));
  }
  return ProcessGrid::on_ranks(extents, std::move(ranks));
}

Layout widened(Sharding const& sharding, std::vector<Cuts> const& cuts, std::vector<std::int64_t> const& axes,
               std::vector<Index> const& extents) {
  std::vector<Cuts> wide;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    int const place = place_of(axes[a], sharding.axes);
    wide.push_back(place < 0 ? Cuts{extents[a]} : cuts[std::size_t(place)]);
  }
  return Layout(widened(sharding, axes), std::move(wide));
}

std::vector<Cuts> target_cuts(RepartitionOptions const& options, std::vector<std::int64_t> const& axes,
                              std::vector<Index> const& extents) {
  std::vector<Cuts> cuts;
  for (std::size_t i = 0; i < options.to.axes.size(); ++i) {
    auto const axis = options.to.axes[i];
    auto const extent = extents[std::size_t(place_of(axis, axes))];
    auto const parts = options.to.grid.extent(int(i));
    cuts.push_back(options.cuts.empty() ? balanced_cuts(extent, parts) : options.cuts[i]);
    if (cuts.back().extent() != extent || cuts.back().num_parts() != parts)
      throw Error("BadCuts", "axis " + std::to_string(axis) + " has " + std::to_string(extent) + " cells in " +
                                 std::to_string(parts) + " parts, got cuts of " + std::to_string(cuts.back().extent()) +
                                 " cells in " + std::to_string(cuts.back().num_parts()) + " parts");
  }
  return cuts;
}

/// @param layout of `x` over the axes of `from`
std::shared_ptr<detail::TensorMove const> make_move(RepartitionOptions const& options, Comm const& comm,
                                                    Layout const& layout, torch::Tensor const& x) {
  auto const axes = all_axes(options);
  std::vector<Index> extents;
  for (auto const axis : axes) {
    int const place = place_of(axis, options.from.axes);
    extents.push_back(place < 0 ? x.size(axis) : layout.extent(place));
  }
  std::vector<Cuts> from_cuts;
  for (int a = 0; a < layout.ndim(); ++a) from_cuts.push_back(*layout.cuts(a));
  return std::make_shared<detail::TensorMove const>(
      comm, widened(options.from, from_cuts, axes, extents),
      widened(options.to, target_cuts(options, axes, extents), axes, extents), axes);
}

void check_back(detail::TensorMove const* move, torch::Tensor const& y) {
  if (!move) throw Error("WrongState", "Repartition has nothing to move back before its first forward");
  (void)tensor_view(y, move->axes());
  for (std::size_t a = 0; a < move->axes().size(); ++a)
    if (y.size(move->axes()[a]) != move->to_box().extent(int(a)))
      throw Error("ShapeMismatch", "Repartition back got " + std::to_string(y.size(move->axes()[a])) +
                                       " cells along axis " + std::to_string(move->axes()[a]) +
                                       "; the forward gave this rank " + std::to_string(move->to_box().extent(int(a))));
}

}  // namespace

class detail::RepartitionState : public LayerState<TensorMove> {
 public:
  RepartitionState(Domain const& domain, RepartitionOptions const& options)
      : LayerState(domain, "Repartition", options.from), back(domain, "Repartition back", options.to, this) {}

  [[nodiscard]] AxisPart part(std::int64_t axis, Layout const* layout) const {
    int const a = layout ? place_of(axis, move->axes()) : -1;
    if (a < 0) throw Error("BadOption", "axis " + std::to_string(axis) + " is not cut, or not yet known");
    return {*layout->cuts(a), int(layout->grid()->coords(domain().comm().rank())[a])};
  }

  Agreement back;
  std::shared_ptr<TensorMove const> move;  ///< of the latest forward
};

RepartitionImpl::RepartitionImpl(RepartitionOptions options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::RepartitionState>(options)),
      options_(std::move(options)) {
  check_sharding(options_.from, this->domain().comm());
  check_sharding(options_.to, this->domain().comm());
  if (!options_.cuts.empty() && options_.cuts.size() != options_.to.axes.size())
    throw Error("BadOption", "cuts are needed for each of " + std::to_string(options_.to.axes.size()) + " axes, got " +
                                 std::to_string(options_.cuts.size()));
}

torch::Tensor RepartitionImpl::forward(torch::Tensor const& given) {
  auto const x = detail::resolved(given);
  auto const axes = all_axes(options_);
  auto const call = state().enter(
      x, [&] { (void)tensor_view(x, axes); },
      [&](Layout const& layout) { return make_move(options_, domain().comm(), layout, x); });
  state().move = call.set_up;
  return state().record(detail::apply_linear(call.set_up, detail::Way::forward, x, call.anchor));
}

torch::Tensor RepartitionImpl::back(torch::Tensor const& given) {
  auto const y = detail::resolved(given);
  auto const agreed = state().back.agree(y, [&] { check_back(state().move.get(), y); });
  auto const x =
      detail::apply_linear(state().move, detail::Way::adjoint, y, detail::anchor(agreed.requires_grad, y.options()));
  state().back.record(x);
  return x;
}

AxisPart RepartitionImpl::before(std::int64_t axis) const {
  return state().part(axis, state().move ? &state().move->from() : nullptr);
}

AxisPart RepartitionImpl::after(std::int64_t axis) const {
  return state().part(axis, state().move ? &state().move->to() : nullptr);
}

}  // namespace graticule::nn
