// SPDX-License-Identifier: BSD-3-Clause
#include "rounds.hpp"

#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/repartition/detail/copy_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace graticule::archive {

namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  Stopwatch(Stopwatch const&) = delete;
  Stopwatch& operator=(Stopwatch const&) = delete;
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Whole values as bytes where no type of the engine has their size.
DType dtype_of_size(Index bytes) {
  switch (bytes) {
    case 2: return DType::i16;
    case 4: return DType::i32;
    case 8: return DType::i64;
    default: return DType::u8;
  }
}

Box moved(Box const& box, Indices const& by) {
  Box result = box;
  for (int a = 0; a < box.ndim(); ++a) result.set(a, box.lo(a) + by[a], box.hi(a) + by[a]);
  return result;
}

/// An empty box where the layout gives a rank nothing, with the right number of axes.
Box owned(Layout const& layout, int rank) {
  auto const box = layout.owned(rank);
  return box.empty() ? Box::from_extents(Indices::filled(layout.ndim(), 0)) : box;
}

/// The same cells with the axes in the source's order.
FieldView in_source_order(FieldView const& view, Indices const& permutation) {
  auto result = view;
  for (int a = 0; a < permutation.size(); ++a) {
    result.extents[int(permutation[a])] = view.extents[a];
    result.strides[int(permutation[a])] = view.strides[a];
  }
  return result;
}

/// Calls `visit(round, part)` for the parts that ranks read of rounds, where they share cells with `box`; all in the
/// variable's cells.
template <class Visit>
void for_each_part(Tiling const& tiling, Box const& box, Visit const& visit) {
  if (box.empty()) return;
  Box rounds = box;
  Indices counts;
  for (int a = 0; a < box.ndim(); ++a) {
    auto const up = [&](Index cells) { return (cells + tiling.tile[a] - 1) / tiling.tile[a]; };
    rounds.set(a, box.lo(a) / tiling.tile[a], up(box.hi(a)));
    counts.push_back(up(tiling.task.extents[a]));
  }
  for_each_cell(rounds, [&](Indices const& place) {
    auto const round = tiling.round(number_of(place, counts));
    auto const layout = tiling.readers(round);
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      auto const part = moved(owned(layout, rank), round.lo());
      if (!intersection(part, box).empty()) visit(round, part);
    }
  });
}

/// Calls `visit(piece)` for boxes of at most `most_cells` cells that follow each other in row-major order.
template <class Visit>
void for_each_piece(Box const& box, Index most_cells, Visit const& visit) {
  int axis = 0;
  while (axis < box.ndim() && box.extent(axis) == 1) ++axis;
  if (axis == box.ndim() || box.num_cells() <= most_cells) return visit(box);
  Index const middle = box.lo(axis) + box.extent(axis) / 2;
  Box half = box;
  half.set(axis, box.lo(axis), middle);
  for_each_piece(half, most_cells, visit);
  half.set(axis, middle, box.hi(axis));
  for_each_piece(half, most_cells, visit);
}

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();

  template <class Value>
  void add(std::span<Value const> values) {
    // NaN compares false, so it leaves both alone.
    Value lo = std::numeric_limits<Value>::infinity();
    Value hi = -lo;
    for (Value const value : values) {
      lo = value < lo ? value : lo;
      hi = value > hi ? value : hi;
    }
    least = std::min(least, double(lo));
    greatest = std::max(greatest, double(hi));
  }
};

}  // namespace

Setting make_setting(Comm const& comm, Index budget, int writers_per_node) {
  Setting setting{.comm = comm, .budget = budget};
  auto const places = comm.gather_to_all(comm.node_rank());
  for (int rank = 0; rank < comm.num_ranks(); ++rank)
    if (writers_per_node == 0 || places[std::size_t(rank)] < writers_per_node) setting.writers.push_back(rank);
  std::array<Index, 1> lacks{NodeMemory(1).shared() ? 0 : 1};
  comm.max(lacks);
  setting.shared_memory =
      comm.num_nodes() == 1 && lacks[0] == 0 && messages::transport_from_environment() != Transport::point_to_point;
  return setting;
}

TilingTask task_of(Rewrite const& rewrite, Setting const& setting) {
  return {.extents = rewrite.source.extents,
          .permutation = rewrite.permutation,
          .source = rewrite.source_storage(),
          .target = rewrite.target_storage(),
          .value_bytes = rewrite.value_bytes(),
          .num_ranks = setting.comm.num_ranks(),
          .writers = setting.writers,
          .shared_memory = setting.shared_memory,
          .one_node = setting.comm.num_nodes() == 1,
          .budget = setting.budget};
}

