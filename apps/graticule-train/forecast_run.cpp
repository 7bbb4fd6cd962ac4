// SPDX-License-Identifier: BSD-3-Clause
#include "forecast_run.hpp"

#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/samples/detail/states.hpp>

#include "network/forecast_training.hpp"
#include "run_parts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

namespace graticule::train {
namespace {

using models::Period;
using models::Seconds;

/// Names of functions of latitude, which `--static` mixes with those of fields of `--static-file`.
bool is_row_function(std::string const& name) {
  return name == "coriolis" || name == "sin_latitude" || name == "cos_latitude";
}

std::vector<std::string> statics_of(RunSettings const& settings, bool row_functions) {
  std::vector<std::string> names;
  for (std::string const& name : settings.statics)
    if (is_row_function(name) == row_functions) names.push_back(name);
  return names;
}

/// The targets of each part of the samples; an empty period holds no time.
struct Parts {
  Period training;
  Period validation{1, 0};
  Period test{1, 0};
};

/// A part's dates in the calendar of the input; none where there are none.
std::optional<Period> period_of(char const* option, std::string const& dates, models::Calendar calendar) {
  return dates.empty() ? std::nullopt : std::optional(models::parse_period(option, dates, calendar));
}

/// @param times of states that hold data
Parts parts_of(samples::TimeSteps const& steps, RunSettings const& settings, std::vector<Seconds> const& times) {
  auto const& forecast = *settings.forecast;
  auto const train = period_of("--train-dates", forecast.train_dates, steps.calendar());
  auto const validate = period_of("--validate-dates", forecast.validate_dates, steps.calendar());
  auto const test = period_of("--test-dates", forecast.test_dates, steps.calendar());
  Parts parts;
  bool const has_dates = train || validate || test;
  if (train) {
    parts.training = *train;
  } else if (has_dates) {
    Seconds end = times.back() + 1;
    for (auto const* period : {&validate, &test})
      if (*period) end = std::min(end, (*period)->first);
    parts.training = {times.front(), end - 1};
  } else {
    auto const num = Index(times.size());
    Index const first = std::clamp<Index>(std::llround(settings.train_fraction * double(num)), 1, num);
    parts.training = {times.front(), times[std::size_t(first - 1)]};
    if (first < num) parts.validation = {times[std::size_t(first)], times.back()};
  }
  if (validate) parts.validation = *validate;
  if (test) parts.test = *test;
  for (auto const& [name, period] :
       {std::pair("--validate-dates", &parts.validation), std::pair("--test-dates", &parts.test)})
    if (period->first <= period->last && period->first <= parts.training.last && parts.training.first <= period->last)
      throw Error(Fault::usage, "BadOption",
                  std::string(name) + " from " + steps.text(period->first) + " to " + steps.text(period->last) +
                      " overlaps the training dates, to " + steps.text(parts.training.last));
  return parts;
}

/// Positions of initial times whose first target lies in the period, and how many are left out because of gaps.
struct InitialTimes {
  std::vector<Index> positions;
  std::vector<Seconds> left_out;  ///< because a state before or after is missing
};

/// @param first time of a state that holds data
InitialTimes initial_times(samples::TimeSteps const& steps, Index history, Period const& targets, Seconds first) {
  InitialTimes found;
  for (Index t = 0; t < steps.num_times(); ++t) {
    auto const target = steps.at(t, 1);
    Seconds const time = steps.times()[std::size_t(t)];
    bool const has_target = target && targets.contains(steps.times()[std::size_t(*target)]);
    auto const earliest = steps.at(t, 1 - history);
    bool const has_history = earliest && steps.times()[std::size_t(*earliest)] >= first && [&] {
      for (Index k = 1; k < history; ++k)
        if (!steps.at(t, -k)) return false;
      return true;
    }();
    if (has_target && has_history) found.positions.push_back(t);
    // The ends of the axis and of the period are no gaps.
    bool const expects_target =
        targets.contains(time + steps.lead_seconds()) && time + steps.lead_seconds() <= steps.times().back();
    bool const expects_history = time - (history - 1) * steps.lead_seconds() >= first;
    if (!(has_target && has_history) && expects_target && expects_history) found.left_out.push_back(time);
  }
  return found;
}

std::string describe_gaps(samples::TimeSteps const& steps, std::vector<Seconds> const& left_out, char const* part) {
  std::string text = std::to_string(left_out.size()) + " initial times of the " + part +
                     " part are left out because the time axis has gaps: ";
  for (std::size_t i = 0; i < left_out.size() && i < 5; ++i) text += (i == 0 ? "" : ", ") + steps.text(left_out[i]);
  return text + (left_out.size() > 5 ? ", ..." : "");
}

std::vector<double> weights_of(std::vector<models::StateChannel> const& channels,
                               std::map<std::string, double> const& given) {
  std::vector<double> weights;
  std::vector<std::string> used;
  for (auto const& channel : channels) {
    double weight = 1;
    for (std::string const& name : {channel.variable, channel.label})
      if (auto const found = given.find(name); found != given.end()) {
        weight = found->second;
        used.push_back(name);
      }
    weights.push_back(weight);
  }
  for (auto const& [name, weight] : given)
    if (std::find(used.begin(), used.end(), name) == used.end())
      throw Error(Fault::usage, "BadOption",
                  "--channel-weights names " + name + ", which is no channel and no variable");
  if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0)
    throw Error(Fault::usage, "BadOption", "--channel-weights leaves no channel with a weight above 0");
  return weights;
}

models::Places places_of(Grid const& grid, Box const& box) {
  return {{grid.latitudes.begin() + box.lo(0), grid.latitudes.begin() + box.hi(0)},
          {grid.longitudes.begin() + box.lo(1), grid.longitudes.begin() + box.hi(1)}};
}

/// Mean and standard deviation of a static field over the globe. Collective over the domain.
models::ChannelScale scale_of(Comm const& domain, Cells const& cells, std::string const& name,
                              std::vector<double> const& values) {
  LevelStatistics field;
  field.channel.name = "--static " + name;
  field.levels.push_back(moments_of(cells, values));
  finish_statistics(domain, std::span(&field, 1));
  return {field.scaling.mean[0], field.scaling.scale[0]};
}

/// Opens the input, chooses samples and looks at all states.
class ForecastInput {
 public:
  ForecastInput(RunResult& result, RunSettings const& settings, RunObserver const& observer)
      : result_(result), settings_(settings), forecast_(*settings.forecast), observer_(observer) {
    samples::require_same_input(result.teams, settings.input.string());
    if (!forecast_.static_file.empty()) samples::require_same_input(result.teams, forecast_.static_file.string());
    run_agreed(result.teams.world(), [&] { open(); });
    for (std::string const& note : notes_) observer.on_note(note);
    survey();
  }
  ForecastInput(ForecastInput const&) = delete;
  ForecastInput& operator=(ForecastInput const&) = delete;

