// SPDX-License-Identifier: BSD-3-Clause
// Layers that drop values at random, with masks that do not depend on the cuts of a field.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::nn {

// The mask's value at a cell is word (i mod 4) of Philox at the counter (i / 4, draw, layer) with the key `seed`, where
// i is the flat index of the cell in the global tensor. A mask is therefore bitwise equal for every partition: a run on
// one rank is the reference. `draw` counts the domain's masks (`num_draws`). It is the only state, saved with a
// checkpoint and restored by `set_num_draws`. `checkpoint` and `rollout` draw the same masks again. The masks of
// LibTorch's own dropout depend on the partition.
//
// In `eval` and for p = 0 all layers return their input without communication. Otherwise forwards are collective and
// throw `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement` on all ranks alike.
// Cost: one small all-reduce (the agreement); masks are made on the CPU.

/// Number of masks that the random layers of a domain have drawn.
[[nodiscard]] std::int64_t num_draws(Domain const& domain) noexcept;
/// Sets the number of masks drawn, as when a checkpoint is loaded. @pre the same on all ranks, between the same calls
void set_num_draws(Domain const& domain, std::int64_t num_draws) noexcept;

/// Selects the masks that a layer draws.
struct RandomOptions {
  std::uint64_t seed = 0;
  /// Layers with equal seed and number draw equal masks. Default: the number of the layer in its domain, in order of
  /// construction.
  std::optional<std::uint32_t> layer = {};
  /// Global index of this rank's first sample; in data-parallel runs it makes the masks differ between teams.
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
  /// @throws `BadOption`
  RandomMask(Options const& options, Domain const& domain);

  /// Collective. Returns 1 where a value is kept, otherwise 0, in the type of `x`, with extent 1 along axes of constant
  /// mask.
  /// @param x this rank's shard @param num_dims the required rank of `x`; 0: any
  torch::Tensor draw(torch::Tensor const& x, std::int64_t num_dims);

 private:
  double p_;
  std::int64_t num_axes_;
  RandomOptions random_;
  Sharding sharding_;
};

}  // namespace detail

/// Common part of the modules of this file.
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

/// Zeroes each value with probability p and divides the others by 1 - p. Accepts any tensor cut along the axes of the
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

/// The same for [batch, channels, levels, rows, columns].
class Dropout3dImpl : public RandomLayer<Dropout3dImpl> {
 public:
  Dropout3dImpl(torch::nn::Dropout3dOptions const& options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  torch::nn::Dropout3dOptions options;
};
TORCH_MODULE(Dropout3d);

/// Dropout that keeps mean 0 and variance 1 behind SELU (Klambauer et al. 2017, arXiv:1706.02515):
/// `torch::alpha_dropout`.
class AlphaDropoutImpl : public RandomLayer<AlphaDropoutImpl> {
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
class DropPathImpl : public RandomLayer<DropPathImpl> {
 public:
  DropPathImpl(DropPathOptions options, RandomOptions random, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);
  DropPathOptions options;
};
TORCH_MODULE(DropPath);

}  // namespace graticule::nn
