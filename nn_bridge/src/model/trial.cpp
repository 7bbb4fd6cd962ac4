// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/shard_layers.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "eager/interceptor.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace graticule::nn {

namespace {

using Forward = std::function<torch::Tensor(torch::Tensor const&)>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A tensor that an output depends on, other than the input.
struct Leaf {
  torch::Tensor tensor;
  std::string name;        ///< empty for parameters that no converted layer has
  torch::Tensor gradient;  ///< undefined where there is none
};

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

  [[nodiscard]] bool same_on_all(std::size_t number) const {
    std::array<Index, 2> ends{Index(number), -Index(number)};
    domain_.comm().max(ends);
    return ends[0] == -ends[1];
  }

  /// Adds the differences of gradients to the trial's. Collective.
  void compare_parameters(Trial& trial, std::vector<Leaf> const& whole, std::vector<Leaf> const& part,
                          std::vector<std::ptrdiff_t> const& matches) const {
    if (!same_on_all(whole.size())) return;
    // A gradient that is zero, as that of a bias before a norm, is compared with those of the others.
    double least_scale = 0;
    for (auto const& leaf : whole)
      if (leaf.gradient.defined() && leaf.gradient.numel() > 0)
        least_scale = std::max(least_scale, at::abs(leaf.gradient).max().item<double>() / 100);
    auto const old = trial.parameters.size();
    for (std::size_t i = 0; i < whole.size(); ++i) {
      auto const* const twin = matches[i] < 0 ? nullptr : &part[std::size_t(matches[i])];
      auto const& tensor = whole[i].tensor;
      auto name = twin && !twin->name.empty() ? twin->name : whole[i].name;
      if (name.empty()) name = "parameter " + std::to_string(i) + " of the model's own code";
      if (i >= old) trial.parameters.push_back({name, tensor.sizes().vec(), 0});
      auto& entry = trial.parameters[i];
      entry.difference = std::max(entry.difference, summed_difference(twin, whole[i], least_scale));
    }
  }

 private:
  /// Of the sum over ranks. Collective.
  [[nodiscard]] double summed_difference(Leaf const* twin, Leaf const& leaf, double least_scale) const {
    auto const& whole = leaf.gradient;
    auto const part = twin ? twin->gradient : torch::Tensor();
    std::array<Index, 2> counts{twin ? 0 : 1, part.defined() ? 1 : 0};
    domain_.comm().sum(counts);
    // A rank without cells may do without the parameter.
    if (counts[0] < domain_.comm().num_ranks() && !whole.defined()) return counts[1] == 0 ? 0 : infinity;
    if (!whole.defined()) return 0;
    if (counts[1] == 0) return at::abs(whole).max().item<double>() == 0 ? 0 : infinity;
    auto const wide = [&](torch::Tensor const& t) {
      auto const values = (t.defined() ? t.detach() : torch::zeros_like(leaf.tensor).detach()).to(torch::kCPU);
      return torch::view_as_real(values.to(torch::kComplexDouble)).contiguous();
    };
    auto sum = wide(part);
    domain_.comm().sum(std::span(sum.data_ptr<double>(), std::size_t(sum.numel())));
    auto const expected = wide(whole);
    if (sum.numel() == 0) return 0;
    double worst = at::abs(sum - expected).max().item<double>() / std::max(scale(expected), least_scale);
    if (std::isnan(worst)) worst = infinity;
    domain_.comm().max(std::span(&worst, 1));
    return worst;
  }

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
  std::vector<Leaf> leaves;  ///< in order of their first use
  std::vector<detail::LoggedCall> calls;
};

/// The leaves of a graph in order of their first use in the forward.
std::vector<torch::Tensor> leaves_of(torch::Tensor const& output) {
  using torch::autograd::AccumulateGrad;
  using torch::autograd::Node;
  struct Use {
    std::uint64_t node;
    std::size_t input;
    torch::Tensor tensor;
  };
  std::unordered_map<Node const*, Use> uses;
  std::unordered_set<Node const*> met;
  std::vector<Node*> ahead;
  if (output.grad_fn()) ahead.push_back(output.grad_fn().get());
  while (!ahead.empty()) {
    auto* const node = ahead.back();
    ahead.pop_back();
    if (!met.insert(node).second) continue;
    for (std::size_t i = 0; i < node->next_edges().size(); ++i) {
      auto* const next = node->next_edge(i).function.get();
      if (!next) continue;
      ahead.push_back(next);
      auto* const leaf = dynamic_cast<AccumulateGrad*>(next);
      if (!leaf) continue;
      Use const use{node->sequence_nr(), i, leaf->variable};
      auto const [found, added] = uses.emplace(next, use);
      auto& first = found->second;
      if (!added && std::pair(use.node, use.input) < std::pair(first.node, first.input)) first = use;
    }
  }
  std::vector<Use> sorted;
  for (auto const& [node, use] : uses) sorted.push_back(use);
  std::sort(sorted.begin(), sorted.end(),
            [](Use const& a, Use const& b) { return std::pair(a.node, a.input) < std::pair(b.node, b.input); });
  std::vector<torch::Tensor> leaves;
  for (auto const& use : sorted) leaves.push_back(use.tensor);
  return leaves;
}

