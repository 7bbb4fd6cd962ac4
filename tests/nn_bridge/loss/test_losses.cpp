// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/losses.hpp>

#include "expect_error.hpp"
#include "serial_comparison.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace graticule {
namespace test_losses {

using nn::LossOptions;
using nn::LossPer;
using nn::LossReduction;
using test::difference;
using test::Part;
using test::random_tensor;
using test::row_weights;
using test::row_weights_of;
using test::rule_of;
using test::SerialComparison;
using test::Shard;
using test::Spread;
using torch::Tensor;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Index num_rows = 7;
constexpr Index num_columns = 6;
std::vector<std::int64_t> const cells{2, 3, 4, num_rows, num_columns};

using Loss = std::function<Tensor(Tensor const&, Tensor const&, Tensor const&)>;

template <class Holder>
Loss taking_mask(Holder loss) {
  return [loss](Tensor const& p, Tensor const& t, Tensor const& mask) mutable { return loss(p, t, mask); };
}

/// One kind of loss: the layer, and what LibTorch gives for each cell of the whole field and its share of the weight.
struct Kind {
  std::string name;
  std::function<Loss(nn::Domain const&, LossOptions const&)> make;
  std::function<Tensor(Tensor const&, Tensor const&)> elements;
  std::function<Tensor(Tensor const&)> counts = {};  ///< of targets; none: 1
  std::function<Tensor(std::mt19937&)> prediction, target;
  bool has_channels = true;
  bool is_smooth = true;  ///< second derivatives are not 0
};

Tensor normal(std::mt19937& random) { return random_tensor(random, cells); }
Tensor probability(std::mt19937& random) { return torch::sigmoid(random_tensor(random, cells)); }
Tensor classes(std::mt19937& random) {
  auto const x = random_tensor(random, {2, 4, num_rows, num_columns});
  return (x > 0.3).to(torch::kLong) + (x > -0.4).to(torch::kLong);
}
std::vector<std::int64_t> ensemble_sizes() { return {2, 3, 5, 4, num_rows, num_columns}; }

Tensor none_huber(Tensor const& p, Tensor const& t) {
  auto const d = (p - t).abs();
  return torch::where(d <= 0.7, 0.5 * d * d, 0.7 * (d - 0.35));
}

Tensor pair_crps(Tensor const& p, Tensor const& t, double fairness) {
  auto const m = double(p.size(2));
  auto const pairs = (p.unsqueeze(2) - p.unsqueeze(3)).abs().sum({2, 3});
  return (p - t.unsqueeze(2)).abs().mean(2) - pairs * (fairness / (2 * m * (m - 1)) + (1 - fairness) / (2 * m * m));
}

Kind crps(double fairness) {
  return {.name = "CRPS " + std::to_string(fairness),
          .make =
              [=](nn::Domain const& d, LossOptions const& o) {
                return taking_mask(nn::CRPSLoss(d, o, nn::CRPSOptions{.ensemble_axis = 2, .fairness = fairness}));
              },
          .elements = [=](Tensor const& p, Tensor const& t) { return pair_crps(p, t, fairness); },
          .prediction =
              [](std::mt19937& random) {
                auto x = random_tensor(random, ensemble_sizes());
                x.select(2, 1).copy_(x.select(2, 3));  // Equal members.
                return x;
              },
          .target = normal,
          .is_smooth = false};
}

Tensor class_elements(Tensor const& p, Tensor const& t, std::vector<double> const& weights, std::int64_t ignored,
                      double smoothing) {
  auto const w = weights.empty() ? Tensor() : torch::tensor(weights, torch::kDouble);
  return torch::cross_entropy_loss(p, t, w, at::Reduction::None, ignored, smoothing);
}

std::vector<Kind> kinds() {
  std::vector<double> const weights{0.5, 2, 0.25};
  auto const counts = [weights](Tensor const& t) {
    auto const known = t != 1;
    return torch::tensor(weights, torch::kDouble).index({t}) * known;
  };
  auto const classes_of = [](nn::ClassOptions options) {
    return [options](nn::Domain const& d, LossOptions const& o) {
      return taking_mask(nn::CrossEntropyLoss(d, o, options));
    };
  };
  return {
      {.name = "L1",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::L1Loss(d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return torch::l1_loss(p, t, at::Reduction::None); },
       .prediction = normal,
       .target = normal,
       .is_smooth = false},
      {.name = "MSE",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::MSELoss(d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return torch::mse_loss(p, t, at::Reduction::None); },
       .prediction = normal,
       .target = normal},
      {.name = "Huber",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::HuberLoss(0.7, d, o)); },
       .elements = none_huber,
       .prediction = normal,
       .target = normal},
      {.name = "SmoothL1",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::SmoothL1Loss(0.7, d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return none_huber(p, t) / 0.7; },
       .prediction = normal,
       .target = normal},
      {.name = "BCE",
       .make =
           [](nn::Domain const& d, LossOptions const& o) {
             return taking_mask(nn::BCEWithLogitsLoss(d, o, std::vector<double>{1, 2, 0.5}));
           },
       .elements =
           [](Tensor const& p, Tensor const& t) {
             auto const positive = torch::tensor({1.0, 2.0, 0.5}, torch::kDouble).view({3, 1, 1, 1});
             return -(positive * t * torch::log_sigmoid(p) + (1 - t) * torch::log_sigmoid(-p));
           },
       .prediction = normal,
       .target = probability},
      {.name = "KL",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::KLDivLoss(d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return t * (t.log() - p); },
       .prediction = normal,
       .target = probability,
       .is_smooth = false},
      {.name = "KL of logarithms",
       .make = [](nn::Domain const& d,
                  LossOptions const& o) { return taking_mask(nn::KLDivLoss(d, o, nn::TargetIs::log_probability)); },
       .elements = [](Tensor const& p, Tensor const& t) { return t.exp() * (t - p); },
       .prediction = normal,
       .target = normal,
       .is_smooth = false},
      {.name = "Poisson",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::PoissonNLLLoss(d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return p.exp() - t * p; },
       .prediction = normal,
       .target = probability},
      {.name = "Poisson of rates, full",
       .make =
           [](nn::Domain const& d, LossOptions const& o) {
             return taking_mask(nn::PoissonNLLLoss(d, o, nn::PoissonNLLOptions{.log_input = false, .full = true}));
           },
       .elements =
           [](Tensor const& p, Tensor const& t) {
             return torch::poisson_nll_loss(p, t, false, true, 1e-8, at::Reduction::None);
           },
       .prediction = probability,
       .target = [](std::mt19937& random) { return 4 * probability(random); }},
      {.name = "NLL",
       .make = [](nn::Domain const& d, LossOptions const& o) { return taking_mask(nn::NLLLoss(d, o)); },
       .elements = [](Tensor const& p, Tensor const& t) { return -p.gather(1, t.unsqueeze(1)).squeeze(1); },
       .prediction = normal,
       .target = classes,
       .has_channels = false,
       .is_smooth = false},
      {.name = "cross entropy",
       .make = classes_of({}),
       .elements = [](Tensor const& p, Tensor const& t) { return class_elements(p, t, {}, -100, 0); },
       .prediction = normal,
       .target = classes,
       .has_channels = false},
      {.name = "cross entropy of weighted classes, one ignored, smoothed",
       .make = classes_of({.class_weights = weights, .ignore_index = 1, .label_smoothing = 0.2}),
       .elements = [=](Tensor const& p, Tensor const& t) { return class_elements(p, t, weights, 1, 0.2); },
       .counts = counts,
       .prediction = normal,
       .target = classes,
       .has_channels = false},
      {.name = "cross entropy of probabilities",
       .make = classes_of({.class_weights = weights, .label_smoothing = 0.1}),
       .elements = [=](Tensor const& p, Tensor const& t) { return class_elements(p, t, weights, -100, 0.1); },
       .prediction = normal,
       .target = [](std::mt19937& random) { return torch::softmax(normal(random), 1); },
       .has_channels = false},
      crps(1),
      crps(0),
      crps(0.95),
  };
}

