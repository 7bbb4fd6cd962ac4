// SPDX-License-Identifier: BSD-3-Clause
#include "tiling.hpp"

#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/process_grid.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace graticule::archive {

namespace {

// Rates of one core and one disk, for choosing among tiles only; measured with HDF5 1.10.8, zlib 1.2.13,
// libdeflate 1.14.
constexpr double read_rate = 3e9;
constexpr double write_rate = 1e9;
constexpr double inflate_rate = 5e8;
constexpr double deflate_rate = 6e7;
constexpr double move_rate = 1.5e9;
constexpr double seconds_per_run = 4e-6;
/// To a scratch file and back, all ranks together: of a disk, which is slower than the system's cache of its blocks.
constexpr double scratch_rate = 4e8;
constexpr double seconds_per_round = 1e-3;

constexpr Index call_bytes = Index(8) << 20;
/// Rows of chunks that HDF5 gathers well enough, and chunks that are worth a call each.
constexpr Index long_row_bytes = 4096;
constexpr Index large_chunk_bytes = Index(64) << 10;
/// Cells of a run of a target without chunks that no round cuts.
constexpr Index shortest_run = 4096;
constexpr Index most_candidates = 6000;
/// Buffers of messages to and from one peer: the least that a plan does with, and as much as makes it fast.
constexpr Index least_peer_bytes = 1536;
constexpr Index good_peer_bytes = Index(1) << 20;
constexpr Index good_piece_bytes = Index(8) << 20;

Index divide_up(Index a, Index b) { return (a + b - 1) / b; }

Index product(Indices const& values) {
  Index result = 1;
  for (Index const value : values)
    if (__builtin_mul_overflow(result, value, &result)) return std::numeric_limits<Index>::max();
  return result;
}

/// `values` of the target's axes in the source's order, and the reverse.
Indices to_source(Indices const& values, Indices const& permutation) {
  Indices result = Indices::filled(permutation.size(), 1);
  for (int a = 0; a < values.size(); ++a) result[int(permutation[a])] = values[a];
  return result;
}

Indices to_target(Indices const& values, Indices const& permutation) {
  Indices result;
  for (Index const axis : permutation) result.push_back(values[int(axis)]);
  return result;
}

/// Cells that are read or written as one along each axis: the chunk, or single cells.
Indices granule(Storage const& storage, Indices const& extents) {
  Indices result = storage.chunk.size() == extents.size() ? storage.chunk : Indices::filled(extents.size(), 1);
  for (int a = 0; a < extents.size(); ++a) result[a] = std::clamp<Index>(result[a], 1, std::max<Index>(extents[a], 1));
  return result;
}

/// Cells that lie one after the other in the file, of a box of `extents`.
Index run_cells(Storage const& storage, Indices const& global, Indices const& extents) {
  Indices const whole = storage.chunk.size() == global.size() ? granule(storage, global) : global;
  Index cells = 1;
  for (int a = global.size() - 1; a >= 0; --a) {
    cells *= std::max<Index>(std::min(extents[a], whole[a]), 1);
    if (extents[a] < whole[a]) break;
  }
  return cells;
}

/// The process grid over `units` of `cells` each that leaves the largest part smallest; of equal ones, the one that
/// cuts the slowest axes most.
Indices best_grid(Indices const& units, Index num_ranks) {
  int const ndim = units.size();
  Indices best = Indices::filled(ndim, 1);
  Indices grid = best;
  double least = std::numeric_limits<double>::infinity();
  std::function<void(int, Index, double)> const visit = [&](int axis, Index ranks, double part) {
    // Even perfect cuts of the other axes would leave no smaller part than the best so far.
    if (part / double(ranks) >= least * (1 - 1e-9) && axis < ndim) return;
    if (axis == ndim) {
      if (part >= least * (1 - 1e-9)) return;
      least = part;
      best = grid;
      return;
    }
    // From the most parts down; numbers that do not shrink the largest part are left out.
    for (Index size = divide_up(units[axis], ranks);; ++size) {
      Index const parts = divide_up(units[axis], size);
      grid[axis] = parts;
      visit(axis + 1, ranks / parts, part * double(size) / double(units[axis]));
      if (parts == 1) break;
      size = std::max(size, divide_up(units[axis], parts - 1) - 1);
    }
  };
  visit(0, num_ranks, 1.0);
  return best;
}

/// Sums and maxima over the rounds along one axis.
struct AxisFigures {
  Index largest = 0;      ///< the most cells of a part
  double cells = 0;       ///< sum over rounds of the largest part
  double chunks = 0;      ///< sum over rounds of the most chunks that a part touches
  double all_chunks = 0;  ///< sum over rounds and parts of the chunks that they touch
};

/// @param step where parts end
AxisFigures axis_figures(Index extent, Index tile, Index chunk, Index step, Index num_parts) {
  AxisFigures figures;
  for (Index lo = 0; lo < extent; lo += tile) {
    Index const hi = std::min(lo + tile, extent);
    Index most_cells = 0;
    Index most_chunks = 0;
    Index at = lo;
    for (Index const size : aligned_parts(lo, hi, step, num_parts)) {
      Index const touched = size > 0 ? divide_up(at + size, chunk) - at / chunk : 0;
      most_cells = std::max(most_cells, size);
      most_chunks = std::max(most_chunks, touched);
      figures.all_chunks += double(touched);
      at += size;
    }
    figures.largest = std::max(figures.largest, most_cells);
    figures.cells += double(most_cells);
    figures.chunks += double(most_chunks);
  }
  return figures;
}

/// What a side of the rewrite costs.
struct SideFigures {
  Indices largest;  ///< the largest part, in the side's own axes
  double cells = 1;
  double chunks = 1;
  double factor = 1;