TilingTask scan_task_of(Rewrite const& rewrite, Setting const& setting) {
  return source_task(task_of(rewrite, setting));
}

RoundBuffers::RoundBuffers(Rewrite const& rewrite, Tiling const& tiling, Setting const& setting)
    : rewrite_(rewrite), tiling_(tiling), setting_(setting) {
  if (rewrite.form != Form::stored) fill_ = probable_fill(rewrite.source);
  auto const source_bytes = std::size_t(tiling.read_cells * rewrite.value_bytes());
  auto const target_bytes = std::size_t(tiling.written_cells * rewrite.value_bytes());
  run_agreed(setting.comm, [&] {
    if (tiling.piece_bytes > 0) piece_ = std::make_unique_for_overwrite<std::byte[]>(std::size_t(tiling.piece_bytes));
    buffer_bytes_ = tiling.piece_bytes;
    if (tiling.move == Move::fetched) {
      // Pieces take the place of what would have been read.
    } else if (tiling.move == Move::between) {
      shared_ = NodeMemory(source_bytes);
      source_ = shared_.data();
    } else {
      own_source_ = std::make_unique_for_overwrite<std::byte[]>(source_bytes);
      source_ = own_source_.get();
    }
    if (source_ != nullptr) buffer_bytes_ += Index(source_bytes);
    target_ = source_;
    if (tiling.move == Move::none) return;
    own_target_ = std::make_unique_for_overwrite<std::byte[]>(target_bytes);
    target_ = own_target_.get();
    buffer_bytes_ += Index(target_bytes);
  });
}

void RoundBuffers::count(Index scratch) {
  Index const messages = plan_ ? plan_->stats().buffer_bytes : 0;
  totals_.peak_bytes = std::max(totals_.peak_bytes, buffer_bytes_ + messages + scratch);
}

void RoundBuffers::for_each_slab(Storage const& storage, Layout const& layout, Box const& own, Indices const& first,
                                 std::byte* data, std::function<void(Box const&, std::span<std::byte>)> const& visit) {
  Index const chunk = storage.chunk.size() > 0 ? storage.chunk[0] : 1;
  Index num_slabs = 0;
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    auto const box = owned(layout, rank);
    if (box.empty()) continue;
    Index const begin = (first[0] + box.lo(0)) % chunk;
    num_slabs = std::max(num_slabs, (begin + box.extent(0) - 1) / rows_at_once(storage, box) + 1);
  }
  Index const rows = rows_at_once(storage, own);
  Index const row_bytes = own.empty() ? 0 : own.num_cells() / own.extent(0) * rewrite_.value_bytes();
  Index lo = own.lo(0);
  for (Index slab = 0; slab < num_slabs; ++slab) {
    // Slabs end at chunks, so the first may be shorter.
    Index const hi = std::min((first[0] + lo) / chunk * chunk + rows - first[0], own.hi(0));
    Box part = own;
    part.set(0, lo, std::max(lo, hi));
    Index const bytes = part.empty() ? 0 : part.extent(0) * row_bytes;
    visit(moved(part, first), {data, std::size_t(bytes)});
    data += bytes;
    lo = std::max(lo, hi);
  }
}

void RoundBuffers::for_each_chunk(Indices const& chunk, Layout const& layout, Indices const& first,
                                  std::function<void(Box const&, std::span<std::byte>)> const& visit) {
  auto const counts = [&](Box const& box) {
    Indices result;
    for (int a = 0; a < box.ndim(); ++a) result.push_back((box.extent(a) + chunk[a] - 1) / chunk[a]);
    return result;
  };
  Index most = 0;
  for (int rank = 0; rank < layout.num_ranks(); ++rank)
    most = std::max(most, Box::from_extents(counts(owned(layout, rank))).num_cells());
  auto const own = counts(target_box_);
  Index const num_own = Box::from_extents(own).num_cells();
  auto const from = view(target_, target_box_.extents());
  for (Index number = 0; number < most; ++number) {
    if (number >= num_own) {
      visit(Box::from_extents(Indices::filled(own.size(), 0)), {});
      continue;
    }
    auto lo = coords_of(number, own);
    Indices hi;
    for (int a = 0; a < own.size(); ++a) {
      lo[a] = target_box_.lo(a) + lo[a] * chunk[a];
      hi.push_back(std::min(lo[a] + chunk[a], target_box_.hi(a)));
    }
    Box const box(lo, hi);
    chunk_.resize(std::size_t(box.num_cells() * rewrite_.value_bytes()));
    copy_cells(from.part(target_box_, box), view(chunk_.data(), box.extents()));
    visit(moved(box, first), chunk_);
  }
}