/// Which cells count: all, those of a mask, those that are not NaN (by mask for classes), or all by weights.
enum class Counted : std::uint8_t { all, masked, present, weighted };

/// The weights of one call, on the whole field.
struct Weighting {
  std::string name;
  LossOptions options = {};
  bool rows = false;
  Counted cells = Counted::all;
};

std::vector<Weighting> weightings(bool channels) {
  std::vector<Weighting> result{
      {.name = "none"},
      {.name = "rows", .rows = true},
      {.name = "rows and mask", .rows = true, .cells = Counted::masked},
      {.name = "sum", .options = {.reduction = LossReduction::sum, .level_weights = {1, 2, 0.5, 0}}, .rows = true},
      {.name = "batchmean", .options = {.reduction = LossReduction::batchmean}, .cells = Counted::present},
      {.name = "per sample", .options = {.per = LossPer::sample}, .rows = true, .cells = Counted::weighted},
      {.name = "per level", .options = {.per = LossPer::level, .level_weights = {1, 2, 0.5, 3}}, .rows = true},
  };
  if (channels) {
    result.push_back({.name = "channels",
                      .options = {.channel_weights = {1, 0, 4}, .level_weights = {1, 2, 0.5, 0}},
                      .rows = true,
                      .cells = Counted::present});
    result.push_back({.name = "per channel", .options = {.per = LossPer::channel}, .cells = Counted::present});
    result.push_back(
        {.name = "sum per channel",
         .options = {.reduction = LossReduction::sum, .per = LossPer::channel, .channel_weights = {1, 2, 3}},
         .rows = true});
  }
  return result;
}

