// SPDX-License-Identifier: BSD-3-Clause
#include "whole_messages.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/repartition/plan_name.hpp>

#include "kernels/kokkos_compat.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace graticule::detail {

namespace {

/// MPI answers a null request by the error handler of `MPI_COMM_WORLD`, which may end the job: it never sees one.
void start(MPI_Request& request) {
  check_mpi(request == MPI_REQUEST_NULL ? MPI_ERR_REQUEST : MPI_Start(&request), "MPI_Start");
}

/// True when neighbors in a message are no neighbors in the field, or only few in a row are.
bool is_scattered(std::span<StridedTask const> tasks) {
  if (tasks.empty() || tasks.front().ndim == 0) return false;
  return is_thin(tasks.front()) || tasks.front().from_stride[std::size_t(tasks.front().ndim) - 1] != 1;
}

void append(std::vector<StridedTask>& tasks, std::span<StridedTask const> more) {
  tasks.insert(tasks.end(), more.begin(), more.end());
}

}  // namespace

WholeMessages::WholeMessages(Call& call, int num_views)
    : plan_(call.plan), call_(call), tasks_(call, outgoing_, incoming_) {
  make_messages(outgoing_, plan_, call.shape, num_views, Way::out);
  make_messages(incoming_, plan_, call.shape, num_views, Way::in);
  open_.assign(incoming_.requests.size(), 0);
  arrived_.reserve(incoming_.messages.size());
  unsent_.reserve(outgoing_.messages.size());
  auto const& shape = call.shape;
  // How many tasks run together varies from call to call.
  together_.reserve(shape.kinds.size() * plan_.table.num_transfers());
  constexpr Index small_call = 1 << 15;
  std::size_t bytes = 0;
  for (auto const* set : {&outgoing_, &incoming_})
    for (auto const& message : set->messages) bytes += message.bytes;
  for (std::size_t f = 0; f < shape.kinds.size(); ++f)
    bytes += std::size_t(plan_.local_cells[std::size_t(shape.kinds[f])] * shape.cell_bytes[f]);
  call.is_small = bytes < small_call && !shape.on_device();
}

