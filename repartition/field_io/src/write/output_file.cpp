// SPDX-License-Identifier: BSD-3-Clause
#include "output_file.hpp"

#include <graticule/field_io/detail/seen_by_all.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/handle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

/// Through memory. @return bytes copied, 0 at the end, -1 for an error
ssize_t copy_block(int from, int to, std::vector<char>& block) {
  block.resize(std::size_t(4) << 20);
  auto const got = ::read(from, block.data(), block.size());
  for (ssize_t done = 0; done < got;) {
    auto const put = ::write(to, block.data() + done, std::size_t(got - done));
    if (put < 0) return -1;
    done += put;
  }
  return got;
}

}  // namespace

void copy_bytes(Comm const& comm, std::filesystem::path const& from, std::filesystem::path const& to) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    auto const source = open_to_read(from);
    auto const target = open_to_write(to);
    struct stat status {};
    if (::fstat(source.get(), &status) == 0) (void)::fchmod(target.get(), status.st_mode & 07777);
    std::vector<char> block;
    bool shares = true;
    for (;;) {
      constexpr std::size_t most = std::size_t(1) << 30;
      auto copied = shares ? ::copy_file_range(source.get(), nullptr, target.get(), nullptr, most, 0) : -1;
      // Old kernels and some pairs of file systems know no such call; it has copied nothing then.
      if (copied < 0) shares = false;
      if (!shares) copied = copy_block(source.get(), target.get(), block);
      if (copied < 0 && errno == EINTR) continue;
      if (copied < 0) fail_output(to, std::generic_category().message(errno));
      if (copied == 0) return;
    }
  });
}

void cut_to_length(Comm const& comm, std::filesystem::path const& path) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    haddr_t end = 0;
    {
      // HDF5 1.10 tells it of files that were opened without MPI-IO alone. Where files cannot be locked that fails, and
      // the file keeps its length.
      h5::Quiet const quiet;
      h5::File const file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
      if (!file || H5Fget_eoa(file.get(), &end) < 0) return;
    }
    std::error_code error;
    if (std::filesystem::file_size(path, error) <= end || error) return;
    if (::truncate(path.c_str(), off_t(end)) != 0) fail_output(path, std::generic_category().message(errno));
  });
}

void sync(Comm const& comm, std::filesystem::path const& path) {
  run_agreed(comm, [&] {
    if (comm.rank() == 0) sync_to_disk(path);
  });
}

OutputFile::OutputFile(Comm const& comm, std::filesystem::path const& path) : comm_(comm) {
  run_agreed(comm, [&] {
    if (comm.rank() == 0) file_.emplace(path);
  });
  auto const temporary = comm.broadcast(file_ ? file_->path().string() : std::string(), 0);
  require_seen_by_all(comm, path.string(), temporary);
  temporary_ = temporary;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : comm_(other.comm_), temporary_(std::exchange(other.temporary_, {})), file_(std::move(other.file_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::publish() {
  run_agreed(comm_, [&] {
    if (file_) file_->publish();
  });
  temporary_.clear();
}

}  // namespace graticule::detail
