// SPDX-License-Identifier: BSD-3-Clause
// The life cycle of all layers, and the base class for user-defined sharded layers.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::nn {

class Communicating;

namespace detail {
/// Number of set-ups that a layer has looked up or made; for tests.
[[nodiscard]] int num_set_ups(Communicating const& layer) noexcept;
/// Whether a layer was made without a domain, see `Domain()`.
[[nodiscard]] bool lacks_domain(Communicating const& layer) noexcept;
/// For `shard`: moves a layer, which has set up nothing then. Layers of a domain are moved in the same order on all
/// ranks.
void set_domain(Communicating& layer, Domain const& domain);
}  // namespace detail

/// A module that stores how its input is cut: the base of all layers that communicate, and of `Layer`. Find it by
/// `dynamic_cast<Communicating*>(module)`.
class Communicating {
 public:
  virtual ~Communicating() = default;

  /// Discards the shards' sizes and the set-ups made for them, so that all ranks may use new cuts at the next forward.
  /// Graphs keep what they need. Local, but must be called on all ranks between the same forwards.
  virtual void reset_structure() = 0;

 private:
  friend int detail::num_set_ups(Communicating const& layer) noexcept;
  friend bool detail::lacks_domain(Communicating const& layer) noexcept;
  friend void detail::set_domain(Communicating& layer, Domain const& domain);
  [[nodiscard]] virtual int num_set_ups() const noexcept { return 0; }
  [[nodiscard]] virtual bool lacks_domain() const noexcept { return false; }
  virtual void set_domain(Domain const& /*domain*/) {}
};

/// Calls `reset_structure` of all registered layers of a model, including the model itself. A model converted by
/// `shard` is thereby ready for new cuts. Example: `nn::reset_structure(*model)`.
void reset_structure(torch::nn::Module& model);

namespace detail {

/// A cloneable module without parameters, unless `reset` creates them.
template <class Derived>
class PlainModule : public torch::nn::Cloneable<Derived> {
 public:
  void reset() override {}
};

/// Makes a `State` for a domain with these arguments behind it, for `StatefulModule`.
template <class State, class... Arguments>
[[nodiscard]] auto state_maker(Arguments... arguments) {
  return [arguments...](Domain const& of) { return std::make_shared<State>(of, arguments...); };
}

/// A module with a life cycle of the class `State`. Each copy or clone has its own, initially without a set-up.
template <class Derived, class State, class Base = PlainModule<Derived>>
class StatefulModule : public Base, public Communicating {
 public:
  StatefulModule(StatefulModule const& other)
      : Base(static_cast<Base const&>(other)),
        Communicating(other),
        domain_(other.domain_),
        make_(other.make_),
        state_(make_(domain_)) {}
  /// LibTorch assigns from clones and then destroys them.
  StatefulModule& operator=(StatefulModule const&) = default;
  ~StatefulModule() override = default;

  void reset_structure() override { state_->reset_structure(); }

 protected:
  using MakeState = std::function<std::shared_ptr<LifeCycle>(Domain const&)>;

  /// @param make creates a `State`; called here, and per copy @param of_base constructor arguments of `Base`
  template <class... Arguments>
  StatefulModule(Domain domain, MakeState make, Arguments&&... of_base)
      : Base(std::forward<Arguments>(of_base)...),
        domain_(std::move(domain)),
        make_(std::move(make)),
        state_(make_(domain_)) {}

  [[nodiscard]] Domain const& domain() const noexcept { return domain_; }
  /// @pre `State` is complete
  [[nodiscard]] State& state() const noexcept { return static_cast<State&>(*state_); }

 private:
  [[nodiscard]] int num_set_ups() const noexcept override { return state_->num_set_ups(); }
  [[nodiscard]] bool lacks_domain() const noexcept override { return domain_.is_default(); }
  void set_domain(Domain const& domain) override {
    auto state = make_(domain);
    domain_ = domain;
    state_ = std::move(state);
  }

  Domain domain_;
  MakeState make_;
  std::shared_ptr<LifeCycle> state_;
};

}  // namespace detail

