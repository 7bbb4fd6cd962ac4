// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.hpp"

#include <atomic>

namespace graticule::nn {

namespace {

std::atomic<Index> num_messages{0};
std::atomic<Index> num_bytes{0};

}  // namespace

Traffic traffic() noexcept { return {num_messages.load(), num_bytes.load()}; }

namespace detail {

void count_traffic(PullCounts const& counts, Way way, Index cell_bytes) noexcept {
  bool const forward = way == Way::forward;
  num_messages += forward ? counts.num_send_peers : counts.num_receive_peers;
  num_bytes += (forward ? counts.send_cells : counts.receive_cells) * cell_bytes;
}

}  // namespace detail

}  // namespace graticule::nn
