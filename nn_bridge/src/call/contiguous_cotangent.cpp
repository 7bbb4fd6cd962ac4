// SPDX-License-Identifier: BSD-3-Clause
#include "contiguous_cotangent.hpp"

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ContiguousCotangent : torch::autograd::Function<ContiguousCotangent> {
  static torch::Tensor forward(AutogradContext* /*ctx*/, torch::Tensor const& y) {
    // Only this function's caller holds `y`, so a view of it need not be tracked, and may be changed in place.
    at::AutoDispatchBelowADInplaceOrView const guard;
    return at::alias(y.detach());
  }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list const& cotangents) {
    return {cotangents[0].contiguous()};
  }
};

}  // namespace

torch::Tensor with_contiguous_cotangent(torch::Tensor const& y) {
  return torch::GradMode::is_enabled() && y.requires_grad() ? ContiguousCotangent::apply(y) : y;
}

torch::Tensor in_plain_memory(torch::Tensor const& x) {
  if (!x.defined() || x.is_contiguous()) return x;
  bool const channels_last = (x.dim() == 4 && x.strides().vec() == c10::get_channels_last_strides_2d(x.sizes())) ||
                             (x.dim() == 5 && x.strides().vec() == c10::get_channels_last_strides_3d(x.sizes()));
  return channels_last ? x : x.contiguous();
}

}  // namespace graticule::nn::detail
