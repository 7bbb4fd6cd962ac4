// SPDX-License-Identifier: BSD-3-Clause
#include "whole_field.hpp"

#include <graticule/repartition/plan.hpp>

namespace graticule::train {

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

}  // namespace graticule::train
