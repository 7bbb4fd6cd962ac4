// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/training/detail/clip.hpp>

#include "wrapper_impl.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

namespace graticule::training {

namespace {

/// The sum of all ranks, or their mean, with the same bits on all of them.
void combine(Comm const& team, torch::Tensor& flat, nn::Reduction reduction) {
  nn::detail::sum_by_rank(team, flat);
  if (reduction == nn::Reduction::mean) flat.div_(team.num_ranks());
}

/// The means of all ranks, in place. Buffers travel together as gradients do.
void average(Comm const& team, nn::NamedTensors const& buffers, BucketSizes sizes) {
  if (team.num_ranks() == 1) return;
  std::vector<torch::Tensor> tensors;
  std::vector<detail::BucketItem> items;
  for (auto const& [name, buffer] : buffers) {
    auto const& tensor = tensors.emplace_back(buffer.is_complex() ? torch::view_as_real(buffer) : buffer);
    auto const type = nn::detail::type_of_sums(tensor.scalar_type());
    items.push_back({tensor.numel() * Index(c10::elementSize(type)), std::uint64_t(type)});
  }
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  for (auto const& members : detail::assign_buckets(items, order, sizes)) {
    auto const device = tensors[members.front()].device();
    auto const type = torch::ScalarType(items[members.front()].kind);
    std::vector<torch::Tensor> parts;
    for (auto const i : members) parts.push_back(tensors[i].to(device, type).reshape({-1}));
    auto flat = torch::cat(parts);
    combine(team, flat, nn::Reduction::mean);
    Index begin = 0;
    for (auto const i : members) {
      auto const numel = tensors[i].numel();
      tensors[i].copy_(flat.narrow(0, begin, numel).view(tensors[i].sizes()));
      begin += numel;
    }
  }
}

bool is_lbfgs(torch::optim::Optimizer* optimizer) { return dynamic_cast<torch::optim::LBFGS*>(optimizer) != nullptr; }

}  // namespace

DataParallel::Impl::Impl(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
                         std::vector<nn::TeamRule> const& rules, DataParallelOptions const& options)
    : optimizers_(std::move(optimizers)), options_(options), buffers_(nn::detail::buffers_of(module)) {
  std::erase(optimizers_, nullptr);
  auto wrapped = detail::wrap(module, rules, options);
  if (options_.wait == GradientWait::late && !optimizers_.empty())
    fallback_ = detail::why_not_late(optimizers_, wrapped.parameters);
  if (!fallback_.empty()) {
    options_.wait = GradientWait::in_backward;
    if (wrapped.teams.empty() || wrapped.teams.front().rank() == 0)
      std::fprintf(stderr, "graticule: gradients are waited for in the backward, not later: %s\n", fallback_.c_str());
  }
  for (auto const& [name, tensor] : nn::parameters_of(module))
    if (!tensor.requires_grad()) frozen_.emplace_back(name, tensor);
  default_rules_ = std::move(wrapped.default_rules);
  reducer_ = std::make_unique<detail::Reducer>(std::move(wrapped.parameters), std::move(wrapped.teams), options_);
  if (options_.wait == GradientWait::late && !optimizers_.empty())
    late_ = std::make_unique<detail::LateSteps>(module, *optimizers_.front(), *reducer_);
  recovery_ = std::make_unique<detail::Recovery>(reducer_->teams(), buffers_);
}

DataParallel::Impl::~Impl() {
  if (options_.wait != GradientWait::late || std::uncaught_exceptions() > 0) return;
  try {
    apply_all();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "graticule: late gradients are lost at the end of a DataParallel: %s\n", error.what());
  }
}

void DataParallel::Impl::recover(std::exception_ptr const& failure) {
  graticule::detail::StallScope const scope(reducer_->sums().stall_rule());
  recovery_->announce(failure);
  try {
    // All ranks step with such an iteration.
    if (reducer_->end_sums()) reducer_->complete();
  } catch (Error const&) {  // NOLINT(bugprone-empty-catch): the failure of this iteration is the one to be seen
  }
  if (late_ && !reducer_->iteration().is_open()) late_->finalize();
  reducer_->abandon();
  try {
    recovery_->renew();
    reducer_->renew();
  } catch (Error const& error) {
    // The failure is the one to be thrown; every later call fails, too.
    std::fprintf(stderr, "graticule: the ranks did not come together after a failure: %s\n", error.what());
  }
  recovery_->forget();
}

