// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_head.hpp>
#include <graticule/nn_bridge/detail/norm_step.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/training/replicas/sync_batch_norm.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training {

namespace detail {

namespace {

enum class CallKind : std::uint8_t { forward, backward };

constexpr char const* layer_name = "SyncBatchNorm";

/// One call of a layer, as a rank sees it.
struct GuardedCall {
  int ordinal = 0;
  Index number = 0;
  CallKind kind = CallKind::forward;
  std::exception_ptr failure = nullptr;  ///< of this rank's arguments
  std::uint64_t common = 0;              ///< fingerprint of everything that must be the same
  std::string described = {};            ///< the same in words
  bool requires_grad = false;
  bool grad_mode = false;
};

/// Compares the calls of all ranks, before they communicate: different calls always meet here first.
/// @return `requires_grad` of any rank
/// @throws `CallDisagreement`, a rank's failure, `StructureDisagreement` on all ranks;
///         `StalledExchange` when some rank makes no call for the `error_seconds` of the `StallRule`
bool guard_call(Comm const& team, GuardedCall const& call) {
  auto const text = [&] {
    return std::string(call.kind == CallKind::forward ? "forward " : "backward ") + std::to_string(call.number) +
           " of module " + std::to_string(call.ordinal);
  };
  messages::CallHead head(team);
  auto const order = head.same(Hash().add(call.ordinal).add(call.number).add(int(call.kind)).value());
  head.fails(call.failure);
  auto const any_gradient = head.largest(call.requires_grad ? 1 : 0);
  auto const modes = head.same(call.grad_mode ? 1 : 0);
  auto const commons = head.same(call.common);
  try {
    head.meet();
  } catch (Error const& error) {
    if (error.rule() != "StalledExchange") throw;
    throw Error("StalledExchange", std::string(layer_name) + " in " + text() + ": " + error.text());
  }
  if (!head.agrees(order))
    throw Error("CallDisagreement", std::string(layer_name) + ": " + head.difference(order, text()));
  head.rethrow();
  if (!head.agrees(modes))
    throw Error("StructureDisagreement", std::string(layer_name) + ": " +
                                             head.difference(modes, call.grad_mode ? "grad mode on" : "grad mode off"));
  if (!head.agrees(commons))
    throw Error("StructureDisagreement", std::string(layer_name) + ": " + head.difference(commons, call.described));
  return head[any_gradient] != 0;
}

void check_input(torch::Tensor const& x, BatchNormParts const& parts, int least_cell_axes, int most_cell_axes) {
  std::ostringstream text;
  text << layer_name << " of " << parts.options.num_features() << " channels was given ";
  if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
    throw Error("ShapeMismatch", text.str() + "no dense tensor of a real floating-point type");
  text << x.sizes() << " of " << x.scalar_type();
  bool const fits =
      x.dim() >= 2 + least_cell_axes && x.dim() <= 2 + most_cell_axes && x.size(1) == parts.options.num_features();
  auto const type = x.scalar_type();
  bool const typed = !parts.weight.defined() || parts.weight.scalar_type() == type ||
                     (nn::detail::is_narrow(type) && parts.weight.scalar_type() == torch::kFloat);
  if (!fits || !typed) throw Error("ShapeMismatch", text.str());
}

}  // namespace

struct SyncedCalls::State {
  Comm team;
  int ordinal = 0;
  int least_cell_axes = 0;
  int most_cell_axes = 0;
  Index num_calls = 0;
};

SyncedCalls::SyncedCalls(Comm team, int ordinal, int least_cell_axes, int most_cell_axes)
    : state_(std::make_shared<State>(State{std::move(team), ordinal, least_cell_axes, most_cell_axes, 0})) {}

torch::Tensor SyncedCalls::forward(torch::Tensor const& x, BatchNormParts const& parts) {
  auto const& s = *state_;
  bool const grad_mode = torch::GradMode::is_enabled();
  GuardedCall call{.ordinal = s.ordinal, .number = ++state_->num_calls};
  try {
    check_input(x, parts, s.least_cell_axes, s.most_cell_axes);
    std::ostringstream text;
    text << x.scalar_type() << (parts.is_training ? ", training" : ", evaluating");
    call.described = text.str();
    call.common = Hash().add(std::string_view(call.described)).value();
  } catch (...) {
    call.failure = std::current_exception();
  }
  call.grad_mode = grad_mode;
  call.requires_grad = grad_mode && x.defined() && x.requires_grad();
  bool const input_grad = guard_call(s.team, call);

  nn::detail::Norm norm{.layer = layer_name, .eps = parts.options.eps(), .teams = {s.team}};
  norm.shape = {.outer = x.size(0),
                .groups = x.size(1),
                .cells = c10::multiply_integers(x.sizes().slice(2)),
                .channels = x.size(1)};
  auto const statistics = norm_statistics(norm, x, input_grad);
  if (statistics.count < 2)
    throw Error("TooFewValues", std::string(layer_name) + ": " + std::to_string(Index(statistics.count)) +
                                    " value per channel over all ranks; its statistics need at least two");
  if (parts.is_training && parts.options.track_running_stats()) {
    parts.num_batches_tracked.detach().add_(1);
    auto const update = [&](torch::Tensor const& running, torch::Tensor const& found) {
      if (auto const momentum = parts.options.momentum()) return nn::detail::update_running(running, found, *momentum);
      nn::detail::update_running_average(running, found, parts.num_batches_tracked);
    };
    update(parts.running_mean, statistics.mean);
    update(parts.running_var, statistics.m2 / (statistics.count - 1));
  }
  auto y = normalize(norm, statistics, x, parts.weight, parts.bias);
  if (y.requires_grad()) {
    call.kind = CallKind::backward;
    call.common = 0;
    // Runs before the backward that communicates.
    y.register_hook([team = s.team, call](torch::Tensor const& gradient) {
      auto now = call;
      now.grad_mode = torch::GradMode::is_enabled();
      (void)guard_call(team, now);
      return gradient;
    });
  }
  // What the function returns is a view, which LibTorch lets no activation change in place.
  return y.clone();
}

Comm team_of(ReplicaContext const& context, int num_copies) {
  if (!context.team())
    throw Error("Unsupported", "SyncBatchNorm is given " + std::to_string(num_copies) +
                                   " copies in one process; it synchronises the ranks of a team");
  return *context.team();
}

}  // namespace detail

