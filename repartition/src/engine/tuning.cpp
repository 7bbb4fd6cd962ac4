// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/tuning.hpp>

#include "pull_state.hpp"
#include "whole_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

namespace graticule {

namespace {

constexpr char const* heading = "graticule-tuning 1";

TuningRecord parse_line(std::string const& line, std::string const& where) {
  std::istringstream words(line);
  TuningRecord record;
  std::string chosen;
  std::string rest;
  words >> std::hex >> record.plan >> std::dec >> chosen >> record.point_to_point_seconds >> record.node_shared_seconds;
  if (!words || words >> rest || !(record.point_to_point_seconds >= 0) || !(record.node_shared_seconds >= 0))
    throw Error(Fault::input, "BadInput",
                where + ": '" + line + "' is not a plan, a transport and the seconds of p2p and node");
  record.chosen = messages::transport_from(chosen);
  return record;
}

}  // namespace

std::optional<TuningRecord> TuningTable::find(std::uint64_t plan) const {
  for (auto const& record : records_)
    if (record.plan == plan) return record;
  return std::nullopt;
}

void TuningTable::add(TuningRecord const& record) {
  std::erase_if(records_, [&](TuningRecord const& old) { return old.plan == record.plan; });
  records_.push_back(record);
}

TuningTable TuningTable::parse(std::string const& text, std::string const& name) {
  TuningTable table;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != heading)
    throw Error(Fault::input, "BadInput", name + ": the first line is not '" + heading + "'");
  for (int number = 2; std::getline(lines, line); ++number)
    if (!line.empty() && line.front() != '#') table.add(parse_line(line, name + ", line " + std::to_string(number)));
  return table;
}

TuningTable TuningTable::load(std::string const& path) { return parse(read_text(path), path); }

std::string TuningTable::text() const {
  std::ostringstream text;
  text << heading << "\n# plan, chosen path, seconds of a call: p2p, node\n"
       << std::setprecision(std::numeric_limits<double>::max_digits10);
  for (auto const& record : records_)
    text << std::hex << record.plan << std::dec << ' ' << to_string(record.chosen) << ' '
         << record.point_to_point_seconds << ' ' << record.node_shared_seconds << '\n';
  return text.str();
}

void TuningTable::save(std::string const& path) const { detail::write_whole_file(path, text()); }

namespace {

/// A call; what it throws on any rank is thrown on all.
void warm_up(PullPlan const& plan, std::span<PullField const> fields) {
  Pending pending;
  run_agreed(plan.comm(), [&] { pending = plan.start(fields); });
  run_agreed(plan.comm(), [&] { pending.wait(); });
}

/// Seconds of a call on the slowest rank.
double seconds_of_call(PullPlan const& plan, std::span<PullField const> fields) {
  std::array<double, 1> slowest{0};
  plan.comm().barrier();
  run_agreed(plan.comm(), [&] {
    double const begin = MPI_Wtime();
    plan.apply(fields);
    slowest[0] = MPI_Wtime() - begin;
  });
  plan.comm().max(slowest);
  return slowest[0];
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace

TuningRecord tune(PullPlan& plan, std::span<PullField const> fields, int num_calls) {
  run_agreed(plan.comm(), [&] {
    if (num_calls < 1) throw Error("BadOption", "num_calls must be at least 1, got " + std::to_string(num_calls));
  });
  require_same(plan.comm(), "ArgumentDisagreement", std::uint64_t(num_calls),
               std::to_string(num_calls) + " calls to measure");
  constexpr int num_warm_ups = 2;
  constexpr std::array candidates{Transport::point_to_point, Transport::node_shared};
  std::array<std::vector<double>, 2> seconds;
  auto const before = plan.transport();
  auto const chosen_by_before = plan.state_->chosen_by();
  try {
    for (int call = -num_warm_ups; call < num_calls; ++call)
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        plan.set_transport(candidates[c]);
        if (call < 0)
          warm_up(plan, fields);
        else
          seconds[c].push_back(seconds_of_call(plan, fields));
      }
  } catch (...) {
    plan.state_->set_transport(before, chosen_by_before);
    throw;
  }
  TuningRecord record{plan.fingerprint(), Transport::node_shared, median(seconds[0]), median(seconds[1])};
  if (record.point_to_point_seconds < record.node_shared_seconds) record.chosen = Transport::point_to_point;
  plan.state_->set_transport(record.chosen, detail::ChosenBy::measurement);
  return record;
}

}  // namespace graticule
