// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <graticule/app/numbers.hpp>

#include <string_view>

namespace graticule::archive {

namespace {

[[noreturn]] void refuse(std::string const& option, std::string const& text, std::string const& expected) {
  throw Error(Fault::usage, "BadOption", option + " " + text + " is not " + expected);
}

}  // namespace

TypeWish parse_type(std::string const& text) {
  if (text == "same") return TypeWish::same;
  if (text == "f32") return TypeWish::f32;
  if (text == "f64") return TypeWish::f64;
  if (text == "i16-packed") return TypeWish::i16_packed;
  refuse("--dtype", text, "same, f32, f64 or i16-packed");
}

ChunkWish parse_chunk(std::vector<std::string> const& parts, std::string const& option) {
  ChunkWish wish;
  if (parts.empty() || (parts.size() == 1 && parts.front() == "same")) return wish;
  if (parts.size() == 1 && parts.front() == "none") {
    wish.kind = ChunkWish::Kind::none;
    return wish;
  }
  wish.kind = ChunkWish::Kind::given;
  for (auto const& part : parts) {
    if (part == "none" || part == "same")
      throw Error(Fault::usage, "BadOption", option + " " + part + " stands alone, without extents of dimensions");
    auto const sign = part.find('=');
    auto const name = part.substr(0, sign);
    auto const value = sign == std::string::npos ? std::string() : part.substr(sign + 1);
    auto const number = value == "all" ? std::optional<Index>(ChunkWish::whole) : app::count_from(value);
    if (name.empty() || !number || (value != "all" && *number < 1))
      refuse(option, part,
             "DIMENSION=CELLS or DIMENSION=all, such as latitude=32,month=all; none or same stands alone");
    if (!wish.extents.emplace(name, *number).second) refuse(option, part, "the only extent of " + name);
  }
  return wish;
}

std::optional<int> parse_deflate(std::string const& text) {
  if (text == "same") return {};
  auto const level = app::count_from(text);
  if (!level || *level > 9) refuse("--deflate", text, "0 to 9 or same");
  return int(*level);
}

}  // namespace graticule::archive
