// SPDX-License-Identifier: BSD-3-Clause
// Fields, calls in flight and halo plans.
#include <graticule/repartition/dump.hpp>
#include <graticule/repartition/plan_name.hpp>

#include "handles.hpp"
#include "queues.hpp"
#include "structures.hpp"

#include <utility>

using namespace graticule;
using namespace graticule::c;

gr_status gr_field_dense(void* base, gr_type type, int rank, int64_t const* extents, gr_field* field) {
  return GR_BODY({
    auto& to = required(field, "field");
    Index stride = size_of(enumerator<DType>(type, {"type"}));
    auto const cells = rank == 0 ? Indices() : indices(extents, rank, "extents", "rank");
    bool empty = false;
    for (int m = 0; m < rank; ++m) {
      if (cells[m] < 0) throw bad_argument("extents[" + std::to_string(m) + "] is " + std::to_string(cells[m]));
      empty = empty || cells[m] == 0;
    }
    if (base == nullptr && !empty) throw bad_argument("base is NULL");
    to = {};
    to.size = sizeof(gr_field);
    to.base = base;
    to.type = type;
    to.rank = rank;
    for (int m = rank - 1; m >= 0; --m) {
      to.extents[m] = cells[m];
      to.strides[m] = stride;
      stride *= std::max<Index>(cells[m], 1);
    }
  });
}

gr_status gr_node_memory_create(int64_t num_bytes, gr_node_memory** memory) {
  return GR_BODY({
    required(memory, "memory");
    if (num_bytes < 0) throw bad_argument("num_bytes is " + std::to_string(num_bytes));
    give(memory, NodeMemory(std::size_t(num_bytes)), num_bytes);
  });
}

gr_status gr_node_memory_address(gr_node_memory const* memory, void** address) {
  return GR_BODY({ required(address, "address") = required(memory, "memory").memory.data(); });
}

gr_status gr_node_memory_size(gr_node_memory const* memory, int64_t* num_bytes) {
  return GR_BODY({ required(num_bytes, "num_bytes") = required(memory, "memory").num_bytes; });
}

gr_status gr_node_memory_is_shared(gr_node_memory const* memory, int* shared) {
  return GR_BODY({ required(shared, "shared") = required(memory, "memory").memory.shared() ? 1 : 0; });
}

gr_status gr_node_memory_destroy(gr_node_memory** memory) {
  return GR_FREE({ free_handle(memory, "memory"); });
}

gr_status gr_finish(gr_pending** pending) {
  return GR_BODY({
    auto const call = take(*not_null(pending, "pending"), speaks_fortran() ? "pending" : "*pending");
    std::visit([](auto& one) { one.wait(); }, call->call);
  });
}

gr_status gr_test(gr_pending* pending, int* complete) {
  return GR_BODY({
    auto& call = required(pending, "pending").call;
    auto& to = required(complete, "complete");
    // Sums along an axis advance in `gr_finish` only.
    auto* const movement = std::get_if<Pending>(&call);
    to = movement != nullptr && movement->test() ? 1 : 0;
  });
}

namespace {

gr_halo_kind written(HaloKind const& kind) {
  gr_halo_kind result = GR_HALO_KIND_INIT;
  result.ndim = int(kind.widths.size());
  for (std::size_t a = 0; a < kind.widths.size(); ++a) {
    auto const& axis = kind.boundary.axes[a];
    result.lower[a] = kind.widths[a].lower;
    result.upper[a] = kind.widths[a].upper;
    result.lower_edge[a] = int(axis.lower);
    result.upper_edge[a] = int(axis.upper);
  }
  result.longitude_axis = kind.boundary.longitude_axis;
  result.mirror_line = gr_mirror_line(int(kind.boundary.mirror_line));
  return result;
}

void give_kind(Boundary const& boundary, int64_t width, gr_halo_kind* kind) {
  if (width < 0) throw Error("BadHaloWidth", "width is " + std::to_string(width));
  auto result = written({std::vector<Width>(boundary.axes.size(), Width{width, width}), boundary});
  // The caller's structure is written as a whole: it need not be set up before.
  required(kind, "kind") = result;
}

/// Adds the fields of a call of a plan to `result`.
/// @return their queue
CallQueue add_fields(FewOrMany<HaloField>& result, HaloPlan const& plan, int num_fields, gr_field const* fields) {
  require_count(num_fields, 1, "num_fields");
  CallQueue queue;
  for (int f = 0; f < num_fields; ++f) {
    auto const field = read_element(fields, f, "fields");
    Name const name{"fields", f};
    if (field.kind < 0 || field.kind >= plan.num_kinds())
      throw bad_argument(name + (speaks_fortran() ? ": kind= is " : ".kind is ") +
                         std::to_string(detail::place_number(field.kind)) + " of a plan with " +
                         std::to_string(plan.num_kinds()) + " kinds");
    auto const parity = enumerator<Parity>(field.parity, GR_ODD, name, ".parity");
    queue.add(field, name);
    result.push_back(
        {view_of(field, plan.local(field.kind), plan.owned(), name, Before::in_queue), parity, field.kind});
  }
  return queue;
}

/// The first field that does not cover the box of its kind, for errors of plans, which know fields by their memory
/// only.
std::string name_of_misfit(HaloPlan const& plan, int num_fields, gr_field const* fields) {
  for (int f = 0; f < num_fields; ++f) {
    auto const field = read_element(fields, f, "fields");
    Name const name{"fields", f};
    auto const& local = plan.local(field.kind);
    auto const view = view_of(field, local, plan.owned(), name, Before::in_queue);
    for (int a = 0; a < local.ndim(); ++a)
      if (view.extents[int(view.grid_axes[a])] != local.extent(a)) return name.text() + ": ";
  }
  return {};
}

/// Runs a call with the fields of a plan.
template <class Call, class Check = NoCheck>
auto with_fields(Object<gr_halo> const& halo, int num_fields, gr_field const* fields, Call&& call, Check&& check = {}) {
  LastFields::Claim const claim(halo.last);
  auto const run = [&] {
    try {
      check();
      if (auto const* const last = claim.find(num_fields, fields)) return call(last->views(), last->queue());
      FewOrMany<HaloField> all(num_fields);
      auto const queue = add_fields(all, halo.plan, num_fields, fields);
      claim.keep(num_fields, fields, all.all(), queue);
      return call(all.all(), queue.queue());
    } catch (Error const& error) {
      if (error.rule() != "FieldMismatch") throw;
      throw Error(error.fault(), error.rule(), name_of_misfit(halo.plan, num_fields, fields) + error.text());
    }
  };
  return run_or_refuse<HaloField>(num_fields, run, [&](auto none) { return call(none, DeviceQueue()); });
}

}  // namespace

