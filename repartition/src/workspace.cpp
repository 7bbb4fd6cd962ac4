// SPDX-License-Identifier: BSD-3-Clause
#include "workspace.hpp"

#include "kokkos_compat.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

namespace graticule::detail {

namespace {

constexpr std::size_t segment_alignment = 16;
constexpr std::size_t message_alignment = 64;
/// Longest piece of a message in one MPI call, whose counts are `int`.
constexpr std::size_t max_request_bytes = std::size_t(1) << 30U;

std::size_t rounded_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, MemorySpace space) {
  if (bytes == 0) return;
  if constexpr (has_device) {
    if (space == MemorySpace::device) {
      device_ = static_cast<std::byte*>(
          Kokkos::kokkos_malloc<Kokkos::DefaultExecutionSpace::memory_space>("graticule::buffer", bytes));
    }
  }
  (void)space;
  wire_ = static_cast<std::byte*>(std::aligned_alloc(message_alignment, rounded_up(bytes, message_alignment)));
  if (wire_ == nullptr) throw std::bad_alloc();
}

Buffer::Buffer(Buffer&& other) noexcept
    : wire_(std::exchange(other.wire_, nullptr)), device_(std::exchange(other.device_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(wire_, other.wire_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  std::free(wire_);
  if constexpr (has_device) {
    if (device_ && Kokkos::is_initialized()) Kokkos::kokkos_free<Kokkos::DefaultExecutionSpace::memory_space>(device_);
  }
}

void Buffer::to_wire(std::size_t offset, std::size_t bytes) const {
  if constexpr (has_device) {
    if (device_ == nullptr || bytes == 0) return;
    using Device = Kokkos::View<std::byte*, Kokkos::DefaultExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
    using Host = Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(Host(wire_ + offset, bytes), Device(device_ + offset, bytes));
  }
  (void)offset;
  (void)bytes;
}

void Buffer::from_wire(std::size_t offset, std::size_t bytes) const {
  if constexpr (has_device) {
    if (device_ == nullptr || bytes == 0) return;
    using Device = Kokkos::View<std::byte*, Kokkos::DefaultExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
    using Host = Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(Device(device_ + offset, bytes), Host(wire_ + offset, bytes));
  }
  (void)offset;
  (void)bytes;
}

namespace {

/// Bytes of field `f` in a message to or from `peer`, with what aligns the next field.
std::size_t field_bytes(CallShape const& shape, PeerTransfers const& peer, std::size_t f) {
  Index const cells = peer.num_cells[std::size_t(shape.kinds[f])];
  return rounded_up(std::size_t(cells * shape.cell_bytes[f]), segment_alignment);
}

}  // namespace

std::size_t MessageSet::offset(CallShape const& shape, Message const& message, int field, int transfer) const {
  std::size_t at = message.offset;
  for (int f = 0; f < field; ++f) at += field_bytes(shape, *message.peer, std::size_t(f));
  return at + std::size_t(message.peer->first_cell[std::size_t(transfer)] * shape.cell_bytes[std::size_t(field)]);
}

namespace {

using InitCall = int (*)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

int init_send(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  return MPI_Send_init(data, count, type, peer, tag, comm, request);
}

MessageSet make_messages(Comm const& comm, int tag, std::vector<PeerTransfers> const& peers, CallShape const& shape,
                         InitCall init) {
  MessageSet set;
  std::size_t total = 0;
  for (auto const& peer : peers) {
    std::size_t bytes = 0;
    for (std::size_t f = 0; f < shape.kinds.size(); ++f) bytes += field_bytes(shape, peer, f);
    // A message even without bytes, so that a peer that expects some is told instead of left waiting.
    set.messages.push_back({&peer, total, bytes, 0, 0, 0});
    total += rounded_up(bytes, message_alignment);
  }
  set.buffer = Buffer(total, shape.space);
  for (auto& message : set.messages) {
    message.first_request = int(set.requests.size());
    std::size_t done = 0;
    do {
      auto const bytes = std::min(max_request_bytes, message.bytes - done);
      set.message_of_request.push_back(int(&message - set.messages.data()));
      set.bytes_of_request.push_back(int(bytes));
      check_mpi(init(set.buffer.wire() + message.offset + done, int(bytes), MPI_BYTE, message.peer->peer, tag,
                     comm.handle(), &set.requests.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Send_init or MPI_Recv_init");
      ++message.num_requests;
      done += bytes;
    } while (done < message.bytes);
  }
  return set;
}

}  // namespace

Workspace::Workspace(Comm const& comm, int tag, PullTable const& table, CallShape call_shape)
    : shape(std::move(call_shape)) {
  bool const forward = shape.direction == Direction::forward;
  outgoing = make_messages(comm, tag, forward ? table.sends : table.receives, shape, init_send);
  incoming = make_messages(comm, tag, forward ? table.receives : table.sends, shape, MPI_Recv_init);
  open_.assign(incoming.requests.size(), 0);
  ended_.reserve(incoming.messages.size());
  handed_.reserve(incoming.messages.size());
  oversubscribed = comm.oversubscribed();
}

Workspace::~Workspace() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  for (auto* set : {&outgoing, &incoming})
    for (auto& request : set->requests)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

void Workspace::start_receives() {
  for (auto& message : incoming.messages) message.num_open = message.num_requests;
  num_messages_open = int(incoming.messages.size());
  // One by one: MPI_Startall starts in any order, and the pieces of a long message are told apart by their order only.
  for (auto& request : incoming.requests) check_mpi(MPI_Start(&request), "MPI_Start");
  std::fill(open_.begin(), open_.end(), 1);
  ended_.clear();
  failure.clear();
}

void Workspace::start_send(int message) {
  auto const& sent = outgoing.messages[std::size_t(message)];
  outgoing.buffer.to_wire(sent.offset, sent.bytes);
  for (int r = 0; r < sent.num_requests; ++r)
    check_mpi(MPI_Start(&outgoing.requests[std::size_t(sent.first_request + r)]), "MPI_Start");
}

void Workspace::poll_receives() {
  for (std::size_t r = 0; r < open_.size(); ++r) {
    if (!open_[r]) continue;
    int done = 0;
    MPI_Status status;
    // One request a call: MPICH 4.0.2 ends the program when MPI_Testsome meets a message longer than its buffer.
    int const code = MPI_Test(&incoming.requests[r], &done, &status);
    if (code == MPI_SUCCESS && !done) continue;
    open_[r] = 0;
    note_arrival(r, code, status);
  }
}

void Workspace::note_arrival(std::size_t request, int code, MPI_Status const& status) {
  auto& message = incoming.messages[std::size_t(incoming.message_of_request[request])];
  int const expected = incoming.bytes_of_request[request];
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) check_mpi(MPI_Error_class(code, &error_class), "MPI_Error_class");
  if (error_class != MPI_ERR_TRUNCATE) check_mpi(code, "MPI_Test");
  int received = 0;
  if (code == MPI_SUCCESS) check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (code != MPI_SUCCESS || received != expected)
    failure = "rank " + std::to_string(message.peer->peer) + " sent " +
              (code != MPI_SUCCESS ? "more" : std::to_string(received)) + " bytes where this rank expects " +
              std::to_string(expected) + ": their fields differ in number, type or batch axes";
  if (--message.num_open > 0) return;
  incoming.buffer.from_wire(message.offset, message.bytes);
  ended_.push_back(incoming.message_of_request[request]);
}

std::vector<int> const& Workspace::wait_some() {
  handed_.clear();
  while (ended_.empty() && num_messages_open > 0) {
    poll_receives();
    if (ended_.empty() && oversubscribed) std::this_thread::yield();
  }
  std::swap(handed_, ended_);
  num_messages_open -= int(handed_.size());
  return handed_;
}

bool Workspace::test() {
  poll_receives();
  if (std::find(open_.begin(), open_.end(), 1) != open_.end()) return false;
  for (auto const& request : outgoing.requests) {
    int done = 0;
    check_mpi(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (!done) return false;
  }
  return true;
}

void Workspace::wait_sends() {
  auto& requests = outgoing.requests;
  int done = requests.empty() ? 1 : 0;
  while (oversubscribed && !done) {
    check_mpi(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (!done) std::this_thread::yield();
  }
  if (!done) check_mpi(MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void Workspace::abandon() noexcept {
  for (auto& request : incoming.requests)
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
}

}  // namespace graticule::detail
