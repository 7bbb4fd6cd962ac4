// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/stencil/fused_convs.hpp>

#include "call/spatial.hpp"
#include "call/tensor_pull.hpp"
#include "conv_geometry.hpp"
#include "conv_options.hpp"
#include "model/layer_types.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace graticule::nn {

namespace {

using detail::Range;
using torch::nn::Conv2dImpl;

/// The windows of one layer along rows and columns.
using Reach = std::array<Width, 2>;

/// @throws `Unsupported` unless the layer keeps its grid
Reach reach_of(Conv2dImpl const& conv, std::string const& name) {
  auto const& o = conv.options;
  Reach reach;
  for (std::size_t a = 0; a < 2; ++a) {
    if ((*o.stride())[a] != 1)
      throw Error("Unsupported",
                  "fused convolutions: layer " + name + " has stride " + std::to_string((*o.stride())[a]));
    Index const total = (*o.dilation())[a] * ((*o.kernel_size())[a] - 1);
    reach[a] = detail::padding_of(o, a);
    if (reach[a].lower + reach[a].upper != total)
      throw Error("Unsupported", "fused convolutions: layer " + name + " changes the grid: a window of " +
                                     std::to_string(total + 1) + " cells with padding " +
                                     std::to_string(reach[a].lower));
  }
  return reach;
}

/// The rule that continues every layer's input beyond the globe.
Boundary boundary_of(torch::nn::SequentialImpl const& layers, Padding padding, Domain const& domain) {
  if (padding == Padding::by_domain) return domain.boundary();
  std::optional<Edge> edge;
  for (auto const& layer : layers) {
    auto const* conv = layer.ptr()->as<Conv2dImpl>();
    if (!conv) continue;
    auto const own = detail::edge_of(conv->options.padding_mode());
    if (edge && *edge != own)
      throw Error("Unsupported",
                  "fused convolutions: layers of " + to_string(*edge) + " and of " + to_string(own) + " padding");
    edge = own;
  }
  return Boundary::uniform(2, edge.value_or(Edge::constant));
}

/// Continuation of one axis beyond the globe. A convolution of a periodic field is periodic, so the deep halo of a
/// periodic axis needs no rule at later layers.
struct AxisRule {
  Index extent = 0;
  AxisBoundary edges;

  [[nodiscard]] bool is_periodic() const noexcept { return edges.lower == Edge::periodic; }
  [[nodiscard]] Edge edge(Index e) const noexcept { return e < 0 ? edges.lower : edges.upper; }
  /// The cell that cell `e` beyond the globe reads. @pre no constant edge
  [[nodiscard]] Index image(Index e) const noexcept {
    switch (edge(e)) {
      case Edge::replicate: return std::clamp<Index>(e, 0, extent - 1);
      case Edge::reflect:
      case Edge::pole_row: return e < 0 ? -e : 2 * (extent - 1) - e;
      default: return e < 0 ? -1 - e : 2 * extent - 1 - e;
    }
  }
  /// The cells of the globe that make up `needed`: those in it, and the images of those beyond.
  [[nodiscard]] Range sources(Range needed) const noexcept {
    if (is_periodic()) return needed;
    Range result{std::max<Index>(needed.lo, 0), std::min(needed.hi, extent)};
    for (Index e = needed.lo; e < needed.hi; ++e) {
      if ((e >= 0 && e < extent) || edge(e) == Edge::constant) continue;
      result.lo = std::min(result.lo, image(e));
      result.hi = std::max(result.hi, image(e) + 1);
    }
    return result;
  }
};

/// One layer's input: the cells of the globe that are at hand, and the cells that its windows read.
struct Level {
  std::array<Range, 2> held;
  std::array<Range, 2> needed;
};

}  // namespace

struct detail::FusedSetUp {
  std::array<AxisRule, 2> axes;
  std::vector<Level> levels;  ///< of each convolution
  std::array<Range, 2> outputs;
  std::shared_ptr<TensorPull const> pull;
  bool has_outputs = false;
};

