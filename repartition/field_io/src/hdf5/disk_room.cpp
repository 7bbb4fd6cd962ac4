// SPDX-License-Identifier: BSD-3-Clause
#include "disk_room.hpp"

#include "descriptor.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>

namespace graticule::detail {

namespace {

/// 0, ENOSPC or EFBIG, for the bytes from `offset` on of a file, beside `num_others` bytes of other files.
int compare_with_free_room(int file, Index offset, Index num_bytes, Index num_others) {
  Index end = 0;
  if (__builtin_add_overflow(offset, num_bytes, &end)) return EFBIG;
  // A write beyond this limit would be answered by a signal that ends the program.
  if (end > file_size_limit()) return EFBIG;
  struct stat status {};
  struct statvfs disk {};
  if (::fstat(file, &status) != 0 || ::fstatvfs(file, &disk) != 0) return 0;
  constexpr Index block = 512;  // of `st_blocks`, on all systems
  // Some of the bytes may be there; those of a file that is stored compressed or with holes are not missing.
  Index missing = std::min(num_bytes, end - Index(status.st_blocks) * block);
  if (__builtin_add_overflow(std::max<Index>(missing, 0), num_others, &missing)) return ENOSPC;
  return missing > 0 && std::uint64_t(missing) / disk.f_frsize >= disk.f_bavail ? ENOSPC : 0;
}

}  // namespace

Index file_size_limit() {
  constexpr Index most = std::numeric_limits<Index>::max();
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return Index(std::min<std::uint64_t>(limit.rlim_cur, std::uint64_t(most)));
}

std::string lack_of_room(int file, Index offset, Index num_bytes, Index num_others) {
  return system_reason(compare_with_free_room(file, offset, num_bytes, num_others));
}

std::string reserve_on_disk(int file, Index offset, Index num_bytes) {
  if (num_bytes <= 0) return {};
  if (auto why = lack_of_room(file, offset, num_bytes); !why.empty()) return why;
#ifdef __linux__
  // Not posix_fallocate: where the file system cannot reserve, it writes zeros instead.
  int code = 0;
  do code = ::fallocate(file, FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(num_bytes)) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code != EOPNOTSUPP && code != ENOSYS) return system_reason(code);
#endif
  return {};
}

std::string disk_failure(std::string_view error, std::filesystem::path const& file) {
  for (int const code : {ENOSPC, EDQUOT, EFBIG, EROFS, EIO, ESTALE})
    if (auto text = system_reason(code); error.find(text) != std::string_view::npos) return text;
  constexpr Index enough = Index(1) << 20U;
  struct stat status {};
  Descriptor const opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (opened.get() >= 0 && ::fstat(opened.get(), &status) == 0)
    if (auto text = reserve_on_disk(opened.get(), Index(status.st_size), enough); !text.empty()) return text;
  return std::string(error);
}

}  // namespace graticule::detail
