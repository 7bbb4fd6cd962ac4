// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>

#include "move/tensor_pull.hpp"

#include <utility>

namespace graticule::nn {

namespace {

AxisPart part_along(Layout const& layout, int axis, int rank) {
  return {*layout.cuts(axis), int(layout.grid()->coords(rank)[axis])};
}

}  // namespace

torch::Tensor shard_of(torch::Tensor const& whole, Domain const& domain, std::optional<FieldCuts> const& cuts) {
  (void)tensor_view(whole);
  auto shard = whole;
  for (int a = 0; a < 2; ++a) {
    auto const parts = domain.grid().extent(a);
    auto const extent = whole.size(a - 2);
    auto const along = cuts ? (a == 0 ? cuts->rows : cuts->columns) : balanced_cuts(extent, parts);
    if (along.extent() != extent || along.num_parts() != parts)
      throw Error("BadCuts", "axis " + std::to_string(a - 2) + " has " + std::to_string(extent) + " cells in " +
                                 std::to_string(parts) + " parts, got cuts of " + std::to_string(along.extent()) +
                                 " cells in " + std::to_string(along.num_parts()) + " parts");
    auto const part = a == 0 ? domain.latitude_part() : domain.longitude_part();
    shard = shard.narrow(a - 2, along.lo(part), along.size(part));
  }
  return shard;
}

FieldPart part_of(torch::Tensor const& shard, Domain const& domain) {
  detail::Agreement agreement(domain, "part_of");
  (void)agreement.agree(shard, [&] { (void)tensor_view(shard); });
  auto const layout = agreement.gather_layout(shard);
  auto const rank = domain.comm().rank();
  return {part_along(layout, 0, rank), part_along(layout, 1, rank)};
}

torch::Tensor whole_field(torch::Tensor const& shard, Domain const& domain) {
  detail::Agreement agreement(domain, "whole_field");
  auto const agreed = agreement.agree(shard, [&] { (void)tensor_view(shard); });
  auto const layout = agreement.gather_layout(shard);
  auto const pull = std::make_shared<detail::TensorPull const>(
      domain.comm(), detail::TensorPullDescription{.source = layout,
                                                   .map = graticule::detail::permutation_map({0, 1}),
                                                   .targets = {{layout.global(), {layout.global()}}}});
  auto const whole =
      detail::apply_linear(pull, detail::Way::forward, shard, detail::anchor(agreed.requires_grad, shard.options()));
  agreement.record(whole);
  return whole;
}

}  // namespace graticule::nn