namespace {

using detail::FusedSetUp;

void check_rules(std::array<AxisRule, 2> const& axes, Domain const& domain) {
  for (auto const& axis : axes)
    for (auto const edge : {axis.edges.lower, axis.edges.upper}) {
      bool const known = edge == Edge::constant || edge == Edge::replicate || edge == Edge::reflect ||
                         edge == Edge::symmetric || edge == Edge::periodic || edge == Edge::pole_face ||
                         edge == Edge::pole_row;
      if (!known || axis.edges.stagger != Stagger::centre)
        throw Error("Unsupported",
                    "fused convolutions: no convolution is continued by " + to_string(edge) + " beyond an edge here");
      if (is_fold(edge) && domain.grid().extent(1) > 1)
        throw Error("LongitudeIsCut",
                    "fused convolutions across a pole in a domain of " + to_string(domain.grid().extents()) + " parts");
    }
}

/// A mirror or a copy reads cells inside the globe only.
void check_width(AxisRule const& axis, Width const& reach) {
  for (auto const& [edge, width] :
       {std::pair{axis.edges.lower, reach.lower}, std::pair{axis.edges.upper, reach.upper}}) {
    bool const on_row = edge == Edge::reflect || edge == Edge::pole_row;
    bool const between = edge == Edge::symmetric || edge == Edge::pole_face;
    if ((on_row && width >= axis.extent) || (between && width > axis.extent))
      throw Error("BadHaloWidth", to_string(edge) + " padding of " + std::to_string(width) + " cells on an axis of " +
                                      std::to_string(axis.extent));
  }
}

/// The columns from half way round, for columns that begin at `columns.lo`.
torch::Tensor turned(Range columns, Index extent, torch::Device device) {
  std::vector<std::int64_t> index;
  for (Index j = columns.lo; j < columns.hi; ++j)
    index.push_back(((j + extent / 2) % extent + extent) % extent - columns.lo);
  return torch::tensor(index).to(device);
}

/// Cells [from, to) of one axis beyond the globe, from those at hand.
torch::Tensor beyond(torch::Tensor const& x, FusedSetUp const& s, std::size_t axis, Range cells, Range held,
                     Range columns, torch::Tensor const& signs) {
  auto const& rule = s.axes[axis];
  auto const dim = std::int64_t(axis) - 2;
  auto const edge = rule.edge(cells.lo);
  if (edge == Edge::constant) {
    auto sizes = x.sizes().vec();
    sizes[std::size_t(x.dim() + dim)] = cells.size();
    return torch::full(sizes, rule.edges.constant, x.options().requires_grad(false));
  }
  std::vector<std::int64_t> index;
  for (Index e = cells.lo; e < cells.hi; ++e) index.push_back(rule.image(e) - held.lo);
  auto lines = x.index_select(dim, torch::tensor(index).to(x.device()));
  if (!is_fold(edge)) return lines;
  lines = lines.index_select(-1, turned(columns, s.axes[1].extent, x.device()));
  return signs.defined() ? lines * signs : lines;
}

/// The input of a layer with all cells that its windows read.
torch::Tensor extended(torch::Tensor x, FusedSetUp const& s, Level const& level, torch::Tensor const& signs) {
  for (std::size_t axis : {std::size_t(1), std::size_t(0)}) {
    auto const held = level.held[axis];
    auto const needed = level.needed[axis];
    auto const columns = level.needed[1];
    auto const dim = std::int64_t(axis) - 2;
    Range const inside{std::max(needed.lo, held.lo), std::min(needed.hi, held.hi)};
    std::vector<torch::Tensor> parts;
    if (needed.lo < held.lo) parts.push_back(beyond(x, s, axis, {needed.lo, held.lo}, held, columns, signs));
    parts.push_back(inside.size() == held.size() ? x : x.narrow(dim, inside.lo - held.lo, inside.size()));
    if (needed.hi > held.hi) parts.push_back(beyond(x, s, axis, {held.hi, needed.hi}, held, columns, signs));
    x = parts.size() > 1 ? torch::cat(parts, dim) : parts[0];
  }
  return x;
}

std::shared_ptr<FusedSetUp const> make_set_up(torch::nn::SequentialImpl const& layers, FusedConvsOptions const& options,
                                              Domain const& domain, Layout const& layout) {
  auto set_up = std::make_shared<FusedSetUp>();
  auto boundary = boundary_of(layers, options.padding, domain);
  if (boundary.longitude_axis >= 0 && layout.extent(1) % 2 != 0 && boundary.odd_longitudes == OddLongitudes::refuse)
    throw Error("BadBoundary", std::to_string(layout.extent(1)) + " longitudes");
  auto const own = layout.owned(domain.comm().rank());
  std::vector<Reach> reaches;
  for (auto const& layer : layers)
    if (auto const* conv = layer.ptr()->as<Conv2dImpl>()) reaches.push_back(reach_of(*conv, ""));
  for (std::size_t a = 0; a < 2; ++a) {
    set_up->axes[a] = {layout.extent(int(a)), boundary.axes[a]};
    set_up->outputs[a] = {own.lo(int(a)), own.hi(int(a))};
    for (auto const& reach : reaches)
      if (options.padding == Padding::by_domain)
        check_width(set_up->axes[a], reach[a]);
      else
        detail::check_width(boundary.axes[a].lower, reach[a], layout.extent(int(a)));
  }
  check_rules(set_up->axes, domain);
  set_up->has_outputs = !own.empty();
  set_up->levels.resize(reaches.size());
  auto outputs = set_up->outputs;
  for (std::size_t i = reaches.size(); i-- > 0;) {
    auto& level = set_up->levels[i];
    for (std::size_t a = 0; a < 2; ++a) {
      level.needed[a] = {outputs[a].lo - reaches[i][a].lower, outputs[a].hi + reaches[i][a].upper};
      level.held[a] = set_up->axes[a].sources(level.needed[a]);
    }
    outputs = level.held;
  }
  Box target(Indices{0, 0}, Indices{0, 0});
  if (set_up->has_outputs) target = {{outputs[0].lo, outputs[1].lo}, {outputs[0].hi, outputs[1].hi}};
  Hash hash;
  for (auto const& reach : reaches)
    for (auto const& width : reach) hash.add(width.lower).add(width.upper);
  set_up->pull = std::make_shared<detail::TensorPull const>(
      domain.comm(), layout, boundary, std::vector{Target{target, {target}}}, options.odd_channels, hash.value());
  return set_up;
}

/// [channels, 1, 1] of 1, and -1 for odd channels; undefined without those.
torch::Tensor signs_of(std::vector<std::int64_t> const& odd_channels, torch::Tensor const& x) {
  if (odd_channels.empty()) return {};
  auto signs = torch::ones({x.size(-3), 1, 1}, x.options().requires_grad(false));
  for (auto const channel : odd_channels) signs[channel].fill_(-1);
  return signs;
}

}  // namespace