/// Of sizes, dtype and values.
std::uint64_t fingerprint_of(torch::Tensor const& parameter) {
  Hash hash;
  for (auto const size : parameter.sizes()) hash.add(Index(size));
  auto const values = parameter.detach().to(torch::kCPU).contiguous();
  hash.add(int(values.scalar_type()));
  hash.add(std::string_view(static_cast<char const*>(values.const_data_ptr()), values.nbytes()));
  return hash.value();
}

/// For each of `wanted` the one of `given` with the same sizes and values, in the same order; -1 where there is none.
std::vector<std::ptrdiff_t> matches_of(std::vector<Leaf> const& wanted, std::vector<Leaf> const& given) {
  std::map<std::uint64_t, std::vector<std::ptrdiff_t>> by_values;
  for (std::size_t i = given.size(); i-- > 0;) by_values[fingerprint_of(given[i].tensor)].push_back(std::ptrdiff_t(i));
  std::vector<std::ptrdiff_t> result;
  for (auto const& leaf : wanted) {
    auto& candidates = by_values[fingerprint_of(leaf.tensor)];
    result.push_back(candidates.empty() ? -1 : candidates.back());
    if (!candidates.empty()) candidates.pop_back();
  }
  return result;
}

/// Parameters moved by random numbers while it lives, equal ones of both models alike.
class MovedParameters {
 public:
  MovedParameters() = default;
  MovedParameters(MovedParameters const&) = delete;
  MovedParameters& operator=(MovedParameters const&) = delete;
  ~MovedParameters() {
    torch::NoGradGuard const no_grad;
    for (auto const& [tensor, values] : before_) tensor.detach().copy_(values);
  }
  void move(torch::Tensor const& tensor, std::uint64_t seed) {
    torch::NoGradGuard const no_grad;
    for (auto const& [other, values] : before_)
      if (other.is_same(tensor)) return;
    before_.emplace_back(tensor, tensor.detach().clone());
    if (!torch::isFloatingType(tensor.scalar_type()) || tensor.numel() == 0) return;
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    double const size = at::abs(tensor.detach()).max().item<double>();
    auto const step = torch::randn(tensor.sizes(), generator, torch::kDouble) * (size > 0 ? size / 8 : 0.25);
    tensor.detach().add_(step.to(tensor.options().requires_grad(false)));
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> before_;
};

/// While it lives, what is refused between layers is kept, and runs as on one rank.
class KeptRefusals {
 public:
  explicit KeptRefusals(std::vector<std::string>& found) : before_(detail::Interceptor::of_thread().findings) {
    detail::Interceptor::of_thread().findings = &found;
  }
  KeptRefusals(KeptRefusals const&) = delete;
  KeptRefusals& operator=(KeptRefusals const&) = delete;
  ~KeptRefusals() { detail::Interceptor::of_thread().findings = before_; }

