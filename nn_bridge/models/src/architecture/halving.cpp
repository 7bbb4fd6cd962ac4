// SPDX-License-Identifier: BSD-3-Clause
#include "halving.hpp"

namespace graticule::models {
namespace {

bool reaches_pole(Edge edge) { return edge == Edge::pole_row || edge == Edge::pole_face; }

}  // namespace

Halvings::Halvings(std::int64_t num_rows, std::int64_t num_columns, Boundary const& boundary)
    : num_rows_(num_rows), num_columns_(num_columns), rows_(boundary.axes[0]) {}

bool Halvings::possible() const noexcept { return window() > 0 && num_columns_ % 4 == 0; }

std::int64_t Halvings::window() const noexcept {
  if (num_rows_ < 6) return 0;
  if (!reaches_pole(rows_.lower) && !reaches_pole(rows_.upper)) return 3;
  if (rows_.lower != rows_.upper) return 0;
  bool const on_pole = rows_.lower == Edge::pole_row;
  if ((num_rows_ % 2 == 1) != on_pole) return 0;
  return on_pole ? 3 : 2;
}

Convolution Halvings::next(std::int64_t num_in, std::int64_t num_out, nn::Domain const& domain) {
  auto const options = torch::nn::Conv2dOptions(num_in, num_out, window()).stride(2).padding(window() == 3 ? 1 : 0);
  num_rows_ = (num_rows_ + 1) / 2;
  num_columns_ /= 2;
  return Convolution(nn::ConvOptions(options, nn::Padding::by_domain), domain);
}

nn::Resize bilinear(nn::Domain const& domain) {
  nn::ResizeOptions const options(
      torch::nn::functional::InterpolateFuncOptions().mode(torch::kBilinear).align_corners(false),
      nn::Padding::by_domain);
  return nn::Resize(options, domain);
}

}  // namespace graticule::models
