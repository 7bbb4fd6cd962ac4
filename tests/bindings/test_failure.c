// SPDX-License-Identifier: BSD-3-Clause
// Ranks that give up. What MPI still holds of abandoned calls is left behind, so nothing watches for leaks here.
#include "check.h"

/// A rank that gives up ends the waits of the others, and `renew` makes the communicator usable again.
static void announces_failures(void) {
  if (world_size < 2) return;
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  int64_t const extents[2] = {4 * world_size, 8};
  int const parts[2] = {world_size, 1};
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  OK(gr_layout_create(2, extents, parts, &layout));
  OK(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  double cells[60] = {0};
  gr_field const field = field_of(cells, 1, 6, 10);
  REFUSES(gr_comm_announce_failure(comm, NULL), "text is NULL");
  if (world_rank == 0) {
    OK(gr_comm_announce_failure(comm, "out of coffee"));
  } else {
    FAILS(gr_halo_exchange(halo, 1, &field), GR_ERROR_PROGRAM, "out of coffee");
    RULE("PeerFailed");
  }
  OK(gr_comm_renew(comm));
  OK(gr_halo_destroy(&halo));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  OK(gr_halo_exchange(halo, 1, &field));
  OK(gr_halo_destroy(&halo));
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
  REFUSES(gr_comm_renew(NULL), "comm is NULL");
}

/// A wait for a rank that never comes ends with an error that has the plan's name.
static void names_the_plan_that_stalls(void) {
  if (world_size < 2) return;
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  int64_t const extents[2] = {4 * world_size, 8};
  int const parts[2] = {world_size, 1};
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  OK(gr_layout_create(2, extents, parts, &layout));
  OK(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind));
  REFUSES(gr_plan_name(NULL), "name is NULL");
  OK(gr_plan_name("tracers"));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  double cells[60] = {0};
  gr_field const field = field_of(cells, 1, 6, 10);
  OK(gr_set_patience(0, 0.5));
  if (world_rank == 0) {
    FAILS(gr_halo_exchange(halo, 1, &field), GR_ERROR_PROGRAM, "of the plan 'tracers' for");
    RULE("StalledExchange");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  OK(gr_set_patience(0, 0));
  OK(gr_comm_renew(comm));
  OK(gr_halo_destroy(&halo));
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  announces_failures();
  names_the_plan_that_stalls();
  OK(gr_finalize());
  return end();
}
