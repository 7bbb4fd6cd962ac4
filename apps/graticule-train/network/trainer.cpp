// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/call/traffic.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/training/schedule/early_stopping.hpp>
#include <graticule/training/schedule/learning_rate.hpp>
#include <graticule/training/state/model.hpp>

#include "first_weights.hpp"
#include "settings_text.hpp"
#include "task.hpp"
#include "tensors.hpp"
#include "updater.hpp"

#include <ftw.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

namespace graticule::train {
namespace {

/// Removes a folder and all in it; one that is not there is fine. LibTorch's wheels export parts of `std::filesystem`
/// of an older libstdc++, with which `remove_all` of that of GCC 13 crashes.
void remove_folder(std::filesystem::path const& folder) {
  constexpr int most_open = 16;
  auto const remove = [](char const* path, struct stat const*, int, FTW*) { return std::remove(path); };
  if (::nftw(folder.c_str(), remove, most_open, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return;
  throw Error("OutputError", folder.string() + " cannot be removed: " + std::generic_category().message(errno));
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
  Trainer(DataTeams const& teams, Task& task, NetworkSettings const& settings, TrainingControl const& control)
      : teams_(teams),
        task_(task),
        settings_(settings),
        control_(control),
        stopping_(std::max<Index>(settings.patience, 1)) {
    trained_.num_steps = num_steps(settings, Index(task.training().size()));
    trained_.steps_per_epoch = trained_.num_steps / settings.epochs;
    model_ = initialised_model();
    updater_ = make_updater(teams, model_, settings, trained_.steps_per_epoch);
    updater_->state().add("early_stopping", stopping_);
    // Evaluated in place of the network that trains: an average of it, or a copy in its own precision.
    if (settings.ema > 0 || task.is_runnable() || is_program()) {
      evaluated_ = initialised_model();
      evaluated_->eval();
    }
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
    finish();
    note_parameters();
    return std::move(trained_);
  }

 private:
  std::shared_ptr<Model> initialised_model() {
    auto model = task_.make_network();
    model->to(dtype_of(settings_.precision));
    if (!is_program()) initialise_parameters(*model, settings_.seed);
    models::move_to(*model, device_of(settings_));
    return model;
  }

  [[nodiscard]] bool is_program() const noexcept { return settings_.model == ModelKind::program; }
  [[nodiscard]] Index num_done() const noexcept { return Index(trained_.losses.size()); }

  void train() {
    while (num_done() < trained_.num_steps && !stopping_early()) {
      Index const epoch = num_done() / trained_.steps_per_epoch;
      auto const batch = batch_of(num_done());
      if (num_done() % trained_.steps_per_epoch == 0 || num_done() == trained_.first_step) task_.begin_epoch(epoch);
      longest_step_.time([&] { step(batch, samples_after_step(num_done())); });
      if (num_done() % trained_.steps_per_epoch == 0) end_epoch(epoch);
      if (keep_or_stop()) return;
    }
  }

  /// The samples of a step, of all teams.
  std::vector<Index> batch_of(Index step) {
    Index const epoch = step / trained_.steps_per_epoch;
    Index const first = step % trained_.steps_per_epoch * settings_.batch;
    if (std::exchange(ordered_epoch_, epoch) != epoch) order_ = shuffled(task_.training(), settings_.seed, epoch);
    auto const last = std::min(first + settings_.batch, Index(order_.size()));
    return {order_.begin() + first, order_.begin() + last};
  }

  [[nodiscard]] Share share_of(std::span<Index const> batch, double batch_weight) const {
    auto const [first, last] = teams_.my_part_of(Index(batch.size()));
    auto const mine = batch.subspan(std::size_t(first), std::size_t(last - first));
    Share share{batch, {mine.begin(), mine.end()}, weight_of(mine), batch_weight};
    if (!(share.weight > 0) && !batch.empty()) share.samples = {batch[heaviest_of(batch)]};
    return share;
  }
  [[nodiscard]] std::vector<Index> mine_of(std::span<Index const> batch) const { return share_of(batch, 0).samples; }

  /// What this team needs next.
  std::vector<Index> samples_after_step(Index step) {
    Index const next = step + 1;
    bool const validates = next % trained_.steps_per_epoch == 0 && validates_after(step / trained_.steps_per_epoch);
    if (validates) return mine_of(validation_batch(0));
    if (next >= trained_.num_steps) return {};
    auto const batch = batch_of(next);
    return mine_of(portion(batch, 0));
  }
  std::vector<Index> samples_after_validation(std::size_t number) {
    if (auto const next = validation_batch(number + 1); !next.empty()) return mine_of(next);
    if (num_done() >= trained_.num_steps) return {};
    auto const batch = batch_of(num_done());
    return mine_of(portion(batch, 0));
  }

  /// One of `accumulate` parts of a batch, or of as many as it has samples.
  [[nodiscard]] std::span<Index const> portion(std::span<Index const> batch, Index number) const {
    auto const size = Index(batch.size());
    Index const count = num_portions(size);
    auto const first = std::size_t(size * number / count);
    return batch.subspan(first, std::size_t(size * (number + 1) / count) - first);
  }
  [[nodiscard]] Index num_portions(Index batch_size) const { return std::min(settings_.accumulate, batch_size); }

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
    double const all = weight_of(batch);
    if (!(all > 0)) throw Error("TooFewValues", "all targets of a batch are missing");
    std::array<double, 1> loss{};
    Index const count = num_portions(Index(batch.size()));
    for (Index number = 0; number < count; ++number) {
      bool const is_last = number + 1 == count;
      auto const held = is_last && !task_.nests_backwards() ? nullptr : updater_->hold_gradients();
      auto const next =
          is_last ? std::vector<Index>(upcoming.begin(), upcoming.end()) : mine_of(portion(batch, number + 1));
      loss[0] += backward_of(share_of(portion(batch, number), all), next);
    }
    if (task_.nests_backwards()) updater_->reduce_held();
    if (settings_.clip > 0) updater_->clip(settings_.clip);
    updater_->step();
    average();
    teams_.data().sum(std::span<double>(loss));
    if (!std::isfinite(loss[0]))
      throw Error("NotFinite", "the loss of step " + std::to_string(num_done() + 1) + " is not finite; lower --lr");
    trained_.losses.push_back(loss[0]);
    control_.on_step(num_done() - 1, loss[0]);
  }

  /// @return this team's part of the loss
  double backward_of(Share const& share, std::span<Index const> upcoming) {
    torch::Tensor const loss = task_.share_of_loss(training_forward(), share, upcoming);
    if (updater_->loss_factor() == 1)
      loss.backward();
    else
      (loss * updater_->loss_factor()).backward();
    return loss.item<double>();
  }

  [[nodiscard]] Forward training_forward() {
    return [this](torch::Tensor const& inputs, torch::Tensor const& statics) {
      return updater_->forward(inputs, statics);
    };
  }
  /// Of the network that validates and predicts.
  [[nodiscard]] Forward evaluated_forward() {
    if (!evaluated_) return training_forward();
    return [this](torch::Tensor const& inputs, torch::Tensor const& statics) {
      return evaluated_->forward(inputs, statics);
    };
  }

  /// Follows the parameters that train.
  void average() {
    if (settings_.ema <= 0) return;
    torch::NoGradGuard const no_grad;
    updater_->settle();
    // The first steps count less than their number: the average would keep the first weights for long.
    auto const n = double(num_done() + 1);
    double const decay = std::min(settings_.ema, (1 + n) / (10 + n));
    auto const parameters = evaluated_->parameters();
    auto const current = updater_->whole_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      torch::Tensor parameter = parameters[i];
      parameter.lerp_(current[i].second.to(parameter.dtype()), 1 - decay);
    }
    copy_buffers();
  }

  /// Running statistics of exported networks; the networks of this project have no buffers.
  void copy_buffers() {
    auto const buffers = evaluated_->buffers();
    auto const current = model_->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) torch::Tensor(buffers[i]).copy_(current[i]);
  }

