// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/gradient_hook.hpp>

#include "team_sum.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// What is left from one iteration to the next of a gradient that travels as thin factors.
struct LowRankPart {
  torch::Tensor factor;  ///< [columns, rank]: the right one of the last iteration, its columns orthonormal
  torch::Tensor error;   ///< [rows, columns]: what this rank has given and nobody has got
  torch::Tensor next_factor = {};
  torch::Tensor next_error = {};

  /// Takes the next ones, unless a rank has failed: then they may not be the same on all ranks.
  void end_iteration(bool complete) {
    if (complete) {
      take(factor, next_factor);
      take(error, next_error);
    }
    next_factor.reset();
    next_error.reset();
  }

 private:
  /// @param next of the stream of the sum
  static void take(torch::Tensor& held, torch::Tensor const& next) {
    if (!next.defined()) return;
    held.copy_(next);
    nn::detail::keep_for_current_stream(next);
  }
};

/// Orthonormal columns that span what those of `columns` do, and more where these are dependent.
[[nodiscard]] torch::Tensor orthonormal(torch::Tensor const& columns);

/// A matrix in a bucket.
struct LowRankMatrix {
  Index begin = 0;  ///< in the bucket
  Index rows = 0;
  Index columns = 0;
  Index flag = 0;  ///< place in the bucket of what is positive where any rank has a gradient
  LowRankPart* part = nullptr;
};

/// Sums the gradients of one bucket over one team: whole, or matrices as products of two thin ones.
///
/// Each rank adds what has been lost before to its matrices M_r. The first message sums P = sum of M_r Q, the second
/// one R = sum of M_r' P with P made orthonormal. P R' is what all ranks get as the sum; R made orthonormal is Q next
/// time, and M_r - P R' / ranks is lost until then. Source: Vogels et al. 2019, arXiv:1905.13727.
class GradientSum {
 public:
  /// @param matrices in order of their places; none: all travels whole
  GradientSum(TeamSum sum, std::vector<LowRankMatrix> matrices)
      : sum_(std::move(sum)), matrices_(std::move(matrices)) {}

  enum class Travels : std::uint8_t { whole, thin };
  /// As `TeamSum::start`. @param flat its last number is positive where a rank has failed, which leaves no trace in
  /// what is kept
  void start(torch::Tensor const& flat, Index num_data, double divisor, Travels how);
  /// The same where `future` reduces the data; what follows on them is summed beside it.
  void start(torch::Tensor const& flat, Index num_data, std::function<bool()> future);
  bool advance();

  /// What adds the numbers that travel.
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
  void count();
  [[nodiscard]] torch::Tensor matrix(LowRankMatrix const& place) const;
  /// Calls `visit` with each stretch of the bucket that is in no matrix.
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
  std::function<bool()> future_;     ///< of a hook, until it has answered
  SumTraffic traffic_;
};

}  // namespace graticule::training::detail
