// SPDX-License-Identifier: BSD-3-Clause
#include "window_pool.hpp"

#include <graticule/partition/detail/hash.hpp>

#include "call/local_map.hpp"
#include "call/spatial.hpp"

namespace graticule::nn::detail {

namespace {

void check_description(WindowPoolDescription const& d) {
  auto const& w = d.windows;
  for (std::size_t a = 0; a < w.kernel.size(); ++a) {
    if (w.kernel[a] < 1 || w.stride[a] < 1 || w.dilation[a] < 1 || w.padding[a] < 0)
      throw Error("BadOption",
                  c10::str(d.layer, " needs a kernel, a stride and a dilation of at least 1 and a padding of at least ",
                           "0, got kernel ", w.kernel[a], ", stride ", w.stride[a], ", dilation ", w.dilation[a],
                           ", padding ", w.padding[a]));
    Index const reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    if (2 * w.padding[a] > reach)
      throw Error("BadHaloWidth", d.layer + ": the padding must be at most half a window of " + std::to_string(reach) +
                                      " cells, got " + std::to_string(w.padding[a]));
  }
  if (!d.odd_channels.empty() && !d.by_domain)
    throw Error("BadBoundary", d.layer + " crosses a pole with Padding::by_domain only");
}

std::uint64_t fingerprint(WindowPoolDescription const& d) {
  auto const& w = d.windows;
  return Hash()
      .add(w.kernel)
      .add(w.stride)
      .add(w.padding)
      .add(w.dilation)
      .add(int(w.ceil_mode))
      .add(int(d.by_domain))
      .value();
}

/// Columns of one cell for a length.
WindowPoolDescription with_columns(WindowPoolDescription d) {
  if (d.windows.kernel.size() > 1) return d;
  for (auto* values : {&d.windows.kernel, &d.windows.stride, &d.windows.dilation}) values->push_back(1);
  d.windows.padding.push_back(0);
  return d;
}

/// Flat indices in the needed inputs as flat indices in the whole field.
torch::Tensor global_indices(PoolSetUp const& s, torch::Tensor const& indices) {
  auto rest = indices;
  auto result = torch::zeros_like(indices);
  std::int64_t stride = 1;
  auto const num_axes = s.globe.axes.size();
  for (std::size_t i = num_axes; i-- > 0;) {
    int const cut_axis = int(i) + 2 - int(num_axes);
    auto const whole = s.globe.axes[i].window.extent;
    auto const extent = cut_axis < 0 ? whole : s.inputs.box().extent(cut_axis);
    auto const first_cell = cut_axis < 0 ? 0 : s.inputs.box().lo(cut_axis);
    result = result + stride * (rest.remainder(extent) + first_cell);
    rest = rest.floor_divide(extent);
    stride *= whole;
  }
  return result;
}

/// Pooling of one tensor by LibTorch; differentiable to any order. Zeros without indices where this rank has no
/// outputs.
Pooled pool_locally(std::shared_ptr<PoolSetUp const> const& set_up, PoolCall const& call, torch::Tensor const& inputs) {
  auto const indices = std::make_shared<torch::Tensor>();
  auto map = std::make_shared<LocalMap>();
  map->apply = [=](LocalMap::Tensors const& in) -> LocalMap::Tensors {
    if (!set_up->has_outputs()) return {set_up->no_outputs(in[0], in[0].scalar_type())};
    auto const pooled = pool(set_up->globe.rule, in[0], call.windows());
    *indices = pooled.indices;
    return {call.outputs_of(pooled.values)};
  };
  map->backward = [=](LocalMap::Tensors const& in, LocalMap::Tensors const& g,
                      std::vector<bool> const&) -> LocalMap::Tensors {
    if (!set_up->has_outputs()) return {torch::zeros_like(in[0])};
    return {pool_backward(set_up->globe.rule, call.results_of(g[0]), in[0], *indices, call.windows())};
  };
  auto const values = apply_local(std::move(map), {inputs})[0];
  return {values, *indices};
}

}  // namespace

WindowPool::WindowPool(Domain const& domain, WindowPoolDescription description)
    : NeedState(domain, description.layer),
      num_axes_(description.windows.kernel.size()),
      description_(with_columns(std::move(description))) {
  check_description(description_);
}

std::shared_ptr<PoolSetUp const> WindowPool::make(torch::Tensor const& x, Layout const& layout) const {
  auto const& d = description_;
  auto const& w = d.windows;
  PoolGlobe globe{d.rule, w, {}, {}, d.odd_channels, fingerprint(d)};
  globe.boundary = boundary_of(num_axes_, domain(), d.by_domain ? std::nullopt : std::optional(Edge::replicate));
  std::vector<PoolRun> runs;
  NeedDescription need{{}, globe.boundary, d.odd_channels, globe.fingerprint};
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    int const cut_axis = int(i) + 2 - int(w.kernel.size());
    bool const is_level = cut_axis < 0;
    Index const extent = is_level ? x.size(-3) : layout.extent(cut_axis);
    PoolAxis const axis{{extent, w.kernel[i], w.stride[i], w.dilation[i], w.padding[i], w.padding[i]},
                        w.ceil_mode,
                        d.by_domain && !is_level,
                        d.needs_whole_kernel ? w.kernel[i] : 1};
    globe.axes.push_back(axis);
    auto const total = axis.num_outputs();
    if (is_level) {
      runs.push_back({{0, total}, {0, extent}, w.padding[i], 0, total});
    } else {
      auto const cuts = axis.window.output_cuts(*layout.cuts(cut_axis), total);
      runs.push_back(axis.run(own_range(domain().comm(), layout, cut_axis, cuts)));
      need.needed[std::size_t(cut_axis)] = runs.back().needed;
    }
  }
  NeededInputs const inputs(domain().comm(), layout, need);
  auto own = inputs.pull() ? std::nullopt : own_call(layout.owned(domain().comm().rank()), globe, runs);
  auto splits = inputs.pull() ? make_splits(domain().comm(), layout, globe, runs) : nullptr;
  PoolCall const whole(w, runs, w.ceil_mode);
  return std::make_shared<PoolSetUp const>(
      PoolSetUp{std::move(globe), inputs, std::move(runs), whole, std::move(own), std::move(splits)});
}