  /// Without an average, the network that is evaluated is a copy. Collective.
  void copy_evaluated() {
    if (!evaluated_ || settings_.ema > 0) return;
    torch::NoGradGuard const no_grad;
    updater_->settle();
    auto const parameters = evaluated_->parameters();
    auto const current = updater_->whole_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) torch::Tensor(parameters[i]).copy_(current[i].second);
    copy_buffers();
  }

  [[nodiscard]] std::size_t heaviest_of(std::span<Index const> samples) const {
    auto const lighter = [&](Index a, Index b) { return task_.weight_of(a) < task_.weight_of(b); };
    return std::size_t(std::max_element(samples.begin(), samples.end(), lighter) - samples.begin());
  }

  [[nodiscard]] double weight_of(std::span<Index const> samples) const {
    double sum = 0;
    for (Index const sample : samples) sum += task_.weight_of(sample);
    return sum;
  }

  [[nodiscard]] bool validates_after(Index epoch) const {
    return settings_.validate_every > 0 && (epoch + 1) % settings_.validate_every == 0;
  }
  [[nodiscard]] std::span<Index const> validation_batch(std::size_t number) const {
    std::span<Index const> const samples(task_.validation());
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
    copy_evaluated();
    task_.begin_epoch(epoch);
    auto const forward = evaluated_forward();
    auto const own = task_.validate(forward, epoch, num_done());
    trained_.validations.push_back({num_done(), own ? *own : mean_loss(forward)});
    bool const is_best = trained_.validations.back().loss < best_loss();
    if (is_best) trained_.best_step = num_done();
    if (is_best) save_runnable("best");
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

  /// Of all validation samples, batch by batch.
  double mean_loss(Forward const& forward) {
    std::array<double, 1> sum{};
    double weight = 0;
    for (std::size_t number = 0; !validation_batch(number).empty(); ++number) {
      auto const batch = validation_batch(number);
      double const all = weight_of(batch);
      if (!(all > 0)) continue;
      weight += all;
      sum[0] +=
          all * task_.share_of_loss(forward, share_of(batch, all), samples_after_validation(number)).item<double>();
    }
    teams_.data().sum(std::span<double>(sum));
    return sum[0] / weight;
  }

  /// The lowest validation loss but for the latest.
  [[nodiscard]] double best_loss() const {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + 1 < trained_.validations.size(); ++i)
      best = std::min(best, trained_.validations[i].loss);
    return best;
  }

