// SPDX-License-Identifier: BSD-3-Clause
#include "first_weights.hpp"

#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/samples/detail/random.hpp>

#include <cmath>
#include <string>

namespace graticule::train {
namespace {

/// Of normal first weights: one over the square root of the values that are summed to one output.
double deviation(torch::nn::Module const& module, std::string const& parameter, torch::Tensor const& weight) {
  if (parameter == "relative_position_bias_table") return 0.02;
  auto const* spherical = module.as<nn::SphericalConvolutionImpl>();
  auto const num_summed = spherical != nullptr ? 2 * spherical->options.in_channels  // real and imaginary part
                                               : weight[0].numel();
  return 1 / std::sqrt(double(num_summed));
}

void fill_normal(torch::Tensor& parameter, double deviation, samples::Random random) {
  torch::Tensor values = torch::empty(parameter.sizes(), torch::kFloat64);
  double* const data = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = deviation * random.normal();
  parameter.copy_(values);
}

}  // namespace

void initialise_parameters(torch::nn::Module& model, std::uint64_t seed) {
  torch::NoGradGuard const no_grad;
  for (auto const& module : model.named_modules()) {
    for (auto const& item : module.value()->named_parameters(false)) {
      torch::Tensor parameter = item.value();
      std::string const name = module.key() + "." + item.key();
      if (module.value()->as<torch::nn::LayerNormImpl>() != nullptr && item.key() == "weight")
        parameter.fill_(1);
      else if (parameter.dim() < 2 || module.key() == "head")
        parameter.zero_();
      else
        fill_normal(parameter, deviation(*module.value(), item.key(), parameter), samples::Random(seed, name));
    }
  }
}

}  // namespace graticule::train
