// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/training/buckets.hpp>
#include <graticule/training/gradient_hook.hpp>
#include <graticule/training/gradient_wire.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training {

/// When gradients are waited for. Reductions are under way while the backward runs in either case.
enum class GradientWait : std::uint8_t {
  in_backward,  ///< at its end: `.grad` is reduced when it returns
  /// By `step()`; and the gradients of units (`Unit`, `Layer`) in the next forward of each one, which the optimizer then
  /// updates before it runs. The same numbers as `in_backward`. Between backward and `step()`, `.grad` is not to be touched
  /// without `synchronize()`. `step()` waits until all ranks have ended their backward, and throws `PeerFailed` where one
  /// of them has failed.
  late,
};

/// What a parameter without a gradient is.
enum class Unused : std::uint8_t {
  refused,  ///< the error `UnusedParameter` on all ranks, where it has none on some or on all of them
  allowed,  ///< a gradient of zero where other ranks have one; where none has, `.grad` is left as it is
};

/// How buffers (running statistics, counters) are kept equal, at each `step()` and `sync_buffers()`.
enum class BufferPolicy : std::uint8_t {
  leave,      ///< each rank's own after the first agreement
  broadcast,  ///< those of each team's first rank
  mean,       ///< the mean over all teams; integers as in `broadcast`
};

/// Whether ranks compare what they are about to reduce: bucket, iteration, names, sizes, types and rules.
///
/// A difference, or a rank that does not come in time, is then one error on all ranks (`CallDisagreement`,
/// `StalledReduction`), and the object is of no use any more. Cost: a message to and from each team's first rank for each bucket.
enum class CheckedCalls : std::uint8_t {
  by_environment,  ///< where `GRATICULE_CHECK` is `comm` or `all`
  on,
};

struct DataParallelOptions {
  GradientWait wait = GradientWait::in_backward;
  Unused unused = Unused::refused;
  Wire wire = Wire::own;
  SumOrder order = SumOrder::by_rank;
  BucketSizes buckets = {};
  /// Rules for single parameters, by name, instead of the others. Their teams may be any; none: never reduced.
  std::map<std::string, std::vector<nn::TeamRule>> own_rules = {};
  BufferPolicy buffers = BufferPolicy::leave;
  std::map<std::string, BufferPolicy> own_buffers = {};
  CheckedCalls checks = CheckedCalls::by_environment;
  /// How long a rank waits for the others' part of a bucket: then `StalledReduction` in checked mode, else one line on
  /// stderr. 0: `GRATICULE_STALL_SECONDS`, which is 300 unless set.
  double patience_seconds = 0;
  /// Keeps `events()`.
  bool record_events = false;
  std::optional<LowRankGradients> low_rank = {};
  /// Reduces gradients instead of the rules' sums and means; on all ranks or on none, without `wire` and `low_rank`
  /// (`BadOption`). Where it throws inside `run`, the others get `PeerFailed`.
  GradientHook hook = {};
};

/// What happened, in order. `index` is a parameter's place in the module, or a bucket's number.
struct ReductionEvent {
  enum class Kind : std::uint8_t {
    gradient_ready,  ///< of a parameter
    bucket_posted,
    last_gradient,  ///< the backward has no more
    bucket_waited,  ///< its gradients are delivered
    updated,        ///< a parameter, by the optimizer, late
  };
  Kind kind;
  std::size_t index;
};

/// What this rank has sent to a team, by MPI or through memory that the node's ranks share.
struct TeamTraffic {
  int num_ranks = 1;
  Index collectives = 0;
  Index messages = 0;
  Index bytes = 0;  ///< of messages and of what is given to collectives: an all-reduce moves up to twice as many
};

/// Trains replicas of a module on the ranks of teams: gradients are reduced by rules while the backward runs.
///
/// Each parameter has a list of {team, sum | mean}, applied one after the other. For a model whose domain is divided too:
/// `{{teams.team("domain"), Reduction::sum}, {teams.team("data"), Reduction::mean}}`. A mean over data-parallel ranks is
/// the gradient of the whole batch where all have as many samples; else divide the loss by the global number and sum.
/// Example: two ranks with gradients 1 and 3 of a parameter under `mean`: both have 2 after `backward()`.
///
/// Gradients travel in buckets of one type and rule list, large ones alone and without copies, at first in reversed order
/// of registration, from the second iteration on in the order in which they arrived at the first rank. Further backwards without `zero_grad` add to what
/// has been reduced. Types are kept: f64, complex, bf16 and f16 (added in f32). Gradients on devices are reduced on the host.
/// Each backward inside another (`checkpoint`) is reduced on its own; `no_sync` with `reduce` makes one reduction of all.
class DataParallel {
 public:
  /// Checks that the replicas are of one kind, then copies parameters and buffers of each team's first rank to the others;
  /// random states are untouched. Collective over all teams.
  /// @param module outlives this object @param optimizers of its parameters, if `step()` is to be used; they outlive it, too
  /// @throws `ReplicaMismatch`, `UnknownParameter`, `UnknownBuffer`, `NothingToReduce`, `TeamTwice`, `WrappedTwice`
  ///         (by any object that reduces or cuts), `ReleasedParameter`, `UninitialisedParameter`, `UnsupportedTensor`, `BucketSizes`, `BadOption`, `BadTransport` on all ranks of a team
  DataParallel(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
               std::vector<nn::TeamRule> rules, DataParallelOptions const& options = {});
  DataParallel(torch::nn::Module& module, torch::optim::Optimizer& optimizer, std::vector<nn::TeamRule> rules,
               DataParallelOptions const& options = {})
      : DataParallel(module, std::vector{&optimizer}, std::move(rules), options) {}
  DataParallel(DataParallel&& other) noexcept;
  DataParallel& operator=(DataParallel&& other) noexcept;
  /// Removes its hooks; waits for what is under way, applies what late steps have left, and after an exception tells the
  /// other ranks instead.
  ~DataParallel();

