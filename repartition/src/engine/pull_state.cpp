// SPDX-License-Identifier: BSD-3-Clause
#include "pull_state.hpp"

#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/mpi_thread.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/hash.hpp>
#include <graticule/repartition/copy_kernels.hpp>
#include <graticule/repartition/detail/device_mpi.hpp>
#include <graticule/repartition/detail/overlap.hpp>
#include <graticule/repartition/plan_name.hpp>
#include <graticule/repartition/tuning.hpp>

#include "kernels/kokkos_compat.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace graticule::detail {

PullState::PullState(Comm const& comm, PullDescription const& d)
    : plan_(comm, d),
      generation_(comm.generation()),
      comparison_(comm),
      checks_(plan_),
      transport_(plan_.environment.transport),
      chosen_by_(plan_.environment.chosen_by) {
  // Before the cells are verified, so that a plan that fails can be looked at.
  auto dumped = plan_.environment.dump ? dump_where_asked() : std::string();
  if (checks_cells()) {
    verify_cells();
    if (plan_.links->settle(seconds_to_end())) workspaces_.clear();
  }
  dump_file_ = std::move(dumped);
}

PullState::~PullState() {
  forget_work(this);
  bool const ended = end_calls_in_time();
  // Nobody reads what was posted before the communicator was renewed.
  if (plan_.links->settle(plan_.comm.generation() == generation_ ? seconds_to_end() : 0) && ended) {
    workspaces_.clear();
    plan_.links->free_rings();
    return;
  }
  // A peer has not read its messages yet, or may still send some: their memory stays until this process ends.
  for (auto& workspace : workspaces_) keep_for_good(std::move(workspace));
}

bool PullState::is_alive() const { return plan_.comm.generation() == generation_ && !plan_.comm.failed_peer(); }

void PullState::check_generation() const {
  if (mpi_is_over()) throw Error("WrongState", "a call of " + plan_.label() + " after MPI_Finalize");
  require_mpi_thread();
  if (plan_.comm.generation() == generation_) return;
  throw Error("StalePlan", plan_.label() + " was made before its communicator was renewed (" +
                               std::to_string(plan_.comm.generation() - generation_) +
                               " times since): construct it again");
}

bool PullState::end_calls_in_time() noexcept {
  if (gave_up_) return false;
  if ((ending_.empty() && !plan_.segments) || mpi_is_over()) return true;
  try {
    double const begin = MPI_Wtime();
    auto const sends = [](auto const& workspace) {
      return workspace->stream && !workspace->stream->has_free_buffers();
    };
    // Calls do not go on: their messages would be mixed with those of this generation.
    if (plan_.comm.generation() != generation_)
      return ending_.empty() && streams_.empty() && std::none_of(workspaces_.begin(), workspaces_.end(), sends);
    while (advance_streams() || !end_calls() || !streams_.empty() ||
           std::any_of(workspaces_.begin(), workspaces_.end(), sends)) {
      if (MPI_Wtime() - begin > seconds_to_end() || !is_alive()) {
        for (auto* workspace : ending_) workspace->cancel_receives();
        return false;
      }
      std::this_thread::yield();
    }
  } catch (...) {
    return false;
  }
  return true;
}

std::vector<PeerPath> PullState::paths() const {
  std::map<int, PeerPath> paths;
  for (auto const* side : {&plan_.table.sends, &plan_.table.receives}) {
    for (auto const& peer : *side) {
      auto& path = paths[peer.peer];
      path.peer = peer.peer;
      auto const cells = std::accumulate(peer.num_cells.begin(), peer.num_cells.end(), Index(0));
      (side == &plan_.table.sends ? path.send_cells : path.receive_cells) += cells;
    }
  }
  std::vector<PeerPath> result;
  for (auto& [peer, path] : paths) {
    bool const shared = transport_ != Transport::point_to_point && plan_.links->find(peer);
    path.path = shared ? Transport::node_shared : Transport::point_to_point;
    path.reason = shared || !plan_.links->find(peer) ? plan_.links->reason(peer) : "point-to-point was asked for";
    bool const chosen = shared || path.reason == "point-to-point was asked for";
    if (chosen && chosen_by_ == ChosenBy::tuning_file) path.reason = "the faster one by the file of GRATICULE_TUNING";
    if (chosen && chosen_by_ == ChosenBy::measurement) path.reason = "the faster one as measured by tune";
    result.push_back(path);
  }
  return result;
}

