// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <utility>
#include <vector>

/// Elements of SVG pictures, as text.
namespace graticule::info::svg {

/// Width of all pages and height of a line of text, in pixels.
inline constexpr double page_width = 1080;
inline constexpr double line_height = 19;

/// A coordinate or length in pixels, with two digits after the point at most.
[[nodiscard]] std::string number(double value);

using Attributes = std::vector<std::pair<std::string, std::string>>;

/// `<name key="value" ... />` and a new line. Values are written as they are.
[[nodiscard]] std::string element(std::string const& name, Attributes const& attributes);

/// A rectangle, without a border unless `more` has one.
[[nodiscard]] std::string box(double x, double y, double width, double height, std::string const& fill,
                              Attributes const& more = {});

/// A text whose baseline begins (or has its middle or end, by its style) at this place. `<`, `>` and `&` are escaped.
[[nodiscard]] std::string words(double x, double y, std::string const& style, std::string const& text);

/// The whole page: white ground, fonts and the styles `title`, `head`, `quiet`, `middle`, `end`, `rank` and `loud`.
[[nodiscard]] std::string page(double width, double height, std::string const& body);

/// Soft colours that black text stands out from; they repeat.
[[nodiscard]] std::string colour(std::size_t number);
/// How many of them differ.
inline constexpr std::size_t num_colours = 10;

}  // namespace graticule::info::svg
