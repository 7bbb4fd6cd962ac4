// SPDX-License-Identifier: BSD-3-Clause
#include "reducer.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace graticule::training::detail {

namespace {

/// Part of `flat` in the form of a parameter.
torch::Tensor slot(torch::Tensor const& flat, Index begin, ReducedParameter const& parameter) {
  auto const part = flat.narrow(0, begin, c10::multiply_integers(parameter.sizes)).view(parameter.sizes);
  return Index(parameter.sizes.size()) > parameter.tensor.dim() ? torch::view_as_complex(part) : part;
}

bool has_its_sizes(ReducedParameter const& parameter, torch::Tensor const& grad) {
  auto sizes = grad.sizes().vec();
  if (grad.is_complex()) sizes.push_back(2);
  return sizes == parameter.sizes;
}

}  // namespace

Reducer::~Reducer() {
  hooks_.reset();
  graticule::detail::forget_work(this);
  if (broken_) graticule::detail::keep_for_good(std::move(buckets_));
  // Of an iteration that was given up.
  if (!broken_ && !iteration_.is_open()) keep_unended();
  if (broken_ || !iteration_.is_open()) return;
  using Clock = std::chrono::steady_clock;
  // While an exception unwinds the stack, others may have ended, or wait for this rank in other calls.
  auto const end = Clock::now() + std::chrono::duration<double>(graticule::detail::seconds_to_end());
  try {
    if (iteration_.stage == Stage::in_backward) iteration_.failed = true;
    fill_in_order(true);
    for (auto const& bucket : buckets_)
      while (bucket.num_ended < bucket.sums.size()) {
        if (std::uncaught_exceptions() > 0 && Clock::now() > end)
          throw Error("StalledExchange", "the other ranks have gone");
        advance();
        std::this_thread::yield();
      }
  } catch (...) {
    graticule::detail::keep_for_good(std::move(buckets_));
  }
}

void Reducer::note(DataParallel::Event::Kind kind, std::size_t index) {
  if (options_.record_events) events_.push_back({kind, index});
}

void Reducer::require_whole() const {
  if (broken_) std::rethrow_exception(broken_);
}

void Reducer::begin() {
  renew();
  require_whole();
  graticule::detail::StallScope const scope(stall_rule());
  if (before_) before_();
  if (join_) {
    count_present();
    if (join_->num_present == 0) return;
  }
  if (counts_.complete == 1) {
    rebucket();
    counts_.complete = 2;
  }
  for (auto& bucket : buckets_) {
    bucket.num_ready = bucket.num_started = bucket.num_ended = 0;
    bucket.filled = bucket.delivered = bucket.compared = false;
  }
  for (auto& parameter : parameters_) parameter.ready = false;
  for (std::size_t t = 0; t < teams_.size(); ++t) traffic_[t] = {.num_ranks = teams_[t].num_ranks()};
  ++counts_.begun;
  iteration_ = {.stage = Stage::in_backward,
                .described = "iteration " + std::to_string(counts_.begun) + ", bucket ",
                .next_in_queue = std::vector<std::size_t>(teams_.size())};
}

void Reducer::before_accumulation(std::size_t i) {
  if (iteration_.stage == Stage::pending) complete();
  end_failed_backward();
  if (sync_ && !iteration_.is_open()) {
    begin();
    iteration_.backward = torch::autograd::get_current_graph_task_id();
    auto const alive = std::make_shared<int>(iteration_.backward);
    iteration_.backward_is = alive;
    torch::autograd::Engine::get_default_engine().queue_callback([this, alive] { end_backward(); });
  }
  auto& parameter = parameters_[i];
  if (parameter.reduced) {
    parameter.before = std::exchange(parameter.tensor.mutable_grad(), torch::Tensor());
    parameter.reduced = false;
  } else if (!parameter.tensor.grad().defined()) {
    parameter.before.reset();
  }
}

