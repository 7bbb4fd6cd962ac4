// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// State that a layer keeps between calls and discards in `reset_structure`: all of it, or one of several parts.
class LifeCycle {
 public:
  /// @param whole the state that this part belongs to; resetting it resets this part
  explicit LifeCycle(LifeCycle* whole = nullptr) {
    if (whole) whole->parts_.push_back(this);
  }
  LifeCycle(LifeCycle const&) = delete;
  LifeCycle& operator=(LifeCycle const&) = delete;
  virtual ~LifeCycle() = default;

  void reset_structure() {
    tear_down();
    for (auto* const part : parts_) part->reset_structure();
  }
  /// How often set-ups were looked up or made; 1 after any number of forwards of one structure.
  [[nodiscard]] int num_set_ups() const noexcept {
    int count = own_set_ups();
    for (auto const* const part : parts_) count += part->num_set_ups();
    return count;
  }

 protected:
  virtual void tear_down() = 0;
  [[nodiscard]] virtual int own_set_ups() const noexcept { return 0; }

 private:
  std::vector<LifeCycle*> parts_;
};

/// Result of an agreement, equal on all ranks of the domain.
struct Agreed {
  bool changed = false;        ///< the shards' structure is new: plans must be looked up or made
  bool requires_grad = false;  ///< of the input, on any rank, with grad mode on
};

/// Sizes, dtype and device type; empty for an undefined tensor.
[[nodiscard]] std::vector<Index> structure_of(torch::Tensor const& x);

/// The small collective at the start of each layer's forward. Every rank enters it, for any input.
///
/// All ranks detect the same of these: an input that one rank rejects, layers called in different order, grad mode on
/// some ranks only, different batch, channels or dtype, and a structure that changed on some ranks only.
class Agreement : public LifeCycle {
 public:
  using StructureOf = std::function<std::vector<Index>(torch::Tensor const&)>;

  /// @param sharding the axes along which the ranks' tensors may differ
  Agreement(Domain domain, std::string layer, Sharding sharding, LifeCycle* whole = nullptr);
  Agreement(Domain const& domain, std::string layer, LifeCycle* whole = nullptr)
      : Agreement(domain, std::move(layer), domain.sharding(), whole) {}

  /// Collective. @param check throws when this rank's input is not acceptable
  /// @param structure a change of these numbers is a change of the structure; called when `check` has not thrown
  [[nodiscard]] Agreed agree(torch::Tensor const& x, std::function<void()> const& check,
                             StructureOf const& structure = &structure_of);
  /// The layout of the shards over the sharding's axes: gathers their extents. Collective. @throws `BadLayout`
  /// on all ranks alike
  [[nodiscard]] Layout gather_layout(torch::Tensor const& x) const;
  /// The numbers of the latest agreed call.
  [[nodiscard]] std::vector<Index> const& structure() const { return *known_; }
  void reset() noexcept { known_.reset(); }
  /// Records the communicating node that made `output`, so that the loss can reach it. Every differentiable call does
  /// so.
  void record(torch::Tensor const& output) const;
  /// @throws `StructureDisagreement` on all ranks unless `text` is the same on all. Collective.
  void require_same_text(std::string const& text) const;
  [[nodiscard]] Domain const& domain() const noexcept { return domain_; }
  [[nodiscard]] std::string const& layer() const noexcept { return layer_; }
  [[nodiscard]] Sharding const& sharding() const noexcept { return sharding_; }

 protected:
  void tear_down() override { reset(); }

 private:
  Domain domain_;
  void describe();
  [[nodiscard]] bool is_cut(std::size_t axis, std::size_t ndim) const;
  /// Restores equal call counts on all ranks after a mismatch of calls. Collective.
  void leave_call();

  std::string layer_;
  Sharding sharding_;
  int ordinal_;
  std::string path_ = {};  ///< in a model, at the last call
  std::string described_;  ///< layer, ordinal and path, for messages
  Index call_ = 0;
  int generation_;                           ///< of the domain's communicator, that `known_` and `call_` belong to
  Index number_ = 0;                         ///< of the call, in the domain
  mutable Index num_records_ = 0;            ///< of this call
  std::optional<std::vector<Index>> known_;  ///< structure of the last agreed input
  bool known_grad_mode_ = false;
  bool known_own_grad_ = false;
  bool known_requires_grad_ = false;
};

/// Of a parameter, which may be undefined.
[[nodiscard]] inline bool needs_gradient(torch::Tensor const& parameter) {
  return parameter.defined() && parameter.requires_grad();
}

/// A scalar leaf. If it requires a gradient, a rank whose own input requires none still gets a node in the graph,
/// because the other ranks need its messages in the backward.
[[nodiscard]] torch::Tensor anchor(bool requires_grad, torch::TensorOptions const& options);

/// Further roots of a backward from `roots`, with zeros: the calls of the domain that other ranks run in theirs. For
/// libraries on top of this one that run a backward within another. Collective.
/// @throws `UnusedOnSomeRanks` on all ranks alike
[[nodiscard]] std::vector<torch::Tensor> unreached_calls(Domain const& domain, std::vector<torch::Tensor> const& roots);

}  // namespace graticule::nn::detail
