// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/description.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace graticule::models {

class PolarFilter;

/// One step of a network in time on this rank's shard: inputs from states, and the next state from the output.
///
/// A state is [sample][prognostic channel of the present, then of the leads before, then diagnostic
/// channel][row][column], normalised, 0 where missing. Differentiable; derivatives cross ranks, poles and the date
/// line.
class Stepper {
 public:
  /// Of a network, sharded or not: inputs and functions of latitude to output.
  using Network = std::function<torch::Tensor(torch::Tensor const& inputs, torch::Tensor const& rows)>;

  /// Collective. `statics` are [field][row][column] of this rank, in units, `mirrored` the same of the mirror image.
  Stepper(Description const& description, Cells const& cells, nn::Domain const& domain,
          std::vector<std::vector<double>> const& statics, std::vector<std::vector<double>> const& mirrored);
  ~Stepper();
  Stepper(Stepper const&) = delete;
  Stepper& operator=(Stepper const&) = delete;

  /// Moves its factors to a device, where states, forcings and the network lie from then on. Not collective.
  void to(torch::Device const& device);

  /// What builds the network.
  [[nodiscard]] ModelOptions model_options() const;

  /// The state at the initial time.
  /// @param states [sample][time: present, earlier ones][channel][row][column], normalised, NaN where missing
  [[nodiscard]] torch::Tensor initial(torch::Tensor const& states) const;
  /// Prognostic cells that have a value at the initial time, as 1 and 0: predictions of others stay 0.
  [[nodiscard]] torch::Tensor mask(torch::Tensor const& states) const;
  /// The state one lead later. Collective. @param forcings [sample][forcing][row][column] @param images mirrored
  /// samples
  [[nodiscard]] torch::Tensor next(Network const& network, torch::Tensor const& state, torch::Tensor const& forcings,
                                   torch::Tensor const& mask, std::vector<bool> const& images);
  /// All channels of the present: [sample][channel][row][column].
  [[nodiscard]] torch::Tensor present(torch::Tensor const& state) const;

  /// [rows, functions], input of the network.
  [[nodiscard]] torch::Tensor const& rows() const noexcept { return rows_; }
  [[nodiscard]] torch::Dtype dtype() const noexcept { return dtype_; }
  /// [channel, 1, 1]: `Description::error_factors`.
  [[nodiscard]] torch::Tensor const& error_factors() const noexcept { return error_factors_; }

 private:
  [[nodiscard]] torch::Tensor inputs(torch::Tensor const& state, torch::Tensor const& forcings,
                                     std::vector<bool> const& images);
  [[nodiscard]] torch::Tensor column(std::vector<double> const& values) const;
  void make_derivative_factors(Cells const& cells);

  Description description_;
  torch::Dtype dtype_;
  nn::HaloExchange halo_;
  std::unique_ptr<PolarFilter> filter_;
  torch::Tensor rows_;
  torch::Tensor statics_;  ///< [field, row, column], normalised
  torch::Tensor mirrored_;
  torch::Tensor east_factors_;   ///< [channel, row, column]
  torch::Tensor north_factors_;  ///< [channel, row, 1]
  torch::Tensor change_factors_;
  torch::Tensor tendency_factors_;
  torch::Tensor tendency_means_;
  torch::Tensor error_factors_;
};

}  // namespace graticule::models