  /// The network for other programs.
  void save_runnable(std::string const& folder) {
    if (!task_.is_runnable() || !control_.checkpoints || control_.checkpoints->runnable.empty()) return;
    CheckpointStore store(teams_.world(), control_.checkpoints->runnable / folder, {.keep = 1});
    auto writer = store.begin(num_done());
    training::save_model(writer, *evaluated_);
    task_.describe(writer);
    control_.on_note("network " + writer.commit().string());
  }

  /// Predicts with the best network, if validations chose one.
  void finish() {
    torch::NoGradGuard const no_grad;
    copy_evaluated();
    save_runnable("last");
    // Of an earlier training into the same folder: other programs would take it for this one's.
    if (task_.is_runnable() && !trained_.best_step && control_.checkpoints && !control_.checkpoints->runnable.empty())
      run_agreed(teams_.world(), [&] {
        if (teams_.world().rank() == 0) remove_folder(control_.checkpoints->runnable / "best");
      });
    bool const has_best =
        task_.is_runnable() && trained_.best_step && control_.checkpoints && !control_.checkpoints->runnable.empty();
    if (has_best) {
      auto const best = CheckpointStore(teams_.world(), control_.checkpoints->runnable / "best").newest();
      if (best) training::load_model(teams_.world(), *best, *evaluated_);
    }
    save_exported();
    task_.predict(evaluated_forward());
  }

  /// The program for PyTorch, with the weights that predict. Collective.
  void save_exported() {
    if (!is_program() || !control_.checkpoints || control_.checkpoints->runnable.empty()) return;
    auto const file = control_.checkpoints->runnable / "network.pt2";
    run_agreed(teams_.world(), [&] {
      if (teams_.world().rank() == 0) models::save_program(*evaluated_, file);
    });
    control_.on_note("exported network " + file.string());
  }

