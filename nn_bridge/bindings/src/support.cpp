// SPDX-License-Identifier: BSD-3-Clause
#include "support.hpp"

#include "queues.hpp"

#include <array>

namespace graticule::c {

gr_status keep_error(gr_status status, char const* rule, char const* text) noexcept {
  return gr_extension_fail(status, rule, text);
}

void require_started() {
  if (gr_extension_started() == 0) throw Error("WrongState", "gr_init was not called");
  gr_extension_at_end([] { forget_queues(); });
}

namespace {

/// Throws the error of a call of libgraticule_c again.
void succeeded(gr_status status) {
  if (status == GR_SUCCESS) return;
  if (status == GR_ERROR_ARGUMENT) throw bad_argument(gr_error_text());
  throw Error(gr_error_rule(), gr_error_text());
}

}  // namespace

Comm comm_of(gr_comm const* comm) {
  MPI_Comm mpi = MPI_COMM_NULL;
  succeeded(gr_comm_mpi(&required(comm, "comm"), &mpi));
  return Comm(mpi);
}

Layout layout_of(gr_layout const* layout, int num_ranks) {
  int ndim = 0;
  succeeded(gr_layout_ndim(&required(layout, "layout"), &ndim));
  if (ndim != 2)
    throw bad_argument("layout has " + std::to_string(ndim) + " axes; those of a network have latitude and longitude");
  std::array<int64_t, 2> extents{};
  succeeded(gr_layout_extents(layout, ndim, extents.data()));
  std::vector<Box> boxes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::array<int64_t, 2> lower{};
    std::array<int64_t, 2> upper{};
    succeeded(gr_layout_owned(layout, rank, ndim, lower.data(), upper.data()));
    boxes.push_back(box_of(ndim, lower.data(), upper.data()));
  }
  return Layout::from_boxes(indices(extents.data(), ndim, "extents"), boxes);
}

}  // namespace graticule::c