  [[nodiscard]] ForecastParts parts() { return {result_.teams, *cells_, data_, *steps_, *source_}; }
  [[nodiscard]] forecasting::SequenceSource& source() { return *source_; }
  [[nodiscard]] ForecastData const& data() const { return data_; }
  [[nodiscard]] samples::TimeSteps const& steps() const { return *steps_; }

 private:
  /// What needs no other team; the ranks of a domain fail together.
  void open() {
    Comm const& domain = result_.teams.domain();
    table_.emplace(domain, settings_.input.string(), forecast_.prognostic, forecast_.diagnostic, settings_.repeated);
    naming_input(settings_.input.string(), [&] {
      steps_.emplace(table_->times(), samples::parse_lead("--lead", forecast_.lead), table_->calendar());
    });
    result_.grid = table_->grid();
    result_.latitude_name = table_->latitude_name();
    result_.longitude_name = table_->longitude_name();
    result_.row_weights = area_weights(result_.grid.latitudes);
    result_.layout =
        app::choose_layout(settings_.partition, domain.num_ranks(), result_.row_weights, result_.grid.num_columns());
    cells_.emplace(Cells{result_.grid, result_.layout, result_.layout.owned(domain.rank()), result_.row_weights});
    has_images_ = uses_mirror(settings_.mirror, result_.grid);
    choose_samples();
    auto const fields = statics_of(settings_, false);
    if (!fields.empty() && forecast_.static_file.empty())
      throw Error(Fault::usage, "BadOption",
                  "--static " + fields.front() +
                      " needs --static-file; of latitude there are coriolis, sin_latitude and "
                      "cos_latitude");
    data_.statics =
        forecasting::read_statics(domain, forecast_.static_file.string(), fields, result_.grid, cells_->box);
    describe();
  }

  void note_times_without_data() {
    auto const valid = valid_times(table_->file().contents(), steps_->times(), table_->calendar());
    if (!valid) return;
    for (auto const* period : {&parts_.training, &parts_.validation, &parts_.test}) {
      if (period->first > period->last || (period->first >= valid->first && period->last <= valid->last)) continue;
      notes_.push_back("the dates from " + steps_->text(period->first) + " to " + steps_->text(period->last) +
                       " reach beyond those that have data by valid_time_start and valid_time_stop of the input, " +
                       steps_->text(valid->first) + " to " + steps_->text(valid->last));
    }
  }

