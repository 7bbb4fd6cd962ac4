// SPDX-License-Identifier: BSD-3-Clause
// Memory and requests of whole messages.
#include "message_set.hpp"

#include <graticule/partition/detail/check_mpi.hpp>

#include <algorithm>
#include <utility>

namespace graticule::detail {

namespace {

constexpr std::size_t segment_alignment = 16;
constexpr std::size_t message_alignment = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Bytes of field `f` in a message to or from `peer`, with what aligns the next field.
std::size_t field_bytes(CallShape const& shape, PeerTransfers const& peer, std::size_t f) {
  Index const cells = peer.num_cells[std::size_t(shape.kinds[f])];
  return rounded_up(std::size_t(cells * shape.cell_bytes[f]), segment_alignment);
}

}  // namespace

std::size_t MessageSet::offset(CallShape const& shape, Message const& message, int field, int transfer) {
  std::size_t at = 0;
  for (int f = 0; f < field; ++f) at += field_bytes(shape, *message.peer, std::size_t(f));
  return at + std::size_t(message.peer->first_cell[std::size_t(transfer)] * shape.cell_bytes[std::size_t(field)]);
}

namespace {

/// Packed cells on the device, where the fields lie there: of outgoing messages that peers read there two places,
/// because they may still read the last message; of incoming ones that are read at the peer, none.
void place_on_device(MessageSet& set, int device, Way way, bool peers_read_device) {
  auto const num_places = [&](Message const& message) {
    if (!message.link || !peers_read_device) return 1;
    return way == Way::out ? 2 : 0;
  };
  std::size_t total = 0;
  for (auto const& message : set.messages)
    total += std::size_t(num_places(message)) * rounded_up(message.bytes, message_alignment);
  set.device = Buffer(total, Buffer::Kind::device, device);
  if (way == Way::out && peers_read_device && total > 0) {
    set.device_address = address_of_device_memory(set.device.data());
    while (set.device_address && set.packed.size() < 2) {
      auto event = SharedEvent::make(device);
      if (!event) break;
      set.packed.push_back(std::move(*event));
    }
    if (set.packed.size() < 2) throw Error("OutOfMemory", "memory of the device can no longer be shared with peers");
  }
  std::size_t at = 0;
  for (auto& message : set.messages) {
    message.on_device = num_places(message) == 2 && message.bytes > 0;
    for (int p = 0; p < num_places(message); ++p) {
      message.places[std::size_t(p)].device = set.device.data() + at;
      at += rounded_up(message.bytes, message_alignment);
    }
    message.packed = message.places[0].device;
  }
}

/// Host memory of the messages that MPI carries.
void place_for_mpi(MessageSet& set, CallShape const& shape, bool mpi_reads_device) {
  std::size_t total = 0;
  if (shape.space == MemorySpace::device && mpi_reads_device) {
    for (auto& message : set.messages)
      if (!message.link) message.wire = message.packed;
    return;
  }
  for (auto& message : set.messages) {
    if (message.link) continue;
    message.trailer_bytes = shape.refused ? refusal_bytes : mpi_reads_device ? 0 : sizeof(Trailer);
    total += rounded_up(message.bytes + message.trailer_bytes, message_alignment);
  }
  set.wire = Buffer(total, shape.space == MemorySpace::device ? Buffer::Kind::pinned : Buffer::Kind::host);
  std::size_t at = 0;
  for (auto& message : set.messages) {
    if (message.link) continue;
    message.wire = set.wire.data() + at;
    at += rounded_up(message.bytes + message.trailer_bytes, message_alignment);
    if (!message.packed) message.packed = message.wire;
  }
}

/// Two places for each message that a peer on the node reads: its packed cells, or the posted views.
void place_for_node(MessageSet& set, int num_views) {
  constexpr std::size_t alignment = 4096;
  auto const bytes_of = [&](Message const& message) {
    auto const cells = message.on_device ? sizeof(PostedCells) : message.bytes;
    return rounded_up(std::max(cells, std::size_t(num_views) * sizeof(PostedView)), alignment);
  };
  std::size_t total = 0;
  for (auto const& message : set.messages)
    if (message.link) total += 2 * bytes_of(message);
  if (total == 0) return;
  auto const block = messages::allocate_node_block(total);
  if (!block) throw Error("OutOfMemory", std::to_string(total) + " bytes of node-shared memory could not be allocated");
  set.shared = *block;
  std::size_t at = 0;
  for (auto& message : set.messages) {
    if (!message.link) continue;
    for (auto& place : message.places) {
      place.memory = {block->data + at, bytes_of(message), {block->address.segment, block->address.offset + at}};
      at += place.memory.bytes;
    }
  }
}

}  // namespace

MPI_Request make_request(MPI_Comm comm, int tag, Way way, Message const& message, std::span<std::byte> bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  int const peer = message.peer->peer;
  if (way == Way::out)
    check_mpi(MPI_Send_init(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm, &request), "MPI_Send_init");
  else
    check_mpi(MPI_Recv_init(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm, &request), "MPI_Recv_init");
  return request;
}

namespace {

void make_requests(PlanContext const& plan, MessageSet& set, Way way) {
  for (auto& message : set.messages) {
    if (message.link) continue;
    message.first_request = int(set.requests.size());
    std::size_t const total = message.bytes + message.trailer_bytes;
    std::size_t done = 0;
    do {
      auto const bytes = std::min(max_request_bytes, total - done);
      set.message_of_request.push_back(int(&message - set.messages.data()));
      set.bytes_of_request.push_back(int(bytes));
      set.requests.push_back(make_request(plan.comm.handle(), plan.tag, way, message, {message.wire + done, bytes}));
      ++message.num_requests;
      done += bytes;
    } while (done < total);
  }
}

}  // namespace

void make_messages(MessageSet& set, PlanContext const& plan, CallShape const& shape, int num_views, Way way) {
  bool const sends = (shape.direction == Direction::forward) == (way == Way::out);
  for (auto const& peer : sends ? plan.table.sends : plan.table.receives) {
    // A message even without bytes, so that a peer that expects some is told instead of left waiting.
    auto& message = set.messages.emplace_back();
    message.peer = &peer;
    message.link = shape.node_shared ? plan.links->find(peer.peer) : nullptr;
    for (std::size_t f = 0; f < shape.kinds.size(); ++f) message.bytes += field_bytes(shape, peer, f);
  }
  if (shape.space == MemorySpace::device) place_on_device(set, shape.device, way, plan.peers_read_device);
  place_for_mpi(set, shape, plan.mpi_reads_device);
  if (way == Way::out) place_for_node(set, num_views);
  make_requests(plan, set, way);
}

}  // namespace graticule::detail
