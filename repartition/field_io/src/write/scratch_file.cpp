// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/scratch_file.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/disk_room.hpp"

#include <fcntl.h>

#include <cerrno>
#include <optional>

namespace graticule {

namespace {

[[noreturn]] void fail_scratch(std::filesystem::path const& beside, std::string const& what) {
  detail::fail_output(beside, what + " (scratch file in its folder)");
}

}  // namespace

ScratchFile::ScratchFile(Comm const& comm, std::filesystem::path const& beside) : comm_(comm), beside_(beside) {
  std::optional<detail::TemporaryFile> named;
  run_agreed(comm, [&] {
    if (comm.rank() == 0) named.emplace(beside);
  });
  auto const name = comm.broadcast(named ? named->path().string() : std::string(), 0);
  run_agreed(comm, [&] {
    file_ = std::make_shared<detail::Descriptor const>(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    if (file_->get() < 0) fail_scratch(beside_, detail::system_reason(errno));
  });
}

std::string ScratchFile::reserve(Index num_bytes, Index num_others) const {
  std::string reason;
  if (comm_.rank() == 0) {
    reason = detail::lack_of_room(file_->get(), 0, num_bytes, num_others);
    if (reason.empty()) reason = detail::reserve_on_disk(file_->get(), 0, num_bytes);
  }
  return comm_.broadcast(reason, 0);
}

void ScratchFile::write(Index offset, std::span<std::byte const> bytes) const {
  if (auto const reason = file_->write(bytes.data(), Index(bytes.size()), offset); !reason.empty())
    fail_scratch(beside_, reason);
}

void ScratchFile::read(Index offset, std::span<std::byte> bytes) const {
  if (auto const reason = file_->read(bytes.data(), Index(bytes.size()), offset); !reason.empty())
    fail_scratch(beside_, reason);
}

}  // namespace graticule
