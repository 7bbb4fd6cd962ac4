// SPDX-License-Identifier: BSD-3-Clause
#include "pending_mean.hpp"

#include "team_sum.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace graticule::training::detail {

namespace {

/// x_0 + sum of w_r (x_r - x_0) over the rows.
torch::Tensor mean_of_rows(torch::Tensor const& rows, std::vector<double> const& weights) {
  auto const type = rows.scalar_type();
  auto const wide = rows.to(type == torch::kDouble ? torch::kDouble : torch::kFloat);
  auto const first = wide[0];
  auto total = torch::zeros_like(first);
  for (std::int64_t r = 1; r < wide.size(0); ++r) total.add_(wide[r] - first, weights[std::size_t(r)]);
  return (first + total).to(type).contiguous();
}

}  // namespace

PendingMean::PendingMean(NodeGroup group, torch::Tensor flat, Index chunk)
    : group_(std::move(group)), flat_(std::move(flat)), type_(mpi_type(flat_.scalar_type())) {
  Index const size = flat_.numel();
  done_ = group_.exchange.num_ranks() == 1 || size == 0;
  if (done_) return;
  Index const num_pieces = (size + chunk - 1) / chunk;
  Index at = 0;
  for (Index i = 0; i < num_pieces; ++i) {
    Index const length = i == 0 ? size - chunk * (num_pieces - 1) : chunk;
    pieces_.emplace_back().cells = flat_.narrow(0, at, length);
    at += length;
  }
  for (auto& piece : pieces_) post(piece);
}

PendingMean::~PendingMean() {
  if (done_ || pieces_.empty()) return;
  if (std::uncaught_exceptions() == 0) {
    try {
      (void)wait();
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch): the memory below is all that is left to save.
    }
  }
  // MPI may still write: the memory of what is on its way is never freed.
  (void)new std::vector<Piece>(std::move(pieces_));
}

void PendingMean::post(Piece& piece) {
  auto const num_ranks = group_.exchange.num_ranks();
  auto const length = piece.cells.numel();
  int place = 0;
  for (int r = 0; r < num_ranks; ++r) {
    piece.counts.push_back(int(length / num_ranks + (r < length % num_ranks ? 1 : 0)));
    piece.places.push_back(place);
    place += piece.counts.back();
  }
  int const own = piece.counts[std::size_t(group_.exchange.rank())];
  for (int r = 0; r < num_ranks; ++r) {
    piece.own_counts.push_back(own);
    piece.own_places.push_back(r * own);
  }
  piece.received = torch::empty({num_ranks, own}, piece.cells.options());
  check_mpi(MPI_Ialltoallv(piece.cells.const_data_ptr(), piece.counts.data(), piece.places.data(), type_,
                           piece.received.mutable_data_ptr(), piece.own_counts.data(), piece.own_places.data(), type_,
                           group_.exchange.handle(), &piece.exchange),
            "MPI_Ialltoallv");
  bytes_sent_ += (length - own + Index(num_ranks - 1) * own) * Index(flat_.element_size());
}

void PendingMean::gather(Piece& piece) {
  piece.mean = mean_of_rows(piece.received, group_.weights);
  piece.received.reset();
  check_mpi(MPI_Iallgatherv(piece.mean.const_data_ptr(), int(piece.mean.numel()), type_, piece.cells.mutable_data_ptr(),
                            piece.counts.data(), piece.places.data(), type_, group_.gather.handle(), &piece.gather),
            "MPI_Iallgatherv");
}

bool PendingMean::progress() {
  for (; !done_ && num_gathered_ < pieces_.size(); ++num_gathered_) {
    auto& piece = pieces_[num_gathered_];
    int arrived = 0;
    check_mpi(MPI_Test(&piece.exchange, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (!arrived) return false;
    gather(piece);
  }
  for (auto& piece : pieces_) {
    int arrived = 0;
    check_mpi(MPI_Test(&piece.gather, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
  }
  return true;
}

torch::Tensor PendingMean::wait() {
  if (!done_) {
    for (; num_gathered_ < pieces_.size(); ++num_gathered_) {
      group_.exchange.wait(pieces_[num_gathered_].exchange);
      gather(pieces_[num_gathered_]);
    }
    for (auto& piece : pieces_) group_.gather.wait(piece.gather);
    done_ = true;
  }
  return flat_;
}

}  // namespace graticule::training::detail
