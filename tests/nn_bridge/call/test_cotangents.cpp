// SPDX-License-Identifier: BSD-3-Clause
// Gradients of every layer, loss and movement against differences of its outputs in f64, for inputs and cotangents that
// lie in memory in any way, with one sample and with two.
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/collective/linear.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "layer_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>

namespace graticule {
namespace test_cotangents {

using test::LayerFunction;
using test::random_tensor;
using torch::Tensor;
using Sizes = std::vector<std::int64_t>;
namespace tn = torch::nn;

struct Subject {
  LayerFunction function;
  std::vector<Tensor> parameters = {};
};

/// A function of this rank's part of a field.
struct Case {
  std::string name;
  Sizes sizes;
  std::function<Subject(nn::Domain const&)> make;
  bool of_length = false;
  /// The same numbers on all ranks, of which each rank's cotangent is the whole: a loss.
  bool is_loss = false;
  bool two_samples_only = false;
  bool is_local = false;  ///< each rank has a field of its own
};

/// A way in which a tensor lies in memory; the values are those of `x`, but for expanded axes.
struct Form {
  char const* name;
  Tensor (*of)(Tensor const& x);
};

std::array<Form, 6> const forms{{
    {"contiguous", [](Tensor const& x) { return x.contiguous(); }},
    {"channels last", [](Tensor const& x) { return x.dim() < 3 ? x : x.movedim(1, -1).contiguous().movedim(-1, 1); }},
    {"flattened and transposed",
     [](Tensor const& x) {
       return x.dim() < 3 ? x : x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2).reshape(x.sizes());
     }},
    {"columns before rows",
     [](Tensor const& x) { return x.dim() < 2 ? x : x.transpose(-1, -2).contiguous().transpose(-1, -2); }},
    {"every second column",
     [](Tensor const& x) {
       return torch::stack({x, x + 1}, -1).select(-1, 0);
     }},
    {"one number", [](Tensor const& x) { return torch::full({}, 0.7, x.options()).expand(x.sizes()); }},
}};

/// The real inner product, over all ranks unless `once`.
double product(Comm const& comm, Tensor const& gradient, Tensor const& direction, bool once) {
  double value = 0;
  if (gradient.defined() && gradient.numel() > 0 && (!once || comm.rank() == 0))
    value = at::real(gradient.detach().conj() * direction).sum().item<double>();
  comm.sum(std::span(&value, 1));
  return value;
}

Tensor random_like(std::mt19937& random, Tensor const& x) {
  if (!x.is_complex()) return random_tensor(random, x.sizes().vec());
  auto const real = random_tensor(random, x.sizes().vec());
  return torch::complex(real, random_tensor(random, x.sizes().vec()));
}

/// The derivative along random directions of input and parameters, by the backward and by differences.
void expect_gradients(Case const& c, nn::Domain const& domain, Subject const& subject, Tensor const& shard,
                      Form const& of_input, Form const& of_cotangent) {
  auto const& comm = domain.comm();
  std::mt19937 own(unsigned(comm.rank()) + 50);
  std::mt19937 same(49);
  auto const x = of_input.of(shard).detach().requires_grad_();
  auto const call = [&](Tensor const& at) {
    domain.set_num_draws(0);
    return subject.function(at);
  };

  auto const y = call(x);
  auto const cotangent = of_cotangent.of(random_like(c.is_loss ? same : own, y.detach())).detach();
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), subject.parameters.begin(), subject.parameters.end());
  auto const gradients = torch::autograd::grad({y}, inputs, {cotangent}, {}, false, true);

  std::vector<Tensor> directions{random_like(own, x)};
  double found = product(comm, gradients[0], directions[0], false);
  for (std::size_t p = 1; p < inputs.size(); ++p) {
    directions.push_back(random_like(same, inputs[p]));
    found += product(comm, gradients[p], directions[p], false);
  }
  torch::NoGradGuard const no_grad;
  double const step = 1e-5;
  auto const along = [&](double t) {
    for (std::size_t p = 1; p < inputs.size(); ++p) inputs[p].add_(directions[p], t);
    auto const moved = call((x.detach() + t * directions[0]).contiguous());
    for (std::size_t p = 1; p < inputs.size(); ++p) inputs[p].sub_(directions[p], t);
    return product(comm, cotangent, moved, c.is_loss);
  };
  double const expected = (along(step) - along(-step)) / (2 * step);
  EXPECT_NEAR(found, expected, 2e-6 * std::max(1.0, std::abs(expected)));
}

