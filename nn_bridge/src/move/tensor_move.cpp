// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_move.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>

#include "call/call_stream.hpp"
#include "call/traffic.hpp"

namespace graticule::nn::detail {

TensorMove::TensorMove(Comm const& comm, Layout from, Layout to, std::vector<std::int64_t> axes)
    : from_(std::move(from)), to_(std::move(to)), axes_(std::move(axes)), plan_(comm, from_, to_) {}

torch::Tensor TensorMove::empty(torch::Tensor const& like, Box const& box) const {
  auto sizes = like.sizes().vec();
  for (std::size_t a = 0; a < axes_.size(); ++a) sizes[std::size_t(like.dim() + axes_[a])] = box.extent(int(a));
  return torch::empty(sizes, like.options().requires_grad(false), like.suggest_memory_format());
}

torch::Tensor TensorMove::apply(torch::Tensor const& x) const {
  auto y = empty(x, to_box());
  count_traffic(plan_.counts(), Way::forward, x, axes_);
  CallStream const stream(x);
  DeviceQueueScope const scope(stream.queue());
  plan_.apply(tensor_view(x, axes_), tensor_view(y, axes_));
  return y;
}

torch::Tensor TensorMove::apply_adjoint(torch::Tensor const& y) const {
  auto x = empty(y, from_box());
  count_traffic(plan_.counts(), Way::adjoint, y, axes_);
  CallStream const stream(y);
  DeviceQueueScope const scope(stream.queue());
  plan_.apply_inverse(tensor_view(x, axes_), tensor_view(y, axes_));
  return x;
}

}  // namespace graticule::nn::detail
