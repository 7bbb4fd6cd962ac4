// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/descriptor.hpp"
#include "source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace graticule {

namespace {

constexpr Index num_samples = 256;
constexpr Index sample_bytes = 4096;
constexpr Index end_bytes = 65536;

/// This rank's file.
struct Copy {
  std::uint64_t number = 0;
  Index bytes = 0;
  std::uint64_t seconds = 0;
  std::uint64_t nanoseconds = 0;
  std::string trouble;  ///< why it cannot be read; empty where it can

  /// Of what tells two files apart. The device's number is left out: nodes number theirs as they like.
  [[nodiscard]] std::uint64_t identity() const {
    return Hash().add(number).add(bytes).add(seconds).add(nanoseconds).add(trouble).value();
  }
};

Copy look_at(std::filesystem::path const& path) {
  Copy copy;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    copy.trouble = std::generic_category().message(errno);
    return copy;
  }
  copy.number = std::uint64_t(status.st_ino);
  copy.bytes = Index(status.st_size);
  copy.seconds = std::uint64_t(status.st_mtim.tv_sec);
  copy.nanoseconds = std::uint64_t(status.st_mtim.tv_nsec);
  return copy;
}

void add_bytes(Hash& hash, int file, Index first, std::vector<char>& buffer, Index count) {
  Index done = 0;
  while (done < count) {
    auto const got = ::pread(file, buffer.data() + done, std::size_t(count - done), off_t(first + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += Index(got);
  }
  hash.add(std::string_view(buffer.data(), std::size_t(done)));
}

/// Of the first and the last bytes and samples between them; of all bytes of a small file.
std::uint64_t samples_of(std::filesystem::path const& path, Copy& copy) {
  Hash hash;
  hash.add(copy.bytes);
  detail::Descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    copy.trouble = std::generic_category().message(errno);
    return hash.value();
  }
  std::vector<char> buffer(static_cast<std::size_t>(end_bytes));
  Index const all = copy.bytes;
  if (all <= num_samples * sample_bytes) {
    for (Index at = 0; at < all; at += end_bytes)
      add_bytes(hash, file.get(), at, buffer, std::min(end_bytes, all - at));
    return hash.value();
  }
  add_bytes(hash, file.get(), 0, buffer, end_bytes);
  add_bytes(hash, file.get(), all - end_bytes, buffer, end_bytes);
  for (Index i = 0; i < num_samples; ++i) {
    Index const at = (all - sample_bytes) / num_samples * i;
    add_bytes(hash, file.get(), at / sample_bytes * sample_bytes, buffer, sample_bytes);
  }
  return hash.value();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string described(Copy const& copy) {
  return copy.trouble.empty() ? "has one of " + std::to_string(copy.bytes) + " bytes"
                              : "cannot read it (" + copy.trouble + ")";
}

bool are_same(Comm const& comm, std::uint64_t value) {
  auto const upper = Index(value >> 32U);
  auto const lower = Index(value & 0xffffffffU);
  std::array<Index, 4> range{upper, -upper, lower, -lower};
  comm.max(range);
  return range[0] == -range[1] && range[2] == -range[3];
}

/// @param value of ranks that have looked
void require_same_value(Comm const& comm, std::filesystem::path const& path, std::uint64_t value, bool has_looked,
                        Copy const& copy) {
  std::uint64_t first = value;
  comm.broadcast(&first, Index(sizeof first), 0);
  // The lowest rank that differs from rank 0 reports.
  std::array<Index, 1> other{has_looked && value != first ? Index(comm.num_ranks() - comm.rank()) : 0};
  comm.max(other);
  if (other[0] == 0) return;
  int const rank = comm.num_ranks() - int(other[0]);
  auto const told = [&](int of) {
    return std::pair(" on host " + comm.broadcast(host_name(), of) + " ", comm.broadcast(described(copy), of));
  };
  auto const [first_host, first_copy] = told(0);
  auto const [host, other_copy] = told(rank);
  throw Error(Fault::input, "BadInput",
              path.string() + " is not the same file on all ranks: rank 0" + first_host + first_copy + ", rank " +
                  std::to_string(rank) + host + other_copy + (first_copy == other_copy ? ", of other content" : "") +
                  "; stage the same file on every node");
}

}  // namespace

void require_same_copies(Comm const& comm, std::filesystem::path const& path) {
  if (comm.num_ranks() == 1) return;
  auto copy = look_at(path);
  bool const is_one = are_same(comm, copy.identity());
  if (is_one && comm.num_nodes() == 1) return;
  bool const looks = !is_one || comm.node_rank() == 0;
  std::uint64_t value = 0;
  if (looks) {
    auto const samples = copy.trouble.empty() ? samples_of(path, copy) : 0;
    value = Hash().add(samples).add(copy.trouble).value();
  }
  require_same_value(comm, path, value, looks, copy);
}

void require_same_copies(Comm const& comm, std::span<std::filesystem::path const> paths) {
  if (comm.num_ranks() == 1 || paths.empty()) return;
  std::vector<Copy> copies;
  Hash identities;
  for (auto const& path : paths) {
    copies.push_back(look_at(path));
    identities.add(copies.back().identity());
  }
  bool const is_one = are_same(comm, identities.value());
  if (is_one && comm.num_nodes() == 1) return;
  std::uint64_t value = 0;
  bool const looks = !is_one || comm.node_rank() == 0;
  if (looks) {
    Hash samples;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (copies[i].trouble.empty()) samples.add(samples_of(paths[i], copies[i]));
      samples.add(copies[i].trouble);
    }
    value = samples.value();
  }
  auto first = value;
  comm.broadcast(&first, Index(sizeof first), 0);
  std::array<Index, 1> differs{looks && value != first ? 1 : 0};
  comm.max(differs);
  if (differs[0] == 0) return;
  for (auto const& path : paths) require_same_copies(comm, path);
}

std::uint64_t detail::file_identity(std::filesystem::path const& path) {
  return look_at(format_of(path).witness(path)).identity();
}

}  // namespace graticule
