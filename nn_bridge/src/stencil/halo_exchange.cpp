// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "call/call_stream.hpp"
#include "call/kept.hpp"
#include "call/recorded_calls.hpp"
#include "call/traffic.hpp"
#include "move/tensor_pull.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <span>

namespace graticule::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Which axes of a tensor are latitude, longitude and channels; tensors seen as [..., channels, rows, columns].
class FieldAxes {
 public:
  /// @throws `BadAxis`; `BadHaloWidth`, `LongitudeIsCut` where there is no axis of longitude and it has a halo or is
  /// cut
  FieldAxes(HaloExchangeOptions const& options, Domain const& domain);

  /// A view of `x`. @throws `ShapeMismatch` for a tensor that lacks an axis
  [[nodiscard]] torch::Tensor as_planes(torch::Tensor const& x) const;
  /// The inverse.
  [[nodiscard]] torch::Tensor as_given(torch::Tensor const& planes) const;
  /// Beyond the edges of planes.
  [[nodiscard]] Boundary const& boundary() const noexcept { return boundary_; }

 private:
  std::vector<std::int64_t> from_;  ///< axes of the tensor, with one of longitude
  std::vector<std::int64_t> to_;    ///< of planes
  bool has_longitude_ = true;
  Boundary boundary_;
};

FieldAxes::FieldAxes(HaloExchangeOptions const& o, Domain const& domain)
    : from_(o.axes), to_{-2, -1}, has_longitude_(o.axes.size() == 2), boundary_(domain.boundary()) {
  if (!o.odd_channels.empty()) {
    from_.push_back(o.channel_axis);
    to_.push_back(-3);
  }
  auto sorted = from_;
  std::sort(sorted.begin(), sorted.end());
  bool const twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (o.axes.empty() || o.axes.size() > 2 || twice || sorted.back() >= 0)
    throw Error("BadAxis",
                c10::str("a halo along axes ", at::IntArrayRef(o.axes), " with channels along axis ", o.channel_axis,
                         ": one or two axes and that of odd channels, counted from the last as -1, each once"));
  if (has_longitude_) return;
  if (o.longitude.lower != 0 || o.longitude.upper != 0)
    throw Error("BadHaloWidth", "a halo along longitude needs an axis of longitudes among those of the exchange");
  if (domain.grid().extent(1) > 1)
    throw Error("LongitudeIsCut",
                "a halo along latitude alone needs whole longitudes: the domain must have 1 part along them, got a "
                "process grid of " +
                    to_string(domain.grid().extents()));
  // One column behind all axes: half way round it lies the column itself.
  for (auto& axis : from_) --axis;
  from_.insert(from_.begin() + 1, -1);
  boundary_.odd_longitudes = OddLongitudes::shift_floor;
}

torch::Tensor FieldAxes::as_planes(torch::Tensor const& x) const {
  if (!x.defined()) return x;
  auto const planes = has_longitude_ ? x : x.unsqueeze(-1);
  auto const first = *std::min_element(from_.begin(), from_.end());
  if (planes.dim() < -first)
    throw Error("ShapeMismatch",
                c10::str("a halo along axis ", first + (has_longitude_ ? 0 : 1), " of a tensor ", x.sizes()));
  return from_ == to_ ? planes : planes.movedim(from_, to_);
}

torch::Tensor FieldAxes::as_given(torch::Tensor const& planes) const {
  auto const x = from_ == to_ ? planes : planes.movedim(to_, from_);
  return has_longitude_ ? x : x.squeeze(-1);
}

std::array<Width, 2> widths_of(HaloExchangeOptions const& options) { return {options.latitude, options.longitude}; }

/// @throws `BadHaloWidth` where a part is smaller than what is cropped
void check_crop(Cuts const& cuts, Width const& width) {
  for (int p = 0; p < cuts.num_parts(); ++p)
    if (cuts.size(p) > 0 && cuts.size(p) + width.lower + width.upper < 0)
      throw Error("BadHaloWidth", "widths " + std::to_string(width.lower) + " and " + std::to_string(width.upper) +
                                      " crop more than the " + std::to_string(cuts.size(p)) + " cells of part " +
                                      std::to_string(p));
}

/// The input of a forward as planes. @throws `UnsupportedTensor`, `BadBoundary`, `ShapeMismatch`
torch::Tensor planes_of(FieldAxes const& axes, HaloExchangeOptions const& options, torch::Tensor const& x) {
  (void)tensor_view(x);
  if (!options.odd_channels.empty() && x.dim() < 3)
    throw Error("BadBoundary", "odd channels need a tensor with a channel axis");
  return axes.as_planes(x);
}

