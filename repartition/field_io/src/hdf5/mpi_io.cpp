// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_io.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/error.hpp>

#include <mpi.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>

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

bool has_colon(std::filesystem::path const& path) { return path.native().find(':') != std::string::npos; }

struct FileSystem {
  std::string_view type;
  std::uint32_t magic;
};

/// Those that ROMIO tells apart by `statfs`.
constexpr std::array<FileSystem, 6> file_systems{{{"xfs", 0x58465342},
                                                  {"panfs", 0xaad7aaea},
                                                  {"pvfs2", 0x20030528},
                                                  {"gpfs", 0x47504653},
                                                  {"lustre", 0x0bd00bd0},
                                                  {"nfs", 0x6969}}};

/// Collective. NFS on one rank is NFS for all, as in ROMIO: the node that holds the disk sees another type.
std::string_view agreed_type(Comm const& comm, std::filesystem::path const& path) {
  std::array<Index, 1> place{-1};
#ifdef __linux__
  struct statfs status {};
  if (::statfs(path.c_str(), &status) == 0) {
    auto const* const found = std::find_if(file_systems.begin(), file_systems.end(), [&](FileSystem const& one) {
      return one.magic == std::uint32_t(status.f_type);
    });
    if (found != file_systems.end()) place[0] = found - file_systems.begin();
  }
#endif
  comm.max(place);
  return place[0] < 0 ? std::string_view() : file_systems[std::size_t(place[0])].type;
}

bool opens(std::string const& name) {
  MPI_File file = MPI_FILE_NULL;
  return MPI_File_open(MPI_COMM_SELF, name.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS &&
         MPI_File_close(&file) == MPI_SUCCESS;
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

std::vector<std::string> mpi_io_names(std::filesystem::path const& path, std::string_view type) {
  if (!has_colon(path)) return {path.string()};
  auto const name = (path.is_absolute() ? path : "." / path).string();
  std::vector<std::string> names{name, "ufs:" + name};
  if (!type.empty()) names.insert(names.begin(), std::string(type) + ":" + name);
  return names;
}

std::string mpi_io_name(Comm const& comm, std::filesystem::path const& path) {
  if (!has_colon(path)) return path.string();
  auto const names = mpi_io_names(path, agreed_type(comm, path));
  auto const last = names.end() - 1;
  return comm.broadcast(*(comm.rank() == 0 ? std::find_if(names.begin(), last, opens) : last), 0);
}

}  // namespace graticule::detail
