// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/nn_bridge/replicas.hpp>
#include <graticule/nn_bridge/unit.hpp>
#include <graticule/training/managed.hpp>

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

/// What becomes of a unit's whole parameters between its forward and its backward.
enum class BetweenPasses : std::uint8_t {
  released,
  kept,
  in_groups,  ///< cut over `ranks_per_group` ranks, which gather them for the backward from each other
};
/// What to do where only some ranks have a gradient of a parameter.
enum class UnusedParameters : std::uint8_t { count_as_zero, are_refused };
/// Whether ranks compare what they are about to do; by default where `GRATICULE_CHECK=comm` is set.
enum class PeerChecks : std::uint8_t { by_environment, off, on };

/// Dtypes of real floating-point tensors; shards, optimizer and files keep that of the model.
struct ShardPrecision {
  std::optional<torch::ScalarType> parameters = {};  ///< gathered and computed with; inputs of units are cast to it
  std::optional<torch::ScalarType> gradients = {};   ///< on the wire; 16-bit ones are summed in f32
  std::optional<torch::ScalarType> buffers = {};
};

enum class ShardEvent : std::uint8_t {
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

struct ShardedParametersOptions {
  /// Teams over which all is replicated, with their rules, applied in order to the gradients of shards.
  std::vector<nn::TeamRule> replicas = {};
  BetweenPasses between_passes = BetweenPasses::released;
  BetweenPasses root_between_passes = BetweenPasses::kept;
  /// A divisor of the team's size: ranks that follow each other, such as those of a node, form a group. Each keeps
  /// one part in so many of what is `in_groups`.
  int ranks_per_group = 1;
  int num_prefetched = 1;  ///< units gathered ahead of their use, at a time; 0: none
  /// Which units are gathered ahead, in this order, when the forward or the backward of a unit begins: by names as in
  /// `units()`. For those that are not listed, the unit that followed last time.
  std::map<std::string, std::vector<std::string>> ahead_in_forward = {};
  std::map<std::string, std::vector<std::string>> ahead_in_backward = {};
  ShardPrecision precision = {};
  /// Modules that stay whole on every rank, whose gradients this object does not reduce.
  std::vector<std::shared_ptr<torch::nn::Module>> ignored = {};
  /// Whether a `Hooked` module is a unit: given its name and the elements of its parameters that are in no unit below.
  /// By default all are that have any.
  std::function<bool(std::string const& name, std::int64_t num_elements)> is_unit = {};
  double gradient_factor = 1;  ///< on top of the shard team's rule
  UnusedParameters unused = UnusedParameters::count_as_zero;
  PeerChecks checks = PeerChecks::by_environment;
  /// Told in order what happens to which unit.
  std::function<void(ShardEvent, std::string const& unit)> on_event = {};
};

struct ClipOptions {
  double norm_type = 2;  ///< infinity for the largest element
  /// Gradients of replicated parameters, already the same on all ranks, that the norm counts once: by default those of the
  /// ignored modules.
  std::optional<std::vector<torch::Tensor>> replicated = {};
  enum class NonFinite : std::uint8_t { passes, is_refused } non_finite = NonFinite::passes;
};

/// How gradients wait for a backward that is synchronised.
enum class Unsynchronised : std::uint8_t {
  whole,  ///< on every rank: no messages, memory of a whole model
  cut,    ///< summed over the shard team at once, over the replicas later
};

struct ShardStats {
  Index shard_bytes = 0;          ///< of this rank's rows
  Index gathered_bytes = 0;       ///< of whole parameters, now
  Index group_bytes = 0;          ///< of this rank's parts of what groups keep for a backward, now
  Index peak_gathered_bytes = 0;  ///< since the object was made or `reset_stats`
  Index gathers = 0;
  Index gathers_ahead = 0;  ///< of these, those begun before the unit was needed
  Index scatters = 0;
  Index group_gathers = 0;  ///< of the gathers, those within groups
  Index messages = 0;       ///< sent by this rank over the shard team
  Index bytes = 0;
};

/// Which parameters are gathered together.
struct ShardUnitInfo {
  std::string name;  ///< "(root)" for the model itself
  std::vector<std::string> parameters;
  Index bytes = 0;  ///< when gathered
};

/// Cuts the parameters of a model over a team of ranks: each rank keeps some rows of every parameter, with the gradients
/// and the optimizer's state of these rows, and the whole ones are there while they are needed.
///
/// The units are the model itself and the `Unit` and `Layer` members in it; a parameter belongs to the nearest unit above
/// it. Around a unit's forward and backward its parameters are gathered and released in place, in the leaves that the
/// module has; after its backward their gradients go to the ranks that keep the rows, where they are summed, meaned by
/// the team's rule and added to the `grad` of `parameters()`, which is what the optimizer is to hold. Numbers are those
/// of the uncut model on the whole batch.
/// Example: 3 ranks, each with its own samples:
///     nn::ShardedParameters sharded(model, {comm, nn::Reduction::mean});
///     torch::optim::Adam optimizer(sharded.parameters(), 1e-3);
///     auto const loss = loss_of(sharded.forward([&] { return model->forward(x); }), y);
///     loss.backward();
///     sharded.clip_grad_norm(1.0);
///     optimizer.step();
/// Parameters are read at any other time under `gathered()`; elsewhere LibTorch throws `ReleasedParameter`.
/// Forwards, backwards and all calls marked so are collective over the shard team, `replicas` included.
/// Cost: a forward and a backward gather each unit once, (W - 1) messages of its shard, and send each whole gradient
/// once; memory 1/W of parameters, gradients and optimizer, and the units that are whole at a time: those that run, and
/// `num_prefetched` more. Source: Zhao et al. 2023, arXiv:2304.11277.
class ShardedParameters {
 public:
  /// Takes the values of the team's first rank. Collective over the shard team and all replica teams.
  /// @param shards rule `mean` where its ranks have samples of their own, `sum` where their losses are parts of one
  /// @throws on all ranks: `NoParameters`; `ReplicaMismatch` where models differ; `AlreadyManaged` for a model of which a
  ///         part is; `WrappedTwice` for one under `DataParallel` or `Daso`; `ReleasedParameter` for what a
  ///         `ShardedParameters` without `unwrap` has left; `NotInModel` for an ignored module that is not; `NotContiguous`; `SharedAcrossUnits` for a parameter
  ///         of two units; `BadOption`; `UnknownUnit` for a name to be gathered ahead; `OptionsDisagreement`
  ShardedParameters(std::shared_ptr<torch::nn::Module> model, nn::TeamRule const& shards,
                    ShardedParametersOptions options = {});
  ShardedParameters(ShardedParameters&&) noexcept;
  ShardedParameters& operator=(ShardedParameters&&) = delete;
  /// Leaves a model without its whole parameters, unless `unwrap` was called. Not collective.
  ~ShardedParameters();

