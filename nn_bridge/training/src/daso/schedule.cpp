// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/daso/schedule.hpp>
#include <graticule/training/detail/daso_schedule.hpp>
#include <graticule/training/detail/values.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace graticule::training {

namespace detail {

PlateauDetector::PlateauDetector(PlateauOptions const& options)
    : options_(options), best_(std::numeric_limits<double>::infinity()) {
  if (options.goal == PlateauGoal::highest) best_ = -best_;
  if (!(options.threshold >= 0))
    throw Error("BadOption", "a plateau's threshold must be at least 0, got " + std::to_string(options.threshold));
  if (options.patience < 0 || options.cooldown < 0)
    throw Error("BadOption", "a plateau's patience and cooldown must be at least 0, got " +
                                 std::to_string(options.patience) + " and " + std::to_string(options.cooldown));
}

bool PlateauDetector::is_better(double value) const noexcept {
  bool const lowest = options_.goal == PlateauGoal::lowest;
  // Of an infinite best, a part is no number.
  if (std::isinf(best_)) return lowest ? value < best_ : value > best_;
  double const t = lowest ? -options_.threshold : options_.threshold;
  double const limit = options_.kind == PlateauThreshold::absolute ? best_ + t : best_ * (best_ < 0 ? 1 - t : 1 + t);
  return lowest ? value < limit : value > limit;
}

bool PlateauDetector::add(double value) {
  if (is_better(value)) {
    best_ = value;
    num_bad_ = 0;
  } else {
    ++num_bad_;
  }
  if (in_cooldown()) {
    --cooldown_left_;
    num_bad_ = 0;
  }
  if (num_bad_ <= options_.patience) return false;
  num_bad_ = 0;
  cooldown_left_ = options_.cooldown;
  return true;
}

Values PlateauDetector::state() const {
  return {{"best", best_}, {"num_bad", num_bad_}, {"cooldown_left", cooldown_left_}};
}

void PlateauDetector::load_state(Values const& values) {
  auto const best = value_of<double>(values, "best");
  auto const num_bad = value_of<Index>(values, "num_bad");
  auto const cooldown_left = value_of<Index>(values, "cooldown_left");
  best_ = best;
  num_bad_ = num_bad;
  cooldown_left_ = cooldown_left;
}

}  // namespace detail

namespace {

/// The global skip that warm-up ends with, where it is allowed.
constexpr Index first_global_skip = 4;

void require_at_least(Index least, Index value, char const* name) {
  if (value < least)
    throw Error("BadOption", "DASO needs at least " + std::to_string(least) + " for " + std::string(name) + ", got " +
                                 std::to_string(value));
}

DasoScheduleOptions checked(DasoScheduleOptions const& options) {
  require_at_least(1, options.total_epochs, "total_epochs");
  require_at_least(0, options.warmup_epochs, "warmup_epochs");
  require_at_least(0, options.cooldown_epochs, "cooldown_epochs");
  require_at_least(0, options.max_global_skips, "max_global_skips");
  require_at_least(1, options.skip_reduction_factor, "skip_reduction_factor");
  require_at_least(1, options.local_skip_factor, "local_skip_factor");
  if (options.arithmetic == DasoArithmetic::bounded &&
      options.warmup_epochs + options.cooldown_epochs > options.total_epochs)
    throw Error("BadOption", "DASO: epochs of warm-up and cool-down must be at most the " +
                                 std::to_string(options.total_epochs) + " in all, got " +
                                 std::to_string(options.warmup_epochs) + " and " +
                                 std::to_string(options.cooldown_epochs));
  return options;
}

}  // namespace

DasoSchedule::DasoSchedule(DasoScheduleOptions const& options, int num_groups)
    : options_(checked(options)),
      num_groups_(num_groups),
      plateau_({.threshold = options.stability, .patience = options.patience}) {
  require_at_least(1, num_groups, "num_groups");
  bool const skips = options_.warmup_epochs == 0 && options_.cooldown_epochs < options_.total_epochs;
  if (skips && options_.arithmetic == DasoArithmetic::bounded) begin_cycling();
}

void DasoSchedule::set_last_batch(Index last_batch) {
  require_at_least(0, last_batch, "last_batch");
  if (batch_ != 0 && last_batch != last_batch_)
    throw Error("WrongState", "DASO's last batch set from " + std::to_string(last_batch_) + " to " +
                                  std::to_string(last_batch) + " before batch " + std::to_string(batch_));
  last_batch_ = last_batch;
}

std::vector<DasoSchedule::Action> DasoSchedule::step() {
  if (last_batch_ < 0) throw Error("WrongState", "DASO needs the index of an epoch's last batch before its first step");
  std::vector<Action> actions;
  Index const weight = std::min(batches_to_wait_, last_batch_ - batch_);
  if (batch_ == last_batch_ || global_skip_ == 0 || batch_ % global_skip_ == 0) {
    global_sync(weight, actions);
  } else {
    cycle(weight, actions);
    ++batch_;
  }
  return actions;
}

void DasoSchedule::receive(std::vector<Action>& actions) {
  if (pending_) actions.push_back({Action::Kind::merge, pending_->group, pending_->weight});
  pending_.reset();
  if (previous_) actions.push_back({Action::Kind::share, *previous_});
}

void DasoSchedule::global_sync(Index weight, std::vector<Action>& actions) {
  actions.push_back({Action::Kind::send, group_, weight, phase()});
  if (batches_to_wait_ != 0) receive(actions);
  bool const last = batch_ == last_batch_;
  if (last || batches_to_wait_ == 0) {
    actions.push_back({Action::Kind::replace, group_});
    actions.push_back({Action::Kind::share, group_});
    previous_.reset();
  } else {
    previous_ = group_;
    pending_ = Message{group_, weight};
  }
  group_ = last ? 0 : (group_ + 1) % num_groups_;
  batch_ = last ? 0 : batch_ + 1;
  if (last) ++epoch_;
}