template <class Action>
void DataParallel::Impl::guarded(Action const& action) {
  try {
    action();
    recovery_->forget();
  } catch (Error const& error) {
    auto const failure = std::current_exception();
    bool const announced = error.rule() == "PeerFailed" && !reducer_->iteration().has_failed_by_sums();
    if (late_ && announced) recover(failure);
    throw;
  }
}

void DataParallel::Impl::step() {
  if (optimizers_.empty()) throw Error("WrongState", "step() needs the optimizers that the object was made with");
  if (std::any_of(optimizers_.begin(), optimizers_.end(), is_lbfgs))
    throw Error("WrongState", "LBFGS runs forwards and backwards itself: call step(closure)");
  reducer_->end_failed_backward();
  require_watched();
  require_gradients();
  num_begun_ = reducer_->num_begun();
  reducer_->require_reduced();
  guarded([&] {
    if (late_) {
      late_->step();
    } else {
      reducer_->complete();
      for (auto* const optimizer : optimizers_) optimizer->step();
    }
  });
  sync_buffers();
}

void DataParallel::Impl::require_gradients() const {
  if (late_ || options_.unused == Unused::allowed || reducer_->num_begun() != num_begun_) return;
  auto const& all = reducer_->buckets().parameters();
  if (std::none_of(all.begin(), all.end(), [](auto const& parameter) { return parameter.tensor.grad().defined(); }))
    throw Error("UnusedParameter",
                "no backward has given a gradient to any parameter since the last step: the loss does not depend on "
                "this module");
}

double DataParallel::Impl::step(std::function<torch::Tensor()> const& closure) {
  require_one_vector();
  reducer_->end_failed_backward();
  if (late_) {
    auto const loss = reduced_loss(closure);
    step();
    return loss.item<double>();
  }
  apply_all();
  torch::Tensor first;
  optimizers_.front()->step([&] {
    auto const loss = reduced_loss(closure);
    if (!first.defined()) first = loss;
    return loss;
  });
  num_begun_ = reducer_->num_begun();
  sync_buffers();
  return first.item<double>();
}

void DataParallel::Impl::require_one_vector() const {
  if (optimizers_.empty()) throw Error("WrongState", "step() needs the optimizers that the object was made with");
  if (optimizers_.size() != 1)
    throw Error("BadOption", "step(closure) is for one optimizer, not " + std::to_string(optimizers_.size()));
  if (!is_lbfgs(optimizers_.front())) return;
  for (auto const& parameter : reducer_->buckets().parameters())
    if (!teams_without_rule(parameter).empty())
      throw Error("BadOption", "LBFGS treats all parameters as one vector, but '" + parameter.name +
                                   "' is each rank's own in a team");
}

torch::Tensor DataParallel::Impl::reduced_loss(std::function<torch::Tensor()> const& closure) {
  // The loss; whether this rank has failed, at any place in the closure, because the others would wait for its loss;
  // and whether losses differ among ranks that sum.
  auto values = torch::zeros({3}, torch::kDouble);
  std::exception_ptr failure;
  auto const attempt = [&](auto const& action) {
    try {
      action();
    } catch (Error const& error) {
      if (error.rule() == "CallDisagreement" || reducer_->sums().is_broken()) throw;  // On all ranks.
      if (!failure) failure = std::current_exception();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&] {
    run([&] {
      auto const loss = closure();
      if (!loss.defined() || loss.numel() != 1)
        throw Error("BadOption", "a closure must return its loss, a single number");
      values[0] = loss.detach().to(torch::kDouble).reshape({});
    });
  });
  attempt([&] {
    synchronize();
    require_watched();
    reducer_->require_reduced();
  });
  values[1] = failure ? 1 : 0;
  auto const own = values[0].item<double>();
  std::array<double, 2> range{own, -own};
  int num_summed = 1;
  for (auto const& rule : default_rules_) {
    if (rule.reduction != nn::Reduction::sum) continue;
    auto const& team = reducer_->teams()[rule.team];
    team.max(range);
    num_summed *= team.num_ranks();
  }
  values[2] = range[0] != -range[1] ? 1 : 0;
  for (auto const& rule : default_rules_) combine(reducer_->teams()[rule.team], values, rule.reduction);
  if (failure) std::rethrow_exception(failure);
  if (values[1].item<double>() > 0)
    throw Error("PeerFailed", "the closure of another rank ended with an exception: this step is not complete");
  // Losses over a domain are the whole field's on each of its ranks, and were added once for each.
  return values[2].item<double>() > 0 ? values[0] : values[0] / num_summed;
}

