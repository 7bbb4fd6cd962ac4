// SPDX-License-Identifier: BSD-3-Clause
// Losses of sharded fields: weighted by area, channel and level, normalised by the weight of the whole globe.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/loss/options.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace graticule::nn {

namespace detail {

struct LossFunction;
struct LossSetUp;

/// The life cycle of a loss: agreement, weights and sums.
class LossLayer : public LayerState<LossSetUp> {
 public:
  LossLayer(Domain const& domain, std::shared_ptr<LossFunction const> function, LossOptions options);
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask);

 private:
  std::shared_ptr<LossFunction const> function_;
  LossOptions options_;
};

/// Common part of the losses.
template <class Derived>
class LossModule : public StatefulModule<Derived, LossLayer> {
 public:
  /// Collective; shapes, weights and errors as below.
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask = {}) {
    return this->state().forward(prediction, target, mask);
  }

 protected:
  LossModule(std::shared_ptr<LossFunction const> function, LossOptions options, Domain const& domain)
      : StatefulModule<Derived, LossLayer>(domain, state_maker<LossLayer>(std::move(function), std::move(options))) {}
};

}  // namespace detail

// A loss applies LibTorch's formula to each cell, over the cells of all ranks. Construction and
// `forward(prediction, target, mask = {})` are collective.
//
// Tensors are this rank's shards, [batch, channels, ..., rows, columns]; with 5 axes or more, levels are axis -3. The
// target has the prediction's sizes, unless stated otherwise; the mask is a weight or boolean per cell, and its sizes
// are broadcast. Rows and columns are cut as in the domain; ranks without cells take part and contribute nothing. The
// result is a scalar, or one value per sample, channel or level, in f64, equal for all cuts to rounding, and bitwise
// equal on all ranks. It ends the loss as `reduce_loss` does: gradients of parameters are partial sums. Cells whose
// target is NaN, or whose mask is 0, enter neither the sum nor its divisor, whatever their values. Differentiable as
// often as LibTorch's function, also with respect to the target.
//
// Constructors throw `BadOption` for negative or non-finite weights, or if row weights are given in both forms.
// Forwards throw `ShapeMismatch`, `TooFewValues` if no cell on any rank has a weight, `StructureDisagreement`,
// `CallDisagreement`, on all ranks alike.
// Cost: one small all-reduce (the agreement), and that of `reduce_loss` for two numbers per value.

/// Absolute error |p - t|.
struct L1LossImpl : detail::LossModule<L1LossImpl> {
  explicit L1LossImpl(Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(L1Loss);

/// Squared error (p - t)^2.
struct MSELossImpl : detail::LossModule<MSELossImpl> {
  explicit MSELossImpl(Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(MSELoss);

/// Quadratic up to `delta`, then linear with slope `delta`: `torch::huber_loss`. @throws `BadOption` for `delta <= 0`
struct HuberLossImpl : detail::LossModule<HuberLossImpl> {
  HuberLossImpl(double delta, Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(HuberLoss);

/// Huber loss divided by `beta`; |p - t| for `beta` 0. @throws `BadOption` for `beta < 0`
struct SmoothL1LossImpl : detail::LossModule<SmoothL1LossImpl> {
  SmoothL1LossImpl(double beta, Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(SmoothL1Loss);

/// Binary cross-entropy of sigmoid(p). `positive_weights` are the weights of the positive class, one per channel;
/// default: 1.
struct BCEWithLogitsLossImpl : detail::LossModule<BCEWithLogitsLossImpl> {
  explicit BCEWithLogitsLossImpl(Domain const& domain, LossOptions options = {},
                                 std::vector<double> positive_weights = {});
};
TORCH_MODULE(BCEWithLogitsLoss);

/// Form of the target of `KLDivLoss`.
enum class TargetIs : std::uint8_t { probability, log_probability };

/// Kullback-Leibler divergence of predicted log-probabilities: t (log t - p).
struct KLDivLossImpl : detail::LossModule<KLDivLossImpl> {
  explicit KLDivLossImpl(Domain const& domain, LossOptions options = {}, TargetIs target = TargetIs::probability);
};
TORCH_MODULE(KLDivLoss);

/// Options of `PoissonNLLLoss`, named as LibTorch's.
struct PoissonNLLOptions {
  bool log_input = true;  ///< the prediction is the logarithm of the rate
  bool full = false;      ///< with Stirling's approximation of log t!
  double eps = 1e-8;      ///< added to the rate where its logarithm is taken
};

/// Negative log-likelihood of counts t with Poisson distribution.
struct PoissonNLLLossImpl : detail::LossModule<PoissonNLLLossImpl> {
  explicit PoissonNLLLossImpl(Domain const& domain, LossOptions options = {}, PoissonNLLOptions poisson = {});
};
TORCH_MODULE(PoissonNLLLoss);

/// Options of `NLLLoss` and `CrossEntropyLoss`, named as LibTorch's.
struct ClassOptions {
  std::vector<double> class_weights = {};
  std::int64_t ignore_index = -100;  ///< cells of this class enter neither sum nor divisor
  double label_smoothing = 0;        ///< of `CrossEntropyLoss`
};

/// Negative log-likelihood of classes. @throws `OutOfRange`, `BadOption` for `channel_weights` and
/// `LossPer::channel`
///
/// Predicted log-probabilities are [batch, classes, ..., rows, columns], with whole classes; targets are int64 without
/// the class axis. As in LibTorch, class weights also enter the divisor.
struct NLLLossImpl : detail::LossModule<NLLLossImpl> {
  explicit NLLLossImpl(Domain const& domain, LossOptions options = {}, ClassOptions classes = {});
};
TORCH_MODULE(NLLLoss);

/// The same for predicted logits; targets are classes or, with the prediction's sizes, probabilities.
struct CrossEntropyLossImpl : detail::LossModule<CrossEntropyLossImpl> {
  explicit CrossEntropyLossImpl(Domain const& domain, LossOptions options = {}, ClassOptions classes = {});
};
TORCH_MODULE(CrossEntropyLoss);

/// Options of `CRPSLoss`.
struct CRPSOptions {
  /// Axis of the members in the prediction, from the front; the target lacks it.
  std::int64_t ensemble_axis = 1;
  /// 1: the fair estimator, 0: the standard one; between: almost fair (Lang et al. 2024, arXiv:2412.15832).
  double fairness = 1;
};

/// Continuous ranked probability score of an ensemble of m members:
/// mean_i |x_i - t| - (1 - (1 - fairness) / m) / (2 m (m - 1)) sum_ij |x_i - x_j| (Ferro 2014, doi:10.1002/qj.2270).
///
/// Each rank holds all members. The second sum is computed by sorting; the gradient between equal members is 0. Cost:
/// O(m log m) per cell. @throws `ShapeMismatch` for fewer than 1 member, or 2 if `fairness > 0`
struct CRPSLossImpl : detail::LossModule<CRPSLossImpl> {
  explicit CRPSLossImpl(Domain const& domain, LossOptions options = {}, CRPSOptions crps = {});
};
TORCH_MODULE(CRPSLoss);

}  // namespace graticule::nn
