// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace graticule::nn {

enum class Verdict : std::uint8_t {
  sharded,  ///< has got a forward that communicates
  local,    ///< each cell (or its channels) by itself: right as it is
  walked,   ///< a container, or a model's own class, whose children were looked at; its own code cannot be seen
  refused,  ///< would be wrong on shards, or is not known
};

[[nodiscard]] char const* to_string(Verdict verdict) noexcept;

/// What became of one module.
struct ShardedModule {
  std::string path;  ///< as in the names of parameters: `encoder.0`; empty for the model itself
  std::string type;
  Verdict verdict = Verdict::refused;
  std::string reason;
};

struct ShardReport {
  std::vector<ShardedModule> modules;  ///< depth first

  [[nodiscard]] int num(Verdict verdict) const noexcept;
  /// One line a module.
  [[nodiscard]] std::string text() const;
};

enum class OnRefusal : std::uint8_t { fail, report };

struct ShardOptions {
  /// What padding of rows and columns holds: LibTorch's padding mode, as in the serial model, or the domain's boundary
  /// (poles, periodic longitude).
  Padding padding = Padding::by_mode;
  /// Paths or types (`MyBlock`) that are right on shards as they are, with all their children.
  std::vector<std::string> local = {};
  /// Cut axes of layers that see the tensor in another order: `{"blocks.0.norm", {{-3, -2}, grid}}` for
  /// [rows, columns, channels]. For normalisations and `Dropout`.
  std::map<std::string, Sharding> shardings = {};
  /// See `BatchNormBase`.
  std::optional<Comm> data_team = {};
  /// Seed and first sample of the masks of dropout layers; a layer's number comes from its path.
  RandomOptions random = {};
  OnRefusal on_refusal = OnRefusal::fail;
};

/// Gives the layers of a LibTorch model sharded forwards, in place.
///
/// Every parameter and buffer stays the same tensor with the same name, so optimizers, files and other references stay
/// good; a sharded layer still is its serial type to `as<>()`. Layers in `Sequential`, `ModuleList` and `ModuleDict` are
/// reached as they are. A layer that a class of one's own calls by a member is reached if the member is a `Layer`:
/// LibTorch has no hooks on forwards, so a `torch::nn::Conv2d` member would silently stay serial and is refused. A module
/// that several parents share stays shared. What a class does between its layers (functional calls, reshapes, means over
/// rows) cannot be seen: `try_sharded` compares.
/// Example: `auto const report = shard(*model, domain); spdlog::info(report.text());`
///
/// Collective. @throws `NotSharded` on all ranks, naming every refused module, its type and why; the model is then as it
///         was. `ModelDisagreement` where ranks hold different models
ShardReport shard(torch::nn::Module& model, Domain const& domain, ShardOptions const& options = {});

/// One call of a sharded layer in a trial.
struct TrialCall {
  std::string path;
  std::vector<std::int64_t> sizes;  ///< of the whole output
  std::vector<Index> rows;          ///< of each part along latitude
  Index num_messages = 0;           ///< that the busiest rank sent in this call
  Index bytes = 0;
  /// Largest difference from the reference's output of the same call, relative to that output's largest value; none where
  /// the reference has no such call.
  std::optional<double> difference;
};

struct Trial {
  double output_difference = 0;    ///< relative, infinite where sizes differ
  double gradient_difference = 0;  ///< of the input's gradient for a random cotangent
  std::vector<TrialCall> calls;    ///< of the sharded model, in their order

  /// A table of the calls, with the first one that differs by more than `tolerance` marked.
  [[nodiscard]] std::string text(double tolerance = 1e-6) const;
};

using Forward = std::function<torch::Tensor(torch::Tensor const&)>;

/// Runs a model on a whole input on every rank, its sharded twin on shards, and compares, forward and backward.
///
/// Both run in the mode they are in, `train` or `eval`. Outputs are sharded as inputs are (last two axes), or whole on all
/// ranks where they have fewer axes than the input.
/// Example: `try_sharded([&](auto& x) { return serial->forward(x); }, [&](auto& x) { return model->forward(x); }, x, domain)`
/// @param reference the model as it was before `shard`. A clone sharded over one rank,
///        `Domain(Comm(MPI_COMM_SELF), ProcessGrid{1, 1})`, lets the first layer that differs be named, not only the end
/// @param x the whole input, the same on all ranks @param cuts of rows and columns; none: balanced
/// Collective. Cost: the whole model on every rank; meant for small inputs.
[[nodiscard]] Trial try_sharded(Forward const& reference, Forward const& sharded, torch::Tensor const& x,
                                Domain const& domain, std::optional<std::pair<Cuts, Cuts>> const& cuts = {});

}  // namespace graticule::nn
