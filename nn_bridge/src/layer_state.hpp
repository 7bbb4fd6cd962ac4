// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>
#include <graticule/partition/hash.hpp>

#include "agreement.hpp"
#include "recent.hpp"

#include <functional>
#include <memory>
#include <string>

namespace graticule::nn::detail {

/// What every communicating layer keeps: its agreement with the other ranks, and what it set up for each structure of its
/// input, `SetUp` (plans and counts; immutable, so that a graph may outlive the module).
template <class SetUp>
class LayerState {
 public:
  /// One agreed call.
  struct Call {
    std::shared_ptr<SetUp const> set_up;
    bool requires_grad = false;  ///< of the input or of this layer's parameters, on any rank, with grad mode on
    bool input_grad = false;     ///< of the input alone
    torch::Tensor anchor;        ///< see `anchor` in `agreement.hpp`
  };

  LayerState(Domain const& domain, std::string layer) : agreement_(domain, std::move(layer)) {}
  LayerState(Domain const& domain, std::string layer, Sharding sharding)
      : agreement_(domain, std::move(layer), std::move(sharding)) {}

  /// Collective, at the head of a forward. @param check throws when this rank's input is not acceptable
  /// @param make sets up for a layout of the input's cut axes; collective, throws on all ranks alike
  /// @param parameter_grad a parameter of the layer requires a gradient: the same on all ranks
  /// @param more what else the set-up depends on: the same on all ranks
  [[nodiscard]] Call enter(torch::Tensor const& x, std::function<void()> const& check,
                           std::function<std::shared_ptr<SetUp const>(Layout const&)> const& make,
                           bool parameter_grad = false, std::uint64_t more = 0) {
    auto const agreed = agreement_.agree(x, check);
    if (generation_ != domain().comm().generation()) {
      // Plans of a communicator before it was renewed are of no use.
      generation_ = domain().comm().generation();
      set_ups_.clear();
      current_.reset();
    }
    if (agreed.changed || !current_ || more != current_more_) {
      current_.reset();  // A set-up that throws must not leave that of an older structure behind.
      auto const layout = agreement_.gather_layout(x);
      current_ = set_ups_.get(Hash().add(key(x, layout)).add(more).value(), [&] {
        // Its tensors serve later calls, which may build graphs: tensors of an inference mode could not.
        c10::InferenceMode const no_inference_mode(false);
        torch::NoGradGuard const no_grad;
        return make(layout);
      });
      current_more_ = more;
    }
    bool const any = agreed.requires_grad || (parameter_grad && torch::GradMode::is_enabled());
    return {current_, any, agreed.requires_grad, anchor(any, x.options())};
  }

  /// See `Agreement::record`; returns `output`.
  torch::Tensor record(torch::Tensor const& output) const {
    agreement_.record(output);
    return output;
  }
  [[nodiscard]] Domain const& domain() const noexcept { return agreement_.domain(); }
  void reset_structure() { agreement_.reset(); }
  [[nodiscard]] int num_set_ups() const noexcept { return set_ups_.num_requests(); }

 private:
  /// Set-ups may depend on all extents and on the dtype, not on the cut axes alone.
  static std::uint64_t key(torch::Tensor const& x, Layout const& layout) {
    Hash hash;
    hash.add(layout.fingerprint()).add(int(x.scalar_type())).add(Index(x.dim()));
    for (auto const size : x.sizes()) hash.add(Index(size));
    return hash.value();
  }

  Agreement agreement_;
  Recent<SetUp> set_ups_;
  std::shared_ptr<SetUp const> current_;
  int generation_ = 0;  ///< of the domain's communicator, that the set-ups belong to
  std::uint64_t current_more_ = 0;
};

}  // namespace graticule::nn::detail
