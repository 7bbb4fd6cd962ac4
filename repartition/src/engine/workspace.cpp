// SPDX-License-Identifier: BSD-3-Clause
#include "workspace.hpp"

#include <graticule/partition/detail/end.hpp>
#include <graticule/repartition/plan_name.hpp>

#include "stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace graticule::detail {

namespace {

constexpr std::size_t segment_alignment = 16;
constexpr std::size_t message_alignment = 64;
/// Longest piece of a message in one MPI call, whose counts are `int`.
constexpr std::size_t max_request_bytes = std::size_t(1) << 30U;
/// Length of the message of a rank that refuses a call. All others, with trailer or without, are a multiple of 8 long.
constexpr std::size_t refusal_bytes = 4;

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

enum class Way : std::uint8_t { out, in };

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
      message.device_places[std::size_t(p)] = set.device.data() + at;
      at += rounded_up(message.bytes, message_alignment);
    }
    message.packed = message.device_places[0];
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
      place = {block->data + at, bytes_of(message), {block->address.segment, block->address.offset + at}};
      at += place.bytes;
    }
  }
}

/// Makes a request of `message` that sends or receives `bytes`.
MPI_Request make_request(MPI_Comm comm, int tag, Way way, Message const& message, std::span<std::byte> bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  int const peer = message.peer->peer;
  if (way == Way::out)
    check_mpi(MPI_Send_init(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm, &request), "MPI_Send_init");
  else
    check_mpi(MPI_Recv_init(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm, &request), "MPI_Recv_init");
  return request;
}

/// MPI answers a null request by the error handler of `MPI_COMM_WORLD`, which may end the job: it never sees one.
void start(MPI_Request& request) {
  check_mpi(request == MPI_REQUEST_NULL ? MPI_ERR_REQUEST : MPI_Start(&request), "MPI_Start");
}

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

}  // namespace

Workspace::Workspace(PlanContext const& plan, CallShape call_shape, int num_views)
    : shape(std::move(call_shape)),
      plan_name(plan.name),
      comm(plan.comm),
      handle_(plan.comm.handle()),
      tag_(plan.tag),
      describe_([this] { return describe(); }) {
  if (!shape.streamed) {
    make_messages(outgoing, plan, shape, num_views, Way::out);
    make_messages(incoming, plan, shape, num_views, Way::in);
  }
  open_.assign(incoming.requests.size(), 0);
  ended_.reserve(incoming.messages.size());
  handed_.reserve(incoming.messages.size());
  unsent.reserve(outgoing.messages.size());
}

Workspace::~Workspace() {
  // Copies and kernels may still use what is freed.
  if (shape.space == MemorySpace::device) {
    for (auto const& message : outgoing.messages)
      for (int p = 0; message.on_device && p < 2; ++p)
        // An event that cannot be opened leaves nothing else to wait for.
        if (is_free(message, p)) (void)wait_for_reader(message, p);
    fence();
  }
  if (outgoing.shared.data) messages::free_node_block(outgoing.shared);
  if (mpi_is_over()) return;
  for (auto* set : {&outgoing, &incoming})
    for (auto& request : set->requests)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

bool Workspace::holds(std::span<PullField const> fields) const noexcept {
  if (sources.empty() || sources.size() != fields.size()) return false;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& given = fields[f];
    std::size_t const end = f + 1 < first_target.size() ? first_target[f + 1] : targets.size();
    if (shape.kinds[f] != given.kind || parities[f] != given.parity || given.targets.size() != end - first_target[f] ||
        sources[f] != given.source ||
        !std::equal(given.targets.begin(), given.targets.end(), targets.data() + first_target[f]))
      return false;
  }
  return true;
}

void Workspace::set_fields(std::span<PullField const> fields) {
  if (holds(fields)) return;
  forget_tasks();
  known_apart = false;
  sources.clear();
  targets.clear();
  parities.clear();
  first_target.clear();
  for (auto const& field : fields) {
    sources.push_back(field.source);
    first_target.push_back(targets.size());
    targets.insert(targets.end(), field.targets.begin(), field.targets.end());
    parities.push_back(field.parity);
  }
}

void Workspace::forget_tasks() noexcept {
  for (auto* kept : {&pack_all, &unpack_all, &local, &additions, &zeros}) kept->valid = false;
  for (auto* set : {&outgoing, &incoming})
    for (auto& message : set->messages) message.kept.valid = false;
}

