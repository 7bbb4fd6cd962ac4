// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/model.hpp>

#include "parts.hpp"

#include <string>

namespace graticule::models {
namespace {

bool reaches_pole(Edge edge) { return edge == Edge::pole_row || edge == Edge::pole_face; }

}  // namespace

Convolution convolution(std::int64_t num_in, std::int64_t num_out, std::int64_t kernel, nn::Domain const& domain,
                        std::vector<std::int64_t> odd_channels) {
  nn::ConvOptions<2> options(torch::nn::Conv2dOptions(num_in, num_out, kernel).padding(kernel / 2),
                             nn::Padding::by_domain);
  options.odd_channels = std::move(odd_channels);
  return Convolution(options, domain);
}

torch::Tensor with_statics(torch::Tensor const& inputs, torch::Tensor const& statics) {
  torch::Tensor const rows = statics.t().unsqueeze(0).unsqueeze(-1);  // [1, statics, rows, 1]
  return torch::cat({inputs, rows.expand({inputs.size(0), -1, -1, inputs.size(3)})}, 1);
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
  torch::Tensor h = stem_(gate_.is_empty() ? inputs : with_statics(inputs, statics));
  if (!gate_.is_empty()) {
    torch::Tensor const gate = gate_(torch::gelu(gate_hidden_(statics)));  // [rows, channels]
    h = h * (1 + gate.t().unsqueeze(0).unsqueeze(-1));
  }
  return head_(trunk(h));
}

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
    case ModelKind::convnet: return make_convnet(options, domain);
    case ModelKind::unet: return make_unet(options, domain);
    case ModelKind::sfno: return make_sfno(options, domain);
    case ModelKind::program: return make_program(options, domain);
    case ModelKind::window: return make_window(options, domain);
  }
  throw Error("BadOption", "there is no model of kind " + std::to_string(int(options.kind)));
}

}  // namespace graticule::models
