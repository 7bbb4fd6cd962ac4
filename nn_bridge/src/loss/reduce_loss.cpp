// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "call/between.hpp"
#include "call/recorded_calls.hpp"
#include "collective/collective_maps.hpp"

#include <array>

namespace graticule::nn {

torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm) {
  // As in LibTorch, the backward of a loss without any gradient is an error: on all ranks, or on none.
  std::array<Index, 1> any{torch::GradMode::is_enabled() && partial.requires_grad() ? 1 : 0};
  if (comm.num_ranks() > 1) comm.max(any);
  return detail::apply_linear_call(detail::loss_sum_map(comm), partial, detail::anchor(any[0] != 0, partial.options()));
}

torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain) {
  detail::check_entry(partial, domain, "reduce_loss", detail::Entry::sum);
  auto sum = partial;
  for (auto const& token : domain.recorded_calls().unreached(domain.comm(), {partial}))
    sum = sum + token.to(partial.options()) * 0;
  auto loss = reduce_loss(sum, domain.comm());
  // A loss on gradients of this one runs its adjoint again.
  auto& calls = domain.recorded_calls();
  calls.record(loss, {calls.next_call(), 0}, "a loss");
  return loss;
}

}  // namespace graticule::nn
