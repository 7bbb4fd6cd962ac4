// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/division.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/numbers_in.hpp>

#include <algorithm>
#include <cstdlib>

namespace graticule {

Selection Selection::all(Box const& box) { return Selection::every_nth(box, Indices::filled(box.ndim(), 1)); }

Selection Selection::every_nth(Box const& box, Indices const& step) {
  if (step.size() != box.ndim())
    throw Error("BadSelection", "a step is needed for each of " + std::to_string(box.ndim()) + " axes, got " +
                                    std::to_string(step.size()));
  Selection result{box.lo(), step, box.extents()};
  for (int a = 0; a < box.ndim(); ++a) {
    if (step[a] == 0) throw Error("BadSelection", "a step must not be 0, got it on axis " + std::to_string(a));
    Index const stride = std::abs(step[a]);
    result.extents[a] = detail::ceil_div(box.extent(a), stride);
    if (step[a] < 0) result.first[a] = box.hi(a) - 1;
  }
  return result;
}

std::string to_string(Selection const& selection) {
  return "first " + detail::cell_text(selection.first) + ", step " + to_string(selection.step) + ", extents " +
         to_string(selection.extents);
}

namespace detail {

Box numbers_in(graticule::Selection const& selection, Box const& box) {
  Box result = Box::from_extents(selection.extents);
  for (int a = 0; a < box.ndim(); ++a) {
    Index const step = std::abs(selection.step[a]);
    bool const backwards = selection.step[a] < 0;
    // Distances from the first cell, in the direction of the step, of the box's nearest and farthest cell.
    Index const nearest = backwards ? selection.first[a] - (box.hi(a) - 1) : box.lo(a) - selection.first[a];
    Index const farthest = backwards ? selection.first[a] - box.lo(a) : box.hi(a) - 1 - selection.first[a];
    Index const lo = std::max<Index>(0, ceil_div(nearest, step));
    Index const hi = std::min(selection.extents[a], floor_div(farthest, step) + 1);
    result.set(a, lo, box.extent(a) == 0 ? lo : std::max(lo, hi));
  }
  return result;
}

}  // namespace detail

}  // namespace graticule
