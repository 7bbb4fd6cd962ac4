// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/calendar.hpp>
#include <graticule/models/fields.hpp>
#include <graticule/models/model_kind.hpp>
#include <graticule/repartition/field_view.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::models {

/// How far a network looks ahead: a number of steps of the time axis, or a duration.
struct Lead {
  Index steps = 0;  ///< 0: `duration` counts
  Seconds duration = 0;

  friend bool operator==(Lead const&, Lead const&) = default;
};

/// What the output of a network is: the next state, or its difference from the present one.
enum class Predict : std::uint8_t { state, tendency };

/// Everything but parameters that a forecast with a trained network needs; a part of its checkpoint.
///
/// More than 20 members, because it is the record that a checkpoint holds as one text, key by key: nothing in it is
/// computed, and whoever makes one sets all of it. Its invariants: `values` has an element for each channel;
/// `tendencies`, `east_scales` and `north_scales` have one for each prognostic channel, and these come first.
struct Description {
  /// A static field as an input: (value - mean) / scale, 0 where missing.
  struct StaticScale {
    std::string name;
    ChannelScale scale;
  };

  std::vector<StateChannel> channels;    ///< prognostic ones first
  std::vector<ChannelScale> values;      ///< mean and scale of each channel, in its units
  std::vector<ChannelScale> tendencies;  ///< the same of changes over one lead
  std::vector<double> east_scales;       ///< of derivatives to the east, in units per metre
  std::vector<double> north_scales;      ///< and to the north
  std::vector<Feature> features;
  Index history = 1;  ///< states that the network reads: the present one and those of earlier leads
  Lead lead;          ///< as it was asked for
  Seconds lead_seconds = 0;
  Calendar calendar = Calendar::standard;  ///< of the files that the network was trained on
  Predict predict = Predict::tendency;
  double polar_filter = 0;  ///< degrees of latitude beyond which short waves of predictions are removed; 0: none
  double perturbation = 0;  ///< of the members of a training ensemble, by the scale of tendencies; 0: there were none
  std::vector<std::string> forcings;
  std::vector<std::string> row_functions;  ///< `coriolis`, ...
  std::vector<StaticScale> statics;
  ModelKind model = ModelKind::convnet;
  std::filesystem::path program = {};  ///< file of an exported network; not in the text, a checkpoint has a copy
  Index width = 32;
  Index blocks = 4;
  Index kernel = 3;
  DType dtype = DType::f32;
  std::vector<double> latitudes;
  std::vector<double> longitudes;

  [[nodiscard]] std::size_t num_prognostic() const noexcept { return tendencies.size(); }
  [[nodiscard]] std::size_t num_diagnostic() const noexcept { return channels.size() - tendencies.size(); }
  /// Names of a role's variables, each once.
  [[nodiscard]] std::vector<std::string> variables(Role role) const;
  /// The input channels of the network but for functions of latitude, with their parities.
  [[nodiscard]] std::vector<ChannelInfo> inputs() const;
  /// What errors in normalised units are multiplied by in the loss: to the scale of tendencies where these are
  /// predicted.
  [[nodiscard]] std::vector<double> error_factors() const;
};

/// The description of an exported network (`torch.export`) that takes and gives the present values of these channels in
/// their units: without scaling, derivatives, history and forcings. `predict` may be changed.
[[nodiscard]] Description program_description(std::filesystem::path const& file, std::vector<StateChannel> channels,
                                              Lead const& lead, Seconds lead_seconds, std::vector<double> latitudes,
                                              std::vector<double> longitudes);

}  // namespace graticule::models
