// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/training/data_parallel/checks.hpp>
#include <graticule/training/sharded/clip.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace graticule::training {

namespace detail {
class ShardEngine;
}

/// Treatment of a unit's whole parameters between its forward and its backward.
enum class BetweenPasses : std::uint8_t {
  released,
  kept,
  in_groups,  ///< sharded over `ranks_per_group` ranks, which gather them from each other for the backward
};

/// Options of `ShardedParameters`.
struct ShardedParametersOptions {
  /// Dtypes of real floating-point tensors; shards, optimizer and files keep the dtype of the model.
  struct Precision {
    std::optional<torch::ScalarType> parameters = {};  ///< of gathered parameters, the computation and inputs of units
    std::optional<torch::ScalarType> gradients = {};   ///< in messages; 16-bit ones are summed in f32
    std::optional<torch::ScalarType> buffers = {};
  };

  /// An event of a unit, for `on_event`.
  enum class Event : std::uint8_t {
    gather_posted,
    gather_waited,
    forward_begun,
    forward_ended,
    backward_begun,
    backward_ended,
    gradients_posted,
    gradients_summed,
    released,
  };

  /// Teams over which everything is replicated, with their rules, applied in order to the gradients of shards.
  std::vector<nn::TeamRule> replicas = {};
  BetweenPasses between_passes = BetweenPasses::released;
  BetweenPasses root_between_passes = BetweenPasses::kept;
  /// A divisor of the team's size: consecutive ranks, such as those of a node, form a group. Each keeps one of
  /// `ranks_per_group` parts of the units that are `in_groups`.
  int ranks_per_group = 1;
  int num_prefetched = 1;  ///< number of units gathered ahead of their use; 0: none
  /// Units to gather ahead, in this order, when the forward or the backward of a unit begins, by names as in `units()`.
  /// For units that are not listed, the unit that followed last time.
  std::map<std::string, std::vector<std::string>> ahead_in_forward = {};
  std::map<std::string, std::vector<std::string>> ahead_in_backward = {};
  Precision precision = {};
  /// Modules that stay whole on every rank, whose gradients this object does not reduce.
  std::vector<std::shared_ptr<torch::nn::Module>> ignored = {};
  /// Whether a `Unit` or `Layer` is a unit, from its name and the number of elements of its parameters that are in no
  /// unit below. By default all modules with such parameters are units.
  std::function<bool(std::string const& name, std::int64_t num_elements)> is_unit = {};
  double gradient_factor = 1;  ///< in addition to the shard team's rule
  /// Treatment of parameters with a gradient on only some ranks.
  Unused unused = Unused::allowed;
  CheckedCalls checks = CheckedCalls::by_environment;  ///< whether ranks compare their next operation
  /// Called with each event and its unit, in order.
  std::function<void(Event, std::string const& unit)> on_event = {};
};

/// Whether an optimizer updates each element from its own values and gradients, which alone is right for rows.
enum class ElementwiseOptimizer : std::uint8_t {
  known,    ///< it is LibTorch's SGD, Adam, AdamW, Adagrad or RMSprop
  vouched,  ///< its author says so: no norms, means, factors or matrices of whole parameters
};

/// Storage of gradients until a synchronised backward.
enum class Unsynchronised : std::uint8_t {
  whole,  ///< whole on every rank: no messages, memory of a whole model
  cut,    ///< summed over the shard team immediately, over the replicas later
};

/// Shards the parameters of a model over a team of ranks: each rank keeps some rows of every parameter, with the
/// gradients and the optimizer's state of these rows. Whole parameters exist only while they are needed.
///
/// The units are the model itself and the `Unit` and `Layer` members in it; a parameter belongs to the nearest unit
/// above it. Around a unit's forward and backward its parameters are gathered and released in place, in the module's
/// leaf tensors. After its backward their gradients are sent to the ranks that keep the rows, summed there, averaged
/// according to the team's rule and added to the `grad` of `parameters()`, which the optimizer holds. Results are those
/// of the unsharded model on the whole batch.
/// Example: 3 ranks, each with its own samples:
///     training::ShardedParameters sharded(model, {comm, nn::Reduction::mean});
///     torch::optim::Adam optimizer(sharded.parameters(), 1e-3);
///     auto const loss = loss_of(sharded.forward([&] { return model->forward(x); }), y);
///     loss.backward();
///     sharded.clip_grad_norm(1.0);
///     optimizer.step();
/// At any other time parameters are read under `gathered()`; otherwise LibTorch throws `ParametersChanged`.
/// Forwards, backwards and all calls marked so are collective over the shard team, `replicas` included.
/// Cost: a forward and a backward gather each unit once, (W - 1) messages of its shard, and send each whole gradient
/// once; memory 1/W of parameters, gradients and optimizer, plus the units that are whole at a time: the running ones
/// and `num_prefetched` more. Source: Zhao et al. 2023, arXiv:2304.11277.
class ShardedParameters {
 public:
  /// Memory and traffic on this rank.
  struct Stats {
    Index shard_bytes = 0;          ///< of this rank's rows
    Index gathered_bytes = 0;       ///< of whole parameters, now
    Index group_bytes = 0;          ///< of this rank's parts of units that groups keep for a backward, now
    Index peak_gathered_bytes = 0;  ///< since construction or `reset_stats`
    Index gathers = 0;
    Index gathers_ahead = 0;  ///< of these, those started before the unit was needed
    Index scatters = 0;
    Index group_gathers = 0;  ///< of the gathers, those within groups
    Index messages = 0;       ///< sent by this rank over the shard team
    Index bytes = 0;
  };

