// SPDX-License-Identifier: BSD-3-Clause
#include "archive/checksum.hpp"

#include <array>

namespace graticule::program::detail {

namespace {

constexpr std::size_t crc_stride = 8;
using CrcTables = std::array<std::array<std::uint32_t, 256>, crc_stride>;

// tables[k][b]: what the byte b adds to the remainder when k more bytes follow it.
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest & 1U) != 0 ? (rest >> 1U) ^ 0xedb88320U : rest >> 1U;
    }
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < crc_stride; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::uint32_t const before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr CrcTables crc_tables = make_crc_tables();

}  // namespace

std::uint32_t crc32_of(void const* bytes, std::size_t count) noexcept {
  auto const* next = static_cast<unsigned char const*>(bytes);
  std::uint32_t rest = ~std::uint32_t{0};
  for (; count >= crc_stride; count -= crc_stride, next += crc_stride) {
    std::uint32_t const low = rest ^ (std::uint32_t{next[0]} | std::uint32_t{next[1]} << 8U |
                                      std::uint32_t{next[2]} << 16U | std::uint32_t{next[3]} << 24U);
    rest = crc_tables[7][low & 0xffU] ^ crc_tables[6][(low >> 8U) & 0xffU] ^ crc_tables[5][(low >> 16U) & 0xffU] ^
           crc_tables[4][low >> 24U] ^ crc_tables[3][next[4]] ^ crc_tables[2][next[5]] ^ crc_tables[1][next[6]] ^
           crc_tables[0][next[7]];
  }
  for (; count > 0; --count, ++next) {
    rest = (rest >> 8U) ^ crc_tables[0][(rest ^ *next) & 0xffU];
  }
  return ~rest;
}

}  // namespace graticule::program::detail
