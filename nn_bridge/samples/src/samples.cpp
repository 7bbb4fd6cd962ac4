// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/random.hpp>
#include <graticule/samples/detail/samples.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <numeric>

namespace graticule::samples {
namespace {

bool contains(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

bool is_one_of(std::string const& name, std::initializer_list<char const*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

std::string short_name(std::string const& name) { return lower_case(name.substr(name.rfind('/') + 1)); }

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string with_units(double value, std::string const& units) {
  return short_number(value) + (units.empty() || units == "1" ? "" : " " + units);
}

Index SampleAxes::num_levels() const noexcept {
  if (extents.empty()) return 1;
  return std::accumulate(extents.begin() + 1, extents.end(), Index(1), std::multiplies<>());
}

std::string SampleAxes::describe(Index sample) const {
  std::string text;
  for (std::size_t a = extents.size(); a-- > 0;) {
    Index const index = sample % extents[a];
    sample /= extents[a];
    auto const part =
        dimensions[a] + (coordinates[a].empty() ? " index " + std::to_string(index)
                                                : " = " + with_units(coordinates[a][std::size_t(index)], units[a]));
    text = part + (text.empty() ? "" : ", " + text);
  }
  return text.empty() ? "the only sample" : text;
}

Index num_training_samples(SampleAxes const& axes, double fraction) {
  Index const n = axes.num_first();
  Index first = std::clamp<Index>(std::llround(fraction * double(n)), 1, n);
  if (fraction < 1 && first == n && n > 1) first = n - 1;
  return first * axes.num_levels();
}

std::vector<Index> shuffled(std::vector<Index> samples, std::uint64_t seed, Index epoch) {
  Random random(seed, "sample order of epoch " + std::to_string(epoch));
  for (std::size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[std::size_t(random.below(i))]);
  return samples;
}

Component component_of(Variable const& variable) {
  std::string const standard_name = variable.text("standard_name");
  std::string const long_name = lower_case(variable.text("long_name"));
  std::string const name = short_name(variable.name);
  if (!standard_name.empty()) {
    if (contains(standard_name, "eastward")) return Component::eastward;
    return contains(standard_name, "northward") ? Component::northward : Component::scalar;
  }
  if (contains(long_name, "u component") || is_one_of(name, {"u", "u10", "ua", "uas"})) return Component::eastward;
  if (contains(long_name, "v component") || is_one_of(name, {"v", "v10", "va", "vas"})) return Component::northward;
  return Component::scalar;
}

bool mirror_negates(Variable const& variable) {
  if (component_of(variable) == Component::northward) return true;
  std::string const standard_name = variable.text("standard_name");
  if (standard_name.empty()) return is_one_of(short_name(variable.name), {"vorticity", "vo", "pv", "psi"});
  return contains(standard_name, "vorticity") || contains(standard_name, "horizontal_streamfunction");
}

bool is_potential(Variable const& variable) {
  std::string const standard_name = variable.text("standard_name");
  if (standard_name.empty()) return is_one_of(short_name(variable.name), {"z", "gh", "zg", "psi", "chi"});
  return contains(standard_name, "geopotential") || contains(standard_name, "streamfunction") ||
         contains(standard_name, "velocity_potential");
}

}  // namespace graticule::samples
