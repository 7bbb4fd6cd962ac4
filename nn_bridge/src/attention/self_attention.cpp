// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include "call/between.hpp"
#include "grouped_axis.hpp"
#include "move/tensor_move.hpp"
#include "ring_attention.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace graticule::nn {

namespace detail {

template <class Derived>
AttentionModule<Derived>::AttentionModule(char const* layer, torch::nn::MultiheadAttentionOptions const& options)
    : attention(options), layer_(layer) {
  auto const refuse = [&](std::string const& what) { throw Error("BadOption", std::string(layer) + " " + what); };
  auto const embed = attention.embed_dim();
  if (attention.num_heads() < 1 || embed < 1 || embed % attention.num_heads() != 0)
    refuse("needs heads that divide its channels, got " + std::to_string(embed) + " channels and " +
           std::to_string(attention.num_heads()) + " heads");
  if (attention.dropout() != 0) refuse("has no dropout, whose mask would depend on the cuts");
  if (attention.add_bias_kv() || attention.add_zero_attn())
    refuse("has no added keys: add_bias_kv and add_zero_attn must be false");
  // LibTorch leaves 0 in options that were not given.
  if (attention.kdim() != embed || attention.vdim() != embed)
    refuse("needs keys and values of as many channels as queries, " + std::to_string(embed) + ", got kdim " +
           std::to_string(attention.kdim()) + " and vdim " + std::to_string(attention.vdim()));
}

template <class Derived>
void AttentionModule<Derived>::reset_parameters() {
  auto const embed = attention.embed_dim();
  in_proj_weight = this->register_parameter("in_proj_weight", torch::empty({3 * embed, embed}));
  torch::nn::init::xavier_uniform_(in_proj_weight);
  in_proj_bias = this->register_parameter(
      "in_proj_bias", attention.bias() ? torch::zeros({3 * embed}) : torch::Tensor(), attention.bias());
  out_proj = this->register_module("out_proj",
                                   torch::nn::Linear(torch::nn::LinearOptions(embed, embed).bias(attention.bias())));
  if (attention.bias()) torch::nn::init::zeros_(out_proj->bias);
}

template <class Derived>
void AttentionModule<Derived>::check(torch::Tensor const& x) const {
  if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
    throw Error("UnsupportedTensor", std::string(layer_) + " of " +
                                         (x.defined() ? c10::toString(x.scalar_type()) : "no tensor") +
                                         ": fields must have a real floating-point dtype");
  if (x.dim() < 3 || x.size(-3) != attention.embed_dim() || x.scalar_type() != in_proj_weight.scalar_type())
    throw Error("ShapeMismatch",
                c10::str(layer_, " of ", in_proj_weight.scalar_type(), " takes [..., ", attention.embed_dim(),
                         ", rows, columns], not ", x.scalar_type(), " ", x.sizes()));
}

template <class Derived>
bool AttentionModule<Derived>::wants_gradient() const {
  for (auto const& parameter : this->parameters())
    if (parameter.requires_grad()) return true;
  return false;
}

template class AttentionModule<SelfAttentionImpl>;
template class AttentionModule<WindowAttentionImpl>;

namespace {

/// Queries, keys and values [..., heads, tokens, head_dim].
struct Heads {
  torch::Tensor q, k, v;
};

/// softmax(q k' / sqrt(head_dim) + bias) v; [..., heads, tokens, head_dim]
torch::Tensor plain_attention(Heads const& h, torch::Tensor const& bias) {
  auto scores = torch::matmul(h.q * (1 / std::sqrt(double(h.q.size(-1)))), h.k.transpose(-2, -1));
  if (bias.defined()) scores = scores + bias;
  return torch::matmul(torch::softmax(scores, -1), h.v);
}

/// The identity, whose backward refuses to become part of a graph.
struct OnceFunction : torch::autograd::Function<OnceFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*ctx*/, torch::Tensor const& x) { return x; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*ctx*/,
                                                 torch::autograd::variable_list const& grads) {
    if (torch::GradMode::is_enabled())
      throw Error(
          "Unsupported",
          "AttentionKernel::fused is differentiable once; AttentionKernel::plain is differentiable to any order");
    return grads;
  }
};

/// With one batch axis, as kernels take them.
Heads batched(Heads const& h) {
  auto const batch = c10::multiply_integers(h.q.sizes().slice(0, std::size_t(h.q.dim() - 3)));
  auto const four = [&](torch::Tensor const& t) { return t.reshape({batch, t.size(-3), t.size(-2), t.size(-1)}); };
  return {four(h.q), four(h.k), four(h.v)};
}