  /// Steps the optimizers with reduced gradients. With `GradientWait::late`, gradients of units are taken out of `.grad`
  /// and applied later, with the options (learning rate) of now. Then applies the policies for buffers.
  /// @throws `NoOptimizer`, `LostParameter`, `UnreducedGradients` (after `no_sync`, or where a pass has failed), `PeerFailed`;
  ///         `ClosureNeeded` for LBFGS
  void step();
  /// A step of the one optimizer, which calls `closure` as often as it needs to (LBFGS): zeroes the gradients, makes a forward
  /// and backward and returns this rank's loss. The optimizer sees gradients and loss reduced by the rules, so that all ranks
  /// search, and end, alike. @return the reduced loss of the first call
  /// @throws as `step`; `BadOption` for several optimizers, for a loss that is no number, and for LBFGS, which takes all
  ///         parameters for one vector, where some are each rank's own
  /// Cost: for each call of `closure` one small blocking sum a team more than its backward.
  double step(std::function<torch::Tensor()> const& closure);
  /// Waits until `.grad` holds reduced gradients: to clip or to look at them before `step()`.
  void synchronize();
  /// Applies what late steps have left: before parameters are read outside of their units' forwards (to save them, to
  /// average them), and at the end of an epoch. Evaluation needs none. In checked mode the ranks compare how many
  /// iterations they have made.
  void finalize();

  /// Keeps gradients local as long as it lives; the next backward without it reduces their total.
  class NoSync;
  [[nodiscard]] NoSync no_sync();
  /// Reduces what `.grad` holds now, without a backward. Collective.
  void reduce();
  /// Runs a forward and backward, and returns when all ranks have ended theirs; same calls on all ranks.
  ///
  /// When it throws on one rank, that rank keeps its exception and the others get `PeerFailed` with its text, wherever they
  /// wait: in layers, losses or reductions. Then all ranks make the communicators of this object and of the domains that lie
  /// within its teams anew, and find buffers and the counters of random masks as they were, so that the next pass gives what
  /// it would have given without the failure. With `GradientWait::late` it does not wait for the others, who get `PeerFailed`
  /// from `step()`. Cost: a barrier of each team, unless late; copies of buffers that have changed.
  void run(std::function<void()> const& pass);
  /// Collective over all teams.
  void sync_buffers();

  /// Norm of the reduced gradients, which are scaled so that it is at most `max_norm`. The same number on all ranks.
  /// @throws as `clip_gradients`
  double clip_gradients(double max_norm, double norm_type = 2);

  /// What applies: `in_backward` where `late` was asked for and is not possible, which is said once on stderr.
  [[nodiscard]] GradientWait wait() const noexcept;
  /// Why `late` is not possible; else empty.
  [[nodiscard]] std::string const& fallback() const noexcept;
  /// Of the last iteration, by team in the order of the rules.
  [[nodiscard]] std::vector<TeamTraffic> const& traffic() const;
  /// Parameters' names of each bucket as it is now.
  [[nodiscard]] std::vector<std::vector<std::string>> buckets() const;
  /// Since the last call.
  [[nodiscard]] std::vector<ReductionEvent> events();

  /// What `low_rank` keeps of this rank's gradients, for `load_low_rank_state` on the same rank: it belongs in no replica.
  [[nodiscard]] nn::NamedTensors low_rank_state() const;
  /// @throws `StateMismatch` on this rank alone, for that of another model, other rules or another rank of factors
  void load_low_rank_state(nn::NamedTensors const& state);

  /// For `Join` and `find_wrong_rules`.
  class Impl;
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

class DataParallel::NoSync {
 public:
  explicit NoSync(DataParallel::Impl& impl);
  NoSync(NoSync const&) = delete;
  NoSync& operator=(NoSync const&) = delete;
  ~NoSync();

 private:
  DataParallel::Impl& impl_;
  bool before_;
};

}  // namespace graticule::training
