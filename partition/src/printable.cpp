// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/printable.hpp>
#include <graticule/partition/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>

namespace graticule {

namespace {

constexpr std::string_view hex = "0123456789abcdef";

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

bool is_control(std::string_view text, std::size_t at, std::size_t bytes) {
  unsigned const first = byte_at(text, at);
  if (bytes == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return bytes == 2 && first == 0xc2 && byte_at(text, at + 1) < 0xa0;
}

}  // namespace

std::size_t utf8_character(std::string_view text) noexcept {
  if (text.empty()) return 0;
  unsigned const first = byte_at(text, 0);
  std::size_t const count = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (count == 0 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i)
    if ((byte_at(text, i) & 0xc0U) != 0x80) return 0;
  if (count == 1) return 1;
  unsigned const second = byte_at(text, 1);
  // Longer than need be, a surrogate, or too large.
  bool const is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool const is_none = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return is_overlong || is_none ? 0 : count;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = utf8_character(text.substr(at));
    if (bytes > 0 && !is_control(text, at, bytes)) {
      result += text.substr(at, bytes);
    } else {
      for (std::size_t i = 0; i < std::max<std::size_t>(bytes, 1); ++i) {
        unsigned const byte = byte_at(text, at + i);
        result += {'\\', 'x', hex[byte >> 4U], hex[byte & 15U]};
      }
    }
    at += std::max<std::size_t>(bytes, 1);
  }
  return result;
}

}  // namespace graticule
