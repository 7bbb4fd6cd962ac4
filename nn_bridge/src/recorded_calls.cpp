// SPDX-License-Identifier: BSD-3-Clause
#include "recorded_calls.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <atomic>

namespace graticule::nn::detail {

namespace {

std::atomic<std::uint64_t> num_backwards{0};

}  // namespace

void note_backward() noexcept { ++num_backwards; }

torch::Tensor make_token(torch::TensorOptions const& options) {
  auto const type = c10::typeMetaToScalarType(options.dtype());
  return torch::zeros({}, options.requires_grad(false).dtype(torch::isFloatingType(type) ? type : torch::kFloat));
}

void RecordedCalls::record(torch::Tensor const& output, int ordinal, std::int64_t call, std::string const& layer) {
  auto const node = output.grad_fn();
  if (!node || node->num_inputs() < 2 || node->input_metadata(1).shape_as_dim_vector().size() != 0) return;
  if (calls_.size() >= next_sweep_) {
    drop_expired();
    next_sweep_ = std::max<std::size_t>(64, 2 * calls_.size());
  }
  calls_.push_back({weak_node(node), num_backwards.load(), ordinal, call, layer});
}

void RecordedCalls::drop_expired() {
  std::erase_if(calls_, [](Call const& call) { return call.node.expired() || call.backwards != num_backwards.load(); });
}

torch::Tensor RecordedCalls::tie(Comm const& comm, torch::Tensor const& loss) {
  drop_expired();
  auto const calls = std::exchange(calls_, {});
  if (comm.num_ranks() > 1) {
    Hash hash;
    std::string text = std::to_string(calls.size()) + " differentiable calls";
    for (auto const& call : calls) hash.add(call.ordinal).add(Index(call.call));
    if (!calls.empty())
      text += ", the last of layer " + std::to_string(calls.back().ordinal) + " (" + calls.back().layer + ")";
    require_same(comm, "UnusedOnSomeRanks", hash.value(), text);
  }
  torch::Tensor sum = loss;
  for (auto const& call : calls) {
    auto node = call.node.lock();
    auto const& metadata = node->input_metadata(1);
    auto token = torch::zeros({}, metadata.options());
    torch::autograd::impl::set_gradient_edge(token, torch::autograd::Edge(std::move(node), 1));
    sum = sum + token.to(loss.options()) * 0;
  }
  return sum;
}

}  // namespace graticule::nn::detail
