// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/plan.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/fields.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/samples/detail/fields.hpp>
#include <graticule/samples/scaling.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule::samples {

/// A channel that is the same in all samples.
struct Channel {
  std::string name;
  Parity parity = Parity::even;
  std::vector<double> values;  ///< [row][column] of this rank's box, normalised
};

/// Area-weighted mean of some cells and their squared distances from it; missing cells do not count.
///
/// Made sample by sample and joined in the order of samples (Chan, Golub and LeVeque 1979), so that one pass over the
/// data is sufficient and its division into pieces does not change a bit.
struct Moments {
  double weight = 0;
  double mean = 0;
  double squares = 0;  ///< sum of weight * (value - mean)^2

  void add(Moments const& other) noexcept;
};

/// Of one sample's [row][column] on this rank.
[[nodiscard]] Moments moments_of(Cells const& cells, std::span<double const> values);

/// Means and scalings over all ranks of `comm` from each rank's moments of each level. Collective, one call for all
/// fields: two all-reduces. @throws `BadInput` (input) when a level of a field has no value at all
struct LevelStatistics {
  ChannelInfo channel;
  std::vector<Moments> levels;     ///< of this rank
  Scaling scaling = {};            ///< result
  std::vector<double> means = {};  ///< result, of vector components too: the climatology that forecasts are judged by
};
void finish_statistics(Comm const& comm, std::span<LevelStatistics> fields);
/// The same over the product of communicators: a domain and a data team.
void finish_statistics(std::span<Comm const> comms, std::span<LevelStatistics> fields);

/// (value - mean) / scale of a level, in f64, rounded once to `Value`. @param missing whether NaN becomes the mean
template <class Value>
void normalise(std::span<double const> values, Scaling const& scaling, std::size_t level, Missing missing, Value* out);

/// From `auto` or a list of `value`, `east` and `north`; `auto` takes the derivatives alone for a potential, whose
/// value means nothing, and all three for any other field. @throws `BadOption` (usage)
[[nodiscard]] std::vector<Feature> features_of(std::vector<std::string> const& names, FieldInfo const& info);

/// Samples of a field with one ghost cell on every side: [sample][row][column] of the local box.
struct PaddedField {
  Parity parity = Parity::even;
  Index num_samples = 0;
  std::vector<double> values;
};

/// Derivatives of fields by metres along the parallel or the meridian: centred differences over the neighboring cells,
/// across ranks, poles and the date line; one-sided where an edge repeats its cells.
///
/// d/dx = (f(j+1) - f(j-1)) / (a cos(latitude) (longitude(j+1) - longitude(j-1))), d/dy likewise without the cosine,
/// which is bounded below by its value half a row from the pole; a = 6371 km.
class Derivatives {
 public:
  /// Collective. The cells must outlive this.
  Derivatives(Comm const& comm, Cells const& cells);

  /// Values that a padded field of so many samples has on this rank.
  [[nodiscard]] std::size_t padded_size(Index num_samples) const noexcept;
  /// Makes room for the samples. Needs no message, as do `put` and `get`.
  void resize(PaddedField& field, Index num_samples) const;
  /// Fills the owned cells of a sample from [row][column].
  void put(PaddedField& field, Index sample, std::span<double const> values) const;
  /// Fills the ghost cells of all fields, which have as many samples on all ranks. Collective.
  void exchange(std::span<PaddedField> fields) const;
  /// One derivative of a sample as [row][column]. @pre `which` is `east` or `north`
  void get(PaddedField const& field, Index sample, Feature which, std::span<double> values) const;

 private:
  Cells cells_;
  HaloPlan plan_;
};

/// A function of latitude as an input channel of one sample, normalised over the globe. Needs no message.
[[nodiscard]] Channel static_channel(std::string const& name, Cells const& cells);

}  // namespace graticule::samples
