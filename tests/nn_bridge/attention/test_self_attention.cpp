// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <sstream>

namespace graticule {
namespace test_self_attention {

using nn::AttentionKernel;
using nn::WindowKind;
using test::Cotangent;
using test::difference;
using test::domains;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;

using Options = torch::nn::MultiheadAttentionOptions;

void randomize(torch::nn::Module& module, std::mt19937& random) {
  module.to(torch::kDouble);
  test::randomize(module, random);
}

/// LibTorch's attention of a whole field [batch, channels, rows, columns] by cells as tokens.
struct Serial {
  torch::nn::MultiheadAttention attention;
  torch::Tensor table = {};  ///< of a position bias
  /// [tokens, tokens]: added to the scores; and rows of the table
  torch::Tensor mask = {};
  torch::Tensor distances = {};

  explicit Serial(Options const& options) : attention(options) { attention->to(torch::kDouble); }

  void take_parameters(torch::nn::Module& layer) {
    torch::NoGradGuard const no_grad;
    auto const given = layer.named_parameters();
    for (auto const& item : attention->named_parameters()) item.value().detach().copy_(given[item.key()]);
    if (given.contains("relative_position_bias_table"))
      table = given["relative_position_bias_table"].detach().clone().requires_grad_();
  }

  torch::Tensor operator()(torch::Tensor const& x) {
    auto const field = x.dim() == 3 ? x.unsqueeze(0) : x;
    auto const tokens = field.flatten(-2).permute({2, 0, 1});
    auto const y = mask.defined() ? masked(tokens) : std::get<0>(attention(tokens, tokens, tokens));
    return y.permute({1, 2, 0}).reshape(x.sizes());
  }

  /// The same with LibTorch's functions: its module has no masks by head. [tokens, batch, channels]
  torch::Tensor masked(torch::Tensor const& tokens) {
    auto const n = tokens.size(0);
    auto const heads = attention->options.num_heads();
    auto added = mask;
    if (table.defined())
      added = mask + table.index_select(0, distances.flatten()).view({n, n, heads}).permute({2, 0, 1});
    auto const parts = torch::linear(tokens, attention->in_proj_weight, attention->in_proj_bias)
                           .unflatten(-1, {3, heads, attention->options.embed_dim() / heads})
                           .permute({2, 1, 3, 0, 4});
    auto const found = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], added);
    return attention->out_proj(found.permute({2, 0, 1, 3}).flatten(-2));
  }

  [[nodiscard]] torch::OrderedDict<std::string, torch::Tensor> parameters() const {
    auto result = attention->named_parameters();
    if (table.defined()) result.insert("relative_position_bias_table", table);
    return result;
  }
};

/// On random cuts.
template <class Layer>
SerialComparison comparison_of(nn::Domain const& domain, Layer& layer, Serial& serial,
                               std::vector<std::int64_t> const& sizes, std::mt19937& random) {
  return {.name = to_string(domain.grid()),
          .layer = layer,
          .oracle = [&](torch::Tensor const& x) { return serial(x); },
          .input = random_part(domain, random, sizes),
          .module = layer.ptr(),
          .parameters = serial.parameters(),
          .tolerance = {.gradient = 1e-11}};
}

/// With a random and an expanded cotangent.
template <class Layer>
void expect_serial(nn::Domain const& domain, Layer& layer, Serial& serial, std::vector<std::int64_t> const& sizes,
                   std::mt19937& random) {
  for (auto const kind : {Cotangent::random, Cotangent::ones}) {
    comparison_of(domain, layer, serial, sizes, random).expect_equal(random_tensor(random, sizes), random, kind);
    layer->reset_structure();
  }
}

TEST(SelfAttention, equals_serial_for_random_cuts) {
  std::mt19937 random(51);
  for (auto const& domain : domains()) {
    for (auto const& options : {Options(8, 4), Options(6, 1).bias(false), Options(6, 3)}) {
      for (auto const kernel : {AttentionKernel::plain, AttentionKernel::fused, AttentionKernel::ring}) {
        SCOPED_TRACE(to_string(domain.grid()) + ", heads " + std::to_string(options.num_heads()));
        nn::SelfAttention layer(nn::SelfAttentionOptions{options, kernel}, domain);
        randomize(*layer, random);
        Serial serial(options);
        serial.take_parameters(*layer);
        auto const embed = options.embed_dim();
        expect_serial(domain, layer, serial, {2, embed, 5, 4}, random);
        expect_serial(domain, layer, serial, {embed, 3, 6}, random);
      }
    }
  }
}

