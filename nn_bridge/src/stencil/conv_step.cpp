// SPDX-License-Identifier: BSD-3-Clause
#include "conv_step.hpp"

#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "call/kept.hpp"
#include "call/local_map.hpp"
#include "call/recorded_calls.hpp"
#include "call/spatial.hpp"
#include "needed_inputs.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

ConvAxisShard shard_of(Comm const& comm, Layout const& layout, ConvDescription const& d, std::size_t a) {
  auto const axis = d.axis(layout, a);
  auto const& cuts = *layout.cuts(int(a));
  auto const outputs = d.outputs[a] ? *d.outputs[a] : axis.output_cuts(cuts);
  return {axis, own_range(comm, layout, int(a), cuts), own_range(comm, layout, int(a), outputs)};
}

std::uint64_t fingerprint(ConvDescription const& d) {
  Hash hash;
  for (auto const& padding : d.padding) hash.add(padding.lower).add(padding.upper);
  for (auto const& outputs : d.outputs)
    if (outputs) hash.add(outputs->sizes());
  return hash.add(d.kernel).add(d.stride).add(d.dilation).add(d.groups).add(d.odd_channels).value();
}

/// True when the halo holds nothing but zeros, whose products need not be computed.
bool only_zeros(IndexMap const& map, Box const& halo) {
  auto const pieces = map(halo);
  return std::all_of(pieces.begin(), pieces.end(), [](Piece const& piece) { return piece.filled && piece.fill == 0; });
}

}  // namespace

Index ConvDescription::level_zeros() const noexcept {
  bool const symmetric = levels && levels->edge == Edge::constant && levels->padding.lower == levels->padding.upper;
  return symmetric ? levels->padding.lower : 0;
}

ConvAxis ConvDescription::axis(Layout const& layout, std::size_t a) const {
  auto const i = kernel.size() - 2 + a;
  return {layout.extent(int(a)), kernel[i], stride[i], dilation[i], padding[a].lower, padding[a].upper};
}

Windows ConvDescription::windows(std::array<Index, 2> const& padding_of_cut_axes) const {
  std::vector<std::int64_t> all(kernel.size(), level_zeros());
  std::copy(padding_of_cut_axes.begin(), padding_of_cut_axes.end(), all.end() - 2);
  return {.stride = stride, .padding = all, .dilation = dilation, .groups = groups};
}

torch::Tensor pad_levels(ConvDescription const& d, torch::Tensor const& x) {
  if (!d.levels || d.level_zeros() > 0) return x;
  auto const [lower, upper] = d.levels->padding;
  if (lower == 0 && upper == 0) return x;
  if (d.levels->edge == Edge::constant) return at::constant_pad_nd(x, {0, 0, 0, 0, lower, upper});
  return with_images_of_levels(x, lower, upper, d.levels->edge);
}

ConvSetUp::ConvSetUp(Comm const& comm, Layout const& layout, ConvDescription const& description)
    : comm_(comm),
      layout_(layout),
      description_(description),
      shards_{shard_of(comm, layout, description, 0), shard_of(comm, layout, description, 1)} {
  auto const map = graticule::detail::boundary_map(layout.global().extents(), description.boundary);
  outputs_ = box_of(shards_[0].outputs, shards_[1].outputs);
  needed_ = has_outputs() ? box_of(shards_[0].needed, shards_[1].needed) : box_of({}, {});
  by_strips_ = has_outputs() && shards_[0].splits && shards_[1].splits;
  std::vector<Target> targets(std::size_t(num_strips) + 1, Target{box_of({}, {}), {}});
  if (by_strips_) {
    choose_strips(map);
    for (std::size_t t = 0; t < strips_.size(); ++t)
      if (auto const& strip = strips_[t]) targets[t] = {strip->box, {strip->halo}};
  } else {
    targets[std::size_t(whole_target)] = {needed_, {needed_}};
  }
  pull_ = std::make_shared<TensorPull const>(comm, layout, description.boundary, std::move(targets),
                                             description.odd_channels, fingerprint(description));
}

void ConvSetUp::choose_strips(IndexMap const& map) {
  auto const& rows = shards_[0];
  auto const& columns = shards_[1];
  auto const add = [&](std::size_t t, ConvStrip const& strip) {
    if (!strip.halo.empty() && !strip.outputs.empty() && !only_zeros(map, strip.halo)) strips_[t] = strip;
  };
  auto const add_rows = [&](std::size_t t, Range strip, Range halo, Range rim) {
    add(t, {box_of(strip, columns.needed), box_of(halo, columns.needed), box_of(rim, columns.outputs)});
  };
  auto const add_columns = [&](std::size_t t, Range strip, Range halo, Range rim) {
    add(t, {box_of(rows.used, strip), box_of(rows.used, halo), box_of(rows.outputs, rim), {rows.padding, 0}});
  };
  add_rows(0, rows.lower_strip, rows.lower_halo, rows.lower_rim);
  add_rows(1, rows.upper_strip, rows.upper_halo, rows.upper_rim);
  add_columns(2, columns.lower_strip, columns.lower_halo, columns.lower_rim);
  add_columns(3, columns.upper_strip, columns.upper_halo, columns.upper_rim);
}

