// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/ordered_sum.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/data_parallel/gradient_wire.hpp>

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// MPI's type of the elements; of 16 bits, their bits. @throws `UnsupportedTensor`
[[nodiscard]] MPI_Datatype mpi_type(torch::ScalarType type);

/// Memory for values of other ranks that a device adds: its own where MPI reads that, else pinned.
/// @param stream must outlive it
[[nodiscard]] messages::AllocateTerms terms_memory(torch::Device const& device, nn::detail::MessageStream const& stream,
                                                   bool mpi_reads_device);

/// What has been sent for one sum, by MPI or through memory of the node.
struct SumTraffic {
  Index collectives = 0;
  Index messages = 0;
  Index bytes = 0;

  /// @param to counts likewise
  template <class Counts>
  void add_to(Counts& to) const {
    to.collectives += collectives;
    to.messages += messages;
    to.bytes += bytes;
  }
};

/// Sums flat tensors over a team, one after the other, without blocking.
///
/// By `MPI_Iallreduce` where MPI can add the type and any order will do; else by `messages::OrderedSum` in the type of
/// the wire (16-bit types in f32), after `share_on_node` through memory of the node, with the same bits.
/// Tensors of a device are added there, in order of ranks. After `share_on_node` ranks whose kernels reach each other's
/// memory use that, and no host waits for a device; else messages leave from device memory, or from pinned memory where
/// MPI does not read it. Copies and sums run in a stream of their own; no call waits for other work of the device.
class TeamSum {
 public:
  /// Same calls on all ranks. @param type of the tensors, real
  TeamSum(Comm team, torch::ScalarType type, Wire wire, SumOrder order, torch::Device const& device = torch::kCPU);
  TeamSum(TeamSum&&) = default;
  TeamSum& operator=(TeamSum&&) = delete;
  /// Waits for the device, where its memory was shared with other ranks.
  ~TeamSum();

  /// Posts the first messages. Calls on one team come in the same order on all its ranks.
  /// @param flat contiguous, on the device of the sum; not to be touched before the end
  /// @param num_data elements at its head that are divided by `divisor`; the rest are summed only
  void start(torch::Tensor const& flat, Index num_data, double divisor);
  /// Posts what follows from what has arrived. True at the end, when `flat` holds the sum: on a device, for what is put
  /// into the current stream afterwards, and into others after `stream().precede_current()`.
  bool advance();

  /// `OrderedSum::share_on_node`, or `DevicePlace` on devices, for sums of up to as many elements; not of all-reduces.
  static void share_on_node(Comm const& team, std::vector<std::pair<TeamSum*, Index>> const& sums);

  /// The memory of the node, or of this rank's device, that this rank's elements pass through, as many as were given to
  /// `share_on_node`; undefined where there is none, or where they travel in another type. A `flat` that is this very
  /// memory is not copied.
  [[nodiscard]] torch::Tensor shared_memory() const;

  /// Ranks that this one waits for, where it knows them: MPI's all-reduce does not say.
  [[nodiscard]] std::vector<int> missing() const { return sum_ ? sum_->missing() : std::vector<int>(); }
  /// MPI, or the device of another rank, uses the memory of the sum that is under way.
  [[nodiscard]] bool in_messages() const noexcept { return sum_ ? sum_->in_messages() : flat_.defined(); }
  /// Of its device, for what is computed with sums between messages.
  [[nodiscard]] nn::detail::MessageStream const& stream() const noexcept { return *stream_; }

  [[nodiscard]] SumTraffic const& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Comm const& team() const noexcept { return team_; }

 private:
  void start_all_reduce();
  [[nodiscard]] bool is_reduced();
  [[nodiscard]] torch::Tensor as_sent() const;
  void start_staged();
  void start_sum();
  /// As many of the values that other ranks see.
  [[nodiscard]] torch::Tensor shared_values(Index numel) const;
  /// `sent_` does.
  [[nodiscard]] bool travels_on_device() const;

  Comm team_;
  torch::ScalarType type_;
  torch::Device device_;
  bool mpi_reads_device_ = false;
  torch::ScalarType wire_;
  double before_ = 1;                        ///< divided by this before rounding
  std::optional<messages::OrderedSum> sum_;  ///< none: by MPI's all-reduce
  torch::Tensor flat_;                       ///< undefined: none is under way
  Index num_data_ = 0;
  double divisor_ = 1;
  torch::Tensor sent_;  ///< `flat_` as it travels
  bool is_shared_on_device_ = false;
  bool is_staging_ = false;  ///< it is still copied, and the sum has not begun
  std::vector<MPI_Request> requests_;
  SumTraffic traffic_;
  std::unique_ptr<nn::detail::MessageStream> stream_;  ///< last: its work ends before the memory above is freed
};

}  // namespace graticule::training::detail
