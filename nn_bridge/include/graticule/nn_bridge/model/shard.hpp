// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/model/random_options.hpp>
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

/// Result of `shard` for one module.
enum class Verdict : std::uint8_t {
  sharded,        ///< has a sharded forward
  local,          ///< acts on single cells (and their channels): correct without a change
  children_only,  ///< a container or user-defined class; its children were examined, its own code cannot be
  refused,        ///< wrong on shards, or unknown
};

/// Name of a verdict, for messages.
[[nodiscard]] char const* to_string(Verdict verdict) noexcept;

/// Result of `shard`.
struct ShardReport {
  /// Report on one module.
  struct Module {
    std::string path;  ///< as in parameter names: `encoder.0`; empty for the model itself
    std::string type;
    Verdict verdict = Verdict::refused;
    std::string reason;
  };
  std::vector<Module> modules;  ///< depth first

  [[nodiscard]] int num(Verdict verdict) const noexcept;
  /// One line per module.
  [[nodiscard]] std::string text() const;
};

/// Whether a refused module is an error or only reported.
enum class OnRefusal : std::uint8_t { fail, report };

/// Whether the operators between the layers of a sharded model run as on the globe.
enum class WatchOperators : std::uint8_t {
  always,
  never,  ///< they see this rank's shards alone: for code that is right on them
};

/// Options of `shard`.
struct ShardOptions {
  /// Values of the padding of rows and columns: LibTorch's padding mode, as in the serial model, or the domain's
  /// boundary (poles, periodic longitude).
  Padding padding = Padding::by_mode;
  /// Paths or types (`MyBlock`) that are correct on shards without a change, including all their children. What they do
  /// cannot be told from code between layers, so that all of it sees this rank's shards alone: operators that look
  /// wrong are warnings.
  std::vector<std::string> local = {};
  /// Cut axes of layers whose input has another order of axes: `{"blocks.0.norm", {{-3, -2}, grid}}` for
  /// [rows, columns, channels]. For normalisations and `Dropout`.
  std::map<std::string, Sharding> shardings = {};
  /// Of batch normalisations: see `BatchNorm2d`.
  std::optional<Comm> data_team = {};
  /// Seed and first sample of dropout masks; a layer's number is derived from its path.
  RandomOptions random = {};
  OnRefusal on_refusal = OnRefusal::fail;
  WatchOperators watch = WatchOperators::always;
};

/// Replaces the forwards of a LibTorch model's layers by sharded ones, in place.
///
/// Every parameter and buffer remains the same tensor with the same name, so optimizers, files and other references
/// stay valid; `as<>()` still finds a sharded layer by its serial type. Layers in `Sequential`, `ModuleList` and
/// `ModuleDict` are converted as they are. A layer that is a member of a user-defined class is converted if the member
/// is a `Layer`: LibTorch has no forward hooks, so a `torch::nn::Conv2d` member would silently stay serial and is
/// refused. A module that several parents share stays shared.
///
/// Code of a class between its layers runs as on the globe (`ShardOptions::watch`): `h - h.mean({2, 3}, true)`,
/// `torch::roll` of rows, `F::pad`; what is not known is `NotSharded` on all ranks, with the operator and the module.
/// Sums over cells that no layer takes, as in a loss, are those of this rank. Numbers that come from sizes
/// (`h / h.size(2)`) or leave LibTorch (`item()`) are refused where ranks differ or they are the size of the shard.
/// Code on the input before the first layer is refused where it needs other ranks, without `mark_shard`. `Examined` is
/// the way for code that is right on shards. docs/layers.md has the details. Example: `auto const report =
/// shard(*model, domain); spdlog::info(report.text());`
///
/// Collective. @throws `NotSharded` on all ranks, with path, type and reason of every refused module; the model is then
/// unchanged. `ArgumentDisagreement` if ranks hold different models
ShardReport shard(torch::nn::Module& model, Domain const& domain, ShardOptions const& options = {});

