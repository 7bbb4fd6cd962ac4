// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/feature_split.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include "collective_maps.hpp"

#include <algorithm>

namespace graticule::nn::detail {

/// The ranks that share the same cells, in order of their features, and how these are cut.
struct SplitSetUp {
  Comm team;
  int part;
  Cuts inputs;  ///< of `FeatureSplit::output`: unused
  Cuts outputs;

  [[nodiscard]] torch::Tensor input_slice(torch::Tensor const& weight) const {
    return weight.narrow(1, inputs.lo(part), inputs.size(part));
  }
  [[nodiscard]] torch::Tensor output_slice(torch::Tensor const& parameter) const {
    return parameter.defined() ? parameter.narrow(0, outputs.lo(part), outputs.size(part)) : parameter;
  }
};

namespace {

/// Place of `axis` among the sharding's axes. @throws `BadOption`
int checked_place(std::string const& name, Sharding const& sharding, std::int64_t axis, Comm const& comm) {
  auto const found = std::find(sharding.axes.begin(), sharding.axes.end(), axis);
  if (axis >= 0 || found == sharding.axes.end() || sharding.grid.ndim() != int(sharding.axes.size()) ||
      sharding.grid.num_ranks() != comm.num_ranks())
    throw Error("BadOption", name + ": the axis of features must be one of the sharding's, whose grid has " +
                                 std::to_string(comm.num_ranks()) + " ranks; got axis " + std::to_string(axis) +
                                 " and sharding " + to_string(sharding));
  return int(found - sharding.axes.begin());
}

/// The ranks that have all places but `place` in common.
Comm make_team(Sharding const& sharding, int place, Comm const& comm) {
  auto const coords = sharding.grid.coords(comm.rank());
  int color = 0;
  for (int a = 0; a < sharding.grid.ndim(); ++a)
    if (a != place) color = color * int(sharding.grid.extent(a)) + int(coords[a]);
  return comm.split(color, int(coords[place]));
}

}  // namespace

SplitLayer::SplitLayer(std::string const& name, Features features, SplitOptions options, Domain const& domain,
                       Sharding const& sharding)
    : LayerState(domain, name, sharding), features_(features), options_(std::move(options)) {
  auto text = c10::str(layer(), " of ", features_.inputs, " to ", features_.outputs, " features, split ",
                       int(options_.split), ", whole ", int(options_.whole), ", ", to_string(sharding));
  if (options_.output_cuts) text += c10::str(", outputs ", at::IntArrayRef(options_.output_cuts->sizes()));
  require_same_text(text);
  auto const place = checked_place(layer(), sharding, features_.axis, domain.comm());
  auto const parts = int(sharding.grid.extent(place));
  if (options_.output_cuts &&
      (options_.output_cuts->extent() != features_.outputs || options_.output_cuts->num_parts() != parts))
    throw Error("BadCuts", text);
}

torch::Tensor SplitLayer::forward(torch::Tensor const& x, std::function<void()> const& check,
                                  torch::Tensor const& weight, torch::Tensor const& bias, Local const& local) {
  auto const make = [&](Layout const& layout) {
    auto const place = checked_place(layer(), sharding(), features_.axis, domain().comm());
    // With whole inputs each rank has all of them, and their cuts mean nothing.
    if (options_.split != FeatureSplit::output && layout.extent(place) != features_.inputs)
      throw Error("ShapeMismatch", layer() + " has " + std::to_string(features_.inputs) + " input features, got " +
                                       std::to_string(layout.extent(place)) + " on all ranks");
    if (!team_) team_ = make_team(sharding(), place, domain().comm());
    auto const parts = int(sharding().grid.extent(place));
    auto const outputs = options_.output_cuts ? *options_.output_cuts : balanced_cuts(features_.outputs, parts);
    return std::make_shared<SplitSetUp const>(SplitSetUp{*team_, team_->rank(), *layout.cuts(place), outputs});
  };
  auto const checked = [&] {
    check();
    if (options_.split == FeatureSplit::output && x.size(features_.axis) != features_.inputs)
      throw Error("ShapeMismatch", layer() + " has " + std::to_string(features_.inputs) + " input features, got " +
                                       std::to_string(x.size(features_.axis)));
  };
  bool const parameter_grad = needs_gradient(weight) || needs_gradient(bias);
  auto const call = enter(x, checked, make, parameter_grad);
  auto const& s = *call.set_up;
  bool const replicated = options_.whole == Consumer::replicated;
  // Only cotangents of the input pass the maps in front of the local layer.
  auto const in_front = [&](MapPointer const& map) {
    return record(apply_linear_call(map, x, anchor(call.input_grad, x.options())));
  };
  auto const behind = [&](MapPointer const& map, torch::Tensor const& y) {
    return record(apply_linear_call(map, y, call.anchor));
  };
  if (options_.split == FeatureSplit::input) {
    auto const part = local(x, s.input_slice(weight), s.part == 0 ? bias : torch::Tensor());
    return behind(replicated ? loss_sum_map(s.team) : all_sum_map(s.team), part);
  }
  if (options_.split == FeatureSplit::output) {
    auto const given = replicated && call.input_grad ? in_front(copy_to_region_map(s.team)) : x;
    return local(given, s.output_slice(weight), s.output_slice(bias));
  }
  if (features_.inputs <= features_.outputs)
    return local(in_front(gather_map(s.team, {features_.axis, s.inputs})), s.output_slice(weight),
                 s.output_slice(bias));
  // One rank adds the whole bias, so that each output gets it once.
  auto const part = local(x, s.input_slice(weight), s.part == 0 ? bias : torch::Tensor());
  return behind(reduce_scatter_map(s.team, {features_.axis, s.outputs}), part);
}

}  // namespace graticule::nn::detail
