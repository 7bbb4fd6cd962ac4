// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/communicating_module.hpp>

#include "recorded_calls.hpp"

namespace graticule::nn {

void reset_structure(torch::nn::Module& model) {
  // `modules` would need a model that is held by a shared pointer.
  if (auto* const layer = dynamic_cast<Communicating*>(&model)) layer->reset_structure();
  for (auto const& child : model.children()) reset_structure(*child);
}

torch::Tensor communication_token(torch::TensorOptions const& options) { return detail::make_token(options); }

int detail::num_set_ups(Communicating const& layer) noexcept { return layer.num_set_ups(); }
bool detail::lacks_domain(Communicating const& layer) noexcept { return layer.lacks_domain(); }
void detail::set_domain(Communicating& layer, Domain const& domain) { layer.set_domain(domain); }

}  // namespace graticule::nn