void Reducer::after_accumulation(std::size_t i) {
  if (!sync_ || iteration_.stage != Stage::in_backward) return;
  auto& parameter = parameters_[i];
  auto& bucket = buckets_[bucket_of_[i]];
  try {
    if (bucket.filled)
      throw Error("WrongState", "a second gradient of '" + parameter.name +
                                    "' in one backward, after the first was sent; use no_sync() and reduce()");
    // One of a backward inside this one is not the last: it is sent at the end.
    if (torch::autograd::get_current_graph_task_id() == iteration_.backward && !parameter.ready) {
      parameter.ready = true;
      iteration_.arrivals.push_back(i);
      ++bucket.num_ready;
      note(DataParallel::Event::Kind::gradient_ready, i);
      fill_in_order(false);
    }
    advance();
  } catch (...) {
    iteration_.failed = true;
    if (!broken_ && !in_run_) fill_in_order(true);
    throw;
  }
}

void Reducer::end_backward() {
  if (iteration_.stage != Stage::in_backward) return;
  torch::NoGradGuard const no_grad;
  iteration_.nested = bool(torch::autograd::get_current_node());
  note(DataParallel::Event::Kind::last_gradient, iteration_.arrivals.empty() ? 0 : iteration_.arrivals.back());
  try {
    fill_in_order(true);
  } catch (...) {
    if (!in_run_) fail();
    throw;
  }
  iteration_.stage = Stage::pending;
  if (options_.wait == GradientWait::in_backward || iteration_.nested)
    complete();
  else
    advance();
}

void Reducer::end_failed_backward() {
  if (iteration_.stage == Stage::in_backward && iteration_.backward_is.expired()) fail();
}

void Reducer::fail() {
  if (broken_) return;
  if (iteration_.stage == Stage::pending) complete();
  if (!iteration_.is_open()) begin();
  iteration_.failed = true;
  complete();
}

void Reducer::reduce() {
  torch::NoGradGuard const no_grad;
  end_failed_backward();
  if (iteration_.stage == Stage::pending) complete();
  begin();
  try {
    fill_in_order(true);
  } catch (...) {
    fail();
    throw;
  }
  complete();
}

void Reducer::forget_reduced() {
  for (auto& parameter : parameters_) parameter.reduced = false;
}

bool Reducer::is_there(ReducedParameter const& parameter) const {
  auto const& grad = parameter.tensor.grad();
  if (!is_present() || iteration_.failed || !grad.defined() || parameter.reduced) return false;
  nn::detail::require_dense(parameter.name, grad);
  if (!has_its_sizes(parameter, grad))
    throw Error("ParametersChanged",
                "'" + parameter.name + "' has changed its shape: construct the object that reduces its gradient again");
  return true;
}

void Reducer::fill(Bucket& bucket) {
  auto const num = bucket.members.size();
  std::vector<double> flags(2 * num + 1, 0.0);
  for (std::size_t m = 0; m < num; ++m) {
    auto const& parameter = parameters_[bucket.members[m]];
    bool const there = is_there(parameter);
    bool const given = parameter.nested && parameter.reduced && parameter.tensor.grad().defined();
    if (is_present() && (there || !given)) flags[there ? num + m : m] = 1;
    auto const numel = c10::multiply_integers(parameter.sizes);
    auto const place = bucket.flat.narrow(0, bucket.begins[m], numel).view(parameter.sizes);
    if (!there) {
      place.zero_();
      continue;
    }
    auto const grad = parameter.tensor.grad().detach();
    place.copy_(grad.is_complex() ? torch::view_as_real(grad.resolve_conj()) : grad);
  }
  flags.back() = iteration_.failed ? 1 : 0;
  auto const given = nn::detail::message_memory({Index(flags.size())}, bucket.flat);
  given.copy_(torch::from_blob(flags.data(), {Index(flags.size())}, torch::kDouble));
  bucket.flat.narrow(0, bucket.num_data, Index(flags.size())).copy_(given, /*non_blocking=*/true);
  bucket.order->follow_current();
  bucket.filled = true;
}

