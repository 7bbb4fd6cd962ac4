// SPDX-License-Identifier: BSD-3-Clause
// Movements between layouts.
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/repartition/block_views.hpp>
#include <graticule/repartition/dump.hpp>
#include <graticule/repartition/plan_name.hpp>

#include "handles.hpp"
#include "structures.hpp"

#include <complex>
#include <utility>

using namespace graticule;
using namespace graticule::c;

namespace {

RepartitionPlan plan_to_blocks(Comm const& of, Layout const& from, BlockGrid const& blocks,
                               RepartitionOptions const& options) {
  require_same(of, "ArgumentDisagreement", blocks.fingerprint(), to_string(blocks));
  bool const as_it_is = options.permutation.size() == 0 && !options.from && !options.to;
  auto extents = blocks.extents();
  if (blocks.num_faces() > 1) extents = {blocks.num_faces(), extents[0], extents[1]};
  if (as_it_is && from.global().hi() != extents)
    throw Error("LayoutMismatch", to_string(from) + " cannot move to the other cells of " + to_string(blocks));
  return {of, from, blocks.boxes(of.rank()), options};
}

}  // namespace

gr_status gr_repartition_create(gr_comm const* comm, gr_layout const* from, gr_layout const* to,
                                gr_repartition_options const* options, gr_repartition** plan) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    auto const all = agreed(of, [&] {
      required(plan, "plan");
      if (required(from, "from").blocks)
        throw Error("Unsupported", argument_text("from") +
                                       " has several blocks per rank: pass it as `to`, and move fields from the blocks "
                                       "by gr_repartition_apply_inverse");
      required(to, "to");
      return repartition_options(options);
    });
    auto const& source = required(from, "from").layout;
    auto const& target = required(to, "to");
    if (target.blocks)
      give(plan, plan_to_blocks(of, source, *target.blocks, all), *target.blocks, of.rank());
    else
      give(plan, RepartitionPlan(of, source, target.layout, all));
  });
}

gr_status gr_repartition_create_boxes(gr_comm const* comm, gr_layout const* from, int ndim, int num_boxes,
                                      int64_t const* lower, int64_t const* upper, gr_repartition_options const* options,
                                      gr_repartition** plan) {
  return GR_BODY({
    PlanName const name(name_of_next_plan());
    auto const& of = required(comm, "comm").comm;
    auto const given = agreed(of, [&] {
      required(plan, "plan");
      require_ndim(ndim, required(from, "from").of_boxes("from").ndim());
      return std::pair(boxes_of(ndim, num_boxes, lower, upper), repartition_options(options));
    });
    give(plan, RepartitionPlan(of, required(from, "from").layout, given.first, given.second));
  });
}

gr_status gr_repartition_destroy(gr_repartition** plan) {
  return GR_FREE({ free_handle(plan, "plan"); });
}

gr_status gr_repartition_source(gr_repartition const* plan, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(plan, "plan").plan.source_box(), ndim, lower, upper); });
}

gr_status gr_repartition_num_targets(gr_repartition const* plan, int* num_targets) {
  return GR_BODY({ required(num_targets, "num_targets") = int(required(plan, "plan").target_boxes().size()); });
}

gr_status gr_repartition_target(gr_repartition const* plan, int target, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({
    auto const boxes = required(plan, "plan").target_boxes();
    if (target < 0 || target >= int(boxes.size()))
      throw bad_argument("target is " + std::to_string(target) + " of " + std::to_string(boxes.size()));
    write_box(boxes[std::size_t(target)], ndim, lower, upper);
  });
}

