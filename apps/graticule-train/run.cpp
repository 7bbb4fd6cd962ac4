// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include "weights.hpp"

#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

namespace graticule::train {
namespace {

class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    auto const now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::vector<std::string> all_names(RunSettings const& settings) {
  std::vector<std::string> names = settings.inputs;
  names.insert(names.end(), settings.targets.begin(), settings.targets.end());
  return names;
}

bool uses_mirror(Mirror mirror, Grid const& grid) {
  bool const possible = is_symmetric(grid);
  if (mirror == Mirror::on && !possible)
    throw Error(Fault::usage, "GridNotSymmetric", "--mirror on needs rows that lie symmetric about the equator");
  return mirror != Mirror::off && possible;
}

/// Everything that the network needs, and what is needed to undo the normalisation.
struct Prepared {
  TrainingData data;
  std::vector<Field> targets;
  std::vector<Scaling> scalings;
  std::vector<std::vector<double>> means;  ///< of the targets, per level
};

class Preparation {
 public:
  Preparation(Comm const& comm, FieldTable const& table, RunResult const& result, RunSettings const& settings)
      : comm_(comm),
        table_(table),
        result_(result),
        settings_(settings),
        cells_{table.grid(), result.layout, result.layout.owned(comm.rank()), result.row_weights} {}

  Prepared operator()() {
    prepare_shape();
    for (std::string const& name : settings_.inputs) prepare_input(name);
    for (std::string const& name : settings_.statics) prepared_.data.statics.push_back(static_channel(name, cells_));
    for (std::string const& name : settings_.targets) prepare_target(name);
    return std::move(prepared_);
  }

 private:
  Index num_levels() const { return table_.samples().num_levels(); }

  void prepare_shape() {
    TrainingData& data = prepared_.data;
    data.num_predicted = table_.samples().num_samples();
    data.num_samples = data.num_predicted + result_.num_mirrored;
    data.training.resize(static_cast<std::size_t>(result_.num_training));
    std::iota(data.training.begin(), data.training.end(), Index(0));
    for (Index s = 0; s < result_.num_mirrored; ++s) data.training.push_back(data.num_predicted + s);
    data.validation.resize(std::size_t(data.num_predicted - result_.num_training));
    std::iota(data.validation.begin(), data.validation.end(), result_.num_training);
    data.num_rows = cells_.box.extent(0);
    data.num_columns = cells_.box.extent(1);
    data.latitudes = table_.grid().latitudes;
    data.num_global_columns = table_.grid().num_columns();
    data.row_weights.assign(result_.row_weights.begin() + cells_.box.lo(0),
                            result_.row_weights.begin() + cells_.box.hi(0));
  }

  /// The samples of the file, then the mirror images of the training samples.
  Field read(std::string const& name) {
    Field field = table_.read(name, cells_.box);
    if (result_.num_mirrored == 0) return field;
    Field const mirrored = table_.read_mirrored(name, cells_.box, result_.num_mirrored);
    field.values.insert(field.values.end(), mirrored.values.begin(), mirrored.values.end());
    return field;
  }

  void prepare_input(std::string const& name) {
    Field const field = read(name);
    for (Feature const feature : features_of(settings_.features, field.info)) {
      Field const shown = feature == Feature::value ? field : derivative(comm_, cells_, field, feature);
      Scaling const scaling = measure_scaling(comm_, cells_, shown, num_levels(), result_.num_training);
      prepared_.data.inputs.push_back(normalised(shown, scaling, cells_.per_sample(), Missing::mean));
    }
  }

  void prepare_target(std::string const& name) {
    Field field = read(name);
    prepared_.scalings.push_back(measure_scaling(comm_, cells_, field, num_levels(), result_.num_training));
    prepared_.means.push_back(measure_mean(comm_, cells_, field, num_levels(), result_.num_training));
    prepared_.data.targets.push_back(normalised(field, prepared_.scalings.back(), cells_.per_sample(), Missing::keep));
    field.values.resize(std::size_t(prepared_.data.num_predicted * cells_.per_sample()));
    prepared_.targets.push_back(std::move(field));
  }

