// SPDX-License-Identifier: BSD-3-Clause
#include "ring_attention.hpp"

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/types.hpp>

#include "call/kept.hpp"
#include "call/recorded_calls.hpp"

#include <algorithm>
#include <limits>

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using RingPointer = std::shared_ptr<RingTokens const>;

/// Scores that exist at one time.
constexpr Index most_scores = Index(1) << 22;

/// A message to the next rank and one from the rank before, under way.
class Shift {
 public:
  /// @param sent contiguous, on the host; kept until the end @param received sizes of what comes
  /// @param like of the device that both belong to
  Shift(Comm const& comm, torch::Tensor sent, std::vector<std::int64_t> const& received, torch::Tensor const& like)
      : lanes_(comm), received_(lanes_.keep(message_memory(received, like))) {
    lanes_.take((comm.rank() + comm.num_ranks() - 1) % comm.num_ranks(), received_.mutable_data_ptr(),
                Index(received_.nbytes()));
    auto const& kept = lanes_.keep(std::move(sent));
    lanes_.post((comm.rank() + 1) % comm.num_ranks(), kept.const_data_ptr(), Index(kept.nbytes()));
  }
  [[nodiscard]] torch::Tensor wait() {
    lanes_.wait("for the tokens of the rank before");
    return received_;
  }

 private:
  messages::Lanes lanes_;
  torch::Tensor received_;
};

torch::Tensor on_host(torch::Tensor const& x) {
  auto held = as_message(x);
  await_messages(x.device());
  return held;
}

/// Queries in pieces whose scores against `num_keys` keys are few.
template <class Work>
void for_queries(torch::Tensor const& q, Index num_keys, Work const& work) {
  auto const queries = q.size(-2);
  auto const others = std::max(Index(1), q.size(0) * q.size(1) * num_keys);
  auto const step = std::max(Index(1), most_scores / others);
  for (Index at = 0; at < queries; at += step) work(at, std::min(step, queries - at));
}

/// Calls `work(block, r)` with the [2, ...] keys and values of each rank r, this rank's first; the next ones travel
/// meanwhile.
template <class Work>
void go_round(RingTokens const& ring, torch::Tensor const& own, Work const& work) {
  auto const& comm = ring.comm;
  auto const device = own.device();
  if (comm.num_ranks() == 1) return work(own, 0);
  auto block = on_host(own);
  for (int step = 0; step < comm.num_ranks(); ++step) {
    int const from = (comm.rank() + comm.num_ranks() - step) % comm.num_ranks();
    bool const last = step + 1 == comm.num_ranks();
    auto sizes = block.sizes().vec();
    sizes[3] = ring.counts[std::size_t((from + comm.num_ranks() - 1) % comm.num_ranks())];
    std::unique_ptr<Shift> shift;
    if (!last) shift = std::make_unique<Shift>(comm, block, sizes, own);
    work(from_message(block, device), from);
    if (shift) block = shift->wait();
  }
}

/// Attention of queries to the keys seen so far.
struct Merged {
  torch::Tensor most;  ///< largest score, [..., queries, 1]
  torch::Tensor sum;   ///< of exp(score - most)
  torch::Tensor out;   ///< sum of exp(score - most) v

  explicit Merged(torch::Tensor const& q) {
    auto sizes = q.sizes().vec();
    sizes.back() = 1;
    out = torch::zeros_like(q);
    sum = torch::zeros(sizes, q.options());
    most = torch::full(sizes, -std::numeric_limits<double>::infinity(), q.options());
  }

  void add(torch::Tensor const& q, torch::Tensor const& k, torch::Tensor const& v) {
    if (k.size(-2) == 0 || k.numel() == 0) return;
    for_queries(q, k.size(-2), [&](Index at, Index count) {
      auto const part = [&](torch::Tensor const& t) { return t.narrow(-2, at, count); };
      auto const scores = torch::matmul(part(q), k.transpose(-2, -1));
      auto const now = torch::maximum(part(most), scores.amax(-1, true));
      auto const weights = torch::exp(scores - now);
      auto const scale = torch::exp(part(most) - now);
      part(sum).mul_(scale).add_(weights.sum(-1, true));
      part(out).mul_(scale).add_(torch::matmul(weights, v));
      part(most).copy_(now);
    });
  }
};

struct RingFunction : torch::autograd::Function<RingFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& q, torch::Tensor const& k,
                               torch::Tensor const& v, torch::Tensor const& /*anchor*/, RingPointer const& ring) {
    keep(ctx, ring);
    auto const queries = q.to(type_of_sums(q.scalar_type()));
    Merged merged(queries);
    go_round(*ring, torch::stack({k, v}), [&](torch::Tensor const& block, int) {
      auto const wider = block.to(queries.scalar_type());
      merged.add(queries, wider[0], wider[1]);
    });
    auto const result = merged.out / merged.sum;
    ctx->save_for_backward({q, k, v, result, merged.most + torch::log(merged.sum)});
    return {result.to(q.scalar_type()), make_token(q.options())};
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    if (torch::GradMode::is_enabled())
      throw Error(
          "Unsupported",
          "AttentionKernel::ring is differentiable once; AttentionKernel::plain is differentiable to any order");
    auto const& ring = *kept<RingPointer>(ctx);
    auto const saved = ctx->get_saved_variables();
    auto const type = saved[3].scalar_type();
    auto const q = saved[0].to(type);
    auto const gradient = grads[0].to(type);
    auto const inner = (gradient * saved[3]).sum(-1, true);
    auto const logs = saved[4];
    auto const& comm = ring.comm;
    auto dq = torch::zeros_like(q);
    // Gradients of the block at hand by all ranks that have had it.
    torch::Tensor sums;
    go_round(ring, torch::stack({saved[1], saved[2]}), [&](torch::Tensor const& given, int from) {
      auto const block = given.to(type);
      sums = from == comm.rank()
                 ? torch::zeros_like(block)
                 : from_message(Shift(comm, on_host(sums), block.sizes().vec(), sums).wait(), q.device());
      if (block.numel() == 0) return;
      for_queries(q, block.size(-2), [&](Index at, Index count) {
        auto const part = [&](torch::Tensor const& t) { return t.narrow(-2, at, count); };
        auto const weights = torch::exp(torch::matmul(part(q), block[0].transpose(-2, -1)) - part(logs));
        auto const slopes = weights * (torch::matmul(part(gradient), block[1].transpose(-2, -1)) - part(inner));
        part(dq).add_(torch::matmul(slopes, block[0]));
        sums[0].add_(torch::matmul(slopes.transpose(-2, -1), part(q)));
        sums[1].add_(torch::matmul(weights.transpose(-2, -1), part(gradient)));
      });
    });
    // The last block seen is that of the next rank.
    if (comm.num_ranks() > 1) {
      std::vector<std::int64_t> sizes{2};
      for (auto const size : saved[1].sizes()) sizes.push_back(size);
      sums = from_message(Shift(comm, on_host(sums), sizes, sums).wait(), q.device());
    }
    auto const back = [&](torch::Tensor const& t, int i) { return t.to(saved[std::size_t(i)].scalar_type()); };
    return {back(dq, 0), back(sums[0], 1), back(sums[1], 2), {}, {}};
  }
};

}  // namespace

torch::Tensor ring_attention(RingPointer const& ring, torch::Tensor const& q, torch::Tensor const& k,
                             torch::Tensor const& v, torch::Tensor const& anchor) {
  return RingFunction::apply(q, k, v, anchor, ring)[0];
}

}  // namespace graticule::nn::detail