TEST(SelfAttention, takes_the_files_of_libtorchs_attention_and_gives_them) {
  std::mt19937 random(52);
  auto const domain = domains().back();
  nn::SelfAttention layer(nn::SelfAttentionOptions{Options(4, 2)}, domain);
  Serial serial(Options(4, 2));
  randomize(*serial.attention, random);
  layer->to(torch::kDouble);
  std::stringstream there;
  torch::save(serial.attention, there);
  torch::load(layer, there);
  auto const x = random_tensor(random, {1, 4, 4, 4});
  auto const part = random_part(domain, random, x.sizes());
  EXPECT_LE(difference(layer(part.of(x)), part.of(serial(x))), 1e-13);

  Serial other(Options(4, 2));
  std::stringstream back;
  torch::save(layer, back);
  torch::load(other.attention, back);
  EXPECT_EQ(difference(other(x), serial(x)), 0);
}

TEST(SelfAttention, a_ring_of_16_bit_values_adds_in_single_precision_as_libtorch_does) {
  std::mt19937 random(58);
  auto const type = torch::kBFloat16;
  nn::Domain const alone(Comm(MPI_COMM_SELF), ProcessGrid{1, 1});
  for (auto const& domain : domains()) {
    nn::SelfAttention serial(nn::SelfAttentionOptions{Options(8, 2)}, alone);
    nn::SelfAttention ring(nn::SelfAttentionOptions{Options(8, 2), AttentionKernel::ring}, domain);
    auto const x = random_tensor(random, {1, 8, 24, 32}, type);
    auto const part = random_part(domain, random, x.sizes());
    randomize(*ring, random);
    ring->to(type);
    serial->to(type);
    {
      torch::NoGradGuard const no_grad;
      for (std::size_t i = 0; i < 4; ++i) serial->parameters()[i].copy_(ring->parameters()[i]);
    }
    auto const run =
        SerialComparison{.name = to_string(domain.grid()), .layer = ring, .oracle = serial, .input = part}.run(
            x, random, Cotangent::ones);

    // Both round the same projections, and once each result.
    EXPECT_EQ(run.found.scalar_type(), type);
    EXPECT_TRUE(test::close(test::widened(run.found), test::widened(part.of(run.expected)), 0.01, part));
    EXPECT_TRUE(test::close(test::widened(run.shard.grad()), test::widened(part.of(run.whole.grad())), 0.02, part));
  }
}

/// In x, the weights of the projections and the cotangent.
template <class Layer>
void expect_second_derivatives(nn::Domain const& domain, Layer& layer, Serial& serial,
                               std::vector<std::int64_t> const& sizes, std::mt19937& random) {
  auto comparison = comparison_of(domain, layer, serial, sizes, random);
  comparison.parameters = {{"in_proj_weight", serial.attention->in_proj_weight}};

  comparison.expect_equal_twice(random_tensor(random, sizes), random);
}

TEST(SelfAttention, second_derivatives_equal_serial_or_are_refused) {
  std::mt19937 random(53);
  for (auto const& domain : domains()) {
    nn::SelfAttention layer(nn::SelfAttentionOptions{Options(4, 2), AttentionKernel::plain}, domain);
    randomize(*layer, random);
    Serial serial(Options(4, 2));
    serial.take_parameters(*layer);
    expect_second_derivatives(domain, layer, serial, {2, 4, 4, 3}, random);

    for (auto const kernel : {AttentionKernel::fused, AttentionKernel::ring}) {
      nn::SelfAttention first(nn::SelfAttentionOptions{Options(4, 2), kernel}, domain);
      auto const part = random_part(domain, random, {4, 3});
      auto x = part.of(torch::ones({4, 4, 3})).clone().requires_grad_();
      auto const y = first(x).sum();
      EXPECT_EQ(rule_of([&] { (void)torch::autograd::grad({y}, {x}, {}, true, true); }), "Unsupported");
    }
  }
}

/// One axis of a window attention, from the definition.
struct AxisGroups {
  Index n, window, shift;
  WindowKind kind;
  bool periodic;

  /// Of cell i: the group and the member.
  [[nodiscard]] std::array<Index, 2> of(Index i) const {
    if (kind == WindowKind::dilated) {
      auto const step = (n + window - 1) / window;
      return {i % step, i / step};
    }
    auto const place = periodic ? (i - shift + n) % n : shift > 0 ? i + window - shift : i;
    return {place / window, place % window};
  }
};