  /// Those that a store says hold data, unless the training dates are given.
  [[nodiscard]] std::vector<Seconds> times_with_data() {
    auto times = steps_->times();
    bool const is_alone = table_->file().files().size() == 1;
    auto const valid = is_alone && table_->has_dates() && forecast_.train_dates.empty()
                           ? valid_times(table_->file().contents(), times, table_->calendar())
                           : std::nullopt;
    if (!valid) return times;
    std::erase_if(times, [&](Seconds time) { return !valid->contains(time); });
    notes_.push_back("of " + std::to_string(steps_->num_times()) + " times, the " + std::to_string(times.size()) +
                     " that have data are used, from " + steps_->text(times.front()) + " to " +
                     steps_->text(times.back()) +
                     " (valid_time_start and valid_time_stop of the input; --train-dates chooses others)");
    return times;
  }

  void choose_samples() {
    auto const times = times_with_data();
    first_time_ = times.front();
    parts_ = parts_of(*steps_, settings_, times);
    if (table_->file().files().size() == 1 && table_->has_dates()) note_times_without_data();
    data_.num_members = table_->num_members();
    data_.num_states = table_->num_states();
    data_.training = samples_of(parts_.training, "training");
    data_.validation = samples_of(parts_.validation, "validation");
    data_.test = samples_of(parts_.test, "test");
    data_.training_targets = parts_.training;
    data_.validation_targets = parts_.validation;
    data_.test_targets = parts_.test;
    if (data_.training.empty())
      throw Error(Fault::usage, "BadOption",
                  "no training sample: none of the " + std::to_string(steps_->num_times()) + " times from " +
                      steps_->text(steps_->times().front()) + " to " + steps_->text(steps_->times().back()) +
                      " has a target " + duration_text(steps_->lead_seconds()) + " later in the training part, from " +
                      steps_->text(parts_.training.first) + " to " + steps_->text(parts_.training.last) +
                      (forecast_.history > 1 ? ", and the states before that --history needs" : ""));
    require_samples("--validate-dates", forecast_.validate_dates, parts_.validation, data_.validation);
    require_samples("--test-dates", forecast_.test_dates, parts_.test, data_.test);
    if (settings_.network.validate_every > 0 && data_.validation.empty())
      throw Error(Fault::usage, "BadOption",
                  "--validate-every and --early-stopping need validation samples; give --validate-dates or lower "
                  "--train-fraction");
    look_at_rollouts();
    result_.num_training = Index(data_.training.size());
    if (has_images_)
      for (Index s = 0; s < result_.num_training; ++s)
        data_.training.push_back(data_.training[std::size_t(s)] + data_.num_states);
    result_.num_mirrored = has_images_ ? result_.num_training : 0;
  }

  /// Steps of a rollout whose targets lie beyond the training part have no weight in the loss.
  /// @throws `BadOption` (usage) where no sample has all steps
  void look_at_rollouts() {
    Index longest = 1;
    for (auto const& [epoch, steps] : forecast_.rollouts) longest = std::max(longest, steps);
    Index most = 1;
    Index complete = 0;
    for (Index const sample : data_.training) {
      Index steps = 0;
      while (steps < longest && has_target(sample, steps + 1, parts_.training)) ++steps;
      most = std::max(most, steps);
      complete += steps == longest ? 1 : 0;
    }
    auto const num_samples = Index(data_.training.size());
    if (complete == 0)
      throw Error(Fault::usage, "BadOption",
                  "rollouts of " + std::to_string(longest) +
                      " steps (--rollout, --rollout-schedule) exceed the training "
                      "part, from " +
                      steps_->text(parts_.training.first) + " to " + steps_->text(parts_.training.last) +
                      ": no sample has more than " + std::to_string(most) + (most == 1 ? " step" : " steps") +
                      " within it");
    if (complete < num_samples)
      notes_.push_back(std::to_string(num_samples - complete) + " of " + std::to_string(num_samples) +
                       " training samples have fewer than " + std::to_string(longest) +
                       " steps within the training part: the loss leaves out their steps beyond it");
  }

  [[nodiscard]] bool has_target(Index sample, Index lead, Period const& targets) const {
    auto const target = steps_->at(sample / data_.num_members, lead);
    return target && targets.contains(steps_->times()[std::size_t(*target)]);
  }