Tensor along(std::vector<double> const& values, std::int64_t axis, std::int64_t num_axes) {
  std::vector<std::int64_t> sizes(std::size_t(num_axes), 1);
  sizes[std::size_t(num_axes + axis)] = std::int64_t(values.size());
  return torch::tensor(values, torch::kDouble).view(sizes);
}

/// The loss of the whole field, written from the formula.
Tensor serial_loss(Kind const& kind, Weighting const& w, Tensor const& prediction, Tensor const& target,
                   Tensor const& mask) {
  auto weight = kind.counts ? kind.counts(target) : torch::ones({}, torch::kDouble);
  auto const elements = kind.elements(prediction, target);
  auto const n = elements.dim();
  auto factor = torch::ones({}, torch::kDouble).expand(elements.sizes());
  if (w.rows) factor = factor * along(row_weights(), -2, n);
  if (!w.options.channel_weights.empty()) factor = factor * along(w.options.channel_weights, -4, n);
  if (!w.options.level_weights.empty()) factor = factor * along(w.options.level_weights, -3, n);
  if (mask.defined()) factor = factor * mask;
  std::vector<std::int64_t> axes;
  auto const kept = w.options.per == LossPer::sample    ? 0
                    : w.options.per == LossPer::channel ? 1
                    : w.options.per == LossPer::level   ? n - 3
                                                        : -1;
  for (std::int64_t a = 0; a < n; ++a)
    if (a != kept) axes.push_back(a);
  auto const sum = (elements * factor).sum(axes);
  if (w.options.reduction == LossReduction::sum) return sum;
  if (w.options.reduction == LossReduction::batchmean) return sum / double(elements.size(0));
  return sum / (weight * factor).sum(axes);
}

/// Rows' weights in either way.
void add_rows(LossOptions& options, Part const& part, bool global) {
  if (global)
    options.global_row_weights = row_weights();
  else
    options.row_weights = row_weights_of(part);
}

void compare_with_serial(Kind const& kind, Weighting const& w, nn::Domain const& domain, std::mt19937& random) {
  auto const part = test::random_part(domain, random, {num_rows, num_columns});
  auto const prediction = kind.prediction(random);
  auto const target = kind.target(random);
  auto const sizes = kind.elements(prediction, target).sizes().vec();
  auto mask = torch::Tensor();
  if (w.cells == Counted::weighted)
    mask = random_tensor(random, {4, num_rows, num_columns}).square();
  else if (w.cells != Counted::all)
    mask = random_tensor(random, sizes) > -0.5;
  auto options = w.options;
  if (w.rows) add_rows(options, part, random() % 2);
  auto const loss = kind.make(domain, options);
  auto own_target = part.of(target).clone();
  auto own_mask = mask.defined() ? part.of(mask) : torch::Tensor();
  auto missing = Tensor();  // Of the prediction, too.
  if (w.cells == Counted::present && torch::isFloatingType(target.scalar_type()) && target.sizes() == mask.sizes()) {
    own_target.masked_fill_(own_mask.logical_not(), nan);
    if (prediction.sizes() == mask.sizes()) missing = own_mask.logical_not();
    own_mask = Tensor();
  }

  auto const run =
      SerialComparison{.name = kind.name + ", " + w.name + ", " + to_string(domain.grid()),
                       .layer = [&](Tensor const& x) { return loss(x, own_target, own_mask); },
                       .oracle = [&](Tensor const& x) { return serial_loss(kind, w, x, target, mask); },
                       .input = part,
                       .output = [](Tensor const&) { return Shard().spread_as(Spread::replicated); },
                       .tolerance = {.output = 1e-13, .gradient = 1e-13},
                       .memory = [&](Tensor const& x) { return missing.defined() ? x.masked_fill(missing, nan) : x; }}
          .expect_equal(prediction, random);

  EXPECT_TRUE(test::same_on_all_ranks(domain.comm(), run.found)) << kind.name << ", " << w.name;
}

