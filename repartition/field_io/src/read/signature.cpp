// SPDX-License-Identifier: BSD-3-Clause
#include "signature.hpp"

#include <graticule/partition/error.hpp>

#include "hdf5/descriptor.hpp"
#include "netcdf3.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace graticule::detail {

namespace {

[[noreturn]] void refuse(std::string_view rule, std::string const& text,
                         std::source_location where = std::source_location::current()) {
  throw Error(Fault::input, rule, text, where);
}

std::string read_bytes(int file, off_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    auto const got = ::pread(file, bytes.data() + done, count - done, offset + off_t(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += std::size_t(got);
  }
  bytes.resize(done);
  return bytes;
}

struct Known {
  std::string_view bytes;
  std::string_view what;
};

constexpr std::array known_formats{
    Known{"GRIB",
          "is a GRIB file; convert it with `cdo -f nc4 copy`, or read it in Python by graticule.open_shard of a "
          "Dataset of "
          "cfgrib"},
    Known{"\x1f\x8b", "is compressed with gzip; run gunzip on it"},
    Known{"BZh", "is compressed with bzip2; run bunzip2 on it"},
    Known{"\xfd"
          "7zXZ",
          "is compressed with xz; run unxz on it"},
    Known{"\x28\xb5\x2f\xfd", "is compressed with zstd; run unzstd on it"},
    Known{"PK\x03\x04", "is a zip archive; unpack it first"},
    Known{"\x0e\x03\x13\x01", "is an HDF4 file; convert it with h4toh5"},
    Known{"netcdf ", "is CDL text; convert it with `ncgen -k nc4`"},
    Known{"\x93NUMPY", "is a NumPy array"},
};

std::string netcdf3_kind(char version) {
  if (version == '\x01') return "classic";
  if (version == '\x02') return "64-bit offset";
  return "64-bit data";
}

/// The obstacle to nccopy, if any.
std::string netcdf3_obstacle(std::filesystem::path const& path) {
  auto const variables = netcdf3_wrong_fill_values(path);
  if (variables.empty()) return {};
  std::string names;
  for (auto const& name : variables) names += (names.empty() ? "" : ", ") + name;
  return " (nccopy will stop at the _FillValue of " + names +
         ", which is not of the variable's type: remove it first with `ncatted -O -a _FillValue,VARIABLE,d,,`)";
}

}  // namespace

void refuse_url(std::filesystem::path const& path) {
  auto const name = path.string();
  std::error_code unknown;
  if (name.find("://") == std::string::npos || std::filesystem::exists(path, unknown)) return;
  if (name.starts_with("file://")) refuse("UnsupportedFile", name + " is a URL; give the path that follows file://");
  refuse("UnsupportedFile", name +
                                " is a URL, and only local files and stores are read; copy it to a folder (obstore, "
                                "fsspec), or read it in Python by graticule.open_shard of xarray.open_zarr(\"" +
                                name + "\") or xarray.open_dataset");
}

void require_hdf5_signature(std::filesystem::path const& path) {
  auto const name = path.string();
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) refuse("NoSuchFile", name + " does not exist");
    refuse("UnreadableFile", name + " cannot be accessed: " + std::generic_category().message(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    bool const zarr = std::filesystem::exists(path / ".zgroup") || std::filesystem::exists(path / "zarr.json");
    refuse("UnreadableFile",
           name + (zarr ? " is a Zarr store, not a netCDF-4 or HDF5 file" : " is a directory, not a file"));
  }
  if (!S_ISREG(status.st_mode)) refuse("UnreadableFile", name + " is not a regular file");
  Descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    refuse("UnreadableFile", name + " cannot be opened for reading: " + std::generic_category().message(errno));
  if (status.st_size == 0) refuse("BrokenFile", name + " is empty: 0 bytes");

  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  auto const head = read_bytes(file.get(), 0, 16);
  // HDF5 allows a user block before the superblock, of 512, 1024, 2048, ... bytes.
  for (off_t offset = 0; offset < status.st_size; offset = offset == 0 ? 512 : 2 * offset)
    if (read_bytes(file.get(), offset, signature.size()) == signature) return;

  if (head.size() > 3 && head.starts_with("CDF") && (head[3] == '\x01' || head[3] == '\x02' || head[3] == '\x05'))
    refuse("UnsupportedFile", name + " is a netCDF-3 file (" + netcdf3_kind(head[3]) +
                                  "), and netCDF-4 is needed; convert it with `nccopy -k nc4 " + name + " OUT.nc`" +
                                  netcdf3_obstacle(path));
  for (auto const& format : known_formats)
    if (head.starts_with(format.bytes)) refuse("UnsupportedFile", name + " " + std::string(format.what));
  refuse("UnsupportedFile", name + " is not a netCDF-4 or HDF5 file: it lacks the signature of HDF5");
}

std::string divided_file_text(std::filesystem::path const& path, std::string_view reason) {
  // HDF5 notices a missing part before it looks at the driver, whose name stands near the superblock.
  bool const is_short = reason.find("truncated file") != std::string_view::npos;
  Descriptor const file(is_short ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  auto const head = file.get() < 0 ? std::string() : read_bytes(file.get(), 0, 4096);
  auto const is_of = [&](char const* words, char const* mark) {
    return reason.find(words) != std::string_view::npos || head.find(mark) != std::string::npos;
  };
  if (is_of("family driver should be used", "NCSAfami"))
    return "is the first of the files into which HDF5's driver \"family\" divided one; join them with `h5repart "
           "-family_to_single IN OUT`, where %d stands for the number in IN";
  if (is_of("multi driver should be used", "NCSAmult"))
    return "is one of the files into which HDF5's driver \"split\" or \"multi\" divided one; join them with `h5repack "
           "IN OUT`, where IN is the name without its ending (-m.h5)";
  return {};
}

}  // namespace graticule::detail
