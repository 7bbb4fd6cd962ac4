// SPDX-License-Identifier: BSD-3-Clause
// A table of sharded layers and their serial counterparts, for what all layers have in common.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace graticule::test {

using LayerFunction = std::function<torch::Tensor(torch::Tensor const&)>;

/// A layer on this rank and its serial counterpart with the same parameters, both of one dtype.
struct MadeLayer {
  LayerFunction sharded = {}, serial = {};
  std::vector<torch::Tensor> sharded_parameters = {}, serial_parameters = {};
  std::vector<torch::Tensor> sharded_buffers = {};
};

struct TableLayer {
  std::string name;
  std::vector<std::int64_t> sizes;  ///< of the whole input
  std::function<MadeLayer(nn::Domain const&, torch::Dtype)> make;
  /// Dtypes of LibTorch's layer that this one refuses by name.
  std::set<torch::Dtype> refused = {};
  bool twice_differentiable = true;
  bool of_length = false;  ///< of a length, as a field of one column: needs a domain whose longitude is whole
};

[[nodiscard]] std::vector<TableLayer> layer_table();

/// Numbers that all dtypes hold exactly, and many of them twice, the same on all ranks.
[[nodiscard]] torch::Tensor short_numbers(std::mt19937& random, std::vector<std::int64_t> const& sizes,
                                          torch::Dtype dtype);

/// A domain of all ranks over one of their grids.
[[nodiscard]] nn::Domain domain_of(std::size_t repeat);
/// The same, over a grid that the layer takes.
[[nodiscard]] nn::Domain domain_of(std::size_t repeat, TableLayer const& layer);

/// Calls `check(layer, domain)` for each layer of the table, on one grid of ranks after the other.
template <class Check>
void for_each_layer(Check const& check) {
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    SCOPED_TRACE(layer.name);
    check(layer, domain_of(repeat++, layer));
  }
}

/// The box that this rank's shard of a field is. Collective.
[[nodiscard]] Part part_of(nn::Domain const& domain, torch::Tensor const& shard);

/// What a run of one layer leaves: its output, and the gradients of input and parameters, zeros where there is none.
struct LayerResults {
  torch::Tensor y, x_grad;
  std::vector<torch::Tensor> parameter_grads;
};

/// Adds the gradients of `result` times `cotangent` to `results`, in the input and the parameters.
void add_gradients(LayerResults& results, torch::Tensor const& result, torch::Tensor const& x,
                   std::vector<torch::Tensor> const& parameters, torch::Tensor const& cotangent);

/// @param cotangent of the output
[[nodiscard]] LayerResults run_layer(LayerFunction const& function, std::vector<torch::Tensor> const& parameters,
                                     torch::Tensor const& x, LayerFunction const& cotangent);

/// Expects results as near to `exact`, those of LibTorch's layer in f64, as those of LibTorch's layer in their own
/// dtype are, or nearly so. Collective. @param in this rank's box of the input
void expect_as_exact(nn::Domain const& domain, LayerResults const& found, Part const& in, LayerResults const& serial,
                     LayerResults const& exact);

}  // namespace graticule::test
