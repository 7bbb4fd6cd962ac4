// SPDX-License-Identifier: BSD-3-Clause
// A sharded layer against its serial counterpart: outputs, gradients, and derivatives of the gradients.
#pragma once

#include <graticule/nn_bridge/collective/gradient_sync.hpp>

#include "gradient_check.hpp"
#include "shards.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace graticule::test {

/// What this rank has of a whole tensor: a range of each axis that is cut, and all of the others.
class Shard {
 public:
  /// The whole.
  Shard() = default;
  /// Rows and columns along the last two axes.
  Shard(Part const& part) : Shard(part, 2) {}
  /// Of a field with this many spatial axes: one of them is the rows.
  Shard(Part const& part, std::size_t num_axes) {
    cut(num_axes == 1 ? -1 : -2, part.row, part.num_rows);
    if (num_axes > 1) cut(-1, part.column, part.num_columns);
  }

  /// Leaves `size` elements from `lo` on of one more axis, which counts from the last one, -1.
  Shard& cut(std::int64_t axis, Index lo, Index size) {
    ranges_.push_back({axis, lo, size});
    return *this;
  }
  /// How the ranks' tensors make the whole: see `Spread`. Ranks with the same range have the same values.
  Shard& spread_as(Spread spread) {
    spread_ = spread;
    return *this;
  }

  [[nodiscard]] Spread spread() const noexcept { return spread_; }
  [[nodiscard]] torch::Tensor of(torch::Tensor const& whole) const {
    auto result = whole;
    for (auto const& range : ranges_) result = result.narrow(range.axis, range.lo, range.size);
    return result;
  }
  /// The sum of what ranks hold, each at its place in a whole of these sizes. Collective.
  [[nodiscard]] torch::Tensor sum(Comm const& comm, torch::Tensor const& own, at::IntArrayRef sizes) const {
    auto whole = torch::zeros(sizes, own.options().requires_grad(false));
    of(whole).copy_(own);
    return over_ranks(comm, whole);
  }
  /// The indices in the whole of an element of this rank's contiguous tensor.
  [[nodiscard]] std::vector<std::int64_t> place(at::IntArrayRef sizes, std::int64_t element) const {
    std::vector<std::int64_t> result(sizes.size());
    for (std::size_t a = sizes.size(); a-- > 0; element /= sizes[a]) result[a] = element % sizes[a];
    for (auto const& range : ranges_) result[std::size_t(std::int64_t(sizes.size()) + range.axis)] += range.lo;
    return result;
  }

 private:
  struct Range {
    std::int64_t axis;
    Index lo, size;
  };
  std::vector<Range> ranges_;
  Spread spread_ = Spread::sharded;
};

/// Success where this rank's numbers differ from the expected ones by at most `tolerance`, relative to the largest of
/// these or to 1; otherwise rank and cell of the largest difference. @param shard where the numbers are in the whole
inline testing::AssertionResult close(torch::Tensor const& found, torch::Tensor const& expected, double tolerance,
                                      Shard const& shard = {}) {
  auto failure = testing::AssertionFailure();
  failure << "rank " << world_rank() << ": ";
  if (!found.defined() || !expected.defined())
    return failure << (found.defined() ? "nothing is expected" : "no tensor was found");
  if (found.sizes() != expected.sizes())
    return failure << "sizes are " << found.sizes() << ", not " << expected.sizes();
  auto const error = difference(found.detach(), expected.detach());
  if (error <= tolerance) return testing::AssertionSuccess();
  auto const numbers = found.detach().flatten();
  auto const right = expected.detach().flatten();
  auto const worst = (numbers - right).abs().to(torch::kDouble).argmax().item<std::int64_t>();
  return failure << "cell " << at::IntArrayRef(shard.place(found.sizes(), worst)) << " is " << numbers[worst].item()
                 << ", not " << right[worst].item() << "; relative difference " << error << ", allowed " << tolerance;
}

/// Success where all ranks hold the bits of the first. Collective.
inline testing::AssertionResult same_on_all_ranks(Comm const& comm, torch::Tensor const& values) {
  auto first = values.detach().contiguous().clone();
  comm.broadcast(first.mutable_data_ptr(), Index(first.nbytes()), 0);
  if (torch::equal(first, values.detach())) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "rank " << comm.rank() << " differs from rank 0";
}

/// Sums the gradients over ranks and expects those of the serial module, name by name. Collective.
inline void expect_parameter_gradients(torch::nn::Module& sharded,
                                       torch::OrderedDict<std::string, torch::Tensor> serial, Comm const& comm,
                                       double tolerance) {
  nn::GradientSync(sharded, {{comm, nn::Reduction::sum}}).reduce();
  auto const found = sharded.named_parameters();
  for (auto const& item : serial) {
    if (!item.value().defined()) continue;
    EXPECT_TRUE(close(found[item.key()].grad(), item.value().grad(), tolerance)) << "gradient of " << item.key();
  }
}

