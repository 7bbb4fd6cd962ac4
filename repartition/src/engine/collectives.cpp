// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/collectives.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/node_memory.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace graticule {

namespace {

/// Fields of fewer cells are not worth a message more: one of this many cells of 8 bytes takes about as long as none.
constexpr Index least_shard_cells = 1024;

Box nothing(int ndim) { return {Indices::filled(ndim, 0), Indices::filled(ndim, 0)}; }

Layout on_root(Indices const& extents, int root) {
  return {ProcessGrid::on_ranks(Indices::filled(extents.size(), 1), {root}), extents};
}

int checked_root(Comm const& comm, int root) {
  run_agreed(comm, [&] {
    if (root < 0 || root >= comm.num_ranks())
      throw Error("OutOfRange",
                  "root must be in [0, " + std::to_string(comm.num_ranks()) + "), got " + std::to_string(root));
  });
  return root;
}

}  // namespace

ShardsPlan::ShardsPlan(Comm const& comm, Layout const& layout, int root)
    : is_root_(comm.rank() == root),
      root_(checked_root(comm, root)),
      all_gather_(comm, layout, layout.global()),
      gather_(comm, layout, is_root_ ? layout.global() : nothing(layout.ndim())) {}

void ShardsPlan::all_gather(FieldView const& part, FieldView const& whole) const { all_gather_.apply(part, whole); }

void ShardsPlan::reduce_scatter(FieldView const& whole, FieldView const& part) const {
  all_gather_.apply_adjoint(part, whole, {.beta = 0});
}

void ShardsPlan::gather(FieldView const& part, FieldView const& whole) const {
  gather_.apply(part, is_root_ ? whole : part.without_cells());
}

void ShardsPlan::scatter(FieldView const& whole, FieldView const& part) const {
  gather_.apply_inverse(part, is_root_ ? whole : part.without_cells());
}

namespace {

/// One shard for each rank, or fewer for few cells; the root has the first.
Layout shards_of(Indices const& extents, int num_ranks, int root) {
  Index const num_cells = Box::from_extents(extents).num_cells();
  auto const wanted = std::clamp<Index>(num_cells / least_shard_cells, 1, num_ranks);
  auto grid = Indices::filled(extents.size(), 1);
  if (extents.size() > 0) {
    // The slowest axis that is long enough, else the longest.
    auto const* axis = std::find_if(extents.begin(), extents.end(), [&](Index extent) { return extent >= wanted; });
    if (axis == extents.end()) axis = std::max_element(extents.begin(), extents.end());
    grid[int(axis - extents.begin())] = std::clamp<Index>(*axis, 1, wanted);
  }
  std::vector<int> ranks;
  for (int place = 0; place < ProcessGrid(grid).num_ranks(); ++place) ranks.push_back((root + place) % num_ranks);
  return {ProcessGrid::on_ranks(grid, std::move(ranks)), extents};
}

}  // namespace

struct ReplicatedFieldPlan::State {
  State(Comm const& comm, Indices const& extents, int root, Layout const& layout)
      : whole(Box::from_extents(extents)),
        is_root(comm.rank() == root),
        // With two ranks, the other one lacks all that the root has.
        at_once(layout.grid()->num_ranks() == 1 || comm.num_ranks() == 2),
        shards(comm, layout, root),
        spread(comm, at_once ? on_root(extents, root) : layout, is_root ? nothing(extents.size()) : whole) {}

  Box whole;
  bool is_root;
  bool at_once;  ///< the root sends its field to each rank, not a shard
  ShardsPlan shards;
  RepartitionPlan spread;  ///< from the shards to all ranks but the root
  NodeMemory host;
  detail::Buffer device;
  detail::QueueOfCalls calls;
  Index host_bytes = 0;
  Index device_bytes = 0;
  int device_number = 0;

  void check(FieldView const& field) const {
    bool fits = field.grid_axes.size() == whole.ndim() && field.strides.size() == field.ndim();
    for (int a = 0; fits && a < whole.ndim(); ++a) {
      Index const axis = field.grid_axes[a];
      fits = axis >= 0 && axis < field.ndim() && field.extents[int(axis)] == whole.extent(a);
    }
    if (!fits)
      throw Error("FieldMismatch", "copies of " + to_string(whole) + " need fields of these cells, got " +
                                       to_string(field.extents) + " with grid axes " + to_string(field.grid_axes));
  }

