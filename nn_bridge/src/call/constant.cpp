// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>

#include <utility>

namespace graticule::nn::detail {

Constant::Constant(torch::Tensor host) : host_(std::move(host)), copies_(std::make_shared<Copies>()) {
  // A first call in inference mode must not make what a later one cannot keep for its backward.
  c10::InferenceMode const normal(false);
  if (host_.is_inference()) host_ = host_.clone();
}

namespace {

/// There for all streams. CUDA has waited for a copy from ordinary memory anyway; not every device does.
torch::Tensor uploaded(torch::Tensor const& host, torch::Device const& to) {
  auto copy = host.to(to);
  if (copy.is_cuda() || copy.is_hip() || copy.is_privateuseone()) await_messages(copy.device());
  return copy;
}

}  // namespace

torch::Tensor Constant::on(torch::Device device, std::optional<torch::ScalarType> type) const {
  auto const wanted = type.value_or(host_.scalar_type());
  if (device.is_cpu() && wanted == host_.scalar_type()) return host_;
  std::lock_guard const lock(copies_->mutex);
  for (auto const& copy : copies_->tensors) {
    if (copy.device() != device || copy.scalar_type() != wanted) continue;
    keep_for_current_stream(copy);
    return copy;
  }
  c10::InferenceMode const normal(false);
  torch::NoGradGuard const no_grad;
  // Converted on the host: on the device the conversion would be work of this stream only.
  return copies_->tensors.emplace_back(uploaded(host_.to(wanted), device));
}

}  // namespace graticule::nn::detail
