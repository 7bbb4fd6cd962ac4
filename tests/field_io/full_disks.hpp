// SPDX-License-Identifier: BSD-3-Clause
// Disks that are full, in several ways.
#pragma once

#include "sample_files.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::test {

/// A soft limit of the length of files, on this rank.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    auto limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(FileSizeLimit const&) = delete;
  FileSizeLimit& operator=(FileSizeLimit const&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  struct rlimit before_ {};
};

/// Every write to an open temporary file fails from now on, as if the disk were full after all; also to one that has
/// lost its name, with the extension that Linux shows then.
inline void fill_open_files(std::string const& extension = ".part") {
  int const full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  std::vector<int> files;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).extension() == extension)
      files.push_back(std::stoi(entry.path().filename().string()));
  }
  for (int const file : files) ::dup2(full, file);
  ::close(full);
}

/// A file system of a few MiB, where this user may mount one.
class SmallDisk {
 public:
  SmallDisk(Folder const& folder, Comm const& comm, int num_mib) : comm_(comm) {
    path_ = folder.make("disk", [&](auto const& p) {
      std::filesystem::create_directory(p);
      (void)::mount("tmpfs", p.c_str(), "tmpfs", 0, ("size=" + std::to_string(num_mib) + "m").c_str());
    });
    is_mounted_ = std::filesystem::space(path_).capacity == std::uintmax_t(num_mib) << 20U;
    comm.barrier();
  }
  SmallDisk(SmallDisk const&) = delete;
  SmallDisk& operator=(SmallDisk const&) = delete;
  ~SmallDisk() {
    MPI_Barrier(comm_.handle());
    if (is_mounted_ && comm_.rank() == 0) ::umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const noexcept { return is_mounted_; }
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  Comm comm_;
  std::filesystem::path path_;
  bool is_mounted_ = false;
};

}  // namespace graticule::test