struct Case {
  Index rows;
  Index columns;
  std::array<Index, 2> window;
  std::array<Index, 2> shift = {0, 0};
  WindowKind kind = WindowKind::adjacent;
  bool bias = false;
};

std::vector<Case> cases() {
  return {{8, 8, {4, 4}},
          {8, 12, {4, 4}, {2, 2}, WindowKind::adjacent, true},
          {7, 10, {3, 4}, {1, 3}, WindowKind::adjacent, true},
          {7, 9, {3, 2}, {0, 1}},
          {5, 6, {8, 2}, {5, 0}},
          {1, 7, {1, 3}, {0, 2}},
          {9, 6, {2, 6}, {1, 0}},
          {8, 8, {2, 4}, {0, 0}, WindowKind::dilated, true},
          {7, 10, {3, 4}, {0, 0}, WindowKind::dilated, true},
          {5, 3, {2, 8}, {0, 0}, WindowKind::dilated}};
}

/// A serial layer over all cells whose mask leaves the groups.
Serial serial_windows(Options const& options, Case const& c, bool periodic) {
  Serial serial(options);
  AxisGroups const rows{c.rows, c.window[0], c.shift[0], c.kind, false};
  AxisGroups const columns{c.columns, c.window[1], c.shift[1], c.kind, periodic};
  auto const n = c.rows * c.columns;
  auto mask = torch::zeros({n, n}, torch::kDouble);
  auto distances = torch::zeros({n, n}, torch::kLong);
  auto mask_of = mask.accessor<double, 2>();
  auto distance_of = distances.accessor<std::int64_t, 2>();
  for (Index q = 0; q < n; ++q) {
    auto const [row_group, row] = rows.of(q / c.columns);
    auto const [column_group, column] = columns.of(q % c.columns);
    for (Index k = 0; k < n; ++k) {
      auto const [other_row_group, other_row] = rows.of(k / c.columns);
      auto const [other_column_group, other_column] = columns.of(k % c.columns);
      if (row_group != other_row_group || column_group != other_column_group)
        mask_of[q][k] = -std::numeric_limits<double>::infinity();
      else
        distance_of[q][k] =
            (row - other_row + c.window[0] - 1) * (2 * c.window[1] - 1) + (column - other_column + c.window[1] - 1);
    }
  }
  serial.mask = mask;
  serial.distances = distances;
  return serial;
}

nn::WindowAttention make_layer(Options const& options, Case const& c, nn::Domain const& domain) {
  return nn::WindowAttention(nn::WindowAttentionOptions{options, c.window, c.shift, c.kind, c.bias}, domain);
}

TEST(WindowAttention, equals_serial_for_random_cuts) {
  std::mt19937 random(54);
  Options const options(4, 2);
  std::size_t next = 0;
  for (bool const periodic : {true, false}) {
    auto const boundary = periodic ? Boundary::sphere(Edge::pole_face) : Boundary::uniform(2, Edge::replicate);
    auto const all = domains(boundary);
    for (auto const& c : cases()) {
      // Globes on all grids, other domains on one grid after the other.
      for (std::size_t g = 0; g < (periodic ? all.size() : 1); ++g) {
        auto const& domain = all[next++ % all.size()];
        SCOPED_TRACE(to_string(domain.grid()) + ": " + std::to_string(c.rows) + " x " + std::to_string(c.columns) +
                     (periodic ? " periodic" : ""));
        auto layer = make_layer(options, c, domain);
        randomize(*layer, random);
        auto serial = serial_windows(options, c, periodic);
        serial.take_parameters(*layer);
        expect_serial(domain, layer, serial, {2, 4, c.rows, c.columns}, random);
      }
    }
  }
}

TEST(WindowAttention, second_derivatives_equal_serial) {
  std::mt19937 random(55);
  Options const options(4, 2);
  for (auto const& domain : domains()) {
    for (auto const& c : {cases()[2], cases()[8]}) {
      auto layer = make_layer(options, c, domain);
      randomize(*layer, random);
      auto serial = serial_windows(options, c, true);
      serial.take_parameters(*layer);
      expect_second_derivatives(domain, layer, serial, {1, 4, c.rows, c.columns}, random);
    }
  }
}

