// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/detail/program_folder.hpp>
#include <graticule/partition/indices.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graticule {

/// Stored type of a value. `other` is for types that hold no single number.
enum class ValueType { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, text, other };

/// Name of a type, such as `f32`.
[[nodiscard]] std::string_view to_string(ValueType type) noexcept;

/// A named value of a variable or of the file, such as `units`: a text, integers, floating-point numbers or several
/// texts.
struct Attribute {
  std::string name;
  ValueType type = ValueType::text;
  std::variant<std::string, std::vector<Index>, std::vector<double>, std::vector<std::string>> value;

  [[nodiscard]] static Attribute of_text(std::string name, std::string text);
  [[nodiscard]] static Attribute of_number(std::string name, double number, ValueType type = ValueType::f64);
  /// The text, several ones joined by newlines; nothing for a number.
  [[nodiscard]] std::string text() const;
  /// The numbers as double; none for a text.
  [[nodiscard]] std::vector<double> numbers() const;

  friend bool operator==(Attribute const&, Attribute const&) = default;
};

/// A named axis shared by variables. Its coordinate, if any, is the variable of the same name.
struct Dimension {
  std::string name;
  Index extent = 0;
  bool is_unlimited = false;

  friend bool operator==(Dimension const&, Dimension const&) = default;
};

/// A variable as stored in the file.
struct Variable {
  /// One step of the filter pipeline of a chunk.
  struct Filter {
    int id = 0;
    std::string name;
    std::vector<Index> parameters;
    bool available = false;  ///< this program can decode it

    friend bool operator==(Filter const&, Filter const&) = default;
  };

  std::string name;                     ///< with the groups before it, such as `forecast/z`
  std::vector<std::string> dimensions;  ///< one name per axis; empty where the file has none
  Indices extents;
  /// Cells along each axis that the file holds: fewer than `extents` where an unlimited dimension is longer for other
  /// variables; the cells beyond are missing. No axes: all.
  Indices stored_extents;
  ValueType type = ValueType::other;
  bool is_big_endian = false;
  /// Of one stored value, also of text: of strings of variable length that of the longest, to which `read_stored` pads
  /// the others with zeros. 0 where `read_stored` cannot read it, as more than 1 MiB of such strings.
  Index value_bytes = 0;
  Indices chunk;  ///< no axes when contiguous
  std::vector<Filter> filters;
  std::vector<Attribute> attributes;
  bool is_strings = false;                          ///< text of variable length
  std::vector<std::string> strings = {};            ///< its stored values, row-major, where `value_bytes` is not 0
  bool is_virtual = false;                          ///< composed of datasets in other files
  std::string refusal;                              ///< reason why it cannot be read as numbers; empty when it can
  std::string refusal_rule = "UnreadableVariable";  ///< rule of the error that reading throws

  [[nodiscard]] int ndim() const noexcept { return extents.size(); }
  /// Some cells are not in the file.
  [[nodiscard]] bool is_short() const noexcept { return stored_extents.size() > 0 && stored_extents != extents; }
  /// `nullptr` when there is none.
  [[nodiscard]] Attribute const* attribute(std::string_view attribute_name) const noexcept;
  /// Empty when there is none or when it is a number.
  [[nodiscard]] std::string text(std::string_view attribute_name) const;
  /// Axis with that dimension, -1 when there is none.
  [[nodiscard]] int axis(std::string_view dimension) const noexcept;

  friend bool operator==(Variable const&, Variable const&) = default;
};

/// `z(month=2, level=3, latitude=241, longitude=480)`
[[nodiscard]] std::string to_string(Variable const& variable);

/// Axes of a variable that run along the meridians and along the parallels.
struct HorizontalAxes {
  int latitude = -1;
  int longitude = -1;

  friend bool operator==(HorizontalAxes const&, HorizontalAxes const&) = default;
};

/// Contents of a file in creation order, without field data.
struct FileContents {
  std::filesystem::path path;
  std::vector<Dimension> dimensions;
  std::vector<Variable> variables;  ///< coordinates too
  std::vector<Attribute> attributes;

  /// `nullptr` when there is none.
  [[nodiscard]] Variable const* find(std::string_view name) const noexcept;
  /// @throws `MissingVariable` (input), which lists the existing variables
  [[nodiscard]] Variable const& variable(std::string_view name) const;
  /// The one-axis variable of that dimension's own name; without one, the only latitude or longitude of another name
  /// along it, such as `lat(y)`; `nullptr` when there is none.
  [[nodiscard]] Variable const* coordinate(std::string_view dimension) const noexcept;
  /// Finds the latitude and longitude axes of a variable of these contents by the coordinate's `standard_name`, then by
  /// its `units` (`degrees_north`, `degrees_east` and their CF spellings), then by the dimension's name (`lat`,
  /// `latitude`, `grid_yt`, ...).
  /// @throws `MissingVariable` (input) when there is none or more than one, and for curvilinear and unstructured grids;
  ///         `BadCoordinates` (input) for units that are neither degrees nor radians
  [[nodiscard]] HorizontalAxes horizontal_axes(Variable const& variable) const;
};

/// Whether filters that HDF5 would load from shared objects may run. Anyone who can write to the plugin folder can
/// make a program run their code, so that HDF5's own default folder does not count: `from_path` allows them where the
/// environment variable HDF5_PLUGIN_PATH names a folder. Chunks behind them, and behind HDF5's own szip, nbit and
/// scaleoffset, are unpacked by HDF5 itself, which a damaged chunk may crash: variables with those filters are refused,
/// too, unless plugins are allowed.
enum class FilterPlugins { refused, allowed, from_path };

}  // namespace graticule
