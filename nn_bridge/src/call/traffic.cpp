// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.hpp"

#include <algorithm>
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

void count_traffic(PullCounts const& counts, Way way, torch::Tensor const& tensor,
                   std::vector<std::int64_t> const& axes) {
  auto bytes = Index(tensor.element_size());
  for (std::int64_t axis = -tensor.dim(); axis < 0; ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) bytes *= tensor.size(axis);
  count_traffic(counts, way, bytes);
}

}  // namespace detail

}  // namespace graticule::nn
