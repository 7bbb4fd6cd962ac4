// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/detail/daso_schedule.hpp>
#include <graticule/training/detail/values.hpp>

#include "data_parallel/reducer.hpp"
#include "message.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace graticule::training {

using detail::DasoMessage;
using detail::SentItem;
using detail::SentLane;

namespace {

DasoOptions agreed(Comm const& world, DasoOptions options) {
  auto const& s = options.schedule;
  run_agreed(world, [&] {
    if (options.chunk < 1 || options.chunk > Index(1) << 30)
      throw Error("BadOption", "DASO needs pieces of 1 to 2^30 elements, got " + std::to_string(options.chunk));
  });
  std::array<double, 15> const all{double(s.total_epochs),
                                   double(s.warmup_epochs),
                                   double(s.cooldown_epochs),
                                   s.stability,
                                   double(s.patience),
                                   double(s.max_global_skips),
                                   double(s.skip_reduction_factor),
                                   double(s.local_skip_factor),
                                   double(s.arithmetic),
                                   double(options.chunk),
                                   double(options.wire),
                                   double(options.stale_wire),
                                   double(options.buffers),
                                   double(options.moments),
                                   double(options.unequal_nodes)};
  std::string text = "options";
  Hash hash;
  for (double const value : all) {
    hash.add(value);
    text.append(" ").append(std::to_string(value));
  }
  require_same(world, "ArgumentDisagreement", hash.value(), text);
  return options;
}

torch::ScalarType real_type(torch::Tensor const& tensor) { return c10::toRealValueType(tensor.scalar_type()); }

}  // namespace

struct Daso::State {
  State(torch::nn::Module const& module, torch::optim::Optimizer& given, Comm const& comm, DasoOptions const& wanted)
      : world(comm),
        optimizer(given),
        options(agreed(comm, wanted)),
        parameters(nn::parameters_of(module)),
        buffers(nn::detail::buffers_of(module)),
        nodes(detail::node_groups(comm, wanted.node, wanted.unequal_nodes)),
        schedule(options.schedule, nodes.num_groups) {
    for (auto const& rule : options.gradient_rules) {
      nn::detail::require_replicas(rule.team, nn::detail::tensors_of(module));
      teams.emplace_back(rule.team.handle());
    }
    teams.emplace_back(nodes.node.handle());
  }

  [[nodiscard]] std::vector<bool> flags() const {
    std::vector<bool> result;
    for (auto const& [name, tensor] : parameters) result.push_back(tensor.requires_grad());
    return result;
  }
  void broadcast() const {
    nn::detail::broadcast_replicas(world, parameters);
    nn::detail::broadcast_replicas(world, buffers);
  }

