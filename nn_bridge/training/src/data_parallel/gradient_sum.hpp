// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/gradient_hook.hpp>

#include "team_sum.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// What one iteration leaves to the next of a gradient that is sent as low-rank factors.
struct LowRankPart {
  torch::Tensor factor;  ///< [columns, rank]: the right one of the last iteration, its columns orthonormal
  torch::Tensor error;   ///< [rows, columns]: error feedback, what compression lost of this rank's gradient
  torch::Tensor next_factor = {};
  torch::Tensor next_error = {};

  /// Takes over the next values, unless a rank has failed: ranks might then differ.
  void end_iteration(bool complete) {
    if (complete) {
      take(factor, next_factor);
      take(error, next_error);
    }
    next_factor.reset();
    next_error.reset();
  }

 private:
  /// @param next belongs to the stream of the sum
  static void take(torch::Tensor& held, torch::Tensor const& next) {
    if (!next.defined()) return;
    held.copy_(next);
    nn::detail::keep_for_current_stream(next);
  }
};

/// Orthonormal columns that span the columns of `columns`; dependent ones are replaced by further directions.
[[nodiscard]] torch::Tensor orthonormal(torch::Tensor const& columns);

/// A matrix in a bucket.
struct LowRankMatrix {
  Index begin = 0;  ///< in the bucket
  Index rows = 0;
  Index columns = 0;
  Index flag = 0;  ///< place in the bucket of a number that is positive if any rank has a gradient
  LowRankPart* part = nullptr;
};

/// Sums the gradients of one bucket over one team: whole, or matrices as products of two low-rank factors.
///
/// Each rank adds its error feedback to its matrices M_r. The first message sums P = sum of M_r Q, the second one R =
/// sum of M_r' P with orthonormalised P. All ranks get P R' as the sum. R, orthonormalised, is the next Q, and
/// M_r - P R' / ranks is the next error feedback. Source: Vogels et al. 2019, arXiv:1905.13727.
class GradientSum {
 public:
  /// @param matrices in order of their places; none: everything is sent whole
  GradientSum(TeamSum sum, std::vector<LowRankMatrix> matrices)
      : sum_(std::move(sum)), matrices_(std::move(matrices)) {}

  enum class Travels : std::uint8_t { whole, low_rank };
  /// As `TeamSum::start`. @param flat if its last sum is positive (a rank has failed), factors and feedback stay
  void start(torch::Tensor const& flat, Index num_data, double divisor, Travels how);
  /// The same if `future` reduces the data; the numbers behind the data are summed separately.
  void start(torch::Tensor const& flat, Index num_data, std::function<bool()> future);
  bool advance();

  /// Adds the numbers that are sent.
  [[nodiscard]] TeamSum& sum() noexcept { return sum_; }
  [[nodiscard]] SumTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Comm const& team() const noexcept { return sum_.team(); }
  [[nodiscard]] std::vector<int> missing() const { return sum_.missing(); }

 private:
  enum class Stage : std::uint8_t { whole, left, right, hooked, idle };

  [[nodiscard]] bool advance_in_stream();
  void send_left();
  void send_right();
  void multiply();
  [[nodiscard]] torch::Tensor matrix(LowRankMatrix const& place) const;
  /// Calls `visit` for each part of the bucket that belongs to no matrix.
  template <class Visit>
  void visit_rest(Visit const& visit) const;

  TeamSum sum_;
  std::vector<LowRankMatrix> matrices_;
  Stage stage_ = Stage::idle;
  torch::Tensor flat_;
  Index num_data_ = 0;
  double divisor_ = 1;
  torch::Tensor sent_;
  std::vector<torch::Tensor> left_;  ///< by matrix: P
  std::function<bool()> future_;     ///< of a hook, until it is complete
  SumTraffic traffic_;
};

}  // namespace graticule::training::detail
