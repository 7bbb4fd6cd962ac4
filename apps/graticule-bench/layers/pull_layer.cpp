// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

namespace graticule::bench {

namespace {

using Function = std::function<torch::Tensor(torch::Tensor const&)>;

struct Case {
  std::string name;
  Function local;
  std::vector<std::pair<std::string, Function>> sharded;
};

template <class Layer>
Function function_of(Layer const& layer) {
  return [held = layer](torch::Tensor const& x) mutable { return held->forward(x); };
}

std::vector<Case> cases(nn::Domain const& domain, Index channels) {
  auto const max_3 = torch::nn::MaxPool2dOptions(3).stride(2).padding(1);
  auto const max_2 = torch::nn::MaxPool2dOptions(2);
  auto const mean_3 = torch::nn::AvgPool2dOptions(3).stride(1).padding(1);
  auto const twice =
      torch::nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear).align_corners(false);
  auto const up = [&](Index kernel, Index padding) {
    return torch::nn::ConvTranspose2dOptions(channels, channels, kernel).stride(2).padding(padding);
  };
  auto const up_2 = up(2, 0);
  auto const up_4 = up(4, 1);
  auto const groups = torch::nn::GroupNormOptions(2, channels);
  std::string const globe = "sharded, poles and periodic longitude";
  std::string const edges = "sharded, LibTorch's padding";
  auto const by = nn::Padding::by_domain;
  return {{"MaxPool2d 3x3, stride 2",
           function_of(torch::nn::MaxPool2d(max_3)),
           {{edges, function_of(nn::MaxPool2d(max_3, domain))},
            {globe, function_of(nn::MaxPool2d(nn::PoolOptions(max_3, by), domain))}}},
          {"MaxPool2d 2x2, stride 2",
           function_of(torch::nn::MaxPool2d(max_2)),
           {{edges, function_of(nn::MaxPool2d(max_2, domain))}}},
          {"AvgPool2d 3x3, stride 1",
           function_of(torch::nn::AvgPool2d(mean_3)),
           {{edges, function_of(nn::AvgPool2d(mean_3, domain))},
            {globe, function_of(nn::AvgPool2d(nn::PoolOptions(mean_3, by), domain))}}},
          {"bilinear Resize by 2",
           function_of(torch::nn::Upsample(twice)),
           {{edges, function_of(nn::Resize(twice, domain))},
            {globe, function_of(nn::Resize(nn::ResizeOptions(twice, by), domain))}}},
          {"PixelShuffle by 2",
           function_of(torch::nn::PixelShuffle(torch::nn::PixelShuffleOptions(2))),
           {{"sharded", function_of(nn::PixelShuffle(torch::nn::PixelShuffleOptions(2), domain))}}},
          {"ConvTranspose2d 2x2, stride 2",
           function_of(torch::nn::ConvTranspose2d(up_2)),
           {{edges, function_of(nn::ConvTranspose2d(up_2, domain))}}},
          {"ConvTranspose2d 4x4, stride 2",
           function_of(torch::nn::ConvTranspose2d(up_4)),
           {{edges, function_of(nn::ConvTranspose2d(up_4, domain))},
            {globe, function_of(nn::ConvTranspose2d(nn::ConvTransposeOptions(up_4, by), domain))}}},
          {"GroupNorm of 2 groups",
           function_of(torch::nn::GroupNorm(groups)),
           {{"sharded", function_of(nn::GroupNorm(groups, domain))}}}};
}

}  // namespace

void run_pull_layers(app::Context& context, Options const& options) {
  Shards const shards(context, options);
  auto const x = shards.random().requires_grad_();
  for (auto const& c : cases(shards.domain, shards.channels)) {
    auto const step = [&](Function const& layer) {
      return [&x, layer, cotangent = torch::randn(layer(x).sizes())] {
        layer(x).backward(cotangent);
        x.mutable_grad() = torch::Tensor();
      };
    };
    std::vector<Candidate> candidates{{"LibTorch's layer on the local rows", step(c.local)}};
    for (auto const& [name, function] : c.sharded) candidates.push_back({name, step(function)});
    // What the order of candidates and the machine's other work make of the same layer.
    candidates.push_back({"LibTorch's layer again", step(c.local)});
    show(context, c.name + ", forward and backward, " + shards.size_text,
         interleave(context, candidates, options.timing));
  }
}

}  // namespace graticule::bench
