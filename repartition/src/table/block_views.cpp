// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/box.hpp>
#include <graticule/repartition/block_views.hpp>

namespace graticule {

namespace {

/// `view` of one block, without the memory axis of its number; with several faces that becomes the axis of the face.
FieldView of_one_block(FieldView const& view, int num_faces) {
  if (num_faces > 1) return view;
  FieldView result = view;
  result.extents = {};
  result.strides = {};
  result.grid_axes = {};
  Index const removed = view.grid_axes[0];
  for (int m = 0; m < view.ndim(); ++m) {
    if (m == removed) continue;
    result.extents.push_back(view.extents[m]);
    result.strides.push_back(view.strides[m]);
  }
  for (int a = 1; a < view.grid_axes.size(); ++a)
    result.grid_axes.push_back(view.grid_axes[a] - (view.grid_axes[a] > removed ? 1 : 0));
  return result;
}

}  // namespace

std::vector<FieldView> views_of_blocks(BlockGrid const& grid, int rank, FieldView const& field) {
  Box const places = grid.layout().owned(rank);
  auto const all = field.part(places, places);
  std::vector<FieldView> views;
  auto const boxes = grid.boxes(rank);
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    Box block = places;
    block.set(0, places.lo(0) + Index(b), places.lo(0) + Index(b) + 1);
    for (int a = 1; a <= grid.ndim(); ++a) block.set(a, 0, boxes[b].extent(boxes[b].ndim() - grid.ndim() + a - 1));
    views.push_back(of_one_block(all.part(places, block), grid.num_faces()));
  }
  if (views.empty()) views.push_back(of_one_block(all.without_cells(), grid.num_faces()));
  return views;
}

}  // namespace graticule