namespace {

namespace tn = torch::nn;

/// Finds what to convert first, and changes the model then.
class Converter {
 public:
  void visit(torch::nn::Module& parent, std::string const& path) {
    std::size_t index = 0;
    for (auto const& child : parent.named_children()) {
      auto const name = path.empty() ? child.key() : path + "." + child.key();
      auto const place = index++;
      if (dynamic_cast<ReplicaHook*>(child.value().get()) != nullptr) continue;
      if (find<tn::BatchNorm1dImpl>(parent, child, name, place) ||
          find<tn::BatchNorm2dImpl>(parent, child, name, place) ||
          find<tn::BatchNorm3dImpl>(parent, child, name, place))
        continue;
      visit(*child.value(), name);
    }
  }

  int commit() {
    if (!refused_.empty())
      throw Error("Unsupported", refused_ + ": called by their own type; make them SyncBatchNorm members");
    for (auto const& change : changes_) change();
    return int(changes_.size());
  }

 private:
  using Child = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>::Item;

  template <class Serial>
  bool find(torch::nn::Module& parent, Child const& child, std::string const& path, std::size_t place) {
    auto const serial = std::dynamic_pointer_cast<Serial>(child.value());
    if (!serial) return false;
    auto* const sequential = dynamic_cast<tn::SequentialImpl*>(&parent);
    auto* const list = dynamic_cast<tn::ModuleListImpl*>(&parent);
    auto* const dict = dynamic_cast<tn::ModuleDictImpl*>(&parent);
    if (sequential == nullptr && list == nullptr && dict == nullptr) {
      refused_ += (refused_.empty() ? "" : ", ") + path;
      return true;
    }
    changes_.emplace_back(
        [this, serial, &parent, sequential, list, dict, name = child.key(), at = std::ptrdiff_t(place)] {
          // A module in several places stays one.
          auto& held = made_[serial.get()];
          if (!held) held = std::make_shared<SyncBatchNormImpl<Serial>>(*serial);
          auto const sync = std::dynamic_pointer_cast<SyncBatchNormImpl<Serial>>(held);
          parent.replace_module(name, sync);
          if (sequential != nullptr) *(sequential->begin() + at) = tn::AnyModule(sync);
          if (list != nullptr) *(list->begin() + at) = sync;
          if (dict != nullptr) (dict->begin() + at)->value() = sync;
        });
    return true;
  }

  std::string refused_;
  std::vector<std::function<void()>> changes_;
  std::map<torch::nn::Module*, std::shared_ptr<torch::nn::Module>> made_;
};

}  // namespace

int convert_batch_norms(torch::nn::Module& model) {
  Converter converter;
  converter.visit(model, "");
  return converter.commit();
}

}  // namespace graticule::training
