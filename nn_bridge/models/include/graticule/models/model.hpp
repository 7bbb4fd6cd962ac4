// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model_kind.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace graticule::models {

/// Size and kind of a network.
struct ModelOptions {
  ModelKind kind = ModelKind::convnet;
  std::int64_t num_inputs = 1;
  std::int64_t num_statics = 0;
  std::int64_t num_outputs = 1;
  std::int64_t channels = 32;
  std::int64_t blocks = 4;
  std::int64_t kernel = 3;                      ///< odd
  std::vector<std::int64_t> odd_channels = {};  ///< inputs that are components of a horizontal vector
  std::vector<double> latitudes = {};           ///< degrees north of all rows of the grid
  std::int64_t num_columns = 0;                 ///< of the grid
  std::filesystem::path program = {};           ///< file of `ModelKind::program`, which has its own channels and blocks
  /// Of the channels, for messages about a program that does not fit.
  std::vector<std::string> input_names = {}, static_names = {}, output_names = {};
};

/// A network from fields to fields of the same grid, divided among the ranks of a domain.
class Model : public torch::nn::Module {
 public:
  /// Collective. @param inputs [batch, inputs, rows, columns] of this rank
  /// @param statics [rows, statics], functions of latitude; ignored by a network without
  /// @return [batch, outputs, rows, columns]
  virtual torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) = 0;
};

/// A network of a kind that graticule-train trains, with LibTorch's first weights.
///
///     h = stem([inputs, statics]) * (1 + gate(statics));   h = trunk(h);   output = head(h)
///
/// The stem is a k x k convolution that crosses ranks, poles and the date line; the gate is a network of two layers on
/// the static values of a row, the head a 1 x 1 convolution. The gate lets one weight mean something else at every
/// latitude, as the Coriolis parameter does in a wind balance. Kinds of models differ in their trunk. What holds most
/// parameters is a unit: gathered, and waited for, on its own.
/// Example: two input fields, one output, on 3 ranks with rows [0, 11), [11, 22) and [22, 33) of 33:
/// `auto net = make_model({.num_inputs = 2, .latitudes = latitudes, .num_columns = 64}, domain);`
/// `net->forward(x, {})` gives [1, 1, 11, 64] from x[1, 2, 11, 64] on each.
/// A `program` is the network of the file with its weights (`program::ShardedProgram`): the inputs, then the statics as
/// channels that are constant along rows, are its channels. Batches of a program exported for one sample run one by
/// one.
/// @throws `BadCoordinates` (usage) for `sfno` on latitudes without a quadrature rule; `ShapeMismatch` and
/// `Unsupported` (usage) for a program of other channels or another grid; what `program::Program` throws
[[nodiscard]] std::shared_ptr<Model> make_model(ModelOptions const& options, nn::Domain const& domain);

/// Writes a model of kind `program` with its present weights, for PyTorch (`torch.export.load`). By one rank.
/// @throws `Unsupported` for a model of another kind; `OutputError`
void save_program(Model const& model, std::filesystem::path const& file);

}  // namespace graticule::models
