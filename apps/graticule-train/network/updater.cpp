// SPDX-License-Identifier: BSD-3-Clause
#include "updater.hpp"

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "tensors.hpp"

#include <utility>

namespace graticule::train {
namespace {

using Figures = std::map<std::string, Index>;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                        NetworkSettings const& settings) {
  // Gradients of a loss of order one are far larger than this; those that cancel, as a sample's and its mirror image's
  // may, are f32 rounding far smaller, which the usual 1e-8 would turn into full steps that differ with the number of
  // ranks.
  constexpr double eps = 1e-5;
  switch (settings.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<torch::optim::AdamW>(
          std::move(parameters),
          torch::optim::AdamWOptions(settings.learning_rate).eps(eps).weight_decay(settings.weight_decay));
    case OptimizerKind::sgd:
      return std::make_unique<torch::optim::SGD>(
          std::move(parameters),
          torch::optim::SGDOptions(settings.learning_rate).momentum(0.9).weight_decay(settings.weight_decay));
    case OptimizerKind::adam:
      return std::make_unique<torch::optim::Adam>(
          std::move(parameters),
          torch::optim::AdamOptions(settings.learning_rate).eps(eps).weight_decay(settings.weight_decay));
  }
  throw Error("BadOption", "the optimizer has no name");
}

/// Every rank has all parameters, and gradients are reduced at every step.
class Replicated : public Updater {
 public:
  Replicated(DataTeams const& teams, std::shared_ptr<Model> model, NetworkSettings const& settings)
      : model_(std::move(model)),
        optimizer_(make_optimizer(model_->parameters(), settings)),
        parallel_(*model_, *optimizer_,
                  // Partial gradients of one loss: its shares of the domain's ranks and of the teams add up to it.
                  {{teams.domain(), nn::Reduction::sum}, {teams.data(), nn::Reduction::sum}}, options(settings)),
        state_(teams.world(), *model_) {
    state_.add("optimizer", *optimizer_);
  }

  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override {
    return model_->forward(inputs, statics);
  }
  void zero_grad() override { optimizer_->zero_grad(); }
  void step() override { parallel_.step(); }
  std::shared_ptr<void> hold_gradients() override {
    return std::shared_ptr<training::DataParallel::NoSync>(new auto(parallel_.no_sync()));
  }
  void reduce_held() override { parallel_.reduce(); }
  void clip(double max_norm) override { static_cast<void>(parallel_.clip_gradients(max_norm)); }
  void settle() override { parallel_.finalize(); }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  training::TrainingState& state() override { return state_; }
  nn::NamedTensors whole_parameters() const override { return nn::parameters_of(*model_); }

  Figures figures() const override {
    Figures result;
    for (auto const& traffic : parallel_.traffic()) {
      result["messages_per_step"] += traffic.messages;
      result["bytes_per_step"] += traffic.bytes;
    }
    return result;
  }

 private:
  static training::DataParallelOptions options(NetworkSettings const& settings) {
    training::DataParallelOptions options;
    options.wait =
        settings.parallel == Parallel::blocking ? training::GradientWait::in_backward : training::GradientWait::late;
    options.unused = training::Unused::allowed;
    options.wire = settings.wire;
    options.order = training::SumOrder::by_rank;  // a resumed training is to have the same bits
    return options;
  }

  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  training::DataParallel parallel_;
  training::TrainingState state_;
};

[[noreturn]] void refuse(char const* option) {
  throw Error(Fault::usage, "BadOption", std::string(option) + " does not go with --parallel daso");
}

/// Every rank has all parameters; teams on one node share gradients, and nodes average parameters now and then.
class Averaged : public Updater {
 public:
  Averaged(DataTeams const& teams, std::shared_ptr<Model> model, NetworkSettings const& settings, Index steps_per_epoch)
      : teams_(teams),
        model_(std::move(model)),
        optimizer_(make_optimizer(model_->parameters(), settings)),
        daso_(*model_, *optimizer_, teams.data(), options(teams, settings)),
        state_(teams.world(), *model_) {
    daso_.set_last_batch(steps_per_epoch - 1);
    state_.add("optimizer", *optimizer_);
    state_.add("daso", daso_);
  }

  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override {
    return model_->forward(inputs, statics);
  }
  void zero_grad() override { daso_.zero_grad(); }
  void step() override { daso_.step(); }
  std::shared_ptr<void> hold_gradients() override { refuse("--accumulate"); }
  void reduce_held() override { refuse("--rollout-checkpoint"); }
  void clip(double /*max_norm*/) override { refuse("--clip"); }
  void end_epoch(double loss) override {
    // Ranks of a domain follow one schedule: they may not differ by a bit.
    teams_.domain().broadcast(&loss, Index(sizeof loss), 0);
    daso_.epoch_loss(loss, training::LossIs::averaged);
  }
  void settle() override {
    // Between epochs all have the same parameters.
    if (daso_.schedule().batch() != 0) daso_.synchronize();
  }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  /// Gradients of teams are averaged, not summed.
  double loss_factor() const override { return double(teams_.num_teams()); }
  training::TrainingState& state() override { return state_; }
  nn::NamedTensors whole_parameters() const override { return nn::parameters_of(*model_); }

  Figures figures() const override {
    auto const stats = daso_.stats();
    return {{"messages_sent", stats.num_sent},
            {"bytes_sent", stats.bytes_sent},
            {"messages_merged", stats.num_merged},
            {"messages_waited_for", stats.num_replaced}};
  }

