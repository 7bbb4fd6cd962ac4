// SPDX-License-Identifier: BSD-3-Clause
#include "file_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

namespace graticule::detail {

Locked lock_file(int file, LockKind kind) {
  struct flock one_byte {};
  one_byte.l_type = kind == LockKind::exclusive ? F_WRLCK : F_RDLCK;
  one_byte.l_whence = SEEK_SET;
  one_byte.l_start = off_t(1) << 62U;
  one_byte.l_len = 1;
#ifdef F_OFD_SETLK
  if (::fcntl(file, F_OFD_SETLK, &one_byte) == 0) return Locked::yes;
  return errno == EAGAIN || errno == EACCES ? Locked::by_another : Locked::unknown;
#else
  static_cast<void>(file);
  return Locked::unknown;
#endif
}

bool is_mount_with_local_locks(std::string_view line) {
  auto const separator = line.find(" - ");
  if (separator == std::string_view::npos) return false;
  auto const type = line.substr(separator + 3, line.find(' ', separator + 3) - separator - 3);
  auto const has = [&](std::string_view option) { return line.find(option, separator) != std::string_view::npos; };
  if (type.starts_with("nfs")) return has("nolock") || has("local_lock=all") || has("local_lock=posix");
  return type == "lustre" && has("localflock");
}

bool locks_stay_on_host(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return true;
  auto const device = " " + std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev)) + " ";
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);)
    if (line.substr(0, line.find('/')).find(device) != std::string::npos) return is_mount_with_local_locks(line);
  return false;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool process_lives(long number) { return ::kill(pid_t(number), 0) == 0 || errno != ESRCH; }

bool is_name_of(std::filesystem::path const& path, int file) {
  struct stat named {};
  struct stat open {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(file, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace graticule::detail