void DataParallel::Impl::synchronize() {
  reducer_->end_failed_backward();
  guarded([&] { reducer_->complete(); });
}

void DataParallel::Impl::apply_all() {
  synchronize();
  if (late_) late_->finalize();
}

void DataParallel::Impl::finalize() {
  apply_all();
  reducer_->compare("finalize()");
}

void DataParallel::Impl::run(std::function<void()> const& pass) {
  struct InRun {
    explicit InRun(detail::Reducer& given) : reducer(given) { reducer.set_in_run(true); }
    ~InRun() { reducer.set_in_run(false); }
    detail::Reducer& reducer;
  };
  auto const num_begun = reducer_->num_begun();
  recovery_->remember();
  reducer_->remember();
  try {
    InRun const in_run(*reducer_);
    pass();
    meet();
    // Who waits late gets to know at the step whether the pass has failed on another rank.
    if (!late_) recovery_->forget();
  } catch (...) {
    auto const own = std::current_exception();
    bool const ended = reducer_->iteration().has_failed_by_sums() && reducer_->num_begun() > num_begun;
    // What fails after a backward that is waited for late is this rank's alone: the others have gone on.
    bool const alone = late_ && reducer_->syncs() && reducer_->num_begun() > num_begun &&
                       reducer_->iteration().stage != detail::Iteration::Stage::in_backward;
    if (!ended && !alone && !reducer_->sums().is_broken()) recover(own);
    std::rethrow_exception(own);
  }
}

void DataParallel::Impl::meet() const {
  // Who waits late does not wait here; and ranks that have no more batches make no passes.
  if (late_ || reducer_->is_joining()) return;
  graticule::detail::StallScope const scope(reducer_->sums().stall_rule());
  for (auto const& team : reducer_->teams()) team.barrier();
}

BufferPolicy DataParallel::Impl::policy_of(std::string const& buffer) const {
  auto const own = options_.own_buffers.find(buffer);
  return own == options_.own_buffers.end() ? options_.buffers : own->second;
}

bool DataParallel::Impl::syncs_buffers() const {
  return std::any_of(buffers_.begin(), buffers_.end(),
                     [&](auto const& buffer) { return policy_of(buffer.first) != BufferPolicy::leave; });
}

void DataParallel::Impl::sync_buffers() const {
  torch::NoGradGuard const no_grad;
  nn::NamedTensors copied;
  nn::NamedTensors averaged;
  for (auto const& buffer : buffers_) {
    auto const policy = policy_of(buffer.first);
    bool const has_mean = buffer.second.is_floating_point() || buffer.second.is_complex();
    if (policy == BufferPolicy::leave) continue;
    (policy == BufferPolicy::mean && has_mean ? averaged : copied).push_back(buffer);
  }
  for (auto const& team : default_teams()) {
    nn::detail::broadcast_replicas(team, copied);
    average(team, averaged, options_.buckets);
  }
}

std::vector<Comm> DataParallel::Impl::default_teams() const {
  std::vector<Comm> teams;
  for (auto const& rule : default_rules_) teams.push_back(reducer_->teams()[rule.team]);
  return teams;
}

