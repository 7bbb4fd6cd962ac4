// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/models/fields.hpp>
#include <graticule/partition/indices.hpp>
#include <graticule/samples/detail/names.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::samples {

/// All axes of a variable other than latitude and longitude: each combination of their indices is one sample.
///
/// The first axis divides training from validation; the product of the others is called the levels, because their
/// values differ in mean and size and are normalised one by one. Sample `s` has level `s % num_levels`.
/// Example: z(month=2, level=3, latitude, longitude) has 6 samples, 3 levels; with half of the months for training,
/// samples 0, 1, 2 (January) train and 3, 4, 5 (July) validate.
struct SampleAxes {
  std::vector<std::string> dimensions;
  std::vector<Index> extents;
  std::vector<std::vector<double>> coordinates;  ///< of each axis; none where the file has none
  std::vector<std::string> units;                ///< of each axis' coordinate, may be empty

  [[nodiscard]] Index num_first() const noexcept { return extents.empty() ? 1 : extents.front(); }
  [[nodiscard]] Index num_levels() const noexcept;
  [[nodiscard]] Index num_samples() const noexcept { return num_first() * num_levels(); }
  /// `month = 7, level = 200 millibars`
  [[nodiscard]] std::string describe(Index sample) const;
};

/// How many samples train: the first `fraction` of the first axis, at least one entry of it and, where there are two or
/// more and `fraction` is below 1, not all. @pre `0 < fraction <= 1`
[[nodiscard]] Index num_training_samples(SampleAxes const& axes, double fraction);

/// The order of training samples in one epoch: a permutation that depends on seed and epoch alone, so that all ranks
/// agree without a message. Fisher and Yates, drawn from SplitMix64.
[[nodiscard]] std::vector<Index> shuffled(std::vector<Index> samples, std::uint64_t seed, Index epoch);

/// `text` in lower case.
[[nodiscard]] std::string lower_case(std::string text);
/// The name of a variable or dimension in lower case, without the groups before it.
[[nodiscard]] std::string short_name(std::string const& name);
/// With up to ten digits: `0.25`, `850`.
[[nodiscard]] std::string short_number(double value);
/// The same with units, unless there are none or they are 1: `850 hPa`.
[[nodiscard]] std::string with_units(double value, std::string const& units);

/// By the words eastward or northward in the standard_name; without one by "U component" or "V component" in the
/// long_name or by a wind's usual name (u, u10, ua, uas; v, v10, va, vas).
[[nodiscard]] Component component_of(Variable const& variable);

/// Whether the mirror image about the equator of a variable has the opposite sign: northward components, vorticity and
/// stream function, by standard_name; without one by the names vorticity, vo, pv and psi.
[[nodiscard]] bool mirror_negates(Variable const& variable);

/// Whether only differences of a variable are meaningful: its standard_name says geopotential, stream function or
/// velocity potential; without one its name is z, gh, zg, psi or chi.
[[nodiscard]] bool is_potential(Variable const& variable);

}  // namespace graticule::samples