template <class Value>
void RoundBuffers::count_fills(Box const& box, std::span<Value const> values) {
  auto const fill = Value(*fill_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != fill) continue;
    ++fills_.count;
    auto const cell = coords_of(Index(i), box.extents());
    Index place = 0;
    for (int a = 0; a < box.ndim(); ++a) place = place * rewrite_.source.extents[a] + box.lo(a) + cell[a];
    fills_.first = std::min(fills_.first, place);
  }
}

void RoundBuffers::read(FieldFile const& input, Box const& round) {
  Stopwatch const watch(totals_.read_seconds);
  auto const layout = tiling_.readers(round);
  auto const storage = rewrite_.source_storage();
  source_box_ = owned(layout, setting_.comm.rank());
  auto const read_numbers = [&]<class Value>(Box const& box, std::span<Value> values) {
    input.read(rewrite_.source.name, box, values);
    if (fill_) count_fills<Value>(box, values);
  };
  for_each_slab(storage, layout, source_box_, round.lo(), source_, [&](Box const& box, std::span<std::byte> bytes) {
    if (rewrite_.form == Form::stored)
      input.read_stored(rewrite_.source.name, box, bytes);
    else if (rewrite_.form == Form::f32)
      read_numbers(box, std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)));
    else
      read_numbers(box, std::span(reinterpret_cast<double*>(bytes.data()), bytes.size() / sizeof(double)));
  });
  totals_.read_bytes += source_box_.num_cells() * rewrite_.source.value_bytes;
  count(tiling_.scratch_bytes);
}

FieldView RoundBuffers::view(std::byte* data, Indices const& extents) const {
  auto const dtype = dtype_of_size(rewrite_.value_bytes());
  Indices all = extents;
  // Values of other sizes are a batch of bytes each.
  if (Index const num_parts = rewrite_.value_bytes() / size_of(dtype); num_parts != 1) all.push_back(num_parts);
  FieldView result{data, dtype, all, row_major_strides(all), {}, MemorySpace::host};
  for (int a = 0; a < extents.size(); ++a) result.grid_axes.push_back(a);
  return result;
}

void RoundBuffers::move(Box const& round) {
  auto const writers = tiling_.writers(round);
  target_box_ = owned(writers, setting_.comm.rank());
  if (tiling_.move == Move::none) return;
  Stopwatch const watch(totals_.move_seconds);
  auto const readers = tiling_.readers(round);
  auto const key = Hash().add(readers.fingerprint()).add(writers.fingerprint()).value();
  if (!plan_ || key != plan_key_) {
    plan_.reset();  // its messages make room first
    plan_.emplace(setting_.comm, readers, writers,
                  RepartitionOptions{.permutation = rewrite_.permutation, .workspace_bytes = tiling_.message_bytes});
    plan_key_ = key;
    before_ = {};
  }
  plan_->apply(view(source_, source_box_.extents()), view(target_, target_box_.extents()));
  auto const stats = plan_->stats();
  auto const sent = [](PullStats const& s) {
    return s.point_to_point.bytes + s.node_packed.bytes + s.node_in_place.bytes;
  };
  auto const messages = [](PullStats const& s) {
    return s.point_to_point.num_messages + s.node_packed.num_messages + s.node_in_place.num_messages;
  };
  totals_.sent_bytes += sent(stats) - sent(before_);
  totals_.num_messages += messages(stats) - messages(before_);
  before_ = stats;
  count(0);
}

void RoundBuffers::write(FieldWriter& output, Box const& round) {
  Stopwatch const watch(totals_.write_seconds);
  auto const storage = rewrite_.target_storage();
  Indices first;
  for (Index const axis : rewrite_.permutation) first.push_back(round.lo(int(axis)));
  Indices extents;
  for (Index const axis : rewrite_.permutation) extents.push_back(rewrite_.source.extents[int(axis)]);
  auto const write_part = [&](Box const& box, std::span<std::byte const> bytes) {
    auto const& name = rewrite_.target.name;
    if (rewrite_.form == Form::stored)
      output.write_stored(name, box, bytes);
    else if (rewrite_.form == Form::f32)
      output.write(name, box, std::span(reinterpret_cast<float const*>(bytes.data()), bytes.size() / sizeof(float)));
    else
      output.write(name, box, std::span(reinterpret_cast<double const*>(bytes.data()), bytes.size() / sizeof(double)));
  };
  if (gathers_chunks(storage, extents))
    for_each_chunk(storage.chunk, tiling_.writers(round), first, write_part);
  else
    for_each_slab(storage, tiling_.writers(round), target_box_, first, target_, write_part);
  totals_.written_bytes += target_box_.num_cells() * storage.value_bytes;
  count(tiling_.scratch_bytes);
}