  std::vector<Index> samples_of(Period const& targets, char const* part) {
    std::vector<Index> samples;
    if (targets.first > targets.last) return samples;
    auto const found = initial_times(*steps_, forecast_.history, targets, first_time_);
    if (!found.left_out.empty()) notes_.push_back(describe_gaps(*steps_, found.left_out, part));
    for (Index const position : found.positions)
      for (Index m = 0; m < data_.num_members; ++m) samples.push_back(position * data_.num_members + m);
    return samples;
  }

  void require_samples(char const* option, std::string const& dates, Period const& period,
                       std::vector<Index> const& samples) const {
    if (!dates.empty() && samples.empty())
      throw Error(Fault::usage, "BadOption",
                  std::string(option) + " from " + steps_->text(period.first) + " to " + steps_->text(period.last) +
                      " holds no target of the input");
  }

  void describe() {
    auto& d = data_.description;
    d.channels = table_->channels();
    d.features = features_of(settings_.features.size() == 1 && settings_.features[0] == "auto"
                                 ? std::vector<std::string>{"value", "east", "north"}
                                 : settings_.features,
                             {});
    d.history = forecast_.history;
    d.lead = steps_->counts_positions() ? samples::parse_lead("--lead", forecast_.lead)
                                        : models::Lead{.duration = steps_->lead_seconds()};
    d.lead_seconds = steps_->lead_seconds();
    d.calendar = steps_->calendar();
    d.predict = forecast_.predict;
    d.polar_filter = forecast_.polar_filter;
    data_.input_noise = forecast_.input_noise;
    if (settings_.network.loss == LossKind::crps) {
      d.perturbation = forecast_.perturbation;
      data_.ensemble = forecast_.members;
    }
    d.forcings = forecast_.forcings;
    d.row_functions = statics_of(settings_, true);
    d.model = settings_.network.model;
    d.program = settings_.network.program;
    d.width = settings_.network.channels;
    d.blocks = settings_.network.blocks;
    d.kernel = settings_.network.kernel;
    d.dtype = settings_.network.precision == Precision::f64 ? DType::f64 : DType::f32;
    d.latitudes = result_.grid.latitudes;
    d.longitudes = result_.grid.longitudes;
    data_.rollouts = forecast_.rollouts;
    data_.checkpoint_steps = forecast_.rollout_checkpoint;
    data_.num_leads = most_leads();
    data_.channel_weights = weights_of(d.channels, forecast_.channel_weights);
  }

  /// At most `validate_steps`, and no more than any case has targets.
  [[nodiscard]] Index most_leads() const {
    Index most = 1;
    for (auto const& [samples, targets] :
         {std::pair(&data_.validation, &parts_.validation), std::pair(&data_.test, &parts_.test)})
      for (Index const sample : *samples)
        for (Index lead = most + 1; lead <= forecast_.validate_steps; ++lead)
          if (has_target(sample, lead, *targets)) most = lead;
    return most;
  }

  [[nodiscard]] forecasting::TimeUse use() const {
    forecasting::TimeUse use;
    for (Seconds const time : steps_->times()) {
      // Initial states before the first target train too: they are inputs, unless there are no data yet.
      auto const first = parts_.training.first - forecast_.history * steps_->lead_seconds();
      bool const trains = time <= parts_.training.last && time >= std::max(first, first_time_);
      use.trains.push_back(trains);
      use.used.push_back(trains || parts_.validation.contains(time) || parts_.test.contains(time));
    }
    return use;
  }

