// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_move.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>

#include "call/call_stream.hpp"

namespace graticule::nn::detail {

TensorMove::TensorMove(Comm const& comm, Layout from, Layout to, std::vector<std::int64_t> axes)
    : from_(std::move(from)), to_(std::move(to)), axes_(std::move(axes)), plan_(comm, from_, to_) {}

torch::Tensor TensorMove::moved(torch::Tensor const& x, Way way) const {
  auto const& box = way == Way::forward ? plan_.target_box() : plan_.source_box();
  auto sizes = x.sizes().vec();
  for (std::size_t a = 0; a < axes_.size(); ++a) sizes[std::size_t(x.dim() + axes_[a])] = box.extent(int(a));
  auto y = torch::empty(sizes, x.options().requires_grad(false), x.suggest_memory_format());
  count_traffic(plan_.counts(), way, x, axes_);
  CallStream const stream(x);
  DeviceQueueScope const scope(stream.queue());
  if (way == Way::forward)
    plan_.apply(tensor_view(x, axes_), tensor_view(y, axes_));
  else
    plan_.apply_inverse(tensor_view(y, axes_), tensor_view(x, axes_));
  return y;
}

}  // namespace graticule::nn::detail