std::shared_ptr<TensorPull const> const& ConvSetUp::whole() const {
  if (!whole_)
    whole_ = std::make_shared<TensorPull const>(comm_, layout_, description_.boundary,
                                                std::vector{Target{needed_, {needed_}}}, description_.odd_channels,
                                                fingerprint(description_));
  return whole_;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using ConvSetUpPointer = std::shared_ptr<ConvSetUp const>;
using TargetTensors = std::array<torch::Tensor, std::size_t(ConvSetUp::num_strips) + 1>;

constexpr std::array<Index, 2> no_padding{0, 0};

/// The engine's view: channels before rows, where the pull looks for odd ones, and levels as a batch axis.
torch::Tensor engine_view(torch::Tensor const& x) { return x.dim() == 5 ? x.transpose(1, 2) : x; }

TargetTensors engine_views(TargetTensors const& targets) {
  TargetTensors views;
  std::transform(targets.begin(), targets.end(), views.begin(), engine_view);
  return views;
}

/// Windows of the local convolution.
Windows own_windows(ConvSetUp const& s) {
  return s.description().windows({s.shards()[0].padding, s.shards()[1].padding});
}

/// The own inputs that it reads.
torch::Tensor used_part(ConvSetUp const& s, torch::Tensor const& x) {
  auto const& [rows, columns] = s.shards();
  return narrowed(x, s.pull().owned(), box_of(rows.used, columns.used));
}

TargetTensors make_targets(ConvSetUp const& s, torch::Tensor const& x) {
  TargetTensors targets;
  for (std::size_t t = 0; t < targets.size(); ++t) targets[t] = s.pull().empty_target(x, int(t));
  for (std::size_t t = 0; t < s.strips().size(); ++t)
    if (s.strips()[t]) targets[t].zero_();
  return targets;
}

torch::Tensor no_outputs(ConvSetUp const& s, torch::Tensor const& x, torch::Tensor const& weight) {
  auto const& d = s.description();
  std::vector<std::int64_t> sizes{x.size(0), weight.size(0)};
  if (d.levels)
    sizes.push_back(
        ConvAxis{x.size(2), d.kernel[0], d.stride[0], d.dilation[0], d.level_zeros(), d.level_zeros()}.num_outputs());
  sizes.insert(sizes.end(), {s.outputs().extent(0), s.outputs().extent(1)});
  return torch::empty(sizes, x.options().requires_grad(false));
}

/// Gradients of one rank; `input` still lacks what other ranks send.
struct Gradients {
  torch::Tensor input;
  torch::Tensor weight;
  torch::Tensor bias;
};

struct ConvFunction : torch::autograd::Function<ConvFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& weight,
                               std::optional<torch::Tensor> const& bias, torch::Tensor const& anchor,
                               ConvSetUpPointer const& set_up, bool input_grad) {
    auto const& s = *set_up;
    auto const& d = s.description();
    auto targets = make_targets(s, x);
    auto pending = s.pull().start(engine_view(x), engine_views(targets));
    auto const shift = bias.value_or(torch::Tensor());
    torch::Tensor y;
    if (s.by_strips()) y = convolution(used_part(s, x), weight, shift, own_windows(s));
    pending.wait();
    for (std::size_t t = 0; t < s.strips().size(); ++t)
      if (auto const& strip = s.strips()[t])
        narrowed(y, s.outputs(), strip->outputs).add_(convolution(targets[t], weight, {}, d.windows(strip->padding)));
    if (!s.by_strips())
      y = s.has_outputs() ? convolution(targets[ConvSetUp::whole_target], weight, shift, d.windows(no_padding))
                          : no_outputs(s, x, weight);

    variable_list saved{x, weight, shift, anchor};
    saved.insert(saved.end(), targets.begin(), targets.end());
    ctx->save_for_backward(std::move(saved));
    keep(ctx, set_up);
    ctx->saved_data["input_grad"] = input_grad;
    return {y, make_token(y.options())};
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const set_up = kept<ConvSetUpPointer>(ctx);
    bool const input_grad = ctx->saved_data["input_grad"].toBool();
    auto const saved = ctx->get_saved_variables();
    bool const with_bias = saved[2].defined();
    auto const result = torch::GradMode::is_enabled() ? differentiable(set_up, saved, grads[0], input_grad, with_bias)
                                                      : direct(*set_up, saved, grads[0], input_grad, with_bias);
    return {result.input, result.weight, result.bias, {}, {}, {}};
  }

 private:
  static Gradients direct(ConvSetUp const& s, variable_list const& saved, torch::Tensor const& g, bool input_grad,
                          bool with_bias) {
    auto const& d = s.description();
    auto const& x = saved[0];
    auto const& weight = saved[1];
    bool const wants_weight = weight.requires_grad();
    TargetTensors cotangents;
    std::copy(saved.begin() + 4, saved.end(), cotangents.begin());
    Gradients result;
    auto const add_weight = [&](torch::Tensor const& part) {
      if (!wants_weight) return;
      if (result.weight.defined())
        result.weight.add_(part);
      else
        result.weight = part;
    };
    for (std::size_t t = 0; t < s.strips().size(); ++t)
      if (auto const& strip = s.strips()[t]) {
        auto const [strip_grad, weight_grad, none] =
            convolution_backward(narrowed(g, s.outputs(), strip->outputs), cotangents[t], weight,
                                 d.windows(strip->padding), {input_grad, wants_weight, false});
        if (input_grad) cotangents[t] = strip_grad;
        add_weight(weight_grad);
      }
    if (!s.by_strips() && s.has_outputs()) {
      auto const [whole_grad, weight_grad, bias_grad] = convolution_backward(
          g, cotangents[ConvSetUp::whole_target], weight, d.windows(no_padding), {input_grad, wants_weight, with_bias});
      if (input_grad) cotangents[ConvSetUp::whole_target] = whole_grad;
      add_weight(weight_grad);
      result.bias = bias_grad;
    }
    TensorPending pending;
    if (input_grad) pending = s.pull().start_adjoint(engine_views(cotangents));
    if (s.by_strips()) {
      auto const [own_grad, weight_grad, bias_grad] =
          convolution_backward(g, used_part(s, x), weight, own_windows(s), {input_grad, wants_weight, with_bias});
      add_weight(weight_grad);
      result.bias = bias_grad;
      if (input_grad && own_grad.sizes() == x.sizes()) {
        result.input = own_grad;
      } else if (input_grad) {
        result.input = torch::zeros_like(x);
        used_part(s, result.input).copy_(own_grad);
      }
    }
    if (input_grad && !result.input.defined()) result.input = torch::zeros_like(x);
    if (input_grad) s.pull().finish_adjoint(pending, engine_view(result.input));
    if (wants_weight && !result.weight.defined()) result.weight = torch::zeros_like(weight);
    if (with_bias && !result.bias.defined()) result.bias = torch::zeros_like(saved[2]);
    return result;
  }

  /// The same from differentiable parts, for a backward that is differentiated again.
  static Gradients differentiable(ConvSetUpPointer const& set_up, variable_list const& saved, torch::Tensor const& g,
                                  bool input_grad, bool with_bias) {
    auto const& s = *set_up;
    auto const& weight = saved[1];
    auto const tie = [&] { return anchor(true, g.options()); };
    auto const whole = engine_view(apply_linear(s.whole(), Way::forward, engine_view(saved[0]), tie()));
    auto map = std::make_shared<LocalMap>();
    map->apply = [=](variable_list const& in) -> variable_list {
      auto const num_biases = in[2].size(0);
      if (!set_up->has_outputs())
        return {torch::zeros_like(in[1]), torch::zeros_like(in[2]), torch::zeros({num_biases}, in[2].options())};
      auto [of_whole, of_weight, of_bias] =
          convolution_backward(in[0], in[1], in[2], set_up->description().windows(no_padding), {true, true, true});
      return {of_whole, of_weight, of_bias};
    };
    auto const gradients = apply_local(std::move(map), {g, whole, weight});
    Gradients result;
    auto const& whole_grad = gradients[0];
    result.weight = gradients[1];
    if (with_bias) result.bias = gradients[2];
    if (input_grad) result.input = engine_view(apply_linear(s.whole(), Way::adjoint, engine_view(whole_grad), tie()));
    return result;
  }
};

}  // namespace

torch::Tensor sharded_convolution(ConvSetUpPointer const& set_up, torch::Tensor const& x, torch::Tensor const& weight,
                                  torch::Tensor const& bias, torch::Tensor const& anchor, bool input_grad) {
  return ConvFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, anchor, set_up,
                             input_grad)[0];
}

}  // namespace graticule::nn::detail
