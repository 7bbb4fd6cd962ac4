// SPDX-License-Identifier: BSD-3-Clause
#include "layer_table.hpp"

#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/model/embeddings.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/nn_bridge/pooling/unpooling.hpp>
#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>
#include <graticule/nn_bridge/stencil/padding.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include <gtest/gtest.h>

#include <span>

namespace graticule::test {

namespace {

using torch::Tensor;
using Sizes = std::vector<std::int64_t>;
namespace tn = torch::nn;
namespace F = torch::nn::functional;

/// Gives both modules, whose parameters have the same names, the same values.
template <class Sharded, class Serial>
MadeLayer sharing(Sharded sharded, Serial serial, torch::Dtype dtype) {
  serial->to(dtype);
  sharded->to(dtype);
  MadeLayer result;
  torch::NoGradGuard const no_grad;
  std::mt19937 random(7);
  result.sharded_buffers = sharded->buffers();
  auto own = sharded->named_parameters();
  for (auto const& item : serial->named_parameters()) {
    Tensor parameter = item.value();
    parameter.copy_(short_numbers(random, parameter.sizes().vec(), dtype) / 2);
    own[item.key()].copy_(parameter);
    result.serial_parameters.push_back(parameter);
    result.sharded_parameters.push_back(own[item.key()]);
  }
  return result;
}

/// From LibTorch's options.
template <class Sharded, class Serial, class Options>
TableLayer plain(std::string name, Sizes sizes, Options const& options) {
  return {std::move(name), std::move(sizes), [=](nn::Domain const& domain, torch::Dtype dtype) {
            Sharded sharded(options, domain);
            Serial serial(options);
            auto made = sharing(sharded, serial, dtype);
            made.sharded = [sharded](Tensor const& x) mutable { return sharded(x); };
            made.serial = [serial](Tensor const& x) mutable { return serial(x); };
            return made;
          }};
}

/// Of a length: a field of one column.
template <class Sharded, class Serial, class Options>
TableLayer of_length(std::string name, Options const& options) {
  auto result = plain<Sharded, Serial>(std::move(name), {2, 4, 11, 1}, options);
  result.make = [make = result.make](nn::Domain const& domain, torch::Dtype dtype) {
    auto made = make(domain, dtype);
    for (auto* function : {&made.sharded, &made.serial})
      *function = [of_length = *function](Tensor const& x) { return of_length(x.squeeze(-1)).unsqueeze(-1); };
    return made;
  };
  result.of_length = true;
  return result;
}

/// Without parameters.
template <class Make>
TableLayer bare(std::string name, Sizes sizes, Make make, LayerFunction serial) {
  return {std::move(name), std::move(sizes), [=](nn::Domain const& domain, torch::Dtype) {
            auto sharded = make(domain);
            return MadeLayer{[sharded](Tensor const& x) mutable { return sharded(x); }, serial};
          }};
}

Sizes const plane{2, 4, 9, 8};

TableLayer resize(std::string name, F::InterpolateFuncOptions const& options) {
  return bare(
      std::move(name), plane, [=](nn::Domain const& domain) { return nn::Resize(nn::ResizeOptions(options), domain); },
      [=](Tensor const& x) { return F::interpolate(x, options); });
}

template <class Mode>
TableLayer pad(std::string name, nn::PadMode mode, Mode serial) {
  return bare(
      std::move(name), plane,
      [=](nn::Domain const& domain) {
        return nn::Pad2d(nn::PadOptions<2>({1, 2, 2, 1}, mode), domain);
      },
      [=](Tensor const& x) {
        return F::pad(x, F::PadFuncOptions({1, 2, 2, 1}).mode(serial));
      });
}

TableLayer unpool() {
  // The upper left cell of each window.
  auto const indices = (torch::arange(4).view({4, 1}) * 12 + torch::arange(3) * 2).expand({2, 4, 4, 3}).contiguous();
  return bare(
      "MaxUnpool2d", indices.sizes().vec(),
      [=](nn::Domain const& domain) {
        nn::MaxUnpool2d own(tn::MaxUnpool2dOptions(2), domain);
        return [=](Tensor const& x) mutable { return own(x, part_of(domain, x).of(indices).to(x.device())); };
      },
      [=](Tensor const& x) {
        return at::max_unpool2d(x, indices, {8, 6});
      });
}

/// Attention of all cells to all, also as windows as large as the field.
template <class Make>
TableLayer attention(std::string name, Make make) {
  return {std::move(name), plane, [=](nn::Domain const& domain, torch::Dtype dtype) {
            tn::MultiheadAttentionOptions const options(4, 2);
            auto sharded = make(options, domain);
            tn::MultiheadAttention serial(options);
            auto made = sharing(sharded, serial, dtype);
            made.sharded = [sharded](Tensor const& x) mutable { return sharded(x); };
            made.serial = [serial](Tensor const& x) mutable {
              auto const tokens = x.flatten(-2).permute({2, 0, 1});
              return std::get<0>(serial(tokens, tokens, tokens)).permute({1, 2, 0}).reshape(x.sizes());
            };
            return made;
          }};
}

TableLayer self_attention(std::string name, nn::AttentionKernel kernel) {
  return attention(std::move(name), [=](tn::MultiheadAttentionOptions const& options, nn::Domain const& domain) {
    return nn::SelfAttention(nn::SelfAttentionOptions{options, kernel}, domain);
  });
}

TableLayer of_real_numbers(TableLayer layer) {
  layer.refused = {torch::kComplexFloat, torch::kComplexDouble};
  return layer;
}

TableLayer once(TableLayer layer) {
  layer.twice_differentiable = false;
  return layer;
}

TableLayer position_embedding() {
  return {"PositionEmbedding", plane, [](nn::Domain const& domain, torch::Dtype dtype) {
            nn::PositionEmbedding sharded(nn::PositionEmbeddingOptions{4, 9, 8}, domain);
            sharded->to(dtype);
            std::mt19937 random(7);
            sharded->weight.detach().copy_(short_numbers(random, {4, 9, 8}, dtype));
            auto const weight = sharded->weight.detach().clone().requires_grad_();
            return MadeLayer{[sharded](Tensor const& x) mutable { return sharded(x); },
                             [weight](Tensor const& x) { return x + weight; },
                             {sharded->weight},
                             {weight}};
          }};
}

double unit_of(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kBFloat16: return 1.0 / 1024;  // an eighth of one: sums are few
    case torch::kHalf: return 1.0 / 8192;
    case torch::kFloat:
    case torch::kComplexFloat: return 1.2e-7;
    default: return 2.3e-16;
  }
}

}  // namespace

