// SPDX-License-Identifier: BSD-3-Clause
#include "pull_state.hpp"

#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/mpi_thread.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>

#include "call_tasks.hpp"
#include "kernels/kokkos_compat.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

namespace graticule::detail {

PullState::PullState(Comm const& comm, PullDescription const& d)
    : plan_(comm, d),
      generation_(comm.generation()),
      comparison_(comm),
      checks_(plan_),
      transport_(plan_.environment.transport),
      chosen_by_(plan_.environment.chosen_by),
      segments_(plan_.segments ? plan_.segments->budget : 0) {
  // Before the cells are verified, so that a plan that fails can be looked at.
  auto dumped = plan_.environment.dump ? dump_where_asked() : std::string();
  if (checks_cells()) {
    verify_cells();
    if (plan_.links->settle(seconds_to_end())) calls_.clear();
  }
  dump_file_ = std::move(dumped);
}

PullState::~PullState() {
  forget_work(this);
  bool const ended = end_calls_in_time();
  // Nobody reads what was posted before the communicator was renewed.
  if (plan_.links->settle(plan_.comm.generation() == generation_ ? seconds_to_end() : 0) && ended) {
    calls_.clear();
    plan_.links->free_rings();
    return;
  }
  // A peer has not read its messages yet, or may still send some: their memory stays until this process ends.
  for (auto& call : calls_) keep_for_good(std::move(call));
}

bool PullState::is_alive() const { return plan_.comm.generation() == generation_ && !plan_.comm.failed_peer(); }

void PullState::check_generation() const {
  if (mpi_is_over()) throw Error("WrongState", plan_.label() + " is called after MPI_Finalize");
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
    // Calls do not go on: their messages would be mixed with those of this generation.
    if (plan_.comm.generation() != generation_) return ending_.empty() && segments_.is_idle();
    while (segments_.advance() || !end_calls() || !segments_.is_idle()) {
      if (MPI_Wtime() - begin > seconds_to_end() || !is_alive()) {
        for (auto* call : ending_) call->messages().cancel_receives();
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

PullStats PullState::stats() const {
  auto result = stats_;
  result.mpi_reads_device = plan_.mpi_reads_device;
  result.peers_read_device = plan_.peers_read_device;
  if (auto const* const kernel = chosen_copy_kernel()) result.long_copies = kernel->name;
  result.num_workspaces = num_workspaces();
  for (auto const& call : calls_) result.buffer_bytes += call->messages().buffer_bytes();
  return result;
}

bool PullState::test(Call& call) const {
  OnDevice const scope(call.current_device());
  return call.messages().test();
}

void PullState::set_transport(Transport transport, ChosenBy chosen_by) {
  repeatable_ = nullptr;
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

void PullState::check_call(Call const& call, std::span<PullField const> fields) const {
  Hash hash;
  hash.add(plan_.tag).add(call.number).add(call.fields().hash);
  comparison_.compare("call " + std::to_string(call.number) + " (" + name_of(call.shape.direction) + ") of " +
                          plan_.label() + " with " + text_of(fields),
                      hash.value());
}

PullState::Found PullState::find_free(std::span<PullField const> fields, CallShape const& wanted) const {
  Found found;
  for (auto const& candidate : calls_) {
    if (!candidate->fits(fields, wanted)) continue;
    found.has_match = true;
    if (!candidate->messages().has_free_buffers()) continue;
    found.call = candidate.get();
    found.is_same = candidate->knows(fields);
    if (found.is_same) break;
  }
  return found;
}

Call& PullState::lease(std::span<PullField const> fields, CallShape wanted, Found found) const {
  // Peers may not have read what was sent last. They are given a moment, so that a rank that only sends does not run
  // far ahead; then the call gets buffers of its own, because they may be waiting for just this call.
  constexpr double longest_wait = 1e-3;
  if (found.call == nullptr && found.has_match)
    for (double const begin = MPI_Wtime(); found.call == nullptr && MPI_Wtime() - begin < longest_wait;) {
      std::this_thread::yield();
      found = find_free(fields, wanted);
    }
  if (found.call == nullptr) {
    if (!fields.empty()) wanted.space = fields.front().source.space;
    int num_views = 0;
    for (auto const& field : fields) {
      wanted.kinds.push_back(field.kind);
      wanted.cell_bytes.push_back(size_of(field.source.dtype) * field.source.num_batch());
      num_views += wanted.forward() ? 1 : int(plan_.kinds[std::size_t(field.kind)].targets.size());
    }
    found.call = &make_call(std::move(wanted), num_views);
  }
  found.call->busy = true;
  found.call->number = num_calls_;
  found.call->set_fields(fields, found.call->shape.direction);
  return *found.call;
}

Call& PullState::make_call(CallShape shape, int num_views) const {
  return *calls_.emplace_back(std::make_unique<Call>(plan_, std::move(shape), num_views, segments_, stats_));
}

namespace {

/// Without factors and packings, which a call with the same fields may have changed.
bool is_plain(PullField const& field) {
  return field.update == Update{} && !field.source_packing && !field.target_packing;
}

}  // namespace

Call& PullState::accept(std::span<PullField const> fields, Direction direction, int device) const {
  ++num_calls_;
  // Ranks that compare their calls agree there.
  bool const ends_alike = plan_.segments && !checks_calls() &&
                          std::any_of(fields.begin(), fields.end(),
                                      [&](PullField const& field) { return rounds(plan_, field, direction); });
  Call* call = nullptr;
  try {
    CallShape const wanted{
        .direction = direction, .device = device, .node_shared = transport_ != Transport::point_to_point};
    auto const found = find_free(fields, wanted);
    // The checks of the last call hold again.
    if (found.is_same && found.call->use_known(fields) && found.call->fields().known_apart && !plan_.segments &&
        dump_file_.empty() && std::all_of(fields.begin(), fields.end(), is_plain)) {
      found.call->busy = true;
      found.call->number = num_calls_;
      return *found.call;
    }
    checks_.check(fields, direction);
    call = &lease(fields, wanted, found);
    if (!call->fields().known_apart) call->fields().known_apart = checks_.check_apart(fields, direction);
    if (!dump_file_.empty()) dump_call(*call);
  } catch (std::exception const& error) {
    if (call) call->busy = false;
    if (ends_alike) agree(plan_.comm, std::current_exception());
    refuse(direction, error.what());
    throw;
  }
  if (ends_alike) {
    try {
      agree(plan_.comm, nullptr);
    } catch (...) {
      call->busy = false;
      throw;
    }
  }
  return *call;
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
  CallShape shape{.direction = direction, .node_shared = transport_ != Transport::point_to_point, .refused = true};
  auto const at = std::find_if(calls_.begin(), calls_.end(), [&](auto const& known) {
    return !known->busy && known->shape == shape && known->messages().has_free_buffers();
  });
  auto& call = at != calls_.end() ? **at : make_call(std::move(shape), 0);
  call.busy = true;
  call.number = num_calls_;
  ending_.push_back(&call);
  call.messages().refuse();
  work_while_waiting(this, [this] { return plan_.comm.generation() != generation_ || end_calls(); });
}

bool PullState::end_calls() const {
  std::erase_if(ending_, [](Call* call) {
    bool const ended = call->messages().has_ended();
    call->busy = !ended;
    return ended;
  });
  return ending_.empty();
}

Call* PullState::start(std::span<PullField const> fields, Direction direction, DeviceQueue const& given,
                       Posting posting) const {
  bool const has_tool = has_kokkos_tool();
  Region const region(direction == Direction::forward ? "graticule::start" : "graticule::start_adjoint", has_tool);
  check_generation();
  if (!ending_.empty()) end_calls();
  bool const on_device = !fields.empty() && fields.front().source.space == MemorySpace::device;
  auto const& queue = on_device ? queue_of_call(given) : given;
  auto& call = accept(fields, direction, on_device ? device_of(queue) : 0);
  call.has_tool = has_tool;
  OnDevice const scope(call.current_device());
  try {
    if (checks_calls()) check_call(call, fields);
  } catch (...) {
    call.busy = false;
    throw;
  }
  try {
    auto const overwrites = [](PullField const& field) { return field.update.beta.value_or(0) == 0.0; };
    // Cells that a call in place leaves as they are must not be lost.
    if (checks_cells() && direction == Direction::forward && call.fields().known_apart &&
        std::all_of(fields.begin(), fields.end(), overwrites))
      poison(call, queue);
    auto& used = call.fields();
    used.repeats = direction == Direction::forward && !on_device && !checks_calls() && !checks_cells() &&
                   used.known_apart && used.have_one_target() && std::all_of(fields.begin(), fields.end(), is_plain);
    used.are_in_place = used.repeats && used.targets == used.sources;
    if (used.repeats) repeatable_ = &call;
    call.messages().post(fields, queue, posting);
  } catch (...) {
    give_up(call);
    throw;
  }
  return &call;
}

void PullState::give_up(Call& call) const noexcept {
  gave_up_ = true;
  call.messages().abandon();
}

Call* PullState::start_again(std::span<KnownField const> fields) const {
  auto* const call = repeatable_;
  if (call == nullptr || call->busy || !ending_.empty() || !call->use_known(fields) || !call->messages().may_repeat())
    return nullptr;
  check_generation();
  call->busy = true;
  call->number = ++num_calls_;
  // A tool that begins to listen between two calls is seen a few calls later.
  if (call->weight() != 0) call->has_tool = has_kokkos_tool();
  Region const region("graticule::start", call->has_tool);
  try {
    call->messages().repeat();
  } catch (...) {
    give_up(*call);
    throw;
  }
  return call;
}

void PullState::finish(Call& call) const {
  if (plan_.comm.generation() != generation_) ending_.push_back(&call);
  check_generation();
  complete(call);
}

void PullState::complete(Call& call) const {
  Region const region("graticule::wait", call.has_tool);
  OnDevice const scope(call.current_device());
  auto& messages = call.messages();
  Stopwatch watch(call);
  try {
    while (!messages.done()) {
      if (messages.advance()) continue;
      stats_.unpack_seconds += watch.lap();
      Patience patience(call.comm, call.description());
      do patience.pause();
      while (!messages.advance());
      stats_.wait_seconds += watch.lap();
    }
    stats_.unpack_seconds += watch.lap();
    messages.conclude();
  } catch (...) {
    // A peer may not take for long what this rank has sent it; nobody waits for that.
    ending_.push_back(&call);
    throw;
  }
  call.busy = false;
}

void PullState::drain(Call& call) const {
  call.messages().discard();
  finish(call);
}

void PullState::set_sources(Call& call, std::span<FieldView const> sources) const {
  checks_.check_sources(call, sources);
  call.set_sources(sources);
}

}  // namespace graticule::detail

namespace graticule {

// Here, beside what they call: repeated small calls have the shortest way.
bool PullPlan::start_again(std::span<detail::KnownField const> fields, Pending& result) const {
  auto* const call = state_->start_again(fields);
  if (call != nullptr) result = {state_, call};
  return call != nullptr;
}

bool PullPlan::apply_again(std::span<detail::KnownField const> fields) const {
  auto* const call = state_->start_again(fields);
  if (call != nullptr) state_->complete(*call);
  return call != nullptr;
}

}  // namespace graticule
