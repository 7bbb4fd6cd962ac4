// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "box_with_halo.hpp"
#include "call/resolved.hpp"
#include "field_axes.hpp"
#include "move/tensor_pull.hpp"

#include <array>
#include <exception>

namespace graticule::nn {

class detail::HaloExchangeState : public LayerState<TensorPull> {
 public:
  HaloExchangeState(HaloExchangeOptions const& options, Domain const& domain)
      : LayerState(domain, "HaloExchange"), axes(options, domain) {}
  FieldAxes axes;
};

namespace {

/// @throws `BadHaloWidth` where a part is smaller than what is cropped
void check_crop(Cuts const& cuts, Width const& width) {
  for (int p = 0; p < cuts.num_parts(); ++p)
    if (cuts.size(p) > 0 && cuts.size(p) + width.lower + width.upper < 0)
      throw Error("BadHaloWidth", "widths " + std::to_string(width.lower) + " and " + std::to_string(width.upper) +
                                      " crop more than the " + std::to_string(cuts.size(p)) + " cells of part " +
                                      std::to_string(p));
}

}  // namespace

HaloExchangeImpl::HaloExchangeImpl(HaloExchangeOptions options, Domain domain)
    : StatefulModule(std::move(domain),
                     [options](Domain const& of) { return std::make_shared<detail::HaloExchangeState>(options, of); }),
      options_(std::move(options)) {}

torch::Tensor HaloExchangeImpl::forward(torch::Tensor const& given) {
  auto x = detail::resolved(given);
  std::exception_ptr failure;
  try {
    (void)tensor_view(x);
    if (!options_.odd_channels.empty() && x.dim() < 3)
      throw Error("BadBoundary", "odd channels need a tensor with a channel axis");
    x = state().axes.as_planes(x);
  } catch (...) {
    failure = std::current_exception();
  }
  auto const check = [&] {
    if (failure) std::rethrow_exception(failure);
  };
  auto const make = [&](Layout const& layout) {
    std::array<Width, 2> const widths{options_.latitude, options_.longitude};
    for (std::size_t a = 0; a < widths.size(); ++a) check_crop(*layout.cuts(int(a)), widths[a]);
    Box const needed = detail::box_with_halo(layout.owned(domain().comm().rank()), widths);
    Hash hash;
    for (auto const& width : widths) hash.add(width.lower).add(width.upper);
    return std::make_shared<detail::TensorPull const>(domain().comm(), layout, state().axes.boundary(),
                                                      std::vector{Target{needed, {needed}}}, options_.odd_channels,
                                                      hash.value());
  };
  auto const call = state().enter(x, check, make);
  auto const y =
      state().axes.as_given(state().record(detail::apply_linear(call.set_up, detail::Way::forward, x, call.anchor)));
  return given.is_contiguous() ? y.contiguous() : y;
}

}  // namespace graticule::nn