void Reducer::fill_in_order(bool all) {
  while (iteration_.num_filled < buckets_.size()) {
    auto& bucket = buckets_[iteration_.num_filled];
    // The last one leaves at the end of the backward: should that throw, it notifies the others.
    if (!all && (bucket.num_ready < bucket.members.size() || iteration_.num_filled + 1 == buckets_.size())) return;
    fill(bucket);
    if (bucket.sums.empty()) note(DataParallel::Event::Kind::bucket_posted, iteration_.num_filled);
    ++iteration_.num_filled;
    start_sums();
  }
}

void Reducer::start_sums() {
  // A team that is left out may let one go on that has been looked at.
  for (bool left_out = true; left_out;) {
    left_out = false;
    for (std::size_t t = 0; t < teams_.size(); ++t)
      while (start_next(t)) left_out = left_out || !queues_[t].sums;
  }
}

bool Reducer::start_next(std::size_t t) {
  if (iteration_.next_in_queue[t] == queues_[t].buckets.size()) return false;
  auto const b = queues_[t].buckets[iteration_.next_in_queue[t]];
  auto& bucket = buckets_[b];
  auto const k = bucket.num_ended;
  if (!bucket.filled || bucket.num_started > k || bucket.rules[k].team != t) return false;
  if (queues_[t].sums && !is_agreed(t, b)) return false;
  if (k == 0 && !bucket.members.empty()) note(DataParallel::Event::Kind::bucket_posted, b);
  if (queues_[t].sums) {
    bool const thin = options_.low_rank && counts_.loaded + counts_.begun > options_.low_rank->first_iterations;
    double const divisor = bucket.rules[k].reduction == nn::Reduction::mean ? queues_[t].divisor : 1;
    bucket.order->precede_current();
    if (options_.hook && !bucket.members.empty())
      bucket.sums[k].start(bucket.flat, bucket.num_data, options_.hook(given_to_hook(b)));
    else
      bucket.sums[k].start(bucket.flat, bucket.num_data, divisor,
                           thin ? GradientSum::Travels::low_rank : GradientSum::Travels::whole);
  } else {
    ++bucket.num_ended;
  }
  ++bucket.num_started;
  ++iteration_.next_in_queue[t];
  return true;
}

GradientBucket Reducer::given_to_hook(std::size_t b) const {
  auto const& bucket = buckets_[b];
  auto const& [team, reduction] = bucket.rules[bucket.num_ended];
  GradientBucket given{.index = b,
                       .num_buckets = std::size_t(std::count_if(
                           buckets_.begin(), buckets_.end(), [](Bucket const& one) { return !one.members.empty(); })),
                       .team = teams_[team],
                       .reduction = reduction,
                       .values = bucket.flat.narrow(0, 0, bucket.num_data),
                       .parameters = {},
                       .gradients = {}};
  for (std::size_t m = 0; m < bucket.members.size(); ++m) {
    auto const& parameter = parameters_[bucket.members[m]];
    given.parameters.push_back(parameter.name);
    given.gradients.push_back(slot(bucket.flat, bucket.begins[m], parameter));
  }
  return given;
}

bool Reducer::is_agreed(std::size_t team, std::size_t b) {
  if (!compares() || teams_[team].num_ranks() == 1) return true;
  auto& bucket = buckets_[b];
  auto& check = *queues_[team].check;
  try {
    if (!bucket.compared) check.start(iteration_.described + std::to_string(b) + " of " + bucket.described);
    bucket.compared = true;
    if (!check.advance()) return false;
  } catch (...) {
    broken_ = std::current_exception();
    throw;
  }
  bucket.compared = false;
  return true;
}

