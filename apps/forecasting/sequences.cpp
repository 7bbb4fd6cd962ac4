// SPDX-License-Identifier: BSD-3-Clause
#include "sequences.hpp"

#include <graticule/models/detail/forcing.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace graticule::forecasting {

SequenceSource::SequenceSource(Comm const& world, samples::TimeSteps const& steps, samples::SampleStore& store,
                               Options options)
    : steps_(steps),
      store_(store),
      options_(std::move(options)),
      mirrored_(options_.places),
      field_(num_cells()),
      ahead_({world}, [this](Slot& slot) { gather(slot); }) {
  for (double& latitude : mirrored_.latitudes) latitude = -latitude;
}

Index SequenceSource::working_bytes(samples::SampleReader const& reader, Options const& options,
                                    SequenceShape const& longest, Index most_samples) {
  auto const forcings = Index(forcing_channels(options.forcings).size());
  Index const per_sample = (longest.history + longest.steps) * Index(options.scales.size()) + longest.steps * forcings;
  return 2 * most_samples * per_sample * reader.num_cells() * size_of(options.dtype) +
         2 * reader.num_cells() * Index(sizeof(double));
}

SequenceBatch SequenceSource::take(std::span<Index const> samples, SequenceShape const& shape,
                                   std::span<Index const> upcoming) {
  Slot const& slot = ahead_.take({{samples.begin(), samples.end()}, shape});
  if (!upcoming.empty()) ahead_.begin({{upcoming.begin(), upcoming.end()}, shape});
  return {Index(samples.size()), options_.dtype, slot.states.data(), slot.forcings.data()};
}

samples::StoreCounts SequenceSource::counts() {
  ahead_.wait();
  return store_.counts();
}

void SequenceSource::gather(Slot& slot) {
  auto const& [samples, shape] = slot.request;
  auto const numbers = samples.size() * num_cells() * std::size_t(size_of(options_.dtype));
  slot.states.reserve(
      std::max<std::size_t>(numbers * std::size_t(shape.history + shape.steps) * options_.scales.size(), 1));
  slot.forcings.reserve(std::max<std::size_t>(numbers * std::size_t(shape.steps) * num_forcings(), 1));
  for (std::size_t place = 0; place < samples.size(); ++place) {
    gather_states(slot, place);
    gather_forcings(slot, place);
  }
}

void SequenceSource::gather_states(Slot& slot, std::size_t place) {
  auto const& [samples, shape] = slot.request;
  Index const num_states = store_.reader().num_in_file();
  Index const state = samples[place] % num_states;
  Index const image = samples[place] - state;
  Index const num_times = shape.history + shape.steps;
  for (Index t = 0; t < num_times; ++t) {
    Index const leads = t < shape.history ? -t : t - shape.history + 1;
    auto const position = steps_.at(state / options_.num_members, leads);
    bool const is_known = position && (leads <= 0 || shape.targets.contains(steps_.times()[std::size_t(*position)]));
    for (std::size_t c = 0; c < options_.scales.size(); ++c) {
      if (leads <= 0 && c >= options_.num_prognostic)
        std::fill(field_.begin(), field_.end(), options_.scales[c].mean);
      else if (is_known)
        store_.fetch(image + *position * options_.num_members + state % options_.num_members, c, field_);
      else
        std::fill(field_.begin(), field_.end(), std::numeric_limits<double>::quiet_NaN());
      write(c, slot.states,
            ((place * std::size_t(num_times) + std::size_t(t)) * options_.scales.size() + c) * num_cells());
    }
  }
}

void SequenceSource::gather_forcings(Slot& slot, std::size_t place) {
  if (options_.forcings.empty()) return;
  auto const& [samples, shape] = slot.request;
  Index const num_states = store_.reader().num_in_file();
  Index const time = samples[place] % num_states / options_.num_members;
  Places const& places = samples[place] < num_states ? options_.places : mirrored_;
  for (Index k = 0; k < shape.steps; ++k) {
    Seconds const begin = steps_.times()[std::size_t(time)] + k * steps_.lead_seconds();
    auto const cell = (place * std::size_t(shape.steps) + std::size_t(k)) * num_forcings() * num_cells();
    if (options_.dtype == DType::f64)
      fill_forcing(options_.forcings, places, begin, steps_.lead_seconds(),
                   static_cast<double*>(slot.forcings.data()) + cell, steps_.calendar());
    else
      fill_forcing(options_.forcings, places, begin, steps_.lead_seconds(),
                   static_cast<float*>(slot.forcings.data()) + cell, steps_.calendar());
  }
}

void SequenceSource::write(std::size_t channel, samples::NumberBuffer const& to, std::size_t cell) {
  auto const [mean, scale] = options_.scales[channel];
  samples::Scaling const scaling{{mean}, {scale}};
  if (options_.dtype == DType::f64)
    samples::normalise(field_, scaling, 0, samples::Missing::keep, static_cast<double*>(to.data()) + cell);
  else
    samples::normalise(field_, scaling, 0, samples::Missing::keep, static_cast<float*>(to.data()) + cell);
}

}  // namespace graticule::forecasting
