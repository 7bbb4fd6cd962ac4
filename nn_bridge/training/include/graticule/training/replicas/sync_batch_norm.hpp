// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/replicas/replication.hpp>

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

/// Communication of one synchronised batch normalisation over the ranks of a team.
class SyncedCalls {
 public:
  /// @param num_cell_axes after [batch, channels]: from, to
  SyncedCalls(Comm team, int ordinal, int least_cell_axes, int most_cell_axes);
  [[nodiscard]] torch::Tensor forward(torch::Tensor const& x, BatchNormParts const& parts);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// @throws `Unsupported` for copies within one process
[[nodiscard]] Comm team_of(ReplicaContext const& context, int num_copies);

}  // namespace detail

/// A batch normalisation whose statistics cover all ranks of a team after `replicate`. Before, and in clones, it is the
/// serial layer; so it is for `as<>()`, in files, and in `eval` with tracked statistics.
///
/// It is the worked example of `ReplicaHook`: it takes the team and its module's ordinal from the context. Statistics
/// are merged in order of ranks and kept in f64, so all ranks hold the same bits; ranks may have different numbers of
/// samples and cells, or none. The ranks may hold samples, parts of a field, or both. Gradients of weight and bias are
/// this rank's parts. Every forward and backward first compares the calls of all ranks: if one rank makes an additional
/// call, or calls another layer, all ranks get an error. For a rank that makes no further call, forward or backward,
/// the others wait for `GRATICULE_STALL_SECONDS` (300; 0: forever).
/// @throws `CallDisagreement`, `ShapeMismatch`, `StructureDisagreement`, `TooFewValues` on all
///         ranks; `StalledExchange` on the ranks that waited for it
/// Cost: two all-gathers, of 7 numbers per rank and of 3 + 2 channels; in the backward 7 numbers and one all-reduce of
/// 2 channels. One copy of the output, which activations may then change in place.
template <class Serial>
class SyncBatchNormImpl : public Serial, public ReplicaHook {
 public:
  using Serial::Serial;
  /// Uses the parameters and buffers of `serial`, not copies of them.
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

/// Replaces each batch normalisation in the model's `Sequential`, `ModuleList` and `ModuleDict` by a `SyncBatchNorm`
/// with the same names and tensors, so optimizers and files remain valid. Call `replicate` next. @return the number of
/// replaced layers
/// @throws `Unsupported`, with the names of those that are members of other classes, which would still call their own
///         type: declare them as `SyncBatchNorm`. The model is then unchanged
int convert_batch_norms(torch::nn::Module& model);

}  // namespace graticule::training
