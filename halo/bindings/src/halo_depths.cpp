// SPDX-License-Identifier: BSD-3-Clause
// Numbers of valid halo layers.
#include "handles.hpp"
#include "structures.hpp"

#include <algorithm>
#include <span>
#include <utility>

using namespace graticule;
using namespace graticule::c;

static_assert(int(AtMirrors::differs) == GR_MIRRORS_DIFFER && int(AtMirrors::commutes) == GR_MIRRORS_COMMUTE);

namespace {

int ndim_of(Object<gr_halo_depth> const& depth) { return depth.owned.ndim(); }

std::vector<Width> stencil_of(Object<gr_halo_depth> const& depth, int ndim, int64_t const* lower,
                              int64_t const* upper) {
  require_ndim(ndim, ndim_of(depth));
  required(lower, "reach_lower");
  required(upper, "reach_upper");
  std::vector<Width> reach;
  for (int a = 0; a < ndim; ++a) reach.push_back({lower[a], upper[a]});
  return reach;
}

/// Writes what `of` gives for each axis, as a pair of layers.
template <class T, class Of>
void write_sides(Object<gr_halo_depth> const& depth, int ndim, T* lower, T* upper, Of&& of) {
  require_ndim(ndim, ndim_of(depth));
  required(lower, "lower");
  required(upper, "upper");
  for (int a = 0; a < ndim; ++a) {
    Width const sides = of(a);
    lower[a] = T(sides.lower);
    upper[a] = T(sides.upper);
  }
}

}  // namespace

gr_status gr_halo_depth_create(gr_halo const* halo, char const* name, int kind, gr_parity parity,
                               gr_halo_depth** depth) {
  return GR_BODY({
    auto const& plan = required(halo, "halo").plan;
    required(depth, "depth");
    auto const whose = enumerator<Parity>(parity, GR_ODD, {"parity"});
    if (kind < 0 || kind >= plan.num_kinds())
      throw bad_argument("kind is " + std::to_string(kind) + " of a plan with " + std::to_string(plan.num_kinds()) +
                         " kinds");
    give(depth, HaloDepth(plan, &required(name, "name"), kind, whose), plan, kind, whose);
  });
}

gr_status gr_halo_depth_destroy(gr_halo_depth** depth) {
  return GR_FREE({ free_handle(depth, "depth"); });
}

gr_status gr_halo_depth_exchanged(gr_halo_depth* depth) {
  return GR_BODY({ required(depth, "depth").depth.exchanged(); });
}

gr_status gr_halo_depth_written(gr_halo_depth* depth) {
  return GR_BODY({ required(depth, "depth").depth.written(); });
}

gr_status gr_halo_depth_inside(gr_halo_depth const* depth, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto const& of = required(depth, "depth");
    write_sides(of, ndim, lower, upper, [&](int a) { return of.depth.inside(a); });
  });
}

gr_status gr_halo_depth_beyond(gr_halo_depth const* depth, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto const& of = required(depth, "depth");
    write_sides(of, ndim, lower, upper, [&](int a) { return of.depth.beyond(a); });
  });
}

gr_status gr_halo_depth_valid(gr_halo_depth const* depth, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(depth, "depth").depth.valid(), ndim, lower, upper); });
}

gr_status gr_halo_depth_commutes(gr_halo_depth const* depth, int ndim, int* lower, int* upper) {
  return GR_BODY({
    auto const& of = required(depth, "depth");
    write_sides(of, ndim, lower, upper, [&](int a) {
      return Width{of.depth.commutes_at(a, false) ? 1 : 0, of.depth.commutes_at(a, true) ? 1 : 0};
    });
  });
}

gr_status gr_halo_depth_suffices(gr_halo_depth const* depth, int ndim, int64_t const* reach_lower,
                                 int64_t const* reach_upper, int* suffices) {
  return GR_BODY({
    auto const& of = required(depth, "depth");
    auto const reach = stencil_of(of, ndim, reach_lower, reach_upper);
    required(suffices, "suffices") = of.depth.suffices(reach) ? 1 : 0;
  });
}

gr_status gr_halo_depth_apply(gr_halo_depth* depth, gr_halo_depth const* input, int ndim, int64_t const* reach_lower,
                              int64_t const* reach_upper, gr_at_mirrors at_mirrors, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto& of = required(depth, "depth");
    auto const& from = required(input, "input");
    auto const reach = stencil_of(of, ndim, reach_lower, reach_upper);
    auto const how = enumerator<AtMirrors>(at_mirrors, GR_MIRRORS_COMMUTE, {"at_mirrors"});
    required(lower, "lower");
    required(upper, "upper");
    write_box(of.depth.apply(from.depth, reach, how), ndim, lower, upper);
  });
}

gr_status gr_halo_depth_refill(gr_halo_depth* depth, gr_field const* field) {
  return GR_BODY({
    auto& of = required(depth, "depth");
    auto const given = read_structure(field, {"field"});
    if (given.kind != of.kind)
      throw bad_argument("field.kind is " + std::to_string(given.kind) + ", the layers are counted for kind " +
                         std::to_string(of.kind));
    if (enumerator<Parity>(given.parity, GR_ODD, {"field"}, ".parity") != of.parity)
      throw bad_argument("field.parity is " + std::to_string(int(given.parity)) + ", the layers are counted for " +
                         std::to_string(int(of.parity)));
    of.depth.refill(view_of(given, of.local, of.owned, {"field"}));
  });
}
