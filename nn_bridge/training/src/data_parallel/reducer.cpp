// SPDX-License-Identifier: BSD-3-Clause
#include "reducer.hpp"

#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

namespace graticule::training::detail {

bool compares_calls(CheckedCalls checks) {
  return checks == CheckedCalls::on || (checks == CheckedCalls::by_environment && graticule::detail::checks_calls());
}

namespace {

DataParallelOptions settled(DataParallelOptions options) {
  options.own_rules.clear();
  options.checks = compares_calls(options.checks) ? CheckedCalls::on : CheckedCalls::off;
  return options;
}

}  // namespace

Reducer::Reducer(std::vector<ReducedParameter> parameters, std::vector<Comm> teams, DataParallelOptions const& options)
    : teams_(std::move(teams)),
      options_(settled(options)),
      log_(options_.record_events),
      buckets_(std::move(parameters), teams_, options_),
      sums_(buckets_, teams_, options_, log_) {
  std::vector<torch::Tensor> tensors;
  for (auto const& parameter : buckets_.parameters()) tensors.push_back(parameter.tensor);
  hooks_.emplace(
      std::move(tensors), [this](std::size_t i) { before_accumulation(i); },
      [this](std::size_t i) { after_accumulation(i); });
}

Reducer::~Reducer() {
  hooks_.reset();
  graticule::detail::forget_work(this);
  if (sums_.is_broken()) buckets_.keep_all();
  // Of an iteration that was given up.
  if (!sums_.is_broken() && !iteration_.is_open()) buckets_.keep_unended();
  if (sums_.is_broken() || !iteration_.is_open()) return;
  // While an exception unwinds the stack, others may have ended, or wait for this rank in other calls.
  double const longest =
      std::uncaught_exceptions() > 0 ? graticule::detail::seconds_to_end() : std::numeric_limits<double>::infinity();
  try {
    if (iteration_.stage == Stage::in_backward) iteration_.failed = true;
    fill_in_order(true);
    if (!sums_.end_within(longest)) buckets_.keep_all();
  } catch (...) {
    buckets_.keep_all();
  }
}

void Reducer::renew() {
  if (!sums_.are_outdated()) return;
  buckets_.keep_unended();
  sums_.renew();
  buckets_.renew();
}

void Reducer::begin() {
  renew();
  sums_.require_whole();
  graticule::detail::StallScope const scope(sums_.stall_rule());
  if (before_) before_();
  if (join_) {
    count_present();
    if (join_->num_present == 0) return;
  }
  if (counts_.complete == 1) {
    compare("new buckets");
    buckets_.renew_in_order(iteration_.arrivals);
    counts_.complete = 2;
  }
  ++counts_.begun;
  buckets_.begin_iteration();
  sums_.begin_iteration(counts_.begun, join_.has_value());
  iteration_ = {.stage = Stage::in_backward};
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
  buckets_.put_aside(i);
}

void Reducer::after_accumulation(std::size_t i) {
  if (!sync_ || iteration_.stage != Stage::in_backward) return;
  auto& parameter = buckets_.parameters()[i];
  auto& bucket = buckets_.all()[buckets_.bucket_of(i)];
  try {
    if (bucket.filled)
      throw Error("WrongState", "a second gradient of '" + parameter.name +
                                    "' in one backward, after the first was sent; use no_sync() and reduce()");
    // One of a backward inside this one is not the last: it is sent at the end.
    if (torch::autograd::get_current_graph_task_id() == iteration_.backward && !parameter.ready) {
      parameter.ready = true;
      iteration_.arrivals.push_back(i);
      ++bucket.num_ready;
      log_.note(DataParallel::Event::Kind::gradient_ready, i);
      fill_in_order(false);
    }
    sums_.advance();
  } catch (...) {
    iteration_.failed = true;
    if (!sums_.is_broken() && !in_run_) fill_in_order(true);
    throw;
  }
}

void Reducer::end_backward() {
  if (iteration_.stage != Stage::in_backward) return;
  torch::NoGradGuard const no_grad;
  iteration_.nested = bool(torch::autograd::get_current_node());
  log_.note(DataParallel::Event::Kind::last_gradient, iteration_.arrivals.empty() ? 0 : iteration_.arrivals.back());
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
    sums_.advance();
}

void Reducer::end_failed_backward() {
  if (iteration_.stage == Stage::in_backward && iteration_.backward_is.expired()) fail();
}

void Reducer::fail() {
  if (sums_.is_broken()) return;
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

void Reducer::fill_in_order(bool all) {
  auto& buckets = buckets_.all();
  for (auto& b = iteration_.num_filled; b < buckets.size();) {
    // The last one leaves at the end of the backward: should that throw, it notifies the others.
    if (!all && (buckets[b].num_ready < buckets[b].members.size() || b + 1 == buckets.size())) return;
    buckets_.fill(buckets[b], {.is_present = is_present(), .failed = iteration_.failed});
    if (buckets[b].sums.empty()) log_.note(DataParallel::Event::Kind::bucket_posted, b);
    ++b;
    sums_.start();
  }
}

bool Reducer::end_sums() {
  if (iteration_.stage != Stage::pending || !iteration_.awaited || sums_.is_broken()) return false;
  torch::NoGradGuard const no_grad;
  return sums_.end_within(graticule::detail::seconds_to_end());
}

void Reducer::remember() { counts_before_ = counts_; }

void Reducer::abandon() {
  if (iteration_.is_open()) iteration_.failed = true;
  counts_.begun = counts_before_.begun;
  // What is waited for late may have been completed since, on some ranks; and now is on all.
  if (options_.wait != GradientWait::late) counts_.complete = counts_before_.complete;
  iteration_.stage = Stage::ended;
  iteration_.peer_failed = true;
  buckets_.abandon();
}

void Reducer::deliver(std::size_t b) {
  auto& bucket = buckets_.all()[b];
  if (bucket.delivered) return;
  bucket.delivered = true;
  if (!bucket.members.empty()) log_.note(DataParallel::Event::Kind::bucket_waited, b);
  auto const num = Index(bucket.members.size());
  bucket.order->precede_current();
  auto const flags = bucket.flat.narrow(0, bucket.num_data, 2 * num + 1).to(torch::kCPU, torch::kDouble);
  auto const flag = flags.accessor<double, 1>();
  if (flag[2 * num] > 0) {
    iteration_.peer_failed = true;
    return;
  }
  for (Index m = 0; m < num; ++m) {
    auto const& name = buckets_.parameters()[bucket.members[std::size_t(m)]].name;
    bool const missing = flag[m] > 0;
    bool const there = flag[num + m] > 0;
    if (missing && !iteration_.nested && options_.unused == Unused::refused) {
      constexpr std::size_t max_text = 1000;
      if (iteration_.unused.size() < max_text)
        iteration_.unused +=
            (iteration_.unused.empty() ? "'" : ", '") + name + (there ? "' on some ranks" : "' on any rank");
    } else if (there && is_present()) {
      buckets_.deliver(bucket, std::size_t(m));
    }
  }
}

void Reducer::complete() {
  sums_.require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  fill_in_order(true);
  for (std::size_t b = 0; b < buckets_.all().size(); ++b) {
    sums_.wait_for(b);
    deliver(b);
  }
  finish();
}

void Reducer::complete(std::vector<std::size_t> const& parameters) {
  sums_.require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  for (auto const i : parameters) {
    sums_.wait_for(buckets_.bucket_of(i));
    deliver(buckets_.bucket_of(i));
  }
  auto const& all = buckets_.all();
  if (iteration_.peer_failed || !iteration_.unused.empty() ||
      std::all_of(all.begin(), all.end(), [](Bucket const& bucket) { return bucket.delivered; }))
    complete();
}

void Reducer::await_backward() {
  sums_.require_whole();
  if (!iteration_.is_open()) return;
  torch::NoGradGuard const no_grad;
  auto const last = buckets_.all().size() - 1;
  sums_.wait_for(last);
  deliver(last);
  if (iteration_.peer_failed) complete();
  iteration_.awaited = true;
}

void Reducer::finish() {
  iteration_.stage = Stage::ended;
  // What a late step has taken is this rank's alone where there are no sums.
  if (!iteration_.is_whole() || !iteration_.unused.empty()) buckets_.drop_handed_over();
  buckets_.end_iteration(iteration_.is_whole(), iteration_.nested);
  if (iteration_.failed) return;
  if (iteration_.peer_failed)
    throw Error("PeerFailed",
                "the forward or backward of another rank ended with an exception: this iteration has no gradients");
  ++counts_.complete;
  if (!iteration_.unused.empty())
    throw Error("UnusedParameter", "this backward gave no gradient to " + iteration_.unused +
                                       "; freeze it on all ranks, or let the options allow it");
}

void Reducer::require_watched() const {
  auto const lost = hooks_->first_lost();
  if (lost < buckets_.parameters().size())
    throw Error("ParametersChanged", "'" + buckets_.parameters()[lost].name +
                                         "' has changed its device or type: construct the DataParallel again");
}

void Reducer::require_reduced() const {
  if (iteration_.is_open()) return;
  // What was summed before the failure is applied by none.
  if (!iteration_.is_whole())
    throw Error("WrongState", std::string("the last forward or backward of ") +
                                  (iteration_.failed ? "this" : "another") + " rank ended with an exception");
  buckets_.require_reduced();
}

void Reducer::compare(std::string const& described) {
  renew();
  sums_.compare(described + " after iteration " + std::to_string(counts_.begun));
}

void Reducer::begin_join(std::vector<TeamPlace> rules, JoinOptions const& options) {
  join_ = Joining{.rules = std::move(rules), .options = options};
}

void Reducer::end_join() noexcept {
  join_.reset();
  sums_.reset_divisors();
}

void Reducer::count_present() {
  Index const mine = join_->present ? 1 : 0;
  // Ranks that are present, ranks that there are, domains of which a part is present.
  std::array<Index, 3> counts{mine, 1, 0};
  for (auto const& [t, reduction] : join_->rules) {
    std::array<Index, 1> here{mine};
    teams_[t].sum(here);
    if (reduction == nn::Reduction::sum && here[0] != 0 && here[0] != teams_[t].num_ranks()) counts[2] = 1;
    if (join_->options.divisor == JoinDivisor::active_ranks) sums_.set_divisor(t, double(std::max<Index>(here[0], 1)));
  }
  for (auto const& rule : join_->rules) teams_[rule.team].sum(counts);
  join_->num_present = counts[0];
  if (counts[2] > 0)
    throw Error("UnevenInputs", "some ranks of a team whose gradients are summed have no more batches, others do");
  if (join_->options.early_end == EarlyEnd::refused && counts[0] > 0 && counts[0] < counts[1])
    throw Error("UnevenInputs", std::to_string(counts[1] - counts[0]) + " of " + std::to_string(counts[1]) +
                                    " ranks have no more batches");
}

bool Reducer::shadow() {
  complete();
  if (!join_) return false;
  join_->present = false;
  begin();
  if (join_->num_present == 0) return false;
  try {
    complete();
  } catch (Error const& error) {
    // Those that have batches are notified, and may go on.
    if (error.rule() != "PeerFailed" || !iteration_.has_failed_by_sums()) throw;
  }
  return true;
}

}  // namespace graticule::training::detail