  void add(AxisFigures const& axis, Index num_chunks) {
    largest.push_back(axis.largest);
    cells *= axis.cells;
    chunks *= axis.chunks;
    factor *= axis.all_chunks / double(num_chunks);
  }
};

double seconds(Storage const& storage, Indices const& global, SideFigures const& side, double rate, double chunk_rate) {
  double const bytes = side.cells * double(storage.value_bytes);
  if (storage.filtered)
    return side.chunks * double(product(granule(storage, global)) * storage.value_bytes) * (1 / chunk_rate + 1 / rate);
  return bytes / rate + side.cells / double(run_cells(storage, global, side.largest)) * seconds_per_run;
}

/// Memory of one write of a chunk, without the buffer.
Index chunk_scratch(Storage const& storage, Indices const& global, Index value_bytes) {
  return product(granule(storage, global)) * (value_bytes + (storage.converted ? storage.value_bytes : 0));
}

/// Memory of one call without the buffer: converted values, and chunks between HDF5's filters.
Index scratch(Storage const& storage, Indices const& global, Indices const& largest, bool writes) {
  Box const box = Box::from_extents(largest);
  Index const row = box.empty() ? 0 : box.num_cells() / largest[0];
  Index const call = box.empty() ? 0 : std::min(rows_at_once(storage, box), largest[0]) * row * storage.value_bytes;
  Index const chunk = product(granule(storage, global)) * storage.value_bytes;
  return (storage.converted ? call : 0) + (storage.filtered ? 2 * chunk + (writes ? call : 0) : 0);
}

class Search {
 public:
  explicit Search(TilingTask const& task)
      : task_(task),
        target_extents_(to_target(task.extents, task.permutation)),
        source_chunk_(granule(task.source, task.extents)),
        target_chunk_(granule(task.target, target_extents_)),
        step_(to_source(target_chunk_, task.permutation)) {
    int const fastest = target_extents_.size() - 1;
    if (task.target.chunk.size() != target_extents_.size())
      step_[int(task.permutation[fastest])] = std::min(shortest_run, target_extents_[fastest]);
  }

  Tiling best() {
    if (auto const found = find()) return *found;
    throw Error(Fault::usage, "BudgetTooSmall",
                "--memory of " + std::to_string(task_.budget) + " bytes per rank; at least " + std::to_string(least_) +
                    " are needed, or smaller chunks");
  }

