// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>

#include "loss_terms.hpp"

#include <cmath>
#include <sstream>

namespace graticule::nn {

namespace detail {

namespace {

std::vector<std::int64_t> term_sizes(LossFunction const& function, torch::Tensor const& prediction) {
  auto sizes = prediction.sizes().vec();
  if (function.removed_axis) sizes.erase(sizes.begin() + *function.removed_axis);
  return sizes;
}

void check_tensors(LossFunction const& function, torch::Tensor const& prediction, torch::Tensor const& target,
                   torch::Tensor const& mask) {
  for (auto const* x : {&prediction, &target})
    if (!x->defined() || x->layout() != torch::kStrided)
      throw Error("UnsupportedTensor", function.name + " takes dense tensors");
  if (!torch::isFloatingType(prediction.scalar_type()))
    throw Error("UnsupportedTensor",
                function.name + " needs a prediction of real numbers, got " + c10::toString(prediction.scalar_type()));
  auto text = function.name + ": " + sizes_of(prediction, target);
  if (mask.defined()) text += c10::str(", mask ", mask.sizes());
  if (prediction.dim() < 2 + (function.removed_axis ? 1 + *function.removed_axis : 0))
    throw Error("ShapeMismatch", text);
  auto const sizes = term_sizes(function, prediction);
  if (function.check)
    function.check(prediction, target);
  else if (target.sizes() != at::IntArrayRef(sizes))
    throw Error("ShapeMismatch", text);
  if (mask.defined() && !at::is_expandable_to(mask.sizes(), sizes)) throw Error("ShapeMismatch", text);
}

/// Mask of valid cells; undefined if all are valid. In most cases a single sum decides, because any NaN makes it NaN.
torch::Tensor valid_cells(LossFunction const& function, torch::Tensor const& target, torch::Tensor const& mask) {
  torch::Tensor valid;
  if (function.valid)
    valid = function.valid(target);
  else if (torch::isFloatingType(target.scalar_type()) && value_on_host(target.detach().sum().isnan()) != 0)
    valid = torch::isnan(target).logical_not();
  if (!mask.defined()) return valid;
  auto const counted = mask != 0;
  return valid.defined() ? valid & counted : counted;
}

/// @param p in `type_of_sums`
LossSums cell_sums(LossFunction const& f, torch::Tensor const& p, torch::Tensor const& target,
                   torch::Tensor const& mask) {
  torch::Tensor valid;
  if (f.difference && !mask.defined()) {
    auto const sums = row_sums(*f.difference, p, target.to(p.scalar_type()));
    // A missing target makes the sum of its row NaN.
    if (value_on_host(sums.detach().isnan().any()) == 0) return {sums, {}, p.size(-1)};
    // So does a prediction, with which the loss is NaN whatever is missing: the device is not asked again.
    valid = torch::isnan(target).logical_not();
  } else {
    valid = valid_cells(f, target, mask);
  }
  auto terms = f.terms(p, target, valid);
  if (!terms.counts.defined()) terms.counts = valid;
  if (mask.defined() && mask.scalar_type() != torch::kBool) {
    terms.elements = terms.elements * mask.to(terms.elements.scalar_type());
    terms.counts = terms.counts * mask.to(torch::kDouble);
  }
  if (valid.defined())
    terms.elements =
        torch::where(valid, terms.elements, torch::zeros({}, terms.elements.options().requires_grad(false)));
  return summed(terms);
}

}  // namespace

struct LossSetUp {
  AxisWeights weights;  ///< of this rank's rows
};

LossLayer::LossLayer(Domain const& domain, std::shared_ptr<LossFunction const> function, LossOptions options)
    : LayerState(domain, function->name), function_(std::move(function)), options_(std::move(options)) {
  run_agreed(domain.comm(), [&] {
    check_weights(options_);
    if (!function_->has_channels && (options_.per == LossPer::channel || !options_.channel_weights.empty()))
      throw Error("BadOption", function_->name + " has classes, not channels");
  });
}

torch::Tensor LossLayer::forward(torch::Tensor const& prediction, torch::Tensor const& target,
                                 torch::Tensor const& mask) {
  auto const& f = *function_;
  auto const check = [&] {
    check_tensors(f, prediction, target, mask);
    check_axes(f.name, options_, term_sizes(f, prediction), f.has_channels);
  };
  auto const make = [&](Layout const& layout) {
    auto const text = f.name + " " + f.parameters + ", " + described(options_);
    require_same_text(text);
    return std::make_shared<LossSetUp>(
        LossSetUp{axis_weights(options_, row_weights(f.name, options_, layout, domain()))});
  };
  auto const call = enter(prediction, check, make);
  return reduce_sums(f.name, cell_sums(f, prediction.to(detail::type_of_sums(prediction.scalar_type())), target, mask),
                     call.set_up->weights, options_, f.has_channels, domain());
}

}  // namespace detail

namespace {

using detail::LossFunction;
using detail::LossTerms;
using FunctionPointer = std::shared_ptr<LossFunction const>;
using torch::Tensor;

/// `x` where `valid`, elsewhere a harmless number, so that gradients there are 0, not 0 times NaN.
Tensor safe(Tensor const& valid, Tensor const& x, double other) {
  if (!valid.defined()) return x;
  return torch::where(valid, x, torch::full({}, other, x.options().requires_grad(false)));
}

/// A loss of each cell alone.
FunctionPointer of_cells(std::string name, std::string parameters,
                         std::function<Tensor(Tensor const&, Tensor const&)> f) {
  LossFunction function{.name = std::move(name), .parameters = std::move(parameters)};
  function.terms = [f = std::move(f)](Tensor const& p, Tensor const& t, Tensor const& valid) {
    return LossTerms{f(safe(valid, p, 0), safe(valid, t, 1).to(p.scalar_type())), {}};
  };
  return std::make_shared<LossFunction const>(std::move(function));
}

/// A loss of the difference in each cell.
FunctionPointer of_differences(std::string name, std::string parameters, detail::DifferenceLoss const& loss) {
  LossFunction function = *of_cells(std::move(name), std::move(parameters),
                                    [loss](Tensor const& p, Tensor const& t) { return detail::elements(loss, p, t); });
  function.difference = loss;
  return std::make_shared<LossFunction const>(std::move(function));
}

std::string text_of(std::vector<double> const& values) {
  std::ostringstream text;
  text.precision(17);
  text << at::ArrayRef<double>(values);
  return text.str();
}

detail::Constant constant_of(std::vector<double> const& values) {
  return detail::Constant(torch::tensor(values, torch::kDouble));
}

/// `value` if it is `good`. @throws `BadOption`
double checked_number(std::string const& loss, bool good, double value) {
  if (!good) throw Error("BadOption", loss + " cannot have " + std::to_string(value));
  return value;
}

bool are_classes(Tensor const& target) { return !torch::isFloatingType(target.scalar_type()); }

void check_classes(std::string const& name, ClassOptions const& o, bool probabilities, Tensor const& p,
                   Tensor const& t) {
  auto sizes = p.sizes().vec();
  if (are_classes(t)) sizes.erase(sizes.begin() + 1);
  if (p.dim() < 4 || t.sizes() != at::IntArrayRef(sizes) ||
      (are_classes(t) ? t.scalar_type() != torch::kLong : !probabilities))
    throw Error("ShapeMismatch", c10::str(name, ": ", detail::sizes_of(p, t), " of ", t.scalar_type()));
  if (!o.class_weights.empty() && std::int64_t(o.class_weights.size()) != p.size(1))
    throw Error("ShapeMismatch", name + " needs a weight for each of " + std::to_string(p.size(1)) + " classes, got " +
                                     std::to_string(o.class_weights.size()));
  if (!are_classes(t)) return;
  auto const wrong = ((t < 0) | (t >= p.size(1))) & (t != o.ignore_index);
  if (detail::value_on_host(wrong.any()) != 0)
    throw Error("OutOfRange", name + ": a class must be in [0, " + std::to_string(p.size(1)) + "), got " +
                                  std::to_string(t.masked_select(wrong)[0].item<std::int64_t>()));
}

/// @param logs logarithms of probabilities, 0 where the cell is not valid
LossTerms class_terms(ClassOptions const& o, detail::Constant const& class_weights, Tensor const& logs,
                      Tensor const& target, Tensor const& valid) {
  auto const num_classes = logs.size(1);
  auto const weights = o.class_weights.empty() ? torch::ones({num_classes}, logs.options().requires_grad(false))
                                               : class_weights.on(logs.device(), logs.scalar_type());
  std::vector<std::int64_t> sizes(std::size_t(logs.dim()), 1);
  sizes[1] = num_classes;
  auto const weighted = logs * weights.view(sizes);
  if (!are_classes(target)) {
    auto const t = safe(valid.unsqueeze(1), target, 0).to(logs.scalar_type());
    auto const smooth =
        o.label_smoothing > 0 ? t * (1 - o.label_smoothing) + o.label_smoothing / double(num_classes) : t;
    return {-(weighted * smooth).sum(1), {}};
  }
  auto const classes = torch::where(valid, target, torch::zeros({}, target.options()));
  auto const counts = weights.index_select(0, classes.flatten()).view(classes.sizes()).to(torch::kDouble) * valid;
  auto elements = -weighted.gather(1, classes.unsqueeze(1)).squeeze(1);
  if (o.label_smoothing > 0)
    elements = elements * (1 - o.label_smoothing) - weighted.sum(1) * (o.label_smoothing / double(num_classes));
  return {elements, counts};
}

enum class Logits : std::uint8_t { no, yes };

FunctionPointer of_classes(std::string const& name, ClassOptions const& o, Logits logits) {
  bool const is_logits = logits == Logits::yes;
  (void)checked_number(name, o.label_smoothing >= 0 && o.label_smoothing <= (is_logits ? 1 : 0), o.label_smoothing);
  detail::check_weights({.channel_weights = o.class_weights});
  LossFunction function{.name = name,
                        .parameters = text_of(o.class_weights) + text_of({double(o.ignore_index), o.label_smoothing}),
                        .removed_axis = 1,
                        .has_channels = false};
  function.check = [=](Tensor const& p, Tensor const& t) { check_classes(name, o, is_logits, p, t); };
  function.valid = [ignore = o.ignore_index](Tensor const& t) {
    return are_classes(t) ? t != ignore : torch::isnan(t).any(1).logical_not();
  };
  function.terms = [=, weights = constant_of(o.class_weights)](Tensor const& p, Tensor const& t, Tensor const& valid) {
    auto const given = safe(valid.unsqueeze(1), p, 0);
    return class_terms(o, weights, is_logits ? torch::log_softmax(given, 1) : given, t, valid);
  };
  return std::make_shared<LossFunction const>(std::move(function));
}

/// Half of sum_ij |x_i - x_j| over the last axis: the k-th smallest of m members, k = 1, 2, ..., stands above k - 1 and
/// below m - k. Equal members get equal counts, those above and below each, and with them the gradient of the pairs.
Tensor half_pair_sum(Tensor const& x) {
  auto const m = x.size(-1);
  auto const sorted = std::get<0>(x.sort(-1));
  auto const values = sorted.detach();
  if (detail::value_on_host(values.narrow(-1, 1, m - 1).eq(values.narrow(-1, 0, m - 1)).any()) == 0)
    return (sorted * torch::arange(1 - m, m, 2, x.options().requires_grad(false))).sum(-1);
  auto const lower = torch::searchsorted(values, values, false, false);
  auto const upper = torch::searchsorted(values, values, false, true);
  return (sorted * (lower + upper - m).to(x.scalar_type())).sum(-1);
}

FunctionPointer crps_function(CRPSOptions const& o) {
  (void)checked_number("CRPSLoss", o.fairness >= 0 && o.fairness <= 1, o.fairness);
  (void)checked_number("CRPSLoss", o.ensemble_axis >= 0, double(o.ensemble_axis));
  LossFunction function{.name = "CRPSLoss",
                        .parameters = text_of({o.fairness, double(o.ensemble_axis)}),
                        .removed_axis = o.ensemble_axis};
  function.check = [=](Tensor const& p, Tensor const& t) {
    auto sizes = p.sizes().vec();
    sizes.erase(sizes.begin() + o.ensemble_axis);
    auto const text = c10::str("CRPSLoss: prediction ", p.sizes(), " with members along axis ", o.ensemble_axis,
                               ", target ", t.sizes());
    if (t.sizes() != at::IntArrayRef(sizes)) throw Error("ShapeMismatch", text);
    int const least = o.fairness > 0 ? 2 : 1;
    if (p.size(o.ensemble_axis) < least)
      throw Error("ShapeMismatch", text + ": at least " + std::to_string(least) + " members are needed");
  };
  function.terms = [=](Tensor const& p, Tensor const& t, Tensor const& valid) {
    auto const m = double(p.size(o.ensemble_axis));
    auto const errors = safe(valid.defined() ? valid.unsqueeze(-1) : valid, p.movedim(o.ensemble_axis, -1), 0) -
                        safe(valid, t, 0).to(p.scalar_type()).unsqueeze(-1);
    auto const skill = errors.abs().mean(-1);
    if (m == 1) return LossTerms{skill, {}};
    return LossTerms{skill - half_pair_sum(errors) * ((1 - (1 - o.fairness) / m) / (m * (m - 1))), {}};
  };
  return std::make_shared<LossFunction const>(std::move(function));
}

}  // namespace

using detail::DifferenceKind;

L1LossImpl::L1LossImpl(Domain const& domain, LossOptions options)
    : LossModule(of_differences("L1Loss", "", {DifferenceKind::absolute}), std::move(options), domain) {}

MSELossImpl::MSELossImpl(Domain const& domain, LossOptions options)
    : LossModule(of_differences("MSELoss", "", {DifferenceKind::squared}), std::move(options), domain) {}

HuberLossImpl::HuberLossImpl(double delta, Domain const& domain, LossOptions options)
    : LossModule(
          of_differences("HuberLoss", text_of({checked_number("HuberLoss", delta > 0 && std::isfinite(delta), delta)}),
                         {DifferenceKind::huber, delta}),
          std::move(options), domain) {}

SmoothL1LossImpl::SmoothL1LossImpl(double beta, Domain const& domain, LossOptions options)
    : LossModule(of_differences("SmoothL1Loss",
                                text_of({checked_number("SmoothL1Loss", beta >= 0 && std::isfinite(beta), beta)}),
                                {beta == 0 ? DifferenceKind::absolute : DifferenceKind::smooth, beta}),
                 std::move(options), domain) {}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(Domain const& domain, LossOptions options,
                                             std::vector<double> positive_weights)
    : LossModule(
          [&] {
            LossFunction function =
                *of_cells("BCEWithLogitsLoss", text_of(positive_weights),
                          [weights = constant_of(positive_weights)](Tensor const& p, Tensor const& t) {
                            Tensor positive;
                            if (auto const count = weights.on_host().numel(); count > 0) {
                              std::vector<std::int64_t> sizes(std::size_t(p.dim() - 1), 1);
                              sizes[0] = count;
                              positive = weights.on(p.device(), p.scalar_type()).view(sizes);
                            }
                            return torch::binary_cross_entropy_with_logits(p, t, {}, positive, at::Reduction::None);
                          });
            function.check = [count = std::int64_t(positive_weights.size())](Tensor const& p, Tensor const& t) {
              if (p.sizes() != t.sizes() || (count > 0 && p.dim() < 4))
                throw Error("ShapeMismatch", "BCEWithLogitsLoss: " + detail::sizes_of(p, t));
              if (count > 0 && count != p.size(1))
                throw Error("ShapeMismatch", "BCEWithLogitsLoss needs a positive weight for each of " +
                                                 std::to_string(p.size(1)) + " channels, got " + std::to_string(count));
            };
            return std::make_shared<LossFunction const>(std::move(function));
          }(),
          std::move(options), domain) {}

KLDivLossImpl::KLDivLossImpl(Domain const& domain, LossOptions options, TargetIs target)
    : LossModule(of_cells("KLDivLoss", std::to_string(int(target)),
                          [target](Tensor const& p, Tensor const& t) {
                            return torch::kl_div(p, t, at::Reduction::None, target == TargetIs::log_probability);
                          }),
                 std::move(options), domain) {}

PoissonNLLLossImpl::PoissonNLLLossImpl(Domain const& domain, LossOptions options, PoissonNLLOptions o)
    : LossModule(of_cells("PoissonNLLLoss", text_of({double(o.log_input), double(o.full), o.eps}),
                          [o](Tensor const& p, Tensor const& t) {
                            return torch::poisson_nll_loss(p, t, o.log_input, o.full, o.eps, at::Reduction::None);
                          }),
                 std::move(options), domain) {}

NLLLossImpl::NLLLossImpl(Domain const& domain, LossOptions options, ClassOptions classes)
    : LossModule(of_classes("NLLLoss", classes, Logits::no), std::move(options), domain) {}

CrossEntropyLossImpl::CrossEntropyLossImpl(Domain const& domain, LossOptions options, ClassOptions classes)
    : LossModule(of_classes("CrossEntropyLoss", classes, Logits::yes), std::move(options), domain) {}

CRPSLossImpl::CRPSLossImpl(Domain const& domain, LossOptions options, CRPSOptions crps)
    : LossModule(crps_function(crps), std::move(options), domain) {}

}  // namespace graticule::nn