  void save() {
    updater_->settle();
    updater_->state().position = {num_done() / trained_.steps_per_epoch, num_done() % trained_.steps_per_epoch,
                                  settings_.seed};
    auto writer = store_->begin(num_done());
    updater_->state().save(writer);
    if (settings_.ema > 0) training::save_model(writer, *evaluated_, "ema");
    writer.add_value("training/settings", settings_text(settings_) + task_.settings_text());
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
    for (auto const& [path, reason] : store_->skipped()) control_.on_warning("skipped " + reason);
    if (found) return load(*found);
    if (!store_->skipped().empty())
      control_.on_warning("no checkpoint is intact: the training starts from the beginning");
  }

  void load(Checkpoint const& checkpoint) {
    require_same_training(checkpoint.path().string(), checkpoint.value<std::string>("training/settings"),
                          settings_text(settings_) + task_.settings_text());
    updater_->state().load(checkpoint);
    if (settings_.ema > 0) training::load_model(teams_.world(), checkpoint, *evaluated_, "ema");
    trained_.losses = checkpoint.value<std::vector<double>>("training/losses");
    double lowest = std::numeric_limits<double>::infinity();
    auto const& steps = checkpoint.value<std::vector<Index>>("training/validation_steps");
    auto const& losses = checkpoint.value<std::vector<double>>("training/validation_losses");
    for (std::size_t i = 0; i < steps.size() && i < losses.size(); ++i)
      trained_.validations.push_back({steps[i], losses[i]});
    for (auto const& [step, loss] : trained_.validations)
      if (!trained_.best_step || loss < lowest) {
        trained_.best_step = step;
        lowest = loss;
      }
    trained_.first_step = num_done();
    control_.on_resume(trained_.losses);
    control_.on_note("resumed after step " + std::to_string(num_done()) + " of " + std::to_string(trained_.num_steps) +
                     " from " + checkpoint.path().string());
  }

  void note_parameters() {
    trained_.update_figures = updater_->figures();
    for (auto const& [name, tensor] : updater_->whole_parameters()) {
      torch::Tensor const values = tensor.detach().to(torch::kCPU, torch::kFloat64).contiguous();
      trained_.parameters.emplace_back(
          name, std::vector<double>(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()));
      trained_.num_parameters += values.numel();
    }
  }

  DataTeams const& teams_;
  Task& task_;
  NetworkSettings const& settings_;
  TrainingControl const& control_;
  std::vector<Index> order_;  ///< of the training samples in `ordered_epoch_`
  Index ordered_epoch_ = -1;
  training::EarlyStopping stopping_;
  std::unique_ptr<Updater> updater_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<Model> evaluated_;
  std::optional<CheckpointStore> store_;
  TrainedNetwork trained_;
  Longest longest_step_;
  Longest longest_save_;
};

/// Squared errors of cells, plus those of the amplitudes of waves added over wavenumbers: in the units of a variance,
/// as the mean over a row of squared cells is half the sum of squared amplitudes.
Loss spectral_loss(NetworkSettings const& settings, nn::Domain const& domain, nn::LossOptions const& options,
                   Index num_columns) {
  bool const is_mean = options.reduction == nn::LossReduction::mean;
  double const factor = settings.spectral_weight * double(is_mean ? num_columns / 2 + 1 : num_columns);
  return [cells = nn::MSELoss(domain, options), waves = nn::SpectralLoss(domain, options), factor](
             torch::Tensor const& prediction, torch::Tensor const& target) mutable {
    return cells(prediction, target) + factor * waves(prediction, target);
  };
}

}  // namespace

TrainedNetwork train_on_task(DataTeams const& teams, Task& task, NetworkSettings const& settings,
                             TrainingControl const& control) {
  return Trainer(teams, task, settings, control)();
}

Loss make_loss(NetworkSettings const& settings, nn::Domain const& domain, nn::LossOptions const& options,
               Index num_columns) {
  auto const call = [](auto loss) {
    return [loss](torch::Tensor const& prediction, torch::Tensor const& target) mutable {
      return loss(prediction, target);
    };
  };
  switch (settings.loss) {
    case LossKind::mae: return call(nn::L1Loss(domain, options));
    case LossKind::huber: return call(nn::HuberLoss(1.0, domain, options));
    case LossKind::spectral: return spectral_loss(settings, domain, options, num_columns);
    case LossKind::crps: return call(nn::CRPSLoss(domain, options));
    case LossKind::mse: break;
  }
  return call(nn::MSELoss(domain, options));
}

}  // namespace graticule::train
