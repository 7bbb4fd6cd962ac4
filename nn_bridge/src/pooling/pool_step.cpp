// SPDX-License-Identifier: BSD-3-Clause
#include "pool_step.hpp"

#include <graticule/nn_bridge/detail/agreement.hpp>

#include "call/kept.hpp"
#include "call/local_map.hpp"
#include "call/recorded_calls.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace graticule::nn::detail {

Pooled pool(PoolRule const& rule, torch::Tensor const& x, PoolWindows const& w) {
  bool const flat = w.kernel.size() == 2;
  Pooled result;
  if (rule.kind == PoolKind::maxima)
    std::tie(result.values, result.indices) =
        flat ? at::max_pool2d_with_indices(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode)
             : at::max_pool3d_with_indices(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode);
  else
    result.values =
        flat ? at::avg_pool2d(x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding, rule.divisor)
             : at::avg_pool3d(x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding, rule.divisor);
  return result;
}

torch::Tensor pool_backward(PoolRule const& rule, torch::Tensor const& cotangent, torch::Tensor const& x,
                            torch::Tensor const& indices, PoolWindows const& w) {
  bool const flat = w.kernel.size() == 2;
  if (rule.kind == PoolKind::maxima)
    return flat ? at::max_pool2d_with_indices_backward(cotangent, x, w.kernel, w.stride, w.padding, w.dilation,
                                                       w.ceil_mode, indices)
                : at::max_pool3d_with_indices_backward(cotangent, x, w.kernel, w.stride, w.padding, w.dilation,
                                                       w.ceil_mode, indices);
  return flat ? at::avg_pool2d_backward(cotangent, x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding,
                                        rule.divisor)
              : at::avg_pool3d_backward(cotangent, x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding,
                                        rule.divisor);
}

PoolCall::PoolCall(PoolWindows windows, std::vector<PoolRun> const& runs, bool ceil_mode)
    : windows_(std::move(windows)), runs_(runs) {
  for (std::size_t i = 0; i < runs_.size(); ++i) windows_.padding[i] = runs_[i].padding;
  windows_.ceil_mode = ceil_mode;
}

torch::Tensor PoolCall::outputs_of(torch::Tensor const& results) const {
  auto outputs = results;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    auto const axis = std::int64_t(i) + 2;
    auto const num_outputs = runs_[i].outputs.size();
    if (outputs.size(axis) != num_outputs) outputs = outputs.narrow(axis, runs_[i].num_skipped, num_outputs);
  }
  return outputs;
}

torch::Tensor PoolCall::results_of(torch::Tensor const& outputs) const {
  std::vector<std::int64_t> zeros;  // Of the last axis first, before and behind.
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run)
    zeros.insert(zeros.end(), {run->num_skipped, run->num_results - run->num_skipped - run->outputs.size()});
  bool const any = std::any_of(zeros.begin(), zeros.end(), [](auto count) { return count != 0; });
  return any ? at::constant_pad_nd(outputs, zeros) : outputs;
}

namespace {

Range range_of(Box const& box, int axis) { return {box.lo(axis), box.hi(axis)}; }

/// Rows and columns of one rank, split.
struct SplitAxes {
  PoolAxis axis;
  Range outputs;
  PoolSplit split;

