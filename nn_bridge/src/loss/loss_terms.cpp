// SPDX-License-Identifier: BSD-3-Clause
#include "loss_terms.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/partition/error.hpp>

#include <array>
#include <limits>
#include <sstream>

namespace graticule::nn::detail {

namespace {

/// Axes of terms by meaning, from the front; -1 where there is none.
struct TermAxes {
  std::int64_t sample = -1;
  std::int64_t channel = -1;
  std::int64_t level = -1;

  TermAxes(std::int64_t num_axes, bool channels) {
    std::int64_t const least = channels ? 4 : 3;
    if (num_axes >= least) sample = 0;
    if (num_axes >= least && channels) channel = 1;
    if (num_axes > least) level = num_axes - 3;
  }
  [[nodiscard]] std::int64_t kept(LossPer per) const {
    switch (per) {
      case LossPer::sample: return sample;
      case LossPer::channel: return channel;
      case LossPer::level: return level;
      case LossPer::domain: break;
    }
    return -1;
  }
};

/// Values along one axis of `num_axes`.
torch::Tensor along(torch::Tensor const& values, std::int64_t axis, std::int64_t num_axes) {
  std::vector<std::int64_t> sizes(std::size_t(num_axes), 1);
  sizes[std::size_t(axis)] = values.numel();
  return values.view(sizes);
}

/// Sum over all axes but `kept`; over all for -1.
torch::Tensor sum_but(torch::Tensor const& x, std::int64_t kept) {
  if (kept < 0) return x.sum();
  std::vector<std::int64_t> axes;
  for (std::int64_t a = 0; a < x.dim(); ++a)
    if (a != kept) axes.push_back(a);
  return x.sum(axes);
}

void check_length(std::string const& loss, std::string const& what, std::size_t found, std::int64_t expected) {
  if (std::int64_t(found) != expected)
    throw Error("ShapeMismatch", loss + " needs " + std::to_string(expected) + " weights, one for each of the " + what +
                                     ", got " + std::to_string(found));
}

}  // namespace

std::string sizes_of(torch::Tensor const& prediction, torch::Tensor const& target) {
  return c10::str("prediction ", prediction.sizes(), ", target ", target.sizes());
}

void check_weights(LossOptions const& options) {
  for (auto const* weights :
       {&options.row_weights, &options.global_row_weights, &options.channel_weights, &options.level_weights})
    for (double const weight : *weights)
      if (!(weight >= 0 && weight < std::numeric_limits<double>::infinity()))
        throw Error("BadOption", "weight " + std::to_string(weight) + " is negative or not finite");
  if (!options.row_weights.empty() && !options.global_row_weights.empty())
    throw Error("BadOption", "row weights are given both for this rank and for the globe");
}

void check_axes(std::string const& loss, LossOptions const& options, at::IntArrayRef sizes, bool channels) {
  TermAxes const axes(std::int64_t(sizes.size()), channels);
  auto const require = [&](std::int64_t axis, std::string const& what) {
    if (axis < 0) throw Error("ShapeMismatch", c10::str(loss, ": no axis of ", what, " in cells of ", sizes));
  };
  if (options.per == LossPer::sample || options.reduction == LossReduction::batchmean) require(axes.sample, "samples");
  if (options.per == LossPer::channel || !options.channel_weights.empty()) require(axes.channel, "channels");
  if (options.per == LossPer::level || !options.level_weights.empty()) require(axes.level, "levels");
  if (!options.channel_weights.empty())
    check_length(loss, "channels", options.channel_weights.size(), sizes[std::size_t(axes.channel)]);
  if (!options.level_weights.empty())
    check_length(loss, "levels", options.level_weights.size(), sizes[std::size_t(axes.level)]);
  // A rank without rows has no weights, as a rank of a domain without any.
  if (!options.row_weights.empty())
    check_length(loss, "rows of this rank", options.row_weights.size(), sizes[sizes.size() - 2]);
}

std::string described(LossOptions const& options) {
  std::ostringstream text;
  text.precision(17);
  text << "reduction " << int(options.reduction) << ", per " << int(options.per);
  auto const list = [&](char const* name, std::vector<double> const& values) {
    text << ", " << name;
    for (double const value : values) text << ' ' << value;
  };
  list("global row weights", options.global_row_weights);
  list("channel weights", options.channel_weights);
  list("level weights", options.level_weights);
  return text.str();
}

torch::Tensor row_weights(std::string const& loss, LossOptions const& options, Layout const& layout,
                          Domain const& domain) {
  auto const owned = layout.owned(domain.comm().rank());
  auto const num_rows = owned.extent(0);
  if (!options.global_row_weights.empty()) {
    check_length(loss, "rows on all ranks", options.global_row_weights.size(), layout.extent(0));
    return torch::tensor(options.global_row_weights, torch::kDouble).narrow(0, owned.lo(0), num_rows).unsqueeze(-1);
  }
  // Ranks with rows must all have weights or all have none.
  std::array<Index, 2> found{num_rows > 0 && !options.row_weights.empty() ? 1 : 0,
                             num_rows > 0 && options.row_weights.empty() ? 1 : 0};
  domain.comm().max(found);
  if (found[0] && found[1]) throw Error("ShapeMismatch", loss + ": some ranks have row weights and others have none");
  if (!found[0]) return {};
  return torch::tensor(options.row_weights, torch::kDouble).unsqueeze(-1);
}

AxisWeights axis_weights(LossOptions const& options, torch::Tensor const& rows) {
  AxisWeights result;
  if (rows.defined()) result.rows = Constant(rows);
  if (!options.channel_weights.empty())
    result.channels = Constant(torch::tensor(options.channel_weights, torch::kDouble));
  if (!options.level_weights.empty()) result.levels = Constant(torch::tensor(options.level_weights, torch::kDouble));
  return result;
}

LossSums summed(LossTerms const& terms) {
  torch::Tensor counts;
  if (terms.counts.defined()) counts = terms.counts.expand_as(terms.elements).sum({-1}, true, torch::kDouble);
  return {row_sums(terms.elements), counts, terms.elements.size(-1)};
}

torch::Tensor reduce_sums(std::string const& loss, LossSums const& given, AxisWeights const& weights,
                          LossOptions const& options, bool channels, Domain const& domain, std::int64_t first_row) {
  auto sums = given.sums;
  auto counts = given.counts.defined()
                    ? given.counts
                    : torch::full(sums.sizes(), double(given.num_columns), sums.options().requires_grad(false));
  auto const num_axes = sums.dim();
  auto const device = sums.device();
  TermAxes const axes(num_axes, channels);
  auto const weigh = [&](torch::Tensor const& by) {
    sums = sums * by;
    counts = counts * by;
  };
  if (weights.rows) weigh(weights.rows->on(device).narrow(0, first_row, sums.size(-2)));
  if (weights.channels) weigh(along(weights.channels->on(device), axes.channel, num_axes));
  if (weights.levels) weigh(along(weights.levels->on(device), axes.level, num_axes));
  auto const kept = axes.kept(options.per);
  auto const totals = reduce_loss(torch::stack({sum_but(sums, kept), sum_but(counts, kept)}), domain);
  auto const weight = totals[1].detach();
  auto const least = weight.numel() ? value_on_host(weight.min()) : 0;
  if (!(least > 0))
    throw Error("TooFewValues", loss + ": no rank has a cell with a weight and a target" +
                                    (weight.numel() > 1 ? ", for one value of " + std::to_string(weight.numel()) : ""));
  switch (options.reduction) {
    case LossReduction::sum: return totals[0];
    case LossReduction::batchmean: return totals[0] / double(options.per == LossPer::sample ? 1 : sums.size(0));
    case LossReduction::mean: break;
  }
  return totals[0] / weight;
}

}  // namespace graticule::nn::detail
