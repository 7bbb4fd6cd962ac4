// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace graticule::nn::detail {

/// The few most recently used set-ups of a layer, by structure, so that alternating structures do not rebuild them.
/// If all ranks use it in the same order, they hit and miss together.
template <class T>
class Recent {
 public:
  static constexpr std::size_t capacity = 8;

  [[nodiscard]] std::shared_ptr<T const> get(std::uint64_t key, std::function<std::shared_ptr<T const>()> const& make) {
    ++num_requests_;
    auto found = std::find_if(entries_.begin(), entries_.end(), [&](auto const& entry) { return entry.first == key; });
    if (found == entries_.end()) {
      entries_.emplace_front(key, make());
      if (entries_.size() > capacity) entries_.pop_back();
    } else {
      entries_.splice(entries_.begin(), entries_, found);
    }
    return entries_.front().second;
  }
  void clear() noexcept { entries_.clear(); }
  [[nodiscard]] int num_requests() const noexcept { return num_requests_; }

 private:
  std::list<std::pair<std::uint64_t, std::shared_ptr<T const>>> entries_;
  int num_requests_ = 0;
};

/// For layers that do not depend on the cuts.
struct NoSetUp {};

/// One agreed call of a layer; see `CommunicatingModule`.
template <class SetUp>
struct LayerCall {
  std::shared_ptr<SetUp const> set_up;
  bool requires_grad = false;  ///< of the input or of this layer's parameters, on any rank, with grad mode on
  bool input_grad = false;     ///< of the input alone
  torch::Tensor anchor;        ///< see `anchor` in `agreement.hpp`
  std::shared_ptr<ForwardScope> scope = {};  ///< until the forward ends
};

/// The life cycle of a layer: its agreement with the other ranks, and one `SetUp` per structure of its input (plans and
/// counts; immutable, so that a graph may outlive the module).
template <class SetUp>
class LayerState : public Agreement {
 public:
  using Call = LayerCall<SetUp>;
  using Agreement::Agreement;

  /// Collective, at the head of a forward. @param check throws when this rank's input is not acceptable
  /// @param make sets up for a layout of the input's cut axes; collective, throws on all ranks alike
  /// @param parameter_grad a parameter of the layer requires a gradient: the same on all ranks
  /// @param more what else the set-up depends on: the same on all ranks
  [[nodiscard]] Call enter(torch::Tensor const& x, std::function<void()> const& check,
                           std::function<std::shared_ptr<SetUp const>(Layout const&)> const& make,
                           bool parameter_grad = false, std::uint64_t more = 0,
                           StructureOf const& structure_of_input = &structure_of) {
    auto const agreed = agree(x, check, structure_of_input);
    if (generation_ != domain().comm().generation()) {
      // Plans made before the communicator was renewed are invalid.
      generation_ = domain().comm().generation();
      set_ups_.clear();
      current_.reset();
    }
    if (agreed.changed || !current_ || more != current_more_) {
      current_.reset();  // A set-up that throws must not leave that of an older structure behind.
      auto const layout = gather_layout(x);
      current_ = set_ups_.get(Hash().add(layout.fingerprint()).add(structure()).add(more).value(), [&] {
        // Its tensors serve later calls, which may build graphs: tensors of an inference mode could not.
        c10::InferenceMode const no_inference_mode(false);
        torch::NoGradGuard const no_grad;
        return make(layout);
      });
      current_more_ = more;
    }
    bool const any = agreed.requires_grad || (parameter_grad && torch::GradMode::is_enabled());
    return {current_, any, agreed.requires_grad, anchor(any, x.options()),
            std::make_shared<ForwardScope>(domain(), layer())};
  }

  /// See `Agreement::record`; returns `output`.
  torch::Tensor record(torch::Tensor const& output) const {
    Agreement::record(output);
    return output;
  }

 protected:
  void tear_down() override {
    Agreement::tear_down();
    set_ups_.clear();
    current_.reset();
  }
  [[nodiscard]] int own_set_ups() const noexcept override { return set_ups_.num_requests(); }

 private:
  Recent<SetUp> set_ups_;
  std::shared_ptr<SetUp const> current_;
  int generation_ = 0;  ///< of the domain's communicator, that the set-ups belong to
  std::uint64_t current_more_ = 0;
};

}  // namespace graticule::nn::detail
