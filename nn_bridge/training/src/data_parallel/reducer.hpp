// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/training/data_parallel/join.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "gradient_hooks.hpp"
#include "gradient_sum.hpp"

#include <torch/torch.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// A rule by the place of its team.
struct TeamPlace {
  std::size_t team = 0;
  nn::Reduction reduction = nn::Reduction::sum;
  friend bool operator==(TeamPlace const&, TeamPlace const&) = default;
};

/// A parameter, and how its gradient is reduced.
struct ReducedParameter {
  std::string name;
  torch::Tensor tensor;
  std::vector<TeamPlace> rules;
  std::vector<Index> sizes;   ///< of the tensor, and 2 for the parts of complex numbers
  bool reduced = false;       ///< the gradient that is defined has been reduced
  bool ready = false;         ///< it has arrived in this backward
  bool nested = false;        ///< it has arrived in a backward inside this one, which was reduced by itself
  torch::Tensor before = {};  ///< the reduced gradient that a new one is added to
  bool handed_over = false;
  torch::Tensor held = {};  ///< takes the place of `.grad` from the step on until it is applied
};

/// Gradients that travel together.
struct Bucket {
  std::vector<std::size_t> members;  ///< none: it only reports whether a rank has failed
  std::vector<TeamPlace> rules;
  std::vector<Index> begins;  ///< of the members in `flat`
  Index num_data = 0;
  /// Gradients; then for each member 1 if missing; 1 if there; then 1 if this rank has failed. May lie in memory of
  /// `sums`. On the device of the members' gradients where these are summed there, else on the host.
  torch::Tensor flat;
  std::vector<GradientSum> sums;  ///< one a rule; freed before `flat`, to which a device may still copy
  /// Orders what is done with `flat` in the streams of several threads.
  std::unique_ptr<nn::detail::MessageStream> order;
  std::size_t num_ready = 0;
  std::size_t num_started = 0;  ///< of the sums
  std::size_t num_ended = 0;
  bool filled = false;
  bool delivered = false;
  std::string name;       ///< in few words
  bool compared = false;  ///< its comparison among ranks is under way
  std::string described;  ///< for that, and for one who waits too long

  /// Of `flat`.
  [[nodiscard]] Index numel() const noexcept { return num_data + 2 * Index(members.size()) + 1; }
};

/// One backward and the sums of its gradients: made by `begin`, ended by `finish`. What has been found out in it stays
/// until the next one.
struct Iteration {
  /// In the backward buckets leave as they fill; pending ones are still to be delivered.
  enum class Stage : std::uint8_t { ended, in_backward, pending };

  [[nodiscard]] bool is_open() const noexcept { return stage != Stage::ended; }
  /// No rank has failed, as far as this one knows.
  [[nodiscard]] bool is_whole() const noexcept { return !failed && !peer_failed; }

  Stage stage = Stage::ended;
  bool failed = false;       ///< this rank has nothing to give
  bool peer_failed = false;  ///< found in what was delivered
  bool nested = false;       ///< its backward ran inside another one
  bool awaited = false;      ///< all ranks have ended the backward, and it is to be applied late
  std::string unused = {};   ///< names of parameters that got no gradient
  std::string described = {};
  int backward = -1;                            ///< the engine's number of the backward
  std::weak_ptr<int> backward_is = {};          ///< expires with it
  std::vector<std::size_t> arrivals = {};       ///< parameters, in the order of their gradients
  std::size_t num_filled = 0;                   ///< of the buckets
  std::vector<std::size_t> next_in_queue = {};  ///< by team
};

/// What a team sums, and in which order.
struct TeamQueue {
  bool sums = true;
  double divisor = 1;  ///< of means
  std::vector<std::size_t> buckets = {};
  int generation = 0;                                  ///< of the team, that sums and the check belong to
  std::optional<messages::CallComparison> check = {};  ///< in checked mode
};

/// Ranks may have ended.
struct Joining {
  std::vector<TeamPlace> rules;  ///< of most parameters
  JoinOptions options;
  bool present = true;    ///< this rank has batches
  Index num_present = 0;  ///< ranks
};

/// Reduces gradients over teams while the backward runs.
///
/// An iteration begins with the first gradient of a backward and ends when all buckets have been delivered. Buckets
/// start in the order of their numbers, on each team. Gradients are copied into buckets
/// and back. Where gradients are waited for late, a last bucket without gradients
/// leaves at the end of the backward, so that a rank learns at its step whether all have come so far.
class Reducer {
 public:
  Reducer(std::vector<ReducedParameter> parameters, std::vector<Comm> teams, DataParallelOptions const& options);
  Reducer(Reducer const&) = delete;
  Reducer& operator=(Reducer const&) = delete;
  ~Reducer();

