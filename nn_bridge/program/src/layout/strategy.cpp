// SPDX-License-Identifier: BSD-3-Clause
#include "strategy.hpp"

#include "cut_moves.hpp"

#include <algorithm>
#include <set>

namespace graticule::program::detail {

namespace {

std::int64_t owner(Cut const& cut, std::int64_t row) {
  return std::upper_bound(cut.bounds.begin(), cut.bounds.end() - 1, row % cut.period) - cut.bounds.begin() - 1;
}

Cut scaled(Cut const& cut, std::int64_t axis, std::int64_t extent) {
  if (cut.period == 0) {
    return Cut::balanced(axis, extent, cut.num_ranks());  // of an axis without indices
  }
  Cut result{axis, extent, {}};
  for (std::int64_t const bound : cut.bounds) {
    result.bounds.push_back((2 * bound * extent + cut.period) / (2 * cut.period));
  }
  return result;
}

// Each row of the table on the rank that owns its source, if that is in order; otherwise shares as before.
Cut owners_of_table(Cut const& cut, std::int64_t axis, PullTable const& table, std::int32_t input) {
  auto const extent = static_cast<std::int64_t>(table.size());
  Cut result{axis, extent, std::vector<std::int64_t>(cut.bounds.size(), extent)};
  result.bounds.front() = 0;
  std::int64_t last = 0;
  for (std::int64_t row = 0; row < extent; ++row) {
    Source const& source = table[index(row)];
    if (source.input != input || source.index < 0) {
      continue;
    }
    std::int64_t const rank = owner(cut, source.index);
    if (rank < last) {
      return scaled(cut, axis, extent);
    }
    for (; last < rank; ++last) {
      result.bounds[index(last + 1)] = row;
    }
  }
  return result;
}

std::vector<std::vector<std::int64_t>> table_rows(AxisRule const& rule, Cut const& cut, std::size_t tensor) {
  std::vector<std::vector<std::int64_t>> rows(index(cut.num_ranks()));
  for (std::int64_t rank = 0; rank < cut.num_ranks(); ++rank) {
    for (std::int64_t row = cut.bounds[index(rank)]; row < cut.bounds[index(rank + 1)]; ++row) {
      if (rule.table[index(row)].input == static_cast<std::int32_t>(tensor)) {
        rows[index(rank)].push_back(rule.table[index(row)].index);
      }
    }
  }
  return rows;
}

std::vector<std::vector<std::int64_t>> window_rows(AxisRule const& rule, Cut const& cut, std::int64_t extent) {
  std::vector<std::vector<std::int64_t>> rows(index(cut.num_ranks()));
  for (std::int64_t rank = 0; rank < cut.num_ranks(); ++rank) {
    std::int64_t const first = cut.bounds[index(rank)];
    std::int64_t const end = cut.bounds[index(rank + 1)];
    if (first == end) {
      continue;
    }
    std::int64_t lo = rule.windows[index(first)].first;
    std::int64_t hi = rule.windows[index(first)].second;
    for (std::int64_t row = first; row < end; ++row) {
      lo = std::min(lo, rule.windows[index(row)].first);
      hi = std::max(hi, rule.windows[index(row)].second);
    }
    for (std::int64_t row = lo; row < hi; ++row) {
      rows[index(rank)].push_back(0 <= row && row < extent ? row : -1);
    }
  }
  return rows;
}

std::int64_t share(Placement const& placement, Shape const& shape, std::int64_t rank) {
  return num_elements(local_shape(shape, placement, rank));
}

// Elements that a rank needs, those among them that it has, and the other ranks that have parts of them.
struct Need {
  std::int64_t needed = 0;
  std::int64_t present = 0;
  std::int64_t num_peers = 0;
};

// @param num_others ranks that have a part of the value, without this one
Need needed_rows(Transfer const& transfer, Shape const& shape, std::int64_t rank, std::int64_t num_others) {
  std::set<std::int64_t> rows(transfer.rows[index(rank)].begin(), transfer.rows[index(rank)].end());
  rows.erase(rows.begin(), rows.lower_bound(0));
  std::int64_t const per_row = num_elements(shape) / std::max<std::int64_t>(1, shape[index(transfer.axis)]);
  Cut const& from = *transfer.from;
  auto const num_rows = static_cast<std::int64_t>(rows.size());
  if (from.axis != transfer.axis) {
    std::int64_t const extent = shape[index(from.axis)];
    return {num_rows * per_row, num_rows * (per_row / extent * from.owned_extent(extent, rank)),
            num_rows > 0 ? num_others : 0};
  }
  Need need{num_rows * per_row, 0, 0};
  std::set<std::int64_t> peers;
  for (std::int64_t const row : rows) {
    std::int64_t const peer = owner(from, row);
    if (peer == rank) {
      need.present += per_row;
    } else {
      peers.insert(peer);
    }
  }
  need.num_peers = static_cast<std::int64_t>(peers.size());
  return need;
}

std::int64_t common(Cut const& from, Cut const& to, Shape const& shape, std::int64_t rank) {
  std::int64_t const extent = shape[index(from.axis)];
  if (from.axis == to.axis) {
    return num_elements(shape) / extent * common_extent(from, to, extent, rank);
  }
  std::int64_t const other = shape[index(to.axis)];
  return num_elements(shape) / extent / other * from.owned_extent(extent, rank) * to.owned_extent(other, rank);
}

}  // namespace

std::vector<Cut> cuts_after(NodeRule const& rule, std::size_t tensor, Cut const& cut) {
  std::vector<Cut> cuts;
  Shape const& from = rule.shapes[tensor];
  Shape const& to = rule.result_shapes[0];
  if (rule.view) {
    auto const aligned = aligned_for_view(cut, from, to);
    for (auto const& before : {std::optional(cut), aligned}) {
      auto const after = before ? through_view(*before, from, to) : std::nullopt;
      if (after) {
        cuts.push_back(*after);
      }
    }
    return cuts;
  }
  for (std::size_t a = 0; a < rule.axes.size(); ++a) {
    AxisRule const& axis = rule.axes[a];
    if (axis.mode == RunMode::whole || axis.axes.at(tensor) != cut.axis) {
      continue;
    }
    bool const rows = cut.period == from[index(cut.axis)];
    auto const own = static_cast<std::int64_t>(a);
    if (axis.mode == RunMode::same || axis.mode == RunMode::statistic) {
      cuts.push_back({own, cut.period, cut.bounds});
    } else if (rows && axis.mode == RunMode::window) {
      cuts.push_back(scaled(cut, own, to[a]));
    } else if (rows) {
      cuts.push_back(owners_of_table(cut, own, axis.table, static_cast<std::int32_t>(tensor)));
    }
  }
  return cuts;
}

std::vector<Cut> fresh_cuts(NodeRule const& rule, std::int64_t num_ranks) {
  std::vector<Cut> cuts;
  Shape const& shape = rule.result_shapes[0];
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (rule.axes[a].mode != RunMode::whole && shape[a] > 1) {
      cuts.push_back(Cut::balanced(static_cast<std::int64_t>(a), shape[a], num_ranks));
    }
  }
  return cuts;
}