template <class Module>
Subject of_module(Module module) {
  module->to(torch::kDouble);
  std::mt19937 random(7);
  test::randomize(*module, random);
  return {[module](Tensor const& x) mutable { return module->forward(x); }, module->parameters()};
}

Sizes const plane{2, 4, 9, 8};

template <class Make>
Case layer(std::string name, Make make) {
  return {std::move(name), plane, [make](nn::Domain const& domain) { return of_module(make(domain)); }};
}

Case movement(std::string name, std::function<LayerFunction(nn::Domain const&)> make) {
  return {std::move(name), plane, [make](nn::Domain const& domain) { return Subject{make(domain)}; }};
}

/// Of a prediction; the target is random.
Case loss(std::string name, std::function<LayerFunction(nn::Domain const&, Tensor const& like)> make) {
  Case result{std::move(name), plane, [make](nn::Domain const& domain) {
                return Subject{[domain, make](Tensor const& x) { return make(domain, x)(x); }};
              }};
  result.is_loss = true;
  return result;
}

Tensor target_of(nn::Domain const& domain, Tensor const& x) {
  std::mt19937 random(unsigned(domain.comm().rank()) + 3);
  return random_tensor(random, x.sizes().vec());
}

nn::LatitudeRule rule() {
  std::vector<double> const latitudes{90, 67.5, 45, 22.5, 0, -22.5, -45, -67.5, -90};
  return nn::latitude_rule(latitudes);
}

void add_movements(std::vector<Case>& all) {
  all.push_back(movement("HaloExchange", [](nn::Domain const& domain) -> LayerFunction {
    nn::HaloExchange halo(nn::HaloExchangeOptions{{2, 1}, {1, 2}, {}}, domain);
    return [halo](Tensor const& x) mutable { return halo(x); };
  }));
  all.push_back(movement("PaddedHaloExchange", [](nn::Domain const& domain) -> LayerFunction {
    nn::PaddedHaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
    return [halo](Tensor const& x) mutable {
      auto field = halo->room_for(x);
      halo->owned(field).copy_(x);
      return halo(field);
    };
  }));
  all.push_back(movement("Repartition", [](nn::Domain const& domain) -> LayerFunction {
    nn::Repartition move(nn::RepartitionOptions{domain.sharding(), {{-3}, ProcessGrid{domain.comm().num_ranks()}}},
                         domain);
    return [move](Tensor const& x) mutable { return move(x); };
  }));
  all.push_back(movement("Repartition there and back", [](nn::Domain const& domain) -> LayerFunction {
    nn::Repartition move(nn::RepartitionOptions{domain.sharding(), {{-3}, ProcessGrid{domain.comm().num_ranks()}}},
                         domain);
    return [move](Tensor const& x) mutable { return move->back(torch::sin(move(x))); };
  }));
  all.push_back(movement("MatchCuts", [](nn::Domain const& domain) -> LayerFunction {
    nn::MatchCuts match(domain);
    auto const whole = torch::zeros({2, 1, 9, 8}, torch::kDouble);
    auto const like = test::Part(domain, balanced_cuts(9, int(domain.grid().extent(0))),
                                 balanced_cuts(8, int(domain.grid().extent(1))))
                          .of(whole);
    return [match, like](Tensor const& x) mutable { return match->forward(x, like.narrow(0, 0, x.size(0))); };
  }));
  for (auto const consumer : {nn::Consumer::replicated, nn::Consumer::distinct}) {
    bool const replicated = consumer == nn::Consumer::replicated;
    auto mean = movement(replicated ? "GlobalMean, replicated" : "GlobalMean, distinct",
                         [consumer](nn::Domain const& domain) -> LayerFunction {
                           nn::GlobalMean of(consumer, domain);
                           return [of](Tensor const& x) mutable { return of(x); };
                         });
    mean.is_loss = replicated;
    all.push_back(mean);
  }
  for (auto const correction : {nn::Correction::additive, nn::Correction::multiplicative})
    all.push_back(movement(
        correction == nn::Correction::additive ? "ConservationFixer, additive" : "ConservationFixer, multiplicative",
        [correction](nn::Domain const& domain) -> LayerFunction {
          nn::ConservationFixer fix(domain, nn::ConservationOptions{correction, {}, {}});
          return [fix](Tensor const& x) mutable { return fix->forward(x + 3, 2 * x + 5); };
        }));
  all.push_back(movement("AllSum", [](nn::Domain const& domain) -> LayerFunction {
    nn::AllSum sum(domain);
    return [sum](Tensor const& x) mutable { return sum(x.sum(at::IntArrayRef{-2, -1})); };
  }));
}

