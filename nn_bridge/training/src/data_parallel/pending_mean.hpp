// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include "daso/node_groups.hpp"

#include <torch/torch.h>

#include <vector>

namespace graticule::training::detail {

/// The weighted mean of a tensor over the ranks of a group, on its way.
///
/// Each rank receives one part of every piece from all ranks, forms the mean in order of ranks (16-bit types in f32), and
/// gives it to all: the same bits on all ranks, whatever the MPI library. The mean is x_0 + sum of w_r (x_r - x_0), so that
/// equal values are kept bit for bit and sums cannot overflow.
class PendingMean {
 public:
  /// Posts. @param flat one axis, on the CPU, contiguous, real; is written to @param chunk most elements of a piece; the first piece
  ///        holds what the others leave
  PendingMean(NodeGroup group, torch::Tensor flat, Index chunk);
  PendingMean(PendingMean const&) = delete;
  PendingMean& operator=(PendingMean const&) = delete;
  PendingMean(PendingMean&&) = default;
  PendingMean& operator=(PendingMean&&) = delete;
  /// Completes, but not while an exception unwinds: other ranks may then never answer.
  ~PendingMean();

  /// Posts what can be posted, without blocking. Several on one group: only after those before have posted all, so that
  /// all ranks post in the same order. @return whether this one has posted all
  bool progress();
  /// Blocks; the mean, in the memory given.
  [[nodiscard]] torch::Tensor wait();

  [[nodiscard]] Index bytes_sent() const noexcept { return bytes_sent_; }
  [[nodiscard]] Index num_pieces() const noexcept { return Index(pieces_.size()); }

 private:
  struct Piece {
    torch::Tensor cells;     ///< of the flat tensor
    torch::Tensor received;  ///< [ranks, own part]
    torch::Tensor mean;      ///< own part
    std::vector<int> counts, places, own_counts, own_places;
    MPI_Request exchange = MPI_REQUEST_NULL;
    MPI_Request gather = MPI_REQUEST_NULL;
  };
  void post(Piece& piece);
  void gather(Piece& piece);

  NodeGroup group_;
  torch::Tensor flat_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  std::vector<Piece> pieces_;
  std::size_t num_gathered_ = 0;
  bool done_ = false;
  Index bytes_sent_ = 0;
};

}  // namespace graticule::training::detail