void PullState::count(Workspace const& w) const {
  ++stats_.num_calls;
  for (auto const& message : w.outgoing.messages) {
    auto& sent = !message.link ? stats_.point_to_point : message.in_place ? stats_.node_in_place : stats_.node_packed;
    ++sent.num_messages;
    sent.bytes += Index(message.bytes);
  }
  for (std::size_t f = 0; f < w.shape.kinds.size(); ++f)
    stats_.local_bytes += plan_.local_cells[std::size_t(w.shape.kinds[f])] * w.shape.cell_bytes[f];
}

PullStats PullState::stats() const {
  auto result = stats_;
  result.mpi_reads_device = plan_.mpi_reads_device;
  result.peers_read_device = plan_.peers_read_device;
  if (auto const* const kernel = chosen_copy_kernel()) result.long_copies = kernel->name;
  result.num_workspaces = num_workspaces();
  for (auto const& workspace : workspaces_) result.buffer_bytes += workspace->buffer_bytes();
  return result;
}

bool PullState::test(Workspace& w) const {
  OnDevice const scope(w.current_device());
  if (!w.stream) return w.test();
  (void)advance_streams();
  return !is_under_way(w);
}

void PullState::set_transport(Transport transport, ChosenBy chosen_by) {
  transport_ = transport;
  chosen_by_ = chosen_by;
}

PullCounts PullState::counts() const noexcept {
  PullCounts result;
  result.num_send_peers = int(plan_.table.sends.size());
  result.num_receive_peers = int(plan_.table.receives.size());
  auto const cells = [](PeerTransfers const& peer) {
    return std::accumulate(peer.num_cells.begin(), peer.num_cells.end(), Index(0));
  };
  for (auto const& peer : plan_.table.sends) result.send_cells += cells(peer);
  for (auto const& peer : plan_.table.receives) result.receive_cells += cells(peer);
  for (auto const& transfer : plan_.table.local) result.local_cells += transfer.to.num_cells();
  for (auto const& filling : plan_.table.fillings) result.filled_cells += filling.to.num_cells();
  return result;
}

namespace {

void add(Hash& hash, Update const& update) {
  auto const beta = update.beta.value_or(std::nan(""));
  for (double const part : {update.alpha.real(), update.alpha.imag(), beta.real(), beta.imag()})
    hash.add(std::bit_cast<std::uint64_t>(part));
  hash.add(int(update.operation));
}

void add(Hash& hash, std::optional<Packing> const& packing) {
  hash.add(packing.has_value());
  if (packing)
    hash.add(std::bit_cast<std::uint64_t>(packing->scale))
        .add(std::bit_cast<std::uint64_t>(packing->offset))
        .add(packing->missing.has_value())
        .add(packing->missing.value_or(0));
}

/// What all ranks must agree on in a call.
std::uint32_t hash_of(std::span<PullField const> fields, Direction direction) {
  Hash hash;
  hash.add(int(direction));
  for (auto const& field : fields) {
    hash.add(field.kind).add(int(field.parity)).add(int(field.source.dtype));
    if (!field.targets.empty()) hash.add(int(field.targets[0].dtype));
    add(hash, field.update);
    for (auto const* packing : {&field.source_packing, &field.target_packing}) add(hash, *packing);
    for (int m = 0; m < field.source.ndim(); ++m)
      if (std::find(field.source.grid_axes.begin(), field.source.grid_axes.end(), Index(m)) ==
          field.source.grid_axes.end())
        hash.add(field.source.extents[m]);
  }
  return std::uint32_t(hash.value());
}

}  // namespace