void WindowPool::require_type(torch::Tensor const& x) {
  if (known_type_ == x.scalar_type()) return;
  auto windows = description_.windows;
  std::vector<std::int64_t> sizes{1, 1};
  for (std::size_t i = 0; i < windows.kernel.size(); ++i)
    sizes.push_back(ConvAxis{.kernel = windows.kernel[i], .dilation = windows.dilation[i]}.reach());
  windows.padding.assign(windows.kernel.size(), 0);
  torch::NoGradGuard const no_grad;
  try {
    (void)pool(description_.rule, torch::zeros(sizes, x.options()), windows);
  } catch (c10::Error const&) {
    throw Error("UnsupportedTensor", description_.layer + " of " + c10::toString(x.scalar_type()) +
                                         ", for which LibTorch has no such layer");
  }
  known_type_ = x.scalar_type();
}

WindowPool::Call WindowPool::enter_checked(torch::Tensor const& x) {
  auto const check = [&] {
    check_spatial(description_.layer, num_axes_, x, domain(), description_.odd_channels);
    require_type(x);
  };
  return enter(detail::with_columns(x, num_axes_), check, [&](Layout const& layout) { return make(x, layout); });
}

Pooled WindowPool::pool_whole(Call const& call, torch::Tensor const& x) const {
  auto const& s = *call.set_up;
  auto result = pool_locally(call.set_up, s.whole, fetch(call, x));
  if (!s.has_outputs())
    result.indices = s.no_outputs(x, torch::kLong);
  else if (result.indices.defined())
    result.indices = s.whole.outputs_of(result.indices);
  return result;
}

torch::Tensor WindowPool::forward(torch::Tensor const& x) {
  auto const call = enter_checked(x);
  auto const cells = batched(x, num_axes_);
  auto const& s = *call.set_up;
  if (s.own) return unbatched(pool_locally(call.set_up, *s.own, cells).values, x, num_axes_);
  auto const y = s.splits ? record(pool_by_splits(call.set_up, cells, call.anchor)) : pool_whole(call, cells).values;
  return unbatched(y, x, num_axes_);
}

std::tuple<torch::Tensor, torch::Tensor> WindowPool::forward_with_indices(torch::Tensor const& x) {
  auto const call = enter_checked(x);
  auto const pooled = pool_whole(call, batched(x, num_axes_));
  auto const indices = call.set_up->has_outputs() ? global_indices(*call.set_up, pooled.indices) : pooled.indices;
  return {unbatched(pooled.values, x, num_axes_), unbatched(indices, x, num_axes_)};
}

}  // namespace graticule::nn::detail