  [[nodiscard]] Range all() const { return axis.window.needed(outputs); }
  [[nodiscard]] Range lower_rim() const { return {outputs.lo, split.inner.lo}; }
  [[nodiscard]] Range upper_rim() const { return {split.inner.hi, outputs.hi}; }
  [[nodiscard]] Range lower_region() const { return {all().lo, split.middle.lo}; }
  [[nodiscard]] Range upper_region() const { return {split.middle.hi, all().hi}; }
};

using Splits2d = std::array<SplitAxes, 2>;

/// The windows of levels, if any, which all calls share.
std::vector<PoolRun> with_levels(PoolGlobe const& globe, bool ceil_mode, PoolRun const& rows, PoolRun const& columns) {
  std::vector<PoolRun> runs{rows, columns};
  if (globe.axes.size() == 3) {
    auto levels = globe.axes[0];
    auto run = levels.run({0, levels.num_outputs()});
    levels.ceil_mode = ceil_mode;
    run.padding = levels.window.before;
    run.num_results = levels.num_outputs();
    runs.insert(runs.begin(), run);
  }
  return runs;
}

std::optional<PoolStrip> strip_of(PoolGlobe const& globe, Splits2d const& axes, Box const& region, Box const& outputs) {
  if (outputs.empty()) return {};
  std::array<PoolRun, 2> runs;
  for (int a = 0; a < 2; ++a) {
    auto const& axis = axes[std::size_t(a)];
    runs[std::size_t(a)] = axis.axis.run(axis.axis.reaching(axis.outputs, range_of(region, a)));
  }
  PoolStrip strip;
  bool const ceil_mode = globe.windows.ceil_mode;
  strip.call = PoolCall(globe.windows, with_levels(globe, ceil_mode, runs[0], runs[1]), ceil_mode);
  strip.box = box_of(runs[0].needed, runs[1].needed);
  strip.region = intersection(region, strip.box);
  strip.results = box_of(runs[0].outputs, runs[1].outputs);
  strip.outputs = outputs;
  return strip;
}

void add_strips(PoolSplits& splits, PoolGlobe const& globe, Splits2d const& axes) {
  auto const& [rows, columns] = axes;
  auto const add = [&](int s, Range region_rows, Range region_columns, Range out_rows, Range out_columns) {
    splits.strips[std::size_t(s)] =
        strip_of(globe, axes, box_of(region_rows, region_columns), box_of(out_rows, out_columns));
  };
  add(0, rows.lower_region(), columns.all(), rows.lower_rim(), columns.outputs);
  add(1, rows.upper_region(), columns.all(), rows.upper_rim(), columns.outputs);
  add(2, rows.split.middle, columns.lower_region(), rows.split.inner, columns.lower_rim());
  add(3, rows.split.middle, columns.upper_region(), rows.split.inner, columns.upper_rim());
}

/// Sets `local` and the strips of a rank with outputs. @returns whether it could
bool split_rank(PoolSplits& splits, PoolGlobe const& globe, PoolRun const& rows, PoolRun const& columns) {
  auto const& row_axis = globe.axes[globe.axes.size() - 2];
  auto const& column_axis = globe.axes.back();
  // LibTorch rounds up along all axes or none.
  for (bool const ceil_mode : {globe.windows.ceil_mode, true}) {
    auto const row_split = split(row_axis, range_of(splits.owned, 0), rows.outputs, ceil_mode);
    auto const column_split = split(column_axis, range_of(splits.owned, 1), columns.outputs, ceil_mode);
    if (!row_split || !column_split) continue;
    splits.local =
        PoolCall(globe.windows, with_levels(globe, ceil_mode, row_split->local, column_split->local), ceil_mode);
    add_strips(splits, globe,
               {SplitAxes{row_axis, rows.outputs, *row_split}, SplitAxes{column_axis, columns.outputs, *column_split}});
    return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<PoolSplits const> make_splits(Comm const& comm, Layout const& layout, PoolGlobe const& globe,
                                              std::vector<PoolRun> const& runs) {
  auto result = std::make_shared<PoolSplits>();
  auto const& rows = runs[runs.size() - 2];
  auto const& columns = runs.back();
  result->owned = layout.owned(comm.rank());
  result->outputs = box_of(rows.outputs, columns.outputs);
  Index cannot = result->outputs.empty() || split_rank(*result, globe, rows, columns) ? 0 : 1;
  comm.max(std::span(&cannot, 1));
  if (cannot != 0) return nullptr;
  std::vector<Target> targets;
  for (auto const& strip : result->strips)
    targets.push_back(strip ? Target{strip->box, around(strip->box, intersection(strip->box, result->owned))}
                            : Target{box_of({}, {}), {}});
  result->pull = std::make_shared<TensorPull const>(comm, layout, globe.boundary, std::move(targets),
                                                    globe.odd_channels, globe.fingerprint);
  return result;
}

std::optional<PoolCall> own_call(Box const& owned, PoolGlobe const& globe, std::vector<PoolRun> const& runs) {
  PoolSplits splits;
  splits.owned = owned;
  if (!split_rank(splits, globe, runs[runs.size() - 2], runs.back())) return {};
  bool const any = std::any_of(splits.strips.begin(), splits.strips.end(), [](auto const& s) { return s.has_value(); });
  return any ? std::nullopt : std::optional(splits.local);
}

bool PoolSetUp::has_outputs() const noexcept {
  return std::all_of(runs.begin(), runs.end(), [](PoolRun const& run) { return run.outputs.size() > 0; });
}

torch::Tensor PoolSetUp::no_outputs(torch::Tensor const& x, torch::ScalarType type) const {
  std::vector<std::int64_t> sizes{x.size(0), x.size(1)};
  for (auto const& run : runs) sizes.push_back(run.outputs.size());
  return torch::zeros(sizes, x.options().requires_grad(false).dtype(type));
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using PoolSetUpPointer = std::shared_ptr<PoolSetUp const>;

/// Zeros all of `tensor`, which holds `box`, but `kept`.
void clear_around(torch::Tensor const& tensor, Box const& box, Box const& kept) {
  for (auto const& part : around(box, kept)) narrowed(tensor, box, part).zero_();
}

std::vector<torch::Tensor> engine_views(NeededInputs const& inputs, std::vector<torch::Tensor> const& tensors) {
  std::vector<torch::Tensor> views;
  for (auto const& tensor : tensors) views.push_back(inputs.engine_view(tensor));
  return views;
}

// What a node saves: these tensors of the shard, then those of each strip.
constexpr std::size_t saved_inputs = 0;
constexpr std::size_t saved_indices = 1;
constexpr std::size_t num_saved = 2;

struct PoolFunction : torch::autograd::Function<PoolFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& /*anchor*/,
                               PoolSetUpPointer const& set_up) {
    auto const& s = *set_up;
    auto const& splits = *s.splits;
    auto const& rule = s.globe.rule;
    std::vector<torch::Tensor> targets;
    for (int t = 0; t < PoolSplits::num_strips; ++t) targets.push_back(splits.pull->empty_target(x, t));
    auto pending = splits.pull->start(s.inputs.engine_view(x), engine_views(s.inputs, targets));
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (auto const& strip = splits.strips[t]) {
        auto const own = intersection(strip->box, splits.owned);
        narrowed(targets[t], strip->box, own).copy_(narrowed(x, splits.owned, own));
      }
    variable_list saved{x, {}};
    torch::Tensor y;
    if (s.has_outputs()) {
      auto const pooled = pool(rule, x, splits.local.windows());
      saved[saved_indices] = pooled.indices;
      // No other reference to these results exists, so a view of them need not be tracked.
      at::AutoDispatchBelowADInplaceOrView const guard;
      y = splits.local.outputs_of(pooled.values);
    } else {
      y = s.no_outputs(x, x.scalar_type());
    }
    pending.wait();
    for (std::size_t t = 0; t < targets.size(); ++t) {
      torch::Tensor indices;
      if (auto const& strip = splits.strips[t]) {
        auto const pooled = pool(rule, targets[t], strip->call.windows());
        indices = pooled.indices;
        narrowed(y, splits.outputs, strip->outputs)
            .copy_(narrowed(strip->call.outputs_of(pooled.values), strip->results, strip->outputs));
      }
      saved.insert(saved.end(), {targets[t], indices});
    }
    ctx->save_for_backward(std::move(saved));
    keep(ctx, set_up);
    return {y, make_token(y.options())};
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const set_up = kept<PoolSetUpPointer>(ctx);
    auto const saved = ctx->get_saved_variables();
    auto const g = resolved(grads[0]);
    return {torch::GradMode::is_enabled() ? differentiable(set_up, saved, g) : direct(*set_up, saved, g), {}, {}};
  }

 private:
  static torch::Tensor direct(PoolSetUp const& s, variable_list const& saved, torch::Tensor const& g) {
    auto const& splits = *s.splits;
    auto const& rule = s.globe.rule;
    std::vector<torch::Tensor> cotangents;
    for (std::size_t t = 0; t < splits.strips.size(); ++t) {
      auto const* of_strip = &saved[(t + 1) * num_saved];
      cotangents.push_back(of_strip[saved_inputs]);
      if (auto const& strip = splits.strips[t]) {
        auto const results = strip->call.results_of(narrowed(g, splits.outputs, strip->results));
        cotangents[t] =
            pool_backward(rule, results, of_strip[saved_inputs], of_strip[saved_indices], strip->call.windows());
        clear_around(cotangents[t], strip->box, strip->region);
      }
    }
    auto pending = splits.pull->start_adjoint(engine_views(s.inputs, cotangents));
    auto const& x = saved[saved_inputs];
    auto const gradient = s.has_outputs() ? pool_backward(rule, splits.local.results_of(g), x, saved[saved_indices],
                                                          splits.local.windows())
                                          : torch::zeros_like(x);
    for (std::size_t t = 0; t < cotangents.size(); ++t)
      if (auto const& strip = splits.strips[t]) {
        auto const own = intersection(strip->region, splits.owned);
        narrowed(gradient, splits.owned, own).copy_(narrowed(cotangents[t], strip->box, own));
      }
    splits.pull->finish_adjoint(pending, s.inputs.engine_view(gradient));
    return gradient;
  }

  /// The same by way of all needed inputs, for a backward that is differentiated again. It does not depend on the
  /// values of the inputs, but for which of them are greatest.
  static torch::Tensor differentiable(PoolSetUpPointer const& set_up, variable_list const& saved,
                                      torch::Tensor const& g) {
    auto const& s = *set_up;
    auto const& pull = s.inputs.pull();
    torch::Tensor whole;
    torch::Tensor indices;
    {
      torch::NoGradGuard const no_grad;
      whole = s.inputs.engine_view(apply_linear(pull, Way::forward, s.inputs.engine_view(saved[saved_inputs].detach()),
                                                anchor(false, g.options())));
      if (s.has_outputs()) indices = pool(s.globe.rule, whole, s.whole.windows()).indices;
    }
    auto map = std::make_shared<LocalMap>();
    map->apply = [=](variable_list const& in) -> variable_list {
      if (!set_up->has_outputs()) return {torch::zeros_like(whole)};
      auto const& w = set_up->whole;
      return {pool_backward(set_up->globe.rule, w.results_of(in[0]), whole, indices, w.windows())};
    };
    auto const gradient = apply_local(std::move(map), {g})[0];
    return s.inputs.engine_view(
        apply_linear(pull, Way::adjoint, s.inputs.engine_view(gradient), anchor(true, g.options())));
  }
};

}  // namespace

torch::Tensor pool_by_splits(PoolSetUpPointer const& set_up, torch::Tensor const& x, torch::Tensor const& anchor) {
  return PoolFunction::apply(resolved(x), anchor, set_up)[0];
}

}  // namespace graticule::nn::detail