namespace {

std::string short_number(double value) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

std::string text_of(std::complex<double> const& value) {
  auto const real = short_number(value.real());
  return value.imag() == 0 ? real : "(" + real + ", " + short_number(value.imag()) + ")";
}

std::string text_of(Packing const& packing) {
  return "scale " + short_number(packing.scale) + ", offset " + short_number(packing.offset) +
         (packing.missing ? ", missing " + std::to_string(*packing.missing) : "");
}

/// What `hash_of` compares of a field, in words.
std::string text_of(PullField const& field) {
  auto text = to_string(field.source.dtype);
  if (!field.targets.empty() && field.targets[0].dtype != field.source.dtype)
    text += " to " + to_string(field.targets[0].dtype);
  text += " of kind " + std::to_string(place_number(field.kind)) + " with batch axes " +
          to_string(field.source.batch_extents());
  if (field.parity == Parity::odd) text += ", odd parity";
  auto const& update = field.update;
  if (update.alpha != 1.0) text += ", alpha " + text_of(update.alpha);
  if (update.beta) text += ", beta " + text_of(*update.beta);
  if (update.operation == Operation::conjugate) text += ", conjugate";
  if (field.source_packing) text += ", source packed by " + text_of(*field.source_packing);
  if (field.target_packing) text += ", target packed by " + text_of(*field.target_packing);
  return text;
}

/// All fields; neighbors that are described alike together, so that there is room for many.
std::string text_of(std::span<PullField const> fields) {
  if (fields.empty()) return "no fields";
  std::string text;
  for (std::size_t first = 0, end = 0; first < fields.size(); first = end) {
    auto const one = text_of(fields[first]);
    for (end = first + 1; end < fields.size() && text_of(fields[end]) == one;) ++end;
    text += (first ? "; " : "") + (end - first > 1 ? std::to_string(end - first) + " times " : std::string()) + one;
  }
  return text;
}

char const* name_of(Direction direction) {
  return direction == Direction::forward ? "forward" : direction == Direction::adjoint ? "adjoint" : "inverse";
}

}  // namespace

void PullState::check_call(Workspace const& w, std::span<PullField const> fields) const {
  Hash hash;
  hash.add(plan_.tag).add(w.call).add(w.fields_hash);
  comparison_.compare("call " + std::to_string(w.call) + " (" + name_of(w.shape.direction) + ") of " + plan_.label() +
                          " with " + text_of(fields),
                      hash.value());
}

Workspace& PullState::lease(std::span<PullField const> fields, Direction direction, int device) const {
  bool const node_shared = transport_ != Transport::point_to_point;
  auto const matches = [&](Workspace const& workspace) {
    auto const& shape = workspace.shape;
    if (workspace.busy || shape.direction != direction || shape.cell_bytes.size() != fields.size()) return false;
    if (shape.node_shared != node_shared || shape.refused) return false;
    if (!fields.empty() && shape.space != fields.front().source.space) return false;
    if (shape.device != device) return false;
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (shape.kinds[f] != fields[f].kind ||
          shape.cell_bytes[f] != size_of(fields[f].source.dtype) * fields[f].source.num_batch())
        return false;
    return true;
  };
  // Peers may not have read what was sent last. They are given a moment, so that a rank that only sends does not run
  // far ahead; then the call gets a workspace of its own, because they may be waiting for just this call.
  constexpr double longest_wait = 1e-3;
  Workspace* workspace = nullptr;
  auto const must_wait = [&] {
    bool has_match = false;
    for (auto const& candidate : workspaces_) {
      if (!matches(*candidate)) continue;
      has_match = true;
      if (candidate->has_free_places() && (!candidate->stream || candidate->stream->has_free_buffers()))
        workspace = candidate.get();
    }
    return workspace == nullptr && has_match;
  };
  if (must_wait())
    for (double const begin = MPI_Wtime(); must_wait() && MPI_Wtime() - begin < longest_wait;)
      std::this_thread::yield();
  if (workspace == nullptr) {
    CallShape shape{
        .direction = direction, .device = device, .node_shared = node_shared, .streamed = plan_.segments.has_value()};
    if (!fields.empty()) shape.space = fields.front().source.space;
    for (auto const& field : fields) {
      shape.kinds.push_back(field.kind);
      shape.cell_bytes.push_back(size_of(field.source.dtype) * field.source.num_batch());
    }
    int num_views = 0;
    for (auto const& field : fields)
      num_views += direction == Direction::forward ? 1 : int(plan_.kinds[std::size_t(field.kind)].targets.size());
    workspace = &make_workspace(std::move(shape), num_views);
    // How many tasks run together varies from call to call.
    workspace->tasks.reserve(fields.size() * plan_.table.num_transfers());
  }
  workspace->busy = true;
  workspace->set_fields(fields);
  workspace->fields_hash = hash_of(fields, direction);
  workspace->call = num_calls_;
  return *workspace;
}