/// Says that `x` is this rank's shard of a field, so that code before the first layer runs as on the globe: first line
/// of a forward such as `nn::mark_shard(x, *this); return enter(x - x.mean({2, 3}, true));`. Without it such code is
/// refused. Outputs of layers are known as shards.
///
/// @param x its last two axes, or those of the domain's grid that are cut, are rows and columns
/// @param module the model, or a module in it that is not a layer. In a model that `shard` has not converted on this
///        thread, and on one rank, nothing happens
/// Collective; an all-gather of one number.
void mark_shard(torch::Tensor const& x, torch::nn::Module const& module);

/// Result of `try_sharded`.
struct Trial {
  /// One call of a sharded layer.
  struct Call {
    std::string path;
    std::vector<std::int64_t> sizes;  ///< of the whole output
    std::vector<Index> rows;          ///< of each part along latitude
    Index num_messages = 0;           ///< maximum over ranks, of this call
    Index bytes = 0;
    /// Maximum difference from the reference's output of the same call, relative to that output's maximum; none if the
    /// reference lacks this call.
    std::optional<double> difference;
  };

  /// The gradient of one parameter.
  struct Parameter {
    std::string name;  ///< of a converted layer; for others "parameter 3 of the model's own code"
    std::vector<std::int64_t> sizes;
    double difference = 0;  ///< relative, infinite where one model has no gradient, or no such parameter
  };

  double output_difference = 0;  ///< relative, infinite where sizes differ
  /// The largest of the gradients of the input and of all parameters, for random cotangents.
  double gradient_difference = 0;
  double input_gradient_difference = 0;
  std::vector<Parameter> parameters;  ///< in order of their first use
  std::vector<Call> calls;            ///< of the sharded model, in order
  /// What operators between the layers do that `shard` refuses; the trial has run them on this rank's shards.
  std::vector<std::string> refusals;
  int num_parts = 0;  ///< ranks with cells of the input: where one has all, nothing was tested

  /// A table of the calls, which marks the first difference greater than `tolerance`, and of all that differs.
  [[nodiscard]] std::string text(double tolerance = 1e-6) const;
};

/// Runs a model on the whole input on every rank and its sharded copy on shards, and compares both, forward and
/// backward.
///
/// Twice: with the parameters as they are, and moved by random numbers, because a parameter at zero hides what it
/// multiplies; afterwards they have their values again. The parameters are those that the outputs depend on. Those of
/// both models must have equal values; of those with the same sizes and values, the first that one model uses is
/// compared with the first of the other. Their gradients are summed over the ranks, as by `GradientSync`. On one rank
/// nothing is divided, and any model passes: `num_parts` and `text` say so, and `refusals` lists what would be wrong.
/// Both keep their mode, `train` or `eval`; batch normalisations see the input twice. Outputs must be sharded as the
/// inputs (last two axes), or whole on all ranks if they have fewer axes than the input. Example:
/// `try_sharded([&](auto& x) { return serial->forward(x); }, [&](auto& x) { return model->forward(x); }, x, domain)`
/// @param sharded the sharded model @param domain the ranks that share a sample @param reference the model before
///        `shard`. With a clone sharded over one rank, `Domain(Comm(MPI_COMM_SELF), ProcessGrid{1, 1})`, the result
///        identifies the first different layer, not only the final difference
/// @param x the whole input, equal on all ranks @param cuts of rows and columns; default: balanced
/// Collective. Cost: the whole model on every rank; intended for small inputs.
[[nodiscard]] Trial try_sharded(std::function<torch::Tensor(torch::Tensor const&)> const& reference,
                                std::function<torch::Tensor(torch::Tensor const&)> const& sharded,
                                torch::Tensor const& x, Domain const& domain,
                                std::optional<FieldCuts> const& cuts = {});

}  // namespace graticule::nn