FusedConvsImpl::FusedConvsImpl(torch::nn::Sequential const& layers, FusedConvsOptions options, Domain const& domain)
    : CommunicatingModule(domain, "FusedConvs", {}, *layers), options_(std::move(options)) {
  auto const names = named_children().keys();
  std::size_t i = 0;
  std::int64_t in_channels = 0;
  for (auto const& layer : *this) {
    auto const& name = names[i++];
    auto const module = layer.ptr();
    if (auto const* conv = module->as<Conv2dImpl>()) {
      (void)reach_of(*conv, name);
      if (in_channels == 0) in_channels = conv->options.in_channels();
    } else if (!detail::is_any(*module, detail::ElementwiseTypes{}) &&
               !detail::is_any(*module, detail::ChannelTypes{})) {
      throw Error("Unsupported", "fused convolutions: layer " + name +
                                     " is neither a Conv2d nor a function of single cells: " + module->name());
    }
  }
  detail::check_odd_channels(options_.odd_channels, in_channels);
  (void)boundary_of(*this, options_.padding, domain);
}

torch::Tensor FusedConvsImpl::forward(torch::Tensor const& x) {
  auto const check = [&] {
    (void)tensor_view(x);
    if (x.dim() != 4)
      throw Error("ShapeMismatch",
                  "FusedConvs takes [batch, channels, rows, columns], not " + std::to_string(x.dim()) + " axes");
    for (auto const& layer : *this)
      if (auto const* conv = layer.ptr()->as<Conv2dImpl>()) {
        if (x.size(1) != conv->options.in_channels() || x.scalar_type() != conv->weight.scalar_type())
          throw Error("ShapeMismatch", "FusedConvs of " + std::to_string(conv->options.in_channels()) +
                                           " input channels of " + c10::toString(conv->weight.scalar_type()) +
                                           " given " + std::to_string(x.size(1)) + " of " +
                                           c10::toString(x.scalar_type()));
        break;
      }
  };
  auto const all = parameters();
  bool const parameter_grad = std::any_of(all.begin(), all.end(), [](auto const& p) { return p.requires_grad(); });
  auto const call = enter(
      x, check, [&](Layout const& layout) { return make_set_up(*this, options_, domain(), layout); }, parameter_grad);
  auto const& s = *call.set_up;
  auto h = record(detail::apply_linear(call.set_up->pull, detail::Way::forward, x, call.anchor));
  auto signs = signs_of(options_.odd_channels, x);
  std::size_t level = 0;
  auto const pulled = h;
  for (auto& layer : *this) {
    auto const* conv = layer.ptr()->as<Conv2dImpl>();
    if (!conv) {
      if (s.has_outputs) h = layer.forward<torch::Tensor>(h);  // Some throw for tensors without cells.
      continue;
    }
    auto const& o = conv->options;
    if (s.has_outputs) {
      h = at::conv2d(extended(h, s, s.levels[level], signs), conv->weight, conv->bias, at::IntArrayRef{1, 1},
                     at::IntArrayRef{0, 0}, *o.dilation(), o.groups());
    } else {
      h = torch::empty({x.size(0), o.out_channels(), s.outputs[0].size(), s.outputs[1].size()}, x.options());
    }
    signs = torch::Tensor();
    ++level;
  }
  if (s.has_outputs) return h;
  // A rank without cells keeps its node within reach of the first and of the second backward, because its peers wait
  // for it there, and has zero gradients.
  auto tie = pulled.square().sum();
  for (auto const& parameter : all) tie = tie + parameter.sum();
  return h + 0 * tie;
}

std::shared_ptr<torch::nn::Module> FusedConvsImpl::clone(std::optional<torch::Device> const& device) const {
  torch::nn::Sequential const copy(std::dynamic_pointer_cast<SequentialImpl>(SequentialImpl::clone(device)));
  return std::make_shared<FusedConvsImpl>(copy, options_, domain());
}

}  // namespace graticule::nn
