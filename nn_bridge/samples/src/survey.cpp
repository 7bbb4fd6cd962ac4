// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/samples/detail/survey.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace graticule::samples {
namespace {

/// Samples that are processed together: consecutive ones, of which the first are for training.
struct Piece {
  std::pair<Index, Index> request = {};  ///< the first one, and one past the last
  Index num_training = 0;
  std::vector<PaddedField> padded = {};  ///< training samples of each field that derivatives are made of
};

class Surveyor {
 public:
  Surveyor(DataTeams const& teams, Cells const& cells, Derivatives const& derivatives, SampleStore& store,
           ChannelPlan const& plan, Index num_training, Index at_once, MissingCells& missing)
      : teams_(teams),
        cells_(cells),
        derivatives_(derivatives),
        store_(store),
        plan_(plan),
        num_training_(num_training),
        at_once_(at_once),
        missing_(missing),
        derived_(plan.derived_fields()),
        field_(std::size_t(cells.per_sample())),
        derivative_(field_.size()),
        ahead_({teams.world()}, [this](Piece& piece) { look_at(piece); }) {
    std::vector<Moments> const empty(std::size_t(plan.num_levels));
    auto const& reader = store.reader();
    for (auto const& [field, feature, scaling] : plan.inputs)
      survey_.inputs.push_back({channel_of(feature, reader.info(field)), empty});
    for (auto const& [field, scaling] : plan.targets)
      survey_.targets.push_back({channel_of(Feature::value, reader.info(field)), empty});
    survey_.sample_weights.assign(std::size_t(reader.num_in_file()), 0.0);
    for (Piece& piece : ahead_.slots())
      for (std::size_t const field : derived_) piece.padded.push_back({reader.info(field).parity, 0, {}});
  }

  Survey operator()() {
    auto const [begin, end] = teams_.my_part_of(store_.reader().num_in_file());
    // As many rounds on all teams, whose parts may differ by one sample: ranks agree on failures in each.
    Index const most = (store_.reader().num_in_file() + teams_.num_teams() - 1) / teams_.num_teams();
    Index const rounds = (most + at_once_ - 1) / at_once_;
    auto const samples_of = [&](Index round) {
      Index const first = std::min(begin + round * at_once_, end);
      return std::pair(first, std::min(first + at_once_, end));
    };
    for (Index round = 0; round < rounds; ++round) {
      Piece& piece = ahead_.take(samples_of(round));
      if (round + 1 < rounds) ahead_.begin(samples_of(round + 1));
      derive(piece);
    }
    finish_statistics(teams_.world(), survey_.inputs);
    finish_statistics(teams_.world(), survey_.targets);
    teams_.world().sum(std::span(survey_.sample_weights));
    return std::move(survey_);
  }

 private:
  /// On the thread: all but derivatives.
  void look_at(Piece& piece) {
    auto const [first, last] = piece.request;
    piece.num_training = std::clamp<Index>(num_training_ - first, 0, last - first);
    for (PaddedField& field : piece.padded) derivatives_.resize(field, piece.num_training);
    for (Index sample = first; sample < last; ++sample)
      for (std::size_t field = 0; field < store_.reader().num_fields(); ++field) look_at(piece, sample, field);
  }

  void look_at(Piece& piece, Index sample, std::size_t field) {
    bool const trains = sample < num_training_;
    bool const is_target = std::any_of(plan_.targets.begin(), plan_.targets.end(),
                                       [&](auto const& target) { return target.field == field; });
    if (!trains && !is_target) return;
    store_.fetch(sample, field, field_);
    missing_.count(sample, field, field_);
    for (std::size_t d = 0; d < derived_.size(); ++d)
      if (derived_[d] == field && trains) derivatives_.put(piece.padded[d], sample - piece.request.first, field_);
    Moments const moments = moments_of(cells_, field_);
    if (!std::isfinite(moments.mean)) missing_.refuse_infinite(sample, field, field_);
    auto const level = std::size_t(sample % plan_.num_levels);
    for (std::size_t c = 0; c < plan_.inputs.size(); ++c)
      if (plan_.inputs[c].field == field && plan_.inputs[c].feature == Feature::value)
        survey_.inputs[c].levels[level].add(moments);
    for (std::size_t t = 0; t < plan_.targets.size(); ++t) {
      if (plan_.targets[t].field != field) continue;
      survey_.sample_weights[std::size_t(sample)] += moments.weight;
      if (trains) survey_.targets[t].levels[level].add(moments);
    }
  }

  /// On the caller's thread, in the order of samples too.
  void derive(Piece& piece) {
    if (derived_.empty() || piece.num_training == 0) return;
    derivatives_.exchange(piece.padded);
    for (std::size_t c = 0; c < plan_.inputs.size(); ++c) {
      auto const& input = plan_.inputs[c];
      if (input.feature == Feature::value) continue;
      auto const d = std::size_t(std::find(derived_.begin(), derived_.end(), input.field) - derived_.begin());
      for (Index i = 0; i < piece.num_training; ++i) {
        derivatives_.get(piece.padded[d], i, input.feature, derivative_);
        survey_.inputs[c].levels[std::size_t((piece.request.first + i) % plan_.num_levels)].add(
            moments_of(cells_, derivative_));
      }
    }
  }

  DataTeams const& teams_;
  Cells const& cells_;
  Derivatives const& derivatives_;
  SampleStore& store_;
  ChannelPlan const& plan_;
  Index num_training_;
  Index at_once_;
  MissingCells& missing_;
  std::vector<std::size_t> derived_;
  std::vector<double> field_;       ///< the thread's
  std::vector<double> derivative_;  ///< the caller's
  Survey survey_;
  ReadAhead<Piece> ahead_;
};

}  // namespace

Survey survey_samples(DataTeams const& teams, Cells const& cells, Derivatives const& derivatives, SampleStore& store,
                      ChannelPlan const& plan, Index num_training, Index at_once, MissingCells& missing) {
  return Surveyor(teams, cells, derivatives, store, plan, num_training, at_once, missing)();
}

}  // namespace graticule::samples
