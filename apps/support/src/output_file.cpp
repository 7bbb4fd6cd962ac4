// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/output_file.hpp>
#include <graticule/partition/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace graticule::app {

namespace {

[[noreturn]] void fail(std::filesystem::path const& path, std::string const& what) {
  throw Error("OutputError", path.string() + " cannot be written: " + what);
}

void sync_to_disk(std::filesystem::path const& path, int flags) {
  int const file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail(path, std::generic_category().message(errno));
  // Some file systems do not sync folders; EINVAL says so.
  bool const synced = ::fsync(file) == 0 || errno == EINVAL;
  int const code = errno;
  ::close(file);
  if (!synced) fail(path, std::generic_category().message(code));
}

/// Removes the file unless told to keep it.
class Temporary {
 public:
  explicit Temporary(std::filesystem::path path) : path_(std::move(path)) {}
  Temporary(Temporary const&) = delete;
  Temporary& operator=(Temporary const&) = delete;
  ~Temporary() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  void keep() noexcept { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace

void write_complete_file(std::filesystem::path const& path,
                         std::function<void(std::filesystem::path const&)> const& write) {
  auto const folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  Temporary temporary(folder / ("." + path.filename().string() + "." + std::to_string(::getpid()) + ".part"));
  write(temporary.path());
  sync_to_disk(temporary.path(), O_RDONLY);
  std::error_code error;
  std::filesystem::rename(temporary.path(), path, error);
  if (error) fail(path, error.message());
  temporary.keep();
  sync_to_disk(folder, O_RDONLY | O_DIRECTORY);
}

void write_complete_file(std::filesystem::path const& path, std::string const& text) {
  write_complete_file(path, [&](std::filesystem::path const& temporary) {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    file.close();
    if (!file) fail(path, std::generic_category().message(errno));
  });
}

}  // namespace graticule::app