  /// A set of parameters that are gathered together.
  struct UnitInfo {
    std::string name;  ///< "(root)" for the model itself
    std::vector<std::string> parameters;
    Index bytes = 0;  ///< when gathered
  };

  /// Uses the values of the team's first rank. Collective over the shard team and all replica teams.
  /// @param model its parameters are managed until `unwrap` or destruction @param options see
  ///        `ShardedParametersOptions` @param shards rule `mean` if its ranks have their own samples, `sum` if their
  ///        losses are parts of one loss
  /// @throws on all ranks: `NoParameters`; `ReplicaMismatch` where models differ, or which of their parameters need
  ///         gradients; `WrongState` for a model with a managed part, or under `DataParallel` or `Daso`;
  ///         `ParametersChanged` for a model whose `ShardedParameters` was destroyed without `unwrap`; `UnknownName`
  ///         for an ignored module outside the model; `UnsupportedTensor`; `WrongState` for a parameter of two units;
  ///         `BadOption`; `UnknownName` for an unknown name of a unit to gather ahead; `ArgumentDisagreement` where
  ///         units or options differ
  ShardedParameters(std::shared_ptr<torch::nn::Module> model, nn::TeamRule const& shards,
                    ShardedParametersOptions options = {});
  ShardedParameters(ShardedParameters&&) noexcept;
  ShardedParameters& operator=(ShardedParameters&&) = delete;
  /// Leaves a model without its whole parameters, unless `unwrap` was called. Not collective.
  ~ShardedParameters();

  /// Runs `call`, the model's forward, with the parameters of the model itself. A model that is a `Unit` may be called
  /// directly. @return what `call` returns: tensors, or vectors and tuples of them
  template <class Call>
  auto forward(Call&& call) {
    return root_call().run(root_module(), call);
  }

  /// Leaf tensors with this rank's rows, for an optimizer that acts element by element: see `ElementwiseOptimizer`,
  /// which `adopt` compares; one that is made from these is not seen. In the order and under the names of the model's
  /// parameters; empty where other ranks have all rows. Ignored parameters are not included.
  [[nodiscard]] std::vector<torch::Tensor> parameters() const;
  [[nodiscard]] nn::NamedTensors named_parameters() const;
  /// Replaces the whole parameters by the rows in an optimizer made for the model; groups and options are kept.
  /// @throws `WrongState` when it has made a step; `Unsupported` for LBFGS, which would search in the rows only, and
  /// for
  ///         an optimizer of a class of your own unless it is `vouched` for
  void adopt(torch::optim::Optimizer& optimizer, ElementwiseOptimizer elementwise = ElementwiseOptimizer::known) const;

  /// During its lifetime, backwards keep their gradients for the next synchronised backward.
  class [[nodiscard]] NoSync;
  NoSync no_sync(Unsynchronised how = Unsynchronised::whole);

  /// Scales all gradients so that their norm is at most `max_norm`. Collective. @return the norm before, the same on
  /// all ranks @throws `NotFinite`
  double clip_grad_norm(double max_norm, ClipOptions const& options = {});

  /// During its lifetime all whole parameters can be read; values written to them are lost. Construction is collective.
  class [[nodiscard]] Gathered;
  Gathered gathered();

  /// Restores the model's whole parameters; the object cannot be used any more. Collective.
  void unwrap();
  /// To be called after an exception in forward or backward: drops the gradients of that backward, those that `no_sync`
  /// kept whole, and messages in flight. Collective where ranks have stopped at different points; otherwise local.
  void reset();

  [[nodiscard]] Stats stats() const;
  void reset_stats();
  [[nodiscard]] std::vector<UnitInfo> units() const;
  /// Warnings of the constructor, such as parameters that an ignored module shares.
  [[nodiscard]] std::vector<std::string> const& notes() const;

  [[nodiscard]] detail::ShardEngine& engine() const noexcept { return *engine_; }

 private:
  /// Gives a model that is not a unit the hooks of a unit.
  class RootCall : public nn::Hooked {
   public:
    template <class Call>
    auto run(torch::nn::Module& model, Call& call) {
      return this->call_hooked<std::decay_t<decltype(call())>>(model, [&call] { return call(); });
    }
  };
  RootCall& root_call() const noexcept { return *root_call_; }
  torch::nn::Module& root_module() const noexcept;

  std::shared_ptr<detail::ShardEngine> engine_;
  std::unique_ptr<RootCall> root_call_;
};

/// Scope of `no_sync`: backwards within it do not synchronise gradients.
class ShardedParameters::NoSync {
 public:
  explicit NoSync(detail::ShardEngine& engine, Unsynchronised how);
  NoSync(NoSync const&) = delete;
  NoSync& operator=(NoSync const&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<detail::ShardEngine> engine_;
};

/// Scope of `gathered`: parameters are whole within it.
class ShardedParameters::Gathered {
 public:
  explicit Gathered(detail::ShardEngine& engine);
  Gathered(Gathered const&) = delete;
  Gathered& operator=(Gathered const&) = delete;
  ~Gathered();

 private:
  std::shared_ptr<detail::ShardEngine> engine_;
};

}  // namespace graticule::training
