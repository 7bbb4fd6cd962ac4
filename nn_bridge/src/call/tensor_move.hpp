// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/plan.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace graticule::nn::detail {

/// A plan that moves tensors between two layouts, each cell to one place, so that the way back is also the adjoint.
class TensorMove {
 public:
  /// Collective. @param axes of the tensors that are the layouts' axes, counted from the last one
  TensorMove(Comm const& comm, Layout from, Layout to, std::vector<std::int64_t> axes);

  [[nodiscard]] Layout const& from() const noexcept { return from_; }
  [[nodiscard]] Layout const& to() const noexcept { return to_; }
  [[nodiscard]] Box const& from_box() const noexcept { return plan_.source_box(); }
  [[nodiscard]] Box const& to_box() const noexcept { return plan_.target_box(); }
  [[nodiscard]] std::vector<std::int64_t> const& axes() const noexcept { return axes_; }

  /// Fresh tensors in the memory format of the given one.
  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const;
  [[nodiscard]] torch::Tensor apply_back(torch::Tensor const& y) const;

 private:
  [[nodiscard]] torch::Tensor empty(torch::Tensor const& like, Box const& box) const;
  [[nodiscard]] Index cell_bytes(torch::Tensor const& tensor) const;

  Layout from_;
  Layout to_;
  std::vector<std::int64_t> axes_;
  RepartitionPlan plan_;
};

/// Differentiable to any order; `anchor` as in `agreement.hpp`. A layer hands the result to `LayerState::record`.
[[nodiscard]] torch::Tensor move_tensor(std::shared_ptr<TensorMove const> const& move, torch::Tensor const& x,
                                        torch::Tensor const& anchor);
[[nodiscard]] torch::Tensor move_tensor_back(std::shared_ptr<TensorMove const> const& move, torch::Tensor const& y,
                                             torch::Tensor const& anchor);

}  // namespace graticule::nn::detail
