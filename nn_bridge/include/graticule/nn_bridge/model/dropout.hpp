// SPDX-License-Identifier: BSD-3-Clause
// Layers that drop values at random, with masks that do not depend on the cuts of a field.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/nn_bridge/model/random_options.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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

namespace detail {

struct MaskSetUp;

/// Masks of uniform random words over the leading axes of a sharded tensor.
class RandomMask : public LayerState<MaskSetUp> {
 public:
  struct Options {
    std::string name;
    double p;
    std::int64_t num_axes;  ///< leading axes along which the mask varies; 0: all
    std::int64_t num_dims;  ///< axes that a tensor must have; 0: any number
    RandomOptions random;
    std::optional<Sharding> sharding = {};
  };
  /// @throws `BadOption`
  RandomMask(Domain const& domain, Options const& options);

  /// Collective. Returns 1 where a value of this rank's shard `x` is kept, otherwise 0, in the type of `x`, with extent
  /// 1 along axes of constant mask.
  torch::Tensor draw(torch::Tensor const& x);

 private:
  double p_;
  std::int64_t num_axes_;
  std::int64_t num_dims_;
  RandomOptions random_;
};

/// Common part of the layers.
template <class Derived>
class RandomLayer : public StatefulModule<Derived, RandomMask> {
 protected:
  RandomLayer(RandomMask::Options mask, Domain const& domain)
      : StatefulModule<Derived, RandomMask>(domain, state_maker<RandomMask>(numbered(std::move(mask), domain))) {}

 private:
  /// Clones draw the masks of their original.
  static RandomMask::Options numbered(RandomMask::Options mask, Domain const& domain) {
    if (!mask.random.layer) mask.random.layer = std::uint32_t(domain.next_ordinal());
    return mask;
  }
};

/// `x` times the mask and 1 / (1 - p).
[[nodiscard]] torch::Tensor dropped(torch::Tensor const& x, torch::Tensor const& mask, double p, bool inplace);

/// Common part of the layers that zero and scale values.
template <class Derived>
class DropoutLayer : public RandomLayer<Derived> {
 public:
  torch::Tensor forward(torch::Tensor const& x) {
    if (!this->is_training() || options.p() == 0) return x;
    return dropped(x, this->state().draw(x), options.p(), options.inplace());
  }

  torch::nn::DropoutOptions options;

 protected:
  DropoutLayer(torch::nn::DropoutOptions const& given, RandomMask::Options mask, Domain const& domain)
      : RandomLayer<Derived>(std::move(mask), domain), options(given) {}
};

}  // namespace detail

/// Zeroes each value with probability p and divides the others by 1 - p. Accepts any tensor cut along the axes of the
/// sharding, by default rows and columns as the last two.
struct DropoutImpl : detail::DropoutLayer<DropoutImpl> {
  DropoutImpl(torch::nn::DropoutOptions const& options, RandomOptions random, Domain const& domain,
              std::optional<Sharding> sharding = {});
};
TORCH_MODULE(Dropout);

/// The same for whole channels of each sample: [batch, channels, rows, columns].
struct Dropout2dImpl : detail::DropoutLayer<Dropout2dImpl> {
  Dropout2dImpl(torch::nn::Dropout2dOptions const& options, RandomOptions random, Domain const& domain);
};
TORCH_MODULE(Dropout2d);

/// The same for [batch, channels, levels, rows, columns].
struct Dropout3dImpl : detail::DropoutLayer<Dropout3dImpl> {
  Dropout3dImpl(torch::nn::Dropout3dOptions const& options, RandomOptions random, Domain const& domain);
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
