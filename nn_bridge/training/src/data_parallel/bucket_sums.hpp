// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/partition/stall.hpp>

#include "gradient_buckets.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// Events, where the options record them.
class EventLog {
 public:
  explicit EventLog(bool is_on) : is_on_(is_on) {}
  void note(DataParallel::Event::Kind kind, std::size_t index) {
    if (is_on_) events_.push_back({kind, index});
  }
  [[nodiscard]] std::vector<DataParallel::Event> take() { return std::exchange(events_, {}); }

 private:
  bool is_on_;
  std::vector<DataParallel::Event> events_;
};

/// The sums of buckets over teams. Each team starts them in the order of the buckets, one after the other for a bucket
/// that several teams sum. In checked mode its ranks compare each one first.
class BucketSums {
 public:
  /// All arguments outlive this.
  BucketSums(GradientBuckets& buckets, std::vector<Comm> const& teams, DataParallelOptions const& options,
             EventLog& log);

  /// Whether a team sums gradients from the next iteration on; at first all do. Same calls on all its ranks.
  void set_team(std::size_t team, bool on) { queues_[team].sums = on; }
  /// Of means over a team.
  void set_divisor(std::size_t team, double divisor) { queues_[team].divisor = divisor; }
  void reset_divisors() noexcept;
  /// @param number of the iteration @param joins ranks may have ended
  void begin_iteration(Index number, bool joins);
  /// Starts the sums of filled buckets that can be started.
  void start();
  void advance();
  void wait_for(std::size_t bucket);
  /// Ends all sums of filled buckets; false where that takes longer.
  [[nodiscard]] bool end_within(double seconds);

  /// In checked mode: compares a call among the ranks of each team.
  void compare(std::string const& described);
  /// @throws the error after which ranks no longer agree about their calls
  void require_whole() const;
  [[nodiscard]] bool is_broken() const noexcept { return broken_ != nullptr; }
  /// Teams were renewed since their messages were made.
  [[nodiscard]] bool are_outdated() const;
  /// After that. Collective.
  void renew();
  /// When a wait is reported, and when it is an error.
  [[nodiscard]] StallRule stall_rule() const;
  [[nodiscard]] std::vector<DataParallel::Traffic> const& traffic() const noexcept { return traffic_; }

 private:
  struct Queue {
    bool sums = true;
    double divisor = 1;                                  ///< of means
    std::size_t next = 0;                                ///< of the team's buckets
    int generation = 0;                                  ///< of the team, that sums and the check belong to
    std::optional<messages::CallComparison> check = {};  ///< in checked mode
  };

  /// Starts, or passes over, the next sum of a team. @return false where it cannot be yet
  bool start_next(std::size_t t);
  bool is_agreed(std::size_t team, std::size_t bucket);
  [[noreturn]] void stall(std::size_t bucket, double waited);
  [[nodiscard]] std::string waits_for(std::size_t bucket) const;
  [[nodiscard]] bool compares() const noexcept { return options_.checks == CheckedCalls::on; }

  GradientBuckets& buckets_;
  std::vector<Comm> const& teams_;
  DataParallelOptions const& options_;
  EventLog& log_;
  std::vector<Queue> queues_;                   ///< by team
  std::vector<DataParallel::Traffic> traffic_;  ///< by team
  std::exception_ptr broken_;
  std::string described_;      ///< the iteration
  bool are_low_rank_ = false;  ///< in it
  bool joins_ = false;
};

}  // namespace graticule::training::detail
