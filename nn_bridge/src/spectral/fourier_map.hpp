// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/partition/comm.hpp>

#include "move/whole_columns.hpp"

#include <torch/torch.h>

#include <memory>

namespace graticule::nn::detail {

struct FourierModes {
  FourierAxes axes = FourierAxes::columns;
  FourierNorm norm = FourierNorm::backward;
  Index num_waves = 0;  ///< 0: all
};

/// Waves kept of those that `num_columns` have. @throws `BadOption`
[[nodiscard]] Index num_waves_of(Index wanted, Index num_columns);

/// Cuts of the spectra's rows, or of their waves, and this rank's part.
[[nodiscard]] AxisPart spectral_part(Comm const& comm, Layout const& fields, FourierModes const& modes);

/// Fourier transforms of fields of one layout, and back. Immutable, so that a graph may outlive its layer.
class FourierMap {
 public:
  /// Collective. @param fields rows and columns over a grid of all ranks @throws `BadOption` on all ranks alike
  FourierMap(Comm const& comm, Layout fields, FourierModes const& modes);

  [[nodiscard]] Layout const& fields() const noexcept { return fields_; }
  [[nodiscard]] AxisPart const& part() const noexcept { return part_; }

  /// This rank's field [..., rows, columns] to its spectrum, and back; collective.
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x, CallTies const& ties) const;
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& spectrum, CallTies const& ties) const;

 private:
  Layout fields_;
  FourierModes modes_;
  AxisPart part_;
  std::shared_ptr<TensorMove const> to_columns_;  ///< null where longitude is not cut
  std::shared_ptr<TensorMove const> to_waves_;    ///< null on one rank, or where rows are not transformed
};

}  // namespace graticule::nn::detail