/// Layers whose features are cut: each rank takes its features of a field of its own.
void add_splits(std::vector<Case>& all) {
  constexpr std::int64_t features = 8;
  auto const mine = [](Tensor const& x, std::int64_t axis) {
    auto const cuts = balanced_cuts(features, test::world().num_ranks());
    return x.narrow(axis, cuts.lo(test::world().rank()), cuts.size(test::world().rank()));
  };
  for (auto const split : {nn::FeatureSplit::input, nn::FeatureSplit::output, nn::FeatureSplit::both})
    for (bool const bias : {true, false}) {
      nn::SplitOptions const options{.split = split, .whole = nn::Consumer::distinct};
      std::string const of = std::string(", ") +
                             (split == nn::FeatureSplit::input    ? "input"
                              : split == nn::FeatureSplit::output ? "output"
                                                                  : "both") +
                             (bias ? "" : ", without bias");
      bool const whole = split == nn::FeatureSplit::output;
      all.push_back({"Linear" + of, {2, 4, 3, features}, [=](nn::Domain const& domain) {
                       nn::Linear linear(tn::LinearOptions(features, 9).bias(bias), options, domain,
                                         nn::Sharding{{-1}, ProcessGrid{domain.comm().num_ranks()}});
                       auto subject = of_module(linear);
                       subject.function = [=](Tensor const& x) mutable { return linear(whole ? x : mine(x, -1)); };
                       return subject;
                     }});
      all.back().is_local = true;
      all.push_back({"ChannelSplitConv2d" + of, {2, features, 5, 6}, [=](nn::Domain const& domain) {
                       nn::ChannelSplitConv2d conv(
                           tn::Conv2dOptions(features, 9, 3).padding(1).bias(bias), options,
                           nn::Domain(domain.comm(), ProcessGrid{domain.comm().num_ranks(), 1}));
                       auto subject = of_module(conv);
                       subject.function = [=](Tensor const& x) mutable { return conv(whole ? x : mine(x, 1)); };
                       return subject;
                     }});
      all.back().is_local = true;
    }
}

/// Of losses with a mask, of truth values and of weights.
void add_masked_losses(std::vector<Case>& all) {
  auto const add = [&](std::string const& name, auto make, auto target, bool one_less) {
    for (bool const weights : {true, false})
      all.push_back(loss(name + (weights ? ", weighted" : ", masked"),
                         [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
                           auto module = make(domain);
                           auto const t = target(target_of(domain, like));
                           auto const of = one_less ? like.detach().select(1, 0) : like.detach();
                           std::mt19937 random(unsigned(domain.comm().rank()) + 11);
                           auto const values = random_tensor(random, of.sizes().vec());
                           auto const mask = weights ? values.abs() : values > -0.5;
                           return [module, t, mask](Tensor const& x) mutable { return module->forward(x, t, mask); };
                         }));
  };
  auto const same = [](Tensor const& t) { return t; };
  auto const classes = [](Tensor const& t) { return t.argmax(1); };
  auto const probabilities = [](Tensor const& t) { return torch::softmax(t, 1); };
  add(
      "MSELoss", [](nn::Domain const& d) { return nn::MSELoss(d); }, same, false);
  add(
      "L1Loss", [](nn::Domain const& d) { return nn::L1Loss(d); }, same, false);
  add(
      "HuberLoss", [](nn::Domain const& d) { return nn::HuberLoss(0.8, d); }, same, false);
  add(
      "BCEWithLogitsLoss", [](nn::Domain const& d) { return nn::BCEWithLogitsLoss(d); }, probabilities, false);
  add(
      "KLDivLoss", [](nn::Domain const& d) { return nn::KLDivLoss(d); }, probabilities, false);
  add(
      "PoissonNLLLoss", [](nn::Domain const& d) { return nn::PoissonNLLLoss(d); }, probabilities, false);
  add(
      "CrossEntropyLoss", [](nn::Domain const& d) { return nn::CrossEntropyLoss(d); }, classes, true);
  add(
      "CRPSLoss", [](nn::Domain const& d) { return nn::CRPSLoss(d); }, [](Tensor const& t) { return t.select(1, 0); },
      true);
}