torch::Tensor fused_attention(Heads const& given) {
  if (given.q.numel() == 0) return OnceFunction::apply(given.v);
  // With other than four axes LibTorch falls back to the square of the tokens.
  auto const h = batched(given);
  return OnceFunction::apply(torch::scaled_dot_product_attention(h.q, h.k, h.v).reshape(given.q.sizes()));
}

torch::Tensor attention_of_ring(std::shared_ptr<RingTokens const> const& ring, Heads const& given,
                                CallTies const& ties) {
  auto const h = batched({given.q * (1 / std::sqrt(double(given.q.size(-1)))), given.k, given.v});
  auto const y = ring_attention(ring, h.q, h.k, h.v, ties.anchor);
  ties.layer.record(y);
  return y.reshape(given.q.sizes());
}

/// Rows, columns and heads, with rows and columns cut as `fields`.
Layout by_cells(Layout const& fields, Index num_heads) {
  auto const& grid = *fields.grid();
  std::vector<int> ranks;
  for (int r = 0; r < grid.extent(0); ++r)
    for (int c = 0; c < grid.extent(1); ++c) ranks.push_back(grid.rank({r, c}));
  return Layout(ProcessGrid::on_ranks({1, grid.extent(0), grid.extent(1)}, std::move(ranks)),
                {Cuts{num_heads}, *fields.cuts(0), *fields.cuts(1)});
}

Layout by_heads(Layout const& fields, Index num_heads, int num_ranks) {
  return Layout(ProcessGrid{num_ranks, 1, 1},
                {balanced_cuts(num_heads, num_ranks), Cuts{fields.extent(0)}, Cuts{fields.extent(1)}});
}

}  // namespace

struct HeadsSetUp {
  std::shared_ptr<TensorMove const> to_heads;  ///< null on one rank, and for rings
  std::shared_ptr<RingTokens const> ring;      ///< for rings
};

}  // namespace detail

namespace {

std::shared_ptr<detail::HeadsSetUp const> make_heads(Comm const& comm, Layout const& fields, Index heads,
                                                     AttentionKernel kernel) {
  auto set_up = std::make_shared<detail::HeadsSetUp>();
  if (kernel == AttentionKernel::ring) {
    detail::RingTokens ring{comm, {}};
    for (int r = 0; r < comm.num_ranks(); ++r) ring.counts.push_back(fields.owned(r).num_cells());
    set_up->ring = std::make_shared<detail::RingTokens const>(std::move(ring));
  } else if (comm.num_ranks() > 1) {
    set_up->to_heads = std::make_shared<detail::TensorMove const>(comm, detail::by_cells(fields, heads),
                                                                  detail::by_heads(fields, heads, comm.num_ranks()),
                                                                  std::vector<std::int64_t>{-4, -2, -1});
  }
  return set_up;
}

}  // namespace

SelfAttentionImpl::SelfAttentionImpl(SelfAttentionOptions const& options, Domain const& domain)
    : CommunicatingModule(domain, "SelfAttention", {}, "SelfAttention", options.attention), kernel_(options.kernel) {
  reset();
}

void SelfAttentionImpl::reset() { reset_parameters(); }

torch::Tensor SelfAttentionImpl::forward(torch::Tensor const& x) {
  auto const heads = attention.num_heads();
  auto const make = [&](Layout const& fields) { return make_heads(domain().comm(), fields, heads, kernel_); };
  auto const call = enter(
      x, [&] { check(x); }, make, wants_gradient());
  detail::CallTies const ties{call.anchor, state()};
  auto const lead = x.sizes().slice(0, std::size_t(x.dim() - 3)).vec();
  auto const sized = [&](std::vector<std::int64_t> const& last) {
    auto sizes = lead;
    sizes.insert(sizes.end(), last.begin(), last.end());
    return sizes;
  };
  auto const rows = x.size(-2);
  auto const columns = x.size(-1);
  auto const head_dim = attention.embed_dim() / heads;
  auto const projected = torch::linear(x.flatten(-2).transpose(-2, -1), in_proj_weight, in_proj_bias);
  auto const by_cells = projected.transpose(-2, -1).reshape(sized({3, heads, head_dim, rows, columns}));
  auto const whole = ties.apply(call.set_up->to_heads, detail::Way::forward, by_cells);
  auto const tokens = whole.flatten(-2).transpose(-2, -1);
  detail::Heads const own{tokens.select(-4, 0), tokens.select(-4, 1), tokens.select(-4, 2)};
  auto const found = kernel_ == AttentionKernel::fused  ? detail::fused_attention(own)
                     : kernel_ == AttentionKernel::ring ? detail::attention_of_ring(call.set_up->ring, own, ties)
                                                        : detail::plain_attention(own, {});
  auto const result =
      found.transpose(-2, -1).reshape(sized({found.size(-3), head_dim, whole.size(-2), whole.size(-1)}));
  auto const back = ties.apply(call.set_up->to_heads, detail::Way::adjoint, result);
  auto const y = out_proj(back.reshape(sized({attention.embed_dim(), rows * columns})).transpose(-2, -1));
  return detail::hand_on(x, y.transpose(-2, -1).reshape(x.sizes()), domain());
}

