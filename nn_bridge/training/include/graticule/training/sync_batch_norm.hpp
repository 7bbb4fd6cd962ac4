// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/replication.hpp>

#include <torch/torch.h>

#include <memory>
#include <optional>

namespace graticule::training {

namespace detail {

/// A batch normalisation's tensors and options.
struct BatchNormParts {
  torch::nn::BatchNormOptions const& options;
  torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  bool is_training = false;
};

/// The calls of one synchronised batch normalisation on the ranks of a team.
class SyncedCalls {
 public:
  /// @param num_cell_axes after [batch, channels]: from, to
  SyncedCalls(Comm team, int ordinal, int least_cell_axes, int most_cell_axes);
  [[nodiscard]] torch::Tensor forward(torch::Tensor const& x, BatchNormParts const& parts);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// @throws `NeedsTeam` where copies of one process are to be synchronised
[[nodiscard]] Comm team_of(ReplicaContext const& context, int num_copies);

}  // namespace detail

/// A batch normalisation whose statistics go over all ranks of a team, from `replicate` on; before, and in clones, it is
/// the serial layer. Also to `as<>()`, in files, and in `eval` with tracked statistics.
///
/// The worked example of `ReplicaHook`: it takes the team and its module's ordinal from the context. Statistics are merged
/// in order of ranks and kept in f64, so that all ranks hold the same bits; samples and cells may be uneven, or none, by
/// rank. For the ranks that hold samples, parts of a field, or both. Gradients of weight and bias are this rank's parts.
/// Every forward and backward first compares the calls of all ranks: where one calls a layer once more, or other layers,
/// that is an error on all of them. A rank that makes no further call at all, forward or backward, is waited for as long as
/// `GRATICULE_STALL_SECONDS` says (300; 0: for ever).
/// @throws `CallsDiffer`, `ShapeMismatch`, `StructureDisagreement`, `GradModeDisagreement`, `TooFewValues` on all ranks;
///         `CallMissing` on those that waited in vain
/// Cost: two all-gathers, of 7 numbers a rank and of 3 + 2 channels; in the backward 7 numbers and one all-reduce of 2
/// channels. One copy of the output, which activations may then change in place.
template <class Serial>
class SyncBatchNormImpl : public Serial, public ReplicaHook {
 public:
  using Serial::Serial;
  /// Takes the parameters and buffers of `serial`, not copies of them.
  explicit SyncBatchNormImpl(Serial const& serial) : Serial(serial) {}

  torch::Tensor forward(torch::Tensor const& x) {
    auto const& o = this->options;
    if (!calls_ || (!this->is_training() && o.track_running_stats())) return Serial::forward(x);
    return calls_->forward(x, {o, this->weight, this->bias, this->running_mean, this->running_var,
                               this->num_batches_tracked, this->is_training()});
  }

  void on_replicate(std::shared_ptr<ReplicaContext> const& context, int /*copy*/, int num_copies) override {
    bool const one = std::is_same_v<Serial, torch::nn::BatchNorm1dImpl>;
    int const most = one ? 1 : std::is_same_v<Serial, torch::nn::BatchNorm2dImpl> ? 2 : 3;
    calls_.emplace(detail::team_of(*context, num_copies), context->ordinal(), one ? 0 : most, most);
  }
  [[nodiscard]] bool is_synchronised() const noexcept { return calls_.has_value(); }

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override {
    Serial const plain(*this);
    return std::make_shared<SyncBatchNormImpl>(dynamic_cast<Serial const&>(*plain.clone(device)));
  }

 private:
  std::optional<detail::SyncedCalls> calls_;
};

class SyncBatchNorm1d : public torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm1dImpl>> {
  using torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm1dImpl>>::ModuleHolder;
};
class SyncBatchNorm2d : public torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm2dImpl>> {
  using torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm2dImpl>>::ModuleHolder;
};
class SyncBatchNorm3d : public torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm3dImpl>> {
  using torch::nn::ModuleHolder<SyncBatchNormImpl<torch::nn::BatchNorm3dImpl>>::ModuleHolder;
};

/// Puts a `SyncBatchNorm` in the place of each batch normalisation in the model's `Sequential`, `ModuleList` and
/// `ModuleDict`, with the same names and tensors: optimizers and files stay good. Call `replicate` next.
/// @return how many
/// @throws `NotConverted`, naming those that are members of other classes, which would go on calling their own type:
///         make them `SyncBatchNorm` members. The model is then as it was
int convert_batch_norms(torch::nn::Module& model);

}  // namespace graticule::training
