// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/samples/detail/survey.hpp>

#include "forecast_run.hpp"
#include "run_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

namespace graticule::train {
namespace {

/// Each name once: a field that is input and target is read once.
std::vector<std::string> all_names(RunSettings const& settings) {
  std::vector<std::string> names = settings.inputs;
  for (std::string const& name : settings.targets)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

/// This rank's input: what is known of it, and what brings it.
class Input {
 public:
  Input(DataTeams const& teams, FieldTable const& table, RunResult const& result, RunSettings const& settings,
        std::function<void(Index, std::size_t)> const& on_read)
      : teams_(teams),
        grid_(result.grid),
        layout_(result.layout),
        row_weights_(result.row_weights),
        cells_{grid_, layout_, layout_.owned(teams.domain().rank()), row_weights_},
        derivatives_(teams.domain(), cells_),
        store_(table.reader(all_names(settings), cells_.box, result.num_mirrored), result.num_training, on_read),
        missing_(table.file(), all_names(settings), cells_,
                 {.count = result.samples.num_samples(),
                  .num_levels = result.samples.num_levels(),
                  .per_entry = !result.samples.dimensions.empty() &&
                                       result.samples.dimensions.front() == table.file().dimension()
                                   ? result.samples.num_levels()
                                   : 0,
                  .name = [&result](Index sample) { return result.samples.describe(sample); }}) {
    plan_channels(settings);
    dtype_ = settings.network.precision == Precision::f64 ? DType::f64 : DType::f32;
    most_samples_ = most_samples_at_once(settings.network, teams);
  }
  Input(Input const&) = delete;
  Input& operator=(Input const&) = delete;

  /// Divides the memory of one rank between batches and samples that are held. Collective.
  Index set_memory(Index bytes) {
    Index const own = BatchSource::working_bytes(derivatives_, store_.reader(), plan_, dtype_, most_samples_);
    bytes = agreed_memory(teams_.world(), bytes, own, most_samples_);
    store_.set_budget(bytes - own);
    return bytes;
  }

  /// Looks at all samples once and gets ready for batches. Collective.
  TrainingData prepare(RunResult const& result, RunSettings const& settings, RunObserver const& observer) {
    TrainingData data = shape(result);
    for (std::string const& name : settings.statics) data.statics.push_back(static_channel(name, cells_));
    Survey survey;
    naming_input(settings.input.string(), [&] {
      survey =
          survey_samples(teams_, cells_, derivatives_, store_, plan_, result.num_training, most_samples_, missing_);
    });
    apply_rule(settings.missing, missing_.describe(teams_, store_), observer.on_warning);
    for (std::size_t c = 0; c < plan_.inputs.size(); ++c) {
      data.inputs.push_back(survey.inputs[c].channel);
      plan_.inputs[c].scaling = survey.inputs[c].scaling;
    }
    for (std::size_t t = 0; t < plan_.targets.size(); ++t) {
      data.targets.push_back(survey.targets[t].channel);
      plan_.targets[t].scaling = survey.targets[t].scaling;
      climatology_.push_back(std::move(survey.targets[t].means));
    }
    data.sample_weights = std::move(survey.sample_weights);
    batches_.emplace(teams_.world(), derivatives_, store_, plan_, dtype_);
    return data;
  }

  [[nodiscard]] Cells const& cells() const noexcept { return cells_; }
  [[nodiscard]] FieldInfo const& target_info(std::size_t target) const {
    return store_.reader().info(plan_.targets[target].field);
  }
  [[nodiscard]] Scaling const& target_scaling(std::size_t target) const { return plan_.targets[target].scaling; }
  /// Of each level of a target.
  [[nodiscard]] std::vector<double> const& climatology(std::size_t target) const { return climatology_[target]; }
  [[nodiscard]] ChannelScaling input_scaling(std::size_t input) const {
    auto const& [field, feature, scaling] = plan_.inputs[input];
    FieldInfo const& info = store_.reader().info(field);
    return {channel_of(feature, info).name, info.units + (feature == Feature::value ? "" : " m-1"), scaling};
  }
  /// @pre `prepare` was called
  [[nodiscard]] BatchSource& batches() { return *batches_; }

 private:
  void plan_channels(RunSettings const& settings) {
    auto const names = all_names(settings);
    auto const field_of = [&](std::string const& name) {
      return std::size_t(std::find(names.begin(), names.end(), name) - names.begin());
    };
    for (std::string const& name : settings.inputs)
      for (Feature const feature : features_of(settings.features, store_.reader().info(field_of(name))))
        plan_.inputs.push_back({field_of(name), feature});
    for (std::string const& name : settings.targets) plan_.targets.push_back({field_of(name)});
    plan_.num_levels = store_.reader().num_levels();
  }

  TrainingData shape(RunResult const& result) const {
    TrainingData data;
    data.num_predicted = result.samples.num_samples();
    data.training.resize(static_cast<std::size_t>(result.num_training));
    std::iota(data.training.begin(), data.training.end(), Index(0));
    for (Index s = 0; s < result.num_mirrored; ++s) data.training.push_back(data.num_predicted + s);
    data.validation.resize(std::size_t(data.num_predicted - result.num_training));
    std::iota(data.validation.begin(), data.validation.end(), result.num_training);
    data.num_rows = cells_.box.extent(0);
    data.num_columns = cells_.box.extent(1);
    data.latitudes = grid_.latitudes;
    data.num_global_columns = grid_.num_columns();
    data.row_weights.assign(row_weights_.begin() + cells_.box.lo(0), row_weights_.begin() + cells_.box.hi(0));
    return data;
  }

  DataTeams const& teams_;
  Grid grid_;
  Layout layout_;
  std::vector<double> row_weights_;
  Cells cells_;
  Derivatives derivatives_;
  SampleStore store_;
  MissingCells missing_;
  ChannelPlan plan_;
  DType dtype_ = DType::f32;
  Index most_samples_ = 1;
  std::vector<std::vector<double>> climatology_;
  std::optional<BatchSource> batches_;
};

Skill skill_of(std::array<double, 3> const& sums) {
  return {std::sqrt(sums[1] / sums[0]), std::sqrt(sums[2] / sums[0])};
}

/// Takes the predictions as they come: in units for the observer, and their errors.
class Evaluation {
 public:
  Evaluation(Input const& input, RunResult& result, RunObserver const& observer)
      : input_(input), result_(result), observer_(observer) {
    for (std::size_t t = 0; t < result.targets.size(); ++t)
      sums_.emplace_back(std::size_t(result.samples.num_levels()), std::array<double, 3>{});
  }

  void take(PredictedSamples const& predicted) {
    values_.assign(predicted.values.begin(), predicted.values.end());
    auto const num_targets = sums_.size();
    auto const cells = std::size_t(input_.cells().per_sample());
    for (std::size_t place = 0; place < predicted.samples.size(); ++place)
      for (std::size_t t = 0; t < num_targets; ++t) {
        auto const first = (place * num_targets + t) * cells;
        take(predicted.samples[place], t, std::span(values_).subspan(first, cells),
             predicted.truth.subspan(first, cells));
      }
    observer_.on_predictions(result_, {predicted.samples, predicted.truth, values_});
  }

  /// After the last ones. Collective.
  void finish() {
    if (result_.num_training < result_.samples.num_samples())
      for (std::size_t t = 0; t < sums_.size(); ++t) set_skills(t);
    std::vector<std::vector<double>*> pictured;
    for (TargetResult& target : result_.targets)
      pictured.insert(pictured.end(), {&target.pictured_truth, &target.pictured_prediction});
    share_picture(result_.teams, pictured, std::size_t(input_.cells().per_sample()));
  }

 private:
  /// One target of one sample, normalised until now.
  void take(Index sample, std::size_t t, std::span<double> values, std::span<double const> truth) {
    auto const level = std::size_t(sample % result_.samples.num_levels());
    Scaling const& scaling = input_.target_scaling(t);
    for (double& value : values) value = value * scaling.scale[level] + scaling.mean[level];
    if (sample >= result_.num_training) add_errors(sums_[t][level], input_.climatology(t)[level], values, truth);
    if (sample != result_.pictured) return;
    result_.targets[t].pictured_truth.assign(truth.begin(), truth.end());
    result_.targets[t].pictured_prediction.assign(values.begin(), values.end());
  }

  /// Weight, and area-weighted squared errors of prediction and climatology.
  void add_errors(std::array<double, 3>& sums, double climatology, std::span<double const> values,
                  std::span<double const> truth) const {
    Cells const& cells = input_.cells();
    std::size_t cell = 0;
    for (Index i = 0; i < cells.box.extent(0); ++i) {
      double const weight = cells.row_weights[std::size_t(cells.box.lo(0) + i)];
      for (Index j = 0; j < cells.box.extent(1); ++j, ++cell) {
        if (std::isnan(truth[cell])) continue;
        sums[0] += weight;
        sums[1] += weight * std::pow(values[cell] - truth[cell], 2);
        sums[2] += weight * std::pow(climatology - truth[cell], 2);
      }
    }
  }

  void set_skills(std::size_t t) {
    std::vector<double> flat;
    for (auto const& sums : sums_[t]) flat.insert(flat.end(), sums.begin(), sums.end());
    result_.teams.world().sum(std::span(flat));
    TargetResult& target = result_.targets[t];
    std::array<double, 3> total{};
    for (std::size_t i = 0; i < flat.size(); i += 3) {
      target.level_skills.push_back(skill_of({flat[i], flat[i + 1], flat[i + 2]}));
      for (std::size_t k = 0; k < 3; ++k) total[k] += flat[i + k];
    }
    target.validation = skill_of(total);
  }

  Input const& input_;
  RunResult& result_;
  RunObserver const& observer_;
  std::vector<std::vector<std::array<double, 3>>> sums_;  ///< of each target and level
  std::vector<double> values_;
};

/// What is known before any field is read; the ranks of a domain fail together.
void describe(FieldTable const& table, RunSettings const& settings, RunResult& result) {
  Comm const& domain = result.teams.domain();
  result.grid = table.grid();
  result.samples = table.samples();
  result.latitude_name = table.latitude_name();
  result.longitude_name = table.longitude_name();
  result.row_weights = area_weights(result.grid.latitudes);
  result.layout =
      app::choose_layout(settings.partition, domain.num_ranks(), result.row_weights, result.grid.num_columns());
  result.num_training = num_training_samples(result.samples, settings.train_fraction);
  result.num_mirrored = uses_mirror(settings.mirror, result.grid) ? result.num_training : 0;
  result.pictured = result.num_training < result.samples.num_samples() ? result.num_training : 0;
  result.companions = table.companions(domain, settings.targets);
  result.input_history = table.history();
  for (std::string const& name : settings.targets)
    result.targets.push_back({table.info(name), kept_attributes(table.variable(name), result.companions)});
  if (settings.network.validate_every > 0 && result.num_training == result.samples.num_samples())
    throw Error(Fault::usage, "BadOption",
                "--validate-every and --early-stopping need validation samples; lower --train-fraction");
}

/// The same on all teams, or the first team's error on all.
std::unique_ptr<Input> open_input(RunSettings const& settings, RunResult& result, RunObserver const& observer) {
  std::unique_ptr<Input> input;
  require_same_input(result.teams, settings.input.string());
  run_agreed(result.teams.world(), [&] {
    FieldTable const table(result.teams.domain(), settings.input.string(), all_names(settings), settings.repeated);
    describe(table, settings, result);
    input = std::make_unique<Input>(result.teams, table, result, settings, observer.on_read);
  });
  return input;
}

}  // namespace

RunResult run_training(Comm const& comm, RunSettings const& settings, RunObserver const& observer) {
  if (settings.forecast) return run_forecast_training(comm, settings, observer);
  Stopwatch watch;
  RunResult result{.teams = DataTeams(comm, settings.data_teams), .layout = Layout(ProcessGrid{1, 1}, {1, 1})};
  auto const input = open_input(settings, result, observer);
  for (std::string const& name : result.companions.left_out)
    observer.on_note(name + ", which describes coordinates, cannot be copied; attributes that refer to it are omitted");
  result.input.memory_bytes = input->set_memory(settings.memory_bytes);
  TrainingData const data = input->prepare(result, settings, observer);
  for (ChannelInfo const& channel : data.inputs) result.channels.push_back(channel.name);
  for (std::size_t i = 0; i < data.inputs.size(); ++i) result.input_scalings.push_back(input->input_scaling(i));
  for (std::size_t t = 0; t < data.targets.size(); ++t)
    result.target_scalings.push_back(
        {input->target_info(t).name, input->target_info(t).units, input->target_scaling(t)});
  for (Channel const& channel : data.statics) result.channels.push_back(channel.name);
  result.seconds["read"] = watch.lap();

  observer.on_start(result, num_steps(settings.network, Index(data.training.size())));
  Evaluation evaluation(*input, result, observer);
  bool predicts = false;
  result.network =
      train_network(result.teams, *result.layout.grid(), result.grid.boundary, data, input->batches(), settings.network,
                    {.on_step = observer.on_step,
                     .on_resume = observer.on_resume,
                     .on_note = observer.on_note,
                     .on_warning = observer.on_warning,
                     .reason_to_stop = observer.reason_to_stop,
                     .checkpoints = settings.checkpoints,
                     .on_prediction = [&](PredictedSamples const& predicted) {
                       if (!std::exchange(predicts, true)) result.seconds["train"] = watch.lap();
                       evaluation.take(predicted);
                     }});
  result.seconds["wait_for_input"] = input->batches().seconds_waited();
  result.input.store = input->batches().counts();
  if (!result.network.stopped_by) evaluation.finish();
  result.seconds[predicts ? "evaluate" : "train"] = watch.lap();
  return result;
}

}  // namespace graticule::train
