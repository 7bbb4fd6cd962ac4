// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class RepartitionState;
}

struct RepartitionOptions {
  Sharding from;
  Sharding to;  ///< may cut the axes of `from` otherwise, or other axes
  /// Where the axes of `to` are cut, one for each; none: balanced.
  std::vector<Cuts> cuts = {};
};

/// Moves a tensor from one sharding to another, so that axes which a layer needs whole are whole; and back.
///
/// Sizes are read from the tensors: the cuts it comes from are gathered at the first forward and whenever the global
/// structure changes. Parts may be uneven or empty. Tensors may have any strides; the result is a fresh tensor in the
/// memory format of its input. Differentiable to any order: each way is the other's adjoint.
/// Example: `{{{-2, -1}, {2, 1}}, {{-3}, {2}}}` with [5, 4, 8] on rank 0 and [5, 3, 8] on rank 1 gives [3, 7, 8] and
/// [2, 7, 8].
/// Cost: a call is one small all-reduce and one copy of the tensor, its messages in segments that stay in caches; plans
/// are made once per structure.
class RepartitionImpl : public detail::StatefulModule<RepartitionImpl, detail::RepartitionState> {
 public:
  /// The same options on all ranks. @throws `BadSharding` unless both grids have one axis for each cut axis, counted from
  /// the last as -1, and as many ranks as the domain; and unless there are cuts for all axes of `to` or for none
  RepartitionImpl(RepartitionOptions options, Domain domain);

  /// Collective. @param x this rank's shard by `from`
  /// @throws `CutsMismatch` when given cuts do not fit the tensor, `StructureDisagreement`, `GradModeDisagreement`,
  ///         `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Moves to the cuts that the latest forward came from. Collective.
  /// @param y this rank's shard by `to`, with the sizes of the forward's result along all axes that either side cuts;
  ///          other axes and the type may differ
  /// @throws `NoForward` before any forward, `ShapeMismatch`, and what forward throws, on all ranks alike
  torch::Tensor back(torch::Tensor const& y);

  /// An axis in the input and in the result of the latest forward. @pre `axis` is cut on either side (`BadSharding`)
  [[nodiscard]] AxisPart before(std::int64_t axis) const;
  [[nodiscard]] AxisPart after(std::int64_t axis) const;

 private:
  RepartitionOptions options_;
};
TORCH_MODULE(Repartition);

}  // namespace graticule::nn