  void survey() {
    auto const& world = result_.teams.world();
    store_.emplace(table_->reader(cells_->box, has_images_ ? data_.num_states : 0), data_.num_states,
                   observer_.on_read);
    forecasting::SequenceSource::Options options{
        .num_members = data_.num_members,
        .num_prognostic = std::size_t(std::count_if(table_->channels().begin(), table_->channels().end(),
                                                    [](auto const& c) { return c.role == models::Role::prognostic; })),
        .scales = std::vector<models::ChannelScale>(table_->channels().size()),
        .forcings = models::forcings_of(forecast_.forcings),
        .places = places_of(result_.grid, cells_->box),
        .dtype = data_.description.dtype};
    Index const most_samples = most_samples_at_once(settings_.network, result_.teams);
    Index const own = forecasting::SequenceSource::working_bytes(
        store_->reader(), options, {.history = forecast_.history, .steps = data_.most_steps(), .targets = {}},
        most_samples);
    result_.input.memory_bytes = agreed_memory(world, settings_.memory_bytes, own, most_samples);
    store_->set_budget(result_.input.memory_bytes - own);
    std::vector<std::string> variables;
    for (auto const& channel : table_->channels()) variables.push_back(channel.variable);
    MissingCells missing(
        table_->file(), std::move(variables), *cells_,
        {.count = data_.num_states,
         .per_entry = table_->file().dimension() == table_->time_name() ? data_.num_members : 0,
         .name = [&](Index state) { return steps_->text(steps_->times()[std::size_t(state / data_.num_members)]); }});
    naming_input(settings_.input.string(), [&] {
      data_.statistics = forecasting::survey_states(result_.teams, *cells_, *store_, *steps_, data_.num_members,
                                                    table_->channels(), use(), missing);
    });
    apply_rule(settings_.missing, missing.describe(result_.teams, *store_), observer_.on_warning);
    auto& d = data_.description;
    d.values = data_.statistics.values;
    d.tendencies = data_.statistics.tendencies;
    d.east_scales = data_.statistics.east_scales;
    d.north_scales = data_.statistics.north_scales;
    for (std::size_t i = 0; i < data_.statics.names.size(); ++i)
      d.statics.push_back({data_.statics.names[i],
                           scale_of(result_.teams.domain(), *cells_, data_.statics.names[i], data_.statics.values[i])});
    options.scales = d.values;
    source_.emplace(world, *steps_, *store_, std::move(options));
    for (ChannelInfo const& channel : d.inputs()) result_.channels.push_back(channel.name);
    result_.channels.insert(result_.channels.end(), d.row_functions.begin(), d.row_functions.end());
  }

  RunResult& result_;
  RunSettings const& settings_;
  ForecastSettings const& forecast_;
  RunObserver const& observer_;
  std::vector<std::string> notes_;
  Seconds first_time_ = 0;
  std::optional<samples::StateTable> table_;
  std::optional<samples::TimeSteps> steps_;
  std::optional<Cells> cells_;
  bool has_images_ = false;
  Parts parts_;
  ForecastData data_;
  std::optional<SampleStore> store_;
  std::optional<forecasting::SequenceSource> source_;
};

}  // namespace

RunResult run_forecast_training(Comm const& comm, RunSettings const& settings, RunObserver const& observer) {
  Stopwatch watch;
  RunResult result{.teams = DataTeams(comm, settings.data_teams), .layout = Layout(ProcessGrid{1, 1}, {1, 1})};
  ForecastInput input(result, settings, observer);
  auto const& data = input.data();
  auto& outcome = result.forecast.emplace();
  outcome.description = data.description;
  outcome.has_test = !data.test.empty();
  outcome.num_validation = Index(data.validation.size());
  outcome.num_test = Index(data.test.size());
  for (Index const sample : outcome.has_test ? data.test : data.validation)
    outcome.scored.push_back(input.steps().times()[std::size_t(sample / data.num_members)]);
  result.seconds["read"] = watch.lap();

  observer.on_start(result, num_steps(settings.network, Index(data.training.size())));
  bool predicts = false;
  auto const note_evaluation = [&] {
    if (!std::exchange(predicts, true)) result.seconds["train"] = watch.lap();
  };
  ForecastCalls const calls{
      .on_validation = [&](Index epoch, Index step,
                           forecasting::ScoreTable const& scores) { observer.on_scores(result, epoch, step, scores); },
      .on_scores = [&](forecasting::ScoreTable&& scores) { outcome.scores = std::move(scores); },
      .on_fields =
          [&](ForecastFields const& fields) {
            note_evaluation();
            if (fields.case_number != 0 || fields.lead != 0) return;
            outcome.pictured_forecast.assign(fields.forecast.begin(), fields.forecast.end());
            outcome.pictured_truth.assign(fields.truth.begin(), fields.truth.end());
          },
      .on_note = observer.on_note};
  result.network = train_forecast(input.parts(), *result.layout.grid(), result.grid.boundary, settings.network, calls,
                                  {.on_step = observer.on_step,
                                   .on_resume = observer.on_resume,
                                   .on_note = observer.on_note,
                                   .on_warning = observer.on_warning,
                                   .reason_to_stop = observer.reason_to_stop,
                                   .checkpoints = settings.checkpoints});
  result.seconds["wait_for_input"] = input.source().seconds_waited();
  result.input.store = input.source().counts();
  if (!result.network.stopped_by)
    share_picture(
        result.teams, {&outcome.pictured_truth, &outcome.pictured_forecast},
        data.description.channels.size() * std::size_t(result.layout.owned(result.teams.domain().rank()).num_cells()));
  result.seconds[predicts ? "evaluate" : "train"] = watch.lap();
  return result;
}

}  // namespace graticule::train
