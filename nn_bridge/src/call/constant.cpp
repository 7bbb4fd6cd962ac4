// SPDX-License-Identifier: BSD-3-Clause
#include "constant.hpp"

#include <utility>

namespace graticule::nn::detail {

Constant::Constant(torch::Tensor host) : host_(std::move(host)), copies_(std::make_shared<Copies>()) {
  // A first call in inference mode must not make what a later one cannot keep for its backward.
  c10::InferenceMode const normal(false);
  if (host_.is_inference()) host_ = host_.clone();
}

torch::Tensor Constant::on(torch::Device device, std::optional<torch::ScalarType> type) const {
  auto const wanted = type.value_or(host_.scalar_type());
  if (device.is_cpu() && wanted == host_.scalar_type()) return host_;
  std::lock_guard const lock(copies_->mutex);
  for (auto const& copy : copies_->tensors)
    if (copy.device() == device && copy.scalar_type() == wanted) return copy;
  c10::InferenceMode const normal(false);
  torch::NoGradGuard const no_grad;
  return copies_->tensors.emplace_back(host_.to(device, wanted));
}

}  // namespace graticule::nn::detail
