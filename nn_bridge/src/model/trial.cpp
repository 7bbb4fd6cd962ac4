// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/trial_log.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

namespace graticule::nn {

namespace {

using Forward = std::function<torch::Tensor(torch::Tensor const&)>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Compares shards with whole tensors, over all ranks.
class Comparer {
 public:
  explicit Comparer(Domain const& domain) : domain_(domain), agreement_(domain, "try_sharded") {}

  /// Cuts of a shard's rows and columns, on all ranks; nothing where the shards do not tile a field.
  [[nodiscard]] std::optional<Layout> layout_of(torch::Tensor const& shard) const {
    std::optional<Layout> layout;
    try {
      layout = agreement_.gather_layout(shard);
    } catch (Error const&) {
      // The same on all ranks.
    }
    return layout;
  }

  /// This rank's part of `whole`. @pre its extents are the layout's
  [[nodiscard]] torch::Tensor part(torch::Tensor const& whole, Layout const& layout) const {
    auto const box = layout.owned(domain_.comm().rank());
    return whole.narrow(-2, box.lo(0), box.extent(0)).narrow(-1, box.lo(1), box.extent(1));
  }

  /// The largest difference, relative to the largest value of `whole`. Collective.
  [[nodiscard]] double difference(torch::Tensor const& shard, torch::Tensor const& whole, bool is_cut) const {
    double worst = 0;
    auto expected = whole;
    if (is_cut) {
      auto const layout = layout_of(shard);
      if (layout && layout->extent(0) == whole.size(-2) && layout->extent(1) == whole.size(-1))
        expected = part(whole, *layout);
    }
    if (shard.sizes() != expected.sizes())
      worst = infinity;
    else if (shard.numel() > 0)
      worst = at::abs(shard.detach() - expected.detach()).max().item<double>() / scale(whole);
    if (std::isnan(worst)) worst = infinity;
    domain_.comm().max(std::span(&worst, 1));
    return worst;
  }

  /// The same for gradients, which are undefined where the output does not depend on the input.
  [[nodiscard]] double gradient_difference(torch::Tensor const& shard, torch::Tensor const& whole) const {
    Index num_missing = shard.defined() ? 0 : 1;
    domain_.comm().sum(std::span(&num_missing, 1));
    if (!whole.defined()) return num_missing == domain_.comm().num_ranks() ? 0 : infinity;
    return num_missing > 0 ? infinity : difference(shard, whole, true);
  }

 private:
  static double scale(torch::Tensor const& whole) {
    double const largest = whole.numel() > 0 ? at::abs(whole.detach()).max().item<double>() : 0;
    return largest > 0 ? largest : 1;
  }