/// `owned` and its halo. A shard without cells along one axis still has a halo along the other: its tensor has the
/// sizes that the same code finds on every other rank, so that it can narrow each of them alike.
Box box_with_halo(Box const& owned, std::array<Width, 2> const& widths) {
  Box result = owned;
  for (int a = 0; a < 2; ++a)
    if (owned.extent(a) > 0)
      result.set(a, owned.lo(a) - widths[std::size_t(a)].lower, owned.hi(a) + widths[std::size_t(a)].upper);
  return result;
}

/// From a shard to a shard with its halo. Collective.
std::shared_ptr<detail::TensorPull const> make_pull(Comm const& comm, Layout const& layout,
                                                    HaloExchangeOptions const& options, Boundary const& boundary) {
  auto const widths = widths_of(options);
  Box const needed = box_with_halo(layout.owned(comm.rank()), widths);
  Hash hash;
  for (auto const& width : widths) hash.add(width.lower).add(width.upper);
  return std::make_shared<detail::TensorPull const>(comm, layout, boundary, std::vector{Target{needed, {needed}}},
                                                    options.odd_channels, hash.value());
}

/// Plans of one layout: in place, and the same map from shard to padded field for a backward that is differentiated.
struct PaddedSetUp {
  PaddedSetUp(Comm const& comm, Layout const& layout, HaloExchangeOptions const& given, Boundary const& boundary)
      : options(given),
        plan(comm, layout, {given.latitude, given.longitude}, boundary),
        pull(make_pull(comm, layout, given, boundary)) {}

  [[nodiscard]] std::vector<HaloField> fields(torch::Tensor const& padded) const {
    std::vector<HaloField> result;
    // The plan knows no halo of a rank without cells.
    auto const field = plan.owned().empty() ? owned(padded) : padded;
    for (auto const& run : detail::parity_runs(field, options.odd_channels))
      result.push_back({tensor_view(run.part), run.parity, 0});
    return result;
  }
  /// Around the shard's rows and columns; none along an axis without cells.
  [[nodiscard]] std::array<Width, 2> widths() const {
    auto result = widths_of(options);
    for (int a = 0; a < 2; ++a)
      if (plan.owned().extent(a) == 0) result[std::size_t(a)] = {};
    return result;
  }
  [[nodiscard]] torch::Tensor owned(torch::Tensor const& padded) const {
    auto const& [rows, columns] = widths();
    return padded.narrow(-2, rows.lower, plan.owned().extent(0)).narrow(-1, columns.lower, plan.owned().extent(1));
  }
  /// Zeros around a shard.
  [[nodiscard]] torch::Tensor pad(torch::Tensor const& shard) const {
    auto const& [rows, columns] = widths();
    return torch::constant_pad_nd(shard, {columns.lower, columns.upper, rows.lower, rows.upper});
  }

  HaloExchangeOptions options;
  HaloPlan plan;
  std::shared_ptr<detail::TensorPull const> pull;
};

using PaddedSetUpPointer = std::shared_ptr<PaddedSetUp const>;

Index cell_bytes(torch::Tensor const& padded) {
  auto const cells = padded.size(-2) * padded.size(-1);
  return cells ? Index(padded.nbytes()) / cells : 0;
}

/// Whether the backward may write to the memory: no other reference to this tensor or its storage exists.
bool is_ours(torch::Tensor const& gradient) {
  return gradient.use_count() == 1 && gradient.storage().use_count() == 1 && gradient.is_non_overlapping_and_dense();
}

struct FillHalo : torch::autograd::Function<FillHalo> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& padded, torch::Tensor const& /*anchor*/,
                               PaddedSetUpPointer const& set_up) {
    detail::keep(ctx, set_up);
    auto result = padded.detach();
    detail::count_traffic(set_up->plan.counts(), detail::Way::forward, cell_bytes(padded));
    detail::CallStream const stream(result);
    auto const fields = set_up->fields(result);
    set_up->plan.start(std::span<HaloField const>(fields), stream.queue()).wait();
    return {result, detail::make_token(padded.options())};
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const set_up = detail::kept<PaddedSetUpPointer>(ctx);
    if (torch::GradMode::is_enabled()) {
      auto const own =
          detail::apply_linear(set_up->pull, detail::Way::adjoint, grads[0], detail::anchor(true, grads[0].options()));
      return {set_up->pad(own), {}, {}};
    }
    auto gradient = is_ours(grads[0]) ? grads[0] : grads[0].clone(torch::MemoryFormat::Contiguous);
    detail::count_traffic(set_up->plan.counts(), detail::Way::adjoint, cell_bytes(gradient));
    detail::CallStream const stream(gradient);
    auto const fields = set_up->fields(gradient);
    set_up->plan.start_adjoint(std::span<HaloField const>(fields), stream.queue()).wait();
    return {gradient, {}, {}};
  }
};

}  // namespace