std::vector<TableLayer> layer_table() {
  auto const size = std::vector<std::int64_t>{14, 5};
  auto const to = [&] { return F::InterpolateFuncOptions().size(size); };
  std::vector<TableLayer> result{
      of_real_numbers(plain<nn::Conv2d, tn::Conv2d>("Conv2d", plane, tn::Conv2dOptions(4, 3, 3).padding(1))),
      of_real_numbers(plain<nn::Conv2d, tn::Conv2d>(
          "Conv2d, strided, reflected", plane,
          tn::Conv2dOptions(4, 2, {3, 5}).stride(2).padding({1, 2}).padding_mode(torch::kReflect))),
      of_real_numbers(plain<nn::Conv2d, tn::Conv2d>(
          "Conv2d, dilated, in groups, circular", plane,
          tn::Conv2dOptions(4, 4, 3).dilation(2).padding(2).groups(4).padding_mode(torch::kCircular))),
      of_real_numbers(plain<nn::Conv3d, tn::Conv3d>("Conv3d", {2, 4, 3, 7, 6}, tn::Conv3dOptions(4, 3, 3).padding(1))),
      of_real_numbers(plain<nn::ConvTranspose2d, tn::ConvTranspose2d>(
          "ConvTranspose2d", plane, tn::ConvTranspose2dOptions(4, 3, 3).stride(2).padding(1))),
      plain<nn::MaxPool2d, tn::MaxPool2d>("MaxPool2d", plane, tn::MaxPool2dOptions(3).stride(2).padding(1)),
      plain<nn::AvgPool2d, tn::AvgPool2d>("AvgPool2d", plane, tn::AvgPool2dOptions(3).stride(2).padding(1)),
      plain<nn::LPPool2d, tn::LPPool2d>("LPPool2d", plane, tn::LPPool2dOptions(2, 3).stride(2)),
      plain<nn::AdaptiveAvgPool2d, tn::AdaptiveAvgPool2d>("AdaptiveAvgPool2d", plane,
                                                          tn::AdaptiveAvgPool2dOptions({4, 3})),
      plain<nn::AdaptiveMaxPool2d, tn::AdaptiveMaxPool2d>("AdaptiveMaxPool2d", plane,
                                                          tn::AdaptiveMaxPool2dOptions({4, 3})),
      unpool(),
      resize("Resize, nearest", to().mode(torch::kNearest)),
      resize("Resize, bilinear", to().mode(torch::kBilinear).align_corners(false)),
      resize("Resize, bicubic", to().mode(torch::kBicubic).align_corners(true)),
      resize("Resize, area", to().mode(torch::kArea)),
      resize("Resize, to its own size", F::InterpolateFuncOptions().size(Sizes{9, 8}).mode(torch::kNearest)),
      pad("Pad2d, constant", nn::PadMode::constant, torch::kConstant),
      pad("Pad2d, reflect", nn::PadMode::reflect, torch::kReflect),
      pad("Pad2d, replicate", nn::PadMode::replicate, torch::kReplicate),
      pad("Pad2d, circular", nn::PadMode::circular, torch::kCircular),
      plain<nn::PixelShuffle, tn::PixelShuffle>("PixelShuffle", plane, tn::PixelShuffleOptions(2)),
      plain<nn::PixelShuffle, tn::PixelShuffle>("PixelShuffle by 1", plane, tn::PixelShuffleOptions(1)),
      plain<nn::PixelUnshuffle, tn::PixelUnshuffle>("PixelUnshuffle", {2, 4, 8, 6}, tn::PixelUnshuffleOptions(2)),
      plain<nn::PixelUnshuffle, tn::PixelUnshuffle>("PixelUnshuffle by 1", plane, tn::PixelUnshuffleOptions(1)),
      of_real_numbers(of_length<nn::Conv1d, tn::Conv1d>("Conv1d", tn::Conv1dOptions(4, 3, 5).stride(2).padding(2))),
      of_length<nn::BatchNorm1d, tn::BatchNorm1d>("BatchNorm1d", tn::BatchNormOptions(4)),
      of_length<nn::InstanceNorm1d, tn::InstanceNorm1d>("InstanceNorm1d", tn::InstanceNormOptions(4).affine(true)),
      plain<nn::BatchNorm2d, tn::BatchNorm2d>("BatchNorm2d", plane, tn::BatchNormOptions(4)),
      plain<nn::InstanceNorm2d, tn::InstanceNorm2d>("InstanceNorm2d", plane, tn::InstanceNormOptions(4).affine(true)),
      plain<nn::GroupNorm, tn::GroupNorm>("GroupNorm", plane, tn::GroupNormOptions(2, 4)),
      plain<nn::LayerNorm, tn::LayerNorm>("LayerNorm", plane, tn::LayerNormOptions({9, 8})),
      of_real_numbers(bare(
          "RMSNorm", plane,
          [](nn::Domain const& domain) {
            return nn::RMSNorm(nn::RMSNormOptions{{9, 8}, 1e-3, false}, domain);
          },
          [](Tensor const& x) {
            return torch::rms_norm(x, {9, 8}, {}, 1e-3);
          })),
      self_attention("SelfAttention, plain", nn::AttentionKernel::plain),
      once(self_attention("SelfAttention, fused", nn::AttentionKernel::fused)),
      once(self_attention("SelfAttention, ring", nn::AttentionKernel::ring)),
      attention("WindowAttention",
                [](tn::MultiheadAttentionOptions const& options, nn::Domain const& domain) {
                  return nn::WindowAttention(nn::WindowAttentionOptions{options, {9, 8}}, domain);
                }),
      of_real_numbers(position_embedding()),
  };
  return result;
}

