// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "call/between.hpp"
#include "call/other_layout.hpp"
#include "call/spatial.hpp"
#include "needed_inputs.hpp"
#include "resize_taps.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace graticule::nn {

namespace F = torch::nn::functional;

namespace {

using detail::Range;
using detail::ResizeAxis;

F::InterpolateFuncOptions with_mode_of(torch::nn::UpsampleOptions const& o) {
  auto result = F::InterpolateFuncOptions().size(o.size()).scale_factor(o.scale_factor());
  std::visit([&](auto const& mode) { result.mode(mode); }, o.mode());
  return result.align_corners(o.align_corners());
}

detail::ResizeKind kind_of(F::InterpolateFuncOptions::mode_t const& mode) {
  if (std::holds_alternative<torch::enumtype::kNearest>(mode)) return detail::ResizeKind::nearest;
  if (std::holds_alternative<torch::enumtype::kNearestExact>(mode)) return detail::ResizeKind::nearest_exact;
  if (std::holds_alternative<torch::enumtype::kBicubic>(mode)) return detail::ResizeKind::cubic;
  if (std::holds_alternative<torch::enumtype::kArea>(mode)) return detail::ResizeKind::area;
  return detail::ResizeKind::linear;
}

/// Spatial axes that a mode is for; 0 for any.
std::int64_t num_axes_of(F::InterpolateFuncOptions::mode_t const& mode) {
  if (std::holds_alternative<torch::enumtype::kLinear>(mode)) return 1;
  if (std::holds_alternative<torch::enumtype::kTrilinear>(mode)) return 3;
  if (std::holds_alternative<torch::enumtype::kBilinear>(mode)) return 2;
  return std::holds_alternative<torch::enumtype::kBicubic>(mode) ? 2 : 0;
}

void check_options(F::InterpolateFuncOptions const& o) {
  if (o.antialias()) throw Error("Unsupported", "Resize has no antialias: interpolate's option must be false");
  if (o.size() && o.scale_factor()) throw Error("BadOption", "Resize needs a size or a scale factor, got both");
  auto const kind = kind_of(o.mode());
  // In nearest-exact mode LibTorch warns unless a corner convention is given, although the mode has none.
  bool const has_none = kind == detail::ResizeKind::nearest || kind == detail::ResizeKind::area;
  if (o.align_corners() && has_none)
    throw Error(
        "BadOption",
        "Resize has align_corners in linear, bilinear, trilinear and bicubic mode, and not in nearest or area mode");
}

/// Global sizes of the spatial axes of `x`, whose shards lie as `layout` says.
std::vector<Index> spatial_sizes(torch::Tensor const& x, Layout const& layout) {
  if (x.dim() == 3) return {layout.extent(0)};
  std::vector<Index> sizes{layout.extent(0), layout.extent(1)};
  if (x.dim() == 5) sizes.insert(sizes.begin(), x.size(2));
  return sizes;
}

std::vector<Index> output_sizes(F::InterpolateFuncOptions const& o, std::vector<Index> const& inputs) {
  auto const given = o.size() ? o.size()->size() : o.scale_factor() ? o.scale_factor()->size() : 0;
  if (given == 0)
    throw Error("BadOption", "Resize: neither a size nor a scale factor: only forward_like knows the sizes");
  if (given != inputs.size())
    throw Error("BadOption", "Resize needs " + std::to_string(inputs.size()) +
                                 " sizes or factors, one per spatial axis, got " + std::to_string(given));
  std::vector<Index> sizes;
  if (o.size()) {
    sizes = *o.size();
    for (std::size_t a = 0; a < inputs.size(); ++a)
      if (sizes[a] == ResizeOptions::same) sizes[a] = inputs[a];
    return sizes;
  }
  for (std::size_t a = 0; a < inputs.size(); ++a)
    sizes.push_back(Index(std::floor(double(inputs[a]) * (*o.scale_factor())[a])));
  return sizes;
}

struct ResizeSetUp {
  detail::NeededInputs inputs;
  /// Of axes -1, -2 and -3: columns, rows and levels; null where nothing changes.
  std::array<std::shared_ptr<detail::TapMap const>, 3> maps;
  bool rows_grow = false;  ///< then columns are resized first, while there are fewer rows
};

/// The axes of the whole field; rows and columns are the last two, also for a length.
std::vector<ResizeAxis> axes_of(ResizeOptions const& options, detail::Like const& like, torch::Tensor const& x,
                                Layout const& layout) {
  auto const& o = options.interpolate;
  auto const inputs = spatial_sizes(x, layout);
  std::vector<Index> outputs;
  if (like.layout)
    for (int a = x.dim() == 5 ? -1 : 0; a < (x.dim() == 3 ? 1 : 2); ++a) outputs.push_back(*like.extent(a));
  else
    outputs = output_sizes(o, inputs);
  bool const by_factor = !like.layout && o.scale_factor() && !o.recompute_scale_factor().value_or(false);
  std::vector<ResizeAxis> axes;
  for (std::size_t a = 0; a < inputs.size(); ++a) {
    if (inputs[a] < 1 || outputs[a] < 1)
      throw Error("BadOption", "Resize needs axes of at least 1 cell, got " + std::to_string(inputs[a]) + " to be " +
                                   std::to_string(outputs[a]));
    bool const is_level = x.dim() == 5 && a == 0;
    axes.push_back({.kind = kind_of(o.mode()),
                    .align_corners = o.align_corners().value_or(false),
                    .num_inputs = inputs[a],
                    .num_outputs = outputs[a],
                    .factor = by_factor ? std::optional((*o.scale_factor())[a]) : std::nullopt,
                    .beyond = options.padding == Padding::by_domain && !is_level ? detail::BeyondEdge::cells
                                                                                 : detail::BeyondEdge::edge_cell});
  }
  if (x.dim() == 3) axes.push_back({.kind = detail::ResizeKind::area});
  Index const all_outputs = std::accumulate(outputs.begin(), outputs.end(), Index(0));
  for (auto& axis : axes) axis.other_outputs = all_outputs - axis.num_outputs;
  return axes;
}

std::uint64_t fingerprint(std::vector<ResizeAxis> const& axes) {
  Hash hash;
  for (auto const& a : axes)
    hash.add(int(a.kind)).add(int(a.align_corners)).add(a.num_outputs).add(a.factor.value_or(0)).add(int(a.beyond));
  return hash.value();
}

std::shared_ptr<detail::TapMap const> map_of(detail::Taps taps, Range outputs, Range inputs) {
  if (inputs.lo == outputs.lo && inputs.size() == outputs.size() && taps.is_identity(outputs)) return nullptr;
  return std::make_shared<detail::TapMap const>(std::move(taps), inputs);
}

std::shared_ptr<ResizeSetUp const> make_set_up(Domain const& domain, ResizeOptions const& options,
                                               detail::Like const& like, torch::Tensor const& x, Layout const& layout) {
  auto const& comm = domain.comm();
  auto const axes = axes_of(options, like, x, layout);
  std::array<std::shared_ptr<detail::TapMap const>, 3> maps;
  detail::NeedDescription need;
  for (int a = 0; a < 2; ++a) {
    auto const& axis = axes[axes.size() - 2 + std::size_t(a)];
    auto const cuts = like.layout ? *like.layout->cuts(a) : axis.output_cuts(*layout.cuts(a));
    auto const outputs = detail::own_range(comm, layout, a, cuts);
    auto taps = axis.taps(outputs, x, x.dim() == 3 ? -1 : a - 2);
    need.needed[std::size_t(a)] = taps.span();
    maps[std::size_t(1 - a)] = map_of(std::move(taps), outputs, need.needed[std::size_t(a)]);
  }
  if (x.dim() == 5) {
    Range const levels{0, axes[0].num_outputs};
    maps[2] = map_of(axes[0].taps(levels, x, -3), levels, {0, axes[0].num_inputs});
  }
  need.boundary =
      detail::boundary_of(std::size_t(x.dim() - 2), domain,
                          options.padding == Padding::by_domain ? std::nullopt : std::optional(Edge::replicate));
  need.odd_channels = options.odd_channels;
  need.fingerprint = fingerprint(axes);
  auto const& rows = axes[axes.size() - 2];
  return std::make_shared<ResizeSetUp const>(
      ResizeSetUp{detail::NeededInputs(comm, layout, need), std::move(maps), rows.num_outputs >= rows.num_inputs});
}

torch::Tensor apply_maps(ResizeSetUp const& s, torch::Tensor const& x) {
  auto y = x.to(detail::type_of_sums(x.scalar_type()));
  auto const first = s.rows_grow ? -1 : -2;
  for (std::int64_t const axis : {std::int64_t(-3), std::int64_t(first), std::int64_t(-3 - first)})
    if (auto const& map = s.maps[std::size_t(-1 - axis)]) y = detail::apply_taps(map, y, axis);
  return y.to(x.scalar_type());
}

void check_input(ResizeOptions const& options, Domain const& domain, torch::Tensor const& x) {
  (void)tensor_view(x);
  if (x.dim() < 3 || x.dim() > 5)
    throw Error("ShapeMismatch",
                "Resize takes [batch, channels, length], [..., rows, columns] or [..., levels, rows, "
                "columns], not " +
                    std::to_string(x.dim()) + " axes");
  auto const mode_axes = num_axes_of(options.interpolate.mode());
  if (mode_axes > 0 && mode_axes != x.dim() - 2)
    throw Error("BadOption", "Resize has a mode for " + std::to_string(mode_axes) + " spatial axes, got " +
                                 std::to_string(x.dim() - 2));
  if (!torch::isFloatingType(x.scalar_type()))
    throw Error("UnsupportedTensor", std::string("Resize needs real numbers, got ") + c10::toString(x.scalar_type()));
  detail::check_longitude("Resize of a length", std::size_t(x.dim() - 2), domain);
  detail::check_odd_channels(options.odd_channels, x.size(1));
}

}  // namespace