Workspace& PullState::make_workspace(CallShape shape, int num_views) const {
  auto& workspace = *workspaces_.emplace_back(std::make_unique<Workspace>(plan_, std::move(shape), num_views));
  constexpr Index small_call = 1 << 15;
  Index bytes = 0;
  for (auto const* set : {&workspace.outgoing, &workspace.incoming})
    for (auto const& message : set->messages) bytes += message.bytes;
  for (auto const& transfer : plan_.table.local)
    for (std::size_t f = 0; f < workspace.shape.kinds.size(); ++f)
      if (workspace.shape.kinds[f] == transfer.kind) bytes += transfer.to.num_cells() * workspace.shape.cell_bytes[f];
  workspace.is_small = bytes < small_call && workspace.shape.space == MemorySpace::host;
  if (plan_.segments)
    workspace.stream = std::make_unique<Stream>(plan_, workspace.shape.direction, workspace.shape.space,
                                                workspace.shape.device, workspace.shape.node_shared);
  return workspace;
}

Workspace* PullState::same_call(std::span<PullField const> fields, Direction direction, int device) const {
  if (plan_.segments || !dump_file_.empty()) return nullptr;
  bool const node_shared = transport_ != Transport::point_to_point;
  for (auto const& candidate : workspaces_) {
    auto& w = *candidate;
    auto const& shape = w.shape;
    if (w.busy || !w.known_apart || shape.direction != direction || shape.node_shared != node_shared || shape.refused ||
        shape.device != device || shape.kinds.size() != fields.size() || !w.holds(fields) || !w.has_free_places())
      continue;
    bool const plain = std::all_of(fields.begin(), fields.end(), [](PullField const& field) {
      return field.update == Update{} && !field.source_packing && !field.target_packing;
    });
    return plain ? &w : nullptr;
  }
  return nullptr;
}

Workspace& PullState::accept(std::span<PullField const> fields, Direction direction, int device) const {
  ++num_calls_;
  if (auto* const same = same_call(fields, direction, device)) {
    same->busy = true;
    same->call = num_calls_;
    return *same;
  }
  // Ranks that compare their calls agree there.
  bool const ends_alike = !checks_calls() && std::any_of(fields.begin(), fields.end(), [&](PullField const& field) {
    return rounds(plan_, field, direction);
  });
  Workspace* workspace = nullptr;
  try {
    checks_.check(fields, direction);
    workspace = &lease(fields, direction, device);
    if (!workspace->known_apart) workspace->known_apart = checks_.check_apart(fields, direction);
    if (!dump_file_.empty()) dump_call(*workspace);
  } catch (std::exception const& error) {
    if (workspace) workspace->busy = false;
    if (ends_alike) agree(plan_.comm, std::current_exception());
    refuse(direction, error.what());
    throw;
  }
  if (ends_alike) {
    try {
      agree(plan_.comm, nullptr);
    } catch (...) {
      workspace->busy = false;
      throw;
    }
  }
  return *workspace;
}

