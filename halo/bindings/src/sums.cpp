// SPDX-License-Identifier: BSD-3-Clause
// Sums along one axis and over all cells.
#include <graticule/repartition/plan_name.hpp>

#include "handles.hpp"
#include "structures.hpp"

#include <algorithm>
#include <exception>
#include <utility>

using namespace graticule;
using namespace graticule::c;

namespace {

AxisSumScale scale_of(gr_scale scale) { return enumerator<AxisSumScale>(scale, GR_SCALE_MEAN, {"scale"}); }
static_assert(int(AxisSumScale::sum) == GR_SCALE_SUM && int(AxisSumScale::mean) == GR_SCALE_MEAN);
static_assert(int(AxisSumMethod::exact) == GR_SUM_EXACT && int(AxisSumMethod::fast) == GR_SUM_FAST);
static_assert(int(Cotangents::of_each_rank) == GR_COTANGENTS_OF_EACH_RANK &&
              int(Cotangents::replicated) == GR_COTANGENTS_REPLICATED);

std::vector<AxisSumField> fields_of(AxisSumPlan const& plan, int num_fields, gr_field const* cells,
                                    gr_field const* sums) {
  require_count(num_fields, 1, "num_fields");
  std::vector<AxisSumField> fields;
  for (int f = 0; f < num_fields; ++f)
    fields.push_back({view_of(read_element(cells, f, "cells"), plan.cells(), plan.cells(), {"cells", f}),
                      view_of(read_element(sums, f, "sums"), plan.sums(), plan.sums(), {"sums", f})});
  return fields;
}

/// Runs a call with its fields.
template <class Run, class Check = NoCheck>
auto with_fields(gr_zonal const* zonal, int num_fields, gr_field const* cells, gr_field const* sums, Run&& run,
                 Check&& check = {}) {
  auto const& plan = required(zonal, "zonal").plan;
  auto const run_given = [&] {
    check();
    auto const fields = fields_of(plan, num_fields, cells, sums);
    return run(plan, std::span<AxisSumField const>(fields));
  };
  return run_or_refuse<AxisSumField>(num_fields, run_given, [&](auto none) { return run(plan, none); });
}

}  // namespace

gr_status gr_zonal_create(gr_comm const* comm, gr_layout const* layout, int axis, gr_summation summation,
                          gr_scale scale, int ndim, int64_t const* lower, int64_t const* upper, gr_zonal** zonal) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    auto const options = agreed(of, [&] {
      required(zonal, "zonal");
      auto const& on = required(layout, "layout").of_boxes("layout");
      AxisSumOptions result;
      result.how = enumerator<AxisSumMethod>(summation, GR_SUM_FAST, {"summation"});
      result.scale = scale_of(scale);
      if ((lower == nullptr) != (upper == nullptr))
        throw bad_argument(lower == nullptr ? "lower is NULL, upper is not" : "upper is NULL, lower is not");
      if (lower != nullptr) {
        require_ndim(ndim, on.ndim());
        result.region = box_of(ndim, lower, upper);
      }
      return result;
    });
    give(zonal, AxisSumPlan(of, required(layout, "layout").layout, axis, options));
  });
}

gr_status gr_zonal_destroy(gr_zonal** zonal) {
  return GR_FREE({ free_handle(zonal, "zonal"); });
}

gr_status gr_zonal_cells(gr_zonal const* zonal, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(zonal, "zonal").plan.cells(), ndim, lower, upper); });
}

gr_status gr_zonal_sums(gr_zonal const* zonal, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(zonal, "zonal").plan.sums(), ndim, lower, upper); });
}

gr_status gr_zonal_apply(gr_zonal const* zonal, int num_fields, gr_field const* cells, gr_field const* sums) {
  return GR_BODY({
    with_fields(zonal, num_fields, cells, sums, [](auto const& plan, auto fields) {
      plan.apply(fields);
      return true;
    });
  });
}