TEST(WindowAttention, is_local_where_cuts_are_aligned) {
  auto const domain = domains().back();  // Rows alone are cut.
  int const num_ranks = domain.comm().num_ranks();
  auto const messages_of = [&](nn::WindowAttention layer, Index rows) {
    torch::NoGradGuard const no_grad;
    auto const cuts = balanced_cuts(rows, num_ranks);
    auto const before = nn::traffic();
    layer(torch::ones({4, cuts.size(domain.comm().rank()), 6}));
    auto const after = nn::traffic();
    std::array<Index, 1> messages{(after - before).num_messages};
    domain.comm().sum(messages);
    return messages[0];
  };
  Options const options(4, 2);
  EXPECT_EQ(messages_of(make_layer(options, {0, 0, {3, 3}, {0, 1}}, domain), 3 * num_ranks), 0);
  EXPECT_EQ(messages_of(make_layer(options, {0, 0, {3, 4}, {0, 1}}, domain), 3 * num_ranks), 0);
  if (num_ranks > 1) {
    EXPECT_GT(messages_of(make_layer(options, {0, 0, {3, 3}, {1, 1}}, domain), 3 * num_ranks), 0);
    EXPECT_GT(messages_of(make_layer(options, {0, 0, {3, 3}, {0, 0}, WindowKind::dilated}, domain), 3 * num_ranks), 0);
  }
}

TEST(WindowAttention, shifted_windows_train_alike_wherever_rows_are_cut) {
  std::mt19937 random(56);
  Options const options(4, 2);
  auto const x = random_tensor(random, {1, 4, 6, 8});
  Case const plain{6, 8, {3, 4}};
  Case const shifted{6, 8, {3, 4}, {1, 2}, WindowKind::adjacent, true};
  std::optional<double> expected;
  for (auto const& domain : domains()) {
    std::mt19937 same(57);
    auto a = make_layer(options, plain, domain);
    auto b = make_layer(options, shifted, domain);
    randomize(*a, same);
    randomize(*b, same);
    auto serial_a = serial_windows(options, plain, true);
    auto serial_b = serial_windows(options, shifted, true);
    serial_a.take_parameters(*a);
    serial_b.take_parameters(*b);
    auto const whole = serial_b(torch::gelu(serial_a(x))).square().sum();
    whole.backward();
    auto const part = random_part(domain, random, x.sizes());

    auto const y = torch::gelu(a(part.of(x)));
    auto const unused = b(y);
    auto const loss = nn::reduce_loss(b(y).square().sum(), domain);
    loss.backward();

    EXPECT_NEAR(loss.item<double>(), whole.item<double>(), 1e-10 * whole.item<double>());
    test::expect_parameter_gradients(*a, serial_a.parameters(), domain.comm(), 1e-10);
    test::expect_parameter_gradients(*b, serial_b.parameters(), domain.comm(), 1e-10);
    EXPECT_EQ(test::num_set_ups(b), 1);
  }
}

TEST(Attention, options_that_are_not_offered_are_refused_by_name) {
  auto const domain = domains().back();
  int const rank = domain.comm().rank();
  auto const global = [&](Options const& options) {
    return nn::SelfAttention(nn::SelfAttentionOptions{options}, domain);
  };
  EXPECT_EQ(rule_of([&] { global(Options(5, 2)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { global(Options(4, 2).dropout(0.1)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { global(Options(4, 2).add_bias_kv(true)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { global(Options(4, 2).add_zero_attn(true)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { global(Options(4, 2).kdim(3)); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make_layer(Options(4, 2), {0, 0, {0, 1}}, domain); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make_layer(Options(4, 2), {0, 0, {2, 2}, {0, 2}}, domain); }), "BadOption");
  EXPECT_EQ(rule_of([&] {
              make_layer(Options(4, 2), {0, 0, {2, 2}, {0, 1}, WindowKind::dilated}, domain);
            }),
            "BadOption");
  auto const x = torch::ones({4, balanced_cuts(4, domain.comm().num_ranks()).size(rank), 4});
  EXPECT_EQ(rule_of([&] { global(Options(4, 2))(rank == 0 ? x.to(torch::kLong) : x); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { global(Options(6, 2))(x); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { global(Options(4, 2))(x.to(torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { make_layer(Options(4, 2), {0, 0, {2, 2}}, domain)(x[0]); }), "ShapeMismatch");
  EXPECT_EQ(global(Options(4, 2))(x).sizes(), x.sizes());
}

}  // namespace test_self_attention
}  // namespace graticule
