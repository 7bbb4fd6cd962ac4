// SPDX-License-Identifier: BSD-3-Clause
// Layers that drop values at random, with masks that do not depend on the cuts of a field.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/nn_bridge/detail/random_layer.hpp>
#include <graticule/nn_bridge/model/random_options.hpp>

#include <torch/torch.h>

#include <optional>

namespace graticule::nn {

// The mask's value at a cell is word (i mod 4) of Philox at the counter (i / 4, draw, layer) with the key `seed`, where
// i is the flat index of the cell in the global tensor. A mask is therefore bitwise equal for every partition: a run on
// one rank is the reference. `draw` counts the domain's masks (`Domain::num_draws`). It is the only state, saved with a
// checkpoint and restored by `Domain::set_num_draws`. `checkpoint` and `rollout` draw the same masks again. The masks
// of LibTorch's own dropout depend on the partition.
//
// In `eval` and for p = 0 all layers return their input without communication. Otherwise forwards are collective and
// throw `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement` on all ranks alike.
// Cost: one small all-reduce (the agreement); masks are made where the input lies.

/// Zeroes each value with probability p and divides the others by 1 - p. Accepts any tensor cut along the axes of the
/// sharding, by default rows and columns as the last two.
class DropoutImpl : public detail::RandomLayer<DropoutImpl> {
 public:
  DropoutImpl(torch::nn::DropoutOptions const& options, RandomOptions random, Domain const& domain,
              std::optional<Sharding> sharding = {});
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::DropoutOptions options;
};
TORCH_MODULE(Dropout);

/// The same for whole channels of each sample: [batch, channels, rows, columns].
class Dropout2dImpl : public detail::RandomLayer<Dropout2dImpl> {
 public:
  Dropout2dImpl(torch::nn::Dropout2dOptions const& options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::Dropout2dOptions options;
};
TORCH_MODULE(Dropout2d);

/// The same for [batch, channels, levels, rows, columns].
class Dropout3dImpl : public detail::RandomLayer<Dropout3dImpl> {
 public:
  Dropout3dImpl(torch::nn::Dropout3dOptions const& options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::Dropout3dOptions options;
};
TORCH_MODULE(Dropout3d);

/// Dropout that keeps mean 0 and variance 1 behind SELU (Klambauer et al. 2017, arXiv:1706.02515):
/// `torch::alpha_dropout`.
class AlphaDropoutImpl : public detail::RandomLayer<AlphaDropoutImpl> {
 public:
  AlphaDropoutImpl(torch::nn::AlphaDropoutOptions const& options, RandomOptions random, Domain const& domain,
                   std::optional<Sharding> sharding = {});
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::AlphaDropoutOptions options;
};
TORCH_MODULE(AlphaDropout);

/// Options of `DropPath`.
struct DropPathOptions {
  double p = 0.1;
  bool scale_by_keep = true;  ///< divide what is kept by 1 - p
};

/// Stochastic depth (Huang et al. 2016, arXiv:1603.09382): zeroes whole samples of a residual branch with probability
/// p, the same on all ranks of the domain. Axis 0 holds the samples.
class DropPathImpl : public detail::RandomLayer<DropPathImpl> {
 public:
  DropPathImpl(DropPathOptions options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  DropPathOptions options;
};
TORCH_MODULE(DropPath);

}  // namespace graticule::nn