  /// Nothing where the budget is too small.
  std::optional<Tiling> find() {
    Index const good = good_peer_bytes * task_.num_ranks;
    Index const least = least_peer_bytes * task_.num_ranks;
    message_bytes_ = std::clamp(task_.budget / 16, least, good);
    consider_all();
    if (!best_) {
      message_bytes_ = least;
      consider_all();
    }
    if (!best_) return {};
    // Messages take what is left.
    if (best_->move == Move::between) {
      Index const rest = task_.budget - best_->workspace_bytes + best_->message_bytes;
      Index const before = std::exchange(best_->message_bytes, std::clamp(rest, message_bytes_, good));
      best_->workspace_bytes += best_->message_bytes - before;
    }
    return best_;
  }

  Index least() {
    message_bytes_ = least_peer_bytes * task_.num_ranks;
    consider(smallest());
    return least_;
  }

 private:
  /// Tile extents worth a look along an axis: from one target chunk in doubling steps to the whole, and the same in
  /// steps that hold whole chunks on both sides.
  [[nodiscard]] std::vector<Index> candidates(int axis) const {
    std::vector<Index> values;
    Index const extent = task_.extents[axis];
    Index const both = std::lcm(step_[axis], source_chunk_[axis]);
    for (Index const step : {step_[axis], both})
      for (Index value = step; value > 0 && value < extent; value *= 2) values.push_back(value);
    values.push_back(extent);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  [[nodiscard]] Indices smallest() const {
    Indices tile;
    for (int axis = 0; axis < task_.extents.size(); ++axis) tile.push_back(candidates(axis).front());
    return tile;
  }

  void consider_all() {
    std::vector<std::vector<Index>> lists;
    double count = 1;
    for (int axis = 0; axis < task_.extents.size(); ++axis) {
      lists.push_back(candidates(axis));
      count *= double(lists.back().size());
    }
    // With many axes a coarser choice has to do; the smallest and the largest stay.
    while (count > double(most_candidates)) {
      auto& longest = *std::max_element(lists.begin(), lists.end(),
                                        [](auto const& a, auto const& b) { return a.size() < b.size(); });
      count /= double(longest.size());
      for (std::size_t i = 1; i + 1 < longest.size(); ++i) longest.erase(longest.begin() + std::ptrdiff_t(i));
      count *= double(longest.size());
      if (longest.size() <= 2) break;
    }
    Indices tile = Indices::filled(task_.extents.size(), 1);
    visit(lists, 0, tile);
    refine();
  }

  void visit(std::vector<std::vector<Index>> const& lists, std::size_t axis, Indices& tile) {
    if (axis == lists.size()) return consider(tile);
    for (Index const value : lists[axis]) {
      tile[int(axis)] = value;
      Indices smallest = tile;
      for (std::size_t a = axis + 1; a < lists.size(); ++a) smallest[int(a)] = lists[a].front();
      // One tile at least is always looked at, for the message that it does not fit either.
      if (value != lists[axis].front() && least_bytes(smallest) > task_.budget) break;
      visit(lists, axis + 1, tile);
    }
  }

  /// A lower bound of the bytes of a rank.
  [[nodiscard]] Index least_bytes(Indices const& tile) const {
    Index const cells = product(tile);
    if (cells > std::numeric_limits<Index>::max() / (task_.value_bytes + 1)) return cells;
    return cells / Index(task_.writers.size()) * task_.value_bytes;
  }

  /// Lets one axis of the best tile grow as far as the budget allows.
  void refine() {
    if (!best_) return;
    for (int axis = 0; axis < task_.extents.size(); ++axis) {
      Indices const start = best_->tile;
      Index const step =
          start[axis] % source_chunk_[axis] == 0 ? std::lcm(step_[axis], source_chunk_[axis]) : step_[axis];
      for (Index part = 7; part > 4; --part) {
        Indices tile = start;
        tile[axis] = std::min(start[axis] * part / 4 / step * step, task_.extents[axis]);
        if (tile[axis] > start[axis]) consider(tile);
      }
    }
  }

  void consider(Indices const& tile) {
    for (bool const apart : {false, true}) {
      // With one rank, reader and writer always hold the same cells, and with a scratch file.
      if (apart && (task_.num_ranks == 1 || task_.pass != Pass::whole)) break;
      if (!apart && task_.num_ranks != int(task_.writers.size()) && task_.pass != Pass::fetch) continue;
      auto const candidate = evaluate(tile, apart);
      least_ = std::min(least_, candidate.workspace_bytes);
      if (candidate.workspace_bytes > task_.budget) continue;
      if (!best_ || candidate.cost < best_->cost) best_ = candidate;
    }
  }

  [[nodiscard]] Tiling evaluate(Indices const& tile, bool apart) const {
    Tiling result;
    result.task = task_;
    result.tile = tile;
    bool const keeps_order = std::is_sorted(task_.permutation.begin(), task_.permutation.end());
    bool const fetches = task_.pass == Pass::fetch;
    bool const stores = task_.pass == Pass::store;
    result.move = apart ? Move::between : fetches ? Move::fetched : keeps_order ? Move::none : Move::local;
    auto const written = write_side(result);
    auto const read = read_side(result);
    result.read_cells = product(read.largest);
    result.written_cells = product(written.largest);
    result.read_factor = task_.source.filtered ? read.factor : 1;
    result.scratch_bytes = std::max(scratch(task_.source, task_.extents, read.largest, false),
                                    stores ? 0
                                    : gathers_chunks(task_.target, target_extents_)
                                        ? chunk_scratch(task_.target, target_extents_, task_.value_bytes)
                                        : scratch(task_.target, target_extents_, written.largest, true));
    count_bytes(result);
    double rounds = 1;
    for (int axis = 0; axis < tile.size(); ++axis) rounds *= double(divide_up(task_.extents[axis], tile[axis]));
    result.cost = rounds * seconds_per_round;
    // What the scratch file takes is the same for all tiles.
    if (!fetches) result.cost += seconds(task_.source, task_.extents, read, read_rate, inflate_rate);
    if (!stores) result.cost += seconds(task_.target, target_extents_, written, write_rate, deflate_rate);
    if (result.move != Move::none) result.cost += written.cells * double(task_.value_bytes) / move_rate;
    // Packing and unpacking, or waiting for each other.
    if (result.move == Move::between)
      result.cost += written.cells * double(task_.value_bytes) / move_rate * (task_.shared_memory ? 0.1 : 2);
    return result;
  }

  void count_bytes(Tiling& tiling) const {
    Index const cells =
        (tiling.move == Move::fetched ? 0 : tiling.read_cells) + (tiling.move == Move::none ? 0 : tiling.written_cells);
    tiling.message_bytes = tiling.move == Move::between ? message_bytes_ : 0;
    if (task_.pass != Pass::whole)
      tiling.piece_bytes = std::max(std::min(task_.budget / 8, good_piece_bytes), task_.value_bytes);
    tiling.workspace_bytes =
        cells * task_.value_bytes + tiling.scratch_bytes + tiling.message_bytes + tiling.piece_bytes;
  }

  /// As `axis_figures`, kept for the next candidate.
  [[nodiscard]] AxisFigures const& figures(Index extent, Index tile, Index chunk, Index step, Index parts) const {
    auto const [found, is_new] = figures_.try_emplace({extent, tile, chunk, step, parts});
    if (is_new) found->second = axis_figures(extent, tile, chunk, step, parts);
    return found->second;
  }

  [[nodiscard]] SideFigures write_side(Tiling& tiling) const {
    auto const tile = to_target(tiling.tile, task_.permutation);
    Indices units;
    for (int a = 0; a < tile.size(); ++a) units.push_back(divide_up(tile[a], target_chunk_[a]));
    tiling.writer_grid = best_grid(units, Index(task_.writers.size()));
    SideFigures side;
    for (int a = 0; a < tile.size(); ++a) {
      Index const chunk = target_chunk_[a];
      side.add(figures(target_extents_[a], tile[a], chunk, chunk, tiling.writer_grid[a]),
               divide_up(target_extents_[a], chunk));
    }
    return side;
  }

  [[nodiscard]] SideFigures read_side(Tiling& tiling) const {
    bool const apart = tiling.move == Move::between;
    Indices units;
    for (int a = 0; a < tiling.tile.size(); ++a) units.push_back(divide_up(tiling.tile[a], source_chunk_[a]));
    tiling.reader_grid = apart ? best_grid(units, task_.num_ranks) : to_source(tiling.writer_grid, task_.permutation);
    Indices const step = apart ? source_chunk_ : to_source(target_chunk_, task_.permutation);
    SideFigures side;
    for (int a = 0; a < tiling.tile.size(); ++a) {
      side.add(figures(task_.extents[a], tiling.tile[a], source_chunk_[a], step[a], tiling.reader_grid[a]),
               divide_up(task_.extents[a], source_chunk_[a]));
    }
    return side;
  }

  TilingTask const& task_;
  Indices target_extents_;
  Indices source_chunk_;
  Indices target_chunk_;
  Indices step_;  ///< rounds start at multiples, in source axes
  mutable std::map<std::array<Index, 5>, AxisFigures> figures_;
  Index message_bytes_ = 0;  ///< of a rank, where ranks exchange cells
  std::optional<Tiling> best_;
  Index least_ = std::numeric_limits<Index>::max();
};

/// Cells of `outer` before those of `inner`, where boxes of a grid follow each other in row-major order.
Index cells_before(Box const& outer, Box const& inner) {
  Index before = 0;
  Index slower = 1;  // cells of `inner` along the axes so far
  Index rest = outer.num_cells();
  for (int a = 0; a < outer.ndim(); ++a) {
    rest /= outer.extent(a);
    before += slower * (inner.lo(a) - outer.lo(a)) * rest;
    slower *= inner.extent(a);
  }
  return before;
}

TilingTask store_task(TilingTask const& whole) {
  auto task = source_task(whole);
  task.pass = Pass::store;
  return task;
}

TilingTask fetch_task(TilingTask task) {
  task.pass = Pass::fetch;
  task.source = {.value_bytes = task.value_bytes};
  return task;
}

/// What a scratch file of all cells takes, at most: every part that is stored meets every part that is fetched.
double scratch_seconds(Tiling const& store, Tiling const& fetch) {
  auto const& extents = fetch.task.extents;
  double blocks = 1;
  for (int a = 0; a < extents.size(); ++a)
    blocks *= double(divide_up(extents[a], store.tile[a]) * store.reader_grid[a] +
                     divide_up(extents[a], fetch.tile[a]) * fetch.reader_grid[a] - 1);
  double const bytes = double(product(extents)) * double(fetch.task.value_bytes);
  double const pieces = blocks + bytes / double(std::min(store.piece_bytes, fetch.piece_bytes));
  return bytes / scratch_rate + 2 * pieces * seconds_per_run / double(fetch.task.writers.size());
}

Layout layout(Indices const& grid, Box const& round, Indices const& step, std::vector<int> const& ranks) {
  std::vector<Cuts> cuts;
  for (int a = 0; a < grid.size(); ++a) {
    auto const sizes = aligned_parts(round.lo(a), round.hi(a), step[a], grid[a]);
    cuts.emplace_back(std::span<Index const>(sizes));
  }
  auto chosen = ranks;
  chosen.resize(std::size_t(product(grid)));
  return {ProcessGrid::on_ranks(grid, std::move(chosen)), std::move(cuts)};
}

}  // namespace

Index place_in_scratch(Box const& variable, Box const& round, Box const& part, Box const& block) {
  return cells_before(variable, round) + cells_before(round, part) + cells_before(part, block);
}

std::vector<Index> aligned_parts(Index lo, Index hi, Index chunk, Index num_parts) {
  Index const first = lo / chunk;
  Index const units = divide_up(hi, chunk) - first;
  std::vector<Index> sizes;
  for (Index part = 0; part < num_parts; ++part) {
    auto const end = [&](Index p) {
      Index const whole = first + p * (units / num_parts) + std::min(p, units % num_parts);
      return std::clamp(whole * chunk, lo, hi);
    };
    sizes.push_back(end(part + 1) - end(part));
  }
  return sizes;
}

bool gathers_chunks(Storage const& storage, Indices const& extents) {
  if (storage.filtered || storage.chunk.size() != extents.size() ||
      std::popcount(std::uint64_t(storage.value_bytes)) != 1)
    return false;
  auto const chunk = granule(storage, extents);
  return run_cells({}, extents, chunk) * storage.value_bytes < long_row_bytes &&
         product(chunk) * storage.value_bytes >= large_chunk_bytes;
}

Index rows_at_once(Storage const& storage, Box const& box) {
  Index const step = storage.chunk.size() == box.ndim() ? std::max<Index>(storage.chunk[0], 1) : 1;
  if (box.empty()) return step;
  Index const rows = box.extent(0);
  if (!storage.filtered && !storage.converted) return divide_up(rows, step) * step + step;
  Index const row_bytes = box.num_cells() / rows * storage.value_bytes;
  return std::max<Index>(call_bytes / (row_bytes * step), 1) * step;
}

Index Tiling::num_rounds() const {
  Index count = 1;
  for (int a = 0; a < tile.size(); ++a) count *= divide_up(task.extents[a], tile[a]);
  return count;
}

Box Tiling::round(Index number) const {
  Indices counts;
  for (int a = 0; a < tile.size(); ++a) counts.push_back(divide_up(task.extents[a], tile[a]));
  auto lo = coords_of(number, counts);
  Indices hi;
  for (int a = 0; a < tile.size(); ++a) {
    lo[a] *= tile[a];
    hi.push_back(std::min(lo[a] + tile[a], task.extents[a]));
  }
  return {lo, hi};
}

Layout Tiling::readers(Box const& round) const {
  if (move == Move::between) {
    std::vector<int> ranks(std::size_t(task.num_ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    return layout(reader_grid, round, granule(task.source, task.extents), ranks);
  }
  auto const step = granule(task.target, to_target(task.extents, task.permutation));
  // Places run over the target's axes, so that a rank reads the box that it writes.
  auto ranks = task.writers;
  for (Index place = 0; place < product(reader_grid); ++place) {
    auto const coords = to_target(coords_of(place, reader_grid), task.permutation);
    ranks[std::size_t(place)] = task.writers[std::size_t(number_of(coords, writer_grid))];
  }
  return layout(reader_grid, round, to_source(step, task.permutation), ranks);
}

Layout Tiling::writers(Box const& round) const {
  auto const extents = to_target(task.extents, task.permutation);
  Box const target(to_target(round.lo(), task.permutation), to_target(round.hi(), task.permutation));
  return layout(writer_grid, target, granule(task.target, extents), task.writers);
}

TilingTask source_task(TilingTask task) {
  std::iota(task.permutation.begin(), task.permutation.end(), 0);
  task.target = {.chunk = task.source.chunk, .value_bytes = task.value_bytes};
  task.writers.resize(std::size_t(task.num_ranks));
  std::iota(task.writers.begin(), task.writers.end(), 0);
  return task;
}

Tiling make_tiling(TilingTask const& task) { return Search(task).best(); }

Passes make_passes(TilingTask const& task) {
  Passes whole{{}, make_tiling(task)};
  if (!task.one_node || whole.last.read_factor <= 1) return whole;
  auto const first = store_task(task);
  auto const second = fetch_task(task);
  auto const store = Search(first).find();
  auto const fetch = Search(second).find();
  if (!store || !fetch || store->read_factor >= whole.last.read_factor) return whole;
  double const seconds = store->cost + fetch->cost + scratch_seconds(*store, *fetch);
  return seconds < whole.last.cost ? Passes{*store, *fetch} : whole;
}

Index least_budget(TilingTask const& task) { return Search(task).least(); }

}  // namespace graticule::archive
