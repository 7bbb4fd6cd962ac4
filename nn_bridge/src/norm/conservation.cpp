// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>

#include "collective/collective_maps.hpp"
#include "loss/loss_terms.hpp"

#include <algorithm>
#include <array>

namespace graticule::nn {

namespace {

LossOptions as_options(MeanWeights const& weights) {
  return {.row_weights = weights.rows, .global_row_weights = weights.global_rows, .level_weights = weights.levels};
}

/// Weights of this rank's cells, divided by their sum over all ranks: the mean is a sum.
struct MeanSetUp {
  detail::Constant cells;  ///< [rows, 1] or [levels, rows, 1], in f64

  /// This rank's part of the means; [..., rows, columns] without the axes that they go over.
  [[nodiscard]] torch::Tensor partial(torch::Tensor const& x) const {
    auto const rows = x.sum({-1}, true, torch::kDouble) * cells.on(x.device());
    return cells.on_host().dim() == 3 ? rows.sum({-3, -2, -1}) : rows.sum({-2, -1});
  }
};

/// All that must be the same on all ranks.
std::string described(ConservationOptions const& options) {
  return c10::str(int(options.correction), ", channels ", at::IntArrayRef(options.channels));
}

void refuse(torch::Tensor const& prediction, torch::Tensor const& other) {
  throw Error("ShapeMismatch", c10::str("ConservationFixer: prediction ", prediction.sizes(), " and ",
                                        other.defined() ? c10::str(other.sizes()) : "no tensor"));
}

/// `values` with axes of size 1 for those of `x` that it lacks: rows, columns, and levels if it has none.
torch::Tensor with_axes_behind(torch::Tensor values, torch::Tensor const& x) {
  while (values.dim() < x.dim()) values = values.unsqueeze(-1);
  return values;
}

}  // namespace

class detail::MeanState : public LayerState<MeanSetUp> {
 public:
  using LayerState::LayerState;

