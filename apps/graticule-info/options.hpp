// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/virtual_plan.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/indices.hpp>

#include <optional>
#include <string>
#include <vector>

namespace graticule::info {

/// The command line, as it stands there.
struct Options {
  std::vector<std::string> files;  ///< or patterns
  std::string file;                ///< the first
  std::string grid;
  int num_ranks = 0;
  std::vector<int> ranks;   ///< several, for forecasts; the first is `num_ranks`
  std::string machine;      ///< file of its rates, for forecasts
  double step_seconds = 0;  ///< of a step measured on one rank of it; 0: by its rates
  int ranks_per_node = 0;
  std::string partition = "auto";
  std::string cuts = "balanced";
  Index levels = 1;
  std::string dtype = "f32";
  std::string halo = "1x1";
  std::string boundary = "pole,periodic";
  std::string corners = "fill";
  std::string min_extents;
  int num_candidates = 12;
  std::string svg;
  std::string check;                ///< folder of golden.json, for a program
  double tolerance = -1;            ///< of the check; below 0: by the type
  std::string layout = "cheapest";  ///< of a program on ranks: cheapest, or divided
};

/// `721x1440`: one number for each axis. @throws `BadOption` (usage) naming `option`
[[nodiscard]] Indices parse_extents(std::string const& option, std::string const& text, Index least);

/// Ranks per axis of `--partition`; 0 is free. `auto` leaves both free. @throws `BadOption` (usage)
[[nodiscard]] Indices parse_partition(std::string const& text);

/// The product of the given ranks, or `num_ranks`. @throws `BadOption` (usage) when they contradict each other
[[nodiscard]] int total_ranks(Indices const& partition, int num_ranks, std::string const& text);

/// `1x1`, or `2:1x1` with lower and upper side. @throws `BadOption` (usage)
[[nodiscard]] std::vector<Width> parse_widths(std::string const& text);

/// `pole,periodic`, or `reflect:pole_row,periodic` with lower and upper side. A `pole` lies on the first and last row
/// of an odd number of rows, and on the outer faces of an even number. @throws `BadOption` (usage)
[[nodiscard]] Boundary parse_boundary(std::string const& text, Indices const& extents);

/// The value of `--cuts`: weights of rows, or the parts themselves; none for balanced cuts.
struct CutChoice {
  bool by_area = false;
  std::vector<std::optional<Cuts>> given{2};  ///< of latitude and longitude
};

/// `balanced`, `area`, `61,60,60,60`, `121,120x240,240` or `file:PATH`. Collective.
/// @throws `BadCuts` (usage), `BadInput` (input) @param extents of latitude and longitude
[[nodiscard]] CutChoice parse_cut_choice(Comm const& comm, std::string const& text, Indices const& extents);

/// `61,60,...,60`
[[nodiscard]] std::string to_text(Cuts const& cuts);

/// Nine digits of a number.
[[nodiscard]] std::string to_text(double value);

}  // namespace graticule::info