void RoundBuffers::store(ScratchFile const& scratch, Tiling const& fetch, Box const& round) {
  Stopwatch const watch(totals_.scratch_seconds);
  auto const own = moved(source_box_, round.lo());
  auto const all = Box::from_extents(rewrite_.source.extents);
  Index const size = rewrite_.value_bytes();
  run_agreed(setting_.comm, [&] {
    auto const from = view(source_, own.extents());
    for_each_part(fetch, own, [&](Box const& later, Box const& part) {
      auto const block = intersection(part, own);
      Index place = place_in_scratch(all, later, part, block);
      for_each_piece(block, tiling_.piece_bytes / size, [&](Box const& piece) {
        copy_cells(from.part(own, piece), view(piece_.get(), piece.extents()));
        scratch.write(place * size, {piece_.get(), std::size_t(piece.num_cells() * size)});
        place += piece.num_cells();
      });
    });
  });
}

void RoundBuffers::fetch(ScratchFile const& scratch, Tiling const& store, Box const& round) {
  Stopwatch const watch(totals_.scratch_seconds);
  target_box_ = owned(tiling_.writers(round), setting_.comm.rank());
  auto const own = moved(owned(tiling_.readers(round), setting_.comm.rank()), round.lo());
  auto const all = Box::from_extents(rewrite_.source.extents);
  Index const size = rewrite_.value_bytes();
  run_agreed(setting_.comm, [&] {
    auto const to = in_source_order(view(target_, target_box_.extents()), rewrite_.permutation);
    for_each_part(store, own, [&](Box const&, Box const& part) {
      auto const block = intersection(part, own);
      Index place = place_in_scratch(all, round, own, block);
      for_each_piece(block, tiling_.piece_bytes / size, [&](Box const& piece) {
        scratch.read(place * size, {piece_.get(), std::size_t(piece.num_cells() * size)});
        copy_cells(view(piece_.get(), piece.extents()), to.part(own, piece));
        place += piece.num_cells();
      });
    });
  });
}

void store_values(RoundBuffers& buffers, Passes const& passes, FieldFile const& input, ScratchFile const& scratch,
                  BeforeRound const& before_round) {
  for (Index number = 0; number < passes.store->num_rounds(); ++number) {
    before_round();
    auto const round = passes.store->round(number);
    buffers.read(input, round);
    buffers.store(scratch, passes.last, round);
  }
}

void fetch_values(RoundBuffers& buffers, Passes const& passes, ScratchFile const& scratch, FieldWriter& output,
                  BeforeRound const& before_round) {
  for (Index number = 0; number < passes.last.num_rounds(); ++number) {
    before_round();
    auto const round = passes.last.round(number);
    buffers.fetch(scratch, *passes.store, round);
    buffers.write(output, round);
  }
}

void copy_values(RoundBuffers& buffers, Tiling const& tiling, FieldFile const& input, FieldWriter& output,
                 BeforeRound const& before_round) {
  for (Index number = 0; number < tiling.num_rounds(); ++number) {
    before_round();
    auto const round = tiling.round(number);
    buffers.read(input, round);
    buffers.move(round);
    buffers.write(output, round);
  }
}

Packing find_packing(RoundBuffers& buffers, Tiling const& scan, FieldFile const& input,
                     BeforeRound const& before_round) {
  auto const& rewrite = buffers.rewrite();
  Range range;
  for (Index number = 0; number < scan.num_rounds(); ++number) {
    before_round();
    buffers.read(input, scan.round(number));
    if (rewrite.form == Form::f32)
      range.add(buffers.values<float>());
    else
      range.add(buffers.values<double>());
  }
  std::array<double, 2> ends{-range.least, range.greatest};
  buffers.comm().max(ends);
  double const least = -ends[0];
  double const greatest = ends[1];
  if (least > greatest) return {};  // nothing but missing values
  if (!std::isfinite(least) || !std::isfinite(greatest))
    throw Error(Fault::input, "Conversion", "variable " + rewrite.source.name + " holds infinite values");
  Packing packing{.scale = 1, .offset = least / 2 + greatest / 2};
  if (greatest > least) packing.scale = greatest / 65534 - least / 65534;
  return packing;
}

}  // namespace graticule::archive