  Domain domain_;
  detail::Agreement agreement_;
};

struct Run {
  torch::Tensor output;
  torch::Tensor gradient;
  std::vector<detail::LoggedCall> calls;
};

/// @param cotangent_of gives the cotangent for an output
template <class Cotangent>
Run run(Forward const& forward, torch::Tensor const& x, Cotangent const& cotangent_of, Domain const* domain) {
  Run result;
  auto const leaf = x.detach().clone().requires_grad_();
  {
    detail::TrialLog log;
    result.output = forward(leaf);
    result.calls = std::move(log.calls);
  }
  if (!result.output.requires_grad()) return result;
  auto loss = (result.output * cotangent_of(result.output)).sum();
  if (domain) loss = reduce_loss(loss, *domain);
  result.gradient = torch::autograd::grad({loss}, {leaf}, {}, false, false, true)[0];
  if (!result.gradient.defined()) result.gradient = torch::zeros_like(leaf);
  return result;
}

std::string scientific(double value) {
  std::ostringstream text;
  text << std::scientific << std::setprecision(1) << value;
  return text.str();
}

}  // namespace

Trial try_sharded(Forward const& reference, Forward const& sharded, torch::Tensor const& x, Domain const& domain,
                  std::optional<FieldCuts> const& cuts) {
  auto const& comm = domain.comm();
  run_agreed(comm, [&] {
    if (x.dim() < 2)
      throw Error("ShapeMismatch", "a trial needs an input of at least two axes, not " + std::to_string(x.dim()));
    if (cuts && (cuts->rows.extent() != x.size(-2) || cuts->columns.extent() != x.size(-1)))
      throw Error("BadCuts", "cuts of " + std::to_string(cuts->rows.extent()) + " x " +
                                 std::to_string(cuts->columns.extent()) + " cells for an input of " +
                                 std::to_string(x.size(-2)) + " x " + std::to_string(x.size(-1)));
  });
  Comparer const comparer(domain);
  Layout const layout(domain.grid(), {cuts ? cuts->rows : balanced_cuts(x.size(-2), domain.grid().extent(0)),
                                      cuts ? cuts->columns : balanced_cuts(x.size(-1), domain.grid().extent(1))});
  torch::Tensor cotangent;
  Run whole;
  run_agreed(comm, [&] {
    whole = run(
        reference, x,
        [&](torch::Tensor const& y) {
          auto generator = torch::make_generator<torch::CPUGeneratorImpl>(1);
          cotangent = torch::randn(y.sizes(), generator, torch::kDouble).to(y.options().requires_grad(false));
          return cotangent;
        },
        nullptr);
  });
  bool const is_cut = whole.output.dim() >= 2;
  Run part;
  run_agreed(comm, [&] {
    part = run(
        sharded, comparer.part(x, layout),
        [&](torch::Tensor const& y) {
          if (!is_cut) return cotangent / comm.num_ranks();
          auto const outputs = comparer.layout_of(y);
          bool const fits =
              outputs && outputs->extent(0) == cotangent.size(-2) && outputs->extent(1) == cotangent.size(-1);
          return fits ? comparer.part(cotangent, *outputs) : torch::zeros_like(y);
        },
        &domain);
  });
  Trial trial;
  trial.output_difference = comparer.difference(part.output, whole.output, is_cut);
  trial.gradient_difference = comparer.gradient_difference(part.gradient, whole.gradient);
  std::map<std::string, std::vector<torch::Tensor>> expected;
  for (auto const& call : whole.calls) expected[call.path].push_back(call.output);
  std::map<std::string, std::size_t> num_seen;
  for (auto const& call : part.calls) {
    Trial::Call entry{call.path, call.output.sizes().vec(), {}, 0, 0, {}};
    if (auto const outputs = comparer.layout_of(call.output)) {
      entry.sizes[entry.sizes.size() - 2] = outputs->extent(0);
      entry.sizes.back() = outputs->extent(1);
      auto const& rows = *outputs->cuts(0);
      for (int p = 0; p < rows.num_parts(); ++p) entry.rows.push_back(rows.size(p));
    }
    std::array<Index, 2> sent{call.traffic.num_messages, call.traffic.bytes};
    comm.max(sent);
    entry.num_messages = sent[0];
    entry.bytes = sent[1];
    auto const& references = expected[call.path];
    auto const n = num_seen[call.path]++;
    if (n < references.size()) entry.difference = comparer.difference(call.output, references[n], true);
    trial.calls.push_back(std::move(entry));
  }
  return trial;
}

std::string Trial::text(double tolerance) const {
  std::ostringstream text;
  bool marked = false;
  for (auto const& call : calls) {
    text << call.path << ": ";
    for (std::size_t i = 0; i < call.sizes.size(); ++i) text << (i ? " x " : "") << call.sizes[i];
    text << ", rows ";
    for (std::size_t p = 0; p < call.rows.size(); ++p) text << (p ? "," : "") << call.rows[p];
    text << ", " << call.num_messages << " messages, " << call.bytes << " bytes";
    if (call.difference) text << ", difference " << scientific(*call.difference);
    if (call.difference && *call.difference > tolerance && !marked) {
      text << "  <- the first that differs";
      marked = true;
    }
    text << '\n';
  }
  text << "output: difference " << scientific(output_difference)
       << (output_difference > tolerance ? "  <- differs" : "") << "\ngradient of the input: difference "
       << scientific(gradient_difference) << (gradient_difference > tolerance ? "  <- differs" : "") << '\n';
  return text.str();
}

}  // namespace graticule::nn
