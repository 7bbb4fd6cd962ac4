// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/schedule/learning_rate.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graticule::training {

namespace {

void require_valid(Schedule const& schedule, Index step) {
  auto const refuse = [](std::string const& what) { throw Error("BadOption", what); };
  if (step < 0) refuse("a step must be at least 0, got " + std::to_string(step));
  if (schedule.num_steps < 1 || schedule.period < 1) refuse("numbers of steps and periods must be at least 1");
  for (double const value : {schedule.warmup_steps, schedule.final_factor, schedule.gamma})
    if (!(value >= 0 && std::isfinite(value))) refuse("factors and the rise are numbers of 0 or more");
}

}  // namespace

std::map<std::string, Schedule::Kind> const& Schedule::kinds() {
  static std::map<std::string, Kind> const kinds{{"constant", Kind::constant},
                                                 {"linear", Kind::linear},
                                                 {"cosine", Kind::cosine},
                                                 {"steps", Kind::steps},
                                                 {"exponential", Kind::exponential}};
  return kinds;
}

double Schedule::factor(Index step) const {
  require_valid(*this, step);
  double const rise = std::min(1.0, (double(step) + 1) / (warmup_steps + 1));
  auto const s = double(std::min(step, num_steps));
  auto const n = double(num_steps);
  switch (kind) {
    case Kind::constant: return rise;
    case Kind::linear: return rise * (1 - (1 - final_factor) * s / n);
    case Kind::cosine: return rise * (final_factor + (1 - final_factor) * (1 + std::cos(std::numbers::pi * s / n)) / 2);
    case Kind::steps: return rise * std::pow(gamma, std::floor(s / double(period)));
    case Kind::exponential: return rise * std::pow(gamma, s / double(period));
  }
  return rise;
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

}  // namespace graticule::training