WindowAttentionImpl::WindowAttentionImpl(WindowAttentionOptions const& given, Domain const& domain)
    : CommunicatingModule(domain, "WindowAttention", {}, "WindowAttention", given.attention), options(given) {
  for (std::size_t a = 0; a < 2; ++a) {
    auto const size = options.window[a];
    auto const shift = options.shift[a];
    if (size < 1 || shift < 0 || shift >= size || (shift > 0 && options.kind == WindowKind::dilated))
      throw Error("BadOption",
                  "WindowAttention needs windows of at least 1 cell and a shift in [0, window), 0 for dilated ones; "
                  "got windows of " +
                      std::to_string(size) + " shifted by " + std::to_string(shift) + " along axis " +
                      std::to_string(int(a) - 2));
  }
  reset();
}

void WindowAttentionImpl::reset() {
  reset_parameters();
  if (!options.relative_position_bias) return;
  auto const [rows, columns] = options.window;
  relative_position_bias_table = register_parameter(
      "relative_position_bias_table", 0.02 * torch::randn({(2 * rows - 1) * (2 * columns - 1), attention.num_heads()}));
  std::vector<Index> distances;
  for (Index q = 0; q < rows * columns; ++q)
    for (Index k = 0; k < rows * columns; ++k)
      distances.push_back((q / columns - k / columns + rows - 1) * (2 * columns - 1) +
                          (q % columns - k % columns + columns - 1));
  distances_ = std::make_shared<detail::Constant const>(torch::tensor(distances, torch::kLong));
}

torch::Tensor WindowAttentionImpl::position_bias() const {
  auto const tokens = options.window[0] * options.window[1];
  return relative_position_bias_table.index_select(0, distances_->on(relative_position_bias_table.device()))
      .view({tokens, tokens, attention.num_heads()})
      .permute({2, 0, 1});
}

torch::Tensor WindowAttentionImpl::forward(torch::Tensor const& x) {
  auto const make = [&](Layout const& fields) {
    std::array<detail::GroupedAxis, 2> axes;
    for (int a = 0; a < 2; ++a)
      axes[std::size_t(a)] = {.num_cells = fields.extent(a),
                              .size = options.window[std::size_t(a)],
                              .shift = options.shift[std::size_t(a)],
                              .kind = options.kind == WindowKind::adjacent ? detail::GroupedAxis::Kind::adjacent
                                                                           : detail::GroupedAxis::Kind::dilated,
                              .periodic = domain().boundary().axes[std::size_t(a)].lower == Edge::periodic};
    return std::make_shared<detail::GroupedField const>(domain().comm(), fields, axes);
  };
  auto const call = enter(
      x, [&] { check(x); }, make, wants_gradient());
  auto const heads = attention.num_heads();
  // [..., channels, row groups, rows, column groups, columns] to [..., groups, tokens, channels]
  auto const grouped = call.set_up->group(x, {detail::anchor(call.input_grad, x.options()), state()})
                           .movedim({-4, -2, -3, -1, -5}, {-5, -4, -3, -2, -1});
  auto const tokens = grouped.flatten(-3, -2).flatten(-4, -3);
  auto const projected = torch::linear(tokens, in_proj_weight, in_proj_bias);
  auto const split = projected.unflatten(-1, {3, heads, attention.embed_dim() / heads}).transpose(-4, -2);
  detail::Heads const own{split.select(-3, 0), split.select(-3, 1), split.select(-3, 2)};
  torch::Tensor bias;
  if (options.relative_position_bias) bias = position_bias();
  if (auto const absent = call.set_up->absent(x.device()); absent.defined()) {
    auto const mask = torch::zeros(absent.sizes(), x.options().requires_grad(false))
                          .masked_fill(absent, -std::numeric_limits<double>::infinity())
                          .unsqueeze(1)
                          .unsqueeze(1);
    bias = bias.defined() ? bias + mask : mask;
  }
  auto const found = detail::plain_attention(own, bias).transpose(-3, -2).flatten(-2);
  auto const y = out_proj(found).view(grouped.sizes()).movedim({-5, -4, -3, -2, -1}, {-4, -2, -3, -1, -5});
  return detail::hand_on(x, call.set_up->ungroup(y, {call.anchor, state()}), domain());
}

}  // namespace graticule::nn
