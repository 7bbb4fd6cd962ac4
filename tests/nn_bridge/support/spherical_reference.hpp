// SPDX-License-Identifier: BSD-3-Clause
// Spherical harmonic transforms of whole fields as dense sums, with the associated Legendre functions of the C++
// library.
#pragma once

#include <graticule/nn_bridge/spectral/latitude_rule.hpp>

#include <torch/torch.h>

#include <cmath>
#include <numbers>

namespace graticule::test {

class SphericalReference {
 public:
  SphericalReference(nn::LatitudeRule const& rule, Index num_degrees, Index num_orders, Index num_columns) {
    auto const pi = std::numbers::pi;
    auto const n = rule.num_rows();
    legendre_ = torch::zeros({num_degrees, num_orders, n}, torch::kDouble);
    auto values = legendre_.accessor<double, 3>();
    for (Index l = 0; l < num_degrees; ++l)
      for (Index m = 0; m <= l && m < num_orders; ++m)
        for (Index i = 0; i < n; ++i)
          values[l][m][i] =
              std::sph_legendre(unsigned(l), unsigned(m), (90 - rule.latitudes[std::size_t(i)]) * pi / 180);
    weights_ = torch::tensor(rule.weights, torch::kDouble) * (2 * pi / double(num_columns));
    auto const angles =
        torch::outer(torch::arange(num_orders, torch::kDouble), torch::arange(num_columns, torch::kDouble)) *
        (2 * pi / double(num_columns));
    waves_ = torch::polar(torch::ones_like(angles), angles);
    counts_ = torch::full({num_orders}, 2.0, torch::kDouble);
    counts_[0] = 1;
    if (2 * (num_orders - 1) == num_columns) counts_[num_orders - 1] = 1;
  }

  /// [..., rows, columns] to complex [..., degrees, orders]
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x) const {
    auto const along = torch::einsum("...ij,mj->...im", {x.to(torch::kComplexDouble), waves_.conj()});
    return torch::einsum("...im,lmi->...lm", {along, (legendre_ * weights_).to(torch::kComplexDouble)});
  }
  /// and back
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& c) const {
    auto const lines = torch::einsum("...lm,lmi->...im", {c * counts_, legendre_.to(torch::kComplexDouble)});
    return at::real(torch::einsum("...im,mj->...ij", {lines, waves_}));
  }
  /// 1 where degree >= order
  [[nodiscard]] torch::Tensor mask() const {
    auto const sizes = legendre_.sizes();
    return torch::ones({sizes[0], sizes[1]}, torch::kDouble).tril();
  }

 private:
  torch::Tensor legendre_;
  torch::Tensor weights_;
  torch::Tensor waves_;
  torch::Tensor counts_;
};

}  // namespace graticule::test
