// SPDX-License-Identifier: BSD-3-Clause
// Losses of sharded fields: weighted by area, channel and level, normalised by the weight of the whole globe.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

enum class LossReduction : std::uint8_t {
  mean,       ///< sum w f / sum w
  sum,        ///< sum w f
  batchmean,  ///< sum w f / samples
};

/// What gets a value of its own, each normalised by its own weight.
enum class LossPer : std::uint8_t { domain, sample, channel, level };

/// The weight w of a cell is the product of all that are given, and of the mask; 1 where none is.
struct LossOptions {
  LossReduction reduction = LossReduction::mean;
  LossPer per = LossPer::domain;
  /// One for each row of this rank's shard (see `area_weights`), or
  std::vector<double> row_weights = {};
  /// one for each row of the globe, of which each rank takes those of its rows.
  std::vector<double> global_row_weights = {};
  std::vector<double> channel_weights = {};
  std::vector<double> level_weights = {};
};

namespace detail {

struct LossFunction;
struct LossSetUp;

/// What the modules of this file share: the agreement, the weights and the sums.
class LossLayer : public LayerState<LossSetUp> {
 public:
  LossLayer(std::shared_ptr<LossFunction const> function, LossOptions options, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask);

 private:
  std::shared_ptr<LossFunction const> function_;
  LossOptions options_;
};

}  // namespace detail

/// A loss with LibTorch's formula for each cell, over the cells of all ranks.
///
/// Tensors are [batch, channels, ..., rows, columns]; with 5 axes or more, levels are axis -3. Rows and columns are cut
/// as in the domain; ranks without cells give nothing and take part. The value is in f64, for any cuts equal but for
/// rounding, and on all ranks the same bits; it closes the loss as `reduce_loss` does: gradients of parameters are
/// partial sums. Cells whose target is NaN, or whose mask is 0, count on neither side, whatever they hold.
/// Differentiable as often as LibTorch's function is, in the target as well.
/// Cost: a call is one small all-reduce (the agreement) and what `reduce_loss` costs, of two numbers for each value.
template <class Derived>
class LossModule : public detail::StatefulModule<Derived, detail::LossLayer> {
 public:
  /// Collective. @param mask a weight of each cell, or a boolean; its sizes may be 1, or miss from the left
  /// @return a scalar, or one value for each sample, channel or level
  /// @throws `ShapeMismatch`, `WeightLength`, `EmptyLoss` where no cell has a weight on any rank, and
  ///         `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask = {}) {
    return this->state().forward(prediction, target, mask);
  }

 protected:
  /// Collective. @throws `BadWeights` for weights that are negative or not finite, or rows' weights given in both ways
  LossModule(std::shared_ptr<detail::LossFunction const> function, LossOptions options, Domain const& domain)
      : detail::StatefulModule<Derived, detail::LossLayer>(
            domain, [function = std::move(function), options = std::move(options)](Domain const& of) {
              return std::make_shared<detail::LossLayer>(function, options, of);
            }) {}
};

/// |p - t|
struct L1LossImpl : LossModule<L1LossImpl> {
  explicit L1LossImpl(Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(L1Loss);

/// (p - t)^2
struct MSELossImpl : LossModule<MSELossImpl> {
  explicit MSELossImpl(Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(MSELoss);

/// Square up to `delta`, then a straight line of slope delta: `torch::huber_loss`. @throws `BadLoss` for `delta <= 0`
struct HuberLossImpl : LossModule<HuberLossImpl> {
  HuberLossImpl(double delta, Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(HuberLoss);

/// Huber's loss divided by `beta`; |p - t| for 0. @throws `BadLoss` for `beta < 0`
struct SmoothL1LossImpl : LossModule<SmoothL1LossImpl> {
  SmoothL1LossImpl(double beta, Domain const& domain, LossOptions options = {});
};
TORCH_MODULE(SmoothL1Loss);

/// Binary cross-entropy of sigmoid(p). @param positive_weights of the positive class, one for each channel; none: 1
struct BCEWithLogitsLossImpl : LossModule<BCEWithLogitsLossImpl> {
  explicit BCEWithLogitsLossImpl(Domain const& domain, LossOptions options = {},
                                 std::vector<double> positive_weights = {});
};
TORCH_MODULE(BCEWithLogitsLoss);

enum class TargetIs : std::uint8_t { probability, log_probability };

/// Kullback-Leibler divergence of predicted log-probabilities: t (log t - p).
struct KLDivLossImpl : LossModule<KLDivLossImpl> {
  explicit KLDivLossImpl(Domain const& domain, LossOptions options = {}, TargetIs target = TargetIs::probability);
};
TORCH_MODULE(KLDivLoss);

struct PoissonNLLOptions {
  bool log_input = true;  ///< the prediction is the logarithm of the rate
  bool full = false;      ///< with Stirling's approximation of log t!
  double eps = 1e-8;      ///< added to the rate where its logarithm is taken
};

/// Negative logarithm of the likelihood of counts t.
struct PoissonNLLLossImpl : LossModule<PoissonNLLLossImpl> {
  explicit PoissonNLLLossImpl(Domain const& domain, LossOptions options = {}, PoissonNLLOptions poisson = {});
};
TORCH_MODULE(PoissonNLLLoss);

struct ClassOptions {
  std::vector<double> class_weights = {};
  std::int64_t ignore_index = -100;  ///< cells of this class count on neither side
  double label_smoothing = 0;        ///< of `CrossEntropyLoss`
};

/// Negative log-likelihood of classes. @throws `ClassOutOfRange`, `BadLoss` for `channel_weights` and `LossPer::channel`
///
/// Predicted log-probabilities are [batch, classes, ..., rows, columns], classes whole; targets are int64 without the
/// axis of classes. As in LibTorch, a class's weight counts in the sum of weights, too.
struct NLLLossImpl : LossModule<NLLLossImpl> {
  explicit NLLLossImpl(Domain const& domain, LossOptions options = {}, ClassOptions classes = {});
};
TORCH_MODULE(NLLLoss);

/// The same for predicted logits; targets are classes or, with the prediction's sizes, probabilities.
struct CrossEntropyLossImpl : LossModule<CrossEntropyLossImpl> {
  explicit CrossEntropyLossImpl(Domain const& domain, LossOptions options = {}, ClassOptions classes = {});
};
TORCH_MODULE(CrossEntropyLoss);

struct CRPSOptions {
  /// Axis of the members in the prediction, from the front; the target lacks it.
  std::int64_t ensemble_axis = 1;
  /// 1: the fair estimator, 0: the standard one; between: almost fair (Lang et al. 2024, arXiv:2412.15832).
  double fairness = 1;
};

/// Continuous ranked probability score of an ensemble of m members:
/// mean_i |x_i - t| - (1 - (1 - fairness) / m) / (2 m (m - 1)) sum_ij |x_i - x_j| (Ferro 2014, doi:10.1002/qj.2270).
///
/// Members are whole on each rank. The second sum is taken by sorting, with the gradient 0 between equal members.
/// Cost: O(m log m) for each cell. @throws `TooFewMembers` unless there is one, or two for `fairness > 0`
struct CRPSLossImpl : LossModule<CRPSLossImpl> {
  explicit CRPSLossImpl(Domain const& domain, LossOptions options = {}, CRPSOptions crps = {});
};
TORCH_MODULE(CRPSLoss);

}  // namespace graticule::nn
