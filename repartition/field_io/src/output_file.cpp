// SPDX-License-Identifier: BSD-3-Clause
#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace graticule::detail {

namespace {

std::filesystem::path folder_of(std::filesystem::path const& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void sync_to_disk(std::filesystem::path const& path, int flags) {
  int const file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail_output(path, std::generic_category().message(errno));
  // Some file systems do not sync folders; EINVAL says so.
  bool const synced = ::fsync(file) == 0 || errno == EINVAL;
  int const code = errno;
  ::close(file);
  if (!synced) fail_output(path, std::generic_category().message(code));
}

class Descriptor {
 public:
  Descriptor(std::filesystem::path const& path, int flags) : id_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (id_ < 0) fail_output(path, std::generic_category().message(errno));
  }
  Descriptor(Descriptor const&) = delete;
  Descriptor& operator=(Descriptor const&) = delete;
  ~Descriptor() { ::close(id_); }
  [[nodiscard]] int get() const noexcept { return id_; }

 private:
  int id_;
};

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
    Descriptor const source(from, O_RDONLY);
    Descriptor const target(to, O_WRONLY);
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

void sync(Comm const& comm, std::filesystem::path const& path) {
  run_agreed(comm, [&] {
    if (comm.rank() == 0) sync_to_disk(path, O_RDONLY);
  });
}

void fail_output(std::filesystem::path const& path, std::string const& what) {
  throw Error("OutputError", path.string() + " cannot be written: " + what);
}

std::filesystem::path make_temporary(Comm const& comm, std::filesystem::path const& path) {
  std::string name;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    if (path.filename().empty() || std::filesystem::is_directory(path)) fail_output(path, "it is a folder");
    if (!std::filesystem::is_directory(folder_of(path)))
      fail_output(path, "the folder " + folder_of(path).string() + " does not exist");
    for (int attempt = 0; name.empty(); ++attempt) {
      auto const suffix =
          "." + std::to_string(::getpid()) + (attempt > 0 ? "-" + std::to_string(attempt) : "") + ".part";
      auto const candidate = folder_of(path) / ("." + path.filename().string() + suffix);
      int const file = ::open(candidate.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (file < 0 && errno == EEXIST && attempt < 100) continue;
      if (file < 0) fail_output(path, std::generic_category().message(errno));
      ::close(file);
      name = candidate.string();
    }
  });
  return comm.broadcast(name, 0);
}

void publish(Comm const& comm, std::filesystem::path const& temporary, std::filesystem::path const& path) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    sync_to_disk(temporary, O_RDONLY);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_output(path, std::generic_category().message(errno));
    sync_to_disk(folder_of(path), O_RDONLY | O_DIRECTORY);
  });
}

}  // namespace graticule::detail
