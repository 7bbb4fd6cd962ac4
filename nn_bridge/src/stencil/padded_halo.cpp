// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "box_with_halo.hpp"
#include "call/call_stream.hpp"
#include "call/kept.hpp"
#include "call/recorded_calls.hpp"
#include "call/traffic.hpp"
#include "field_axes.hpp"
#include "move/parity_runs.hpp"
#include "move/tensor_pull.hpp"

#include <array>
#include <span>

namespace graticule::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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
  [[nodiscard]] torch::Tensor owned(torch::Tensor const& padded) const {
    auto const& box = plan.owned();
    auto const lower = [&](int axis, Width width) { return box.extent(axis) > 0 ? width.lower : 0; };
    return padded.narrow(-2, lower(0, options.latitude), box.extent(0))
        .narrow(-1, lower(1, options.longitude), box.extent(1));
  }
  /// Zeros around a shard.
  [[nodiscard]] torch::Tensor pad(torch::Tensor const& shard) const {
    auto const& box = plan.owned();
    auto const width = [&](int axis, Width given) { return box.extent(axis) > 0 ? given : Width{}; };
    auto const rows = width(0, options.latitude);
    auto const columns = width(1, options.longitude);
    return torch::constant_pad_nd(shard, {columns.lower, columns.upper, rows.lower, rows.upper});
  }

  HaloExchangeOptions options;
  HaloPlan plan;
  std::shared_ptr<detail::TensorPull const> pull;

 private:
  static std::shared_ptr<detail::TensorPull const> make_pull(Comm const& comm, Layout const& layout,
                                                             HaloExchangeOptions const& given,
                                                             Boundary const& boundary) {
    auto const needed = detail::box_with_halo(layout.owned(comm.rank()), {given.latitude, given.longitude});
    return std::make_shared<detail::TensorPull const>(comm, layout, boundary, std::vector{Target{needed, {needed}}},
                                                      given.odd_channels, 0);
  }
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

class detail::PaddedHaloState : public LayerState<PaddedSetUp> {
 public:
  PaddedHaloState(HaloExchangeOptions const& options, Domain const& domain)
      : LayerState(domain, "PaddedHaloExchange"), axes(options, domain) {}
  FieldAxes axes;
};

PaddedHaloExchangeImpl::PaddedHaloExchangeImpl(HaloExchangeOptions options, Domain domain)
    : StatefulModule(std::move(domain),
                     [options](Domain const& of) { return std::make_shared<detail::PaddedHaloState>(options, of); }),
      options_(std::move(options)) {
  for (auto const& width : {options_.latitude, options_.longitude})
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
  std::array<Width, 2> const widths{options_.latitude, options_.longitude};
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
    (void)tensor_view(given);
    if (!options_.odd_channels.empty() && given.dim() < 3)
      throw Error("BadBoundary", "odd channels need a tensor with a channel axis");
    if (!given.is_non_overlapping_and_dense())
      throw Error("UnsupportedTensor", "a padded field whose cells share memory or lie apart");
    padded = state().axes.as_planes(given);
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
