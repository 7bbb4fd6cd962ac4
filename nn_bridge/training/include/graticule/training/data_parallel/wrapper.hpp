// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/training/data_parallel/buckets.hpp>
#include <graticule/training/data_parallel/checks.hpp>
#include <graticule/training/data_parallel/gradient_hook.hpp>
#include <graticule/training/data_parallel/gradient_wire.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training {

/// Time of the wait for gradients. In either case reductions progress while the backward runs.
enum class GradientWait : std::uint8_t {
  in_backward,  ///< at the end of the backward: `.grad` is reduced when it returns
  /// In `step()`; for units (`Unit`, `Layer`) in their next forward, before which the optimizer updates them. The same
  /// results as `in_backward`. Between backward and `step()`, `.grad` must not be used without `synchronize()`.
  /// `step()` waits until all ranks have ended their backward, and throws `PeerFailed` if one of them has failed.
  late,
};

/// Agreement of buffers (running statistics, counters), at each `step()` and `sync_buffers()`.
enum class BufferPolicy : std::uint8_t {
  leave,      ///< each rank keeps its own after construction
  broadcast,  ///< those of each team's first rank
  mean,       ///< the mean over all teams; integers as in `broadcast`
};

/// Options of `DataParallel`.
struct DataParallelOptions {
  GradientWait wait = GradientWait::in_backward;
  Unused unused = Unused::refused;
  Wire wire = Wire::own;
  SumOrder order = SumOrder::by_rank;
  BucketSizes buckets = {};
  /// Rules for single parameters, by name, instead of the common rules. They may use any teams; an empty list: never
  /// reduced.
  std::map<std::string, std::vector<nn::TeamRule>> own_rules = {};
  BufferPolicy buffers = BufferPolicy::leave;
  std::map<std::string, BufferPolicy> own_buffers = {};
  CheckedCalls checks = CheckedCalls::by_environment;
  /// Time for which a rank waits for the others' part of a bucket; then `StalledExchange` in checked mode, otherwise
  /// one line on stderr. 0: `GRATICULE_STALL_SECONDS`, which is 300 unless set.
  double patience_seconds = 0;
  /// Records `events()`.
  bool record_events = false;
  std::optional<LowRankGradients> low_rank = {};
  /// Reduces gradients instead of the rules' sums and means; on all ranks or on none, without `wire` and `low_rank`
  /// (`BadOption`). If it throws inside `run`, the other ranks get `PeerFailed`.
  GradientHook hook = {};
};

/// Trains replicas of a module on the ranks of teams: gradients are reduced by rules while the backward runs.
///
/// Each parameter has a list of {team, sum | mean}, applied one after the other. For a model whose domain is divided
/// too: `{{teams.team("domain"), Reduction::sum}, {teams.team("data"), Reduction::mean}}`. A mean over data-parallel
/// ranks is the gradient of the whole batch if all have the same number of samples; otherwise divide the loss by the
/// global number and use sum.
/// Example: two ranks with gradients 1 and 3 of a parameter under `mean`: both hold 2 after `backward()`.
///
/// Gradients are sent in buckets of one type and rule list, large ones alone; in the first iteration in reverse order
/// of registration, from the second on in the order of their arrival on the first rank. Further backwards without
/// `zero_grad` add to the reduced gradients. Types are kept: f64, complex, bf16 and f16 (added in f32). Where
/// all parameters of all ranks lie on devices, gradients are added there, always as `SumOrder::by_rank`; else, and for
/// a hook, on the host. Each backward inside another (`checkpoint`) is reduced separately; `no_sync` with `reduce`
/// makes one reduction of all.
class DataParallel {
 public:
  /// Traffic from this rank to a team, by MPI or through the shared memory of the node.
  struct Traffic {
    int num_ranks = 1;
    Index collectives = 0;
    Index messages = 0;
    Index bytes = 0;  ///< of messages and of buffers passed to collectives: an all-reduce moves up to twice as many
  };

  /// One event, in order. `index` is a parameter's position in the module, or a bucket's number.
  struct Event {
    /// Kind of event; the comment says what `index` refers to.
    enum class Kind : std::uint8_t {
      gradient_ready,  ///< of a parameter
      bucket_posted,
      last_gradient,  ///< the backward has no more
      bucket_waited,  ///< its gradients are complete
      updated,        ///< a parameter, by the optimizer, with `late`
    };
    Kind kind;
    std::size_t index;
  };

