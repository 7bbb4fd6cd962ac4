// SPDX-License-Identifier: BSD-3-Clause
// Files of a series that differ in their packing, or in one place that makes them wrong.
#pragma once

#include <graticule/partition/error.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace graticule::test {

/// What one file of a series holds; wrong ones differ in one place.
struct SeriesPart {
  std::vector<double> times;
  std::string dimensions = "lat = 3; lon = 4;";
  std::string latitudes = "10, 0, -10";
  std::string units = "K";
  std::string time_units = "hours since 2000-01-01";
  double scale = 1;
  std::string more = {};
  std::string length = "UNLIMITED";
};

/// `t(time, lat, lon)` holds 1000 time + cell, packed by the part's own scale; `s(lat, time)` has time second.
inline void write_part(std::filesystem::path const& path, SeriesPart const& part) {
  std::string times;
  std::string t;
  std::string s;
  auto const list = [](std::string& text, double value) { text += (text.empty() ? "" : ", ") + std::to_string(value); };
  for (auto const time : part.times) {
    list(times, time);
    for (int cell = 0; cell < 12; ++cell) list(t, (1000 * time + cell) / part.scale);
  }
  for (int row = 0; row < 3; ++row)
    for (auto const time : part.times) list(s, time * 10 + row);
  auto const length = part.length.empty() ? std::to_string(part.times.size()) : part.length;
  write_cdl(path, "netcdf part { dimensions: time = " + length + "; " + part.dimensions +
                      " variables: double time(time); time:units = \"" + part.time_units +
                      "\"; double lat(lat); lat:units = \"degrees_north\"; double lon(lon); int t(time, lat, " +
                      "lon); t:scale_factor = " + std::to_string(part.scale) + "; t:units = \"" + part.units +
                      "\"; float area(lat); " + (part.length.empty() ? "double s(lat, time); " : "") + part.more +
                      " data: time = " + times + "; lat = " + part.latitudes + "; lon = 0, 90, 180, 270; t = " + t +
                      "; area = 1, 2, 3; " + (part.length.empty() ? "s = " + s + "; " : "") + "}");
}

inline std::vector<std::filesystem::path> make_files(Folder const& folder, std::vector<SeriesPart> const& parts) {
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < parts.size(); ++i)
    files.push_back(
        folder.make("part_" + std::to_string(i + 8) + ".nc", [&](auto const& p) { write_part(p, parts[i]); }));
  return files;
}

inline std::vector<SeriesPart> good_parts(std::string const& length) {
  return {{.times = {0, 1, 2}, .scale = 1, .length = length},
          {.times = {3}, .scale = 0.5, .length = length},
          {.times = {4, 5, 6, 7}, .scale = 0.25, .length = length},
          {.times = {10, 12}, .scale = 0.125, .length = length}};
}

inline std::vector<double> const all_times{0, 1, 2, 3, 4, 5, 6, 7, 10, 12};

/// Rule of the error that an action throws, whose text has this word; none without an error.
inline std::string rule_of_naming(std::function<void()> const& action, std::string const& word) {
  try {
    action();
  } catch (Error const& error) {
    EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
    return error.rule();
  }
  return {};
}

}  // namespace graticule::test
