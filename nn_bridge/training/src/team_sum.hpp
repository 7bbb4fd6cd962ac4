// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/training/gradient_wire.hpp>

#include <torch/torch.h>

#include <vector>

namespace graticule::nn::detail {

/// What has been sent for one sum.
struct SumTraffic {
  Index collectives = 0;
  Index messages = 0;
  Index bytes = 0;
};

/// Sums one flat tensor after the other over a team, without blocking.
///
/// Where MPI can add the type and nothing else is asked for, by `MPI_Iallreduce`; else each rank adds one part, which
/// the others send to it, in the order of ranks (16-bit types in f32), and sends it to all.
class TeamSum {
 public:
  /// Same calls on all ranks. @param type of the tensors, real
  TeamSum(Comm team, torch::ScalarType type, Wire wire, SumOrder order);

  /// Posts the first messages. Calls on one team come in the same order on all its ranks.
  /// @param flat contiguous, on the host; not to be touched before the end
  /// @param num_data elements at its head that are divided by `divisor`; the rest are summed only
  void start(torch::Tensor const& flat, Index num_data, double divisor);
  /// Posts what follows from what has arrived. True at the end, when `flat` holds the sum.
  bool advance();

  [[nodiscard]] SumTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Comm const& team() const noexcept { return team_; }

 private:
  enum class Stage : std::uint8_t { idle, reducing, scattering, gathering };

  void start_exchange();
  void add_part();
  void post_send(torch::Tensor const& part, int rank);
  void post_receive(torch::Tensor const& part, int rank);
  [[nodiscard]] torch::Tensor part(torch::Tensor const& whole, int rank) const;
  [[nodiscard]] Index part_begin(int rank) const;

  Comm team_;
  torch::ScalarType type_;
  torch::ScalarType wire_;
  bool by_library_;
  double before_ = 1;  ///< divided by this before rounding
  int tag_ = 0;
  Stage stage_ = Stage::idle;
  torch::Tensor flat_;
  Index num_data_ = 0;
  double divisor_ = 1;
  torch::Tensor sent_;      ///< `flat_` as it travels
  torch::Tensor received_;  ///< [rank, element]: all ranks' values of this rank's part
  std::vector<MPI_Request> requests_;
  SumTraffic traffic_;
};

}  // namespace graticule::nn::detail