gr_status gr_halo_kind_uniform(int ndim, gr_edge edge, int64_t width, gr_halo_kind* kind) {
  return GR_BODY({
    if (ndim < 1 || ndim > GR_MAX_AXES)
      throw bad_argument("ndim is " + std::to_string(ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) + " are possible");
    give_kind(Boundary::uniform(ndim, enumerator<Edge>(edge, {"edge"})), width, kind);
  });
}

gr_status gr_halo_kind_sphere(gr_edge pole, int64_t width, gr_halo_kind* kind) {
  return GR_BODY({
    required(kind, "kind");
    give_kind(Boundary::sphere(enumerator<Edge>(pole, {"pole"})), width, kind);
  });
}

gr_status gr_halo_kind_tripolar(gr_edge south, gr_edge seam, int64_t width, gr_halo_kind* kind) {
  return GR_BODY({
    required(kind, "kind");
    give_kind(Boundary::tripolar(enumerator<Edge>(south, {"south"}), enumerator<Edge>(seam, {"seam"})), width, kind);
  });
}

gr_status gr_halo_create(gr_comm const* comm, gr_layout const* layout, int num_kinds, gr_halo_kind const* kinds,
                         gr_halo** halo) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    auto all = agreed(of, [&] {
      required(halo, "halo");
      auto const& on = required(layout, "layout");
      int const ndim = on.blocks ? on.blocks->ndim() : on.layout.ndim();
      require_count(num_kinds, 1, "num_kinds");
      std::vector<HaloKind> result;
      for (int k = 0; k < num_kinds; ++k) {
        auto const kind = read_element(kinds, k, "kinds");
        if (kind.ndim != ndim)
          throw bad_argument(Name{"kinds", k} + ".ndim is " + std::to_string(kind.ndim) +
                             (on.blocks ? ", the grid of the blocks has " : ", the layout has ") +
                             std::to_string(ndim) + " axes");
        result.push_back(halo_kind(kind, {"kinds", k}));
      }
      return result;
    });
    auto const& on = required(layout, "layout");
    give(halo, on.blocks ? HaloPlan(of, *on.blocks, std::move(all)) : HaloPlan(of, on.layout, std::move(all)));
  });
}

gr_status gr_halo_destroy(gr_halo** halo) {
  return GR_FREE({ free_handle(halo, "halo"); });
}

gr_status gr_halo_owned(gr_halo const* halo, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(halo, "halo").plan.owned(), ndim, lower, upper); });
}

gr_status gr_halo_local(gr_halo const* halo, int kind, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(halo, "halo").plan.local(kind), ndim, lower, upper); });
}

gr_status gr_halo_layout(gr_halo const* halo, int kind, gr_layout** layout) {
  return GR_BODY({
    auto const& plan = required(halo, "halo").plan;
    required(layout, "layout");
    if (auto const* const blocks = plan.blocks(kind))
      give(layout, BlockGrid(*blocks));
    else
      give(layout, Layout(plan.layout(kind)));
  });
}