  [[nodiscard]] Call enter_checked(torch::Tensor const& x, MeanWeights const& weights, std::string const& text,
                                   std::function<void()> const& check) {
    auto const options = as_options(weights);
    auto const checked = [&] {
      if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
        throw Error("UnsupportedTensor", layer() + " takes dense tensors of a real floating-point dtype");
      if (x.dim() < 2)
        throw Error("ShapeMismatch", layer() + " needs tensors [batch, channels, ..., rows, columns], got " +
                                         std::to_string(x.dim()) + " axes");
      detail::check_axes(layer(), options, x.sizes(), true);
      check();
    };
    auto const make = [&](Layout const& layout) {
      auto const all = layer() + " " + text + ", " + detail::described(options);
      require_same_text(all);
      auto cells = detail::row_weights(layer(), options, layout, domain());
      auto const owned = layout.owned(domain().comm().rank());
      if (!cells.defined()) cells = torch::ones({owned.extent(0), 1}, torch::kDouble);
      if (!weights.levels.empty()) cells = cells * torch::tensor(weights.levels, torch::kDouble).view({-1, 1, 1});
      std::array<double, 1> sum{cells.sum().item<double>() * double(owned.extent(1))};
      domain().comm().sum(sum);
      if (!(sum[0] > 0)) throw Error("TooFewValues", layer() + ": the weights of all ranks sum to 0");
      return std::make_shared<MeanSetUp const>(MeanSetUp{detail::Constant(cells / sum[0])});
    };
    return enter(x, checked, make);
  }
};

GlobalMeanImpl::GlobalMeanImpl(Consumer consumer, Domain const& domain, MeanWeights weights)
    : StatefulModule(domain, detail::state_maker<detail::MeanState>("GlobalMean")),
      consumer_(consumer),
      weights_(std::move(weights)) {
  run_agreed(domain.comm(), [&] { detail::check_weights(as_options(weights_)); });
}

torch::Tensor GlobalMeanImpl::forward(torch::Tensor const& x) {
  auto const call = state().enter_checked(x, weights_, std::to_string(int(consumer_)), [] {});
  auto const map =
      consumer_ == Consumer::replicated ? detail::loss_sum_map(domain().comm()) : detail::all_sum_map(domain().comm());
  return state().record(detail::apply_linear_call(map, call.set_up->partial(x), call.anchor));
}

class detail::FixerState : public MeanState {
 public:
  explicit FixerState(Domain const& domain)
      : MeanState(domain, "ConservationFixer"), by_means(domain, "ConservationFixer to means", this) {}
  MeanState by_means;
};

ConservationFixerImpl::ConservationFixerImpl(Domain const& domain, ConservationOptions options)
    : StatefulModule(domain, detail::state_maker<detail::FixerState>()),
      options_(std::move(options)),
      channels_(std::make_shared<detail::Constant const>(torch::tensor(options_.channels, torch::kLong))) {
  run_agreed(domain.comm(), [&] { detail::check_weights(as_options(options_.weights)); });
  auto sorted = options_.channels;
  std::sort(sorted.begin(), sorted.end());
  if (auto const twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw Error("BadOption",
                "ConservationFixer corrects each channel once, got channel " + std::to_string(*twice) + " twice");
}

void ConservationFixerImpl::check(torch::Tensor const& prediction) const {
  if (prediction.dim() < 4)
    throw Error("ShapeMismatch", "ConservationFixer takes [batch, channels, ..., rows, columns], not " +
                                     std::to_string(prediction.dim()) + " axes");
  for (auto const channel : options_.channels)
    if (channel < 0 || channel >= prediction.size(1))
      throw Error("OutOfRange",
                  "channel must be in [0, " + std::to_string(prediction.size(1)) + "), got " + std::to_string(channel));
}

torch::Tensor ConservationFixerImpl::chosen(torch::Tensor const& x) const {
  if (options_.channels.empty()) return x;
  return x.index_select(1, channels_->on(x.device()));
}

torch::Tensor ConservationFixerImpl::corrected(torch::Tensor const& prediction, torch::Tensor const& mean,
                                               torch::Tensor const& wanted) const {
  auto const type = prediction.scalar_type();
  auto const working = type == torch::kDouble ? torch::kDouble : torch::kFloat;
  auto const part = chosen(prediction).to(working);
  torch::Tensor fixed;
  if (options_.correction == Correction::additive) {
    fixed = part + with_axes_behind(wanted - mean, part).to(working);
  } else {
    if (detail::value_on_host(mean.detach().eq(0).any()) != 0)
      throw Error("NotFinite", "ConservationFixer: no factor can change a mean of 0");
    fixed = part * with_axes_behind(wanted / mean, part).to(working);
  }
  if (options_.channels.empty()) return fixed.to(type);
  return prediction.index_copy(1, channels_->on(prediction.device()), fixed.to(type));
}

torch::Tensor ConservationFixerImpl::forward(torch::Tensor const& prediction, torch::Tensor const& reference) {
  auto const check_both = [&] {
    check(prediction);
    if (!reference.defined() || reference.sizes() != prediction.sizes()) refuse(prediction, reference);
  };
  auto const call = state().enter_checked(prediction, options_.weights, described(options_), check_both);
  // The reference may be what requires the gradient, on all ranks or on some: each rank has a node.
  auto const partial =
      torch::stack({call.set_up->partial(chosen(prediction)), call.set_up->partial(chosen(reference))});
  auto const means = state().record(detail::apply_map(detail::all_sum_map(domain().comm()), partial));
  return corrected(prediction, means[0], means[1]);
}

torch::Tensor ConservationFixerImpl::to_means(torch::Tensor const& prediction, torch::Tensor const& wanted) {
  auto const check_both = [&] {
    check(prediction);
    auto sizes = prediction.sizes().vec();
    sizes.resize(sizes.size() - (options_.weights.levels.empty() ? 2 : 3));
    if (!options_.channels.empty()) sizes[1] = std::int64_t(options_.channels.size());
    if (!wanted.defined() || wanted.sizes() != at::IntArrayRef(sizes)) refuse(prediction, wanted);
  };
  auto const call = state().by_means.enter_checked(prediction, options_.weights, described(options_), check_both);
  auto const partial = call.set_up->partial(chosen(prediction));
  auto const mean =
      state().by_means.record(detail::apply_linear_call(detail::all_sum_map(domain().comm()), partial, call.anchor));
  return corrected(prediction, mean, wanted);
}

}  // namespace graticule::nn