  /// Checks that the replicas match, then copies parameters and buffers of each team's first rank to the others; random
  /// states are unchanged. Collective over all teams.
  /// @param module must outlive this object @param rules applied in order to each gradient @param options see
  ///        `DataParallelOptions` @param optimizers of the module's parameters, for `step()`; must outlive this object
  ///        as well
  /// @throws `ReplicaMismatch`, `UnknownName`, `NoParameters`, `BadOption`, `WrongState`
  ///         (by any object that reduces or shards), `ParametersChanged`, `UnsupportedTensor`, `BadOption` on all ranks
  ///         of a team
  DataParallel(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
               std::vector<nn::TeamRule> rules, DataParallelOptions const& options = {});
  DataParallel(torch::nn::Module& module, torch::optim::Optimizer& optimizer, std::vector<nn::TeamRule> rules,
               DataParallelOptions const& options = {})
      : DataParallel(module, std::vector{&optimizer}, std::move(rules), options) {}
  DataParallel(DataParallel&& other) noexcept;
  DataParallel& operator=(DataParallel&& other) noexcept;
  /// Removes its hooks, waits for operations in flight and applies pending updates of late steps; after an exception it
  /// notifies the other ranks instead.
  ~DataParallel();

  /// Steps the optimizers with reduced gradients. With `GradientWait::late`, gradients of units are moved out of
  /// `.grad` and applied later, with the options (learning rate) at the time of this call. Then applies the policies
  /// for buffers.
  /// @throws `WrongState`, `ParametersChanged` (after `no_sync`, or after a failed pass),
  ///         `PeerFailed`; `WrongState` for LBFGS; `UnusedParameter`, unless it is allowed or the wait is late, where
  ///         no backward has given any gradient since the last step
  void step();
  /// A step of a single optimizer that calls `closure` as often as it needs (LBFGS). `closure` zeroes the gradients,
  /// runs a forward and backward and returns the loss. The optimizer gets gradients and loss reduced by the rules, so
  /// that the search and its end are the same on all ranks. A loss that is the same on all ranks of the teams that sum,
  /// as those of `nn`, is the whole field's, and is not added again; others are parts of it.
  /// @return the reduced loss of the first call
  /// @throws as `step`; `BadOption` for several optimizers, for a NaN loss, and for LBFGS, which treats all parameters
  ///         as one vector, if some parameters differ between ranks
  /// Cost: per call of `closure`, its backward, one small blocking sum per team, and a maximum per team that sums.
  double step(std::function<torch::Tensor()> const& closure);
  /// Waits until `.grad` holds reduced gradients: to clip or inspect them before `step()`.
  void synchronize();
  /// Applies pending updates of late steps: call it before parameters are read outside their units' forwards (to save
  /// or average them), and at the end of an epoch. Evaluation does not need it. In checked mode the ranks compare their
  /// numbers of iterations.
  void finalize();

  /// Keeps gradients local during its lifetime; the next backward without it reduces their total.
  class NoSync;
  [[nodiscard]] NoSync no_sync();
  /// Reduces the current `.grad`, without a backward. Collective.
  void reduce();
  /// Runs a forward and backward, and returns when all ranks have ended theirs. Collective.
  ///
  /// When it throws on one rank, that rank keeps its exception and the others get `PeerFailed` with its text, wherever
  /// they wait: in layers, losses or reductions. Then all ranks renew the communicators of this object and of the
  /// domains within its teams, and restore buffers and the counters of random masks, so that the next pass gives the
  /// same results as without the failure. With `GradientWait::late` it does not wait for the others, which get
  /// `PeerFailed` from `step()`. Cost: a barrier per team, unless late; copies of changed buffers.
  void run(std::function<void()> const& pass);
  /// Collective over all teams.
  void sync_buffers();

  /// Scales the reduced gradients so that their norm is at most `max_norm`. @return the norm before, the same on all
  /// ranks
  /// @throws as `clip_gradients`
  double clip_gradients(double max_norm, double norm_type = 2);

  /// The effective setting: `in_backward` where `late` was requested but is not possible, which is reported once on
  /// stderr.
  [[nodiscard]] GradientWait wait() const noexcept;
  /// Reason why `late` is not possible; otherwise empty.
  [[nodiscard]] std::string const& fallback() const noexcept;
  /// Traffic of the last iteration, by team in the order of the rules.
  [[nodiscard]] std::vector<Traffic> const& traffic() const;
  /// Names of the parameters in each current bucket.
  [[nodiscard]] std::vector<std::vector<std::string>> buckets() const;
  /// Events since the last call.
  [[nodiscard]] std::vector<Event> events();

  /// State that `low_rank` keeps of this rank's gradients, for `load_low_rank_state` on the same rank; it differs
  /// between replicas.
  [[nodiscard]] nn::NamedTensors low_rank_state() const;
  /// @throws `StateMismatch` on this rank alone, for the state of another model, other rules or another rank of the
  ///         factors
  void load_low_rank_state(nn::NamedTensors const& state);

  /// For `Join` and `find_wrong_rules`.
  class Impl;
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Scope of `no_sync`: backwards within it do not reduce gradients.
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
