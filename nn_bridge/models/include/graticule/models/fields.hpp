// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/repartition/parity.hpp>

#include <cstdint>
#include <string>

namespace graticule::models {

/// Symmetry of a variable: components of a horizontal vector change sign across a pole, northward ones in a mirror
/// image about the equator.
enum class Component : std::uint8_t { scalar, eastward, northward };

/// Description of a field.
struct FieldInfo {
  std::string name;
  std::string units;
  std::string long_name;
  std::string standard_name;
  Component component = Component::scalar;
  Parity parity = Parity::even;
  bool is_potential = false;    ///< only its differences are meaningful
  bool mirror_negates = false;  ///< its mirror image about the equator has the opposite sign
};

/// Description of a channel of the network's input or output.
struct ChannelInfo {
  std::string name;
  Parity parity = Parity::even;
};

/// A feature of an input field: its value, or its derivative along the parallel or the meridian.
enum class Feature : std::uint8_t { value, east, north };

/// Use of a variable: both input and output of a step, or output only.
enum class Role : std::uint8_t { prognostic, diagnostic };

/// One level of one variable.
struct StateChannel {
  std::string label;  ///< `t 850 hPa`, or the name of a variable without levels
  std::string variable;
  Index level = 0;  ///< position among the variable's levels
  Role role = Role::prognostic;
  FieldInfo info = {};
};

/// Normalised values are (value - mean) / scale, of a channel.
struct ChannelScale {
  double mean = 0;
  double scale = 1;
};

}  // namespace graticule::models