std::vector<Comm> DataParallel::Impl::teams_without_rule(detail::ReducedParameter const& parameter) const {
  std::vector<Comm> teams;
  for (auto const& rule : default_rules_)
    if (std::none_of(parameter.rules.begin(), parameter.rules.end(),
                     [&](auto const& r) { return r.team == rule.team; }))
      teams.push_back(reducer_->teams()[rule.team]);
  return teams;
}

double DataParallel::Impl::clip(double max_norm, double norm_type) {
  synchronize();
  std::vector<detail::ClippedPart> parts;
  auto const same_teams = [](std::vector<Comm> const& a, std::vector<Comm> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](auto const& x, auto const& y) { return x.handle() == y.handle(); });
  };
  for (auto const& parameter : reducer_->buckets().parameters()) {
    auto const teams = teams_without_rule(parameter);
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](auto const& other) { return same_teams(other.parts_over, teams); });
    if (part == parts.end()) part = parts.insert(part, {{}, teams});
    part->parameters.emplace_back(parameter.name, parameter.tensor);
  }
  return detail::clip_gradients(parts, max_norm, norm_type);
}

void DataParallel::Impl::require_watched() {
  try {
    reducer_->require_watched();
    for (auto const& [name, tensor] : frozen_)
      if (tensor.requires_grad())
        throw Error("ParametersChanged", "'" + name + "' required no gradient when it was wrapped, and does so now");
  } catch (...) {
    auto const own = std::current_exception();
    // The others may wait for gradients that nothing has announced here.
    if (reducer_->syncs() && reducer_->num_begun() == num_begun_) reducer_->fail();
    std::rethrow_exception(own);
  }
}

DataParallel::DataParallel(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
                           std::vector<nn::TeamRule> rules, DataParallelOptions const& options)
    : impl_(std::make_unique<Impl>(module, std::move(optimizers), rules, options)) {}
DataParallel::DataParallel(DataParallel&& other) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&& other) noexcept = default;
DataParallel::~DataParallel() = default;

void DataParallel::step() { impl_->step(); }
double DataParallel::step(std::function<torch::Tensor()> const& closure) { return impl_->step(closure); }
void DataParallel::synchronize() { impl_->synchronize(); }
void DataParallel::finalize() { impl_->finalize(); }
DataParallel::NoSync DataParallel::no_sync() { return NoSync(*impl_); }
void DataParallel::reduce() { impl_->reducer().reduce(); }
void DataParallel::run(std::function<void()> const& pass) { impl_->run(pass); }
void DataParallel::sync_buffers() { impl_->sync_buffers(); }
double DataParallel::clip_gradients(double max_norm, double norm_type) { return impl_->clip(max_norm, norm_type); }
GradientWait DataParallel::wait() const noexcept { return impl_->wait(); }
std::string const& DataParallel::fallback() const noexcept { return impl_->fallback(); }
std::vector<DataParallel::Traffic> const& DataParallel::traffic() const { return impl_->reducer().sums().traffic(); }

std::vector<std::vector<std::string>> DataParallel::buckets() const {
  std::vector<std::vector<std::string>> result;
  for (auto const& bucket : impl_->reducer().buckets().all()) {
    if (bucket.members.empty()) continue;
    auto& names = result.emplace_back();
    for (auto const i : bucket.members) names.push_back(impl_->reducer().buckets().parameters()[i].name);
  }
  return result;
}

std::vector<DataParallel::Event> DataParallel::events() { return impl_->reducer().log().take(); }

nn::NamedTensors DataParallel::low_rank_state() const {
  auto& reducer = impl_->reducer();
  return reducer.buckets().low_rank_state(reducer.num_begun());
}
void DataParallel::load_low_rank_state(nn::NamedTensors const& state) {
  auto& reducer = impl_->reducer();
  reducer.buckets().load_low_rank_state(state, reducer.num_begun());
}

DataParallel::NoSync::NoSync(DataParallel::Impl& impl) : impl_(impl), before_(impl.reducer().syncs()) {
  impl_.reducer().set_sync(false);
}
DataParallel::NoSync::~NoSync() { impl_.reducer().set_sync(before_); }

}  // namespace graticule::training