  /// What is sent, with parameters that need a gradient as they are now.
  void choose() {
    trained = flags();
    run_agreed(world, [&] {
      if (dynamic_cast<torch::optim::LBFGS*>(&optimizer) != nullptr)
        throw Error("Unsupported", "LBFGS runs forwards and backwards within a step, which DASO does not support");
      if (std::find(trained.begin(), trained.end(), true) == trained.end())
        throw Error("NoParameters", "no parameter of the module needs a gradient");
      if (!reducer)
        for (auto const& [name, tensor] : parameters)
          if (detail::GradientHooks::are_on(tensor))
            throw Error("WrongState",
                        "gradients of '" + name + "' are reduced by another object: destroy that one first");
      if (options.moments == DasoPolicy::leave) return;
      for (auto const& [name, tensor] : parameters) (void)detail::num_moments(optimizer, tensor);
    });
    lanes.clear();
    shared.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!trained[i]) continue;
      auto const& [name, tensor] = parameters[i];
      add({name, tensor}, DasoPolicy::average);
      if (options.moments == DasoPolicy::leave) continue;
      for (int m = 0; m < detail::num_moments(optimizer, tensor); ++m) add({name, tensor, m}, options.moments);
    }
    for (auto const& [name, tensor] : buffers) {
      bool const counts = !torch::isFloatingType(tensor.scalar_type()) && !tensor.is_complex();
      bool const taken = counts && options.buffers == DasoPolicy::average;
      add({name, tensor}, taken ? DasoPolicy::copy_sender : options.buffers);
    }
    keep_reference();
    watch();
  }

  /// Reduces gradients of what is trained from now on.
  void watch() {
    reducer.reset();
    if (teams.size() == 1 && teams.front().num_ranks() == 1) return;
    std::vector<detail::TeamPlace> rules;
    for (auto const& rule : options.gradient_rules) rules.push_back({rules.size(), rule.reduction});
    rules.push_back({rules.size(), nn::Reduction::mean});
    std::vector<detail::ReducedParameter> watched;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (trained[i])
        watched.push_back({.name = parameters[i].first, .tensor = parameters[i].second, .rules = rules, .sizes = {}});
    reducer = std::make_unique<detail::Reducer>(
        std::move(watched), teams, DataParallelOptions{.unused = Unused::allowed, .order = SumOrder::by_rank});
    num_reduced = 0;
    follow_schedule();
  }

  /// Before each backward.
  void follow_schedule() {
    if (!reducer) return;
    bool const in_node = schedule.local_sync();
    reducer->sums().set_team(teams.size() - 1, in_node);
    reducer->set_sync(in_node || teams.size() > 1);
  }

  /// What a backward has not: gradients that were given by hand, or under a schedule without any sum.
  void reduce() {
    if (!reducer) return;
    reducer->end_failed_backward();
    if (reducer->num_begun() == num_reduced && reducer->syncs()) {
      reducer->buckets().forget_reduced();
      reducer->reduce();
    }
    reducer->complete();
    num_reduced = reducer->num_begun();
  }

  void add(SentItem const& item, DasoPolicy policy) {
    if (policy == DasoPolicy::leave) return;
    shared[real_type(item.tensor)].push_back(item);
    if (policy != DasoPolicy::average) return;
    auto const type = real_type(item.tensor);
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](auto const& one) { return one.type == type; });
    if (lane == lanes.end()) lane = lanes.insert(lanes.end(), SentLane{.type = type, .items = {}, .reference = {}});
    lane->items.push_back(item);
  }

  /// Where all ranks have the same values.
  void keep_reference() {
    for (auto& lane : lanes) {
      bool const narrow = detail::wire_type(options.wire, lane.type) != lane.type ||
                          detail::wire_type(options.stale_wire, lane.type) != lane.type;
      if (narrow) lane.reference = detail::flatten(optimizer, lane);
    }
  }

  void send(DasoSchedule::Action const& action) {
    auto const& group = nodes.groups[std::size_t(action.group)];
    if (!group) return;
    auto const wire = action.phase == DasoSchedule::Phase::blocking ? options.wire : options.stale_wire;
    messages.emplace_back(*group, optimizer, lanes,
                          detail::DasoMessageOptions{.wire = wire, .chunk = options.chunk, .check = options.check},
                          std::exchange(failure, nullptr));
    ++stats.num_sent;
    stats.num_pieces += messages.back().num_pieces();
    stats.bytes_sent += messages.back().bytes_sent();
  }

  void receive(DasoSchedule::Action const& action) {
    auto const& group = nodes.groups[std::size_t(action.group)];
    if (!group) return;
    bool const merges = action.kind == DasoSchedule::Action::Kind::merge;
    auto const means = messages.front().wait();
    messages.pop_front();
    ++(merges ? stats.num_merged : stats.num_replaced);
    bool const heat = options.schedule.arithmetic == DasoArithmetic::heat;
    if (merges && group->weights.size() == 1 && !heat) return;  // a node alone would be drawn back to its own past
    auto const num_ranks = double(group->weights.size());
    auto const part = merges ? num_ranks / (num_ranks + double(action.merge_weight())) : 1.0;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      auto value = means[i];
      if (merges) {
        bool const narrow = c10::elementSize(value.scalar_type()) == 2;
        auto const type = narrow ? torch::kFloat : value.scalar_type();
        // x + (mean - x) * part keeps equal values bit for bit.
        auto const own = detail::flatten(optimizer, lanes[i]).to(type);
        value = own + (value.to(type) - own) * part;
      }
      detail::unflatten(optimizer, lanes[i], value);
    }
  }

  void share(int root) {
    if (nodes.node.num_ranks() == 1) return;
    for (auto const& [type, items] : shared) {
      SentLane const lane{.type = type, .items = items, .reference = {}};
      auto const flat = detail::flatten(optimizer, lane);
      auto const held = nn::detail::as_message(flat);
      nn::detail::await_messages(flat.device());
      nodes.node.broadcast(held.mutable_data_ptr(), Index(held.nbytes()), root);
      if (nodes.node.rank() != root) detail::unflatten(optimizer, lane, nn::detail::from_message(held, flat.device()));
    }
  }

  void agree_on_received(std::exception_ptr const& own) {
    try {
      agree(nodes.node, own);
    } catch (...) {
      failed = true;
      while (!messages.empty()) messages.pop_front();  // Completes them, as all other ranks do now.
      throw;
    }
  }

  void perform(std::vector<DasoSchedule::Action> const& actions) {
    torch::NoGradGuard const no_grad;
    if (failed) throw Error("WrongState", "an earlier message of DASO failed; load a state to continue");
    std::exception_ptr received;
    bool replaced = false;
    for (auto const& action : actions) {
      switch (action.kind) {
        case DasoSchedule::Action::Kind::send: send(action); break;
        case DasoSchedule::Action::Kind::merge:
        case DasoSchedule::Action::Kind::replace:
          nn::detail::attempt(received, [&] { receive(action); });
          replaced = action.kind == DasoSchedule::Action::Kind::replace;
          break;
        case DasoSchedule::Action::Kind::share:
          agree_on_received(std::exchange(received, nullptr));
          share(nodes.member(action.group));
          if (replaced) keep_reference();
          break;
      }
    }
  }

  Comm world;
  torch::optim::Optimizer& optimizer;
  DasoOptions options;
  nn::NamedTensors parameters;
  nn::NamedTensors buffers;
  detail::NodeGroups nodes;
  DasoSchedule schedule;
  std::vector<Comm> teams;  ///< over which gradients are reduced: those of the rules, then the node
  /// Reduces while a backward runs, by the schedule within the node. None without rules and other ranks in the node.
  std::unique_ptr<detail::Reducer> reducer;
  Index num_reduced = 0;                                      ///< its iterations at the last step
  std::vector<bool> trained;                                  ///< by parameter: needs a gradient, and so is sent
  std::vector<SentLane> lanes;                                ///< what is averaged over nodes
  std::map<torch::ScalarType, std::vector<SentItem>> shared;  ///< what a node's ranks take from one of them
  std::deque<DasoMessage> messages;                           ///< oldest first
  std::exception_ptr failure;                                 ///< of this rank, not yet known to others
  bool failed = false;  ///< a message: the schedule is of no use until a state is loaded
  Stats stats;
};

