// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/training/data_parallel/buckets.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "gradient_sum.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// Size and kind of one gradient, for the assignment to buckets.
struct BucketItem {
  Index bytes = 0;
  std::uint64_t kind = 0;  ///< only gradients of equal kind share a bucket
};

/// Fills buckets with items in `order`, and returns them in the order in which they become full.
///
/// Items of one kind are added in `order` as long as they fit; the very first bucket is the small one.
/// Example: items of 3, 3 and 3 bytes of one kind, order {2, 1, 0}, sizes {3, 6}: buckets {2}, {1, 0}.
/// @param items all gradients @param sizes in bytes @param order positions in `items`, each once @throws `BadOption`
///        unless both sizes are positive
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(std::span<BucketItem const> items,
                                                                   std::span<std::size_t const> order,
                                                                   BucketSizes sizes);

/// A rule, with its team as an index.
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
  std::string name;       ///< in errors and reports
  bool compared = false;  ///< its comparison among ranks is under way
  std::string described;  ///< for that, and for one who waits too long

  /// Of `flat`.
  [[nodiscard]] Index numel() const noexcept { return num_data + 2 * Index(members.size()) + 1; }
};

/// The gradients of all parameters, in buckets: each gradient has one place in one bucket, and buckets leave in their
/// order. They are filled from `.grad`, and reduced ones are delivered to it, or to `held` where a step took it.
class GradientBuckets {
 public:
  /// Whether this rank takes part with gradients.
  struct Giver {
    bool is_present = true;
    bool failed = false;
  };

  /// Collective. @param options outlive this
  GradientBuckets(std::vector<ReducedParameter> parameters, std::vector<Comm> const& teams,
                  DataParallelOptions const& options);

  [[nodiscard]] std::vector<ReducedParameter>& parameters() noexcept { return parameters_; }
  [[nodiscard]] std::vector<ReducedParameter> const& parameters() const noexcept { return parameters_; }
  [[nodiscard]] std::vector<Bucket>& all() noexcept { return buckets_; }
  [[nodiscard]] std::size_t bucket_of(std::size_t parameter) const noexcept { return bucket_of_[parameter]; }
  /// Buckets that a team sums, in their order.
  [[nodiscard]] std::vector<std::size_t> const& of_team(std::size_t team) const noexcept { return of_team_[team]; }
  /// Makes all buckets anew, in the order of those before. Collective.
  void renew() { make(std::exchange(order_, {})); }
  /// The same in the order in which gradients arrived on the first ranks. Collective.
  void renew_in_order(std::vector<std::size_t> const& arrivals);

  void begin_iteration();
  void fill(Bucket& bucket, Giver giver);
  /// The argument of a hook.
  [[nodiscard]] GradientBucket given_to_hook(std::size_t b) const;
  /// Delivers the reduced gradient of a member.
  void deliver(Bucket const& bucket, std::size_t member);
  /// @param complete no rank has failed @param nested the backward ran inside another one
  void end_iteration(bool complete, bool nested);
  /// Forgets what an iteration that is given up has begun.
  void abandon();

  /// Makes room for a new gradient of parameter `i`, which is added to what has been reduced before.
  void put_aside(std::size_t i);
  /// From now on `.grad` counts as not reduced.
  void forget_reduced();
  /// @throws `WrongState` where a gradient is this rank's own
  void require_reduced() const;
  /// Takes the gradients of `parameters` out of `.grad`: they are delivered into `held`.
  void hand_over(std::vector<std::size_t> const& parameters);
  void drop_handed_over();
  /// Buckets whose sums have not ended stay until the process ends: MPI, or devices of other ranks, may still use them.
  void keep_unended();
  void keep_all();

  /// Matrices are sent as low-rank factors in iteration `number` of this process.
  [[nodiscard]] bool are_low_rank(Index number) const;
  /// @param num_begun iterations of this process
  [[nodiscard]] nn::NamedTensors low_rank_state(Index num_begun) const;
  void load_low_rank_state(nn::NamedTensors const& state, Index num_begun);

 private:
  void make(std::vector<std::size_t> const& order);
  void add(std::vector<std::size_t> members, torch::TensorOptions const& options, std::vector<TeamPlace> rules);
  [[nodiscard]] std::string described(Bucket const& bucket) const;
  /// Whether the parameters of all ranks lie on devices, and there is no hook. Collective.
  [[nodiscard]] bool all_on_devices() const;
  void share_on_node();
  [[nodiscard]] std::vector<LowRankMatrix> matrices_of(Bucket const& bucket, std::size_t rule);
  /// Whether there is a gradient to be reduced.
  [[nodiscard]] static bool is_there(ReducedParameter const& parameter);
  /// Part of `flat` in the form of a parameter.
  [[nodiscard]] torch::Tensor slot(Bucket const& bucket, std::size_t member) const;

  std::vector<ReducedParameter> parameters_;
  std::vector<Comm> const& teams_;
  DataParallelOptions const& options_;
  bool sums_on_device_;  ///< where the parameters are
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::vector<std::size_t>> of_team_;
  std::vector<std::size_t> order_;  ///< of the parameters, for which they were made
  std::map<std::pair<std::size_t, std::size_t>, LowRankPart> low_rank_;  ///< by parameter and rule
  Index num_loaded_ = 0;  ///< iterations of a state that was loaded, before the first one here
};

}  // namespace graticule::training::detail
