// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <optional>

namespace graticule::nn::detail {

class TrackingState;

/// Common part of the batch normalisations. @param data_team see `BatchNorm2d`
template <std::size_t D, class Derived>
class BatchNormBase : public StatefulModule<Derived, TrackingState, torch::nn::BatchNormImplBase<D, Derived>> {
 public:
  BatchNormBase(torch::nn::BatchNormOptions const& options, Domain domain, std::optional<Comm> data_team = {});

  /// Collective where it needs sums over the field; shapes and errors are those of `norms.hpp`.
  torch::Tensor forward(torch::Tensor const& x);

 protected:
  void _check_input_dim(torch::Tensor const& x) override;

 private:
  std::optional<Comm> data_team_;
};

/// Common part of the instance normalisations.
template <std::size_t D, class Derived>
class InstanceNormBase : public StatefulModule<Derived, TrackingState,
                                               torch::nn::NormImplBase<D, Derived, torch::nn::InstanceNormOptions>> {
 public:
  InstanceNormBase(torch::nn::InstanceNormOptions const& options, Domain domain);

  /// Collective where it needs sums over the field; shapes and errors are those of `norms.hpp`.
  torch::Tensor forward(torch::Tensor const& x);

 protected:
  void _check_input_dim(torch::Tensor const& x) override;
};

}  // namespace graticule::nn::detail
