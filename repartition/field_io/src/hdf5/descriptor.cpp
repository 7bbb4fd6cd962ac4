// SPDX-License-Identifier: BSD-3-Clause
#include "descriptor.hpp"

#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace graticule::detail {

std::string system_reason(int code) { return code == 0 ? std::string() : std::generic_category().message(code); }

Descriptor::~Descriptor() {
  if (id_ >= 0) ::close(id_);
}

namespace {

/// `move(data, bytes, offset)` moves some of the bytes: the number, 0 at the end of the file, or -1.
template <class Byte, class Move>
std::string move_all(Byte* data, Index bytes, Index offset, Move&& move) {
  while (bytes > 0) {
    // Linux moves at most 2 GiB at a time.
    auto const moved = move(data, std::size_t(std::min(bytes, Index(1) << 30U)), off_t(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return system_reason(errno);
    if (moved == 0) return "the file ends early";
    data += moved;
    bytes -= Index(moved);
    offset += Index(moved);
  }
  return {};
}

}  // namespace

std::string Descriptor::write(std::byte const* data, Index bytes, Index offset) const {
  return move_all(data, bytes, offset, [&](auto* at, auto count, off_t to) { return ::pwrite(id_, at, count, to); });
}

std::string Descriptor::read(std::byte* data, Index bytes, Index offset) const {
  return move_all(data, bytes, offset, [&](auto* at, auto count, off_t from) { return ::pread(id_, at, count, from); });
}

Descriptor open_to_write(std::filesystem::path const& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) fail_output(path, system_reason(errno));
  return file;
}

Descriptor open_to_read(std::filesystem::path const& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    throw Error(Fault::input, "UnreadableFile",
                path.string() + " cannot be opened for reading: " + system_reason(errno));
  return file;
}

void sync_to_disk(Descriptor const& file, std::filesystem::path const& path) {
  // Some file systems do not sync folders; EINVAL says so.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_output(path, system_reason(errno));
}

}  // namespace graticule::detail