  /// `source` is the field on the root, or a shard.
  void spread_from(FieldView const& source, FieldView const& field) const {
    spread.apply(spread.source_box().empty() ? source.without_cells() : source,
                 is_root ? field.without_cells() : field);
  }

  /// Memory for this rank's shard, its axes in the order that they have in `field`.
  FieldView part_of(FieldView const& field) {
    check(field);
    auto part = field;
    Box const& box = shards.part_box();
    for (int a = 0; a < whole.ndim(); ++a) part.extents[int(field.grid_axes[a])] = box.empty() ? 0 : box.extent(a);
    std::vector<int> fast_to_slow;
    for (int m = 0; m < field.ndim(); ++m) fast_to_slow.push_back(m);
    std::stable_sort(fast_to_slow.begin(), fast_to_slow.end(),
                     [&](int a, int b) { return std::abs(field.strides[a]) < std::abs(field.strides[b]); });
    Index size = 1;
    for (int const m : fast_to_slow) {
      part.strides[m] = size;
      size *= part.extents[m];
    }
    part.data = size == 0 ? nullptr : memory(size * size_of(field.dtype), field.space);
    return part;
  }

  void* memory(Index bytes, MemorySpace space) {
    if (space == MemorySpace::host) {
      if (bytes > host_bytes) host = NodeMemory(std::size_t(bytes));
      host_bytes = std::max(host_bytes, bytes);
      return host.data();
    }
    calls.enter(space);
    if (bytes > device_bytes || detail::device_of(calls.queue()) != device_number) {
      detail::fence(calls.queue());
      device_number = detail::device_of(calls.queue());
      device = detail::Buffer(std::size_t(bytes), detail::Buffer::Kind::device, device_number);
      device_bytes = 0;
    }
    device_bytes = std::max(device_bytes, bytes);
    return device.data();
  }
};

namespace {

/// What a movement is made with: the caller's field and the memory for this rank's shard.
struct Fields {
  FieldView whole;
  FieldView part;
};

/// Runs the steps, or up to one that fails: the others are then made without fields, which is refused, so that ranks
/// which take part in those only do not wait.
void run_in_order(Fields& fields, std::initializer_list<std::function<void()>> steps) {
  std::exception_ptr failure;
  for (auto const& step : steps) {
    try {
      step();
    } catch (...) {
      if (!failure) failure = std::current_exception();
      fields = {};
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

ReplicatedFieldPlan::ReplicatedFieldPlan(Comm const& comm, Indices const& extents, int root) {
  (void)checked_root(comm, root);
  state_ = std::make_shared<State>(comm, extents, root, shards_of(extents, comm.num_ranks(), root));
}

void ReplicatedFieldPlan::broadcast(FieldView const& field) const {
  auto& s = *state_;
  if (s.at_once) return s.spread_from(field, field);
  Fields f{field, {}};
  run_in_order(f, {[&] { f.part = s.part_of(f.whole); },  //
                   [&] { s.shards.scatter(f.whole, f.part); }, [&] { s.spread_from(f.part, f.whole); }});
}

void ReplicatedFieldPlan::sum_reduce(FieldView const& field) const {
  auto& s = *state_;
  Fields f{field, {}};
  run_in_order(f, {[&] { f.part = s.part_of(f.whole); },  //
                   [&] { s.shards.reduce_scatter(f.whole, f.part); }, [&] { s.shards.gather(f.part, f.whole); }});
}

void ReplicatedFieldPlan::all_sum_reduce(FieldView const& field) const {
  auto& s = *state_;
  Fields f{field, {}};
  run_in_order(f, {[&] { f.part = s.part_of(f.whole); },  //
                   [&] { s.shards.reduce_scatter(f.whole, f.part); }, [&] { s.shards.all_gather(f.part, f.whole); }});
}

RepartitionPlan all_to_all(Comm const& comm, Indices const& extents, int from_axis, int to_axis) {
  std::vector<Layout> layouts;
  run_agreed(comm, [&] {
    for (int const axis : {from_axis, to_axis}) {
      if (axis < 0 || axis >= extents.size())
        throw Error("BadAxis", "axis must be in [0, " + std::to_string(extents.size()) + ") of a grid of " +
                                   to_string(extents) + ", got " + std::to_string(axis));
      auto grid = Indices::filled(extents.size(), 1);
      grid[axis] = comm.num_ranks();
      layouts.emplace_back(ProcessGrid(grid), extents);
    }
  });
  return {comm, layouts[0], layouts[1]};
}

}  // namespace graticule
