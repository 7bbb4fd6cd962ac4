// SPDX-License-Identifier: BSD-3-Clause
#include "trained_network.hpp"

#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/training/schedule/early_stopping.hpp>
#include <graticule/training/schedule/learning_rate.hpp>

#include "model.hpp"
#include "settings_text.hpp"
#include "tensors.hpp"
#include "updater.hpp"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace graticule::train {
namespace {

ModelOptions model_options(TrainingData const& data, NetworkSettings const& settings) {
  ModelOptions options;
  options.kind = settings.model;
  options.num_inputs = std::int64_t(data.inputs.size());
  options.num_statics = std::int64_t(data.statics.size());
  options.num_outputs = std::int64_t(data.targets.size());
  options.channels = settings.channels;
  options.blocks = settings.blocks;
  options.kernel = settings.kernel;
  options.latitudes = data.latitudes;
  options.num_columns = data.num_global_columns;
  for (std::size_t c = 0; c < data.inputs.size(); ++c)
    if (data.inputs[c].parity == Parity::odd) options.odd_channels.push_back(std::int64_t(c));
  return options;
}

/// The longest time that something has taken so far.
class Longest {
 public:
  template <class Action>
  void time(Action&& action) {
    auto const begin = std::chrono::steady_clock::now();
    action();
    seconds_ = std::max(seconds_, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  double seconds_ = 0;
};

class Trainer {
 public:
  Trainer(DataTeams const& teams, ProcessGrid const& grid, Boundary const& boundary, TrainingData const& data,
          BatchSource& source, NetworkSettings const& settings, TrainingControl const& control)
      : teams_(teams),
        data_(data),
        source_(source),
        settings_(settings),
        control_(control),
        statics_(static_tensor(data, dtype_of(settings.precision))),
        domain_(teams.domain(), grid, boundary),
        loss_of_(domain_, nn::LossOptions{.row_weights = data.row_weights}),
        stopping_(std::max<Index>(settings.patience, 1)) {
    trained_.num_steps = num_steps(settings, Index(data.training.size()));
    trained_.steps_per_epoch = trained_.num_steps / settings.epochs;
    updater_ = make_updater(teams, initialised_model(), settings, trained_.steps_per_epoch);
    updater_->state().add("early_stopping", stopping_);
    if (control.checkpoints) store_.emplace(teams.world(), control.checkpoints->folder);
  }

  TrainedNetwork operator()() {
    resume();
    auto const before = nn::traffic();
    train();
    if (trained_.stopped_by) return std::move(trained_);
    updater_->settle();
    auto const sent = nn::traffic() - before;
    auto const steps = double(std::max<Index>(Index(trained_.losses.size()) - trained_.first_step, 1));
    trained_.messages_per_step = double(sent.num_messages) / steps;
    trained_.bytes_per_step = double(sent.bytes) / steps;
    predict();
    note_parameters();
    return std::move(trained_);
  }

 private:
  std::shared_ptr<Model> initialised_model() {
    auto model = make_model(model_options(data_, settings_), domain_);
    model->to(dtype_of(settings_.precision));
    initialise_parameters(*model, settings_.seed);
    return model;
  }

  [[nodiscard]] Index num_done() const noexcept { return Index(trained_.losses.size()); }

  void train() {
    while (num_done() < trained_.num_steps && !stopping_early()) {
      Index const epoch = num_done() / trained_.steps_per_epoch;
      auto const batch = batch_of(num_done());
      longest_step_.time([&] { step(batch, samples_after_step(num_done())); });
      if (num_done() % trained_.steps_per_epoch == 0) end_epoch(epoch);
      if (keep_or_stop()) return;
    }
  }

  /// The samples of a step, of all teams.
  std::vector<Index> batch_of(Index step) {
    Index const epoch = step / trained_.steps_per_epoch;
    Index const first = step % trained_.steps_per_epoch * settings_.batch;
    if (std::exchange(ordered_epoch_, epoch) != epoch) order_ = shuffled(data_.training, settings_.seed, epoch);
    auto const last = std::min(first + settings_.batch, Index(order_.size()));
    return {order_.begin() + first, order_.begin() + last};
  }

  /// This team's share of a batch. If it has no weight, it is some sample: the team must run its forward and backward
  /// nevertheless, because other teams may wait for its gradients.
  [[nodiscard]] std::vector<Index> mine_of(std::span<Index const> batch) const {
    auto const [first, last] = teams_.my_part_of(Index(batch.size()));
    auto const mine = batch.subspan(std::size_t(first), std::size_t(last - first));
    if (weight_of(mine) > 0) return {mine.begin(), mine.end()};
    return {batch[heaviest_of(batch)]};
  }

  /// What this team needs next.
  std::vector<Index> samples_after_step(Index step) {
    Index const next = step + 1;
    bool const validates = next % trained_.steps_per_epoch == 0 && validates_after(step / trained_.steps_per_epoch);
    if (validates) return mine_of(validation_batch(0));
    return next < trained_.num_steps ? mine_of(batch_of(next)) : std::vector<Index>();
  }
  std::vector<Index> samples_after_validation(std::size_t number) {
    if (auto const next = validation_batch(number + 1); !next.empty()) return mine_of(next);
    return num_done() < trained_.num_steps ? mine_of(batch_of(num_done())) : std::vector<Index>();
  }

  [[nodiscard]] bool stopping_early() const { return settings_.patience > 0 && stopping_.stopped(); }

  /// Writes what is due. @return whether to stop
  bool keep_or_stop() {
    bool const ended = num_done() == trained_.num_steps || stopping_early();
    if (!ended) trained_.stopped_by = control_.reason_to_stop(2 * (longest_step_.seconds() + longest_save_.seconds()));
    if (!store_) return trained_.stopped_by.has_value();
    Index const every = control_.checkpoints->every;
    bool const due = every > 0 && (ended || num_done() % every == 0);
    if (due || trained_.stopped_by) longest_save_.time([&] { save(); });
    return trained_.stopped_by.has_value();
  }

  /// One step on a batch, of which this team has a part.
  /// @param upcoming this team's samples after these
  void step(std::span<Index const> batch, std::span<Index const> upcoming) {
    training::set_learning_rate(updater_->optimizer(), learning_rate(settings_, num_done(), trained_.num_steps));
    updater_->zero_grad();
    std::array<double, 1> loss{};
    torch::Tensor share = share_of_loss(batch, upcoming);
    if (updater_->loss_factor() == 1)
      share.backward();
    else
      (share * updater_->loss_factor()).backward();
    loss[0] = share.item<double>();
    updater_->step();
    teams_.data().sum(std::span<double>(loss));
    if (!std::isfinite(loss[0]))
      throw Error("NotFinite", "the loss of step " + std::to_string(num_done() + 1) + " is not finite; lower --lr");
    trained_.losses.push_back(loss[0]);
    control_.on_step(num_done() - 1, loss[0]);
  }

  /// What this team adds to the loss of some samples, which is normalised by the cells of all of them. A team without a
  /// part adds zero: its forward and its gradients are there, because other teams may wait for them.
  torch::Tensor share_of_loss(std::span<Index const> samples, std::span<Index const> upcoming) {
    auto const [first, last] = teams_.my_part_of(Index(samples.size()));
    double const all = weight_of(samples);
    double const own = weight_of(samples.subspan(std::size_t(first), std::size_t(last - first)));
    if (!(all > 0)) throw Error("EmptyLoss", "all targets of a batch are missing");
    torch::Tensor const loss = loss_of(source_.take(mine_of(samples), upcoming));
    return own == all ? loss : loss * (own / all);
  }

  torch::Tensor loss_of(Batch const& batch) {
    torch::Tensor const targets = tensor_of(batch.targets, data_.targets.size(), batch, data_);
    return loss_of_(output_of(batch).to(targets.dtype()), targets);
  }

  torch::Tensor output_of(Batch const& batch) {
    return updater_->forward(tensor_of(batch.inputs, data_.inputs.size(), batch, data_), statics_);
  }

  [[nodiscard]] std::size_t heaviest_of(std::span<Index const> samples) const {
    auto const lighter = [&](Index a, Index b) { return weight_of(a) < weight_of(b); };
    return std::size_t(std::max_element(samples.begin(), samples.end(), lighter) - samples.begin());
  }

  [[nodiscard]] double weight_of(std::span<Index const> samples) const {
    double sum = 0;
    for (Index const sample : samples) sum += weight_of(sample);
    return sum;
  }
  /// A mirror image counts as its sample.
  [[nodiscard]] double weight_of(Index sample) const {
    return data_.sample_weights[std::size_t(sample % data_.num_predicted)];
  }

  [[nodiscard]] bool validates_after(Index epoch) const {
    return settings_.validate_every > 0 && (epoch + 1) % settings_.validate_every == 0;
  }
  [[nodiscard]] std::span<Index const> validation_batch(std::size_t number) const {
    std::span<Index const> const samples(data_.validation);
    auto const first = std::min(number * std::size_t(settings_.batch), samples.size());
    return samples.subspan(first, std::min(std::size_t(settings_.batch), samples.size() - first));
  }

  void end_epoch(Index epoch) {
    auto const begin = trained_.losses.end() - std::ptrdiff_t(trained_.steps_per_epoch);
    updater_->end_epoch(std::accumulate(begin, trained_.losses.end(), 0.0) / double(trained_.steps_per_epoch));
    if (validates_after(epoch)) validate(epoch);
  }

  void validate(Index epoch) {
    torch::NoGradGuard const no_grad;
    std::array<double, 1> sum{};
    double weight = 0;
    for (std::size_t number = 0; !validation_batch(number).empty(); ++number) {
      auto const batch = validation_batch(number);
      if (!(weight_of(batch) > 0)) continue;
      weight += weight_of(batch);
      sum[0] += weight_of(batch) * share_of_loss(batch, samples_after_validation(number)).item<double>();
    }
    teams_.data().sum(std::span<double>(sum));
    trained_.validations.push_back({num_done(), sum[0] / weight});
    // Its answer is asked for again after a resumption.
    static_cast<void>(stopping_.observe(trained_.validations.back().loss));
    char text[96];
    std::snprintf(text, sizeof text, "epoch %lld: validation loss %.6g", static_cast<long long>(epoch + 1),
                  trained_.validations.back().loss);
    control_.on_note(text);
    if (stopping_early())
      control_.on_note("the validation loss has not improved " + std::to_string(settings_.patience) +
                       " times: the training ends early");
  }

  void save() {
    updater_->settle();
    updater_->state().position = {num_done() / trained_.steps_per_epoch, num_done() % trained_.steps_per_epoch,
                                  settings_.seed};
    auto writer = store_->begin(num_done());
    updater_->state().save(writer);
    writer.add_value("training/settings", settings_text(settings_, data_));
    writer.add_value("training/losses", trained_.losses);
    std::vector<Index> steps;
    std::vector<double> losses;
    for (auto const& [step, loss] : trained_.validations) {
      steps.push_back(step);
      losses.push_back(loss);
    }
    writer.add_value("training/validation_steps", steps);
    writer.add_value("training/validation_losses", losses);
    control_.on_note("checkpoint " + writer.commit().string());
  }

  void resume() {
    if (!store_ || control_.checkpoints->resume == Resume::never) return;
    if (control_.checkpoints->resume == Resume::file)
      return load(Checkpoint(teams_.world(), control_.checkpoints->file));
    auto const found = store_->newest();
    for (auto const& [path, reason] : store_->skipped()) control_.on_note("skipped " + reason);
    if (found) load(*found);
  }

  void load(Checkpoint const& checkpoint) {
    require_same_training(checkpoint.path().string(), checkpoint.value<std::string>("training/settings"),
                          settings_text(settings_, data_));
    updater_->state().load(checkpoint);
    trained_.losses = checkpoint.value<std::vector<double>>("training/losses");
    auto const& steps = checkpoint.value<std::vector<Index>>("training/validation_steps");
    auto const& losses = checkpoint.value<std::vector<double>>("training/validation_losses");
    for (std::size_t i = 0; i < steps.size() && i < losses.size(); ++i)
      trained_.validations.push_back({steps[i], losses[i]});
    trained_.first_step = num_done();
    control_.on_note("resumed after step " + std::to_string(num_done()) + " of " + std::to_string(trained_.num_steps) +
                     " from " + checkpoint.path().string());
  }

  /// Each team processes its share of the samples in portions. All teams run the same number of forwards, which may be
  /// collective over them.
  void predict() {
    torch::NoGradGuard const no_grad;
    Index const at_once = most_samples_at_once(settings_, teams_);
    auto const part = teams_.my_part_of(data_.num_predicted);
    // A team that has no more samples takes the last one.
    auto const samples_of = [&](Index round) {
      Index const first = std::min(part.first + round, data_.num_predicted - 1);
      std::vector<Index> samples(std::size_t(std::clamp<Index>(part.last - first, 1, at_once)));
      std::iota(samples.begin(), samples.end(), first);
      return samples;
    };
    Index const most = (data_.num_predicted + teams_.num_teams() - 1) / teams_.num_teams();
    for (Index round = 0; round < most; round += at_once) {
      bool const is_last = round + at_once >= most;
      auto const samples = samples_of(round);
      Batch const batch =
          source_.take(samples, is_last ? std::vector<Index>() : samples_of(round + at_once), Truth::with);
      torch::Tensor const output = output_of(batch).to(torch::kFloat64).contiguous();
      std::span<double const> const values(output.const_data_ptr<double>(), std::size_t(output.numel()));
      bool const is_mine = part.first + round < part.last;
      control_.on_prediction(is_mine ? PredictedSamples{samples, values, batch.truth} : PredictedSamples{});
    }
  }

  void note_parameters() {
    trained_.update_figures = updater_->figures();
    for (auto const& [name, tensor] : updater_->whole_parameters()) {
      torch::Tensor const values = tensor.detach().to(torch::kFloat64).contiguous();
      trained_.parameters.emplace_back(
          name, std::vector<double>(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()));
      trained_.num_parameters += values.numel();
    }
  }

  DataTeams const& teams_;
  TrainingData const& data_;
  BatchSource& source_;
  NetworkSettings const& settings_;
  TrainingControl const& control_;
  torch::Tensor statics_;
  std::vector<Index> order_;  ///< of the training samples in `ordered_epoch_`
  Index ordered_epoch_ = -1;
  nn::Domain domain_;
  nn::MSELoss loss_of_;
  training::EarlyStopping stopping_;
  std::unique_ptr<Updater> updater_;
  std::optional<CheckpointStore> store_;
  TrainedNetwork trained_;
  Longest longest_step_;
  Longest longest_save_;
};

training::Schedule schedule_of(NetworkSettings const& settings, Index num_steps) {
  training::Schedule schedule;
  schedule.kind = training::schedule_kinds().at(settings.schedule);
  schedule.num_steps = num_steps;
  schedule.warmup_steps = settings.warmup_steps < 0 ? 0.05 * double(num_steps) : double(settings.warmup_steps);
  schedule.period = std::max<Index>(1, num_steps / 3);
  return schedule;
}

}  // namespace

Index num_steps(NetworkSettings const& settings, Index num_training) {
  return settings.epochs * ((num_training + settings.batch - 1) / settings.batch);
}

Index most_samples_at_once(NetworkSettings const& settings, DataTeams const& teams) {
  return (settings.batch + teams.num_teams() - 1) / teams.num_teams();
}

double learning_rate(NetworkSettings const& settings, Index step, Index num_steps) {
  return settings.learning_rate * schedule_of(settings, num_steps).factor(step);
}

TrainedNetwork train_network(DataTeams const& teams, ProcessGrid const& grid, Boundary const& boundary,
                             TrainingData const& data, BatchSource& source, NetworkSettings const& settings,
                             TrainingControl const& control) {
  return Trainer(teams, grid, boundary, data, source, settings, control)();
}

std::string torch_version() { return TORCH_VERSION; }

void use_torch_threads(int num_threads) {
  at::set_num_threads(num_threads);
  // May be set once in a process, and one thread is enough: this program runs one operation at a time.
  static bool const once = (at::set_num_interop_threads(1), true);
  static_cast<void>(once);
}

}  // namespace graticule::train