Tensor short_numbers(std::mt19937& random, Sizes const& sizes, torch::Dtype dtype) {
  auto const draw = [&] { return (random_tensor(random, sizes) * 8).round() / 8; };
  return c10::isComplexType(dtype) ? torch::complex(draw(), draw()).to(dtype) : draw().to(dtype);
}

nn::Domain domain_of(std::size_t repeat) {
  auto const comm = test::world();
  auto const grids = test::grids_of(comm.num_ranks());
  return {comm, grids[repeat % grids.size()]};
}

nn::Domain domain_of(std::size_t repeat, TableLayer const& layer) {
  auto const comm = test::world();
  return layer.of_length ? nn::Domain(comm, ProcessGrid{comm.num_ranks(), 1}) : domain_of(repeat);
}

Part part_of(nn::Domain const& domain, Tensor const& shard) {
  auto const rows = std::size_t(domain.grid().extent(0));
  std::vector<Index> sizes(rows + std::size_t(domain.grid().extent(1)), 0);
  sizes[std::size_t(domain.latitude_part())] = shard.size(-2);
  sizes[rows + std::size_t(domain.longitude_part())] = shard.size(-1);
  domain.comm().max(sizes);
  auto const middle = sizes.begin() + std::ptrdiff_t(rows);
  return {domain, Cuts(std::vector<Index>(sizes.begin(), middle)), Cuts(std::vector<Index>(middle, sizes.end()))};
}

