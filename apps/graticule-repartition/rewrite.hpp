// SPDX-License-Identifier: BSD-3-Clause
// Treatment of each variable of the input.
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/writer.hpp>

#include "options.hpp"
#include "tiling.hpp"

#include <string>
#include <vector>

namespace graticule::archive {

/// Values in memory between reading and writing.
enum class Form {
  stored,  ///< bit by bit as in the file
  f32,     ///< numbers by the CF conventions, NaN where missing
  f64,
};

/// A variable on its way from the input to the output.
struct Rewrite {
  Variable source;      ///< its axes all have names
  Indices permutation;  ///< target axis `a` is source axis `permutation[a]`
  VariableSpec target;
  Form form = Form::stored;
  bool to_store = false;  ///< the target's chunks are written whole
  bool packs = false;     ///< `target.packing` is to be found from the values
  /// Of the source, but not of the target, whose stored values are others: `valid_range`, ...
  std::vector<std::string> dropped_limits = {};

  [[nodiscard]] Index value_bytes() const noexcept {
    return form == Form::stored ? source.value_bytes : form == Form::f32 ? 4 : 8;
  }
  /// How it lies in the two files.
  [[nodiscard]] Storage source_storage() const;
  [[nodiscard]] Storage target_storage() const;
};

/// The output, in the order in which it is made.
struct Plan {
  std::vector<Dimension> dimensions = {};
  std::vector<Rewrite> variables = {};  ///< coordinates too
  /// Fields such as `cov(x, x)` that keep their order because `--order` cannot tell their axes apart, described.
  std::vector<std::string> ambiguous = {};
  /// Dimensions that are unlimited in the input but not in the output, because fields along them lie in one piece.
  std::vector<std::string> fixed = {};
  /// Variables that keep their type in spite of `--dtype`, because `flag_values` or `flag_masks` are of that type.
  std::vector<std::string> flags = {};
  /// Variables of half precision, of another type in netCDF.
  std::vector<std::string> widened = {};
  /// Variables of text that lose their `_FillValue`.
  std::vector<std::string> no_fills = {};
  /// Attributes that are left out, because they limit stored values that are no more: `valid_range of t`.
  std::vector<std::string> no_limits = {};
};

/// Decides what becomes of every variable. Variables that were not requested are copied unchanged.
/// @throws `BadOption`, `UnknownName` (usage); `UnreadableVariable`, `Unsupported` (input)
[[nodiscard]] Plan plan_rewrite(FileContents const& contents, Options const& options);

}  // namespace graticule::archive