ResizeOptions::ResizeOptions(F::InterpolateFuncOptions torch_options, Padding padding_by)
    : interpolate(std::move(torch_options)), padding(padding_by) {}

ResizeOptions::ResizeOptions(torch::nn::UpsampleOptions const& torch_options, Padding padding_by)
    : ResizeOptions(with_mode_of(torch_options), padding_by) {}

class detail::ResizeState : public NeedState<ResizeSetUp> {
 public:
  explicit ResizeState(Domain const& domain) : NeedState(domain, "Resize"), other(domain, "Resize", this) {}
  OtherLayout other;
};

torch::Tensor detail::serial_like(torch::nn::UpsampleImpl& layer, torch::Tensor const& x, torch::Tensor const& like) {
  auto options = with_mode_of(layer.options);
  options.scale_factor(std::nullopt).size(last_sizes(like, x.dim() - 2));
  return F::interpolate(x, options);
}

ResizeImpl::ResizeImpl(ResizeOptions options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::ResizeState>()), options_(std::move(options)) {
  check_options(options_.interpolate);
}

torch::Tensor ResizeImpl::resized(torch::Tensor const& x, detail::Like const& like) {
  auto const given = detail::with_columns(x, std::size_t(x.dim() - 2));
  auto const call = state().enter(
      given, [&] { check_input(options_, domain(), x); },
      [&](Layout const& layout) { return make_set_up(domain(), options_, like, x, layout); }, false,
      like.fingerprint());
  auto y = apply_maps(*call.set_up, state().fetch(call, given));
  if (y.is_alias_of(x)) y = y.clone();
  return detail::hand_on(x, x.dim() == 3 ? y.squeeze(-1) : y, domain());
}

torch::Tensor ResizeImpl::forward(torch::Tensor const& x) { return resized(x, {}); }

torch::Tensor ResizeImpl::forward_like(torch::Tensor const& x, torch::Tensor const& like) {
  return resized(x, state().other.like(x, like, like.defined() ? std::size_t(like.dim() - 2) : 0));
}

}  // namespace graticule::nn
