// SPDX-License-Identifier: BSD-3-Clause
#include "svg.hpp"

#include "text.hpp"

#include <array>

namespace graticule::info::svg {

namespace {

/// ColorBrewer's Set3, by Cynthia Brewer.
constexpr std::array<char const*, num_colours> colours{"#8dd3c7", "#fdb462", "#bebada", "#b3de69", "#80b1d3",
                                                       "#fccde5", "#ffed6f", "#fb8072", "#ccebc5", "#d9d9d9"};

std::string escaped(std::string const& text) {
  std::string result;
  for (char const c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

}  // namespace

std::string number(double value) {
  auto text = rounded_text(value, 2);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string element(std::string const& name, Attributes const& attributes) {
  std::string text = "<" + name;
  for (auto const& [key, value] : attributes) text += " " + key + "=\"" + value + "\"";
  return text + "/>\n";
}

std::string box(double x, double y, double width, double height, std::string const& fill, Attributes const& more) {
  Attributes all{
      {"x", number(x)}, {"y", number(y)}, {"width", number(width)}, {"height", number(height)}, {"fill", fill}};
  all.insert(all.end(), more.begin(), more.end());
  return element("rect", all);
}

std::string words(double x, double y, std::string const& style, std::string const& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + style + "\">" + escaped(text) + "</text>\n";
}

std::string page(double width, double height, std::string const& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" + number(height) +
         "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
         "\">\n<style>text{font-family:'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;font-size:12px;fill:#222}"
         ".title{font-size:19px;font-weight:bold}.head{font-weight:bold}.quiet{fill:#666}.middle{text-anchor:middle}"
         ".end{text-anchor:end}.rank{text-anchor:middle;font-size:10px;fill:#333}.loud{fill:#b2182b}</style>\n" +
         element("rect", {{"width", "100%"}, {"height", "100%"}, {"fill", "white"}}) + body + "</svg>\n";
}

std::string colour(std::size_t number) { return colours[number % colours.size()]; }

}  // namespace graticule::info::svg