TEST(Losses, equal_the_serial_formulas_for_any_cuts_and_weights) {
  std::mt19937 random(1);
  auto const comm = Comm::world();
  auto const grids = test::grids_of(comm.num_ranks());
  std::size_t count = 0;
  for (auto const& kind : kinds())
    for (auto const& weighting : weightings(kind.has_channels)) {
      auto const& grid = grids[count++ % grids.size()];
      compare_with_serial(kind, weighting, nn::Domain(comm, grid), random);
    }
}

TEST(Losses, mean_equals_libtorchs_module) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, test::random_cuts(random, num_rows, comm.num_ranks()), Cuts{num_columns});
  auto const p = normal(random);
  auto const t = normal(random);
  auto const c = classes(random);
  auto const weights = torch::tensor({0.5, 2.0, 0.25}, torch::kDouble);
  torch::nn::HuberLoss huber(torch::nn::HuberLossOptions().delta(0.7));
  torch::nn::SmoothL1Loss smooth(torch::nn::SmoothL1LossOptions().beta(0.7));
  torch::nn::CrossEntropyLoss entropy(
      torch::nn::CrossEntropyLossOptions().weight(weights).ignore_index(1).label_smoothing(0.2));
  torch::nn::KLDivLoss divergence(torch::nn::KLDivLossOptions().reduction(torch::kBatchMean).log_target(true));

  auto const of = [&](auto loss, Tensor const& target) {
    return loss(part.of(p), part.of(target)).template item<double>();
  };
  nn::ClassOptions const classes_as{.class_weights = {0.5, 2, 0.25}, .ignore_index = 1, .label_smoothing = 0.2};
  EXPECT_NEAR(of(nn::HuberLoss(0.7, domain), t), huber(p, t).item<double>(), 1e-13);
  EXPECT_NEAR(of(nn::SmoothL1Loss(0.7, domain), t), smooth(p, t).item<double>(), 1e-13);
  EXPECT_NEAR(of(nn::CrossEntropyLoss(domain, LossOptions(), classes_as), c), entropy(p, c).item<double>(), 1e-13);
  EXPECT_NEAR(
      of(nn::KLDivLoss(domain, LossOptions{.reduction = LossReduction::batchmean}, nn::TargetIs::log_probability), t),
      divergence(p, t).item<double>(), 1e-12);
}

TEST(Losses, derivatives_of_first_and_second_order_are_the_numeric_ones) {
  std::mt19937 random(3);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, test::grids_of(comm.num_ranks()).back());
  for (auto const& kind : kinds()) {
    if (!kind.is_smooth) continue;
    SCOPED_TRACE(kind.name);
    Part const part(domain, test::random_cuts(random, num_rows, domain.grid().extent(0)),
                    test::random_cuts(random, num_columns, domain.grid().extent(1)));
    auto const target = part.of(kind.target(random));
    auto loss = kind.make(domain, {.per = LossPer::sample, .global_row_weights = row_weights()});

    auto const errors = test::gradient_errors({.function = [&](Tensor const& x) { return loss(x, target, {}); },
                                               .input = test::Spread::sharded,
                                               .output = test::Spread::replicated,
                                               .step = 1e-5},
                                              part.of(kind.prediction(random)).clone(), comm);

    EXPECT_LE(errors.first, 1e-7);
    EXPECT_LE(errors.second, 1e-5);
  }
}

TEST(Losses, sums_of_single_and_half_precision_keep_their_digits) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const rows = balanced_cuts(512, comm.num_ranks()).size(comm.rank());
  for (auto const type : {torch::kFloat, torch::kBFloat16}) {
    auto const p = torch::full({1, 1, rows, 4096}, 0.125, type);
    auto const t = torch::zeros({1, 1, rows, 4096}, type);
    EXPECT_EQ(nn::MSELoss{domain}(p, t).item<double>(), 1.0 / 64);
    EXPECT_EQ((nn::L1Loss(domain, LossOptions{.reduction = LossReduction::sum})(p, t).item<double>()),
              512 * 4096 / 8.0);
  }
}