void add_gradients(LayerResults& results, Tensor const& result, Tensor const& x, std::vector<Tensor> const& parameters,
                   Tensor const& cotangent) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  auto grads = torch::autograd::grad({result}, inputs, {cotangent}, {}, false, true);
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].defined()) grads[i] = torch::zeros_like(inputs[i]);
  results.x_grad = grads[0];
  results.parameter_grads.assign(grads.begin() + 1, grads.end());
}

LayerResults run_layer(LayerFunction const& function, std::vector<Tensor> const& parameters, Tensor const& x,
                       LayerFunction const& cotangent) {
  LayerResults results;
  auto const leaf = x.detach().requires_grad_();
  results.y = function(leaf);
  add_gradients(results, results.y, leaf, parameters, cotangent(results.y));
  return results;
}

void expect_as_exact(nn::Domain const& domain, LayerResults const& found, Part const& in, LayerResults const& serial,
                     LayerResults const& exact) {
  auto const dtype = serial.y.scalar_type();
  auto const out = part_of(domain, found.y);
  auto const expect = [&](char const* what, Tensor const& own, Tensor const& like, Tensor const& right) {
    auto const allowed = 2 * difference(widened(like), right) + 64 * unit_of(dtype);
    EXPECT_LE(difference(widened(own), right), allowed) << what;
  };
  EXPECT_EQ(found.y.scalar_type(), serial.y.scalar_type());
  EXPECT_EQ(found.x_grad.scalar_type(), dtype);
  expect("output", found.y.detach(), out.of(serial.y.detach()), out.of(exact.y.detach()));
  expect("gradient", found.x_grad, in.of(serial.x_grad), in.of(exact.x_grad));
  for (std::size_t p = 0; p < exact.parameter_grads.size(); ++p)
    expect("parameter", over_ranks(domain.comm(), found.parameter_grads[p]), serial.parameter_grads[p],
           exact.parameter_grads[p]);
}

}  // namespace graticule::test