std::optional<std::vector<Transfer>> needs(NodeRule const& rule, Cut const& cut) {
  std::vector<Transfer> transfers(rule.tensors.size());
  AxisRule const& axis = rule.axes.at(index(cut.axis));
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i].value = rule.tensors[i];
  }
  if (rule.view) {
    transfers[0].to = through_view(cut, rule.result_shapes[0], rule.shapes[0]);
    return transfers[0].to ? std::optional(transfers) : std::nullopt;
  }
  bool const rows = cut.period == rule.result_shapes[0][index(cut.axis)];
  bool const plain = axis.mode == RunMode::same || axis.mode == RunMode::statistic;
  if (axis.mode == RunMode::whole || (!plain && !rows)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    std::int64_t const own = axis.axes.at(i);
    if (own < 0) {
      continue;
    }
    if (plain) {
      transfers[i].to = Cut{own, cut.period, cut.bounds};
      continue;
    }
    transfers[i].axis = own;
    transfers[i].rows =
        axis.mode == RunMode::table ? table_rows(axis, cut, i) : window_rows(axis, cut, rule.shapes[i][index(own)]);
  }
  return transfers;
}

void count(Transfer& transfer, Shape const& shape, std::int64_t item_bytes, std::int64_t num_ranks) {
  transfer.bytes.assign(index(num_ranks), 0);
  transfer.messages = 0;
  if (!transfer.from || num_elements(shape) == 0 || (transfer.axis < 0 && transfer.to == transfer.from)) {
    return;
  }
  std::vector<std::int64_t> held(index(num_ranks));
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    held[index(rank)] = share(transfer.from, shape, rank);
  }
  auto const num_holders = num_ranks - std::count(held.begin(), held.end(), 0);
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    auto const own = held[index(rank)];
    auto const num_others = num_holders - (own > 0 ? 1 : 0);
    auto const need = transfer.axis >= 0 ? needed_rows(transfer, shape, rank, num_others)
                      : transfer.to      ? Need{share(transfer.to, shape, rank),
                                           common(*transfer.from, *transfer.to, shape, rank), num_others}
                                         : Need{share(transfer.to, shape, rank), own, num_others};
    transfer.bytes[index(rank)] = (need.needed - need.present) * item_bytes;
    if (need.needed > need.present) {
      transfer.messages = std::max(transfer.messages, need.num_peers);
    }
  }
}

}  // namespace graticule::program::detail
