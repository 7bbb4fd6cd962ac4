// SPDX-License-Identifier: BSD-3-Clause
#include "pending_mean.hpp"

#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "team_sum.hpp"

#include <exception>
#include <string>
#include <utility>

namespace graticule::training::detail {

namespace {

/// x_0 + sum of w_r (x_r - x_0).
struct WeightedMean {
  torch::ScalarType type;
  std::vector<double> weights;

  void operator()(messages::SumPart const& part) const {
    torch::NoGradGuard const no_grad;
    auto const values = [&](std::byte* data) { return torch::from_blob(data, {part.count}, type); };
    auto const wide = nn::detail::type_of_sums(type);
    auto const first = values(part.terms[0]).to(wide);
    auto total = torch::zeros_like(first);
    for (std::size_t r = 1; r < part.terms.size(); ++r) total.add_(values(part.terms[r]).to(wide) - first, weights[r]);
    for (auto* const result : part.results) values(result).copy_(first + total);
  }
};

}  // namespace

PendingMean::PendingMean(NodeGroup group, torch::Tensor flat, Index chunk)
    : group_(std::move(group)), flat_(std::move(flat)) {
  (void)mpi_type(flat_.scalar_type());
  Index const size = flat_.numel();
  auto const& comm = group_.exchange;
  done_ = comm.num_ranks() == 1 || size == 0;
  if (done_) return;
  auto const value_bytes = Index(flat_.element_size());
  Index const num_pieces = (size + chunk - 1) / chunk;
  auto* at = static_cast<std::byte*>(flat_.mutable_data_ptr());
  pieces_.reserve(std::size_t(num_pieces));
  for (Index i = 0; i < num_pieces; ++i) {
    Index const length = i == 0 ? size - chunk * (num_pieces - 1) : chunk;
    auto& piece = pieces_.emplace_back(comm, value_bytes);
    piece.start(at, length, WeightedMean{flat_.scalar_type(), group_.weights});
    at += length * value_bytes;
    auto const own = piece.part_begin(length, comm.rank() + 1) - piece.part_begin(length, comm.rank());
    bytes_sent_ += (length - own + Index(comm.num_ranks() - 1) * own) * value_bytes;
  }
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
  // MPI may still write to it.
  graticule::detail::keep_for_good(std::move(flat_));
}

bool PendingMean::progress() {
  if (done_) return true;
  bool all = true;
  for (auto& piece : pieces_) all = piece.advance() && all;
  done_ = all;
  return all;
}

torch::Tensor PendingMean::wait() {
  auto const& comm = group_.exchange;
  messages::wait_until(
      comm, [this] { return progress(); },
      [&] { return "rank " + std::to_string(comm.rank()) + " waits for the mean over its group"; });
  return flat_;
}

}  // namespace graticule::training::detail