void PullState::refuse(Direction direction, std::string const& reason) const {
  if (checks_calls()) {
    Hash hash;
    hash.add(plan_.tag).add(num_calls_).add(~0);
    try {
      comparison_.compare("call " + std::to_string(num_calls_) + " of " + plan_.label() + " refused: " + reason,
                          hash.value());
    } catch (Error const&) {
      // This rank throws the reason.
    }
    return;
  }
  CallShape shape{.direction = direction,
                  .node_shared = transport_ != Transport::point_to_point,
                  .streamed = plan_.segments.has_value(),
                  .refused = true};
  auto const at = std::find_if(workspaces_.begin(), workspaces_.end(), [&](auto const& known) {
    return !known->busy && known->shape == shape && (!known->stream || known->stream->has_free_buffers());
  });
  auto& workspace = at != workspaces_.end() ? **at : make_workspace(std::move(shape), 0);
  workspace.busy = true;
  workspace.call = num_calls_;
  if (workspace.stream) {
    workspace.stream->begin_refusal(num_calls_);
    queue_stream(workspace);
    (void)advance_streams();
  } else {
    ending_.push_back(&workspace);
    workspace.start_refusal();
  }
  work_while_waiting(this, [this] { return plan_.comm.generation() != generation_ || end_refused_calls(); });
}

bool PullState::end_refused_calls() const {
  auto const refused = [](Workspace const* workspace) { return workspace->shape.refused; };
  // What `finish_stream` waits for is ended there.
  while (!streams_.empty() && refused(streams_.front()) && advance_streams()) {
  }
  return end_calls() && std::none_of(streams_.begin(), streams_.end(), refused);
}

bool PullState::end_calls() const {
  std::erase_if(ending_, [](Workspace* workspace) {
    bool const ended = workspace->has_ended();
    workspace->busy = !ended;
    return ended;
  });
  return ending_.empty();
}

namespace {

/// Seconds since it was made or last asked. Reading the clock nine times would be a quarter of a small call: after its
/// first ones, one of 16 is timed and counts for all.
class Stopwatch {
 public:
  explicit Stopwatch(Workspace const& w) : weight_(!w.is_small || w.call <= 16 ? 1 : w.call % 16 == 0 ? 16 : 0) {
    if (weight_ != 0) last_ = MPI_Wtime();
  }
  [[nodiscard]] double lap() {
    if (weight_ == 0) return 0;
    double const now = MPI_Wtime();
    return weight_ * (now - std::exchange(last_, now));
  }

 private:
  double weight_;
  double last_ = 0;
};

}  // namespace

Workspace* PullState::start(std::span<PullField const> fields, Direction direction, DeviceQueue const& given,
                            Posting posting) const {
  Region const region(direction == Direction::forward ? "graticule::start" : "graticule::start_adjoint");
  check_generation();
  if (!ending_.empty()) end_calls();
  bool const on_device = !fields.empty() && fields.front().source.space == MemorySpace::device;
  auto const& queue = on_device ? queue_of_call(given) : given;
  auto& workspace = accept(fields, direction, on_device ? device_of(queue) : 0);
  OnDevice const scope(workspace.current_device());
  try {
    if (checks_calls()) check_call(workspace, fields);
  } catch (...) {
    workspace.busy = false;
    throw;
  }
  try {
    auto const overwrites = [](PullField const& field) { return field.update.beta.value_or(0) == 0.0; };
    // Cells that a call in place leaves as they are must not be lost.
    if (checks_cells() && direction == Direction::forward && workspace.known_apart &&
        std::all_of(fields.begin(), fields.end(), overwrites))
      poison(workspace, queue);
    Stopwatch watch(workspace);
    // What an earlier call copies from the buffers must have been copied before messages arrive in them, and its
    // kernels in another queue may still read tasks and packed cells.
    if (on_device) {
      if (workspace.is_read || workspace.queue.instance() != queue.instance()) workspace.fence();
      workspace.queue = queue;
    }
    if (workspace.stream) {
      start_stream(workspace, fields, queue, posting);
      stats_.pack_seconds += watch.lap();
      return &workspace;
    }
    workspace.start_receives();
    pack_and_send(workspace);
    count(workspace);
    stats_.pack_seconds += watch.lap();
    if (direction == Direction::forward && !moves_with_messages(workspace)) {
      move_local(workspace);
      stats_.local_seconds += watch.lap();
    }
  } catch (...) {
    gave_up_ = true;
    workspace.abandon();
    throw;
  }
  return &workspace;
}

