// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/partition/hash.hpp>

namespace graticule {

std::vector<Box> halo_boxes(Box const& owned, Box const& local, Corners corners) {
  std::vector<Box> boxes;
  if (owned.empty()) return boxes;
  int const ndim = owned.ndim();
  auto direction = Indices::filled(ndim, -1);
  while (true) {
    Box box = owned;
    int num_outside = 0;
    for (int a = 0; a < ndim; ++a) {
      if (direction[a] < 0) box.set(a, local.lo(a), owned.lo(a));
      if (direction[a] > 0) box.set(a, owned.hi(a), local.hi(a));
      num_outside += direction[a] != 0 ? 1 : 0;
    }
    if (num_outside > 0 && (num_outside == 1 || corners == Corners::fill) && !box.empty()) boxes.push_back(box);
    int a = ndim - 1;
    while (a >= 0 && direction[a] == 1) {
      direction[a] = -1;
      --a;
    }
    if (a < 0) return boxes;
    ++direction[a];
  }
}

namespace {

PullDescription describe(Comm const& comm, Layout const& layout, std::vector<Width> const& widths,
                         Boundary const& boundary, Corners corners) {
  Hash hash;
  for (std::size_t a = 0; a < widths.size(); ++a) {
    if (widths[a].lower < 0 || widths[a].upper < 0)
      throw Error("BadWidth", "axis " + std::to_string(a) + " has widths " + std::to_string(widths[a].lower) + " and " +
                                  std::to_string(widths[a].upper));
    hash.add(widths[a].lower).add(widths[a].upper);
  }
  hash.add(fingerprint(boundary)).add(int(corners));
  Box const owned = layout.owned(comm.rank());
  Box const local = grown(owned, widths);
  return {
      layout,
      {{local, {Target{local, halo_boxes(owned, local, corners)}}, boundary_map(layout.global().extents(), boundary)}},
      hash.value(),
      AfterAdjoint::zero};
}

PullDescription describe_agreed(Comm const& comm, Layout const& layout, std::vector<Width> const& widths,
                                Boundary const& boundary, Corners corners) {
  PullDescription result{layout, {}, 0, AfterAdjoint::zero};
  run_agreed(comm, [&] { result = describe(comm, layout, widths, boundary, corners); });
  return result;
}

std::vector<PullField> in_place(std::span<HaloField const> fields) {
  std::vector<PullField> result;
  result.reserve(fields.size());
  for (auto const& field : fields) result.push_back({field.view, std::span(&field.view, 1), field.parity});
  return result;
}

}  // namespace

HaloPlan::HaloPlan(Comm const& comm, Layout const& layout, std::vector<Width> const& widths, Boundary const& boundary,
                   Corners corners)
    : owned_(layout.owned(comm.rank())),
      local_(owned_),
      plan_(comm, describe_agreed(comm, layout, widths, boundary, corners)) {
  local_ = grown(owned_, widths);
}

Pending HaloPlan::start(std::span<HaloField const> fields) const { return plan_.start(in_place(fields)); }

Pending HaloPlan::start_adjoint(std::span<HaloField const> fields) const {
  return plan_.start_adjoint(in_place(fields));
}

Pending HaloPlan::start(FieldView const& field) const {
  PullField const one{field, std::span(&field, 1), Parity::even};
  return plan_.start(std::span(&one, 1));
}

Pending HaloPlan::start_adjoint(FieldView const& field) const {
  PullField const one{field, std::span(&field, 1), Parity::even};
  return plan_.start_adjoint(std::span(&one, 1));
}

}  // namespace graticule