void add_losses(std::vector<Case>& all) {
  auto const per = [](nn::LossPer what) {
    nn::LossOptions options;
    options.per = what;
    return options;
  };
  for (auto const what : {nn::LossPer::domain, nn::LossPer::sample, nn::LossPer::channel}) {
    std::string const name = what == nn::LossPer::domain   ? ""
                             : what == nn::LossPer::sample ? ", per sample"
                                                           : ", per channel";
    auto const options = per(what);
    auto const add = [&](std::string const& of, auto make, auto target) {
      all.push_back(loss(of + name, [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
        auto module = make(domain);
        auto const t = target(target_of(domain, like));
        return [module, t](Tensor const& x) mutable { return module->forward(x, t); };
      }));
    };
    auto const same = [](Tensor const& t) { return t; };
    auto const some_missing = [](Tensor const& t) { return torch::where(t > 1.5, t * NAN, t); };
    auto const probabilities = [](Tensor const& t) { return torch::softmax(t, 1); };
    add(
        "MSELoss", [=](nn::Domain const& d) { return nn::MSELoss(d, options); }, some_missing);
    add(
        "L1Loss", [=](nn::Domain const& d) { return nn::L1Loss(d, options); }, same);
    add(
        "HuberLoss", [=](nn::Domain const& d) { return nn::HuberLoss(0.8, d, options); }, same);
    add(
        "SmoothL1Loss", [=](nn::Domain const& d) { return nn::SmoothL1Loss(0.8, d, options); }, same);
    add(
        "BCEWithLogitsLoss", [=](nn::Domain const& d) { return nn::BCEWithLogitsLoss(d, options); }, probabilities);
    add(
        "KLDivLoss", [=](nn::Domain const& d) { return nn::KLDivLoss(d, options); }, probabilities);
    add(
        "PoissonNLLLoss", [=](nn::Domain const& d) { return nn::PoissonNLLLoss(d, options); }, probabilities);
  }
  auto const classes = [](Tensor const& t) { return t.argmax(1); };
  all.push_back(loss("CrossEntropyLoss", [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
    nn::CrossEntropyLoss module(domain);
    auto const t = classes(target_of(domain, like));
    return [module, t](Tensor const& x) mutable { return module->forward(x, t); };
  }));
  all.push_back(loss("NLLLoss", [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
    nn::NLLLoss module(domain);
    auto const t = classes(target_of(domain, like));
    return [module, t](Tensor const& x) mutable { return module->forward(torch::log_softmax(x, 1), t); };
  }));
  all.push_back(loss("CRPSLoss", [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
    nn::CRPSLoss module(domain);
    auto const t = target_of(domain, like).select(1, 0);
    return [module, t](Tensor const& x) mutable { return module->forward(x, t); };
  }));
  all.push_back(loss("SpectralLoss", [=](nn::Domain const& domain, Tensor const& like) -> LayerFunction {
    nn::SpectralLoss module(domain);
    auto const t = target_of(domain, like);
    return [module, t](Tensor const& x) mutable { return module->forward(x, t); };
  }));
  all.push_back(loss("reduce_loss", [=](nn::Domain const& domain, Tensor const& /*like*/) -> LayerFunction {
    return [domain](Tensor const& x) { return nn::reduce_loss(x.pow(3).sum(), domain); };
  }));
}

