// SPDX-License-Identifier: BSD-3-Clause
#include "cut_moves.hpp"
#include "passes.hpp"

#include <algorithm>
#include <utility>

namespace graticule::program::detail {

namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;  // [lo, hi)

Interval part_of(std::vector<std::int64_t> const& bounds, std::int64_t part) {
  return {bounds[index(part)], bounds[index(part) + 1]};
}

std::int64_t length(Interval const& interval) { return std::max<std::int64_t>(interval.second - interval.first, 0); }

Interval common(Interval const& a, Interval const& b) {
  return {std::max(a.first, b.first), std::min(a.second, b.second)};
}

// The bounds of the first field where the extent is the same.
std::vector<std::int64_t> bounds_for(std::vector<std::int64_t> const& first, std::int64_t extent) {
  return first.back() == extent ? first : Cut::balanced(0, extent, static_cast<std::int64_t>(first.size()) - 1).bounds;
}

// One field between its blocks and its bands.
class FieldMove {
 public:
  FieldMove(Shape const& shape, Cut const& bands, BlockCuts const& blocks)
      : rows_(bounds_for(blocks.rows, shape[shape.size() - 2])),
        columns_(bounds_for(blocks.columns, shape.back())),
        bands_(bands.bounds) {}

  // Cells of a plane that a rank receives, and from how many ranks.
  [[nodiscard]] Interval received(std::int64_t rank, bool to_bands) const {
    Interval result{0, 0};
    for (std::int64_t other = 0; other < num_ranks(); ++other) {
      std::int64_t const cells = to_bands ? shared(other, rank) : shared(rank, other);
      if (other != rank && cells > 0) {
        result.first += cells;
        ++result.second;
      }
    }
    return result;
  }

 private:
  [[nodiscard]] std::int64_t num_columns() const { return static_cast<std::int64_t>(columns_.size()) - 1; }
  [[nodiscard]] std::int64_t num_ranks() const { return static_cast<std::int64_t>(bands_.size()) - 1; }

  // Cells in the block of one rank and the band of another.
  [[nodiscard]] std::int64_t shared(std::int64_t block, std::int64_t band) const {
    return length(common(part_of(rows_, block / num_columns()), part_of(bands_, band))) *
           length(part_of(columns_, block % num_columns()));
  }

  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> columns_;
  std::vector<std::int64_t> bands_;
};

void count_field(Plan& plan, ValueId id, Placement const& bands, BlockCuts const& blocks, bool to_bands) {
  Shape const& shape = plan.shapes[index(id)];
  std::int64_t const cells = shape.size() < 2 ? 0 : shape[shape.size() - 2] * shape.back();
  if (!bands || cells == 0) {
    return;
  }
  std::int64_t const bytes = num_elements(shape) / cells * item_bytes(plan.graph.value(id).tensor.dtype);
  FieldMove const move(shape, *bands, blocks);
  std::int64_t messages = 0;
  for (std::int64_t rank = 0; rank < plan.num_ranks; ++rank) {
    auto const [received, peers] = move.received(rank, to_bands);
    plan.block_bytes[index(rank)] += received * bytes;
    plan.received_bytes[index(rank)] += received * bytes;
    messages = std::max(messages, peers);
  }
  plan.messages += messages;
}

}  // namespace

void count_blocks(Plan& plan, BlockCuts const& blocks) {
  plan.block_bytes.assign(index(plan.num_ranks), 0);
  for (ValueId const id : plan.user_inputs) {
    count_field(plan, id, plan.inputs[index(id)], blocks, true);
  }
  for (Transfer const& output : plan.outputs) {
    count_field(plan, output.value, output.to, blocks, false);
  }
}

}  // namespace graticule::program::detail
