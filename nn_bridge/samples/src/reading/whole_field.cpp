// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/plan.hpp>
#include <graticule/samples/detail/whole_field.hpp>

namespace graticule::samples {

std::vector<double> gathered(Comm const& comm, Layout const& layout, std::vector<double> const& values) {
  Indices const extents = layout.global().extents();
  std::vector<Box> boxes(std::size_t(comm.num_ranks()), Box({0, 0}, {0, 0}));
  boxes[0] = layout.global();
  RepartitionPlan const plan(comm, layout, Layout::from_boxes(extents, boxes));
  std::vector<double> whole(std::size_t(plan.target_box().num_cells()));
  plan.apply(field_view(values.data(), plan.source_box().extents(), 2),
             field_view(whole.data(), plan.target_box().extents(), 2));
  return whole;
}

Layout layout_of_boxes(Comm const& comm, Indices const& extents, Box const& own) {
  std::vector<Index> corners(own.lo().begin(), own.lo().end());
  corners.insert(corners.end(), own.hi().begin(), own.hi().end());
  std::vector<Index> all(std::size_t(comm.num_ranks()) * corners.size());
  comm.gather_to_all(corners.data(), Index(corners.size() * sizeof(Index)), all.data());
  std::vector<Box> boxes;
  for (auto from = all.begin(); from != all.end(); from += 2 * own.ndim()) {
    Box box = own;
    for (int a = 0; a < own.ndim(); ++a) box.set(a, from[a], from[own.ndim() + a]);
    boxes.push_back(box);
  }
  return Layout::from_boxes(extents, boxes);
}

}  // namespace graticule::samples
