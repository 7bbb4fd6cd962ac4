// SPDX-License-Identifier: BSD-3-Clause
#include "pull.hpp"

#include <graticule/partition/detail/enum_table.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <string>

namespace graticule::program {

namespace {

std::int64_t modulo(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

std::int64_t padded_index(std::int64_t i, std::int64_t extent, PadMode mode) {
  if (0 <= i && i < extent) {
    return i;
  }
  switch (mode) {
    case PadMode::constant: return -1;
    case PadMode::reflect: return i < 0 ? -i : 2 * (extent - 1) - i;
    case PadMode::replicate: return std::clamp<std::int64_t>(i, 0, extent - 1);
    case PadMode::circular: return extent > 0 ? modulo(i, extent) : -1;
  }
  return -1;
}

}  // namespace

PullTable roll_table(std::int64_t extent, std::int64_t shift) {
  PullTable table;
  for (std::int64_t i = 0; i < extent; ++i) {
    table.push_back({0, modulo(i - shift, extent)});
  }
  return table;
}

PullTable flip_table(std::int64_t extent) {
  PullTable table;
  for (std::int64_t i = extent - 1; i >= 0; --i) {
    table.push_back({0, i});
  }
  return table;
}

PullTable slice_table(std::int64_t begin, std::int64_t end, std::int64_t step) {
  PullTable table;
  for (std::int64_t i = begin; i < end; i += step) {
    table.push_back({0, i});
  }
  return table;
}

PullTable cat_table(std::vector<std::int64_t> const& extents) {
  PullTable table;
  for (std::size_t input = 0; input < extents.size(); ++input) {
    for (std::int64_t i = 0; i < extents[input]; ++i) {
      table.push_back({static_cast<std::int32_t>(input), i});
    }
  }
  return table;
}

PullTable pad_table(std::int64_t extent, std::int64_t lower, std::int64_t upper, PadMode mode) {
  // A crop comes first: circular padding goes round what it leaves, the other modes do not depend on it.
  bool const circular = mode == PadMode::circular;
  std::int64_t const lo = circular ? std::max<std::int64_t>(-lower, 0) : 0;
  std::int64_t const hi = circular ? extent - std::max<std::int64_t>(-upper, 0) : extent;
  PullTable table;
  for (std::int64_t i = -lower; i < extent + upper; ++i) {
    table.push_back({0, lo + padded_index(i - lo, hi - lo, mode)});
  }
  return table;
}

PadMode pad_mode(std::string_view name) {
  for (PadMode const mode : graticule::detail::enum_values<PadMode>) {
    if (name == enum_row(mode).name) {
      return mode;
    }
  }
  throw Error(Fault::input, "RefusedProgram",
              "padding of the mode '" + std::string(name) + "' is none of " + graticule::detail::enum_names<PadMode>());
}

}  // namespace graticule::program
