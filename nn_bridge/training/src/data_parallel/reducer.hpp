// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/join.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "bucket_sums.hpp"
#include "gradient_buckets.hpp"
#include "gradient_hooks.hpp"

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// One backward and the sums of its gradients: made by `begin`, ended by `finish`, and kept until the next one.
struct Iteration {
  /// In the backward buckets leave as they fill; pending ones are still to be delivered.
  enum class Stage : std::uint8_t { ended, in_backward, pending };

  [[nodiscard]] bool is_open() const noexcept { return stage != Stage::ended; }
  /// A rank has failed in it, and this one got to know it by what was summed: all ranks have ended it.
  [[nodiscard]] bool has_failed_by_sums() const noexcept { return peer_failed && !is_open(); }
  /// No rank has failed, as far as this one knows.
  [[nodiscard]] bool is_whole() const noexcept { return !failed && !peer_failed; }

  Stage stage = Stage::ended;
  bool failed = false;                     ///< this rank has nothing to give
  bool peer_failed = false;                ///< found in what was delivered
  bool nested = false;                     ///< its backward ran inside another one
  bool awaited = false;                    ///< all ranks have ended the backward, and it is to be applied late
  std::string unused = {};                 ///< names of parameters that got no gradient
  int backward = -1;                       ///< the engine's number of the backward
  std::weak_ptr<int> backward_is = {};     ///< expires with it
  std::vector<std::size_t> arrivals = {};  ///< parameters, in the order of their gradients
  std::size_t num_filled = 0;              ///< of the buckets
};

/// A `Join`: ranks may have no more batches.
struct Joining {
  std::vector<TeamPlace> rules;  ///< of most parameters
  JoinOptions options;
  bool present = true;    ///< this rank has batches
  Index num_present = 0;  ///< ranks
};

/// Reduces gradients over teams while the backward runs.
///
/// An iteration begins with the first gradient of a backward and ends when all buckets have been delivered. Buckets
/// start in the order of their numbers, on each team. Gradients are copied into buckets and back. Where gradients are
/// waited for late, a last bucket without gradients leaves at the end of the backward, so that a rank learns at its
/// step whether all have come so far.
class Reducer {
 public:
  Reducer(std::vector<ReducedParameter> parameters, std::vector<Comm> teams, DataParallelOptions const& options);
  Reducer(Reducer const&) = delete;
  Reducer& operator=(Reducer const&) = delete;
  ~Reducer();

  void set_sync(bool on) noexcept { sync_ = on; }
  [[nodiscard]] bool syncs() const noexcept { return sync_; }
  /// Reduces what `.grad` holds now, without a backward. Collective.
  void reduce();
  /// Delivers all gradients, or only those of some parameters. @throws `PeerFailed`, `UnusedParameter`
  void complete();
  void complete(std::vector<std::size_t> const& parameters);
  /// Waits until all ranks have ended their backward. For late waits. @throws as `complete`
  void await_backward();
  /// This rank has nothing to give in this iteration: takes part in all sums, and makes the others throw `PeerFailed`.
  void fail();
  /// Ends what a backward that threw has left.
  void end_failed_backward();
  /// On: the caller notifies the other ranks of an exception in an iteration, and ends that iteration on all ranks.
  void set_in_run(bool on) noexcept { in_run_ = on; }
  /// Ends the sums of an iteration that all ranks step with, also where a rank has failed since: they need nothing of
  /// it but that it does the same. False where there is no such iteration, or they do not end in time.
  bool end_sums();
  /// Before a pass.
  void remember();
  /// Forgets what has been begun since then. What is under way is left to `renew`.
  void abandon();
  /// After teams were renewed: makes all that belongs to their messages anew. Nothing where they were not. Collective.
  void renew();
  /// The last iteration.
  [[nodiscard]] Iteration const& iteration() const noexcept { return iteration_; }
  [[nodiscard]] Index num_begun() const noexcept { return counts_.begun; }

  [[nodiscard]] std::vector<Comm> const& teams() const noexcept { return teams_; }
  [[nodiscard]] GradientBuckets& buckets() noexcept { return buckets_; }
  [[nodiscard]] BucketSums& sums() noexcept { return sums_; }
  [[nodiscard]] EventLog& log() noexcept { return log_; }
  /// Called before each iteration.
  void set_before(std::function<void()> call) { before_ = std::move(call); }
  /// From now on ranks may have no more batches. @param rules of most parameters
  void begin_join(std::vector<TeamPlace> rules, JoinOptions const& options);
  void end_join() noexcept;
  [[nodiscard]] bool is_joining() const noexcept { return join_.has_value(); }
  /// Takes part in an iteration of the others with nothing to add. @returns false when all have ended
  bool shadow();
  /// In checked mode: compares a call among the ranks of each team.
  void compare(std::string const& described);
  /// @throws `WrongState` where a gradient is neither reduced nor on its way
  void require_reduced() const;
  /// @throws `ParametersChanged` unless all parameters are still watched
  void require_watched() const;

 private:
  using Stage = Iteration::Stage;
  /// Of iterations.
  struct Counts {
    Index begun = 0;
    Index complete = 0;
  };

  void before_accumulation(std::size_t i);
  void after_accumulation(std::size_t i);
  void begin();
  void count_present();
  void end_backward();
  void fill_in_order(bool all);
  void deliver(std::size_t b);
  void finish();

  [[nodiscard]] bool is_present() const noexcept { return !join_ || join_->present; }

  std::vector<Comm> teams_;
  DataParallelOptions options_;  ///< `checks` is on or off
  EventLog log_;
  GradientBuckets buckets_;
  BucketSums sums_;
  bool sync_ = true;
  bool in_run_ = false;
  std::function<void()> before_;
  Iteration iteration_;
  Counts counts_;
  Counts counts_before_;  ///< the pass
  std::optional<Joining> join_;
  std::optional<GradientHooks> hooks_;
};

/// A module's replicas, after they have been made equal.
struct Wrapped {
  std::vector<ReducedParameter> parameters;  ///< that require a gradient
  std::vector<Comm> teams;                   ///< communicators of our own
  std::vector<TeamPlace> default_rules;      ///< their teams are the first ones of `teams`
};

/// Checks arguments and replicas on all ranks, and broadcasts. @throws see `DataParallel`
[[nodiscard]] Wrapped wrap(torch::nn::Module const& module, std::vector<nn::TeamRule> const& rules,
                           DataParallelOptions const& options);

/// @throws `WrongState` for a module with cut parameters; `ParametersChanged` for what remains of such a module
void refuse_cut(torch::nn::Module const& module);

}  // namespace graticule::training::detail
