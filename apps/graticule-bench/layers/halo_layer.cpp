// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>
#include <graticule/partition/cuts.hpp>

#include "options.hpp"
#include "timing.hpp"

#include <memory>

namespace graticule::bench {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A gradient buffer that is passed to the graph by the node behind the layer and recovered from the leaf. Each
/// backward thereby gets an unshared gradient without an allocation.
struct Wanderer : torch::CustomClassHolder {
  torch::Tensor gradient;
};

struct Supply : torch::autograd::Function<Supply> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& y,
                               c10::intrusive_ptr<Wanderer> const& wanderer) {
    ctx->saved_data["wanderer"] = c10::IValue::make_capsule(wanderer);
    return torch::zeros({}, y.options());
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& /*grads*/) {
    auto& wanderer = static_cast<Wanderer&>(*ctx->saved_data["wanderer"].toCapsule());
    return {std::move(wanderer.gradient), {}};
  }
};

}  // namespace

void run_halo_layer(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  torch::set_num_threads(context.num_threads);
  Index const channels = options.num_channels ? options.num_channels : 64;
  Width const width{options.width, options.width};
  Layout const layout(bands(comm), Indices{options.num_rows, options.num_columns});
  auto const boundary = Boundary::sphere(Edge::pole_face);
  nn::Domain const domain(comm, bands(comm), boundary);
  nn::HaloExchangeOptions const widths{width, width, {}};
  nn::HaloExchange fresh(widths, domain);
  nn::PaddedHaloExchange padded(widths, domain);
  HaloPlan const plan(comm, layout, {width, width}, boundary);
  auto const owned = layout.owned(comm.rank());
  auto const shard = torch::randn({1, channels, owned.extent(0), owned.extent(1)}).requires_grad_();
  auto const cotangent = torch::randn(padded->room_for(shard).sizes());
  auto field = torch::randn(cotangent.sizes()).requires_grad_();
  auto engine_field = field.detach().clone();
  auto engine_gradient = cotangent.clone();
  auto wanderer = c10::make_intrusive<Wanderer>();
  wanderer->gradient = cotangent.clone();

  auto const engine = [&] {
    plan.exchange(nn::tensor_view(engine_field));
    plan.exchange_adjoint(nn::tensor_view(engine_gradient));
  };
  auto const in_place = [&] {
    Supply::apply(padded(field), wanderer).backward();
    wanderer->gradient = std::move(field.mutable_grad());
    field.mutable_grad() = torch::Tensor();
  };
  auto const with_copy = [&] {
    padded(field).backward(cotangent);
    field.mutable_grad() = torch::Tensor();
  };
  auto const concatenated = [&] {
    fresh(shard).backward(cotangent);
    shard.mutable_grad() = torch::Tensor();
  };
  auto const there = torch::empty_like(cotangent);
  auto const copy = [&] {
    torch::NoGradGuard const no_grad;
    there.copy_(cotangent);
  };
  std::string const size = std::to_string(channels) + " x " + std::to_string(options.num_rows) + " x " +
                           std::to_string(options.num_columns) + " f32, width " + std::to_string(options.width) + ", " +
                           std::to_string(comm.num_ranks()) + " ranks";
  std::string const engine_name = "engine: exchange and adjoint";
  std::string const copy_name = "copy of the field, into memory at hand";
  std::vector<Candidate> const candidates{
      {engine_name, engine},
      {"PaddedHaloExchange, own gradient", in_place},
      {"PaddedHaloExchange, gradient that others hold", with_copy, {engine_name, copy_name}},
      {"HaloExchange: fresh output", concatenated, {engine_name, copy_name, copy_name}},
      {copy_name, copy}};
  show(context, "Halo with autograd, forward and backward, " + size, interleave(context, candidates, options.timing));
}

}  // namespace graticule::bench
