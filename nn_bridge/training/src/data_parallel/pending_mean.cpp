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

/// x_0 + sum of w_r (x_r - x_0), on the device; the values lie on the host.
struct WeightedMean {
  torch::ScalarType type;
  std::vector<double> weights;
  torch::Device device;
  nn::detail::MessageStream const* stream;

  void operator()(messages::SumPart const& part) const {
    torch::NoGradGuard const no_grad;
    auto const current = stream->use();
    auto const values = [&](std::byte* data) { return torch::from_blob(data, {part.count}, type); };
    auto const wide = nn::detail::type_of_sums(type);
    auto const term = [&](std::size_t r) { return nn::detail::from_message(values(part.terms[r]), device).to(wide); };
    auto const first = term(0);
    auto total = torch::zeros_like(first);
    for (std::size_t r = 1; r < part.terms.size(); ++r) total.add_(term(r) - first, weights[r]);
    auto const mean = (first + total).to(type);
    for (auto* const result : part.results) values(result).copy_(mean, /*non_blocking=*/true);
    stream->synchronize();
  }
};

}  // namespace

PendingMean::PendingMean(NodeGroup group, torch::Tensor flat, Index chunk)
    : group_(std::move(group)),
      flat_(std::move(flat)),
      device_(flat_.device()),
      stream_(std::make_unique<nn::detail::MessageStream>(device_)) {
  (void)mpi_type(flat_.scalar_type());
  Index const size = flat_.numel();
  auto const& comm = group_.exchange;
  done_ = comm.num_ranks() == 1 || size == 0;
  if (done_) return;
  stream_->follow_current();
  {
    auto const current = stream_->use();
    flat_ = nn::detail::as_message(flat_);
  }
  stream_->synchronize();
  auto const value_bytes = Index(flat_.element_size());
  Index const num_pieces = (size + chunk - 1) / chunk;
  auto* at = static_cast<std::byte*>(flat_.mutable_data_ptr());
  pieces_.reserve(std::size_t(num_pieces));
  for (Index i = 0; i < num_pieces; ++i) {
    Index const length = i == 0 ? size - chunk * (num_pieces - 1) : chunk;
    auto& piece = pieces_.emplace_back(comm, value_bytes);
    if (!device_.is_cpu()) piece.receive_in(terms_memory(device_, *stream_, /*mpi_reads_device=*/false));
    piece.start(at, length, WeightedMean{flat_.scalar_type(), group_.weights, device_, stream_.get()});
    at += length * value_bytes;
    bytes_sent_ += piece.traffic(length).bytes;
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
  return nn::detail::from_message(flat_, device_);
}

}  // namespace graticule::training::detail