namespace {

/// How far the stencil reaches: the widths of the kind where the caller does not say.
std::vector<Width> reach_of(HaloPlan const& plan, int kind, int ndim, int64_t const* lower, int64_t const* upper) {
  auto reach = plan.kind(kind).widths;
  require_ndim(ndim, plan.owned().ndim());
  int const first = plan.owned().ndim() - int(reach.size());  // no stencil reaches from block to block
  for (std::size_t a = 0; a < reach.size(); ++a) {
    if (lower != nullptr) reach[a].lower = lower[first + int(a)];
    if (upper != nullptr) reach[a].upper = upper[first + int(a)];
  }
  return reach;
}

}  // namespace

gr_status gr_halo_interior(gr_halo const* halo, int kind, int ndim, int64_t const* reach_lower,
                           int64_t const* reach_upper, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto const& plan = required(halo, "halo").plan;
    write_box(plan.interior(reach_of(plan, kind, ndim, reach_lower, reach_upper), kind), ndim, lower, upper);
  });
}

gr_status gr_halo_border(gr_halo const* halo, int kind, int ndim, int64_t const* reach_lower,
                         int64_t const* reach_upper, int most_boxes, int* num_boxes, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto const& plan = required(halo, "halo").plan;
    auto const boxes = plan.border(reach_of(plan, kind, ndim, reach_lower, reach_upper), kind);
    if (int(boxes.size()) > most_boxes)
      throw bad_argument("most_boxes is " + std::to_string(most_boxes) + ", there are " + std::to_string(boxes.size()) +
                         " boxes");
    auto& number = required(num_boxes, "num_boxes");
    for (std::size_t b = 0; b < boxes.size(); ++b)
      write_box(boxes[b], ndim, &required(lower, "lower") + std::ptrdiff_t(b) * ndim,
                &required(upper, "upper") + std::ptrdiff_t(b) * ndim);
    number = int(boxes.size());
  });
}

gr_status gr_halo_exchange(gr_halo const* halo, int num_fields, gr_field const* fields) {
  return GR_BODY({
    auto const& of = required(halo, "halo");
    with_fields(of, num_fields, fields, [&](auto all, auto const& queue) {
      if (queue.instance())
        of.plan.start(all, queue).wait();
      else
        of.plan.exchange(all);
      return true;
    });
  });
}

gr_status gr_halo_start(gr_halo const* halo, int num_fields, gr_field const* fields, gr_pending** pending) {
  return GR_BODY({
    auto const& of = required(halo, "halo");
    give(pending, with_fields(
                      of, num_fields, fields, [&](auto all, auto const& queue) { return of.plan.start(all, queue); },
                      [&] { required(pending, "pending"); }));
  });
}

gr_status gr_halo_exchange_adjoint(gr_halo const* halo, int num_fields, gr_field const* fields) {
  return GR_BODY({
    auto const& of = required(halo, "halo");
    with_fields(of, num_fields, fields, [&](auto all, auto const& queue) {
      of.plan.start_adjoint(all, queue).wait();
      return true;
    });
  });
}

gr_status gr_halo_start_adjoint(gr_halo const* halo, int num_fields, gr_field const* fields, gr_pending** pending) {
  return GR_BODY({
    auto const& of = required(halo, "halo");
    give(pending,
         with_fields(
             of, num_fields, fields, [&](auto all, auto const& queue) { return of.plan.start_adjoint(all, queue); },
             [&] { required(pending, "pending"); }));
  });
}

gr_status gr_halo_set_transport(gr_halo* halo, gr_transport transport) {
  return GR_BODY({ required(halo, "halo").plan.set_transport(transport_of(transport)); });
}

gr_status gr_halo_tune(gr_halo* halo, int num_fields, gr_field const* fields, int num_calls, gr_transport* chosen) {
  return GR_BODY({
    auto& plan = required(halo, "halo").plan;
    auto const all = agreed(plan.pull_plan().comm(), [&] {
      required(chosen, "chosen");
      FewOrMany<HaloField> views(num_fields);
      (void)add_fields(views, plan, num_fields, fields);
      for (int f = 0; f < num_fields; ++f) wait_for_queue(read_element(fields, f, "fields"), {"fields", f});
      return std::vector<HaloField>(views.all().begin(), views.all().end());
    });
    *chosen = transport_of(plan.tune(all, num_calls).chosen);
  });
}

gr_status gr_halo_counts(gr_halo const* halo, gr_counts* counts) {
  return GR_BODY({
    auto result = counts_of(required(halo, "halo").plan.counts());
    write_structure(result, counts, "counts");
  });
}

gr_status gr_halo_stats(gr_halo const* halo, gr_stats* stats) {
  return GR_BODY({
    auto result = stats_of(required(halo, "halo").plan.stats());
    write_structure(result, stats, "stats");
  });
}

gr_status gr_halo_report(gr_halo const* halo, char const** text) {
  return GR_BODY({
    auto const& plan = required(halo, "halo").plan;
    required(text, "text") = kept_text(report_of(plan.paths(), plan.stats()));
  });
}

gr_status gr_halo_dump(gr_halo const* halo, char const* path) {
  return GR_BODY({ dump_plan(required(halo, "halo").plan.pull_plan(), std::string(&required(path, "path"))); });
}
