// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/axis_sum.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace graticule::forecasting {

/// A band of latitudes over which scores are averaged.
struct Region {
  std::string name;
  double south = -90;
  double north = 90;
};

/// `globe`, `tropics` (20 S to 20 N), `north` and `south` (poleward of 20 degrees).
[[nodiscard]] std::vector<Region> const& standard_regions();

/// Scores of a channel at a lead in a region, over all cases; NaN where no case has a truth.
struct Score {
  Index num_cases = 0;
  double rmse = std::numeric_limits<double>::quiet_NaN();  ///< the root after the mean over cases; of the members' mean
  double mae = std::numeric_limits<double>::quiet_NaN();
  double bias = std::numeric_limits<double>::quiet_NaN();
  /// Mean over cases of the correlation of anomalies from climatology.
  double acc = std::numeric_limits<double>::quiet_NaN();
  double persistence_rmse = std::numeric_limits<double>::quiet_NaN();  ///< of the initial state as a forecast
  double climatology_rmse = std::numeric_limits<double>::quiet_NaN();
  double crps = std::numeric_limits<double>::quiet_NaN();    ///< fair; for one member the MAE
  double spread = std::numeric_limits<double>::quiet_NaN();  ///< root of the mean variance of the members
};

/// One forecast field and what it is compared with, on this rank's box, in units. NaN does not count.
struct ScoredField {
  std::span<double const> forecast;  ///< of the mean of the members
  std::span<double const> truth;
  std::span<double const> persistence;    ///< the initial state; empty without one (diagnostic channels)
  std::span<double const> climatology;    ///< empty without one
  std::span<double const> crps = {};      ///< of each cell; empty: |forecast - truth|
  std::span<double const> variance = {};  ///< of the members; empty: 0
};

/// Scores of forecasts, from sums with the same bits for every partition, over cases in the order of their numbers.
///
/// A case is one forecast (an initial time). The sums of a case over the cells are exact (`AreaSum`); those of all
/// cases are kept and added at the end, so neither the division of cells among the ranks of a domain nor that of cases
/// among teams changes a bit. Weights are areas; RMSE = sqrt(mean over cases of sum w e^2 / sum w). Memory: 80 bytes
/// per case, channel, lead and region.
class ScoreTable {
 public:
  struct Shape {
    Index num_cases = 0;
    Index num_channels = 0;
    Index num_leads = 0;
    std::vector<Region> regions = standard_regions();
  };
  /// Collective over the ranks of the layout, which `domain` has.
  ScoreTable(Comm const& domain, Layout const& layout, std::span<double const> latitudes,
             std::span<double const> row_weights, Shape shape);

  /// Scores the channels of one case at one lead. Collective over the domain.
  /// @param lead counted from 0 @param fields one per channel
  void add(Index case_number, Index lead, std::span<ScoredField const> fields);
  /// Joins the cases of all teams, each of which was added by one team. Collective over the team of one rank per
  /// domain.
  void join(Comm const& data);

  [[nodiscard]] Score score(Index channel, Index lead, Index region) const;
  /// Over several channels (levels of a variable): root mean squares and means.
  [[nodiscard]] Score score(std::span<Index const> channels, Index lead, Index region) const;
  [[nodiscard]] Shape const& shape() const noexcept { return shape_; }

  /// All sums, for a checkpoint, and back.
  [[nodiscard]] std::vector<double> const& values() const noexcept { return sums_; }
  /// @throws `StateMismatch` (input) for another number of them
  void set_values(std::vector<double> values);

 private:
  static constexpr std::size_t num_sums = 10;
  [[nodiscard]] std::size_t place(Index case_number, Index channel, Index lead, Index region) const;

  Layout layout_;
  Box box_;
  Shape shape_;
  std::vector<AreaSum> areas_;  ///< of each region
  std::vector<double> sums_;    ///< [case][channel][lead][region][sum]
  std::vector<double> cells_;   ///< [channel][sum][row][column] of one call
};

/// The fair CRPS of each cell: mean |x - t| - sum |x_i - x_j| / (2 m (m - 1)); for one member |x - t|.
/// @param members [member][cell] @param crps,mean,variance results, one per cell; the variance has the divisor m - 1
void ensemble_statistics(std::span<double const> members, std::size_t num_members, std::span<double const> truth,
                         std::span<double> crps, std::span<double> mean, std::span<double> variance);

}  // namespace graticule::forecasting
