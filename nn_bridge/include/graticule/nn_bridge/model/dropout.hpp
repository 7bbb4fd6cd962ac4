// SPDX-License-Identifier: BSD-3-Clause
// Layers that drop values at random, with masks that do not depend on how a field is cut.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::nn {

// The mask's value at a cell is word (i mod 4) of Philox at the counter (i / 4, draw, layer) with the key `seed`, where i
// is the flat index of the cell in the global tensor. So a mask is the same, bit for bit, for every partition: a run on
// one rank is the reference. `draw` counts the domain's masks (`num_draws`): it is their only state, to be saved with a
// checkpoint and restored by `set_num_draws`. `checkpoint` and `rollout` draw the same masks again.
// LibTorch's own dropout gives ranks masks that depend on the partition.
//
// In `eval` and for p = 0 all pass their input on and communicate nothing. Else forwards are collective and throw
// `ShapeMismatch`, `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement` on all ranks alike.
// Cost: one small all-reduce (the agreement); masks are made on the CPU.

/// How many masks the random layers of a domain have drawn.
[[nodiscard]] std::int64_t num_draws(Domain const& domain) noexcept;
/// @pre the same on all ranks, between the same calls
void set_num_draws(Domain const& domain, std::int64_t num_draws) noexcept;

/// Which masks a layer draws.
struct RandomOptions {
  std::uint64_t seed = 0;
  /// Layers of one seed and one number draw equal masks; none: the number of the layer in its domain, from the order in
  /// which the domain's layers are made.
  std::optional<std::uint32_t> layer = {};
  /// Global index of this rank's first sample: in data-parallel runs it makes the teams' masks differ.
  std::int64_t first_sample = 0;
};

namespace detail {

struct MaskSetUp;

/// Masks of uniform random words over the leading axes of a sharded tensor.
class RandomMask : public LayerState<MaskSetUp> {
 public:
  struct Options {
    std::string name;
    double p;
    std::int64_t num_axes;  ///< leading axes along which the mask varies; 0: all
    RandomOptions random;
    std::optional<Sharding> sharding = {};
  };
  /// @throws `BadProbability`
  RandomMask(Options const& options, Domain const& domain);

  /// Collective. 1 where a value is kept, else 0, in the type of `x`; of size 1 along the axes that it does not vary along.
  /// @param num_dims that `x` must have; 0: any
  torch::Tensor draw(torch::Tensor const& x, std::int64_t num_dims);

 private:
  double p_;
  std::int64_t num_axes_;
  RandomOptions random_;
  Sharding sharding_;
};

}  // namespace detail

/// What the modules of this file share.
template <class Derived>
class RandomLayer : public detail::StatefulModule<Derived, detail::RandomMask> {
 protected:
  RandomLayer(detail::RandomMask::Options mask, Domain const& domain)
      : detail::StatefulModule<Derived, detail::RandomMask>(
            domain, [mask = numbered(std::move(mask), domain)](Domain const& of) {
              return std::make_shared<detail::RandomMask>(mask, of);
            }) {}

 private:
  /// Clones draw the masks of their original.
  static detail::RandomMask::Options numbered(detail::RandomMask::Options mask, Domain const& domain) {
    if (!mask.random.layer) mask.random.layer = std::uint32_t(domain.next_ordinal());
    return mask;
  }
};

/// Zeroes each value with probability p and divides the others by 1 - p. Any tensor whose cut axes are those of the
/// sharding, by default rows and columns as the last two.
class DropoutImpl : public RandomLayer<DropoutImpl> {
 public:
  DropoutImpl(torch::nn::DropoutOptions const& options, RandomOptions random, Domain const& domain,
              std::optional<Sharding> sharding = {});
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::DropoutOptions options;
};
TORCH_MODULE(Dropout);

/// The same for whole channels of each sample: [batch, channels, rows, columns].
class Dropout2dImpl : public RandomLayer<Dropout2dImpl> {
 public:
  Dropout2dImpl(torch::nn::Dropout2dOptions const& options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::Dropout2dOptions options;
};
TORCH_MODULE(Dropout2d);

/// [batch, channels, levels, rows, columns].
class Dropout3dImpl : public RandomLayer<Dropout3dImpl> {
 public:
  Dropout3dImpl(torch::nn::Dropout3dOptions const& options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::Dropout3dOptions options;
};
TORCH_MODULE(Dropout3d);

/// Dropout that keeps mean 0 and variance 1 behind SELU (Klambauer et al. 2017, arXiv:1706.02515): `torch::alpha_dropout`.
class AlphaDropoutImpl : public RandomLayer<AlphaDropoutImpl> {
 public:
  AlphaDropoutImpl(torch::nn::AlphaDropoutOptions const& options, RandomOptions random, Domain const& domain,
                   std::optional<Sharding> sharding = {});
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::AlphaDropoutOptions options;
};
TORCH_MODULE(AlphaDropout);

struct DropPathOptions {
  double p = 0.1;
  bool scale_by_keep = true;  ///< divide what is kept by 1 - p
};

/// Stochastic depth (Huang et al. 2016, arXiv:1603.09382): zeroes whole samples of a residual branch with probability p,
/// on all ranks of the domain alike. Axis 0 holds the samples.
class DropPathImpl : public RandomLayer<DropPathImpl> {
 public:
  DropPathImpl(DropPathOptions options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  DropPathOptions options;
};
TORCH_MODULE(DropPath);

}  // namespace graticule::nn
