// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "call/recorded_calls.hpp"
#include "collective/collective_maps.hpp"

namespace graticule::nn {

torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm) {
  return detail::apply_map(detail::loss_sum_map(comm), partial);
}

torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain) {
  auto sum = partial;
  for (auto const& token : domain.recorded_calls().unreached(domain.comm(), {partial}))
    sum = sum + token.to(partial.options()) * 0;
  auto loss = reduce_loss(sum, domain.comm());
  // A loss on gradients of this one runs its adjoint again.
  auto& calls = domain.recorded_calls();
  calls.record(loss, {calls.next_call(), 0}, 0, "loss");
  return loss;
}

}  // namespace graticule::nn
