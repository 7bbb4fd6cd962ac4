// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::nn {

namespace detail {

class LastAxesState;
class TrackingState;

/// Common part of the batch normalisations. @param data_team see `BatchNorm2d`
template <std::size_t D, class Derived>
class BatchNormBase : public StatefulModule<Derived, TrackingState, torch::nn::BatchNormImplBase<D, Derived>> {
 public:
  BatchNormBase(torch::nn::BatchNormOptions const& options, Domain domain, std::optional<Comm> data_team = {});

  /// Collective where it needs sums over the field.
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

  /// Collective where it needs sums over the field.
  torch::Tensor forward(torch::Tensor const& x);

 protected:
  void _check_input_dim(torch::Tensor const& x) override;
};

}  // namespace detail

// Normalisations of fields whose last two axes, rows and columns, are sharded. Outputs, gradients, names and shapes are
// those of the serial layers, for any cuts and for ranks without cells. `BatchNorm1d` and `InstanceNorm1d` take [batch,
// channels, length], the length cut along latitude, in a domain whose longitude is whole (`LongitudeIsCut`). Means and
// variances are merged in order of ranks, so that they are bitwise equal on all ranks, and stored in f64: unlike in
// LibTorch's layers, fields with a large mean keep their precision. Twice differentiable. Gradients of parameters are
// partial sums, to be reduced by `GradientSync`.
//
// Forwards are collective and throw `StructureDisagreement`, `CallDisagreement` (also
// where some ranks train and others evaluate), `ShapeMismatch` and `TooFewValues`, on all ranks alike.
// Cost: one small all-reduce (the agreement) and one all-gather of two numbers per group; in the backward one
// all-reduce of two numbers per group. In `eval`, tracked statistics need neither.

/// Batch normalisation over batch, rows and columns of the whole domain: torch::nn::BatchNorm2d of
/// [batch, channels, rows, columns].
///
/// Constructed from `torch::nn::BatchNormOptions`, the domain, and an optional data team (`Comm`): the ranks that hold
/// the same cells of other samples. Statistics then include their samples.
/// Example: `BatchNorm2d(torch::nn::BatchNormOptions(8), domain, data_team)`.
struct BatchNorm2dImpl : detail::BatchNormBase<2, BatchNorm2dImpl> {
  using BatchNormBase::BatchNormBase;
};
TORCH_MODULE(BatchNorm2d);

/// `BatchNorm2d` of [batch, channels, length].
struct BatchNorm1dImpl : detail::BatchNormBase<1, BatchNorm1dImpl> {
  using BatchNormBase::BatchNormBase;
};
TORCH_MODULE(BatchNorm1d);

/// `BatchNorm2d` of [batch, channels, depth, rows, columns].
struct BatchNorm3dImpl : detail::BatchNormBase<3, BatchNorm3dImpl> {
  using BatchNormBase::BatchNormBase;
};
TORCH_MODULE(BatchNorm3d);

/// Normalisation of each channel of a sample over space: torch::nn::InstanceNorm2d of [batch, channels, rows, columns],
/// also without the batch axis. Tracked running statistics are means over the batch.
///
/// Constructed from `torch::nn::InstanceNormOptions` and the domain.
struct InstanceNorm2dImpl : detail::InstanceNormBase<2, InstanceNorm2dImpl> {
  using InstanceNormBase::InstanceNormBase;
};
TORCH_MODULE(InstanceNorm2d);

/// `InstanceNorm2d` of [batch, channels, length].
struct InstanceNorm1dImpl : detail::InstanceNormBase<1, InstanceNorm1dImpl> {
  using InstanceNormBase::InstanceNormBase;
};
TORCH_MODULE(InstanceNorm1d);

/// `InstanceNorm2d` of [batch, channels, depth, rows, columns].
struct InstanceNorm3dImpl : detail::InstanceNormBase<3, InstanceNorm3dImpl> {
  using InstanceNormBase::InstanceNormBase;
};
TORCH_MODULE(InstanceNorm3d);

/// Normalisation of each group of channels of a sample over space.
class GroupNormImpl : public CommunicatingModule<GroupNormImpl, detail::NoSetUp> {
 public:
  GroupNormImpl(torch::nn::GroupNormOptions const& options, Domain const& domain);

  /// @param x [batch, channels, rows, columns], with any axes between channels and rows
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  torch::nn::GroupNormOptions options;
  torch::Tensor weight;
  torch::Tensor bias;
};
TORCH_MODULE(GroupNorm);

/// Normalisation over the last axes, whose global extents are `normalized_shape`.
///
/// Statistics are reduced over the ranks among which these axes are cut, and are local if none is cut. Every rank holds
/// weight and bias of the whole `normalized_shape` and uses its slice; gradients are zero outside the slice.
/// Checkpoints and `GradientSync` therefore treat them like any parameter.
/// Example: `LayerNorm({{721, 1440}}, domain)` normalises each [rows, columns] field of a sample over the globe.
class LayerNormImpl : public detail::StatefulModule<LayerNormImpl, detail::LastAxesState> {
 public:
  LayerNormImpl(torch::nn::LayerNormOptions const& options, Domain domain);
  /// @param options LibTorch's @param domain the ranks that share a sample @param sharding the cut axes if they are not
  ///        the last two: `{{-3, -2}, grid}` for [rows, columns, channels]
  LayerNormImpl(torch::nn::LayerNormOptions const& options, Domain domain, Sharding sharding);

  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  torch::nn::LayerNormOptions options;
  torch::Tensor weight;
  torch::Tensor bias;
};
TORCH_MODULE(LayerNorm);

/// Options of `RMSNorm`, named as those of Python's torch.nn.RMSNorm.
struct RMSNormOptions {
  std::vector<std::int64_t> normalized_shape;
  std::optional<double> eps;  ///< default: the machine epsilon of the input's dtype
  bool elementwise_affine = true;
};

/// Division by the root mean square over the last axes (`torch::rms_norm`); otherwise as `LayerNorm`.
class RMSNormImpl : public detail::StatefulModule<RMSNormImpl, detail::LastAxesState> {
 public:
  RMSNormImpl(RMSNormOptions options, Domain domain);
  RMSNormImpl(RMSNormOptions options, Domain domain, Sharding sharding);

  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  RMSNormOptions options;
  torch::Tensor weight;
};
TORCH_MODULE(RMSNorm);

}  // namespace graticule::nn
