// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/training/data_parallel/gradient_wire.hpp>

#include "node_place.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// Types of 16 bits, which are added in f32.
[[nodiscard]] constexpr bool is_narrow(torch::ScalarType type) noexcept {
  return type == torch::kHalf || type == torch::kBFloat16;
}

/// As what MPI sends elements; those of 16 bits as plain bits. @throws `UnsupportedTensor`
[[nodiscard]] MPI_Datatype mpi_type(torch::ScalarType type);

/// What has been sent for one sum, by MPI or through memory of the node.
struct SumTraffic {
  Index collectives = 0;
  Index messages = 0;
  Index bytes = 0;
};

/// Sums one flat tensor after the other over a team, without blocking.
///
/// Where MPI can add the type and nothing else is asked for, by `MPI_Iallreduce`; else each rank adds one part, which
/// the others send to it, in the order of ranks (16-bit types in f32), and sends it to all. Ranks of one node may hand
/// the parts over in memory that they share (`share_on_node`), with the same bits.
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

  /// Sums over `team` of up to as many elements as given go through memory of the node from now on, where all ranks share
  /// it; those by MPI's all-reduce do not. Collective, the same sums on all ranks. @pre none is under way
  /// Cost: that of `NodePlace::make`; memory for the elements as they travel, as long as the sums live.
  static void share_on_node(Comm const& team, std::vector<std::pair<TeamSum*, Index>> const& sums);

  /// The memory of the node that this rank's elements pass through, as many as were given to `share_on_node`; undefined
  /// where there is none, or where they travel in another type. A `flat` that is this very memory is not copied.
  [[nodiscard]] torch::Tensor shared_memory() const;

  /// Ranks that this one waits for, where it knows them: MPI's all-reduce does not say.
  [[nodiscard]] std::vector<int> missing() const;
  /// MPI uses the memory of the sum that is under way.
  [[nodiscard]] bool in_messages() const noexcept {
    return stage_ == Stage::reducing || stage_ == Stage::scattering || stage_ == Stage::gathering;
  }

  [[nodiscard]] SumTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Comm const& team() const noexcept { return team_; }

 private:
  enum class Stage : std::uint8_t { idle, reducing, scattering, gathering, giving, taking };

  [[nodiscard]] bool arrived();
  void start_all_reduce();
  void scale_before();
  void start_exchange();
  void give();
  void add_received();
  void add_given();
  void add(std::vector<torch::Tensor> const& terms, std::vector<torch::Tensor> const& results) const;
  void post_send(torch::Tensor const& part, int rank);
  void post_receive(torch::Tensor const& part, int rank);
  [[nodiscard]] torch::Tensor part(torch::Tensor const& whole, int rank) const;
  [[nodiscard]] Index part_begin(int rank) const;
  [[nodiscard]] torch::Tensor values_of(int rank) const;
  void copy_others(torch::Tensor const& to, torch::Tensor const& from) const;
  void count(torch::Tensor const& sent);

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
  torch::Tensor received_;  ///< [rank, element]: the others' values of this rank's part
  std::unique_ptr<NodePlace> place_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  ///< of the requests, where they are messages
  SumTraffic traffic_;
};

}  // namespace graticule::training::detail
