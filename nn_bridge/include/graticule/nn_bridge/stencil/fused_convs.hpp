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

struct FusedConvsOptions {
  /// What padding of rows and columns holds, at every layer.
  Padding padding = Padding::by_mode;
  std::vector<std::int64_t> odd_channels;  ///< of the input, see `ConvOptions`
};

/// A run of convolutions with one exchange for all of them, of a halo as deep as all their windows together.
///
/// Takes a `Sequential` of `torch::nn::Conv2d` of stride 1 that keep the grid (padding `same`, or dilation * (kernel - 1) / 2)
/// and of functions of single cells (GELU, ...), and is that `Sequential` in names, parameters and files. Each rank also
/// computes the halo's cells that later layers read; beyond the edge of the globe every layer's output is continued by the
/// padding's rule, as the serial layers do. Same output and gradients as layer by layer, to rounding.
/// Pays where messages cost more than the extra rows: few rows a rank are dear (2 w more rows for a total reach of w).
/// Cost: one small all-reduce and one message a peer each way, whatever the number of layers.
class FusedConvsImpl : public CommunicatingModule<FusedConvsImpl, detail::FusedSetUp, torch::nn::SequentialImpl> {
 public:
  /// @param layers are shared, not copied
  /// @throws `CannotFuse` for another layer, a stride, or padding that changes the grid, naming it
  FusedConvsImpl(torch::nn::Sequential const& layers, FusedConvsOptions options, Domain const& domain);

  /// Collective. @param x [batch, channels, rows, columns], this rank's shard
  /// @throws `CannotFuse` for rules other than constant, replicate, reflect, symmetric, periodic and poles; `LongitudeIsCut`
  ///         for poles in a domain whose longitude has several parts; `PaddingTooWide`, and what all layers throw, on all
  ///         ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override;

 private:
  FusedConvsOptions options_;
};
TORCH_MODULE(FusedConvs);

}  // namespace graticule::nn