void Workspace::start_receives() {
  for (auto& message : incoming.messages) {
    message.num_open = message.link ? 1 : message.num_requests;
    message.is_released = false;
    if (message.link) message.number = message.link->next_receive();
  }
  for (auto& message : outgoing.messages) {
    message.in_place = false;
    if (message.link) message.number = message.link->next_send();
  }
  num_messages_open = int(incoming.messages.size());
  // One by one: MPI_Startall starts in any order, and the pieces of a long message are told apart by their order only.
  ended_.clear();
  failure.clear();
  for (std::size_t r = 0; r < incoming.requests.size(); ++r) {
    start(incoming.requests[r]);
    open_[r] = 1;
  }
}

void Workspace::start_refusal() {
  start_receives();
  Patience patience(comm, describe_);
  for (auto& message : outgoing.messages) {
    if (message.link) {
      while (!message.link->has_room(message.number)) patience.pause();
      message.link->outgoing(message.number).bytes = refused_post;
      message.link->publish(message.number);
    }
    for (int r = 0; r < message.num_requests; ++r) start(outgoing.requests[std::size_t(message.first_request + r)]);
  }
}

bool Workspace::is_free(Message const& message, int p) noexcept {
  auto const number = message.last_number[std::size_t(p)];
  return number == 0 || message.link->is_consumed(number);
}

bool Workspace::has_free_places() const noexcept {
  auto const& messages = outgoing.messages;
  auto const all_free = [&](int p) {
    return std::all_of(messages.begin(), messages.end(),
                       [&](Message const& message) { return !message.link || is_free(message, p); });
  };
  if (shape.space == MemorySpace::device) return all_free(0) || all_free(1);
  return std::all_of(messages.begin(), messages.end(), [&](Message const& message) {
    return !message.link || is_free(message, 0) || is_free(message, 1);
  });
}

void Workspace::open_place(Message& message) {
  if (!message.link) return;
  Patience patience(comm, describe_);
  while (!message.link->has_room(message.number) || (!is_free(message, 0) && !is_free(message, 1))) patience.pause();
  take_place(message, is_free(message, 0) ? 0 : 1);
}

void Workspace::open_places() {
  auto const& messages = outgoing.messages;
  auto const has_room = [](Message const& message) { return !message.link || message.link->has_room(message.number); };
  Patience patience(comm, describe_);
  while (!has_free_places() || !std::all_of(messages.begin(), messages.end(), has_room)) patience.pause();
  auto const first_is_free = [](Message const& message) { return !message.link || is_free(message, 0); };
  int const place = std::all_of(messages.begin(), messages.end(), first_is_free) ? 0 : 1;
  for (auto& message : outgoing.messages)
    if (message.link) take_place(message, place);
}

bool Workspace::wait_for_reader(Message const& message, int p) const {
  if (!message.on_device || message.last_number[std::size_t(p)] == 0) return true;
  PostedCells cells;
  std::memcpy(&cells, message.places[std::size_t(p)].data, sizeof cells);
  return cells.read.process == 0 || wait_for_event(queue, cells.read);
}

void Workspace::take_place(Message& message, int p) {
  auto const place = std::size_t(p);
  if (!wait_for_reader(message, p))
    throw Error("OutOfMemory", "an event of rank " + std::to_string(message.peer->peer) + " cannot be opened");
  message.place = p;
  message.last_number[place] = message.number;
  message.wire = message.places[place].data;
  if (shape.space == MemorySpace::host) message.packed = message.wire;
  if (message.on_device) message.packed = message.device_places[place];
}

void Workspace::stage_out(Message& message) const {
  if (message.bytes > 0 && message.packed != message.wire && !message.on_device)
    copy_to_host(queue, message.wire, message.packed, message.bytes);
}

void Workspace::close_places() {
  bool waits = false;
  SharedEvent* packed = nullptr;
  for (auto& message : outgoing.messages) {
    stage_out(message);
    if (message.on_device)
      packed = &outgoing.packed[std::size_t(message.place)];
    else
      waits = waits || message.bytes > 0;
  }
  if (packed) packed->record(queue);
  if (waits) fence();
}

void Workspace::fence() {
  detail::fence(queue);
  is_read = false;
}

