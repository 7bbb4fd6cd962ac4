// SPDX-License-Identifier: BSD-3-Clause
#include "mailbox.hpp"

#include <graticule/partition/detail/check_mpi.hpp>

#include "comm_state.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace graticule::detail {

Mailbox::Mailbox(MPI_Comm parent) {
  check_made(MPI_Comm_dup(parent, &handle_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_group(handle_, &group_), "MPI_Comm_group");
  check_mpi(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
}

void Mailbox::close() noexcept {
  MPI_Group_free(&group_);
  MPI_Comm_free(&handle_);
}

std::optional<std::vector<int>> Mailbox::places(MPI_Comm comm) const {
  if (have_same_ranks(comm, handle_)) {
    std::vector<int> all(std::size_t(size_), 0);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  MPI_Group group = MPI_GROUP_NULL;
  int size = 0;
  check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi(MPI_Group_size(group, &size), "MPI_Group_size");
  std::vector<int> ranks(std::size_t(size), 0);
  std::vector<int> result(std::size_t(size), 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  check_mpi(MPI_Group_translate_ranks(group, size, ranks.data(), group_, result.data()), "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&group), "MPI_Group_free");
  if (std::find(result.begin(), result.end(), MPI_UNDEFINED) != result.end()) return std::nullopt;
  return result;
}

Mailbox::Sent const* Mailbox::send(int to, int tag, std::vector<std::byte> bytes) noexcept {
  if (handle_ == MPI_COMM_NULL) return nullptr;
  auto& sent = *sent_.emplace_back(std::make_unique<Sent>());
  sent.bytes = std::move(bytes);
  // Synchronous, so that this rank knows when nothing of it is left under way.
  MPI_Issend(sent.bytes.data(), int(sent.bytes.size()), MPI_BYTE, to, tag, handle_, &sent.request);
  return &sent;
}

std::optional<Mailbox::Message> Mailbox::take(int tag) noexcept {
  int found = 0;
  int size = 0;
  MPI_Status status;
  if (handle_ == MPI_COMM_NULL) return std::nullopt;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, handle_, &found, &status) != MPI_SUCCESS || !found) return std::nullopt;
  if (MPI_Get_count(&status, MPI_BYTE, &size) != MPI_SUCCESS) return std::nullopt;
  Message message{status.MPI_SOURCE, std::vector<std::byte>(std::size_t(size))};
  if (MPI_Recv(message.bytes.data(), size, MPI_BYTE, message.from, tag, handle_, MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return std::nullopt;
  return message;
}

bool Mailbox::is_under_way(Sent const* sent) const noexcept {
  return std::any_of(sent_.begin(), sent_.end(), [sent](auto const& other) { return other.get() == sent; });
}

bool Mailbox::all_received() noexcept {
  std::erase_if(sent_, [](std::unique_ptr<Sent> const& sent) {
    int done = 0;
    return MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  return sent_.empty();
}

}  // namespace graticule::detail
