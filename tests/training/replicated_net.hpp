// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/data_parallel/buckets.hpp>

#include "larger.hpp"

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graticule::test {

/// Some layers of f64 in a chain, each one a unit.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    conv = register_module("conv", nn::Unit<torch::nn::Conv2d>(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    first = register_module("first", nn::Unit<torch::nn::Linear>(4 * 5 * 5, 16));
    second = register_module("second", nn::Unit<torch::nn::Linear>(16, 16));
    last = register_module("last", nn::Unit<torch::nn::Linear>(16, 3));
    scale = register_parameter("scale", torch::ones({}));
    to(torch::kDouble);
  }
  torch::Tensor forward(torch::Tensor const& x) {
    auto const y = torch::tanh(first(torch::gelu(conv(x)).flatten(1)));
    return last(torch::tanh(second(y))) * scale;
  }
  nn::Unit<torch::nn::Conv2d> conv{nullptr};
  nn::Unit<torch::nn::Linear> first{nullptr};
  nn::Unit<torch::nn::Linear> second{nullptr};
  nn::Unit<torch::nn::Linear> last{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(Net);

/// So small that a few parameters fill several.
constexpr training::BucketSizes small_buckets{.first_bytes = 64, .bytes = 2000};

/// A few parameters of one's own choice.
struct Holder : torch::nn::Module {
  torch::Tensor add(std::string const& name, torch::Tensor const& value) { return register_parameter(name, value); }
};

inline Net copy_of(Net const& net) { return Net(std::dynamic_pointer_cast<NetImpl>(net->clone())); }

/// Samples of a batch: `num` a rank, the same on all ranks for one `step`.
inline std::pair<torch::Tensor, torch::Tensor> whole_batch(int step, std::int64_t num) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t(step) + 1);
  return {torch::randn({num, 2, 5, 5}, generator, torch::kDouble), torch::randn({num, 3}, generator, torch::kDouble)};
}

inline torch::Tensor loss_of(Net& net, std::pair<torch::Tensor, torch::Tensor> const& batch) {
  return torch::mse_loss(net(batch.first), batch.second);
}

/// The part of a batch that belongs to a rank.
inline std::pair<torch::Tensor, torch::Tensor> part_of(std::pair<torch::Tensor, torch::Tensor> const& batch,
                                                       Comm const& comm) {
  auto const num = batch.first.size(0) / comm.num_ranks();
  return {batch.first.narrow(0, comm.rank() * num, num), batch.second.narrow(0, comm.rank() * num, num)};
}

/// The largest difference between gradients, over all parameters.
inline double gradient_difference(torch::nn::Module const& a, torch::nn::Module const& b) {
  double largest = 0;
  auto const as = a.parameters();
  auto const bs = b.parameters();
  for (std::size_t i = 0; i < as.size(); ++i)
    largest = larger(largest, (as[i].grad() - bs[i].grad()).abs().max().item<double>());
  return largest;
}

inline double parameter_difference(torch::nn::Module const& a, torch::nn::Module const& b) {
  double largest = 0;
  auto const as = a.parameters();
  auto const bs = b.parameters();
  for (std::size_t i = 0; i < as.size(); ++i) largest = larger(largest, (as[i] - bs[i]).abs().max().item<double>());
  return largest;
}

}  // namespace graticule::test