void Workspace::send(Message& message) {
  if (message.trailer_bytes > 0) {
    Trailer const trailer{fields_hash, std::uint32_t(call)};
    std::memcpy(message.wire + message.bytes, &trailer, sizeof trailer);
  }
  if (message.link) {
    auto& post = message.link->outgoing(message.number);
    post.content = message.places[std::size_t(message.place)].address;
    post.bytes = message.bytes;
    post.num_views = 0;
    if (message.on_device) {
      PostedCells cells{outgoing.device_address.value(), outgoing.packed[std::size_t(message.place)].address(), {}};
      cells.address.offset += std::uint64_t(message.packed - outgoing.device.data());
      std::memcpy(message.wire, &cells, sizeof cells);
      post.num_views = packed_on_device;
    }
    post.fields = fields_hash;
    post.call = std::uint32_t(call);
    message.in_place = false;
    message.link->publish(message.number);
    return;
  }
  for (int r = 0; r < message.num_requests; ++r) start(outgoing.requests[std::size_t(message.first_request + r)]);
}

void Workspace::send_in_place(Message& message) {
  write_views(message.wire, images, addresses);
  auto& post = message.link->outgoing(message.number);
  post.content = message.places[std::size_t(message.place)].address;
  post.bytes = message.bytes;
  post.num_views = std::uint32_t(images.size());
  post.fields = fields_hash;
  post.call = std::uint32_t(call);
  message.in_place = true;
  message.link->publish(message.number);
}

void Workspace::poll_requests() {
  for (std::size_t r = 0; r < open_.size(); ++r) {
    if (!open_[r]) continue;
    int done = 0;
    MPI_Status status;
    // One request a call: MPICH 4.0.2 ends the program when MPI_Testsome meets a message longer than its buffer.
    int const code = MPI_Test(&incoming.requests[r], &done, &status);
    if (code == MPI_SUCCESS && !done) continue;
    open_[r] = 0;
    if (incoming.requests[r] == MPI_REQUEST_NULL) renew_receive(r);
    note_arrival(r, code, status);
  }
}

void Workspace::renew_receive(std::size_t request) {
  // Open MPI (4.1.4) frees a persistent request that ends with an error: a message longer than its buffer.
  auto const& message = incoming.messages[std::size_t(incoming.message_of_request[request])];
  auto const piece = request - std::size_t(message.first_request);
  incoming.requests[request] =
      make_request(handle_, tag_, Way::in, message,
                   {message.wire + piece * max_request_bytes, std::size_t(incoming.bytes_of_request[request])});
}

void Workspace::poll() {
  poll_requests();
  for (auto& message : incoming.messages)
    if (message.link && message.num_open > 0 && message.link->begin_reading(message.number)) note_post(message);
}

void Workspace::fail(Message const& message, std::string const& sent) {
  if (!failure.empty()) return;
  failed_rule = "FieldMismatch";
  failure = "rank " + std::to_string(message.peer->peer) + " sent " + sent +
            ": their fields differ in number, type or batch axes";
}

void Workspace::note_refusal(Message& message) {
  // Of all that may be wrong, this is the reason.
  failed_rule = "PeerRefused";
  failure = "rank " + std::to_string(message.peer->peer) + " refused call " + std::to_string(call) + " of " +
            named_plan(plan_name, "the plan") +
            " and has thrown the reason; cells of this call are unspecified, and its next call pairs with "
            "that of this rank";
  // The other pieces of a long message do not come.
  message.num_open = 0;
  for (int r = message.first_request; r < message.first_request + message.num_requests; ++r) {
    if (!open_[std::size_t(r)]) continue;
    open_[std::size_t(r)] = 0;
    check_mpi(MPI_Cancel(&incoming.requests[std::size_t(r)]), "MPI_Cancel");
    check_mpi(MPI_Wait(&incoming.requests[std::size_t(r)], MPI_STATUS_IGNORE), "MPI_Wait");
  }
}

bool Workspace::matches(Message const& message, Trailer const& trailer) {
  if (!failure.empty()) return false;
  failed_rule = "FieldMismatch";
  if (trailer.call != std::uint32_t(call))
    failure = "rank " + std::to_string(message.peer->peer) + " is in call " + std::to_string(trailer.call) + " of " +
              named_plan(plan_name, "the plan") + ", this rank in call " + std::to_string(call) +
              ": a call failed or was left out on one of them";
  else if (trailer.fields != fields_hash)
    fail(message, "fields of other types or batch axes");
  return failure.empty();
}

void Workspace::arrived(Message const& message) { ended_.push_back(int(&message - incoming.messages.data())); }