namespace {

/// True when neighbors in a message are no neighbors in the field, or only few in a row are.
bool is_scattered(std::span<StridedTask const> tasks) {
  if (tasks.empty() || tasks.front().ndim == 0) return false;
  return is_thin(tasks.front()) || tasks.front().from_stride[std::size_t(tasks.front().ndim) - 1] != 1;
}

void append(std::vector<StridedTask>& tasks, std::span<StridedTask const> more) {
  tasks.insert(tasks.end(), more.begin(), more.end());
}

}  // namespace

template <class Make>
void PullState::run_with_messages(Workspace& w, MessageSet const& set, KeptTasks& kept, Make const& make) const {
  w.places_packed.clear();
  for (auto const& message : set.messages) w.places_packed.push_back(message.packed);
  if (kept.valid)
    for (auto& copy : kept.device)
      if (copy.valid && copy.packed == w.places_packed) return copy.tasks.run(w.queue);
  make();
  kept.last_device = (kept.last_device + 1) % int(kept.device.size());
  auto& copy = kept.device[std::size_t(kept.last_device)];
  copy.tasks.set(kept.tasks, w.queue);
  copy.packed = w.places_packed;
  copy.valid = true;
  copy.tasks.run(w.queue);
}

void PullState::pack_and_send(Workspace& w) const {
  Region const region("graticule::pack");
  w.tasks.clear();
  if (w.shape.space == MemorySpace::device) {
    w.open_places();
    run_with_messages(w, w.outgoing, w.pack_all, [&] { (void)all_tasks(w, w.outgoing, w.pack_all); });
    w.close_places();
    for (auto& message : w.outgoing.messages) w.send(message);
    return;
  }
  find_images(w);
  // Columns are packed for all peers together, rows message by message, so that the first leaves early.
  w.unsent.clear();
  for (auto& message : w.outgoing.messages) {
    w.open_place(message);
    auto const tasks = pack_tasks(w, message);
    // Scattered cells are gathered faster by the rank that they belong to than by the one that reads them.
    if (message.link && !w.addresses.empty() && message.bytes > 0 && !is_scattered(tasks)) {
      w.send_in_place(message);
      continue;
    }
    if (!tasks.empty() && is_thin(tasks.front())) {
      append(w.tasks, tasks);
      w.unsent.push_back(&message);
      continue;
    }
    run_strided(tasks, w.shape.space);
    w.send(message);
  }
  run_strided(w.tasks, w.shape.space);
  for (auto* message : w.unsent) w.send(*message);
}

void PullState::settle_in_place(Workspace& w) const {
  // A peer that is busy elsewhere must not hold up this rank, which MPI would not either: then the cells are packed.
  constexpr double longest_wait = 2e-4;
  double const begin = MPI_Wtime();
  for (auto& message : w.outgoing.messages) {
    if (!message.in_place) continue;
    Patience patience(w.comm, w.description());
    while (!message.link->is_consumed(message.number)) {
      patience.pause();
      if (MPI_Wtime() - begin < longest_wait || !message.link->take_back(message.number)) continue;
      message.kept.valid = false;
      run_strided(pack_tasks(w, message), w.shape.space);
      w.send(message);
      break;
    }
  }
}

bool PullState::moves_with_messages(Workspace const& w) const noexcept {
  // A device moves as many bytes while the host launches one kernel more.
  constexpr Index most_bytes = Index(4) << 20U;
  if (w.shape.space == MemorySpace::host || w.incoming.messages.empty()) return false;
  Index bytes = 0;
  for (std::size_t f = 0; f < w.sources.size(); ++f)
    bytes += plan_.local_cells[std::size_t(w.shape.kinds[f])] * w.shape.cell_bytes[f];
  return bytes <= most_bytes;
}

void PullState::move_local(Workspace& w) const {
  Region const region("graticule::local");
  run(w, local_tasks(w));
}

