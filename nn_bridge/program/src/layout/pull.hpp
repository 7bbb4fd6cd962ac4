// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace graticule::program {

/// Where an index of a result's axis comes from.
struct Source {
  std::int32_t input = 0;   ///< which of the node's tensors; of a concatenation only
  std::int64_t index = -1;  ///< in that tensor's axis; -1: the fill value

  bool operator==(Source const&) const = default;
};

/// One source per index of the result's axis.
using PullTable = std::vector<Source>;

/// Sources of roll(shift): index i comes from i - shift, round the axis.
[[nodiscard]] PullTable roll_table(std::int64_t extent, std::int64_t shift);
/// Sources of flip.
[[nodiscard]] PullTable flip_table(std::int64_t extent);
/// Sources of the indices begin, begin + step, ... < end.
[[nodiscard]] PullTable slice_table(std::int64_t begin, std::int64_t end, std::int64_t step);
/// Sources of tensors one after the other along the axis.
[[nodiscard]] PullTable cat_table(std::vector<std::int64_t> const& extents);

/// What lies beyond the edges.
enum class PadMode { constant, reflect, replicate, circular };

/// As PyTorch calls it.
struct PadModeRow {
  char const* name = nullptr;
};
[[nodiscard]] constexpr PadModeRow enum_row(PadMode mode) noexcept {
  switch (mode) {
    case PadMode::constant: return {"constant"};
    case PadMode::reflect: return {"reflect"};
    case PadMode::replicate: return {"replicate"};
    case PadMode::circular: return {"circular"};
  }
  return {};
}

/// Sources of padding by `lower` and `upper` indices, which may be negative (a crop). Circular padding goes round what
/// a crop at the other end leaves: of 4 indices by -1 and 1 it gives 1, 2, 3, 1.
/// @pre of reflect, the widths are below the extent; of circular, at most what a crop leaves of it
[[nodiscard]] PullTable pad_table(std::int64_t extent, std::int64_t lower, std::int64_t upper, PadMode mode);

/// Of a name of the table.
/// @throws Error `RefusedProgram` for another name
[[nodiscard]] PadMode pad_mode(std::string_view name);

}  // namespace graticule::program