/// Largest differences of results in f64, relative to the largest magnitude expected or to 1.
struct Tolerance {
  double output = 1e-12;
  double gradient = 1e-12;
  double parameters = gradient;
  double second = gradient;  ///< derivatives of gradients
};

enum class Cotangent {
  random,
  ones,  ///< of a sum: one element, expanded
};

/// One layer in both forms. Example, on random cuts, with a 3 x 3 kernel whose outputs lie where its inputs do:
/// @code
/// Part const part(domain, random_field_cuts(domain, random, {7, 6}));
/// nn::Conv2d layer(options, domain);
/// auto const weight = leaf_of(layer->weight);
/// SerialComparison{.name = "3 x 3",
///                  .layer = layer,
///                  .oracle = [&](Tensor const& x) { return torch::conv2d(x, weight, {}, 1, 1); },
///                  .input = part,
///                  .module = layer.ptr(),
///                  .parameters = {{"weight", weight}}}
///     .expect_equal(random_tensor(random, {2, 4, 7, 6}), random);
/// @endcode
struct SerialComparison {
  using Function = std::function<torch::Tensor(torch::Tensor const&)>;

  std::string name;  ///< of the case, in all messages
  Function layer;    ///< of this rank's shard; collective
  Function oracle;   ///< of the whole tensor
  Shard input = {};
  /// This rank's shard of the whole output that is given, asked after the layer's forward; none: as the input.
  std::function<Shard(torch::Tensor const&)> output = {};
  /// Whose parameters are compared, and the oracle's by the same names; undefined ones are not.
  std::shared_ptr<torch::nn::Module> module = {};
  torch::OrderedDict<std::string, torch::Tensor> parameters{};
  Tolerance tolerance = {};
  /// Where the oracle computes in another dtype: of its input and its gradients.
  std::optional<torch::Dtype> oracle_type = {};
  /// This rank's shard, given a dense one: in another order of memory, or with cells that count for nothing.
  Function memory = {};
  Comm comm = world();

  /// A run of both forms, after their backward.
  struct Run {
    torch::Tensor whole, expected, whole_cotangent;
    torch::Tensor shard, found, cotangent;
    Shard output;
  };

  /// Runs both forms, forward and backward, with gradients of parameters that start anew. Collective.
  [[nodiscard]] Run run(torch::Tensor const& x, std::mt19937& random, Cotangent kind = Cotangent::random) const {
    if (module) module->zero_grad();
    for (auto const& item : parameters)
      if (item.value().defined()) torch::Tensor(item.value()).mutable_grad() = torch::Tensor();
    Run result;
    result.whole = x.detach().to(oracle_type.value_or(x.scalar_type())).clone().requires_grad_();
    result.expected = oracle(result.whole);
    result.shard = own_part(x).requires_grad_();
    result.found = layer(result.shard);
    result.output = output ? output(result.expected) : input;
    std::tie(result.whole_cotangent, result.cotangent) =
        cotangents(result.expected.detach(), x.scalar_type(), result.output, random, kind);
    result.expected.backward(result.whole_cotangent);
    result.found.backward(result.cotangent);
    return result;
  }

  /// Expects the same type, output and gradients of input and parameters. Collective.
  Run expect_equal(torch::Tensor const& x, std::mt19937& random, Cotangent kind = Cotangent::random) const {
    SCOPED_TRACE(name);
    auto const result = run(x, random, kind);
    EXPECT_EQ(result.found.scalar_type(), oracle_type ? x.scalar_type() : result.expected.scalar_type());
    EXPECT_TRUE(close(result.found, result.output.of(result.expected), tolerance.output, result.output)) << "output";
    expect_input_gradient(result);
    if (module) expect_parameter_gradients(*module, parameters, comm, tolerance.parameters);
    return result;
  }