/// Without one of what may be left out; and those of LibTorch itself.
void add_layers(std::vector<Case>& all) {
  all.push_back(layer("Conv2d without bias", [](nn::Domain const& domain) {
    return nn::Conv2d(nn::ConvOptions(tn::Conv2dOptions(4, 3, 3).padding(1).bias(false)), domain);
  }));
  all.push_back(layer("ConvTranspose2d without bias", [](nn::Domain const& domain) {
    return nn::ConvTranspose2d(tn::ConvTranspose2dOptions(4, 3, 3).stride(2).bias(false), domain);
  }));
  for (bool const tracked : {true, false})
    for (bool const affine : {true, false}) {
      std::string const of = std::string(affine ? "" : " without parameters") + (tracked ? "" : " without statistics");
      all.push_back(layer("BatchNorm2d" + of, [=](nn::Domain const& domain) {
        return nn::BatchNorm2d(tn::BatchNormOptions(4).affine(affine).track_running_stats(tracked), domain);
      }));
      all.push_back(layer("InstanceNorm2d" + of, [=](nn::Domain const& domain) {
        return nn::InstanceNorm2d(tn::InstanceNormOptions(4).affine(affine).track_running_stats(tracked), domain);
      }));
      all.push_back(layer("BatchNorm2d evaluated" + of, [=](nn::Domain const& domain) {
        nn::BatchNorm2d norm(tn::BatchNormOptions(4).affine(affine).track_running_stats(tracked), domain);
        norm->eval();
        return norm;
      }));
      all.push_back(layer("InstanceNorm2d evaluated" + of, [=](nn::Domain const& domain) {
        nn::InstanceNorm2d norm(tn::InstanceNormOptions(4).affine(affine).track_running_stats(tracked), domain);
        norm->eval();
        return norm;
      }));
      all.push_back(layer("Layer<BatchNorm2d>" + of, [=](nn::Domain const& /*domain*/) {
        return nn::Layer<tn::BatchNorm2d>(tn::BatchNormOptions(4).affine(affine).track_running_stats(tracked));
      }));
      all.back().is_local = true;
      all.push_back(layer("Layer<InstanceNorm2d>" + of, [=](nn::Domain const& /*domain*/) {
        return nn::Layer<tn::InstanceNorm2d>(tn::InstanceNormOptions(4).affine(affine).track_running_stats(tracked));
      }));
      all.back().is_local = true;
    }
  all.push_back(layer("GroupNorm without parameters", [](nn::Domain const& domain) {
    return nn::GroupNorm(tn::GroupNormOptions(2, 4).affine(false), domain);
  }));
  for (bool const affine : {true, false}) {
    std::string const of = affine ? "" : " without parameters";
    for (Sizes const& shape : {Sizes{8}, Sizes{9, 8}, Sizes{4, 9, 8}}) {
      auto const name = of + " over " + std::to_string(shape.size());
      all.push_back(layer("LayerNorm" + name, [=](nn::Domain const& domain) {
        return nn::LayerNorm(tn::LayerNormOptions(shape).elementwise_affine(affine), domain);
      }));
      all.push_back(layer("RMSNorm" + name, [=](nn::Domain const& domain) {
        return nn::RMSNorm(nn::RMSNormOptions{shape, 1e-3, affine}, domain);
      }));
    }
  }
  for (bool const bias : {true, false})
    all.push_back(
        layer(bias ? "SphericalConvolution" : "SphericalConvolution without bias", [=](nn::Domain const& domain) {
          return nn::SphericalConvolution(
              nn::SphericalConvolutionOptions{.in_channels = 4, .out_channels = 3, .rows = rule(), .bias = bias},
              domain);
        }));
  all.push_back(layer("FourierConvolution", [](nn::Domain const& domain) {
    return nn::FourierConvolution(
        nn::FourierConvolutionOptions{.in_channels = 4, .out_channels = 3, .row_modes = 3, .column_modes = 3}, domain);
  }));
  all.push_back(layer("Dropout", [](nn::Domain const& domain) {
    return nn::Dropout(tn::DropoutOptions(0.4), nn::RandomOptions{}, domain);
  }));
  all.push_back(layer("Dropout2d", [](nn::Domain const& domain) {
    return nn::Dropout2d(tn::Dropout2dOptions(0.4), nn::RandomOptions{}, domain);
  }));
}