  void set_sync(bool on) noexcept { sync_ = on; }
  /// Whether gradients are summed over a team, from the next iteration on; all teams are at first. Same calls on all
  /// its ranks.
  void set_team(std::size_t team, bool on) { queues_[team].sums = on; }
  [[nodiscard]] bool syncs() const noexcept { return sync_; }
  /// Reduces what `.grad` holds now, without a backward. Collective.
  void reduce();
  /// What `.grad` holds is not what has been reduced last.
  void forget_reduced();
  /// Delivers all gradients, or only those of some parameters. @throws `PeerFailed`, `UnusedParameter`
  void complete();
  void complete(std::vector<std::size_t> const& parameters);
  /// Waits until all ranks have ended their backward. For late waits. @throws as `complete`
  void await_backward();
  /// Takes the gradients of `parameters` out of `.grad`: they are delivered into `held`.
  void hand_over(std::vector<std::size_t> const& parameters);
  /// This rank has nothing to give in this iteration: takes part in all sums, and makes the others throw `PeerFailed`.
  void fail();
  /// Ends what a backward that threw has left.
  void end_failed_backward();
  /// On: the caller notifies the other ranks of an exception in an iteration, and ends that iteration on all ranks.
  void set_in_run(bool on) noexcept { in_run_ = on; }
  /// Ends the sums of an iteration that all ranks step with, also where a rank has failed since: they need nothing of
  /// it but that it does the same. False where there is no such iteration, or they do not end in time.
  bool end_sums();
  /// The same, and delivers the gradients.
  void settle();
  /// Before a pass.
  void remember();
  /// Forgets what has been begun since then. What is under way is left to `renew`.
  void abandon();
  /// After teams were renewed: makes all that belongs to their messages anew. Nothing where they were not. Collective.
  void renew();
  /// Buckets whose sums have not ended stay until the process ends: MPI, or devices of other ranks, may still use them.
  void keep_unended();
  /// A rank has failed in the last iteration, and this one got to know it by what was summed: all ranks have ended it.
  [[nodiscard]] bool has_failed_by_sums() const noexcept { return iteration_.peer_failed && !iteration_.is_open(); }
  /// The ranks do not agree about their calls any more.
  [[nodiscard]] bool is_broken() const noexcept { return broken_ != nullptr; }
  /// What becomes of waits.
  [[nodiscard]] StallRule stall_rule() const;
  [[nodiscard]] bool in_backward() const noexcept { return iteration_.stage == Stage::in_backward; }
  [[nodiscard]] bool in_iteration() const noexcept { return iteration_.is_open(); }
  [[nodiscard]] Index num_begun() const noexcept { return counts_.begun; }

  [[nodiscard]] std::vector<ReducedParameter>& parameters() noexcept { return parameters_; }
  [[nodiscard]] std::vector<Comm> const& teams() const noexcept { return teams_; }
  [[nodiscard]] std::vector<Bucket> const& buckets() const noexcept { return buckets_; }
  [[nodiscard]] std::vector<DataParallel::Traffic> const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] std::vector<DataParallel::Event>& events() noexcept { return events_; }
  /// Called before each iteration.
  void set_before(std::function<void()> call) { before_ = std::move(call); }
  /// From now on ranks may have ended. @param rules of most parameters
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
  void note(DataParallel::Event::Kind kind, std::size_t index);
  [[nodiscard]] nn::NamedTensors low_rank_state() const;
  void load_low_rank_state(nn::NamedTensors const& state);

 private:
  using Stage = Iteration::Stage;
  /// Of iterations.
  struct Counts {
    Index begun = 0;
    Index complete = 0;
    Index loaded = 0;  ///< of a state that was loaded, before the first one here
  };

  void before_accumulation(std::size_t i);
  void after_accumulation(std::size_t i);
  void begin();
  void require_whole() const;
  void count_present();
  void end_backward();
  [[nodiscard]] std::string described(Bucket const& bucket) const;
  void make_buckets(std::vector<std::size_t> const& order);
  void add_bucket(std::vector<std::size_t> members, torch::TensorOptions const& options, std::vector<TeamPlace> rules);
  /// Where all ranks can: not where a parameter of any rank is on the host, and not for hooks. Collective.
  [[nodiscard]] bool all_on_devices() const;
  void share_on_node();
  [[nodiscard]] std::vector<LowRankMatrix> matrices_of(Bucket const& bucket, std::size_t rule);
  void rebucket();
  void fill(Bucket& bucket);
  /// Whether there is a gradient to be reduced.
  [[nodiscard]] bool is_there(ReducedParameter const& parameter) const;
  void fill_in_order(bool all);
  void advance();
  void start_sums();
  /// Starts, or passes over, the next sum of a team. @return false where it cannot be yet
  bool start_next(std::size_t t);
  [[nodiscard]] GradientBucket given_to_hook(std::size_t bucket) const;
  bool is_agreed(std::size_t team, std::size_t bucket);
  [[noreturn]] void stall(std::size_t bucket, double waited);
  [[nodiscard]] std::string waits_for(std::size_t bucket) const;
  void watch_calls();
  void wait_for(std::size_t bucket);
  void deliver(std::size_t bucket);
  void deliver_to(ReducedParameter& parameter, torch::Tensor const& reduced);
  void finish();

  [[nodiscard]] bool compares() const noexcept { return options_.checks == CheckedCalls::on; }
  [[nodiscard]] bool is_present() const noexcept { return !join_ || join_->present; }

  std::vector<ReducedParameter> parameters_;
  std::vector<Comm> teams_;
  DataParallelOptions options_;    ///< `checks` is on or off
  std::vector<TeamQueue> queues_;  ///< by team
  bool sums_on_device_ = false;    ///< where the parameters are
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::size_t> order_;  ///< of the parameters, that buckets were made for
  bool sync_ = true;
  bool in_run_ = false;
  std::function<void()> before_;
  Iteration iteration_;
  Counts counts_;
  Counts counts_before_;       ///< the pass
  std::exception_ptr broken_;  ///< what ended the agreement of the ranks about their calls
  std::optional<Joining> join_;
  std::map<std::pair<std::size_t, std::size_t>, LowRankPart> low_rank_;  ///< by parameter and rule
  std::vector<DataParallel::Traffic> traffic_;                           ///< by team
  std::vector<DataParallel::Event> events_;
  std::optional<GradientHooks> hooks_;
};

}  // namespace graticule::training::detail
