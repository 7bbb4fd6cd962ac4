// SPDX-License-Identifier: BSD-3-Clause
// A plan that checks itself: the number of each cell is moved instead of its value.
#include <graticule/partition/cells.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "pull_state.hpp"

#include <cmath>

namespace graticule::detail {

namespace {

/// Number of a cell of the global box, from 1; exact in a double up to 2^53.
double number_of(Box const& global, Indices const& cell) {
  Index number = 0;
  for (int a = 0; a < global.ndim(); ++a) number = number * global.extent(a) + cell[a] - global.lo(a);
  return double(number + 1);
}

/// Memory for one number a cell of `box`, NaN at first.
struct Numbers {
  Box box;
  std::vector<double> values;

  explicit Numbers(Box const& covered) : box(covered), values(std::size_t(covered.num_cells()), std::nan("")) {}
  [[nodiscard]] double& at(Indices const& cell) {
    Index at = 0;
    for (int a = 0; a < box.ndim(); ++a) at = at * box.extent(a) + cell[a] - box.lo(a);
    return values[std::size_t(at)];
  }
  [[nodiscard]] FieldView view() { return field_view(values.data(), box.extents(), box.ndim()); }
};

/// What the map says for each needed cell: NaN where it is left alone.
Numbers expected_numbers(PullKind const& kind, Target const& target, Box const& global) {
  Numbers expected(target.box);
  for (auto const& needed : target.needed) {
    if (needed.empty()) continue;
    for (auto const& piece : kind.map(needed))
      for_each_cell(piece.box, [&](Indices const& cell) {
        if (piece.filled) {
          expected.at(cell) = piece.fill;
          return;
        }
        auto image = cell;
        for (int a = 0; a < cell.size(); ++a) {
          auto const& map = piece.maps[std::size_t(a)];
          image[map.source_axis] = map.slope * cell[a] + map.offset;
        }
        expected.at(cell) = (piece.negated ? -1 : 1) * number_of(global, image);
      });
  }
  return expected;
}

void compare(Numbers& found, Numbers& expected, int kind) {
  for_each_cell(found.box, [&](Indices const& cell) {
    double const has = found.at(cell);
    double const must = expected.at(cell);
    if (has == must || (std::isnan(has) && std::isnan(must))) return;
    throw Error("CheckFailed", "cell " + cell_text(cell) + " of kind " + std::to_string(place_number(kind)) +
                                   " holds " + std::to_string(has) + ", expected " + std::to_string(must) +
                                   " (number of its source cell, counted from 1)");
  });
}

}  // namespace

void PullState::verify_cells() const {
  for (std::size_t k = 0; k < plan_.kinds.size(); ++k) {
    auto const& kind = plan_.kinds[k];
    Numbers source(kind.source_box);
    Box const owned = intersection(kind.source_box, plan_.owned_of[k]);
    for_each_cell(owned, [&](Indices const& cell) { source.at(cell) = number_of(plan_.global, cell); });
    std::vector<Numbers> targets;
    std::vector<FieldView> views;
    for (auto const& target : kind.targets) targets.emplace_back(target.box);
    for (auto& target : targets) views.push_back(target.view());
    PullField const field{source.view(), views, Parity::even, int(k)};
    auto* const call = start(std::span(&field, 1), Direction::forward, {});
    finish(*call);
    run_agreed(plan_.comm, [&] {
      for (std::size_t t = 0; t < targets.size(); ++t) {
        auto expected = expected_numbers(kind, kind.targets[t], plan_.global);
        compare(targets[t], expected, int(k));
      }
    });
  }
}

}  // namespace graticule::detail
