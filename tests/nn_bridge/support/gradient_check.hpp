// SPDX-License-Identifier: BSD-3-Clause
// Numeric checks of first and second derivatives of a function whose input and output are spread over ranks.
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace graticule::test {

/// What a rank's tensor is a part of: see the types of values in the tests of the collectives.
enum class Spread {
  sharded,     ///< each rank has its own cells; products of value and cotangent are summed over ranks
  partial,     ///< the same value everywhere, each rank's cotangent is a part: products are summed, too
  replicated,  ///< the same value and the same cotangent everywhere: products count once
};

struct GradientCheck {
  std::function<torch::Tensor(torch::Tensor const&)> function;  ///< collective, of one tensor in f64 or complex128
  Spread input = Spread::sharded;
  Spread output = Spread::sharded;
  double step = 1e-4;  ///< of central differences; any for linear functions
  int directions = 1;
};

namespace detail {

/// One inner product over all ranks: the real part of sum conj(a) b.
class Products {
 public:
  Products(Comm const& comm) : comm_(comm) {}

  [[nodiscard]] double operator()(torch::Tensor const& a, torch::Tensor const& b, Spread spread) const {
    double value = a.numel() ? at::real((a.detach().conj() * b.detach()).sum()).item<double>() : 0;
    if (spread == Spread::replicated && comm_.rank() != 0) value = 0;
    comm_.sum(std::span(&value, 1));
    return value;
  }
  /// Random, and equal on all ranks unless each has its own cells (or its own part of a cotangent).
  [[nodiscard]] torch::Tensor random(torch::Tensor const& like, bool equal) {
    ++seed_;
    auto generator =
        torch::make_generator<torch::CPUGeneratorImpl>(equal ? seed_ : seed_ * 1000 + std::uint64_t(comm_.rank()));
    return torch::randn(like.sizes(), generator, like.options().requires_grad(false));
  }

 private:
  Comm comm_;
  std::uint64_t seed_ = 100;
};

inline double relative(double found, double expected) {
  return std::abs(found - expected) / std::max(1.0, std::abs(expected));
}

inline torch::Tensor or_zeros(torch::Tensor const& gradient, torch::Tensor const& like) {
  return gradient.defined() ? gradient : torch::zeros_like(like);
}

}  // namespace detail

struct GradientErrors {
  double first = 0;   ///< of the backward against differences of the function
  double second = 0;  ///< of the double backward against differences of the backward
  double spread = 0;  ///< difference among ranks of the gradient of a replicated input
};

/// Relative errors, the same on all ranks. Collective. @param x this rank's tensor, f64 or complex128
///
/// With p(x, c) = <c, F(x)> over all ranks: dp/dx along random directions against backward(c); and with q(x, c) =
/// <u, dp/dx>: dq/dx and dq/dc along random directions against the backward of the backward.
inline GradientErrors gradient_errors(GradientCheck const& check, torch::Tensor const& x, Comm const& comm) {
  detail::Products products(comm);
  GradientErrors errors;
  auto const differentiate = [&](torch::Tensor const& at, torch::Tensor const& cotangent) {
    auto leaf = at.detach().clone().requires_grad_();
    auto c = cotangent.detach().clone().requires_grad_();
    auto const gradient = torch::autograd::grad({check.function(leaf)}, {leaf}, {c}, true, true, true)[0];
    return std::tuple{leaf, c, detail::or_zeros(gradient, leaf)};
  };
  bool const same_input = check.input != Spread::sharded;
  bool const same_cotangent = check.output == Spread::replicated;
  for (int i = 0; i < check.directions; ++i) {
    auto const probe = check.function(x.detach());
    auto const cotangent = products.random(probe, same_cotangent);
    auto const v = products.random(x, same_input);
    auto const h = check.step;
    auto const at = [&](double t) { return products(cotangent, check.function(x.detach() + t * v), check.output); };
    auto const [leaf, c, gradient] = differentiate(x, cotangent);
    errors.first =
        std::max(errors.first, detail::relative(products(gradient, v, check.input), (at(h) - at(-h)) / (2 * h)));
    if (check.input == Spread::replicated) {
      auto first = gradient.detach().contiguous().clone();
      comm.broadcast(first.mutable_data_ptr(), Index(first.nbytes()), 0);
      double worst = first.numel() ? (first - gradient.detach()).abs().max().template item<double>() : 0;
      comm.max(std::span(&worst, 1));
      errors.spread = std::max(errors.spread, worst);
    }
    // The gradient's cotangent is spread as the input is: its value counts once where that does.
    auto const u = products.random(x, check.input == Spread::replicated);
    auto const w = products.random(probe, same_cotangent);
    auto const second = torch::autograd::grad({gradient}, {leaf, c}, {u}, false, false, true);
    double const found = products(detail::or_zeros(second[0], leaf), v, check.input) +
                         products(detail::or_zeros(second[1], c), w, check.output);
    auto const along = [&](double t) {
      auto const moved = std::get<2>(differentiate(x.detach() + t * v, cotangent + t * w));
      return products(u, moved, check.input);
    };
    errors.second = std::max(errors.second, detail::relative(found, (along(h) - along(-h)) / (2 * h)));
  }
  return errors;
}

}  // namespace graticule::test