/// Norms with a weight and no bias, or a bias and no weight, as PyTorch's Python makes them and `shard` shares them.
void add_halves(std::vector<Case>& all) {
  auto const half = [&](std::string const& name, auto make) {
    for (bool const has_weight : {true, false})
      all.push_back({name + (has_weight ? " without bias" : " without weight"), plane,
                     [make, has_weight](nn::Domain const& domain) {
                       auto module = make(domain);
                       auto subject = of_module(module);
                       auto& dropped = has_weight ? module->bias : module->weight;
                       dropped = Tensor();
                       subject.parameters = {has_weight ? module->weight : module->bias};
                       return subject;
                     }});
  };
  half("BatchNorm2d", [](nn::Domain const& domain) { return nn::BatchNorm2d(tn::BatchNormOptions(4), domain); });
  half("BatchNorm2d evaluated", [](nn::Domain const& domain) {
    nn::BatchNorm2d norm(tn::BatchNormOptions(4), domain);
    norm->eval();
    return norm;
  });
  half("InstanceNorm2d",
       [](nn::Domain const& domain) { return nn::InstanceNorm2d(tn::InstanceNormOptions(4).affine(true), domain); });
  half("GroupNorm", [](nn::Domain const& domain) { return nn::GroupNorm(tn::GroupNormOptions(2, 4), domain); });
  for (Sizes const& shape : {Sizes{8}, Sizes{9, 8}, Sizes{4, 9, 8}})
    half("LayerNorm over " + std::to_string(shape.size()),
         [shape](nn::Domain const& domain) { return nn::LayerNorm(tn::LayerNormOptions(shape), domain); });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (auto const& row : test::layer_table()) {
    Case c{row.name, row.sizes, [row](nn::Domain const& domain) {
             auto const made = row.make(domain, torch::kDouble);
             return Subject{made.sharded, made.sharded_parameters};
           }};
    c.of_length = row.of_length;
    c.two_samples_only = row.name == "MaxUnpool2d";
    all.push_back(c);
  }
  add_layers(all);
  add_halves(all);
  add_losses(all);
  add_masked_losses(all);
  add_splits(all);
  add_movements(all);
  return all;
}

TEST(Cotangents, of_every_layer_loss_and_movement_may_lie_in_memory_in_any_way) {
  std::size_t repeat = 0;
  for (auto const& c : cases()) {
    auto const domain = c.of_length ? test::bands(test::world()) : test::domain_of(repeat++);
    std::mt19937 random(3);
    for (std::int64_t const samples : {1, 2}) {
      if (samples == 1 && c.two_samples_only) continue;
      auto const subject = c.make(domain);
      auto sizes = c.sizes;
      sizes[0] = samples;
      auto const whole = random_tensor(random, sizes);
      auto const part = test::random_part(domain, random, sizes);
      auto const shard = c.is_local ? whole : part.of(whole).clone();
      for (auto const& of_input : forms) {
        // Equal numbers have no order and no variance.
        if (std::string_view(of_input.name) == "one number") continue;
        for (auto const& of_cotangent : forms) {
          bool const both = &of_input != &forms[0] && &of_cotangent != &forms[0];
          if (both && &of_input - &forms[0] != &of_cotangent - &forms[0]) continue;
          SCOPED_TRACE(c.name + ", samples " + std::to_string(samples) + ", input " + of_input.name + ", cotangent " +
                       of_cotangent.name);
          expect_gradients(c, domain, subject, shard, of_input, of_cotangent);
        }
      }
    }
  }
}

