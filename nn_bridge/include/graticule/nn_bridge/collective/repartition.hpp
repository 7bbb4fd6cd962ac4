// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn {

namespace detail {
class RepartitionState;
}

/// The two shardings of `Repartition`.
struct RepartitionOptions {
  Sharding from;
  Sharding to;  ///< may cut the axes of `from` differently, or other axes
  /// Cuts of the axes of `to`, one per axis. Empty: balanced.
  std::vector<Cuts> cuts = {};
};

/// Moves a tensor from one sharding to another and back, so that a layer can have whole axes.
///
/// Sizes are read from the tensors: the source cuts are gathered at the first forward and after each change of the
/// global structure. Parts may be uneven or empty. Tensors may have any strides; the result is a new tensor in the
/// memory format of its input. Differentiable to any order: each direction is the other's adjoint.
/// Example: `{{{-2, -1}, {2, 1}}, {{-3}, {2}}}` with [5, 4, 8] on rank 0 and [5, 3, 8] on rank 1 gives [3, 7, 8] and
/// [2, 7, 8].
/// Cost: one small all-reduce and one copy of the tensor per call, with messages in cache-sized segments; plans are
/// made once per structure.
class RepartitionImpl : public detail::StatefulModule<RepartitionImpl, detail::RepartitionState> {
 public:
  /// Requires the same options on all ranks. @throws `BadOption` unless both grids have one axis per cut axis,
  /// counted from the last as -1, and as many ranks as the domain, and cuts are given for all axes of `to` or for none
  RepartitionImpl(RepartitionOptions options, Domain domain);

  /// Collective. @param x this rank's shard by `from`
  /// @throws `BadCuts` if the given cuts do not fit the tensor, `StructureDisagreement`,
  ///         `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Moves a tensor to the source cuts of the latest forward. Collective.
  /// @param y this rank's shard by `to`, with the extents of the forward's result along all axes cut on either side;
  ///        other axes and the type may differ
  /// @throws `WrongState` before any forward, `ShapeMismatch`, and what forward throws, on all ranks alike
  torch::Tensor back(torch::Tensor const& y);

  /// An axis of the latest forward's input, and of its result. @pre `axis` is cut on either side (`BadOption`)
  [[nodiscard]] AxisPart before(std::int64_t axis) const;
  [[nodiscard]] AxisPart after(std::int64_t axis) const;

 private:
  RepartitionOptions options_;
};
TORCH_MODULE(Repartition);

}  // namespace graticule::nn
