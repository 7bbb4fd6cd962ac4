// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/nn_bridge/model/random_options.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace graticule::nn::detail {

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

/// Common part of the modules of `dropout.hpp`.
template <class Derived>
class RandomLayer : public StatefulModule<Derived, RandomMask> {
 protected:
  RandomLayer(RandomMask::Options mask, Domain const& domain)
      : StatefulModule<Derived, RandomMask>(domain, [mask = numbered(std::move(mask), domain)](Domain const& of) {
          return std::make_shared<RandomMask>(mask, of);
        }) {}

 private:
  /// Clones draw the masks of their original.
  static RandomMask::Options numbered(RandomMask::Options mask, Domain const& domain) {
    if (!mask.random.layer) mask.random.layer = std::uint32_t(domain.next_ordinal());
    return mask;
  }
};

}  // namespace graticule::nn::detail