 private:
  std::vector<std::string>* before_;
};

using Cotangent = std::function<torch::Tensor(torch::Tensor const&)>;

/// @param cotangent_of gives the cotangent for an output @param domain of a sharded model
Run run(Forward const& forward, torch::Tensor const& x, Cotangent const& cotangent_of, Domain const* domain,
        std::vector<std::string>& found) {
  Run result;
  KeptRefusals const kept(found);
  auto const leaf = x.detach().clone().requires_grad_();
  if (auto const model = domain ? detail::Interceptor::of_thread().latest().lock() : nullptr)
    detail::Interceptor::of_thread().mark_input(leaf, model);
  std::unordered_map<c10::TensorImpl const*, std::string> names;
  {
    detail::TrialLog log;
    result.output = forward(leaf);
    result.calls = std::move(log.calls);
    names = std::move(log.names);
  }
  if (!result.output.requires_grad()) return result;
  if (domain) detail::check_entry(result.output, *domain, "the end of the model", detail::Entry::any);
  std::vector<torch::Tensor> inputs{leaf};
  for (auto const& tensor : leaves_of(result.output)) {
    if (tensor.is_same(leaf)) continue;
    auto const name = names.find(tensor.unsafeGetTensorImpl());
    result.leaves.push_back({tensor, name == names.end() ? std::string() : name->second, {}});
    inputs.push_back(tensor);
  }
  detail::OwnCode const own;
  auto loss = (result.output * cotangent_of(result.output)).sum();
  if (domain) loss = reduce_loss(loss, *domain);
  auto const gradients = torch::autograd::grad({loss}, inputs, {}, false, false, true);
  result.gradient = gradients[0].defined() ? gradients[0] : torch::zeros_like(leaf);
  for (std::size_t i = 0; i < result.leaves.size(); ++i) result.leaves[i].gradient = gradients[i + 1];
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
      throw Error("BadCuts", "the input has " + std::to_string(x.size(-2)) + " x " + std::to_string(x.size(-1)) +
                                 " cells, the cuts have " + std::to_string(cuts->rows.extent()) + " x " +
                                 std::to_string(cuts->columns.extent()));
  });
  Comparer const comparer(domain);
  Layout const layout(domain.grid(), {cuts ? cuts->rows : balanced_cuts(x.size(-2), domain.grid().extent(0)),
                                      cuts ? cuts->columns : balanced_cuts(x.size(-1), domain.grid().extent(1))});
  Trial trial;
  for (int r = 0; r < comm.num_ranks(); ++r) trial.num_parts += layout.owned(r).empty() ? 0 : 1;
  std::uint64_t seed = 1;
  torch::Tensor cotangent;
  std::vector<std::string> ignored;
  auto const run_whole = [&] {
    return run(
        reference, x,
        [&](torch::Tensor const& y) {
          auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed++);
          cotangent = torch::randn(y.sizes(), generator, torch::kDouble).to(y.options().requires_grad(false));
          return cotangent;
        },
        nullptr, ignored);
  };
  bool is_cut = false;
  auto const run_part = [&] {
    return run(
        sharded, comparer.part(x, layout),
        [&](torch::Tensor const& y) {
          if (!is_cut) return cotangent / comm.num_ranks();
          auto const outputs = comparer.layout_of(y);
          bool const fits =
              outputs && outputs->extent(0) == cotangent.size(-2) && outputs->extent(1) == cotangent.size(-1);
          return fits ? comparer.part(cotangent, *outputs) : torch::zeros_like(y);
        },
        &domain, trial.refusals);
  };
  Run whole;
  Run part;
  auto const run_both = [&](Run& of_whole, Run& of_part) {
    run_agreed(comm, [&] { of_whole = run_whole(); });
    is_cut = of_whole.output.dim() >= 2;
    run_agreed(comm, [&] { of_part = run_part(); });
    trial.output_difference =
        std::max(trial.output_difference, comparer.difference(of_part.output, of_whole.output, is_cut));
    trial.input_gradient_difference =
        std::max(trial.input_gradient_difference, comparer.gradient_difference(of_part.gradient, of_whole.gradient));
  };
  run_both(whole, part);
  auto const matches = matches_of(whole.leaves, part.leaves);
  comparer.compare_parameters(trial, whole.leaves, part.leaves, matches);
  if (comparer.same_on_all(whole.leaves.size()) && !whole.leaves.empty()) {
    MovedParameters moved;
    for (std::size_t i = 0; i < whole.leaves.size(); ++i) {
      moved.move(whole.leaves[i].tensor, 1000 + i);
      if (matches[i] >= 0) moved.move(part.leaves[std::size_t(matches[i])].tensor, 1000 + i);
    }
    Run moved_whole;
    Run moved_part;
    run_both(moved_whole, moved_part);
    // The values that matched them have moved alike.
    comparer.compare_parameters(trial, moved_whole.leaves, moved_part.leaves,
                                matches_of(moved_whole.leaves, moved_part.leaves));
  }
  trial.gradient_difference = trial.input_gradient_difference;
  for (auto const& parameter : trial.parameters)
    trial.gradient_difference = std::max(trial.gradient_difference, parameter.difference);
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
  auto const line = [&](std::string const& what, double difference) {
    text << what << ": difference " << scientific(difference) << (difference > tolerance ? "  <- differs" : "") << '\n';
  };
  line("output", output_difference);
  line("gradient of the input", input_gradient_difference);
  double largest = 0;
  for (auto const& parameter : parameters) {
    largest = std::max(largest, parameter.difference);
    if (parameter.difference <= tolerance) continue;
    line(c10::str("gradient of ", parameter.name, ' ', at::IntArrayRef(parameter.sizes)), parameter.difference);
  }
  line("gradients of " + std::to_string(parameters.size()) + " parameters", largest);
  for (auto const& refusal : refusals) text << "wrong on shards: " << refusal << '\n';
  if (num_parts < 2)
    text
        << "NOTHING WAS DIVIDED: one rank has the whole input, so that any model passes; try it on two ranks or more\n";
  return text.str();
}

}  // namespace graticule::nn