/// A layer whose ranks compare their calls before each forward, and which sets up once per structure of its input. It
/// is the base of this library's layers and of user-defined ones (worked example in docs/layers.md).
///
/// Construction takes the domain, but no sizes, and is local. Each forward begins with `enter`, one small all-reduce,
/// for any input of the rank. If the input's structure (`structure_of`) is unchanged on all ranks, `enter` returns the
/// current set-up. If it has changed on all ranks, `enter` sets up again, unless the structure is one of the last 8. If
/// it has changed on some ranks only, all ranks throw `StructureDisagreement` with the tensors of both sides. After
/// `reset_structure` the next forward of all ranks sets up again, for any cuts. So do copies and clones.
/// @tparam SetUp what depends on the structure: plans, counts, slices of weights. Immutable; it may be incomplete here
/// @tparam Base the module type that provides all other behaviour
/// Example: a layer that needs the global index of its first row. On 2 ranks with 5 and 4 rows, rank 1 gets 5.
/// ```
/// struct FirstRow { Index first; };
/// class RowsImpl : public nn::CommunicatingModule<RowsImpl, FirstRow> {
///  public:
///   explicit RowsImpl(nn::Domain const& domain) : CommunicatingModule(domain, "Rows") {}
///   torch::Tensor forward(torch::Tensor const& x) {
///     auto const call = enter(x, [&] { check(x); }, [&](Layout const& layout) {
///       return std::make_shared<FirstRow const>(FirstRow{layout.owned(domain().comm().rank()).lo(0)});
///     });
///     return x + call.set_up->first;
///   }
/// };
/// ```
template <class Derived, class SetUp, class Base = detail::PlainModule<Derived>>
class CommunicatingModule : public detail::StatefulModule<Derived, detail::LayerState<SetUp>, Base> {
 protected:
  /// Result of `enter`.
  using Call = detail::LayerCall<SetUp>;

  /// Layers of one domain must be constructed in the same order on all its ranks. @param domain see `domain()`
  /// @param layer its name in errors @param of_base constructor arguments of `Base` @param sharding the axes along
  /// which the ranks' inputs are cut; default: the domain's, rows and columns as the last two
  template <class... Arguments>
  CommunicatingModule(Domain const& domain, std::string layer, std::optional<Sharding> sharding = {},
                      Arguments&&... of_base)
      : detail::StatefulModule<Derived, detail::LayerState<SetUp>, Base>(
            domain,
            [layer = std::move(layer), sharding = std::move(sharding)](Domain const& of) {
              return std::make_shared<detail::LayerState<SetUp>>(of, layer, sharding ? *sharding : of.sharding());
            },
            std::forward<Arguments>(of_base)...) {}

  /// The first call of each forward. Collective. Keep the result until the forward ends: the operators until then are
  /// the layer's own, which `shard` does not watch, and an exception of another kind than `Error` that leaves the
  /// forward until then ends the waits of the other ranks with `PeerFailed`. @param x this rank's input
  /// @param check throws if this rank's input is not acceptable; all ranks then throw this error
  /// @param set_up makes the set-up for the layout of all ranks' shards along the cut axes. Runs without grad mode. May
  ///        be collective; must throw on all ranks or on none
  /// @param parameter_grad whether a parameter of the layer requires a gradient
  /// @param more a fingerprint of everything else that the set-up depends on
  /// @pre `parameter_grad` and `more` are the same on all ranks
  /// @throws `StructureDisagreement`, `CallDisagreement`, `BadLayout`, on all ranks alike
  /// Cost: one all-reduce of ten integers; a set-up also gathers the shards' extents
  [[nodiscard]] Call enter(torch::Tensor const& x, std::function<void()> const& check,
                           std::function<std::shared_ptr<SetUp const>(Layout const&)> const& set_up,
                           bool parameter_grad = false, std::uint64_t more = 0) {
    auto call = this->state().enter(x, check, set_up, parameter_grad, more,
                                    [this](torch::Tensor const& input) { return structure_of(input); });
    call.scope->set_type(typeid(Derived));
    return call;
  }

  /// The numbers that the set-up depends on; a change of one of them makes it again. By default all sizes, the dtype
  /// and the device type. Override to omit irrelevant ones, such as the batch: `{x.size(-2), x.size(-1)}`. Called for
  /// inputs that `check` has accepted. Batch, channels and dtype must still be equal on all ranks.
  /// @pre numbers that are not sizes of `x` are the same on all ranks
  [[nodiscard]] virtual std::vector<Index> structure_of(torch::Tensor const& x) const {
    return detail::structure_of(x);
  }

  /// Connects the node that made `output` to every loss that uses it on any rank; returns `output`. For a user-defined
  /// autograd function that sends messages. Such a function takes `Call::anchor` as an additional input, so that each
  /// rank has a node, and returns `communication_token` as its second output.
  torch::Tensor record(torch::Tensor const& output) const { return this->state().record(output); }
};

/// The second output of an autograd function that sends messages: a scalar through which a loss reaches the node even
/// if only other ranks use the first output. Create it in the function's forward.
[[nodiscard]] torch::Tensor communication_token(torch::TensorOptions const& options);

}  // namespace graticule::nn
