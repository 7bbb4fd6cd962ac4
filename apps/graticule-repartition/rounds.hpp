// SPDX-License-Identifier: BSD-3-Clause
// Moves the values of a variable from the input to the output, round by round.
#pragma once

#include <graticule/field_io/detail/scratch_file.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "rewrite.hpp"
#include "tiling.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace graticule::archive {

/// State that is common to the ranks of a run.
struct Setting {
  Comm const& comm;
  Index budget = 0;
  std::vector<int> writers = {};  ///< ranks that write, in increasing order
  bool shared_memory = false;     ///< see `TilingTask`
};

/// `writers_per_node` ranks of each node write, or all (0). Collective.
[[nodiscard]] Setting make_setting(Comm const& comm, Index budget, int writers_per_node);

/// What a rank did, added up over variables.
struct Totals {
  double read_seconds = 0;
  double move_seconds = 0;
  double write_seconds = 0;
  double scratch_seconds = 0;  ///< to a scratch file and back
  Index peak_bytes = 0;        ///< of buffers, scratch and messages at any time
  Index read_bytes = 0;        ///< of values handed over by the input
  Index written_bytes = 0;     ///< of values handed to the output
  Index sent_bytes = 0;        ///< to other ranks
  Index num_messages = 0;
};

/// Cells that are probably no values though they are read as such: see `probable_fill`.
struct ProbableFills {
  Index count = 0;
  Index first = std::numeric_limits<Index>::max();  ///< in row-major order of the source
};

/// What is to be cut into rounds: a rewrite, and a pass over its source alone.
[[nodiscard]] TilingTask task_of(Rewrite const& rewrite, Setting const& setting);
[[nodiscard]] TilingTask scan_task_of(Rewrite const& rewrite, Setting const& setting);

/// Called before each round; throws on all ranks alike to stop.
using BeforeRound = std::function<void()>;

/// Memory of one rank for the rounds of a tiling, and what it has read.
class RoundBuffers {
 public:
  RoundBuffers(Rewrite const& rewrite, Tiling const& tiling, Setting const& setting);

  /// Reads this rank's part of a round. Collective.
  void read(FieldFile const& input, Box const& round);
  /// Brings it to the ranks that write. Collective.
  void move(Box const& round);
  /// Writes it. Collective.
  void write(FieldWriter& output, Box const& round);
  /// Keeps what `read` left here for the rounds of `fetch`, the second pass. Collective.
  void store(ScratchFile const& scratch, Tiling const& fetch, Box const& round);
  /// Takes this rank's part of a round from there, in order: instead of `read` and `move`. Collective.
  void fetch(ScratchFile const& scratch, Tiling const& store, Box const& round);

  /// What `read` left here. @pre the form is f32, f64
  template <class Value>
  [[nodiscard]] std::span<Value const> values() const {
    return {reinterpret_cast<Value const*>(source_), std::size_t(source_box_.num_cells())};
  }
  [[nodiscard]] Totals const& totals() const noexcept { return totals_; }
  /// What this rank has read of them.
  [[nodiscard]] ProbableFills const& fills() const noexcept { return fills_; }
  [[nodiscard]] Rewrite const& rewrite() const noexcept { return rewrite_; }
  [[nodiscard]] Comm const& comm() const noexcept { return setting_.comm; }

 private:
  [[nodiscard]] FieldView view(std::byte* data, Indices const& extents) const;
  /// Calls `visit(box, bytes)` for the slabs of a box, as often as the rank with the most slabs needs.
  void for_each_slab(Storage const& storage, Layout const& layout, Box const& own, Indices const& first,
                     std::byte* data, std::function<void(Box const&, std::span<std::byte>)> const& visit);
  /// The same for the chunks of this rank's target box, each brought in order.
  void for_each_chunk(Indices const& chunk, Layout const& layout, Indices const& first,
                      std::function<void(Box const&, std::span<std::byte>)> const& visit);
  void count(Index scratch);
  template <class Value>
  void count_fills(Box const& box, std::span<Value const> values);

  Rewrite const& rewrite_;
  Tiling const& tiling_;
  Setting const& setting_;
  NodeMemory shared_;
  std::unique_ptr<std::byte[]> own_source_;
  std::unique_ptr<std::byte[]> own_target_;
  std::unique_ptr<std::byte[]> piece_;
  std::vector<std::byte> chunk_;
  std::byte* source_ = nullptr;
  std::byte* target_ = nullptr;
  Index buffer_bytes_ = 0;
  Box source_box_;
  Box target_box_;
  std::optional<RepartitionPlan> plan_;
  std::uint64_t plan_key_ = 0;
  PullStats before_;
  Totals totals_;
  std::optional<double> fill_;
  ProbableFills fills_;
};

/// Rewrites the values of a variable; its `target` was added to the output. Collective.
void copy_values(RoundBuffers& buffers, Tiling const& tiling, FieldFile const& input, FieldWriter& output,
                 BeforeRound const& before_round);

/// The first of two passes, which brings the values to a scratch file, and the second, which takes them from there.
/// Collective.
void store_values(RoundBuffers& buffers, Passes const& passes, FieldFile const& input, ScratchFile const& scratch,
                  BeforeRound const& before_round);
void fetch_values(RoundBuffers& buffers, Passes const& passes, ScratchFile const& scratch, FieldWriter& output,
                  BeforeRound const& before_round);

/// The packing into 16-bit integers of least error: -32767 stands for the least value, 32767 for the greatest. Reads
/// all values once. Collective. @throws `Conversion` (input) for infinite values
[[nodiscard]] Packing find_packing(RoundBuffers& buffers, Tiling const& scan, FieldFile const& input,
                                   BeforeRound const& before_round);

}  // namespace graticule::archive
