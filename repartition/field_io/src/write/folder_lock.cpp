// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/folder_lock.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/file_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <thread>
#include <utility>

namespace graticule::detail {

namespace {

namespace fs = std::filesystem;

/// What the file says of the program that has the folder: a line each.
struct Owner {
  std::string program;
  std::string process;
  std::string host;
  std::string since;

  [[nodiscard]] std::string text() const { return program + "\n" + process + "\n" + host + "\n" + since + "\n"; }
  [[nodiscard]] std::string described() const {
    if (since.empty()) return "another program";
    return program + " (process " + process + " on host " + host + ", since " + since + ")";
  }
  [[nodiscard]] bool lives_here() const {
    long number = 0;
    std::from_chars(process.data(), process.data() + process.size(), number);
    return host == host_name() && number > 0 && process_lives(number);
  }
};

std::string now() {
  std::time_t const time = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  ::gmtime_r(&time, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

Owner owner_in(int file) {
  std::array<char, 1024> bytes{};
  auto const got = ::pread(file, bytes.data(), bytes.size(), 0);
  std::string_view rest(bytes.data(), got > 0 ? std::size_t(got) : 0);
  Owner owner;
  for (auto* part : {&owner.program, &owner.process, &owner.host, &owner.since}) {
    auto const end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    // Any user may have written it.
    for (char const c : rest.substr(0, end))
      if (c >= ' ' && c != '\x7f') *part += c;
    rest.remove_prefix(end + 1);
  }
  return owner;
}

}  // namespace

}  // namespace graticule::detail

namespace graticule {

FolderLock::FolderLock(std::filesystem::path const& folder, std::string const& program,
                       std::chrono::milliseconds patience)
    : path_(folder / ".in-use") {
  using namespace detail;
  auto const end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto kind = LockKind::exclusive;
    Descriptor file(::open(path_.c_str(), O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (file.get() < 0 && (errno == EACCES || errno == EPERM)) {
      // Another user's, who may have ended.
      kind = LockKind::shared;
      auto const code = errno;
      file = Descriptor(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (file.get() < 0) fail_output(folder, system_reason(code));
    }
    if (file.get() < 0) fail_output(folder, system_reason(errno));
    auto const locked = lock_file(file.get(), kind);
    auto const owner = owner_in(file.get());
    if (locked == Locked::by_another || (locked == Locked::unknown && owner.lives_here())) {
      if (std::chrono::steady_clock::now() > end)
        fail_output(folder, owner.described() + " is writing to it; wait for its end, or choose another folder");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    // The program that had it may have removed it in between.
    if (!is_name_of(path_, file.get())) continue;
    if (kind == LockKind::shared) {
      if (::unlink(path_.c_str()) != 0) fail_output(folder, path_.string() + ": " + system_reason(errno));
      continue;
    }
    bool const is_weak = locked == Locked::unknown || locks_stay_on_host(file.get());
    if (is_weak && !owner.host.empty() && owner.host != host_name())
      weakness_ = "whether " + owner.described() + " still writes to " + folder.string() +
                  " cannot be found out: its file system has no locks between hosts";
    auto const text = Owner{program, std::to_string(::getpid()), host_name(), now()}.text();
    // On a full disk the lock is without a text; what then finds no room has a better message. The last call is for
    // other nodes.
    if (::ftruncate(file.get(), 0) == 0 &&
        file.write(reinterpret_cast<std::byte const*>(text.data()), Index(text.size()), 0).empty())
      static_cast<void>(::fsync(file.get()));
    descriptor_ = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    return;
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)),
      weakness_(std::move(other.weakness_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  if (detail::is_name_of(path_, descriptor_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace graticule
