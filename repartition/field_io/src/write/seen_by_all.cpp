// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace graticule::detail {

namespace {

/// Length and first bytes; nothing where there is no such file.
std::optional<std::string> look_at(std::filesystem::path const& path) {
  Descriptor const file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  std::array<char, 1024> first{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return {};
  auto const got = ::pread(file.get(), first.data(), first.size(), 0);
  return std::to_string(status.st_size) + ":" + std::string(first.data(), got > 0 ? std::size_t(got) : 0);
}

}  // namespace

}  // namespace graticule::detail

namespace graticule {

void require_seen_by_all(Comm const& comm, std::string const& given, std::filesystem::path const& made) {
  using namespace detail;
  if (comm.num_ranks() == 1) return;
  auto const own = comm.rank() == 0 ? look_at(made) : std::nullopt;
  auto const expected = comm.broadcast(own.value_or(std::string()), 0);
  auto const host = comm.broadcast(host_name(), 0);
  run_agreed(comm, [&] {
    if (comm.rank() == 0) return;
    // Network file systems show a new file late.
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (look_at(made).value_or(std::string()) != expected) {
      if (std::chrono::steady_clock::now() > end)
        fail_output(given, "rank " + std::to_string(comm.rank()) + " on host " + host_name() +
                               " does not find there what rank 0 has written on host " + host +
                               "; its folder must be on a file system that all nodes share");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

}  // namespace graticule