void Workspace::note_post(Message& message) {
  message.num_open = 0;
  message.on_device = false;
  auto const& post = message.link->incoming(message.number);
  if (post.bytes == refused_post) {
    note_refusal(message);
    return arrived(message);
  }
  if (post.bytes != message.bytes) {
    fail(message, std::to_string(post.bytes) + " bytes where this rank expects " + std::to_string(message.bytes));
    return arrived(message);
  }
  if (!matches(message, {post.fields, post.call})) return arrived(message);
  bool const in_place = post.num_views > 0 && post.num_views != packed_on_device;
  // On a device, tasks read messages where they are packed.
  if (message.in_place != in_place && shape.space == MemorySpace::host) {
    message.kept.valid = false;
    additions.valid = false;
  }
  message.in_place = in_place;
  if (message.bytes == 0) return arrived(message);
  if (!map_post(message, post)) throw not_mapped(message.peer->peer, shape.space, shape.device);
  arrived(message);
}

bool Workspace::map_post(Message& message, messages::Post const& post) {
  message.wire = messages::map_node_address(post.content);
  if (message.wire == nullptr) return false;
  bool const on_device = shape.space == MemorySpace::device;
  // What lies on a device goes to fields on the host by way of the one on which Kokkos was started.
  auto const reader = on_device ? queue : DeviceQueue();
  auto const receive = [&](Buffer::Kind kind) {
    if (!message.received.data()) message.received = Buffer(message.bytes, kind, shape.device);
    return message.received.data();
  };
  if (post.num_views == packed_on_device) {
    PostedCells cells;
    std::memcpy(&cells, message.wire, sizeof cells);
    auto* const packed = map_device_memory(cells.address, device_of(reader));
    if (packed == nullptr || !wait_for_event(reader, cells.packed)) return false;
    if (on_device) {
      message.packed = packed;
      message.on_device = true;
      return true;
    }
    message.packed = receive(Buffer::Kind::pinned);
    copy_to_host(reader, message.packed, packed, message.bytes);
    detail::fence(reader);
    return true;
  }
  bool mapped = true;
  message.images.resize(message.in_place ? post.num_views : 0);
  for (std::size_t i = 0; mapped && i < message.images.size(); ++i) {
    auto const& posted = reinterpret_cast<PostedView const*>(message.wire)[i];
    auto& image = message.images[i];
    auto const before = image;
    mapped = read_view(posted, device_of(reader), image);
    if (image == before || on_device) continue;
    message.kept.valid = false;
    additions.valid = false;
  }
  if (!on_device) {
    message.packed = message.wire;
    return mapped;
  }
  message.packed = message.device_places[0] ? message.device_places[0] : receive(Buffer::Kind::device);
  if (message.in_place) return mapped;
  copy_to_device(queue, message.packed, message.wire, message.bytes);
  is_read = true;
  return mapped;
}

void Workspace::note_arrival(std::size_t request, int code, MPI_Status const& status) {
  auto& message = incoming.messages[std::size_t(incoming.message_of_request[request])];
  if (shape.refused) {
    message.num_open = 0;
    return;
  }
  int const expected = incoming.bytes_of_request[request];
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) check_mpi(MPI_Error_class(code, &error_class), "MPI_Error_class");
  if (error_class != MPI_ERR_TRUNCATE) check_mpi(code, "MPI_Test");
  int received = 0;
  if (code == MPI_SUCCESS) check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (code == MPI_SUCCESS && received == int(refusal_bytes)) {
    note_refusal(message);
    return arrived(message);
  }
  if (code != MPI_SUCCESS || received != expected)
    fail(message, (code != MPI_SUCCESS ? "more" : std::to_string(received)) + " bytes where this rank expects " +
                      std::to_string(expected) + " (" + std::to_string(message.trailer_bytes) + " of them a trailer)");
  if (--message.num_open > 0) return;
  if (message.trailer_bytes > 0 && failure.empty()) {
    Trailer trailer;
    std::memcpy(&trailer, message.wire + message.bytes, sizeof trailer);
    if (!matches(message, trailer)) return arrived(message);
  }
  if (message.packed != message.wire && message.bytes > 0) {
    copy_to_device(queue, message.packed, message.wire, message.bytes);
    is_read = true;
  }
  arrived(message);
}

std::vector<int> const& Workspace::wait_some() {
  handed_.clear();
  Patience patience(comm, describe_);
  while (ended_.empty() && num_messages_open > 0) {
    poll();
    if (ended_.empty()) patience.pause();
  }
  std::swap(handed_, ended_);
  num_messages_open -= int(handed_.size());
  return handed_;
}

