// SPDX-License-Identifier: BSD-3-Clause
#include "pull_state.hpp"

#include <graticule/partition/hash.hpp>
#include <graticule/repartition/tuning.hpp>

#include "check_mode.hpp"
#include "kokkos_compat.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <ranges>
#include <tuple>
#include <utility>

namespace graticule::detail {

namespace {

void check_description(Comm const& comm, PullDescription const& d) {
  if (d.source.num_ranks() > comm.num_ranks())
    throw Error("TooFewRanks", "a layout of " + std::to_string(d.source.num_ranks()) + " ranks on " +
                                   std::to_string(comm.num_ranks()));
  Box const owned = d.source.owned(comm.rank());
  for (auto const& kind : d.kinds) {
    if (!kind.source_box.contains(owned))
      throw Error("SourceTooSmall",
                  "the source covers " + to_string(kind.source_box) + ", this rank owns " + to_string(owned));
    for (auto const& target : kind.targets)
      for (auto const& needed : target.needed)
        if (!target.box.contains(needed))
          throw Error("TargetTooSmall",
                      "the target covers " + to_string(target.box) + ", needed are " + to_string(needed));
  }
}

/// What the environment of rank 0 asks for, by name or by a file of measurements. Collective.
Transport agreed_transport(Comm const& comm, std::uint64_t plan) {
  auto transport = Transport::automatic;
  run_agreed(comm, [&] {
    char const* const file = std::getenv("GRATICULE_TUNING");
    if (comm.rank() != 0) return;
    transport = transport_from_environment();
    if (transport != Transport::automatic || !file || !*file) return;
    if (auto const record = TuningTable::load(file).find(plan)) transport = record->chosen;
  });
  comm.broadcast(&transport, Index(sizeof transport), 0);
  return transport;
}

/// Hash of what must be the same on all ranks. Collective. @throws `PlanDisagreement`
std::uint64_t agreed_fingerprint(Comm const& comm, PullDescription const& d) {
  Hash hash;
  std::string targets;
  hash.add(d.source.fingerprint()).add(d.kinds.size()).add(d.fingerprint).add(int(d.after_adjoint));
  for (auto const& kind : d.kinds) {
    hash.add(kind.targets.size());
    targets += (targets.empty() ? "" : ", ") + std::to_string(kind.targets.size());
  }
  require_same(comm, "PlanDisagreement", hash.value(),
               to_string(d.source) + " with " + targets + " targets, arguments " + std::to_string(d.fingerprint));
  return hash.add(comm.num_ranks()).value();
}

PullTable checked_table(Comm const& comm, PullDescription const& d) {
  run_agreed(comm, [&] { check_description(comm, d); });
  return make_pull_table(comm, d);
}

/// Strides of the batch axes of `view`, in order of memory axes.
void add_batch(FieldView const& view, Indices& strides) {
  for (int m = 0; m < view.ndim(); ++m)
    if (std::find(view.grid_axes.begin(), view.grid_axes.end(), Index(m)) == view.grid_axes.end())
      strides.push_back(view.strides[m]);
}

Index grid_stride(FieldView const& view, int axis) { return view.strides[int(view.grid_axes[axis])]; }

void* element(void* first, DType dtype, Index offset) {
  return static_cast<std::byte*>(first) + offset * size_of(dtype);
}

/// Start and strides of the cells of `box` in a view that covers `cover`.
struct Cells {
  void* first;
  Indices strides;
};

Cells target_cells(FieldView const& view, DType dtype, Indices const& cover_lo, Box const& box) {
  Cells cells{nullptr, {}};
  add_batch(view, cells.strides);
  Index offset = 0;
  for (int a = 0; a < box.ndim(); ++a) {
    offset += (box.lo(a) - cover_lo[a]) * grid_stride(view, a);
    cells.strides.push_back(grid_stride(view, a));
  }
  cells.first = element(view.data, dtype, offset);
  return cells;
}

/// The images of the cells of `transfer.to`, axis by axis of the target.
Cells source_cells(FieldView const& view, DType dtype, Indices const& cover_lo, Transfer const& transfer) {
  Cells cells{nullptr, {}};
  add_batch(view, cells.strides);
  Index offset = 0;
  for (int a = 0; a < transfer.to.ndim(); ++a) {
    auto const& map = transfer.maps[std::size_t(a)];
    Index const first = map.slope * transfer.to.lo(a) + map.offset;
    offset += (first - cover_lo[map.source_axis]) * grid_stride(view, map.source_axis);
    cells.strides.push_back(map.slope * grid_stride(view, map.source_axis));
  }
  cells.first = element(view.data, dtype, offset);
  return cells;
}

Indices extents_of(FieldView const& view, Box const& box) {
  Indices extents = view.batch_extents();
  for (int a = 0; a < box.ndim(); ++a) extents.push_back(box.extent(a));
  return extents;
}

/// What a call does with the memory of a view.
enum class Access : std::uint8_t { none, read, write };

void check_view(FieldView const& view, Box const& box, Access access, char const* role) {
  auto const fail = [&](std::string const& what) {
    throw Error("FieldMismatch",
                std::string(role) + " of " + to_string(view.dtype) + " " + to_string(view.extents) + ": " + what);
  };
  if (view.strides.size() != view.ndim()) fail(std::to_string(view.strides.size()) + " strides");
  if (view.grid_axes.size() != box.ndim())
    fail(std::to_string(view.grid_axes.size()) + " grid axes, the plan has " + std::to_string(box.ndim()));
  for (int a = 0; a < box.ndim(); ++a) {
    Index const axis = view.grid_axes[a];
    if (axis < 0 || axis >= view.ndim() || std::count(view.grid_axes.begin(), view.grid_axes.end(), axis) != 1)
      fail("grid axes " + to_string(view.grid_axes));
  }
  if (box.empty()) return;
  for (int a = 0; a < box.ndim(); ++a)
    if (view.extents[int(view.grid_axes[a])] != box.extent(a))
      fail("axis " + std::to_string(view.grid_axes[a]) + " has " +
           std::to_string(view.extents[int(view.grid_axes[a])]) + " cells, the plan's box " + to_string(box) + " has " +
           std::to_string(box.extent(a)));
  if (access == Access::none || view.num_batch() == 0) return;
  if (view.data == nullptr) fail("no memory");
  for (int m = 0; m < view.ndim(); ++m)
    if (access == Access::write && view.strides[m] == 0 && view.extents[m] > 1)
      fail("axis " + std::to_string(m) + " has stride 0: its cells share memory and cannot be written");
}

}  // namespace

PullState::PullState(Comm const& comm, PullDescription const& d)
    : comm_(comm),
      tag_(comm.next_tag()),
      kinds_(d.kinds),
      after_adjoint_(d.after_adjoint),
      fingerprint_(agreed_fingerprint(comm, d)),
      table_(checked_table(comm, d)),
      global_(d.source.global()),
      owned_(d.source.owned(comm.rank())),
      transport_(agreed_transport(comm, fingerprint_)),
      links_(std::make_unique<NodeLinks>(comm, table_, transport_)) {
  struct Keyed {
    Addition addition;
    Transfer const* transfer;
    int peer;
  };
  std::vector<Keyed> keyed;
  for (std::size_t p = 0; p < table_.sends.size(); ++p)
    for (std::size_t t = 0; t < table_.sends[p].transfers.size(); ++t)
      keyed.push_back(
          {{table_.sends[p].transfers[t].kind, int(p), int(t)}, &table_.sends[p].transfers[t], table_.sends[p].peer});
  for (std::size_t t = 0; t < table_.local.size(); ++t)
    keyed.push_back({{table_.local[t].kind, -1, int(t)}, &table_.local[t], comm_.rank()});
  // Ghosts in order of their own place, then of the rank that holds them: the same for every arrival order.
  std::sort(keyed.begin(), keyed.end(), [](Keyed const& a, Keyed const& b) {
    return std::tie(a.transfer->kind, a.transfer->target, a.transfer->to.lo(), a.peer, a.addition.transfer) <
           std::tie(b.transfer->kind, b.transfer->target, b.transfer->to.lo(), b.peer, b.addition.transfer);
  });
  for (auto const& entry : keyed) additions_.push_back(entry.addition);
  if (!checks_cells()) return;
  verify_cells();
  if (links_->settle()) workspaces_.clear();
}

PullState::~PullState() {
  if (links_->settle()) {
    workspaces_.clear();
    links_->free_rings();
    return;
  }
  // A peer has not read its messages yet: they stay where they are until this process ends.
  for (auto& workspace : workspaces_) (void)workspace.release();
}

std::vector<PeerPath> PullState::paths() const {
  std::map<int, PeerPath> paths;
  for (auto const* side : {&table_.sends, &table_.receives}) {
    for (auto const& peer : *side) {
      auto& path = paths[peer.peer];
      path.peer = peer.peer;
      auto const cells = std::accumulate(peer.num_cells.begin(), peer.num_cells.end(), Index(0));
      (side == &table_.sends ? path.send_cells : path.receive_cells) += cells;
    }
  }
  std::vector<PeerPath> result;
  for (auto& [peer, path] : paths) {
    bool const shared = transport_ != Transport::point_to_point && links_->find(peer);
    path.path = shared ? Transport::node_shared : Transport::point_to_point;
    path.reason = shared || !links_->find(peer) ? links_->reason(peer) : "point-to-point was asked for";
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
  for (auto const& transfer : table_.local)
    for (std::size_t f = 0; f < w.shape.kinds.size(); ++f)
      if (transfer.kind == w.shape.kinds[f]) stats_.local_bytes += transfer.to.num_cells() * w.shape.cell_bytes[f];
}

PullStats PullState::stats() const {
  auto result = stats_;
  result.num_workspaces = num_workspaces();
  for (auto const& workspace : workspaces_) result.buffer_bytes += workspace->buffer_bytes();
  return result;
}

void PullState::set_transport(Transport transport) { transport_ = transport; }

PullCounts PullState::counts() const noexcept {
  PullCounts result;
  result.num_send_peers = int(table_.sends.size());
  result.num_receive_peers = int(table_.receives.size());
  auto const cells = [](PeerTransfers const& peer) {
    return std::accumulate(peer.num_cells.begin(), peer.num_cells.end(), Index(0));
  };
  for (auto const& peer : table_.sends) result.send_cells += cells(peer);
  for (auto const& peer : table_.receives) result.receive_cells += cells(peer);
  for (auto const& transfer : table_.local) result.local_cells += transfer.to.num_cells();
  for (auto const& filling : table_.fillings) result.filled_cells += filling.to.num_cells();
  return result;
}

void PullState::check_field(PullField const& field, Direction direction) const {
  bool const forward = direction == Direction::forward;
  auto const target_access = forward || after_adjoint_ == AfterAdjoint::zero ? Access::write : Access::read;
  auto const source_access = forward ? Access::read : (field.source.data ? Access::write : Access::none);
  if (field.kind < 0 || field.kind >= int(kinds_.size()))
    throw Error("FieldMismatch", "a field of kind " + std::to_string(field.kind) + ", the plan has " +
                                     std::to_string(kinds_.size()) + " kinds");
  auto const& targets = kinds_[std::size_t(field.kind)].targets;
  check_view(field.source, source_box(field.kind), source_access, "source");
  if (field.targets.size() != targets.size())
    throw Error("FieldMismatch", std::to_string(field.targets.size()) + " target views, the plan has " +
                                     std::to_string(targets.size()) + " targets");
  for (std::size_t t = 0; t < targets.size(); ++t) {
    auto const& view = field.targets[t];
    check_view(view, targets[t].box, target_access, "target");
    if (view.dtype != field.source.dtype || !(view.batch_extents() == field.source.batch_extents()))
      throw Error("FieldMismatch", "source of " + to_string(field.source.dtype) + " " +
                                       to_string(field.source.extents) + ", target of " + to_string(view.dtype) + " " +
                                       to_string(view.extents) + ": types and batch axes must be equal");
    if (view.space != field.source.space)
      throw Error("FieldMismatch", "the source and the target of a field lie in different memory spaces");
  }
}

void PullState::check_fields(std::span<PullField const> fields, Direction direction) const {
  for (auto const& field : fields) {
    check_field(field, direction);
    if (field.source.space != fields.front().source.space)
      throw Error("FieldMismatch", "fields of one call lie in different memory spaces");
  }
}

namespace {

/// What all ranks must agree on in a call.
std::uint32_t hash_of(std::span<PullField const> fields, Direction direction) {
  Hash hash;
  hash.add(int(direction));
  for (auto const& field : fields) {
    hash.add(field.kind).add(int(field.parity)).add(int(field.source.dtype));
    for (int m = 0; m < field.source.ndim(); ++m)
      if (std::find(field.source.grid_axes.begin(), field.source.grid_axes.end(), Index(m)) ==
          field.source.grid_axes.end())
        hash.add(field.source.extents[m]);
  }
  return std::uint32_t(hash.value());
}

}  // namespace

void PullState::check_call(Workspace const& w) const {
  std::string fields;
  for (std::size_t f = 0; f < w.sources.size(); ++f)
    fields += (f ? ", " : "") + to_string(w.sources[f].dtype) + " of kind " + std::to_string(w.shape.kinds[f]) +
              " with batch axes " + to_string(w.sources[f].batch_extents());
  Hash hash;
  hash.add(tag_).add(w.call).add(w.fields_hash);
  require_same(comm_, "CallDisagreement", hash.value(),
               "call " + std::to_string(w.call) + " (" +
                   (w.shape.direction == Direction::forward ? "forward" : "adjoint") + ") of plan " +
                   std::to_string(tag_) + " with " + (fields.empty() ? "no fields" : fields));
}

Workspace& PullState::lease(std::span<PullField const> fields, Direction direction) const {
  bool const node_shared = transport_ != Transport::point_to_point;
  auto const matches = [&](Workspace const& workspace) {
    auto const& shape = workspace.shape;
    if (workspace.busy || shape.direction != direction || shape.cell_bytes.size() != fields.size()) return false;
    if (shape.node_shared != node_shared) return false;
    if (!fields.empty() && shape.space != fields.front().source.space) return false;
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (shape.kinds[f] != fields[f].kind ||
          shape.cell_bytes[f] != size_of(fields[f].source.dtype) * fields[f].source.num_batch())
        return false;
    return true;
  };
  Workspace* workspace = nullptr;
  for (auto const& candidate : workspaces_)
    if (matches(*candidate)) workspace = candidate.get();
  if (workspace == nullptr) {
    CallShape shape;
    shape.direction = direction;
    shape.node_shared = node_shared;
    if (!fields.empty()) shape.space = fields.front().source.space;
    for (auto const& field : fields) {
      shape.kinds.push_back(field.kind);
      shape.cell_bytes.push_back(size_of(field.source.dtype) * field.source.num_batch());
    }
    int num_views = 0;
    for (auto const& field : fields)
      num_views += direction == Direction::forward ? 1 : int(kinds_[std::size_t(field.kind)].targets.size());
    WorkspaceNeeds const needs{comm_, tag_, table_, *links_, num_views};
    workspace = workspaces_.emplace_back(std::make_unique<Workspace>(needs, std::move(shape))).get();
    // How many tasks run together varies from call to call.
    workspace->tasks.reserve(fields.size() * table_.num_transfers());
  }
  workspace->busy = true;
  workspace->sources.clear();
  workspace->targets.clear();
  workspace->parities.clear();
  workspace->first_target.clear();
  for (auto const& field : fields) {
    workspace->sources.push_back(field.source);
    workspace->first_target.push_back(workspace->targets.size());
    workspace->targets.insert(workspace->targets.end(), field.targets.begin(), field.targets.end());
    workspace->parities.push_back(field.parity);
  }
  workspace->fields_hash = hash_of(fields, direction);
  workspace->call = ++num_calls_;
  return *workspace;
}

namespace {

/// Indices of the transfers with `peer` that field `f` takes part in.
auto transfers_of(CallShape const& shape, PeerTransfers const& peer, int f) {
  auto const kind = std::size_t(shape.kinds[std::size_t(f)]);
  return std::views::iota(peer.first_of_kind[kind], peer.first_of_kind[kind + 1]);
}

bool negated(Transfer const& transfer, Parity parity) {
  return transfer.negated != (transfer.odd_folds && parity == Parity::odd);
}

}  // namespace

StridedTask PullState::pack_task(Workspace const& w, int f, Transfer const& transfer, std::byte* wire) const {
  bool const forward = w.shape.direction == Direction::forward;
  auto const& view = forward ? source_view(w, f) : target_view(w, f, transfer.target);
  auto const cells = forward
                         ? source_cells(view, view.dtype, source_box(transfer.kind).lo(), transfer)
                         : target_cells(view, view.dtype, target_box(transfer.kind, transfer.target).lo(), transfer.to);
  auto const extents = extents_of(view, transfer.to);
  bool const sign = forward && negated(transfer, w.parities[std::size_t(f)]);
  return make_strided(sign ? StridedOp::negate : StridedOp::copy, view.dtype, extents, wire, row_major_strides(extents),
                      cells.first, cells.strides);
}

StridedTask PullState::unpack_task(Workspace const& w, int f, Transfer const& transfer, std::byte const* wire) const {
  bool const forward = w.shape.direction == Direction::forward;
  auto const& view = forward ? target_view(w, f, transfer.target) : source_view(w, f);
  auto const cells = forward
                         ? target_cells(view, view.dtype, target_box(transfer.kind, transfer.target).lo(), transfer.to)
                         : source_cells(view, view.dtype, source_box(transfer.kind).lo(), transfer);
  auto const extents = extents_of(view, transfer.to);
  bool const sign = negated(transfer, w.parities[std::size_t(f)]);
  auto const op = forward ? StridedOp::copy : (sign ? StridedOp::subtract : StridedOp::add);
  return make_strided(op, view.dtype, extents, cells.first, cells.strides, wire, row_major_strides(extents));
}

StridedTask PullState::move_task(Workspace const& w, int f, Transfer const& transfer, Image const& source,
                                 Image const& target) const {
  bool const sign = negated(transfer, w.parities[std::size_t(f)]);
  bool const forward = w.shape.direction == Direction::forward;
  auto const& own = forward ? target.view : source.view;
  auto const source_side = source_cells(source.view, own.dtype, source.cover_lo, transfer);
  auto const target_side = target_cells(target.view, own.dtype, target.cover_lo, transfer.to);
  auto const extents = extents_of(own, transfer.to);
  if (forward)
    return make_strided(sign ? StridedOp::negate : StridedOp::copy, own.dtype, extents, target_side.first,
                        target_side.strides, source_side.first, source_side.strides);
  return make_strided(sign ? StridedOp::subtract : StridedOp::add, own.dtype, extents, source_side.first,
                      source_side.strides, target_side.first, target_side.strides);
}

StridedTask PullState::local_task(Workspace const& w, int f, Transfer const& transfer) const {
  return move_task(w, f, transfer, source_image(w, f), target_image(w, f, transfer.target));
}

StridedTask PullState::arrival_task(Workspace const& w, int f, Message const& message, int t) const {
  auto const& transfer = message.peer->transfers[std::size_t(t)];
  if (!message.in_place)
    return unpack_task(w, f, transfer, message.packed + MessageSet::offset(w.shape, message, f, t));
  if (w.shape.direction == Direction::forward)
    return move_task(w, f, transfer, message.images[std::size_t(f)], target_image(w, f, transfer.target));
  auto const place = w.first_target[std::size_t(f)] + std::size_t(transfer.target);
  return move_task(w, f, transfer, source_image(w, f), message.images[place]);
}

StridedTask PullState::fill_task(Workspace const& w, int f, Filling const& filling) const {
  auto const& view = target_view(w, f, filling.target);
  auto const cells = target_cells(view, view.dtype, target_box(filling.kind, filling.target).lo(), filling.to);
  return make_strided(StridedOp::fill, view.dtype, extents_of(view, filling.to), cells.first, cells.strides, nullptr,
                      {}, filling.value);
}

namespace {

/// Seconds since it was made or last asked.
class Stopwatch {
 public:
  [[nodiscard]] double lap() {
    double const now = MPI_Wtime();
    return now - std::exchange(last_, now);
  }

 private:
  double last_ = MPI_Wtime();
};

}  // namespace

Workspace* PullState::start(std::span<PullField const> fields, Direction direction) const {
  Region const region(direction == Direction::forward ? "graticule::start" : "graticule::start_adjoint");
  check_fields(fields, direction);
  auto& workspace = lease(fields, direction);
  try {
    if (checks_calls()) check_call(workspace);
    if (checks_cells() && direction == Direction::forward) poison(workspace);
    Stopwatch watch;
    workspace.start_receives();
    pack_and_send(workspace);
    count(workspace);
    stats_.pack_seconds += watch.lap();
    if (direction == Direction::forward) {
      move_local(workspace);
      stats_.local_seconds += watch.lap();
    }
  } catch (...) {
    workspace.abandon();
    throw;
  }
  return &workspace;
}

namespace {

/// Where the memory of `view` lies for peers on this node, if it lies in one piece of node-shared memory.
std::optional<NodeAddress> shared_address(FieldView const& view) {
  Index lowest = 0;
  Index highest = 0;
  for (int m = 0; m < view.ndim(); ++m) {
    if (view.extents[m] <= 0) return NodeAddress{};
    (view.strides[m] < 0 ? lowest : highest) += (view.extents[m] - 1) * view.strides[m];
  }
  Index const bytes = size_of(view.dtype);
  auto address = find_node_address(static_cast<std::byte const*>(view.data) + lowest * bytes,
                                   std::size_t((highest - lowest + 1) * bytes));
  if (address) address->offset += std::uint64_t(-lowest * bytes);
  return address;
}

}  // namespace

void PullState::find_images(Workspace& w) const {
  w.images.clear();
  w.addresses.clear();
  auto const linked = [](Message const& message) { return message.link != nullptr; };
  if (w.shape.space != MemorySpace::host ||
      std::none_of(w.outgoing.messages.begin(), w.outgoing.messages.end(), linked))
    return;
  for (int f = 0; f < int(w.sources.size()); ++f) {
    auto const& kind = kinds_[std::size_t(w.shape.kinds[std::size_t(f)])];
    if (w.shape.direction == Direction::forward) {
      w.images.push_back(source_image(w, f));
      continue;
    }
    for (int t = 0; t < int(kind.targets.size()); ++t) w.images.push_back(target_image(w, f, t));
  }
  for (auto const& image : w.images) {
    auto const address = shared_address(image.view);
    if (!address) return w.addresses.clear();
    w.addresses.push_back(*address);
  }
}

void PullState::add_pack_tasks(Workspace& w, Message const& message) const {
  for (int f = 0; f < int(w.sources.size()); ++f)
    for (int const t : transfers_of(w.shape, *message.peer, f))
      w.tasks.push_back(pack_task(w, f, message.peer->transfers[std::size_t(t)],
                                  message.packed + MessageSet::offset(w.shape, message, f, t)));
}

void PullState::pack_and_send(Workspace& w) const {
  Region const region("graticule::pack");
  w.tasks.clear();
  if (w.shape.space == MemorySpace::device) {
    for (auto const& message : w.outgoing.messages) add_pack_tasks(w, message);
    run_strided(w.tasks, w.shape.space);
    for (auto& message : w.outgoing.messages) {
      w.open_place(message);
      w.send(message);
    }
    return;
  }
  find_images(w);
  // Columns are packed for all peers together, rows message by message, so that the first leaves early.
  w.unsent.clear();
  for (auto& message : w.outgoing.messages) {
    w.open_place(message);
    if (message.link && !w.addresses.empty() && message.bytes > 0) {
      w.send_in_place(message);
      continue;
    }
    auto const first = w.tasks.size();
    add_pack_tasks(w, message);
    if (first < w.tasks.size() && is_thin_copy(w.tasks[first])) {
      w.unsent.push_back(&message);
      continue;
    }
    run_strided(std::span(w.tasks).subspan(first), w.shape.space);
    w.tasks.resize(first);
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
    Patience patience(w.oversubscribed, w.description());
    while (!message.link->is_consumed(message.number)) {
      patience.pause();
      if (MPI_Wtime() - begin < longest_wait || !message.link->take_back(message.number)) continue;
      w.tasks.clear();
      add_pack_tasks(w, message);
      run_strided(w.tasks, w.shape.space);
      w.send(message);
      break;
    }
  }
}

void PullState::move_local(Workspace& w) const {
  Region const region("graticule::local");
  w.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    int const kind = w.shape.kinds[std::size_t(f)];
    for (auto const& transfer : table_.local)
      if (transfer.kind == kind) w.tasks.push_back(local_task(w, f, transfer));
    for (auto const& filling : table_.fillings)
      if (filling.kind == kind) w.tasks.push_back(fill_task(w, f, filling));
  }
  run_strided(w.tasks, w.shape.space);
}

void PullState::finish(Workspace& w) const {
  Region const region("graticule::wait");
  if (w.shape.direction == Direction::forward)
    unpack_forward(w);
  else
    add_adjoint(w);
  Stopwatch watch;
  settle_in_place(w);
  w.wait_sends();
  stats_.wait_seconds += watch.lap();
  w.busy = false;
  if (!w.failure.empty()) throw Error("FieldMismatch", w.failure);
}

void PullState::drain(Workspace& w) const {
  while (w.num_messages_open > 0)
    for (int const m : w.wait_some()) w.release(w.incoming.messages[std::size_t(m)]);
  settle_in_place(w);
  w.wait_sends();
  w.busy = false;
}

bool PullState::lacks_memory(Workspace const& w) const noexcept {
  for (std::size_t f = 0; f < w.sources.size(); ++f)
    if (!source_box(w.shape.kinds[f]).empty() && w.sources[f].data == nullptr && w.sources[f].num_batch() > 0)
      return true;
  return false;
}

void PullState::set_sources(Workspace& w, std::span<FieldView const> sources) const {
  if (w.shape.direction != Direction::adjoint || sources.size() != w.sources.size())
    throw Error("FieldMismatch", std::to_string(sources.size()) + " sources for a call with " +
                                     std::to_string(w.sources.size()) + " fields");
  for (std::size_t f = 0; f < sources.size(); ++f) {
    check_view(sources[f], source_box(w.shape.kinds[f]), Access::write, "source");
    if (sources[f].dtype != w.sources[f].dtype || !(sources[f].batch_extents() == w.sources[f].batch_extents()) ||
        sources[f].space != w.sources[f].space)
      throw Error("FieldMismatch", "a source of " + to_string(sources[f].dtype) + " " + to_string(sources[f].extents) +
                                       ", the adjoint was started with " + to_string(w.sources[f].dtype) + " " +
                                       to_string(w.sources[f].extents));
    w.sources[f] = sources[f];
  }
}

void PullState::unpack_forward(Workspace& w) const {
  while (w.num_messages_open > 0) {
    w.tasks.clear();
    Stopwatch watch;
    auto const& arrived = w.wait_some();
    stats_.wait_seconds += watch.lap();
    for (int const m : arrived) {
      if (!w.failure.empty()) continue;
      auto const& message = w.incoming.messages[std::size_t(m)];
      for (int f = 0; f < int(w.sources.size()); ++f)
        for (int const t : transfers_of(w.shape, *message.peer, f)) w.tasks.push_back(arrival_task(w, f, message, t));
    }
    run_strided(w.tasks, w.shape.space);
    for (int const m : arrived) w.release(w.incoming.messages[std::size_t(m)]);
    stats_.unpack_seconds += watch.lap();
  }
}

void PullState::add_adjoint(Workspace& w) const {
  Stopwatch watch;
  while (w.num_messages_open > 0) (void)w.wait_some();
  stats_.wait_seconds += watch.lap();
  w.tasks.clear();
  for (int f = 0; w.failure.empty() && f < int(w.sources.size()); ++f) {
    if (w.shape.cell_bytes[std::size_t(f)] == 0) continue;
    for (auto const& addition : additions_) {
      if (addition.kind != w.shape.kinds[std::size_t(f)]) continue;
      if (addition.peer_index < 0)
        w.tasks.push_back(local_task(w, f, table_.local[std::size_t(addition.transfer)]));
      else
        w.tasks.push_back(arrival_task(w, f, w.incoming.messages[std::size_t(addition.peer_index)], addition.transfer));
    }
  }
  run_strided(w.tasks, w.shape.space);
  for (auto& message : w.incoming.messages) w.release(message);
  stats_.unpack_seconds += watch.lap();
  settle_in_place(w);
  if (w.failure.empty() && after_adjoint_ == AfterAdjoint::zero) zero_targets(w);
}

void PullState::poison(Workspace& w) const {
  w.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    double const value = w.sources[std::size_t(f)].dtype >= DType::f16 ? std::nan("") : 85;
    auto const fill = [&](Transfer const& t) {
      if (t.kind == w.shape.kinds[std::size_t(f)]) w.tasks.push_back(fill_task(w, f, {t.kind, t.target, value, t.to}));
    };
    for (auto const& peer : table_.receives) std::for_each(peer.transfers.begin(), peer.transfers.end(), fill);
    std::for_each(table_.local.begin(), table_.local.end(), fill);
  }
  run_strided(w.tasks, w.shape.space);
}

void PullState::zero_targets(Workspace& w) const {
  w.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    auto const zero = [&](int kind, int target, Box const& to) {
      if (kind == w.shape.kinds[std::size_t(f)]) w.tasks.push_back(fill_task(w, f, {kind, target, 0, to}));
    };
    for (auto const& peer : table_.receives)
      for (auto const& transfer : peer.transfers) zero(transfer.kind, transfer.target, transfer.to);
    for (auto const& transfer : table_.local) zero(transfer.kind, transfer.target, transfer.to);
    for (auto const& filling : table_.fillings) zero(filling.kind, filling.target, filling.to);
  }
  run_strided(w.tasks, w.shape.space);
}

}  // namespace graticule::detail
