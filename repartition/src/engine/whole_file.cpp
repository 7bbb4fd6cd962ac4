// SPDX-License-Identifier: BSD-3-Clause
#include "whole_file.hpp"

#include <graticule/partition/error.hpp>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

namespace graticule::detail {

void write_whole_file(std::string const& path, std::string const& text) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  auto const temporary = path + "." + host.data() + "." + std::to_string(::getpid()) + ".part";
  auto const fail = [&] {
    auto const reason = std::generic_category().message(errno);
    (void)std::remove(temporary.c_str());
    throw Error("OutputError", path + " cannot be written: " + reason);
  };
  {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    if (!file.flush()) fail();
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail();
}

}  // namespace graticule::detail
