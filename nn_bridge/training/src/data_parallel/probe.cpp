// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/probe.hpp>

#include "wrapper_impl.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace graticule::training {

namespace {

double squared_norm(torch::Tensor const& tensor) {
  auto const real = tensor.is_complex() ? torch::view_as_real(tensor.resolve_conj()) : tensor;
  return real.numel() == 0 ? 0 : real.to(torch::kDouble).square().sum().item<double>();
}

double rounding(torch::ScalarType type) {
  switch (c10::toRealValueType(type)) {
    case torch::kDouble: return std::numeric_limits<double>::epsilon();
    case torch::kFloat: return std::numeric_limits<float>::epsilon();
    default: return 1.0 / 256;
  }
}

}  // namespace

std::vector<WrongRule> find_wrong_rules(DataParallel& parallel, std::function<void()> const& backward,
                                        std::function<double()> const& global_loss, ProbeOptions const& options) {
  auto& impl = parallel.impl();
  auto& parameters = impl.reducer().buckets().parameters();
  parallel.finalize();
  auto const zero = [&] {
    for (auto& parameter : parameters) parameter.tensor.mutable_grad().reset();
  };
  zero();
  parallel.run(backward);
  parallel.synchronize();
  torch::NoGradGuard const no_grad;
  std::vector<WrongRule> wrong;
  for (auto& parameter : parameters) {
    auto const grad = parameter.tensor.grad().defined() ? parameter.tensor.grad().clone() : torch::Tensor();
    auto const before = parameter.tensor.detach().clone();
    std::array<double, 2> squares{grad.defined() ? squared_norm(grad) : 0, squared_norm(before)};
    // Ranks of a team without a rule hold parameters of their own, and all of them are moved.
    for (auto const& team : impl.teams_without_rule(parameter)) team.sum(squares);
    auto const norm = std::sqrt(squares[0]);
    if (norm == 0) continue;
    auto const loss_at = [&](double distance) {
      if (grad.defined()) parameter.tensor.detach().add_(grad, distance / norm);
      double const loss = global_loss();
      parameter.tensor.detach().copy_(before);
      return loss;
    };
    auto step = options.step > 0 ? options.step
                                 : std::cbrt(rounding(parameter.tensor.scalar_type())) * (1 + std::sqrt(squares[1]));
    double factor = 1;
    // A coarse difference may be wrong where the loss is curved, a fine one where it is rounded: one that agrees with
    // the gradient is enough. Where none does, the coarse one says by how much it is wrong.
    for (int attempt = 0; attempt < 2; ++attempt, step /= 8) {
      double const slope = (loss_at(step) - loss_at(-step)) / (2 * step);
      auto const found = norm / slope;
      bool const agrees = std::abs(found - 1) <= options.tolerance;
      if (attempt == 0 || agrees) factor = found;
      if (agrees) break;
    }
    if (!(std::abs(factor - 1) <= options.tolerance)) wrong.push_back({parameter.name, factor});
  }
  zero();
  return wrong;
}

}  // namespace graticule::training