void DasoSchedule::cycle(Index weight, std::vector<Action>& actions) {
  Index const next = batch_ + 1;
  Index const since = batch_ % global_skip_;
  bool const next_is_last = next == last_batch_;
  if (next % global_skip_ == 0) {
    local_sync_ = true;
    return;
  }
  if (since < weight) {
    if (next_is_last) local_sync_ = true;
    return;
  }
  if (since == weight) {
    receive(actions);
    if (local_skip_ > 1) local_sync_ = false;
  }
  if (local_skip_ == 1 && !next_is_last) {
    local_sync_ = true;
    return;
  }
  // Heat's skips may be 0: gradients then stay local until the next global synchronisation.
  if (local_skip_ == 0 || batch_ % local_skip_ == 0)
    local_sync_ = false;
  else if (next % local_skip_ == 0)
    local_sync_ = true;
  if (next_is_last) local_sync_ = true;
}

void DasoSchedule::set_skips(Index global, Index local, Index wait) {
  global_skip_ = global;
  local_skip_ = local;
  batches_to_wait_ = wait;
}

void DasoSchedule::begin_cycling() {
  if (options_.arithmetic == DasoArithmetic::heat) return set_skips(first_global_skip, 1, 1);
  Index const one = std::min<Index>(options_.max_global_skips, 1);
  set_skips(std::min(first_global_skip, options_.max_global_skips), one, one);
}

void DasoSchedule::reduce_skips() {
  Index const global = global_skip_ / options_.skip_reduction_factor;
  Index const local = local_skip_ / options_.skip_reduction_factor;
  Index const wait = batches_to_wait_ - 1;
  if (options_.arithmetic == DasoArithmetic::heat) {
    auto const raised = [&](Index skip) { return global > 0 && skip == 0 ? Index(1) : skip; };
    return set_skips(global, raised(local), raised(wait));
  }
  Index const skip = std::max<Index>(global, 1);
  set_skips(skip, std::max<Index>(local, 1), std::clamp<Index>(wait, 1, skip));
}

void DasoSchedule::restart_skips() {
  Index const most = options_.max_global_skips;
  Index const local = most / options_.local_skip_factor;
  if (options_.arithmetic == DasoArithmetic::heat) return set_skips(most, local, local);
  set_skips(most, std::max<Index>(local, 1), std::max<Index>(local, 1));
}

void DasoSchedule::epoch_loss(double loss) {
  if (batch_ != 0)
    throw Error("WrongState", "DASO's epoch " + std::to_string(epoch_) + " ended before batch " +
                                  std::to_string(batch_) + "; its last batch is " + std::to_string(last_batch_));
  if (epoch_ < options_.warmup_epochs) return set_skips(0, 0, 0);
  if (epoch_ == options_.warmup_epochs) begin_cycling();
  if (epoch_ >= options_.total_epochs - options_.cooldown_epochs) return set_skips(0, 0, 0);
  if (!plateau_.add(loss)) return;
  if (global_skip_ > 1)
    reduce_skips();
  else if (global_skip_ == 1)
    restart_skips();
}

std::vector<DasoSchedule::Action> DasoSchedule::drain() {
  std::vector<Action> actions;
  if (pending_) receive(actions);
  return actions;
}

Values DasoSchedule::state() const {
  if (pending_) throw Error("WrongState", "a message of DASO is in flight; call drain() before saving the state");
  auto values = detail::with_prefix("plateau/", plateau_.state());
  values.merge(Values{{"epoch", epoch_},
                      {"batch", batch_},
                      {"last_batch", last_batch_},
                      {"global_skip", global_skip_},
                      {"local_skip", local_skip_},
                      {"batches_to_wait", batches_to_wait_},
                      {"group", Index(group_)},
                      {"previous_group", Index(previous_.value_or(-1))},
                      {"local_sync", Index(local_sync_)}});
  return values;
}

void DasoSchedule::load_state(Values const& values) {
  auto const index = [&](char const* name) { return detail::value_of<Index>(values, name); };
  auto found = DasoSchedule(options_, num_groups_);
  found.plateau_.load_state(detail::values_below(values, "plateau/"));
  found.epoch_ = index("epoch");
  found.batch_ = index("batch");
  found.last_batch_ = index("last_batch");
  found.set_skips(index("global_skip"), index("local_skip"), index("batches_to_wait"));
  found.local_sync_ = index("local_sync") != 0;
  auto const group = index("group");
  auto const previous = index("previous_group");
  if (found.epoch_ < 0 || found.batch_ < 0 || found.last_batch_ < -1 ||
      found.batch_ > std::max<Index>(found.last_batch_, 0) || found.global_skip_ < 0 || group < 0 || previous < -1)
    throw Error(Fault::input, "BadInput",
                "the saved state of DASO is damaged: epoch " + std::to_string(found.epoch_) + " before batch " +
                    std::to_string(found.batch_) + " of last batch " + std::to_string(found.last_batch_) +
                    ", global skip " + std::to_string(found.global_skip_) + ", group " + std::to_string(group));
  // Saved on nodes of more ranks, groups of this world take their turns.
  found.group_ = int(group % num_groups_);
  if (previous >= 0) found.previous_ = int(previous % num_groups_);
  *this = found;
}

}  // namespace graticule::training