TEST(Losses, have_the_same_bits_for_any_number_of_threads) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  std::mt19937 random(6);
  auto const p = random_tensor(random, {1, 3, 40, 1441}, torch::kFloat).requires_grad_();
  auto const t = random_tensor(random, {1, 3, 40, 1441}, torch::kFloat);
  auto const run = [&](int num_threads) {
    int const before = at::get_num_threads();
    at::set_num_threads(num_threads);
    auto const loss = nn::HuberLoss(0.5, domain)(p, t);
    auto const grad = torch::autograd::grad({loss}, {p})[0];
    at::set_num_threads(before);
    return std::pair(loss.item<double>(), grad);
  };
  auto const [loss, grad] = run(1);
  auto const [other_loss, other_grad] = run(3);

  EXPECT_EQ(loss, other_loss);
  EXPECT_TRUE(torch::equal(grad, other_grad));
  EXPECT_LE(difference(grad * comm.num_ranks(),
                       torch::autograd::grad({torch::huber_loss(p, t, at::Reduction::Mean, 0.5)}, {p})[0]),
            1e-12);
}

TEST(Losses, of_differences_are_nan_where_the_prediction_is) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  std::mt19937 random(6);
  auto p = random_tensor(random, {2, 3, 2, 5});
  p[0][1][0][2] = nan;
  p.requires_grad_();
  auto const t = random_tensor(random, {2, 3, 2, 5});
  auto missing = t.clone();
  missing[1][2][1][3] = nan;
  for (auto const& target : {t, missing}) {
    auto const per_channel = nn::MSELoss(domain, LossOptions{.per = LossPer::channel})(p, target);
    auto const gradient = torch::autograd::grad({per_channel.sum()}, {p})[0];

    auto const is_nan = torch::tensor({false, true, false});
    EXPECT_TRUE(torch::equal(per_channel.isnan(), is_nan)) << per_channel;
    EXPECT_TRUE(torch::equal(gradient.isnan(), p.isnan()));
  }
}

TEST(CRPSLoss, keeps_its_digits_where_the_mean_is_large) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  std::mt19937 random(4);
  auto const x = random_tensor(random, {1, 20, 1, 2, 3}, torch::kFloat) * 0.01F + 300;
  auto const t = random_tensor(random, {1, 1, 2, 3}, torch::kFloat) * 0.01F + 300;
  auto const expected = pair_crps(x.to(torch::kDouble).transpose(1, 2), t.to(torch::kDouble), 1).mean().item<double>();

  EXPECT_NEAR(nn::CRPSLoss{domain}(x, t).item<double>() / expected, 1, 1e-6);
}

