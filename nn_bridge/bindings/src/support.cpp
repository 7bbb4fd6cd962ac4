// SPDX-License-Identifier: BSD-3-Clause
#include "support.hpp"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

namespace graticule::c {

gr_status keep_error(gr_status status, char const* rule, char const* text) noexcept {
  return gr_extension_fail(status, rule, text);
}

namespace {

/// Throws the error of a call of libgraticule_c again, without the name of its function and its rule.
void succeeded(gr_status status) {
  if (status == GR_SUCCESS) return;
  std::string const rule = gr_error_rule();
  std::string text = gr_error_text();
  if (auto const head = text.find(rule + ": "); head != std::string::npos) text.erase(0, head + rule.size() + 2);
  if (status == GR_ERROR_ARGUMENT) throw bad_argument(text);
  throw Error(rule, text);
}

/// `gr_finalize` frees the handles of this library, too.
bool const handles_are_known = [] {
  static gr_extension_handles const handles{[] {
                                              static thread_local std::string text;
                                              text = HandleTable::get().live();
                                              return text.c_str();
                                            },
                                            [] { HandleTable::get().free_all(); }};
  gr_extension_add(&handles);
  return true;
}();

/// The cores of this rank: those that the launcher bound it to, or its part of the node's.
int num_threads_here(Comm const& comm) {
  int const cores = int(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  bool const known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  int const own = known ? CPU_COUNT(&allowed) : cores;
  return std::max(1, own < cores ? own : cores / comm.num_node_ranks());
}

}  // namespace

void require_started() { succeeded(gr_extension_started()); }

void require_init() {
  if (gr_extension_initialized() == 0) throw Error("WrongState", "gr_init was not called");
}

Comm comm_of(gr_comm const* comm) {
  MPI_Comm mpi = MPI_COMM_NULL;
  succeeded(gr_comm_mpi(not_null(comm, "comm"), &mpi));
  return Comm(mpi);
}

Layout layout_of(gr_layout const* layout, int num_ranks) {
  int ndim = 0;
  succeeded(gr_layout_ndim(not_null(layout, "layout"), &ndim));
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

std::optional<std::vector<Index>> bands(Layout const& layout, int num_ranks) {
  std::vector<Index> rows;
  Index next = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto const box = layout.owned(rank);
    rows.push_back(box.empty() ? 0 : box.extent(0));
    if (box.empty()) continue;
    if (box.lo(0) != next || box.lo(1) != 0 || box.hi(1) != layout.extent(1)) return std::nullopt;
    next = box.hi(0);
  }
  return next == layout.extent(0) ? std::optional(rows) : std::nullopt;
}

FieldView cells_of(gr_field const& field, Box const& box, int rank, Name const& name) {
  auto view = view_of(field, box, box, name);
  for (int a = 0; a < 2; ++a) {
    auto& found = view.extents[int(view.grid_axes[a])];
    if (box.empty()) found = box.extent(a);
    if (found != box.extent(a))
      throw bad_argument(name +
                         (" has " + std::to_string(found) + (a == 0 ? " rows" : " columns") + ", the box of rank " +
                          std::to_string(rank) + " has " + std::to_string(box.extent(a))));
  }
  return view;
}

void set_threads(Comm const& comm, int num_threads) {
  if (num_threads > 0)
    at::set_num_threads(num_threads);
  else if (std::getenv("OMP_NUM_THREADS") == nullptr)
    at::set_num_threads(num_threads_here(comm));
}

}  // namespace graticule::c