  Comm const& comm_;
  FieldTable const& table_;
  RunResult const& result_;
  RunSettings const& settings_;
  Cells cells_;
  Prepared prepared_;
};

/// Area-weighted squared errors of prediction and climatology and their weight, per level, over all ranks.
std::vector<double> error_sums(Comm const& comm, RunResult const& result, TargetResult const& target,
                               std::vector<double> const& means) {
  Box const box = result.layout.owned(comm.rank());
  Index const levels = result.samples.num_levels();
  std::vector<double> sums(std::size_t(3 * levels), 0.0);
  for (Index s = result.num_training; s < result.samples.num_samples(); ++s) {
    auto const level = std::size_t(s % levels);
    for (Index i = 0; i < box.extent(0); ++i) {
      double const weight = result.row_weights[std::size_t(box.lo(0) + i)];
      for (Index j = 0; j < box.extent(1); ++j) {
        auto const cell = std::size_t((s * box.extent(0) + i) * box.extent(1) + j);
        double const truth = target.truth[cell];
        if (std::isnan(truth)) continue;
        sums[3 * level] += weight;
        sums[3 * level + 1] += weight * std::pow(target.prediction[cell] - truth, 2);
        sums[3 * level + 2] += weight * std::pow(means[level] - truth, 2);
      }
    }
  }
  comm.sum(std::span(sums));
  return sums;
}

Skill skill_of(double weight, double squared_error, double squared_anomaly) {
  return {std::sqrt(squared_error / weight), std::sqrt(squared_anomaly / weight)};
}

void evaluate(Comm const& comm, RunResult& result, TargetResult& target, std::vector<double> const& means) {
  std::vector<double> const sums = error_sums(comm, result, target, means);
  std::array<double, 3> total{};
  for (std::size_t i = 0; i < sums.size(); i += 3) {
    target.level_skills.push_back(skill_of(sums[i], sums[i + 1], sums[i + 2]));
    for (std::size_t k = 0; k < 3; ++k) total[k] += sums[i + k];
  }
  target.validation = skill_of(total[0], total[1], total[2]);
}

std::vector<double> in_units(std::vector<double> values, Scaling const& scaling, Index cells_per_sample) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const level = (i / std::size_t(cells_per_sample)) % scaling.mean.size();
    values[i] = values[i] * scaling.scale[level] + scaling.mean[level];
  }
  return values;
}

}  // namespace

namespace {

/// Reads and normalises what one domain needs; the ranks of a domain fail together.
Prepared prepare(RunSettings const& settings, RunResult& result) {
  Comm const& domain = result.teams.domain();
  FieldTable const table(domain, settings.input.string(), all_names(settings));
  result.grid = table.grid();
  result.samples = table.samples();
  result.latitude_name = table.latitude_name();
  result.longitude_name = table.longitude_name();
  result.row_weights = row_weights(result.grid);
  result.layout = choose_layout(settings.partition, domain.num_ranks(), result.row_weights, result.grid.num_columns());
  result.num_training = num_training_samples(result.samples, settings.train_fraction);
  result.num_mirrored = uses_mirror(settings.mirror, result.grid) ? result.num_training : 0;
  if (settings.network.validate_every > 0 && result.num_training == result.samples.num_samples())
    throw Error(Fault::usage, "NoValidation",
                "--validate-every and --early-stopping need samples that do not train; lower --train-fraction");
  Prepared prepared = Preparation(domain, table, result, settings)();
  for (Channel const& channel : prepared.data.inputs) result.channels.push_back(channel.name);
  for (Channel const& channel : prepared.data.statics) result.channels.push_back(channel.name);
  return prepared;
}

/// The same on all teams, or the first team's error on all.
Prepared prepare_agreed(RunSettings const& settings, RunResult& result) {
  Prepared prepared;
  run_agreed(result.teams.world(), [&] { prepared = prepare(settings, result); });
  return prepared;
}

void evaluate_targets(Prepared& prepared, RunResult& result) {
  Comm const& domain = result.teams.domain();
  Box const box = result.layout.owned(domain.rank());
  for (std::size_t t = 0; t < prepared.targets.size(); ++t) {
    TargetResult target;
    target.info = prepared.targets[t].info;
    target.truth = std::move(prepared.targets[t].values);
    target.prediction =
        in_units(std::move(result.network.predictions[t]), prepared.scalings[t], box.extent(0) * box.extent(1));
    if (result.num_training < result.samples.num_samples()) evaluate(domain, result, target, prepared.means[t]);
    result.targets.push_back(std::move(target));
  }
  result.network.predictions.clear();
}

}  // namespace

RunResult run_training(Comm const& comm, RunSettings const& settings, RunObserver const& observer) {
  Stopwatch watch;
  RunResult result{.teams = TeamWork(comm, settings.data_teams), .layout = Layout(ProcessGrid{1, 1}, {1, 1})};
  Prepared prepared = prepare_agreed(settings, result);
  TrainingData const& data = prepared.data;
  result.seconds["read"] = watch.lap();

  observer.on_start(result, num_steps(settings.network, Index(data.training.size())));
  result.network = train_network(result.teams, *result.layout.grid(), result.grid.boundary, data, settings.network,
                                 {.on_step = observer.on_step,
                                  .on_note = observer.on_note,
                                  .reason_to_stop = observer.reason_to_stop,
                                  .checkpoints = settings.checkpoints});
  result.seconds["train"] = watch.lap();
  if (result.network.stopped_by) return result;

  evaluate_targets(prepared, result);
  result.seconds["evaluate"] = watch.lap();
  return result;
}

}  // namespace graticule::train
