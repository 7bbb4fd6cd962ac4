// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <graticule/app/random.hpp>

#include "convnet.hpp"
#include "sfno.hpp"
#include "unet.hpp"
#include "window.hpp"

#include <cmath>
#include <string>

namespace graticule::train {

Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel, nn::Domain const& domain,
                        std::vector<std::int64_t> odd_channels) {
  nn::Conv2dOptions options(torch::nn::Conv2dOptions(num_in, num_out, kernel).padding(kernel / 2),
                            nn::Padding::by_domain);
  options.odd_channels = std::move(odd_channels);
  return Convolution(options, domain);
}

Model::Model(ModelOptions const& options, nn::Domain const& domain) {
  std::int64_t const width = options.channels;
  stem_ = register_module("stem", convolution(options.num_inputs + options.num_statics, width, options.kernel, domain,
                                              options.odd_channels));
  if (options.num_statics > 0) {
    gate_hidden_ = register_module("gate_hidden", torch::nn::Linear(options.num_statics, 2 * width));
    gate_ = register_module("gate", torch::nn::Linear(2 * width, width));
  }
  head_ = register_module("head", convolution(width, options.num_outputs, 1, domain));
}

torch::Tensor Model::forward(torch::Tensor const& inputs, torch::Tensor const& statics) {
  torch::Tensor x = inputs;
  if (!gate_.is_empty()) {
    torch::Tensor const rows = statics.t().unsqueeze(0).unsqueeze(-1);  // [1, statics, rows, 1]
    x = torch::cat({inputs, rows.expand({inputs.size(0), -1, -1, inputs.size(3)})}, 1);
  }
  torch::Tensor h = stem_(x);
  if (!gate_.is_empty()) {
    torch::Tensor const gate = gate_(torch::gelu(gate_hidden_(statics)));  // [rows, channels]
    h = h * (1 + gate.t().unsqueeze(0).unsqueeze(-1));
  }
  return head_(trunk(h));
}

std::shared_ptr<Model> make_model(ModelOptions const& options, nn::Domain const& domain) {
  switch (options.kind) {
    case ModelKind::convnet: return std::make_shared<ConvNet>(options, domain);
    case ModelKind::unet: return std::make_shared<UNet>(options, domain);
    case ModelKind::sfno: return std::make_shared<SphericalNet>(options, domain);
    case ModelKind::window: return std::make_shared<WindowNet>(options, domain);
  }
  throw Error("BadOption", "there is no model of kind " + std::to_string(int(options.kind)));
}

namespace {

/// Of normal first weights: one over the square root of the values that are summed to one output.
double deviation(torch::nn::Module const& module, std::string const& parameter, torch::Tensor const& weight) {
  if (parameter == "relative_position_bias_table") return 0.02;
  auto const* spherical = module.as<nn::SphericalConvolutionImpl>();
  auto const num_summed = spherical != nullptr ? 2 * spherical->options.in_channels  // real and imaginary part
                                               : weight[0].numel();
  return 1 / std::sqrt(double(num_summed));
}

void fill_normal(torch::Tensor& parameter, double deviation, app::Random random) {
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
        fill_normal(parameter, deviation(*module.value(), item.key(), parameter), app::Random(seed, name));
    }
  }
}

}  // namespace graticule::train