void Reducer::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t b = 0; b < iteration_.num_filled; ++b) {
      auto& bucket = buckets_[b];
      if (bucket.num_started == bucket.num_ended) continue;
      auto& sum = bucket.sums[bucket.num_ended];
      if (!sum.advance()) continue;
      auto& traffic = traffic_[bucket.rules[bucket.num_ended].team];
      traffic.collectives += sum.traffic().collectives;
      traffic.messages += sum.traffic().messages;
      traffic.bytes += sum.traffic().bytes;
      bucket.order->follow_current();
      ++bucket.num_ended;
      moved = true;
    }
    if (moved || compares()) start_sums();
  }
}

StallRule Reducer::stall_rule() const {
  auto rule = graticule::stall_rule();
  if (options_.patience_seconds > 0) rule.report_seconds = options_.patience_seconds;
  if (compares() && (options_.patience_seconds > 0 || rule.error_seconds == 0))
    rule.error_seconds = rule.report_seconds;
  return rule;
}

void Reducer::wait_for(std::size_t b) {
  auto const& bucket = buckets_[b];
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

std::string Reducer::waits_for(std::size_t b) const {
  auto const& bucket = buckets_[b];
  auto const& sum = bucket.sums[bucket.num_ended];
  std::string ranks;
  if (bucket.num_started > bucket.num_ended)
    for (int const rank : sum.missing()) ranks += (ranks.empty() ? " " : ", ") + std::to_string(rank);
  return "rank " + std::to_string(sum.team().rank()) + " waits in " + iteration_.described + std::to_string(b) + " (" +
         bucket.name + "), for " +
         (ranks.empty() ? "some rank of a team of " + std::to_string(sum.team().num_ranks()) : "rank" + ranks) +
         (join_ ? "" : " (ranks with fewer batches than others need a Join)");
}

void Reducer::stall(std::size_t b, double waited) {
  try {
    // The bucket may wait for one before it.
    for (auto& queue : queues_)
      if (queue.check && queue.check->started())
        queue.check->give_up(iteration_.described + std::to_string(b) + " (" + buckets_[b].name + ")", waited);
    throw Error("StalledExchange", waits_for(b) + " for " + std::to_string(int(waited + 0.5)) + " s");
  } catch (...) {
    broken_ = std::current_exception();
    throw;
  }
}

bool Reducer::end_sums() {
  if (iteration_.stage != Stage::pending || !iteration_.awaited || broken_) return false;
  using Clock = std::chrono::steady_clock;
  torch::NoGradGuard const no_grad;
  auto const end = Clock::now() + std::chrono::duration<double>(graticule::detail::seconds_to_end());
  for (auto const& bucket : buckets_)
    while (bucket.num_ended < bucket.sums.size()) {
      if (Clock::now() > end) return false;
      advance();
      std::this_thread::yield();
    }
  return true;
}

void Reducer::settle() {
  if (!end_sums()) return;
  torch::NoGradGuard const no_grad;
  try {
    complete();
  } catch (Error const&) {  // NOLINT(bugprone-empty-catch): the failure of this iteration is the one to be seen
  }
}

void Reducer::remember() {
  counts_before_.begun = counts_.begun;
  counts_before_.complete = counts_.complete;
}

void Reducer::abandon() {
  if (iteration_.is_open()) iteration_.failed = true;
  counts_.begun = counts_before_.begun;
  // What is waited for late may have been completed since, on some ranks; and now is on all.
  if (options_.wait != GradientWait::late) counts_.complete = counts_before_.complete;
  iteration_.stage = Stage::ended;
  iteration_.peer_failed = true;
  for (auto& parameter : parameters_) {
    parameter.before.reset();
    if (parameter.handed_over) parameter.held.reset();
  }
  for (auto& [key, part] : low_rank_) part.end_iteration(false);
}

void Reducer::deliver(std::size_t b) {
  auto& bucket = buckets_[b];
  if (bucket.delivered) return;
  bucket.delivered = true;
  if (!bucket.members.empty()) note(DataParallel::Event::Kind::bucket_waited, b);
  auto const num = Index(bucket.members.size());
  bucket.order->precede_current();
  auto const flags = bucket.flat.narrow(0, bucket.num_data, 2 * num + 1).to(torch::kCPU, torch::kDouble);
  auto const flag = flags.accessor<double, 1>();
  if (flag[2 * num] > 0) {
    iteration_.peer_failed = true;
    return;
  }
  for (Index m = 0; m < num; ++m) {
    auto& parameter = parameters_[bucket.members[std::size_t(m)]];
    bool const missing = flag[m] > 0;
    bool const there = flag[num + m] > 0;
    if (missing && !iteration_.nested && options_.unused == Unused::refused) {
      constexpr std::size_t max_text = 1000;
      if (iteration_.unused.size() < max_text)
        iteration_.unused +=
            (iteration_.unused.empty() ? "'" : ", '") + parameter.name + (there ? "' on some ranks" : "' on any rank");
    } else if (there) {
      deliver_to(parameter, slot(bucket.flat, bucket.begins[std::size_t(m)], parameter));
    }
  }
}

void Reducer::deliver_to(ReducedParameter& parameter, torch::Tensor const& value) {
  if (!is_present()) return;
  auto& target = parameter.handed_over ? parameter.held : parameter.tensor.mutable_grad();
  auto before = std::exchange(parameter.before, torch::Tensor());
  if (!before.defined() && target.defined() && parameter.reduced) before = target.detach().clone();
  if (!target.defined() || target.sizes() != value.sizes())
    target = value.to(parameter.tensor.options().requires_grad(false), false, true);
  else
    target.detach().copy_(value);
  if (before.defined()) {
    target.detach().add_(before);
    nn::detail::keep_for_current_stream(before);
  }
  parameter.reduced = true;
}

void Reducer::complete() {
  require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  fill_in_order(true);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    wait_for(b);
    deliver(b);
  }
  finish();
}

