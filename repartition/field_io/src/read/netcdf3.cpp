// SPDX-License-Identifier: BSD-3-Clause
#include "netcdf3.hpp"

#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace graticule::detail {

namespace {

/// Larger headers are not examined.
constexpr std::size_t largest_header = std::size_t(4) << 20;

/// Walks over the big-endian header; throws `std::out_of_range` at its end.
class Header {
 public:
  Header(std::string_view bytes, char version) : rest_(bytes), version_(version) {}

  std::uint64_t integer(int num_bytes) {
    std::uint64_t value = 0;
    for (unsigned char const c : take(std::size_t(num_bytes))) value = value << 8U | c;
    return value;
  }
  std::uint64_t count() { return integer(version_ == '\x05' ? 8 : 4); }
  std::uint64_t tag() { return integer(4); }
  void skip_offset() { take(version_ == '\x01' ? 4 : 8); }
  std::string name() { return std::string(padded(count())); }
  void skip(std::uint64_t num_bytes) { padded(num_bytes); }

 private:
  std::string_view take(std::size_t num_bytes) {
    if (num_bytes > rest_.size()) throw std::out_of_range("header");
    auto const taken = rest_.substr(0, num_bytes);
    rest_.remove_prefix(num_bytes);
    return taken;
  }
  /// Names and values fill up to the next multiple of 4 bytes.
  std::string_view padded(std::uint64_t num_bytes) {
    if (num_bytes > rest_.size()) throw std::out_of_range("header");
    auto const taken = take(std::size_t(num_bytes));
    take((4 - std::size_t(num_bytes) % 4) % 4);
    return taken;
  }

  std::string_view rest_;
  char version_;
};

std::uint64_t type_bytes(std::uint64_t type) {
  switch (type) {
    case 1:
    case 2:
    case 7: return 1;
    case 3:
    case 8: return 2;
    case 4:
    case 5:
    case 9: return 4;
    case 6:
    case 10:
    case 11: return 8;
    default: throw std::out_of_range("type");
  }
}

/// Skips an attribute list; returns the type of its `_FillValue`.
std::optional<std::uint64_t> read_attributes(Header& header) {
  std::optional<std::uint64_t> fill_type;
  header.tag();
  for (auto left = header.count(); left > 0; --left) {
    auto const name = header.name();
    auto const type = header.tag();
    auto const count = header.count();
    if (count > largest_header) throw std::out_of_range("values");
    header.skip(count * type_bytes(type));
    if (name == "_FillValue") fill_type = type;
  }
  return fill_type;
}

std::vector<std::string> wrong_fill_values(Header header) {
  std::vector<std::string> names;
  header.count();  // records
  header.tag();
  for (auto left = header.count(); left > 0; --left) {
    header.name();
    header.count();
  }
  read_attributes(header);
  header.tag();
  for (auto left = header.count(); left > 0; --left) {
    auto const name = header.name();
    for (auto axes = header.count(); axes > 0; --axes) header.count();
    auto const fill_type = read_attributes(header);
    auto const type = header.tag();
    header.count();  // bytes
    header.skip_offset();
    if (fill_type && *fill_type != type) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> netcdf3_wrong_fill_values(std::filesystem::path const& path) {
  std::string bytes(largest_header, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), std::streamsize(bytes.size()));
  bytes.resize(std::size_t(file.gcount()));
  if (bytes.size() < 4) return {};
  try {
    return wrong_fill_values(Header(std::string_view(bytes).substr(4), bytes[3]));
  } catch (std::out_of_range const&) {
    return {};
  }
}

}  // namespace graticule::detail
