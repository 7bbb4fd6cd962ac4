// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/ordered_sum.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/indices.hpp>

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace graticule::training::detail {

/// The ranks of one group, one on each node.
struct NodeGroup {
  Comm exchange;
  std::vector<double> weights;  ///< by rank of the group: its node's part of all ranks
};

/// The weighted mean of a tensor over the ranks of a group, on its way.
///
/// One `messages::OrderedSum` per piece forms it in order of ranks (16-bit types in f32). The mean is x_0 + sum of w_r
/// (x_r - x_0), so that equal values are kept bit for bit and sums cannot overflow. Values of a device travel through
/// pinned memory, and the mean is formed on it.
class PendingMean {
 public:
  /// Posts. @param flat one axis, contiguous, real; on the CPU it is written to @param chunk most elements of a piece;
  ///        the first piece holds what the others leave
  PendingMean(NodeGroup group, torch::Tensor flat, Index chunk);
  PendingMean(PendingMean const&) = delete;
  PendingMean& operator=(PendingMean const&) = delete;
  PendingMean(PendingMean&&) = default;
  PendingMean& operator=(PendingMean&&) = delete;
  /// Completes, but not while an exception unwinds: other ranks may then never answer.
  ~PendingMean();

  /// Proceeds with what has arrived, without blocking. @return true at the end
  bool progress();
  /// Blocks; the mean: on the CPU in the memory given, on a device for what is put into the current stream.
  [[nodiscard]] torch::Tensor wait();

  [[nodiscard]] Index bytes_sent() const noexcept { return bytes_sent_; }
  [[nodiscard]] Index num_pieces() const noexcept { return Index(pieces_.size()); }

 private:
  NodeGroup group_;
  torch::Tensor flat_;  ///< on the host while it travels
  torch::Device device_;
  std::unique_ptr<nn::detail::MessageStream> stream_;
  std::vector<messages::OrderedSum> pieces_;
  bool done_ = false;
  Index bytes_sent_ = 0;
};

}  // namespace graticule::training::detail
