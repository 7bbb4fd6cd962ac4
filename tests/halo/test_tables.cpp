// SPDX-License-Identifier: BSD-3-Clause
// The enumerations of the C interface, and with it those of Fortran and Python, have a value for each of the engine's.
#include <graticule/halo/detail/edges.hpp>
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/repartition/detail/dtypes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>

namespace graticule {

namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return text;
}

/// The header's lines `PREFIX + NAME = NUMBER`, of the enumeration `type`.
std::set<std::string> lines_of_header(std::string const& type) {
  auto const text = read_text(GRATICULE_C_HEADER);
  auto const begin = text.find("typedef enum " + type + " {");
  auto const end = text.find("} " + type + ";", begin);
  std::regex const line("([A-Z0-9_]+) = ([0-9]+)");
  std::set<std::string> lines;
  for (std::sregex_iterator at(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end), line), none;
       at != none; ++at)
    lines.insert((*at)[0].str());
  return lines;
}

template <class Enum>
std::set<std::string> lines_of_table(std::string const& prefix) {
  std::set<std::string> lines;
  for (Enum const value : detail::enum_values<Enum>)
    lines.insert(prefix + upper(enum_row(value).name) + " = " + std::to_string(int(value)));
  return lines;
}

TEST(Tables, of_boundary_rules_and_element_types_are_those_of_the_c_interface) {
  EXPECT_EQ(lines_of_header("gr_edge"), lines_of_table<Edge>("GR_EDGE_"));
  EXPECT_EQ(lines_of_header("gr_type"), lines_of_table<DType>("GR_"));
}

TEST(Tables, tell_values_from_other_numbers) {
  EXPECT_EQ(detail::last_enum_value<Edge>, int(Edge::tripolar_row));
  EXPECT_EQ(enum_row(Edge(detail::num_enum_values<Edge>)).name, nullptr);
  EXPECT_EQ(to_string(Edge(200)), "edge 200");
  EXPECT_EQ(to_string(DType(200)), "200");
}

TEST(Tables, say_which_element_types_are_integers_and_which_are_complex) {
  std::string integers;
  std::string complex;
  for (DType const type : detail::enum_values<DType>) {
    if (detail::is_integer(type)) integers += to_string(type) + " ";
    if (detail::is_complex(type)) complex += to_string(type) + " ";
    EXPECT_EQ(size_of(type), enum_row(type).bytes);
  }

  EXPECT_EQ(integers, "u8 i8 i16 i32 i64 ");
  EXPECT_EQ(complex, "c64 c128 ");
}

}  // namespace

}  // namespace graticule
