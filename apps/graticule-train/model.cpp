// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include "random.hpp"

#include <cmath>
#include <string>

namespace graticule::train {
namespace {

nn::Conv2d convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel, nn::Domain const& domain,
                       std::vector<std::int64_t> odd_channels = {}) {
  nn::Conv2dOptions options(torch::nn::Conv2dOptions(num_in, num_out, kernel).padding(kernel / 2),
                            nn::Padding::by_domain);
  options.odd_channels = std::move(odd_channels);
  return nn::Conv2d(options, domain);
}

}  // namespace

ConvNetImpl::ConvNetImpl(ConvNetOptions const& options, nn::Domain const& domain) {
  std::int64_t const width = options.channels;
  stem_ = register_module("stem", convolution(options.num_inputs + options.num_statics, width, options.kernel, domain,
                                              options.odd_channels));
  if (options.num_statics > 0) {
    gate_hidden_ = register_module("gate_hidden", torch::nn::Linear(options.num_statics, 2 * width));
    gate_ = register_module("gate", torch::nn::Linear(2 * width, width));
  }
  for (std::int64_t i = 0; i < options.blocks; ++i)
    blocks_.push_back(register_module("block" + std::to_string(i), convolution(width, width, options.kernel, domain)));
  head_ = register_module("head", convolution(width, options.num_outputs, 1, domain));
}

torch::Tensor ConvNetImpl::forward(torch::Tensor const& inputs, torch::Tensor const& statics) {
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
  for (nn::Conv2d& block : blocks_) h = h + torch::gelu(block(h));
  return head_(h);
}

void initialise_parameters(torch::nn::Module& module, std::uint64_t seed) {
  torch::NoGradGuard const no_grad;
  for (auto const& item : module.named_parameters()) {
    torch::Tensor parameter = item.value();
    std::string const& name = item.key();
    if (parameter.dim() < 2 || name.rfind("head.", 0) == 0) {
      parameter.zero_();
      continue;
    }
    double const deviation = 1 / std::sqrt(double(parameter[0].numel()));
    torch::Tensor values = torch::empty(parameter.sizes(), torch::kFloat64);
    Random random(seed, name);
    double* const data = values.data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = deviation * random.normal();
    parameter.copy_(values);
  }
}

}  // namespace graticule::train