  /// Runs `call`, the model's forward, with the parameters of the model itself. A model that is a `Unit` may be called
  /// without. @return what `call` returns: tensors, or vectors and tuples of them
  template <class Call>
  auto forward(Call&& call) {
    return root_call().run(root_module(), call);
  }

  /// Leaves with this rank's rows, in the order and under the names of the model's own parameters; empty for rows
  /// that other ranks have. Ignored parameters are not among them.
  [[nodiscard]] std::vector<torch::Tensor> parameters() const;
  [[nodiscard]] nn::NamedTensors named_parameters() const;
  /// Puts the rows in the place of the whole parameters in an optimizer made for the model: groups and options stay.
  /// @throws `OptimizerHasState` when it has made a step; `UnsupportedOptimizer` for LBFGS, which would search in rows alone
  void adopt(torch::optim::Optimizer& optimizer) const;

  /// While it lives, backwards leave their gradients for the next one that is synchronised.
  class [[nodiscard]] NoSync;
  NoSync no_sync(Unsynchronised how = Unsynchronised::whole);

  /// Scales all gradients so that their norm is at most `max_norm`. Collective. @return the norm before, the same on
  /// all ranks @throws `NonFiniteNorm`
  double clip_grad_norm(double max_norm, ClipOptions const& options = {});

  /// While it lives, all whole parameters can be read; what is written to them is lost. Making it is collective.
  class [[nodiscard]] Gathered;
  Gathered gathered();

  /// Gives the model its whole parameters back, as it had them; the object is of no further use. Collective.
  void unwrap();
  /// After an exception in forward or backward: forgets the gradients of that backward, those that `no_sync` left whole, and
  /// what is in flight. Collective where ranks have left off at different places; else it needs no other rank.
  void reset();

  [[nodiscard]] ShardStats stats() const;
  void reset_stats();
  [[nodiscard]] std::vector<ShardUnitInfo> units() const;
  /// What the constructor has found worth saying, such as parameters that an ignored module shares.
  [[nodiscard]] std::vector<std::string> const& notes() const;

  [[nodiscard]] detail::ShardEngine& engine() const noexcept { return *engine_; }

 private:
  /// Gives a model that is no unit the hooks of one.
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

class ShardedParameters::NoSync {
 public:
  explicit NoSync(detail::ShardEngine& engine, Unsynchronised how);
  NoSync(NoSync const&) = delete;
  NoSync& operator=(NoSync const&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<detail::ShardEngine> engine_;
};

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
