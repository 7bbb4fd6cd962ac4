// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/plan.hpp>

#include "linear_operator.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn::detail {

/// A plan that moves tensors between two layouts, each cell to one place, so that the way back is also the adjoint.
class TensorMove : public LinearOperator {
 public:
  /// Collective. @param axes of the tensors that are the layouts' axes, counted from the last one
  TensorMove(Comm const& comm, Layout from, Layout to, std::vector<std::int64_t> axes);

  [[nodiscard]] Layout const& from() const noexcept { return from_; }
  [[nodiscard]] Layout const& to() const noexcept { return to_; }
  [[nodiscard]] Box const& to_box() const noexcept { return plan_.target_box(); }
  [[nodiscard]] std::vector<std::int64_t> const& axes() const noexcept { return axes_; }

  /// Fresh tensors in the memory format of the given one.
  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const override { return moved(x, Way::forward); }
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& y) const override { return moved(y, Way::adjoint); }

 private:
  [[nodiscard]] torch::Tensor moved(torch::Tensor const& x, Way way) const;

  Layout from_;
  Layout to_;
  std::vector<std::int64_t> axes_;
  RepartitionPlan plan_;
};

}  // namespace graticule::nn::detail