/// The derivative of a gradient, by a second backward and by differences.
void expect_second_gradients(nn::Domain const& domain, Subject const& subject, Tensor const& shard, Form const& form) {
  auto const& comm = domain.comm();
  std::mt19937 own(unsigned(comm.rank()) + 50);
  std::mt19937 same(49);
  auto const x = form.of(shard).detach().requires_grad_();
  auto const cotangent = form.of(random_like(own, x)).detach().requires_grad_();
  std::vector<Tensor> inputs{x, cotangent};
  inputs.insert(inputs.end(), subject.parameters.begin(), subject.parameters.end());
  std::vector<Tensor> directions{random_like(own, x), random_like(own, x)};
  for (auto const& parameter : subject.parameters) directions.push_back(random_like(same, parameter));
  auto const weight = random_like(own, x);
  auto const gradient = [&](Tensor const& at, Tensor const& by, bool again) {
    auto const leaf = again ? at : at.detach().requires_grad_();
    return torch::autograd::grad({subject.function(leaf)}, {leaf}, {by}, again, again)[0];
  };

  auto const found_by = torch::autograd::grad({gradient(x, cotangent, true)}, inputs, {form.of(weight)}, {}, false,
                                              /*allow_unused=*/true);

  double found = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) found += product(comm, found_by[i], directions[i], false);
  double const step = 1e-5;
  auto const along = [&](double t) {
    {
      torch::NoGradGuard const no_grad;
      for (std::size_t p = 2; p < inputs.size(); ++p) inputs[p].add_(directions[p], t);
    }
    auto const moved = gradient((x.detach() + t * directions[0]).contiguous(),
                                (cotangent.detach() + t * directions[1]).contiguous(), false);
    torch::NoGradGuard const no_grad;
    for (std::size_t p = 2; p < inputs.size(); ++p) inputs[p].sub_(directions[p], t);
    return product(comm, weight, moved, false);
  };
  double const expected = (along(step) - along(-step)) / (2 * step);
  EXPECT_NEAR(found, expected, 2e-6 * std::max(1.0, std::abs(expected)));
}

TEST(Cotangents, of_second_derivatives_of_norms_may_lie_in_memory_in_any_way) {
  std::vector<Case> norms;
  add_layers(norms);
  add_halves(norms);
  std::erase_if(norms, [](Case const& c) { return c.name.find("Norm") == std::string::npos; });
  ASSERT_GT(norms.size(), 20U);
  std::size_t repeat = 0;
  for (auto const& c : norms) {
    auto const domain = test::domain_of(repeat++);
    std::mt19937 random(3);
    for (std::int64_t const samples : {1, 2}) {
      auto const subject = c.make(domain);
      auto sizes = c.sizes;
      sizes[0] = samples;
      auto const whole = random_tensor(random, sizes);
      auto const shard = c.is_local ? whole : test::random_part(domain, random, sizes).of(whole).clone();
      for (auto const& form : std::span(forms).first(5)) {
        SCOPED_TRACE(c.name + ", samples " + std::to_string(samples) + ", " + form.name);
        expect_second_gradients(domain, subject, shard, form);
      }
    }
  }
}

/// The loss with which LibTorch's own norms are wrong.
TEST(Cotangents, of_norms_before_tokens_are_right_through_shard) {
  auto const domain = test::bands(test::world());
  for (bool const sharded : {true, false}) {
    for (int norm = 0; norm < 2; ++norm) {
      SCOPED_TRACE(std::string(sharded ? "sharded" : "serial") + (norm ? " InstanceNorm2d" : " BatchNorm2d"));
      tn::Sequential model;
      if (norm)
        model->push_back(nn::Layer<tn::InstanceNorm2d>(tn::InstanceNormOptions(4).affine(true)));
      else
        model->push_back(nn::Layer<tn::BatchNorm2d>(4));
      model->to(torch::kDouble);
      if (sharded) nn::shard(*model, domain);
      Case c{"", {1, 4, 9, 8}, {}};
      c.is_loss = true;
      Subject const subject{[&](Tensor const& x) {
                              auto const cubes = model->forward(x).flatten(2).transpose(1, 2).pow(3);
                              return nn::reduce_loss(cubes.square().mean(), domain);
                            },
                            model->parameters()};
      std::mt19937 random(4);
      test::Part const part(domain, balanced_cuts(9, domain.comm().num_ranks()), Cuts{8});

      expect_gradients(c, domain, subject, part.of(random_tensor(random, {1, 4, 9, 8})).clone(), forms[0], forms[0]);
    }
  }
}

}  // namespace test_cotangents
}  // namespace graticule
