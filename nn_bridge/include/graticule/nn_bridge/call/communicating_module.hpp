// SPDX-License-Identifier: BSD-3-Clause
// The life cycle that all layers share, and that a sharded layer of one's own gets from the same base.
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
/// How often a layer has looked up or made a set-up: for tests.
[[nodiscard]] int num_set_ups(Communicating const& layer) noexcept;
/// Whether a layer was made without a domain, see `Domain()`.
[[nodiscard]] bool lacks_domain(Communicating const& layer) noexcept;
/// For `shard`: moves a layer, which has set up nothing then. Layers of a domain are moved in the same order on all ranks.
void set_domain(Communicating& layer, Domain const& domain);
}  // namespace detail

/// A module that remembers how its input is cut. A base of all layers that communicate, and of `Layer`; found by
/// `dynamic_cast<Communicating*>(module)`.
class Communicating {
 public:
  virtual ~Communicating() = default;

  /// Forgets the shards' sizes and drops what was set up for them (graphs keep what they need): all ranks may come with
  /// new cuts at the next forward. Communicates nothing; call it on all ranks, between the same forwards.
  virtual void reset_structure() = 0;

 private:
  friend int detail::num_set_ups(Communicating const& layer) noexcept;
  friend bool detail::lacks_domain(Communicating const& layer) noexcept;
  friend void detail::set_domain(Communicating& layer, Domain const& domain);
  [[nodiscard]] virtual int num_set_ups() const noexcept { return 0; }
  [[nodiscard]] virtual bool lacks_domain() const noexcept { return false; }
  virtual void set_domain(Domain const& /*domain*/) {}
};

/// The same for all layers of a model that are registered as modules, the model itself included; the way to new cuts of a
/// model that `shard` has converted. Example: `nn::reset_structure(*model)`.
void reset_structure(torch::nn::Module& model);

namespace detail {

/// A module that can be cloned and has no parameters, unless `reset` makes them.
template <class Derived>
class PlainModule : public torch::nn::Cloneable<Derived> {
 public:
  void reset() override {}
};

/// A module with a life cycle of the class `State`. Copies and clones have one of their own, which has set up nothing.
template <class Derived, class State, class Base = PlainModule<Derived>>
class StatefulModule : public Base, public Communicating {
 public:
  StatefulModule(StatefulModule const& other)
      : Base(static_cast<Base const&>(other)),
        Communicating(other),
        domain_(other.domain_),
        make_(other.make_),
        state_(make_(domain_)) {}
  /// LibTorch assigns from clones that it drops then.
  StatefulModule& operator=(StatefulModule const&) = default;
  ~StatefulModule() override = default;

  void reset_structure() override { state_->reset_structure(); }

 protected:
  using MakeState = std::function<std::shared_ptr<LifeCycle>(Domain const&)>;

  /// @param make makes a `State`: called here, and for each copy @param of_base what `Base` is constructed from
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

/// A layer whose ranks agree before each forward, and which sets up once for each structure of its input: the base of a
/// sharded layer of one's own (docs/layers.md has a worked example) as of this library's.
///
/// Construction knows the domain, but no sizes, and communicates nothing. Each forward begins with `enter`, one small
/// all-reduce, whatever the rank has been given. It finds the input's structure (`structure_of`) unchanged on all ranks,
/// and returns the set-up in use; or changed on all ranks, and sets up again, unless one of the last 8 structures has come
/// back; or changed on some ranks only, which is `StructureDisagreement` on all, with the tensors of both sides.
/// `reset_structure` tears down: the next forward of all ranks sets up, for whatever cuts. Copies and clones set up anew.
/// @tparam SetUp what depends on the structure: plans, counts, slices of weights. Immutable; it may be incomplete here
/// @tparam Base the module that this one is in all else
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
  /// What a forward knows after `enter`.
  using Call = detail::LayerCall<SetUp>;

  /// @param layer its name in errors @param sharding the axes along which the ranks' inputs are cut; none: the domain's,
  /// rows and columns as the last two @param of_base what `Base` is constructed from
  /// Layers of one domain are made in the same order on all its ranks.
  template <class... Arguments>
  CommunicatingModule(Domain const& domain, std::string layer, std::optional<Sharding> sharding = {},
                      Arguments&&... of_base)
      : detail::StatefulModule<Derived, detail::LayerState<SetUp>, Base>(
            domain,
            [layer = std::move(layer), sharding = std::move(sharding)](Domain const& of) {
              return std::make_shared<detail::LayerState<SetUp>>(of, layer, sharding ? *sharding : of.sharding());
            },
            std::forward<Arguments>(of_base)...) {}

  /// The head of each forward. Collective.
  /// @param check throws where this rank's input is not acceptable: the error is thrown on all ranks
  /// @param set_up makes the set-up for the layout of all ranks' shards along the cut axes. May be collective, and throws
  ///        on all ranks alike; without grad mode
  /// @param parameter_grad whether a parameter of the layer requires a gradient
  /// @param more a fingerprint of what else the set-up depends on
  /// @pre `parameter_grad` and `more` are the same on all ranks
  /// @throws `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, `NotTensorProduct`, on all ranks alike
  /// Cost: one all-reduce of ten integers; a set-up also gathers the shards' extents
  [[nodiscard]] Call enter(torch::Tensor const& x, std::function<void()> const& check,
                           std::function<std::shared_ptr<SetUp const>(Layout const&)> const& set_up,
                           bool parameter_grad = false, std::uint64_t more = 0) {
    return this->state().enter(x, check, set_up, parameter_grad, more,
                               [this](torch::Tensor const& input) { return structure_of(input); });
  }

  /// What the set-up depends on: it is made again when one of these numbers changes. By default all sizes, the dtype and
  /// the type of device. Override it to leave out what does not matter, such as the batch: `{x.size(-2), x.size(-1)}`.
  /// Called for inputs that `check` has accepted. Batch, channels and dtype must be equal on all ranks all the same.
  /// @pre numbers that are not sizes of `x` are the same on all ranks
  [[nodiscard]] virtual std::vector<Index> structure_of(torch::Tensor const& x) const {
    return detail::structure_of(x);
  }

  /// Ties the node that made `output` to the losses that any rank uses it for; returns `output`. For an autograd function
  /// of one's own that sends messages: it takes `Call::anchor` as one more input, so that each rank has a node, and
  /// returns `communication_token` as its second output.
  torch::Tensor record(torch::Tensor const& output) const { return this->state().record(output); }
};

/// The second output of an autograd function that sends messages: a scalar by which a loss that uses the first output on
/// other ranks only reaches the node. To be made in the function's forward.
[[nodiscard]] torch::Tensor communication_token(torch::TensorOptions const& options);

}  // namespace graticule::nn
