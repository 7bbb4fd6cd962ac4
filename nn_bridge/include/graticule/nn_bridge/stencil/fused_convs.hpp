// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
struct FusedSetUp;
}

/// Options of `FusedConvs`.
struct FusedConvsOptions {
  /// The source of padding values of rows and columns, for every layer.
  Padding padding = Padding::by_mode;
  std::vector<std::int64_t> odd_channels;  ///< of the input, see `ConvOptions`
};

/// A sequence of convolutions with a single exchange, whose halo width is the total reach of all windows.
///
/// Takes a `Sequential` of `torch::nn::Conv2d` of stride 1 that preserve the grid (padding `same`, or dilation *
/// (kernel - 1) / 2) and of functions of single cells (GELU, ...); names, parameters and files are those of the
/// `Sequential`. Each rank also computes the halo cells that later layers read. Beyond the edge of the globe every
/// layer's output is continued by the padding rule, as in the serial layers. Output and gradients equal those of single
/// layers to rounding. It is faster where messages cost more than the additional rows (2 w per rank for a total reach
/// of w), which weigh most on ranks with few rows.
/// Cost: one small all-reduce and one message per peer each way, for any number of layers.
class FusedConvsImpl : public CommunicatingModule<FusedConvsImpl, detail::FusedSetUp, torch::nn::SequentialImpl> {
 public:
  /// @param layers shared, not copied @param options see `FusedConvsOptions` @param domain the ranks that share a
  ///        sample
  /// @throws `Unsupported` for any other layer, a stride, or padding that changes the grid; the message identifies the
  ///        layer
  FusedConvsImpl(torch::nn::Sequential const& layers, FusedConvsOptions options, Domain const& domain);

  /// Collective. @param x [batch, channels, rows, columns], this rank's shard
  /// @throws `Unsupported` for rules other than constant, replicate, reflect, symmetric, periodic and poles;
  ///         `LongitudeIsCut` for poles in a domain whose longitude has several parts; `BadHaloWidth`, and what all
  ///         layers throw, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override;

 private:
  FusedConvsOptions options_;
};
TORCH_MODULE(FusedConvs);

}  // namespace graticule::nn