  /// Expects the same first derivatives in the input and the parameters, and the same derivatives of these, along
  /// random directions, in the input, the parameters and the cotangent. Collective. For inputs and outputs that are
  /// cut.
  void expect_equal_twice(torch::Tensor const& x, std::mt19937& random, Cotangent kind = Cotangent::random) const {
    SCOPED_TRACE(name);
    std::vector<std::string> names;
    std::vector<torch::Tensor> whole_leaves{x.detach().clone().requires_grad_()};
    std::vector<torch::Tensor> own_leaves{own_part(x).requires_grad_()};
    std::vector<torch::Tensor> along{random_like(random, x, x.scalar_type())};
    for (auto const& item : parameters) {
      if (!item.value().defined()) continue;
      names.push_back(item.key());
      whole_leaves.push_back(item.value());
      own_leaves.push_back(module->named_parameters()[item.key()]);
      along.push_back(random_like(random, item.value(), item.value().scalar_type()));
    }
    auto const y = oracle(whole_leaves[0]);
    auto const own_y = layer(own_leaves[0]);
    auto const out = output ? output(y) : input;
    auto const cotangent = kind == Cotangent::ones ? ones_like(y) : random_like(random, y, y.scalar_type());
    auto const expected = twice(y, whole_leaves, cotangent.requires_grad_(), along);
    along[0] = input.of(along[0]);
    auto const found = twice(own_y, own_leaves, out.of(cotangent.detach()).requires_grad_(), along);

    expect_shards("gradient", found.first[0], expected.first[0], input);
    expect_shards("derivative in the input", found.second[0], expected.second[0], input);
    expect_shards("derivative in the cotangent", found.second.back(), expected.second.back(), out);
    for (std::size_t p = 0; p < names.size(); ++p) {
      expect_sum("gradient of " + names[p], found.first[p + 1], expected.first[p + 1]);
      expect_sum("derivative in " + names[p], found.second[p + 1], expected.second[p + 1]);
    }
  }

 private:
  struct Derivatives {
    std::vector<torch::Tensor> first, second;
  };

  [[nodiscard]] torch::Tensor own_part(torch::Tensor const& x) const {
    auto const dense = input.of(x.detach()).clone(torch::MemoryFormat::Contiguous);
    return (memory ? memory(dense) : dense).detach();
  }
  static torch::Tensor random_like(std::mt19937& random, torch::Tensor const& like, torch::Dtype real) {
    if (!like.is_complex()) return random_tensor(random, like.sizes().vec(), real).to(like.scalar_type());
    return random_complex(random, like.sizes().vec()).to(like.scalar_type());
  }
  static torch::Tensor ones_like(torch::Tensor const& like) {
    return torch::ones({}, like.options().requires_grad(false)).expand(like.sizes());
  }

  /// Of the whole output, and of this rank's. Random values have no more digits than the layer's type.
  [[nodiscard]] std::pair<torch::Tensor, torch::Tensor> cotangents(torch::Tensor const& y, torch::Dtype type,
                                                                   Shard const& out, std::mt19937& random,
                                                                   Cotangent kind) const {
    auto const given = [&](torch::Tensor const& cotangent) {
      return oracle_type ? out.of(cotangent).to(type) : out.of(cotangent);
    };
    if (kind == Cotangent::ones) return {ones_like(y), given(ones_like(y))};
    std::vector<torch::Tensor> each;
    int const count = out.spread() == Spread::partial ? comm.num_ranks() : 1;
    for (int r = 0; r < count; ++r) each.push_back(random_like(random, y, y.is_complex() ? y.scalar_type() : type));
    if (out.spread() != Spread::partial) return {each[0], given(each[0])};
    auto const own = given(each[std::size_t(comm.rank())]);
    return {out.sum(comm, own, y.sizes()).to(y.scalar_type()), own};
  }

  void expect_input_gradient(Run const& result) const {
    auto const sum = input.spread() == Spread::partial;
    auto const found =
        sum ? input.sum(comm, result.shard.grad(), result.whole.sizes()) : torch::Tensor(result.shard.grad());
    auto const expected = sum ? result.whole.grad() : input.of(result.whole.grad());
    EXPECT_TRUE(close(found, expected, tolerance.gradient, sum ? Shard() : input)) << "gradient";
  }

  static Derivatives twice(torch::Tensor const& y, std::vector<torch::Tensor> const& leaves,
                           torch::Tensor const& cotangent, std::vector<torch::Tensor> const& along) {
    Derivatives result;
    result.first = torch::autograd::grad({y}, leaves, {cotangent}, true, true);
    auto inputs = leaves;
    inputs.push_back(cotangent);
    result.second = torch::autograd::grad(result.first, inputs, along, false, false, true);
    for (std::size_t i = 0; i < inputs.size(); ++i) result.second[i] = detail::or_zeros(result.second[i], inputs[i]);
    return result;
  }

  void expect_shards(char const* what, torch::Tensor const& found, torch::Tensor const& expected,
                     Shard const& shard) const {
    EXPECT_TRUE(close(found, shard.of(expected), tolerance.second, shard)) << what;
  }
  void expect_sum(std::string const& what, torch::Tensor const& found, torch::Tensor const& expected) const {
    EXPECT_TRUE(close(over_ranks(comm, found), expected, tolerance.second)) << what;
  }
};

}  // namespace graticule::test