void PullState::finish(Workspace& w) const {
  Region const region("graticule::wait");
  OnDevice const scope(w.current_device());
  if (plan_.comm.generation() != generation_) ending_.push_back(&w);
  check_generation();
  if (w.stream) return finish_stream(w);
  Stopwatch watch(w);
  try {
    if (w.shape.direction == Direction::forward)
      unpack_forward(w);
    else
      add_adjoint(w);
    (void)watch.lap();
    settle_in_place(w);
    if (!w.failure.empty()) throw Error(w.failed_rule, w.failure);
    w.wait_sends();
  } catch (...) {
    // A peer may not take for long what this rank has sent it; nobody waits for that.
    ending_.push_back(&w);
    throw;
  }
  stats_.wait_seconds += watch.lap();
  w.busy = false;
}

void PullState::drain(Workspace& w) const {
  OnDevice const scope(w.current_device());
  check_generation();
  if (w.stream) return finish_stream(w);
  try {
    while (w.num_messages_open > 0)
      for (int const m : w.wait_some()) w.release(w.incoming.messages[std::size_t(m)]);
    settle_in_place(w);
    if (!w.failure.empty()) return ending_.push_back(&w);
    w.wait_sends();
  } catch (...) {
    ending_.push_back(&w);
    throw;
  }
  w.busy = false;
}

bool PullState::lacks_memory(Workspace const& w) const noexcept {
  for (std::size_t f = 0; f < w.sources.size(); ++f)
    if (!plan_.source_box(w.shape.kinds[f]).empty() && w.sources[f].data == nullptr && w.sources[f].num_batch() > 0)
      return true;
  return false;
}

void PullState::set_sources(Workspace& w, std::span<FieldView const> sources) const {
  checks_.check_sources(w, sources);
  std::copy(sources.begin(), sources.end(), w.sources.begin());
  w.additions.valid = false;
}

void PullState::run(Workspace const& w, KeptTasks& kept) const {
  if (w.shape.space == MemorySpace::host) return run_strided_host(kept.tasks);
  auto& copy = kept.device.front();
  if (!copy.valid) copy.tasks.set(kept.tasks, w.queue);
  copy.valid = true;
  copy.tasks.run(w.queue);
}

void PullState::unpack_on_device(Workspace& w) const {
  Stopwatch watch(w);
  receive_on_device(w);
  stats_.wait_seconds += watch.lap();
  if (w.failure.empty())
    run_with_messages(w, w.incoming, w.unpack_all, [&] { (void)all_tasks(w, w.incoming, w.unpack_all); });
  w.release_all_after_queue();
  stats_.unpack_seconds += watch.lap();
}

void PullState::unpack_forward(Workspace& w) const {
  if (w.shape.space == MemorySpace::device) return unpack_on_device(w);
  while (w.num_messages_open > 0) {
    w.tasks.clear();
    Stopwatch watch(w);
    auto const& arrived = w.wait_some();
    stats_.wait_seconds += watch.lap();
    for (int const m : arrived)
      if (w.failure.empty()) append(w.tasks, unpack_tasks(w, w.incoming.messages[std::size_t(m)]));
    run_strided(w.tasks, w.shape.space);
    for (int const m : arrived) w.release(w.incoming.messages[std::size_t(m)]);
    stats_.unpack_seconds += watch.lap();
  }
}

void PullState::add_adjoint(Workspace& w) const {
  Stopwatch watch(w);
  if (w.shape.space == MemorySpace::device) receive_on_device(w);
  while (w.num_messages_open > 0) (void)w.wait_some();
  stats_.wait_seconds += watch.lap();
  auto const zero = [&] {
    if (w.failure.empty() && plan_.after_adjoint == AfterAdjoint::zero) run(w, zero_tasks(w));
  };
  if (w.shape.space == MemorySpace::device) {
    if (w.failure.empty()) run_with_messages(w, w.incoming, w.additions, [&] { (void)addition_tasks(w); });
    zero();
    w.release_all_after_queue();
    stats_.unpack_seconds += watch.lap();
    return;
  }
  if (w.failure.empty()) run(w, addition_tasks(w));
  for (auto& message : w.incoming.messages) w.release(message);
  stats_.unpack_seconds += watch.lap();
  settle_in_place(w);
  zero();
}

}  // namespace graticule::detail