namespace {

std::optional<Packing> packing(bool packed, double scale, double offset, int has_missing, int64_t missing) {
  if (!packed) return std::nullopt;
  return Packing{scale, offset, has_missing != 0 ? std::optional<Index>(missing) : std::nullopt};
}

/// The fields of a call, with memory for the views of targets.
struct Call {
  std::vector<FieldView> targets;
  std::vector<RepartitionField> fields;
};

void set_update(RepartitionField& field, gr_update const& update) {
  field.update.alpha = std::complex<double>(update.alpha[0], update.alpha[1]);
  if (update.has_beta != 0) field.update.beta = std::complex<double>(update.beta[0], update.beta[1]);
  if (update.conjugate != 0) field.update.operation = Operation::conjugate;
  field.from_packing = packing(update.from_packed != 0, update.from_scale, update.from_offset, update.from_has_missing,
                               update.from_missing);
  field.to_packing =
      packing(update.to_packed != 0, update.to_scale, update.to_offset, update.to_has_missing, update.to_missing);
}

Call call_of(Object<gr_repartition> const& handle, int num_from, gr_field const* from, int num_to, gr_field const* to,
             gr_update const* updates) {
  require_count(num_from, 1, "num_from");
  auto const& plan = handle.plan;
  auto const boxes = handle.target_boxes();
  if (num_to < 0 || std::size_t(num_to) != std::size_t(num_from) * boxes.size())
    throw bad_argument("num_to is " + std::to_string(num_to) + " for " + std::to_string(num_from) + " fields and " +
                       std::to_string(boxes.size()) + " targets");
  auto const num_targets = plan.target_boxes().size();
  Call call;
  call.fields.resize(std::size_t(num_from));
  call.targets.reserve(std::size_t(num_from) * num_targets);
  for (int t = 0; t < num_to; ++t) {
    auto const& box = boxes[std::size_t(t) % boxes.size()];
    auto const view = view_of(read_element(to, t, "to"), box, box, {"to", t});
    if (!handle.blocks)
      call.targets.push_back(view);
    else
      for (auto const& block : views_of_blocks(*handle.blocks, handle.rank, view)) call.targets.push_back(block);
  }
  for (int f = 0; f < num_from; ++f) {
    auto& field = call.fields[std::size_t(f)];
    auto const& box = plan.source_box();
    field.from = view_of(read_element(from, f, "from"), box, box, {"from", f});
    if (num_targets == 1)
      field.to = call.targets[std::size_t(f)];
    else
      field.targets = {call.targets.data() + std::size_t(f) * num_targets, num_targets};
    if (updates != nullptr) set_update(field, read_element(updates, f, "updates"));
  }
  return call;
}

/// Runs a call with its fields.
template <class Run>
auto with_fields(gr_repartition const* handle, int num_from, gr_field const* from, int num_to, gr_field const* to,
                 gr_update const* updates, Run&& run) {
  auto const& object = required(handle, "plan");
  auto const run_given = [&] {
    auto const call = call_of(object, num_from, from, num_to, to, updates);
    return run(object.plan, std::span<RepartitionField const>(call.fields));
  };
  return run_or_refuse<RepartitionField>(num_from, run_given, [&](auto none) { return run(object.plan, none); });
}

/// Passes the call of `run` to the caller.
template <class Run>
void give_pending(gr_pending** pending, gr_repartition const* handle, int num_from, gr_field const* from, int num_to,
                  gr_field const* to, gr_update const* updates, Run&& run) {
  required(pending, "pending");
  give(pending, with_fields(handle, num_from, from, num_to, to, updates, run));
}

}  // namespace

gr_status gr_repartition_apply(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                               gr_field const* to, gr_update const* updates) {
  return GR_BODY({
    with_fields(plan, num_from, from, num_to, to, updates, [](auto const& with, auto fields) {
      with.apply(fields);
      return true;
    });
  });
}

gr_status gr_repartition_start(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                               gr_field const* to, gr_update const* updates, gr_pending** pending) {
  return GR_BODY({
    give_pending(pending, plan, num_from, from, num_to, to, updates,
                 [](auto const& with, auto fields) { return with.start(fields); });
  });
}

gr_status gr_repartition_apply_adjoint(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                                       gr_field const* to, gr_update const* updates) {
  return GR_BODY({
    with_fields(plan, num_from, from, num_to, to, updates, [](auto const& with, auto fields) {
      with.apply_adjoint(fields);
      return true;
    });
  });
}

gr_status gr_repartition_start_adjoint(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                                       gr_field const* to, gr_update const* updates, gr_pending** pending) {
  return GR_BODY({
    give_pending(pending, plan, num_from, from, num_to, to, updates,
                 [](auto const& with, auto fields) { return with.start_adjoint(fields); });
  });
}

gr_status gr_repartition_apply_inverse(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                                       gr_field const* to, gr_update const* updates) {
  return GR_BODY({
    with_fields(plan, num_from, from, num_to, to, updates, [](auto const& with, auto fields) {
      with.apply_inverse(fields);
      return true;
    });
  });
}

gr_status gr_repartition_start_inverse(gr_repartition const* plan, int num_from, gr_field const* from, int num_to,
                                       gr_field const* to, gr_update const* updates, gr_pending** pending) {
  return GR_BODY({
    give_pending(pending, plan, num_from, from, num_to, to, updates,
                 [](auto const& with, auto fields) { return with.start_inverse(fields); });
  });
}

gr_status gr_repartition_set_transport(gr_repartition* plan, gr_transport transport) {
  return GR_BODY({ required(plan, "plan").plan.set_transport(transport_of(transport)); });
}

gr_status gr_repartition_tune(gr_repartition* plan, int num_from, gr_field const* from, int num_to, gr_field const* to,
                              int num_calls, gr_transport* chosen) {
  return GR_BODY({
    auto& object = required(plan, "plan");
    auto& with = object.plan;
    auto const call = agreed(with.pull_plan().comm(), [&] {
      required(chosen, "chosen");
      return call_of(object, num_from, from, num_to, to, nullptr);
    });
    *chosen = transport_of(with.tune(call.fields, num_calls).chosen);
  });
}

gr_status gr_repartition_counts(gr_repartition const* plan, gr_counts* counts) {
  return GR_BODY({
    auto result = counts_of(required(plan, "plan").plan.counts());
    write_structure(result, counts, "counts");
  });
}

gr_status gr_repartition_stats(gr_repartition const* plan, gr_stats* stats) {
  return GR_BODY({
    auto result = stats_of(required(plan, "plan").plan.stats());
    write_structure(result, stats, "stats");
  });
}

gr_status gr_repartition_report(gr_repartition const* plan, char const** text) {
  return GR_BODY({
    auto const& of = required(plan, "plan").plan;
    required(text, "text") = kept_text(report_of(of.paths(), of.stats()));
  });
}

gr_status gr_repartition_dump(gr_repartition const* plan, char const* path) {
  return GR_BODY({ dump_plan(required(plan, "plan").plan.pull_plan(), std::string(&required(path, "path"))); });
}
