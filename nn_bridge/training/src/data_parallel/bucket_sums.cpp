// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_sums.hpp"

#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace graticule::training::detail {

BucketSums::BucketSums(GradientBuckets& buckets, std::vector<Comm> const& teams, DataParallelOptions const& options,
                       EventLog& log)
    : buckets_(buckets), teams_(teams), options_(options), log_(log), queues_(teams.size()), traffic_(teams.size()) {
  reset_divisors();
  renew();
}

void BucketSums::renew() {
  broken_ = nullptr;
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    queues_[t].generation = teams_[t].generation();
    queues_[t].check.reset();
    if (compares()) queues_[t].check.emplace(teams_[t]);
  }
}

bool BucketSums::are_outdated() const {
  return !std::equal(teams_.begin(), teams_.end(), queues_.begin(),
                     [](Comm const& team, Queue const& of) { return team.generation() == of.generation; });
}

void BucketSums::reset_divisors() noexcept {
  for (std::size_t t = 0; t < teams_.size(); ++t) queues_[t].divisor = teams_[t].num_ranks();
}

void BucketSums::require_whole() const {
  if (broken_) std::rethrow_exception(broken_);
}

void BucketSums::begin_iteration(Index number, bool joins) {
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    traffic_[t] = {.num_ranks = teams_[t].num_ranks()};
    queues_[t].next = 0;
  }
  described_ = "iteration " + std::to_string(number) + ", bucket ";
  are_low_rank_ = buckets_.are_low_rank(number);
  joins_ = joins;
}

void BucketSums::start() {
  // A team that is left out may let one go on that has been looked at.
  for (bool left_out = true; left_out;) {
    left_out = false;
    for (std::size_t t = 0; t < teams_.size(); ++t)
      while (start_next(t)) left_out = left_out || !queues_[t].sums;
  }
}

bool BucketSums::start_next(std::size_t t) {
  auto& queue = queues_[t];
  if (queue.next == buckets_.of_team(t).size()) return false;
  auto const b = buckets_.of_team(t)[queue.next];
  auto& bucket = buckets_.all()[b];
  auto const k = bucket.num_ended;
  if (!bucket.filled || bucket.num_started > k || bucket.rules[k].team != t) return false;
  if (queue.sums && !is_agreed(t, b)) return false;
  if (k == 0 && !bucket.members.empty()) log_.note(DataParallel::Event::Kind::bucket_posted, b);
  if (queue.sums) {
    double const divisor = bucket.rules[k].reduction == nn::Reduction::mean ? queue.divisor : 1;
    bucket.order->precede_current();
    if (options_.hook && !bucket.members.empty())
      bucket.sums[k].start(bucket.flat, bucket.num_data, options_.hook(buckets_.given_to_hook(b)));
    else
      bucket.sums[k].start(bucket.flat, bucket.num_data, divisor,
                           are_low_rank_ ? GradientSum::Travels::low_rank : GradientSum::Travels::whole);
  } else {
    ++bucket.num_ended;
  }
  ++bucket.num_started;
  ++queue.next;
  return true;
}

bool BucketSums::is_agreed(std::size_t team, std::size_t b) {
  if (!compares() || teams_[team].num_ranks() == 1) return true;
  auto& bucket = buckets_.all()[b];
  auto& check = *queues_[team].check;
  try {
    if (!bucket.compared) check.start(described_ + std::to_string(b) + " of " + bucket.described);
    bucket.compared = true;
    if (!check.advance()) return false;
  } catch (...) {
    broken_ = std::current_exception();
    throw;
  }
  bucket.compared = false;
  return true;
}

void BucketSums::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& bucket : buckets_.all()) {
      if (bucket.num_started == bucket.num_ended) continue;
      auto& sum = bucket.sums[bucket.num_ended];
      if (!sum.advance()) continue;
      sum.traffic().add_to(traffic_[bucket.rules[bucket.num_ended].team]);
      bucket.order->follow_current();
      ++bucket.num_ended;
      moved = true;
    }
    if (moved || compares()) start();
  }
}

StallRule BucketSums::stall_rule() const {
  auto rule = graticule::stall_rule();
  if (options_.patience_seconds > 0) rule.report_seconds = options_.patience_seconds;
  if (compares() && (options_.patience_seconds > 0 || rule.error_seconds == 0))
    rule.error_seconds = rule.report_seconds;
  return rule;
}

void BucketSums::wait_for(std::size_t b) {
  auto const& bucket = buckets_.all()[b];
  if (bucket.num_ended == bucket.sums.size()) return;
  graticule::detail::StallScope const scope(stall_rule());
  std::function<std::string()> const describe = [this, b] { return waits_for(b); };
  while (bucket.num_ended < bucket.sums.size()) {
    auto const rule = bucket.num_ended;
    graticule::detail::Patience patience(teams_[bucket.rules[rule].team], describe);
    try {
      for (advance(); bucket.num_ended == rule; advance()) patience.pause();
    } catch (Error const& error) {
      // Rank 0 may have given up first, and its answer names the missing ranks.
      if (error.rule() != "StalledExchange" || broken_) throw;
      stall(b, patience.seconds());
    }
  }
}

std::string BucketSums::waits_for(std::size_t b) const {
  auto const& bucket = buckets_.all()[b];
  auto const& sum = bucket.sums[bucket.num_ended];
  std::string ranks;
  if (bucket.num_started > bucket.num_ended)
    for (int const rank : sum.missing()) ranks += (ranks.empty() ? " " : ", ") + std::to_string(rank);
  return "rank " + std::to_string(sum.team().rank()) + " waits in " + described_ + std::to_string(b) + " (" +
         bucket.name + "), for " +
         (ranks.empty() ? "some rank of a team of " + std::to_string(sum.team().num_ranks()) : "rank" + ranks) +
         (joins_ ? "" : " (ranks with fewer batches than others need a Join)");
}

void BucketSums::stall(std::size_t b, double waited) {
  try {
    // The bucket may wait for one before it.
    for (auto& queue : queues_)
      if (queue.check && queue.check->started())
        queue.check->give_up(described_ + std::to_string(b) + " (" + buckets_.all()[b].name + ")", waited);
    throw Error("StalledExchange", waits_for(b) + " for " + std::to_string(int(waited + 0.5)) + " s");
  } catch (...) {
    broken_ = std::current_exception();
    throw;
  }
}

void BucketSums::compare(std::string const& described) {
  require_whole();
  graticule::detail::StallScope const scope(stall_rule());
  try {
    for (auto& queue : queues_)
      if (queue.check) queue.check->compare(described);
  } catch (Error const& error) {
    if (error.rule() != "PeerFailed") broken_ = std::current_exception();
    throw;
  }
}

bool BucketSums::end_within(double seconds) {
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  for (auto const& bucket : buckets_.all())
    while (bucket.num_ended < bucket.sums.size()) {
      if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
      advance();
      std::this_thread::yield();
    }
  return true;
}

}  // namespace graticule::training::detail
