// SPDX-License-Identifier: BSD-3-Clause
#include "kinds.hpp"

#include <graticule/app/joined.hpp>

#include <algorithm>

namespace graticule::bench {

namespace {

using Kinds = std::vector<std::string>;

/// Kinds whose grid the command line sets.
Kinds const with_grid{"halo", "repartition", "layer", "repartition-layer", "spherical", "unet", "data-parallel"};

struct LimitedOption {
  std::string name;
  Kinds kinds;
};

/// In the order of --help. `FILE` has a rule of its own.
std::vector<LimitedOption> const limited_options{{"--share", {"program"}},
                                                 {"--nlat", with_grid},
                                                 {"--nlon", with_grid},
                                                 {"--grid", with_grid},
                                                 {"--dtype", {"halo", "repartition"}},
                                                 {"--partition", {"halo", "repartition"}},
                                                 {"--transport", {"halo", "repartition"}},
                                                 {"--widths", {"halo"}},
                                                 {"--levels", {"repartition"}},
                                                 {"--channels", with_grid},
                                                 {"--batch", {"data-parallel"}},
                                                 {"--machine", {"machine"}},
                                                 {"--width", {"halo"}},
                                                 {"--device", {"halo", "repartition", "unet", "data-parallel"}}};

bool holds(Kinds const& kinds, std::string const& kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// `halo, io`; `not program, replay` where that is shorter.
std::string text_of(Kinds const& kinds) {
  Kinds others;
  for (auto const& kind : all_kinds())
    if (!holds(kinds, kind)) others.push_back(kind);
  return others.size() < kinds.size() ? "not " + app::joined(others) : app::joined(kinds);
}

}  // namespace

std::vector<std::string> const& all_kinds() {
  static Kinds const kinds = [] {
    Kinds all = with_grid;
    all.insert(all.end(), {"program", "machine", "replay"});
    return all;
  }();
  return kinds;
}

void describe_kinds(CLI::App& app) {
  for (auto const& [name, kinds] : limited_options) {
    auto* const option = app.get_option(name);
    option->description(option->get_description() + " (" + text_of(kinds) + ")");
  }
}

std::string settle_kind(CLI::App& app, std::string const& kind) {
  std::string misplaced;
  for (auto const& [name, kinds] : limited_options) {
    if (kind.empty() || holds(kinds, kind)) continue;
    auto* const option = app.get_option(name);
    if (option->count() > 0) misplaced = name;
    option->default_str("");
    option->group("");  // not in `KIND --help`
  }
  return misplaced;
}

}  // namespace graticule::bench