namespace detail {

/// The state of a layer whose tensors have rows and columns along any axes.
template <class SetUp>
struct PlanesState : LayerState<SetUp> {
  PlanesState(Domain const& domain, std::string const& layer, HaloExchangeOptions const& options)
      : LayerState<SetUp>(domain, layer), axes(options, domain) {}
  FieldAxes axes;
};

class HaloExchangeState : public PlanesState<TensorPull> {
 public:
  using PlanesState::PlanesState;
};

class PaddedHaloState : public PlanesState<PaddedSetUp> {
 public:
  using PlanesState::PlanesState;
};

}  // namespace detail

HaloExchangeImpl::HaloExchangeImpl(HaloExchangeOptions options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::HaloExchangeState>("HaloExchange", options)),
      options_(std::move(options)) {}

torch::Tensor HaloExchangeImpl::forward(torch::Tensor const& given) {
  auto x = detail::resolved(given);
  std::exception_ptr failure;
  try {
    x = planes_of(state().axes, options_, x);
  } catch (...) {
    failure = std::current_exception();
  }
  auto const check = [&] {
    if (failure) std::rethrow_exception(failure);
  };
  auto const make = [&](Layout const& layout) {
    auto const widths = widths_of(options_);
    for (std::size_t a = 0; a < widths.size(); ++a) check_crop(*layout.cuts(int(a)), widths[a]);
    return make_pull(domain().comm(), layout, options_, state().axes.boundary());
  };
  auto const call = state().enter(x, check, make);
  auto const y =
      state().axes.as_given(state().record(detail::apply_linear(call.set_up, detail::Way::forward, x, call.anchor)));
  return given.is_contiguous() ? y.contiguous() : y;
}

PaddedHaloExchangeImpl::PaddedHaloExchangeImpl(HaloExchangeOptions options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::PaddedHaloState>("PaddedHaloExchange", options)),
      options_(std::move(options)) {
  for (auto const& width : widths_of(options_))
    if (width.lower < 0 || width.upper < 0)
      throw Error("BadHaloWidth", "a padded field cannot have a halo of " + std::to_string(width.lower) + " and " +
                                      std::to_string(width.upper) + " cells");
}

torch::Tensor PaddedHaloExchangeImpl::owned(torch::Tensor const& padded) const {
  return state().axes.as_given(owned_planes(state().axes.as_planes(padded)));
}

torch::Tensor PaddedHaloExchangeImpl::owned_planes(torch::Tensor const& padded) const {
  auto const middle = [](torch::Tensor const& t, std::int64_t axis, Width width) {
    if (t.size(axis) == 0) return t;
    auto const extent = t.size(axis) - width.lower - width.upper;
    if (extent < 1)
      throw Error("BadHaloWidth", "a field of " + std::to_string(t.size(axis)) + " cells has no room for a halo of " +
                                      std::to_string(width.lower) + " and " + std::to_string(width.upper) +
                                      " around its own");
    return t.narrow(axis, width.lower, extent);
  };
  return middle(middle(padded, -2, options_.latitude), -1, options_.longitude);
}

torch::Tensor PaddedHaloExchangeImpl::room_for(torch::Tensor const& shard) const {
  auto sizes = shard.sizes().vec();
  auto const widths = widths_of(options_);
  auto const& axes = options_.axes;
  auto const at = [&](std::size_t a) -> std::int64_t& { return sizes[std::size_t(shard.dim() + axes[a])]; };
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (shard.dim() + axes[a] >= 0 && at(a) > 0) at(a) += widths[a].lower + widths[a].upper;
  return torch::empty(sizes, shard.options().requires_grad(false));
}

torch::Tensor PaddedHaloExchangeImpl::forward(torch::Tensor const& given) {
  torch::Tensor padded;
  torch::Tensor shard;
  std::exception_ptr failure;
  try {
    padded = planes_of(state().axes, options_, given);
    if (!given.is_non_overlapping_and_dense())
      throw Error("UnsupportedTensor", "a padded field whose cells share memory or lie apart");
    shard = owned_planes(padded);
  } catch (...) {
    failure = std::current_exception();
  }
  auto const check = [&] {
    if (failure) std::rethrow_exception(failure);
  };
  auto const make = [&](Layout const& layout) {
    return std::make_shared<PaddedSetUp const>(domain().comm(), layout, options_, state().axes.boundary());
  };
  auto const call = state().enter(shard, check, make);
  return state().axes.as_given(state().record(FillHalo::apply(padded, call.anchor, call.set_up)[0]));
}

}  // namespace graticule::nn
