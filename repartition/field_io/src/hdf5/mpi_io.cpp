// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_io.hpp"

#include <graticule/partition/error.hpp>

#include <mpi.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

namespace graticule::detail {

namespace {

using Version = std::array<int, 3>;

/// `4.1.4` at the beginning of a text; missing parts are 0.
Version version_of(std::string_view text) {
  Version version{};
  for (auto& part : version) {
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc() || end == text.data() + text.size() || *end != '.') break;
    text.remove_prefix(std::size_t(end - text.data()) + 1);
  }
  return version;
}

std::string_view setting(char const* name) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool reads_together(std::string_view library, OpenMpiSettings const& settings) {
  constexpr std::string_view prefix = "Open MPI v";
  if (!library.starts_with(prefix)) return true;
  auto const version = version_of(library.substr(prefix.size()));
  if (version < Version{4, 1, 0} || version >= Version{5, 0, 6}) return true;
  bool const is_romio = settings.io.starts_with("romio") || settings.io == "^ompio";
  return is_romio || settings.sieving == "0";
}

bool reads_together() {
  static bool const result = [] {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    return reads_together(std::string_view(text).substr(0, std::size_t(length)),
                          {setting("OMPI_MCA_io"), setting("OMPI_MCA_fbtl_posix_read_datasieving")});
  }();
  return result;
}

}  // namespace graticule::detail