void Workspace::release(Message& message) const noexcept {
  if (message.link) message.link->consume(message.number);
}

void Workspace::release_all_after_queue() {
  // A call without a queue of its own waits for its work anyway, and then without an event.
  if (!queue.instance()) {
    fence();
    for (auto& message : incoming.messages)
      if (!message.is_released) release(message);
    return;
  }
  bool staged = false;
  bool remote = false;
  for (auto const& message : incoming.messages) {
    if (!message.link)
      is_read = true;
    else if (message.on_device)
      remote = true;
    else if (!message.is_released)
      staged = staged || message.bytes > 0;
  }
  if (remote && !read) read = SharedEvent::make(shape.device);
  // Memory of the host is written by hosts, which do not wait for queues.
  if (staged || (remote && !read)) fence();
  if (remote && read) read->record(queue);
  for (auto& message : incoming.messages) {
    if (!message.link || message.is_released) continue;
    if (message.on_device && read)
      std::memcpy(message.wire + offsetof(PostedCells, read), &read->address(), sizeof(EventAddress));
    message.link->consume(message.number);
  }
}

bool Workspace::test() {
  poll_requests();
  if (std::find(open_.begin(), open_.end(), 1) != open_.end()) return false;
  for (auto const& message : incoming.messages)
    if (message.link && message.num_open > 0 && !message.link->has_come(message.number)) return false;
  // What peers read in place does not count: `wait()` packs it for those that are late.
  for (auto const& request : outgoing.requests) {
    int done = 0;
    check_mpi(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (!done) return false;
  }
  return true;
}

bool Workspace::is_sending() {
  auto& requests = outgoing.requests;
  int done = requests.empty() ? 1 : 0;
  if (!done) check_mpi(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return !done;
}

bool Workspace::has_ended() {
  poll_requests();
  bool ended = !is_sending();
  for (auto& message : incoming.messages) {
    if (message.link && message.num_open > 0 && message.link->begin_reading(message.number)) {
      message.link->consume(message.number);
      message.num_open = 0;
    }
    ended = ended && message.num_open == 0;
  }
  return ended;
}

void Workspace::wait_sends() {
  Patience patience(comm, describe_);
  while (is_sending()) patience.pause();
}

void Workspace::cancel_receives() noexcept {
  // Only what was started: MPICH ends the program when an idle persistent request is cancelled.
  for (std::size_t r = 0; r < incoming.requests.size(); ++r)
    if (open_[r]) MPI_Cancel(&incoming.requests[r]);
}

void Workspace::abandon() noexcept {
  cancel_receives();
  // Peers on this node are told; what they post to this rank is never read.
  for (auto& message : outgoing.messages) {
    if (!message.link || message.link->has_been_published(message.number)) continue;
    message.link->outgoing(message.number).bytes = refused_post;
    message.link->publish(message.number);
  }
}

Index Workspace::buffer_bytes() const noexcept {
  Index result = Index(outgoing.shared.bytes) + (stream ? stream->buffer_bytes() : 0);
  for (auto const* set : {&outgoing, &incoming})
    for (auto const& message : set->messages) {
      if (!message.link) result += Index(message.bytes);
      for (auto const* place : message.device_places)
        if (place) result += Index(message.bytes);
      for (auto const* buffer : {&message.received, &message.staged})
        if (buffer->data()) result += Index(message.bytes);
    }
  return result;
}

std::string Workspace::describe() const {
  std::string text = "rank " + std::to_string(comm.rank()) + " waits in call " + std::to_string(call) + " (" +
                     (shape.direction == Direction::forward ? "forward" : "adjoint") + ") of " +
                     named_plan(plan_name, "a plan") + " for";
  char const* separator = " ";
  auto const add = [&](Message const& message, char const* what) {
    text += separator + std::string(what) + " rank " + std::to_string(message.peer->peer) + " (" +
            std::to_string(message.bytes) + " bytes, " + (message.link ? "node-shared memory" : "point-to-point") + ")";
    separator = ", ";
  };
  for (auto const& message : incoming.messages)
    if (message.num_open > 0) add(message, "a message from");
  for (auto const& message : outgoing.messages)
    if (message.link && !message.link->is_consumed(message.number)) add(message, "its message to be read by");
  return text;
}

}  // namespace graticule::detail
