// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/model.hpp>

#include "convnet.hpp"
#include "gated_model.hpp"
#include "program_model.hpp"
#include "sfno.hpp"
#include "unet.hpp"
#include "window.hpp"

#include <string>

namespace graticule::models {

Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel, nn::Domain const& domain,
                        std::vector<std::int64_t> odd_channels) {
  nn::ConvOptions<2> options(torch::nn::Conv2dOptions(num_in, num_out, kernel).padding(kernel / 2),
                             nn::Padding::by_domain);
  options.odd_channels = std::move(odd_channels);
  return Convolution(options, domain);
}

GatedModel::GatedModel(ModelOptions const& options, nn::Domain const& domain) {
  std::int64_t const width = options.channels;
  stem_ = register_module("stem", convolution(options.num_inputs + options.num_statics, width, options.kernel, domain,
                                              options.odd_channels));
  if (options.num_statics > 0) {
    gate_hidden_ = register_module("gate_hidden", torch::nn::Linear(options.num_statics, 2 * width));
    gate_ = register_module("gate", torch::nn::Linear(2 * width, width));
  }
  head_ = register_module("head", convolution(width, options.num_outputs, 1, domain));
}

torch::Tensor GatedModel::forward(torch::Tensor const& inputs, torch::Tensor const& statics) {
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

void move_to(torch::nn::Module& network, torch::Device const& device) {
  if (device.is_cpu()) return;
  torch::NoGradGuard const no_grad;
  auto const move = [&](torch::Tensor const& tensor) {
    if (tensor.defined() && tensor.device() != device)
      tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor.detach().to(device).getIntrusivePtr());
  };
  if (device.is_privateuseone()) {
    for (auto const& parameter : network.parameters()) move(parameter);
    for (auto const& buffer : network.buffers()) move(buffer);
  }
  // Exported networks have more to move: constants and tables.
  network.to(device);
}

std::shared_ptr<Model> make_model(ModelOptions const& options, nn::Domain const& domain) {
  switch (options.kind) {
    case ModelKind::convnet: return std::make_shared<ConvNet>(options, domain);
    case ModelKind::unet: return std::make_shared<UNet>(options, domain);
    case ModelKind::sfno: return std::make_shared<SphericalNet>(options, domain);
    case ModelKind::program: return std::make_shared<ProgramModel>(options, domain);
    case ModelKind::window: return std::make_shared<WindowNet>(options, domain);
  }
  throw Error("BadOption", "there is no model of kind " + std::to_string(int(options.kind)));
}

void save_program(Model const& model, std::filesystem::path const& file) {
  auto const* const program = model.as<ProgramModel>();
  if (program == nullptr) throw Error("Unsupported", file.string() + ": only exported networks can be written as such");
  program->save(file);
}

}  // namespace graticule::models
