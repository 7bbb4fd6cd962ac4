// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/bytes.hpp>
#include <graticule/partition/error.hpp>

#include <array>
#include <charconv>
#include <string_view>

namespace graticule::app {

Index parse_bytes(std::string const& option, std::string const& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr double tebi = 1024.0 * (1 << 30);
  constexpr std::array units{Unit{"", 1},       Unit{"B", 1},         Unit{"kB", 1e3},      Unit{"KB", 1e3},
                             Unit{"MB", 1e6},   Unit{"GB", 1e9},      Unit{"TB", 1e12},     Unit{"k", 1024},
                             Unit{"K", 1024},   Unit{"M", 1 << 20},   Unit{"G", 1 << 30},   Unit{"T", tebi},
                             Unit{"KiB", 1024}, Unit{"MiB", 1 << 20}, Unit{"GiB", 1 << 30}, Unit{"TiB", tebi}};
  double value = 0;
  auto const [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view const rest(end, std::size_t(text.data() + text.size() - end));
  for (auto const& unit : units)
    if (status == std::errc{} && rest == unit.name && value > 0 && value * unit.bytes >= 1 && value * unit.bytes < 9e18)
      return Index(value * unit.bytes);
  throw Error(Fault::usage, "BadOption", option + " " + text + " is not a number of bytes such as 2GiB or 500MB");
}

}  // namespace graticule::app
