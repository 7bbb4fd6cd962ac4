// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/training/detail/clip.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace graticule::training::detail {

namespace {

/// Of one gradient; complex elements count by their absolute value.
torch::Tensor norm_of(torch::Tensor const& grad, double type) {
  auto const magnitudes = (grad.is_complex() ? grad.abs() : grad).to(torch::kDouble);
  return std::isinf(type) ? magnitudes.abs().max() : magnitudes.norm(type);
}

bool counts(torch::Tensor const& grad) { return grad.defined() && grad.numel() > 0; }

/// Of all gradients that count, in order.
std::vector<double> norms_of(std::vector<ClippedPart> const& parts, double type) {
  std::vector<torch::Tensor> norms;
  for (auto const& part : parts)
    for (auto const& [name, tensor] : part.parameters)
      if (counts(tensor.grad())) norms.push_back(norm_of(tensor.grad(), type));
  return nn::detail::values_on_host(norms);
}

/// `total` is a sum of powers, or the largest.
double combine(double total, double more, double type) {
  return std::isinf(type) ? (std::isnan(more) || more > total ? more : total) : total + more;
}

}  // namespace

double clip_gradients(std::vector<ClippedPart> const& parts, double max_norm, double norm_type, NonFinite non_finite) {
  if (!(max_norm > 0) || !(norm_type > 0))
    throw Error("BadOption", "clipping to " + std::to_string(max_norm) + " by the norm of type " +
                                 std::to_string(norm_type) + "; both must be positive");
  torch::NoGradGuard const no_grad;
  bool const largest = std::isinf(norm_type);
  double total = 0;
  std::string first;
  auto const norms = norms_of(parts, norm_type);
  auto next = norms.begin();
  for (auto const& part : parts) {
    double sum = 0;
    for (auto const& [name, tensor] : part.parameters) {
      if (!counts(tensor.grad())) continue;
      auto const norm = *next++;
      if (!std::isfinite(norm) && first.empty()) first = name;
      sum = combine(sum, largest ? norm : std::pow(norm, norm_type), norm_type);
    }
    for (auto const& team : part.parts_over) {
      // Where a rank has NaN, MPI's maximum may lose it.
      std::array<double, 1> all{largest && std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum};
      largest ? team.max(all) : team.sum(all);
      sum = all[0];
    }
    total = combine(total, sum, norm_type);
  }
  auto const norm = largest ? total : std::pow(total, 1 / norm_type);
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

}  // namespace graticule::training::detail