void Reducer::complete(std::vector<std::size_t> const& parameters) {
  require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  for (auto const i : parameters) {
    wait_for(bucket_of_[i]);
    deliver(bucket_of_[i]);
  }
  if (iteration_.peer_failed || !iteration_.unused.empty() ||
      std::all_of(buckets_.begin(), buckets_.end(), [](auto const& bucket) { return bucket.delivered; }))
    complete();
}

void Reducer::await_backward() {
  require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  wait_for(buckets_.size() - 1);
  deliver(buckets_.size() - 1);
  if (iteration_.peer_failed) complete();
  iteration_.awaited = true;
}

void Reducer::hand_over(std::vector<std::size_t> const& parameters) {
  for (auto const i : parameters) {
    auto& parameter = parameters_[i];
    parameter.held = std::exchange(parameter.tensor.mutable_grad(), torch::Tensor());
    parameter.handed_over = true;
  }
}

void Reducer::finish() {
  iteration_.stage = Stage::ended;
  // What a late step has taken is this rank's alone where there are no sums.
  if (!iteration_.is_whole() || !iteration_.unused.empty())
    for (auto& parameter : parameters_)
      if (parameter.handed_over) parameter.held.reset();
  bool const complete = iteration_.is_whole();
  for (auto& parameter : parameters_) parameter.nested = iteration_.nested && (parameter.nested || parameter.ready);
  for (auto& [key, part] : low_rank_) part.end_iteration(complete);
  if (iteration_.failed) return;
  if (iteration_.peer_failed)
    throw Error("PeerFailed",
                "the forward or backward of another rank ended with an exception: this iteration has no gradients");
  ++counts_.complete;
  if (!iteration_.unused.empty())
    throw Error("UnusedParameter", "this backward gave no gradient to " + iteration_.unused +
                                       "; freeze it on all ranks, or let the options allow it");
}

}  // namespace graticule::training::detail
