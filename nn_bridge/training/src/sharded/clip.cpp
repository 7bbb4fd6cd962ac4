// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/training/detail/clip.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace graticule::training::detail {

namespace {

/// Sum of the norm's powers over the elements of one gradient, or their largest size.
torch::Tensor size_of(torch::Tensor const& gradient, double norm_type) {
  auto const sizes = gradient.detach().abs().to(torch::kDouble);
  if (std::isinf(norm_type)) return sizes.max();
  return (norm_type == 2 ? sizes.square() : sizes.pow(norm_type)).sum();
}

bool counts(torch::Tensor const& gradient) { return gradient.defined() && gradient.numel() > 0; }

/// Of all gradients that count, in order.
std::vector<double> sizes_of(std::vector<ClippedPart> const& parts, double norm_type) {
  std::vector<torch::Tensor> sizes;
  for (auto const& part : parts)
    for (auto const& [name, tensor] : part.parameters)
      if (counts(tensor.grad())) sizes.push_back(size_of(tensor.grad(), norm_type));
  return nn::detail::values_on_host(sizes);
}

double combine(double total, double size, double norm_type) {
  if (!std::isinf(norm_type)) return total + size;
  return std::isnan(total) || total >= size ? total : size;
}

double combine(Comm const& team, double size, double norm_type) {
  if (!std::isinf(norm_type)) {
    team.sum(std::span(&size, 1));
    return size;
  }
  // NaN is no number that MPI's maximum orders.
  bool const is_nan = std::isnan(size);
  std::array<double, 2> all{is_nan ? 1.0 : 0.0, is_nan ? 0.0 : size};
  team.max(all);
  return all[0] > 0 ? std::numeric_limits<double>::quiet_NaN() : all[1];
}

}  // namespace

double scale_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type, NonFinite non_finite) {
  torch::NoGradGuard const no_grad;
  double total = 0;
  std::string first;
  auto const sizes = sizes_of(parts, norm_type);
  auto next = sizes.begin();
  for (auto const& part : parts) {
    double size = 0;
    for (auto const& [name, tensor] : part.parameters) {
      if (!counts(tensor.grad())) continue;
      if (!std::isfinite(*next) && first.empty()) first = name;
      size = combine(size, *next++, norm_type);
    }
    if (part.decided_on) part.decided_on->broadcast(&size, Index(sizeof size), 0);
    for (auto const& team : part.parts_over) size = combine(team, size, norm_type);
    total = combine(total, size, norm_type);
  }
  auto const norm = std::isinf(norm_type) ? total : std::pow(total, 1 / norm_type);
  if (!std::isfinite(norm) && non_finite == NonFinite::refused)
    throw Error("NotFinite", "the norm of the gradients is " + std::to_string(norm) +
                                 (first.empty() ? ", by another rank's part" : ", that of '" + first + "' first"));
  auto const factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (auto const& part : parts)
    for (auto const& [name, tensor] : part.parameters)
      if (tensor.grad().defined()) tensor.grad().detach().mul_(factor);
  return norm;
}

double clip_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type, NonFinite non_finite) {
  if (!(max_norm > 0) || !(norm_type > 0))
    throw Error("BadOption", "clipping to " + std::to_string(max_norm) + " by the norm of type " +
                                 std::to_string(norm_type) + "; both must be positive");
  return scale_gradients(parts, max_norm, norm_type, non_finite);
}

}  // namespace graticule::training::detail
