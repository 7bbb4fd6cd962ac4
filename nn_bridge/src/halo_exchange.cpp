// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/halo_exchange.hpp>
#include <graticule/nn_bridge/tensor_view.hpp>
#include <graticule/partition/hash.hpp>

#include "agreement.hpp"
#include "recent.hpp"
#include "tensor_pull.hpp"

#include <array>

namespace graticule::nn {

struct HaloExchangeImpl::State {
  explicit State(Domain const& domain) : agreement(domain, "HaloExchange") {}
  detail::Agreement agreement;
  detail::Recent<detail::TensorPull> plans;
  std::shared_ptr<detail::TensorPull const> pull;
};

HaloExchangeImpl::HaloExchangeImpl(HaloExchangeOptions options, Domain domain)
    : options_(std::move(options)), domain_(std::move(domain)), state_(std::make_shared<State>(domain_)) {}

torch::Tensor HaloExchangeImpl::forward(torch::Tensor const& x) {
  auto const agreed = state_->agreement.agree(x, [&] {
    (void)tensor_view(x);
    if (!options_.odd_channels.empty() && x.dim() < 3)
      throw Error("OddChannels", "odd channels of a tensor without a channel axis");
  });
  if (agreed.changed || !state_->pull) {
    auto const layout = state_->agreement.gather_layout(x);
    state_->pull = state_->plans.get(layout.fingerprint(), [&] {
      std::array<Width, 2> const widths{options_.latitude, options_.longitude};
      Box const needed = grown(layout.owned(domain_.comm().rank()), widths);
      Hash hash;
      for (auto const& width : widths) hash.add(width.lower).add(width.upper);
      return std::make_shared<detail::TensorPull const>(domain_.comm(), layout, domain_.boundary(),
                                                        std::vector{Target{needed, {needed}}}, options_.odd_channels,
                                                        hash.value());
    });
  }
  return detail::pull_tensor(state_->pull, x, detail::anchor(agreed.requires_grad, x.options()));
}

void HaloExchangeImpl::reset_structure() { state_->agreement.reset(); }

int HaloExchangeImpl::num_set_ups() const noexcept { return state_->plans.num_requests(); }

}  // namespace graticule::nn