 private:
  /// The same on all ranks of a domain, whose parameters must not come from different teams: where their first rank is.
  static int node_of(DataTeams const& teams, Index teams_per_node) {
    int node = 0;
    if (teams_per_node > 0)
      node = int(teams.team() / teams_per_node);
    else
      while (!teams.world().on_this_node(node)) ++node;
    teams.domain().broadcast(&node, Index(sizeof node), 0);
    return node;
  }

  static training::DasoOptions options(DataTeams const& teams, NetworkSettings const& settings) {
    auto const& daso = settings.daso;
    training::DasoOptions options;
    options.schedule.total_epochs = settings.epochs;
    options.schedule.warmup_epochs = daso.warmup_epochs;
    options.schedule.cooldown_epochs = daso.cooldown_epochs;
    options.schedule.max_global_skips = daso.max_skip;
    options.node = node_of(teams, daso.teams_per_node);
    options.wire = settings.wire;
    options.moments = training::DasoPolicy::average;  // one state for all teams, as a checkpoint holds it
    options.gradient_rules = {{teams.domain(), nn::Reduction::sum}};
    return options;
  }

  DataTeams const& teams_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  training::Daso daso_;
  training::TrainingState state_;
};

/// Each rank has some rows of every parameter, or computes in another type than it keeps them in, or both.
class Cut : public Updater {
 public:
  Cut(DataTeams const& teams, std::shared_ptr<Model> model, NetworkSettings const& settings)
      : model_(std::move(model)),
        dtype_(settings.compute == Compute::bf16 ? torch::kBFloat16 : dtype_of(settings.precision)),
        sharded_(model_, shards(teams, settings), options(teams, settings)),
        optimizer_(make_optimizer(sharded_.parameters(), settings)),
        state_(teams.world(), sharded_) {
    state_.add("optimizer", *optimizer_);
  }

  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override {
    return sharded_.forward([&] { return model_->forward(inputs.to(dtype_), statics.to(dtype_)); });
  }
  void zero_grad() override { optimizer_->zero_grad(); }
  void step() override { optimizer_->step(); }
  std::shared_ptr<void> hold_gradients() override {
    return std::shared_ptr<training::ShardedParameters::NoSync>(new auto(sharded_.no_sync()));
  }
  void reduce_held() override {
    throw Error(Fault::usage, "BadOption",
                "--rollout-checkpoint does not go with --shard-parameters or --precision bf16");
  }
  void clip(double max_norm) override { static_cast<void>(sharded_.clip_grad_norm(max_norm)); }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  training::TrainingState& state() override { return state_; }

  nn::NamedTensors whole_parameters() const override {
    std::map<std::string, torch::Tensor> whole;
    for (auto& [name, tensor] : training::full_state(sharded_)) whole.emplace(name, std::move(tensor));
    nn::NamedTensors result;
    for (auto const& [name, rows] : sharded_.named_parameters()) result.emplace_back(name, whole.at(name));
    return result;
  }

  Figures figures() const override {
    auto const stats = sharded_.stats();
    return {{"parameter_bytes_kept", stats.shard_bytes},
            {"parameter_bytes_gathered_at_most", stats.peak_gathered_bytes},
            {"gathers", stats.gathers},
            {"gathers_ahead", stats.gathers_ahead},
            {"messages_sent", stats.messages},
            {"bytes_sent", stats.bytes}};
  }

 private:
  static nn::TeamRule shards(DataTeams const& teams, NetworkSettings const& settings) {
    switch (settings.shards) {
      case Shards::none: return {teams.world().split(teams.world().rank(), 0), nn::Reduction::sum};
      case Shards::domain: return {teams.domain(), nn::Reduction::sum};
      case Shards::data: return {teams.data(), nn::Reduction::sum};
      case Shards::all: break;
    }
    return {teams.world(), nn::Reduction::sum};
  }

  static torch::Dtype gradient_type(NetworkSettings const& settings) {
    switch (settings.wire) {
      case training::Wire::bf16: return torch::kBFloat16;
      case training::Wire::f16: return torch::kHalf;
      case training::Wire::own: return dtype_of(settings.precision);
      case training::Wire::f32:
      case training::Wire::automatic: break;
    }
    throw Error("BadOption", "gradients are sent in their own type, bf16 or f16, and not in " +
                                 graticule::detail::enum_name(settings.wire));
  }

  static training::ShardedParametersOptions options(DataTeams const& teams, NetworkSettings const& settings) {
    training::ShardedParametersOptions options;
    auto const replicate = [&](Comm const& team) { options.replicas.push_back({team, nn::Reduction::sum}); };
    if (settings.shards == Shards::none || settings.shards == Shards::data) replicate(teams.domain());
    if (settings.shards == Shards::none || settings.shards == Shards::domain) replicate(teams.data());
    if (settings.compute == Compute::bf16) options.precision.parameters = torch::kBFloat16;
    options.precision.gradients = gradient_type(settings);
    return options;
  }

  std::shared_ptr<Model> model_;
  torch::Dtype dtype_;
  training::ShardedParameters sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  training::TrainingState state_;
};

}  // namespace

std::unique_ptr<Updater> make_updater(DataTeams const& teams, std::shared_ptr<Model> model,
                                      NetworkSettings const& settings, Index steps_per_epoch) {
  if (settings.shards != Shards::none || settings.compute != Compute::own)
    return std::make_unique<Cut>(teams, std::move(model), settings);
  switch (settings.parallel) {
    case Parallel::daso: return std::make_unique<Averaged>(teams, std::move(model), settings, steps_per_epoch);
    case Parallel::blocking:
    case Parallel::nonblocking: break;
  }
  return std::make_unique<Replicated>(teams, std::move(model), settings);
}

}  // namespace graticule::train