Daso::Daso(torch::nn::Module const& module, torch::optim::Optimizer& optimizer, Comm const& world,
           DasoOptions options) {
  std::vector<Comm> teams{world};
  for (auto const& rule : options.gradient_rules) teams.push_back(rule.team);
  std::exception_ptr failure;
  nn::detail::attempt(failure, [&] {
    detail::refuse_cut(module);
    nn::detail::require_values(nn::detail::tensors_of(module));
  });
  nn::detail::throw_agreed(teams, failure);
  nn::detail::require_replicas(world, nn::detail::tensors_of(module));
  state_ = std::make_unique<State>(module, optimizer, world, options);
  state_->broadcast();
  state_->choose();
}

Daso::Daso(Daso&&) noexcept = default;
Daso::~Daso() = default;

void Daso::set_last_batch(Index last_batch) {
  require_same(state_->world, "ArgumentDisagreement", std::uint64_t(last_batch),
               "last batch " + std::to_string(last_batch));
  state_->schedule.set_last_batch(last_batch);
  state_->follow_schedule();
}

void Daso::zero_grad() { state_->optimizer.zero_grad(); }

void Daso::step() {
  auto& s = *state_;
  if (s.failed) s.perform({});
  auto const actions = s.schedule.step();
  progress();
  s.reduce();
  s.follow_schedule();
  s.optimizer.step();
  if (!s.failure && s.flags() != s.trained) {
    auto const now = s.flags();
    auto const at = std::size_t(std::mismatch(now.begin(), now.end(), s.trained.begin()).first - now.begin());
    s.failure = std::make_exception_ptr(
        Error("ParametersChanged",
              s.parameters[at].first + ": requires_grad may change before an epoch's first step, not within"));
  }
  s.perform(actions);
}

void Daso::epoch_loss(double loss, LossIs whose) {
  auto& s = *state_;
  auto const now = s.flags();
  Hash hash;
  std::string text = "gradients of";
  for (std::size_t i = 0; i < now.size(); ++i) {
    hash.add(int(now[i]));
    if (now[i]) text.append(" ").append(s.parameters[i].first);
  }
  require_same(s.world, "ArgumentDisagreement", hash.value(), text);
  if (whose == LossIs::of_this_rank) {
    std::array<double, 1> sum{loss};
    s.world.sum(sum);
    loss = sum[0] / s.world.num_ranks();
  }
  s.schedule.epoch_loss(loss);
  s.follow_schedule();
  if (now != s.trained) s.choose();
}

void Daso::progress() {
  for (auto& message : state_->messages) (void)message.progress();
}

void Daso::drain() {
  state_->perform(state_->schedule.drain());
  state_->follow_schedule();
}

void Daso::synchronize() {
  drain();
  using Kind = DasoSchedule::Action::Kind;
  state_->perform({{Kind::send, 0, 0, DasoSchedule::Phase::cycling}, {Kind::replace, 0}, {Kind::share, 0}});
}

Values Daso::state() const { return state_->schedule.state(); }

void Daso::save(CheckpointWriter& writer, std::string const& prefix) const {
  for (auto const& [name, value] : state()) writer.add_value(prefix + "/" + name, value);
}

void Daso::load(Checkpoint const& checkpoint, std::string const& prefix) {
  Values values;
  for (auto const& name : checkpoint.value_names()) values.emplace(name, checkpoint.value(name));
  load_state(detail::values_below(values, prefix + "/"));
}

void Daso::load_state(Values const& values) {
  auto& s = *state_;
  if (!s.failed) drain();
  run_agreed(s.world, [&] { s.schedule.load_state(values); });
  s.failed = false;
  s.failure = nullptr;
  s.broadcast();
  s.choose();
}

DasoSchedule const& Daso::schedule() const noexcept { return state_->schedule; }
Daso::Stats Daso::stats() const noexcept { return state_->stats; }

}  // namespace graticule::training
