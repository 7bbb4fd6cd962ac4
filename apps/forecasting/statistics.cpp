// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/stored_description.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace graticule::forecasting {
namespace {

using models::Feature;
using samples::LevelStatistics;
using samples::Moments;

class StateSurvey {
 public:
  StateSurvey(samples::DataTeams const& teams, models::Cells const& cells, samples::SampleStore& store,
              samples::TimeSteps const& steps, Index num_members, std::vector<StateChannel> const& channels,
              TimeUse const& use, samples::MissingCells& missing)
      : teams_(teams),
        cells_(cells),
        store_(store),
        steps_(steps),
        num_members_(num_members),
        channels_(channels),
        use_(use),
        missing_(missing),
        derivatives_(teams.domain(), cells),
        num_cells_(std::size_t(cells.per_sample())),
        sums_(channels.size() * num_cells_),
        counts_(channels.size() * num_cells_) {
    statistics_.areas.assign(use.used.size() * std::size_t(num_members) * channels.size(), 0.0);
    for (StateChannel const& channel : channels) {
      values_.push_back({models::channel_of(Feature::value, channel.info), {Moments()}});
      values_.back().channel.name = channel.label;
      if (channel.role != Role::prognostic) continue;
      tendencies_.push_back({{"the tendency of " + channel.label, channel.info.parity}, {Moments()}});
      east_.push_back({models::channel_of(Feature::east, channel.info), {Moments()}});
      north_.push_back({models::channel_of(Feature::north, channel.info), {Moments()}});
    }
  }

  StateStatistics operator()() {
    auto const states = states_in_use();
    auto const [first, last] = teams_.my_part_of(Index(states.size()));
    // All teams make as many rounds: a failure of one is agreed on.
    Index const rounds = (Index(states.size()) + teams_.num_teams() - 1) / teams_.num_teams();
    for (Index round = 0; round < rounds; ++round) {
      bool const mine = first + round < last;
      run_agreed(teams_.world(), [&] {
        if (mine) read(states[std::size_t(first + round)]);
      });
      if (mine) derive(states[std::size_t(first + round)]);
    }
    return finish();
  }

 private:
  [[nodiscard]] std::vector<Index> states_in_use() const {
    std::vector<Index> states;
    for (Index t = 0; t < steps_.num_times(); ++t)
      for (Index m = 0; m < num_members_ && use_.used[std::size_t(t)]; ++m) states.push_back(t * num_members_ + m);
    return states;
  }

  /// All that needs no message.
  void read(Index state) {
    bool const trains = use_.trains[std::size_t(state / num_members_)];
    auto const before = steps_.at(state / num_members_, -1);
    bool const has_tendency = trains && before && use_.trains[std::size_t(*before)];
    padded_.clear();
    std::vector<double> field(num_cells_);
    std::vector<double> earlier(num_cells_);
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      store_.fetch(state, c, field);
      missing_.count(state, c, field);
      Moments const moments = samples::moments_of(cells_, field);
      if (!std::isfinite(moments.mean)) missing_.refuse_infinite(state, c, field);
      statistics_.areas[std::size_t(state) * channels_.size() + c] = moments.weight;
      if (!trains) continue;
      values_[c].levels[0].add(moments);
      add_to_climatology(c, field);
      if (channels_[c].role != Role::prognostic) continue;
      padded_.push_back({channels_[c].info.parity, 0, {}});
      derivatives_.resize(padded_.back(), 1);
      derivatives_.put(padded_.back(), 0, field);
      if (!has_tendency) continue;
      store_.fetch(*before * num_members_ + state % num_members_, c, earlier);
      for (std::size_t i = 0; i < num_cells_; ++i) earlier[i] = field[i] - earlier[i];
      tendencies_[c].levels[0].add(samples::moments_of(cells_, earlier));
    }
  }

  void add_to_climatology(std::size_t channel, std::vector<double> const& field) {
    for (std::size_t i = 0; i < num_cells_; ++i) {
      if (std::isnan(field[i])) continue;
      sums_[channel * num_cells_ + i] += field[i];
      counts_[channel * num_cells_ + i] += 1;
    }
  }

  void derive(Index state) {
    if (!use_.trains[std::size_t(state / num_members_)] || padded_.empty()) return;
    derivatives_.exchange(padded_);
    std::vector<double> derivative(num_cells_);
    for (std::size_t c = 0; c < padded_.size(); ++c)
      for (auto const& [which, into] : {std::pair(Feature::east, &east_), std::pair(Feature::north, &north_)}) {
        derivatives_.get(padded_[c], 0, which, derivative);
        (*into)[c].levels[0].add(samples::moments_of(cells_, derivative));
      }
  }

  StateStatistics finish() {
    Comm const& world = teams_.world();
    for (auto* fields : {&values_, &tendencies_, &east_, &north_}) samples::finish_statistics(world, *fields);
    for (auto const& field : values_) statistics_.values.push_back({field.scaling.mean[0], field.scaling.scale[0]});
    for (auto const& field : tendencies_)
      statistics_.tendencies.push_back({field.scaling.mean[0], field.scaling.scale[0]});
    for (auto const& field : east_) statistics_.east_scales.push_back(field.scaling.scale[0]);
    for (auto const& field : north_) statistics_.north_scales.push_back(field.scaling.scale[0]);
    world.sum(std::span(statistics_.areas));
    teams_.data().sum(std::span(sums_));
    teams_.data().sum(std::span(counts_));
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = counts_[i] > 0 ? sums_[i] / counts_[i] : std::numeric_limits<double>::quiet_NaN();
    statistics_.climatology = std::move(sums_);
    return std::move(statistics_);
  }

  samples::DataTeams const& teams_;
  models::Cells const& cells_;
  samples::SampleStore& store_;
  samples::TimeSteps const& steps_;
  Index num_members_;
  std::vector<StateChannel> const& channels_;
  TimeUse const& use_;
  samples::MissingCells& missing_;
  samples::Derivatives derivatives_;
  std::size_t num_cells_;
  std::vector<double> sums_;
  std::vector<double> counts_;
  std::vector<LevelStatistics> values_;
  std::vector<LevelStatistics> tendencies_;
  std::vector<LevelStatistics> east_;
  std::vector<LevelStatistics> north_;
  std::vector<samples::PaddedField> padded_;
  StateStatistics statistics_;
};

}  // namespace

StateStatistics survey_states(samples::DataTeams const& teams, models::Cells const& cells, samples::SampleStore& store,
                              samples::TimeSteps const& steps, Index num_members,
                              std::vector<StateChannel> const& channels, TimeUse const& use,
                              samples::MissingCells& missing) {
  return StateSurvey(teams, cells, store, steps, num_members, channels, use, missing)();
}

}  // namespace graticule::forecasting