gr_status gr_zonal_start(gr_zonal const* zonal, int num_fields, gr_field const* cells, gr_field const* sums,
                         gr_pending** pending) {
  return GR_BODY({
    give(pending, with_fields(
                      zonal, num_fields, cells, sums, [](auto const& plan, auto fields) { return plan.start(fields); },
                      [&] { required(pending, "pending"); }));
  });
}

gr_status gr_zonal_apply_adjoint(gr_zonal const* zonal, int num_fields, gr_field const* cells, gr_field const* sums,
                                 gr_cotangents cotangents) {
  return GR_BODY({
    auto const whose = enumerator<Cotangents>(cotangents, GR_COTANGENTS_REPLICATED, {"cotangents"});
    with_fields(zonal, num_fields, cells, sums, [&](auto const& plan, auto fields) {
      plan.apply_adjoint(fields, whose);
      return true;
    });
  });
}

gr_status gr_area_sum_create(gr_comm const* comm, gr_layout const* layout, int axis, int row_axis, int num_rows,
                             double const* weights, gr_scale scale, gr_area_sum** area_sum) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    auto const how = agreed(of, [&] {
      required(area_sum, "area_sum");
      (void)required(layout, "layout").of_boxes("layout");
      require_count(num_rows, 0, "num_rows");
      required(weights, "weights");
      return scale_of(scale);
    });
    auto const& on = required(layout, "layout").layout;
    AreaSum sum(of, on, axis, row_axis, std::span<double const>(weights, std::size_t(num_rows)), how);
    give(area_sum, of, on.owned(of.rank()), std::move(sum));
  });
}

gr_status gr_area_sum_create_cells(gr_comm const* comm, gr_layout const* layout, gr_field const* weights,
                                   gr_scale scale, gr_area_sum** area_sum) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    AxisSumScale how = AxisSumScale::sum;
    auto const view = agreed(of, [&] {
      required(area_sum, "area_sum");
      how = scale_of(scale);
      auto const owned = required(layout, "layout").layout.owned(of.rank());
      return view_of(read_structure(weights, {"weights"}), owned, owned, {"weights"});
    });
    auto const& on = required(layout, "layout").layout;
    give(area_sum, of, on.owned(of.rank()), CellSum(of, on, view, how));
  });
}

gr_status gr_area_sum_destroy(gr_area_sum** area_sum) {
  return GR_FREE({ free_handle(area_sum, "area_sum"); });
}

namespace {

/// The cells of a call, with as many values as batch elements.
FieldView cells_of(Object<gr_area_sum> const& area_sum, gr_field const* cells, int num_values, char const* name) {
  auto view = view_of(read_structure(cells, {"cells"}), area_sum.owned, area_sum.owned, {"cells"});
  if (view.num_batch() != num_values)
    throw bad_argument(std::string("num_sums is ") + std::to_string(num_values) + ", cells have " +
                       std::to_string(view.num_batch()) + " batch elements (" + name + ")");
  return view;
}

}  // namespace

gr_status gr_area_sum_apply(gr_area_sum const* area_sum, gr_field const* cells, int num_sums, double* sums) {
  return GR_BODY({
    auto const& of = required(area_sum, "area_sum");
    auto const view = agreed(of.comm, [&] {
      required(sums, "sums");
      return cells_of(of, cells, num_sums, "sums");
    });
    auto const values = std::visit([&](auto const& sum) { return sum.apply(view); }, of.sum);
    std::copy(values.begin(), values.end(), sums);
  });
}

gr_status gr_area_sum_apply_adjoint(gr_area_sum const* area_sum, gr_field const* cells, int num_sums,
                                    double const* cotangents) {
  return GR_BODY({
    auto const& of = required(area_sum, "area_sum");
    required(cotangents, "cotangents");
    auto const view = cells_of(of, cells, num_sums, "cotangents");
    std::span<double const> const all(cotangents, std::size_t(num_sums));
    std::visit([&](auto const& sum) { sum.apply_adjoint(view, all); }, of.sum);
  });
}