TEST(Losses, refuse_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const rows = std::max<Index>(1, balanced_cuts(num_rows, comm.num_ranks()).size(comm.rank()));
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const x = torch::ones({2, 3, rows, 4});
  auto const bad = odd_one ? torch::ones({2, 3, rows, 3}) : x;
  auto const of_classes = [&](std::int64_t value) {
    return torch::full({2, rows, 4}, odd_one ? value : 1, torch::kLong);
  };
  std::vector<std::tuple<std::string, std::string, std::function<void()>>> const cases{
      {"ShapeMismatch", "target", [&] { nn::MSELoss{domain}(x, bad); }},
      {"ShapeMismatch", "mask", [&] { nn::MSELoss{domain}(x, x, bad); }},
      {"ShapeMismatch", "no levels", [&] { nn::MSELoss(domain, LossOptions{.level_weights = {1}})(x, x); }},
      {"ShapeMismatch", "no samples", [&] { nn::MSELoss(domain, LossOptions{.per = LossPer::sample})(x[0], x[0]); }},
      {"ShapeMismatch", "channels",
       [&] {
         nn::MSELoss(domain, LossOptions{.channel_weights = {1, 2}})(x, x);
       }},
      {"ShapeMismatch", "own rows",
       [&] {
         nn::MSELoss(domain, LossOptions{.row_weights = std::vector<double>(std::size_t(rows + odd_one), 1)})(x, x);
       }},
      {"ShapeMismatch", "all rows",
       [&] {
         nn::MSELoss(domain, LossOptions{.global_row_weights = {1, 2}})(x, x);
       }},
      {"ShapeMismatch", "positive classes",
       [&] {
         nn::BCEWithLogitsLoss(domain, LossOptions(), std::vector<double>{1, 2})(x, x);
       }},
      {"BadOption", "negative", [&] { nn::MSELoss(domain, LossOptions{.row_weights = {odd_one ? -1.0 : 1.0}}); }},
      {"BadOption", "both", [&] { nn::MSELoss(domain, LossOptions{.row_weights = {1}, .global_row_weights = {1}}); }},
      {"TooFewValues", "all missing", [&] { nn::MSELoss{domain}(x, x * nan); }},
      {"TooFewValues", "one channel missing",
       [&] {
         auto t = x.clone();
         t.select(1, 1).fill_(nan);
         nn::MSELoss(domain, LossOptions{.per = LossPer::channel})(x, t);
       }},
      {"OutOfRange", "class 3 of 3", [&] { nn::CrossEntropyLoss{domain}(x, of_classes(3)); }},
      {"TooFewValues", "all ignored",
       [&] { nn::NLLLoss(domain, LossOptions(), nn::ClassOptions{.ignore_index = 1})(x, of_classes(1)); }},
      {"ShapeMismatch", "NLL of probabilities", [&] { nn::NLLLoss{domain}(x, x); }},
      {"BadOption", "channels of classes", [&] { nn::NLLLoss(domain, LossOptions{.per = LossPer::channel}); }},
      {"BadOption", "delta", [&] { nn::HuberLoss(0, domain); }},
      {"BadOption", "fairness", [&] { nn::CRPSLoss(domain, LossOptions(), nn::CRPSOptions{.fairness = 2}); }},
      {"ShapeMismatch", "one", [&] { nn::CRPSLoss{domain}(x.unsqueeze(1), x); }},
      {"ShapeMismatch", "members over columns",
       [&] { nn::CRPSLoss(domain, LossOptions(), nn::CRPSOptions{.ensemble_axis = 3})(x.unsqueeze(1), x); }},
      {"UnsupportedTensor", "integers", [&] { nn::MSELoss{domain}(x.to(torch::kLong), x); }},
  };
  for (auto const& [rule, what, action] : cases) EXPECT_EQ(rule_of(action), rule) << what;
  EXPECT_EQ(rule_of([&] { nn::MSELoss(domain, LossOptions{.row_weights = {-1.0}}); }),
            (test::ErrorWith{"BadOption", "is negative or not finite"}));
  EXPECT_EQ(rule_of([&] { nn::NLLLoss(domain, LossOptions{.per = LossPer::channel}); }),
            (test::ErrorWith{"BadOption", "has classes, not channels"}));
  EXPECT_EQ(rule_of([&] { nn::CRPSLoss{domain}(x.unsqueeze(1), x); }),
            (test::ErrorWith{"ShapeMismatch", "at least 2 members"}));
  EXPECT_EQ(rule_of([&] { nn::HuberLoss(0, domain); }), (test::ErrorWith{"BadOption", "HuberLoss cannot have 0"}));
  if (comm.num_ranks() > 1) {
    auto const differ = [&] {
      nn::MSELoss(domain, LossOptions{.reduction = odd_one ? LossReduction::sum : LossReduction::mean})(x, x);
    };
    EXPECT_EQ(rule_of(differ), "StructureDisagreement");
    auto const some = [&] {
      nn::MSELoss(domain, LossOptions{.row_weights = odd_one ? std::vector<double>()
                                                             : std::vector<double>(std::size_t(rows), 1)})(x, x);
    };
    EXPECT_EQ(rule_of(some), "ShapeMismatch");
  }
  EXPECT_EQ(nn::MSELoss{domain}(x, 3 * x).item<double>(), 4);
}

// Weights are kept from the first call on, which may be one of an evaluation.
TEST(Losses, train_after_a_first_call_in_inference_mode) {
  nn::Domain const domain(test::world(), ProcessGrid{test::world().num_ranks(), 1});
  nn::CrossEntropyLoss loss(domain, nn::LossOptions{}, nn::ClassOptions{.class_weights = {1, 2, 3}});
  auto const logits = torch::arange(48, torch::kFloat).view({1, 3, 4, 4}).sin();
  auto const classes = torch::arange(16).remainder(3).view({1, 4, 4});
  double evaluated = 0;
  {
    c10::InferenceMode const evaluation;
    evaluated = loss(logits, classes).item<double>();
  }
  auto const x = logits.clone().requires_grad_();

  auto const value = loss(x, classes);
  value.backward();

  EXPECT_EQ(value.item<double>(), evaluated);
  EXPECT_GT(x.grad().abs().sum().item<double>(), 0);
}

}  // namespace test_losses
}  // namespace graticule
