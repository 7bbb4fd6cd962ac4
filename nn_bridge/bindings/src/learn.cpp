// SPDX-License-Identifier: BSD-3-Clause
// Optimizers and steps of training.
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include "net.hpp"

#include <cmath>

namespace graticule::c {

namespace {

std::unique_ptr<torch::optim::Optimizer> method_of(gr_optimizer_kind kind, double rate,
                                                   gr_optimizer_options const& options,
                                                   std::vector<torch::Tensor> const& parameters) {
  auto const decay = [&](double usual) { return options.has_decay != 0 ? options.decay : usual; };
  auto const set_up = [&](auto to, double usual_decay) {
    to.weight_decay(decay(usual_decay));
    if (options.has_betas != 0) to.betas({options.betas[0], options.betas[1]});
    if (options.epsilon > 0) to.eps(options.epsilon);
    return to;
  };
  switch (kind) {
    case GR_SGD:
      return std::make_unique<torch::optim::SGD>(
          parameters, torch::optim::SGDOptions(rate).momentum(options.momentum).weight_decay(decay(0)));
    case GR_ADAM: return std::make_unique<torch::optim::Adam>(parameters, set_up(torch::optim::AdamOptions(rate), 0));
    case GR_ADAMW:
      return std::make_unique<torch::optim::AdamW>(parameters, set_up(torch::optim::AdamWOptions(rate), 1e-2));
  }
  throw bad_argument("kind is " + std::to_string(int(kind)));
}

void require_at_least_zero(double value, char const* name) {
  if (!(value >= 0) || !std::isfinite(value)) throw bad_argument(std::string(name) + " is " + std::to_string(value));
}

void check_options(gr_optimizer_kind kind, double rate, gr_optimizer_options const& options) {
  (void)enumerator<gr_optimizer_kind>(kind, GR_ADAMW, {"kind"});
  require_at_least_zero(rate, "rate");
  require_at_least_zero(options.momentum, "options.momentum");
  require_at_least_zero(options.epsilon, "options.epsilon");
  require_at_least_zero(options.decay, "options.decay");
  require_at_least_zero(options.most_gradient, "options.most_gradient");
  for (int b = 0; options.has_betas != 0 && b < 2; ++b)
    if (!(options.betas[b] >= 0 && options.betas[b] < 1))
      throw bad_argument("options.betas[" + std::to_string(b) + "] is " + std::to_string(options.betas[b]));
}

}  // namespace

/// What `gr_optimizer` holds.
struct Optimizer {
  std::shared_ptr<Net> net;
  std::unique_ptr<torch::optim::Optimizer> method;
  nn::GradientSync sync;
  double most_gradient = 0;

  /// Gradients of all ranks, then a step; nothing where one is not a number, which all ranks see alike.
  void step(torch::Tensor const& loss) {
    method->zero_grad();
    loss.backward();
    sync.reduce();
    double squares = 0;
    for (auto const& parameter : net->shards->parameters())
      if (parameter.grad().defined())
        squares += parameter.grad().abs().to(torch::kFloat64).square().sum().item<double>();
    double const norm = std::sqrt(squares);
    if (!std::isfinite(norm)) {
      method->zero_grad();
      throw Error("NotFinite", "the norm of the gradients is " + std::to_string(norm) + "; no parameter was changed");
    }
    if (most_gradient > 0 && norm > most_gradient)
      for (auto const& parameter : net->shards->parameters())
        if (parameter.grad().defined()) parameter.grad().mul_(most_gradient / norm);
    method->step();
    method->zero_grad();
  }
};

template <>
struct Object<gr_optimizer> {
  static constexpr char const* name = "gr_optimizer";
  explicit Object(Optimizer made) : of(std::move(made)) {}
  Optimizer of;
};

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

gr_status gr_optimizer_create(gr_net const* net, gr_optimizer_kind kind, double rate,
                              gr_optimizer_options const* options, gr_optimizer** optimizer) {
  return GR_TORCH_BODY({
    auto const& of = required(net, "net").net;
    auto const with = agreed(of->comm, [&] {
      required(optimizer, "optimizer");
      auto const read =
          options != nullptr ? read_structure(options, {"options"}) : gr_optimizer_options(GR_OPTIMIZER_OPTIONS_INIT);
      check_options(kind, rate, read);
      return read;
    });
    auto method = method_of(kind, rate, with, of->shards->parameters());
    nn::GradientSync sync(*of->shards, {nn::TeamRule{of->comm}});
    give(optimizer, Optimizer{of, std::move(method), std::move(sync), with.most_gradient});
  });
}

gr_status gr_optimizer_destroy(gr_optimizer** optimizer) {
  return GR_FREE({ free_handle(optimizer, "optimizer"); });
}

gr_status gr_optimizer_set_rate(gr_optimizer* optimizer, double rate) {
  return GR_TORCH_BODY({
    auto& of = required(optimizer, "optimizer").of;
    run_agreed(of.net->comm, [&] { require_at_least_zero(rate, "rate"); });
    for (auto& group : of.method->param_groups()) group.options().set_lr(rate);
  });
}

gr_status gr_net_learn(gr_net* net, gr_optimizer* optimizer, double* loss) {
  return GR_TORCH_BODY({
    auto& of = *required(net, "net").net;
    run_agreed(of.comm, [&] {
      required(loss, "loss");
      if (optimizer != nullptr && required(optimizer, "optimizer").of.net.get() != &of)
        throw bad_argument("optimizer was made for another network");
    });
    bool const learns = optimizer != nullptr;
    require_same(of.comm, "ArgumentDisagreement", learns ? 1 : 0, learns ? "an optimizer" : "no optimizer");
    auto const value = of.loss(learns);
    double const number = value.item<double>();
    if (learns && !std::isfinite(number))
      throw Error("NotFinite", "the loss is " + std::to_string(number) + "; no parameter was changed");
    if (learns) required(optimizer, "optimizer").of.step(value);
    *loss = number;
  });
}