WholeMessages::~WholeMessages() {
  // Copies and kernels may still use what is freed.
  if (call_.shape.on_device()) {
    for (auto const& message : outgoing_.messages)
      for (int p = 0; message.on_device && p < 2; ++p)
        // An event that cannot be opened leaves nothing else to wait for.
        if (is_free(message, p)) (void)wait_for_reader(message, p);
    fence();
  }
  if (outgoing_.shared.data) messages::free_node_block(outgoing_.shared);
  if (mpi_is_over()) return;
  for (auto* set : {&outgoing_, &incoming_})
    for (auto& request : set->requests)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

void WholeMessages::use_fields(int place, bool changed) {
  tasks_.use_fields(place, changed);
  used_ = std::size_t(place);
  if (used_ >= posted_.size()) posted_.resize(used_ + 1);
  if (changed) posted().clear();
}

void WholeMessages::post(std::span<PullField const>, DeviceQueue const& queue, Posting) {
  Stopwatch watch(call_);
  // What an earlier call copies from the buffers must have been copied before messages arrive in them, and its
  // kernels in another queue may still read tasks and packed cells.
  if (call_.shape.on_device()) {
    if (is_read_ || call_.queue.instance() != queue.instance()) fence();
    call_.queue = queue;
  }
  start_messages();
  if (call_.shape.on_device())
    pack_on_device();
  else
    pack_and_send();
  count();
  call_.stats.pack_seconds += watch.lap();
  if (!call_.shape.forward() || tasks_.moves_with_messages()) return;
  move_local();
  call_.stats.local_seconds += watch.lap();
}

void WholeMessages::count() {
  auto& stats = call_.stats;
  ++stats.num_calls;
  for (auto const& message : outgoing_.messages) {
    auto& sent = !message.link ? stats.point_to_point : message.sent_in_place ? stats.node_in_place : stats.node_packed;
    ++sent.num_messages;
    sent.bytes += Index(message.bytes);
  }
  for (int f = 0; f < call_.fields().count(); ++f)
    stats.local_bytes += plan_.local_cells[std::size_t(call_.kind(f))] * call_.shape.cell_bytes[std::size_t(f)];
}

void WholeMessages::find_posted() {
  auto const linked = [](Message const& message) { return message.link != nullptr; };
  if (std::none_of(outgoing_.messages.begin(), outgoing_.messages.end(), linked)) return;
  if (posted().images.empty()) tasks_.append_sent(posted().images);
  posted().find_addresses();
}

template <class Make>
void WholeMessages::run_with_messages(MessageSet const& set, KeptTasks& kept, Make const& make) {
  places_packed_.clear();
  for (auto const& message : set.messages) places_packed_.push_back(message.packed);
  if (kept.valid)
    for (auto& copy : kept.device)
      if (copy.valid && copy.packed == places_packed_) return copy.tasks.run(call_.queue);
  make();
  kept.last_device = (kept.last_device + 1) % int(kept.device.size());
  auto& copy = kept.device[std::size_t(kept.last_device)];
  copy.tasks.set(kept.tasks, call_.queue);
  copy.packed = places_packed_;
  copy.valid = true;
  copy.tasks.run(call_.queue);
}

void WholeMessages::pack_on_device() {
  Region const region("graticule::pack", call_.has_tool);
  open_places();
  run_with_messages(outgoing_, tasks_.kept_of_all(Way::out), [&] { tasks_.make_all(Way::out); });
  close_places();
  for (auto& message : outgoing_.messages) send(message);
}

void WholeMessages::pack_and_send() {
  Region const region("graticule::pack", call_.has_tool);
  find_posted();
  // Columns are packed for all peers together, rows message by message, so that the first leaves early.
  together_.clear();
  unsent_.clear();
  for (auto& message : outgoing_.messages) {
    open_place(message);
    auto const& kept = tasks_.packing(message);
    // Scattered cells are gathered faster by the rank that they belong to than by the one that reads them.
    if (message.link && !posted().addresses.empty() && message.bytes > 0 && !is_scattered(kept.tasks)) {
      send_in_place(message);
      continue;
    }
    if (!kept.small.empty()) {
      kept.small.run(message.packed);
      send(message);
      continue;
    }
    auto const tasks = tasks_.pack(message);
    if (!tasks.empty() && is_thin(tasks.front())) {
      append(together_, tasks);
      unsent_.push_back(&message);
      continue;
    }
    run_strided_host(tasks);
    send(message);
  }
  run_strided_host(together_);
  for (auto* message : unsent_) send(*message);
}

void WholeMessages::move_local() {
  Region const region("graticule::local", call_.has_tool);
  run(tasks_.local());
}

void WholeMessages::run(KeptTasks& kept) {
  if (!kept.small.empty()) return kept.small.run(nullptr);
  if (!call_.shape.on_device()) return run_strided_host(kept.tasks);
  auto& copy = kept.device.front();
  if (!copy.valid) copy.tasks.set(kept.tasks, call_.queue);
  copy.valid = true;
  copy.tasks.run(call_.queue);
}

bool WholeMessages::advance() {
  bool moved = false;
  if (phase_ == Phase::receiving) {
    if (num_open_ > 0) {
      poll();
      moved = !arrived_.empty();
      take_arrived();
      if (num_open_ > 0) return moved;
    }
    take_all();
    settling_since_ = -1;
    phase_ = Phase::settling;
  }
  if (phase_ == Phase::settling) {
    if (!settle()) return moved;
    zero_targets();
    if (!call_.failure.text.empty()) throw Error(call_.failure.rule, call_.failure.text);
    phase_ = Phase::sending;
  }
  if (phase_ == Phase::sending) {
    if (is_sending()) return moved;
    phase_ = Phase::done;
    return true;
  }
  return moved;
}

void WholeMessages::take_arrived() {
  num_open_ -= int(arrived_.size());
  if (call_.shape.on_device()) {
    for (auto* message : arrived_)
      if (is_wanted() && message->now().in_place && message->bytes > 0) bring_posted_fields(*message);
  } else if (call_.shape.forward()) {
    together_.clear();
    for (auto* message : arrived_) {
      if (!is_wanted()) continue;
      if (auto const& kept = tasks_.unpacking(*message); !kept.small.empty())
        kept.small.run(message->packed);
      else
        append(together_, tasks_.unpack(*message));
    }
    run_strided_host(together_);
    for (auto* message : arrived_) release(*message);
  }
  arrived_.clear();
}

void WholeMessages::bring_posted_fields(Message& message) {
  if (!message.staged.data()) message.staged = Buffer(message.bytes, Buffer::Kind::pinned);
  together_.clear();
  tasks_.append_packing_of_posted(message, message.staged.data(), together_);
  run_strided_host(together_);
  release(message);
  message.is_released = true;
  copy_to_device(call_.queue, message.packed, message.staged.data(), message.bytes);
  is_read_ = true;
}

void WholeMessages::take_all() {
  auto const add = [&] { tasks_.make_additions(); };
  if (call_.shape.on_device()) {
    if (is_wanted() && call_.shape.forward())
      run_with_messages(incoming_, tasks_.kept_of_all(Way::in), [&] { tasks_.make_all(Way::in); });
    else if (is_wanted())
      run_with_messages(incoming_, tasks_.additions(), add);
    // Nobody reads the targets of a device in place.
    zero_targets();
    return release_all_after_queue();
  }
  if (call_.shape.forward()) return;
  if (is_wanted()) {
    add();
    run(tasks_.additions());
  }
  for (auto& message : incoming_.messages) release(message);
}

void WholeMessages::zero_targets() {
  if (is_zeroed_ || call_.shape.forward() || plan_.after_adjoint != AfterAdjoint::zero || !is_wanted()) return;
  run(tasks_.zeros());
  is_zeroed_ = true;
}

bool WholeMessages::settle() {
  // A peer that is busy elsewhere must not hold up this rank, which MPI would not either: then the cells are packed.
  constexpr double longest_wait = 2e-4;
  bool settled = true;
  for (auto& message : outgoing_.messages) {
    if (!message.sent_in_place || message.link->is_consumed(message.number)) continue;
    if (settling_since_ < 0) settling_since_ = MPI_Wtime();
    if (MPI_Wtime() - settling_since_ < longest_wait || !message.link->take_back(message.number)) {
      settled = false;
      continue;
    }
    message.kept().valid = false;
    run_strided_host(tasks_.pack(message));
    send(message);
  }
  return settled;
}

void WholeMessages::start_messages() {
  for (auto& message : incoming_.messages) {
    message.num_open = message.link ? 1 : message.num_requests;
    message.is_released = false;
    if (message.link) message.number = message.link->next_receive();
  }
  for (auto& message : outgoing_.messages) {
    message.sent_in_place = false;
    if (message.link) message.number = message.link->next_send();
  }
  num_open_ = int(incoming_.messages.size());
  phase_ = Phase::receiving;
  discards_ = is_zeroed_ = false;
  // One by one: MPI_Startall starts in any order, and the pieces of a long message are told apart by their order only.
  arrived_.clear();
  call_.failure.clear();
  for (std::size_t r = 0; r < incoming_.requests.size(); ++r) {
    start(incoming_.requests[r]);
    open_[r] = 1;
  }
}

void WholeMessages::refuse() {
  start_messages();
  Patience patience(call_.comm, call_.description());
  for (auto& message : outgoing_.messages) {
    if (message.link) {
      while (!message.link->has_room(message.number)) patience.pause();
      message.link->outgoing(message.number).bytes = refused_post;
      message.link->publish(message.number);
    }
    for (int r = 0; r < message.num_requests; ++r) start(outgoing_.requests[std::size_t(message.first_request + r)]);
  }
}

bool WholeMessages::is_free(Message const& message, int p) noexcept {
  auto const number = message.places[std::size_t(p)].last_number;
  return number == 0 || message.link->is_consumed(number);
}

bool WholeMessages::has_free_buffers() const {
  auto const& messages = outgoing_.messages;
  auto const all_free = [&](int p) {
    return std::all_of(messages.begin(), messages.end(),
                       [&](Message const& message) { return !message.link || is_free(message, p); });
  };
  if (call_.shape.on_device()) return all_free(0) || all_free(1);
  return std::all_of(messages.begin(), messages.end(), [&](Message const& message) {
    return !message.link || is_free(message, 0) || is_free(message, 1);
  });
}

void WholeMessages::open_place(Message& message) {
  if (!message.link) return;
  auto const is_open = [&] {
    return message.link->has_room(message.number) && (is_free(message, 0) || is_free(message, 1));
  };
  if (!is_open())
    for (Patience patience(call_.comm, call_.description()); !is_open();) patience.pause();
  take_place(message, is_free(message, 0) ? 0 : 1);
}

void WholeMessages::open_places() {
  auto const& messages = outgoing_.messages;
  auto const has_room = [](Message const& message) { return !message.link || message.link->has_room(message.number); };
  Patience patience(call_.comm, call_.description());
  while (!has_free_buffers() || !std::all_of(messages.begin(), messages.end(), has_room)) patience.pause();
  auto const first_is_free = [](Message const& message) { return !message.link || is_free(message, 0); };
  int const place = std::all_of(messages.begin(), messages.end(), first_is_free) ? 0 : 1;
  for (auto& message : outgoing_.messages)
    if (message.link) take_place(message, place);
}

bool WholeMessages::wait_for_reader(Message const& message, int p) const {
  if (!message.on_device || message.places[std::size_t(p)].last_number == 0) return true;
  PostedCells cells;
  std::memcpy(&cells, message.places[std::size_t(p)].memory.data, sizeof cells);
  return cells.read.process == 0 || wait_for_event(call_.queue, cells.read);
}

void WholeMessages::take_place(Message& message, int p) {
  auto const place = std::size_t(p);
  if (!wait_for_reader(message, p))
    throw Error("OutOfMemory", "an event of rank " + std::to_string(message.peer->peer) + " cannot be opened");
  message.place = p;
  message.places[place].last_number = message.number;
  message.wire = message.places[place].memory.data;
  if (!call_.shape.on_device()) message.packed = message.wire;
  if (message.on_device) message.packed = message.places[place].device;
}

void WholeMessages::stage_out(Message& message) const {
  if (message.bytes > 0 && message.packed != message.wire && !message.on_device)
    copy_to_host(call_.queue, message.wire, message.packed, message.bytes);
}

void WholeMessages::close_places() {
  bool waits = false;
  SharedEvent* packed = nullptr;
  for (auto& message : outgoing_.messages) {
    stage_out(message);
    if (message.on_device)
      packed = &outgoing_.packed[std::size_t(message.place)];
    else
      waits = waits || message.bytes > 0;
  }
  if (packed) packed->record(call_.queue);
  if (waits) fence();
}

void WholeMessages::fence() {
  detail::fence(call_.queue);
  is_read_ = false;
}

void WholeMessages::send(Message& message) {
  if (message.trailer_bytes > 0) {
    Trailer const trailer{call_.fields().hash, std::uint32_t(call_.number)};
    std::memcpy(message.wire + message.bytes, &trailer, sizeof trailer);
  }
  if (message.link) {
    auto& post = message.link->outgoing(message.number);
    post.content = message.places[std::size_t(message.place)].memory.address;
    post.bytes = message.bytes;
    post.num_views = 0;
    if (message.on_device) {
      PostedCells cells{outgoing_.device_address.value(), outgoing_.packed[std::size_t(message.place)].address(), {}};
      cells.address.offset += std::uint64_t(message.packed - outgoing_.device.data());
      std::memcpy(message.wire, &cells, sizeof cells);
      post.num_views = packed_on_device;
    }
    post.fields = call_.fields().hash;
    post.call = std::uint32_t(call_.number);
    message.sent_in_place = false;
    message.link->publish(message.number);
    return;
  }
  for (int r = 0; r < message.num_requests; ++r) start(outgoing_.requests[std::size_t(message.first_request + r)]);
}

void WholeMessages::send_in_place(Message& message) {
  write_views(message.wire, posted().images, posted().addresses);
  auto& post = message.link->outgoing(message.number);
  post.content = message.places[std::size_t(message.place)].memory.address;
  post.bytes = message.bytes;
  post.num_views = std::uint32_t(posted().images.size());
  post.fields = call_.fields().hash;
  post.call = std::uint32_t(call_.number);
  message.sent_in_place = true;
  message.link->offer(message.number);
}

void WholeMessages::poll_requests() {
  for (std::size_t r = 0; r < open_.size(); ++r) {
    if (!open_[r]) continue;
    int done = 0;
    MPI_Status status;
    // One request a call: MPICH 4.0.2 ends the program when MPI_Testsome meets a message longer than its buffer.
    int const code = MPI_Test(&incoming_.requests[r], &done, &status);
    if (code == MPI_SUCCESS && !done) continue;
    open_[r] = 0;
    if (incoming_.requests[r] == MPI_REQUEST_NULL) renew_receive(r);
    note_arrival(r, code, status);
  }
}

void WholeMessages::renew_receive(std::size_t request) {
  // Open MPI (4.1.4) frees a persistent request that ends with an error: a message longer than its buffer.
  auto const& message = incoming_.messages[std::size_t(incoming_.message_of_request[request])];
  auto const piece = request - std::size_t(message.first_request);
  incoming_.requests[request] =
      make_request(call_.comm.handle(), plan_.tag, Way::in, message,
                   {message.wire + piece * max_request_bytes, std::size_t(incoming_.bytes_of_request[request])});
}

void WholeMessages::poll() {
  poll_requests();
  for (auto& message : incoming_.messages)
    if (message.link && message.num_open > 0 && message.link->begin_reading(message.number)) note_post(message);
}

void WholeMessages::fail(Message const& message, std::string const& sent) {
  if (!call_.failure.text.empty()) return;
  call_.failure.rule = "FieldMismatch";
  call_.failure.text = "rank " + std::to_string(message.peer->peer) + " sent " + sent +
                       ": their fields differ in number, type or batch axes";
}

void WholeMessages::note_refusal(Message& message) {
  // Of all that may be wrong, this is the reason.
  call_.failure.rule = "PeerRefused";
  call_.failure.text = "rank " + std::to_string(message.peer->peer) + " refused call " + std::to_string(call_.number) +
                       " of " + named_plan(plan_.name, "the plan") +
                       " and has thrown the reason; cells of this call are unspecified, and its next call pairs with "
                       "that of this rank";
  // The other pieces of a long message do not come.
  message.num_open = 0;
  for (int r = message.first_request; r < message.first_request + message.num_requests; ++r) {
    if (!open_[std::size_t(r)]) continue;
    open_[std::size_t(r)] = 0;
    check_mpi(MPI_Cancel(&incoming_.requests[std::size_t(r)]), "MPI_Cancel");
    check_mpi(MPI_Wait(&incoming_.requests[std::size_t(r)], MPI_STATUS_IGNORE), "MPI_Wait");
  }
}

bool WholeMessages::matches(Message const& message, Trailer const& trailer) {
  if (!call_.failure.text.empty()) return false;
  call_.failure.rule = "FieldMismatch";
  if (trailer.call != std::uint32_t(call_.number))
    call_.failure.text = "rank " + std::to_string(message.peer->peer) + " is in call " + std::to_string(trailer.call) +
                         " of " + named_plan(plan_.name, "the plan") + ", this rank in call " +
                         std::to_string(call_.number) + ": a call failed or was left out on one of them";
  else if (trailer.fields != call_.fields().hash)
    fail(message, "fields of other types or batch axes");
  return call_.failure.text.empty();
}

void WholeMessages::note_post(Message& message) {
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
  if (message.now().in_place != in_place && !call_.shape.on_device()) {
    message.kept().valid = false;
    tasks_.forget_additions();
  }
  message.now().in_place = in_place;
  if (message.bytes == 0) return arrived(message);
  if (!map_post(message, post)) throw not_mapped(message.peer->peer, call_.shape.space, call_.shape.device);
  arrived(message);
}

bool WholeMessages::map_post(Message& message, messages::Post const& post) {
  message.wire = message.reader.map(post.content);
  if (message.wire == nullptr) return false;
  bool const on_device = call_.shape.on_device();
  // What lies on a device goes to fields on the host by way of the one on which Kokkos was started.
  auto const reader = on_device ? call_.queue : DeviceQueue();
  auto const receive = [&](Buffer::Kind kind) {
    if (!message.received.data()) message.received = Buffer(message.bytes, kind, call_.shape.device);
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
  message.now().images.resize(message.now().in_place ? post.num_views : 0);
  for (std::size_t i = 0; mapped && i < message.now().images.size(); ++i) {
    auto const& posted = reinterpret_cast<PostedView const*>(message.wire)[i];
    auto& image = message.now().images[i];
    auto const before = image;
    mapped = read_view(posted, device_of(reader), image);
    if (image == before || on_device) continue;
    message.kept().valid = false;
    tasks_.forget_additions();
  }
  if (!on_device) {
    message.packed = message.wire;
    return mapped;
  }
  message.packed = message.places[0].device ? message.places[0].device : receive(Buffer::Kind::device);
  if (message.now().in_place) return mapped;
  copy_to_device(call_.queue, message.packed, message.wire, message.bytes);
  is_read_ = true;
  return mapped;
}

void WholeMessages::note_arrival(std::size_t request, int code, MPI_Status const& status) {
  auto& message = incoming_.messages[std::size_t(incoming_.message_of_request[request])];
  if (call_.shape.refused) {
    message.num_open = 0;
    return;
  }
  int const expected = incoming_.bytes_of_request[request];
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
  if (message.trailer_bytes > 0 && call_.failure.text.empty()) {
    Trailer trailer;
    std::memcpy(&trailer, message.wire + message.bytes, sizeof trailer);
    if (!matches(message, trailer)) return arrived(message);
  }
  if (message.packed != message.wire && message.bytes > 0) {
    copy_to_device(call_.queue, message.packed, message.wire, message.bytes);
    is_read_ = true;
  }
  arrived(message);
}

void WholeMessages::release(Message& message) const noexcept {
  if (message.link) message.link->consume(message.number);
}

void WholeMessages::release_all_after_queue() {
  // A call without a queue of its own waits for its work anyway, and then without an event.
  if (!call_.queue.instance()) {
    fence();
    for (auto& message : incoming_.messages)
      if (!message.is_released) release(message);
    return;
  }
  bool staged = false;
  bool remote = false;
  for (auto const& message : incoming_.messages) {
    if (!message.link)
      is_read_ = true;
    else if (message.on_device)
      remote = true;
    else if (!message.is_released)
      staged = staged || message.bytes > 0;
  }
  if (remote && !read_) read_ = SharedEvent::make(call_.shape.device);
  // Memory of the host is written by hosts, which do not wait for queues.
  if (staged || (remote && !read_)) fence();
  if (remote && read_) read_->record(call_.queue);
  for (auto& message : incoming_.messages) {
    if (!message.link || message.is_released) continue;
    if (message.on_device && read_)
      std::memcpy(message.wire + offsetof(PostedCells, read), &read_->address(), sizeof(EventAddress));
    message.link->consume(message.number);
  }
}

bool WholeMessages::test() {
  poll_requests();
  if (std::find(open_.begin(), open_.end(), 1) != open_.end()) return false;
  for (auto const& message : incoming_.messages)
    if (message.link && message.num_open > 0 && !message.link->has_come(message.number)) return false;
  // What peers read in place does not count: `wait()` packs it for those that are late.
  for (auto const& request : outgoing_.requests) {
    int done = 0;
    check_mpi(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (!done) return false;
  }
  return true;
}

bool WholeMessages::is_sending() {
  auto& requests = outgoing_.requests;
  int done = requests.empty() ? 1 : 0;
  if (!done) check_mpi(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return !done;
}

bool WholeMessages::has_ended() {
  poll_requests();
  bool ended = !is_sending();
  for (auto& message : incoming_.messages) {
    if (message.link && message.num_open > 0 && message.link->begin_reading(message.number)) {
      message.link->consume(message.number);
      message.num_open = 0;
    }
    ended = ended && message.num_open == 0;
  }
  return ended;
}

void WholeMessages::cancel_receives() noexcept {
  // Only what was started: MPICH ends the program when an idle persistent request is cancelled.
  for (std::size_t r = 0; r < incoming_.requests.size(); ++r)
    if (open_[r]) MPI_Cancel(&incoming_.requests[r]);
}

void WholeMessages::abandon() noexcept {
  cancel_receives();
  // Peers on this node are told; what they post to this rank is never read_.
  for (auto& message : outgoing_.messages) {
    if (!message.link || message.link->has_been_published(message.number)) continue;
    message.link->outgoing(message.number).bytes = refused_post;
    message.link->publish(message.number);
  }
}

Index WholeMessages::buffer_bytes() const noexcept {
  Index result = Index(outgoing_.shared.bytes);
  for (auto const* set : {&outgoing_, &incoming_})
    for (auto const& message : set->messages) {
      if (!message.link) result += Index(message.bytes);
      for (auto const& place : message.places)
        if (place.device) result += Index(message.bytes);
      for (auto const* buffer : {&message.received, &message.staged})
        if (buffer->data()) result += Index(message.bytes);
    }
  return result;
}

std::string WholeMessages::describe() const {
  std::string text = "rank " + std::to_string(plan_.comm.rank()) + " waits in call " + std::to_string(call_.number) +
                     " (" + (call_.shape.direction == Direction::forward ? "forward" : "adjoint") + ") of " +
                     named_plan(plan_.name, "a plan") + " for";
  char const* separator = " ";
  auto const add = [&](Message const& message, char const* what) {
    text += separator + std::string(what) + " rank " + std::to_string(message.peer->peer) + " (" +
            std::to_string(message.bytes) + " bytes, " + (message.link ? "node-shared memory" : "point-to-point") + ")";
    separator = ", ";
  };
  for (auto const& message : incoming_.messages)
    if (message.num_open > 0) add(message, "a message from");
  for (auto const& message : outgoing_.messages)
    if (message.link && !message.link->is_consumed(message.number)) add(message, "its message to be read by");
  return text;
}

}  // namespace graticule::detail
