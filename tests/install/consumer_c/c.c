// SPDX-License-Identifier: BSD-3-Clause
// A simulation code in C with the installed library: the halo of a periodic field divided by rows.
#include <graticule/graticule.h>

#include <mpi.h>
#include <stdio.h>

static int failed(gr_status status) {
  if (status != GR_SUCCESS) fprintf(stderr, "%s\n", gr_error_text());
  return status != GR_SUCCESS;
}

int main(void) {
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  gr_field field;
  int rank = 0;
  int num_ranks = 0;
  int64_t const extents[2] = {7, 4};
  int64_t lower[2];
  int64_t upper[2];
  double cells[9 * 6] = {0};
  if (failed(gr_init(0, NULL)) || failed(gr_comm_create(MPI_COMM_WORLD, &comm)) || failed(gr_comm_rank(comm, &rank)) ||
      failed(gr_comm_size(comm, &num_ranks)))
    return 1;
  int const parts[2] = {num_ranks, 1};
  if (failed(gr_layout_create(2, extents, parts, &layout)) ||
      failed(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind)) ||
      failed(gr_halo_create(comm, layout, 1, &kind, &halo)) || failed(gr_halo_owned(halo, 2, lower, upper)))
    return 1;
  for (int64_t i = lower[0]; i < upper[0]; ++i)
    for (int64_t j = 0; j < 4; ++j) cells[(i - lower[0] + 1) * 6 + j + 1] = (double)(4 * i + j);
  int64_t const local[2] = {upper[0] - lower[0] + 2, 6};
  if (failed(gr_field_dense(cells, GR_F64, 2, local, &field)) || failed(gr_halo_exchange(halo, 1, &field))) return 1;
  int wrong = 0;
  for (int64_t i = lower[0] - 1; i < upper[0] + 1; ++i)
    for (int64_t j = -1; j < 5; ++j)
      wrong += cells[(i - lower[0] + 1) * 6 + j + 1] != (double)(4 * ((i + 7) % 7) + (j + 4) % 4);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && wrong == 0) printf("c: %d ranks agree\n", num_ranks);
  if (failed(gr_halo_destroy(&halo)) || failed(gr_layout_destroy(&layout)) || failed(gr_comm_destroy(&comm)) ||
      failed(gr_finalize()))
    return 1;
  return wrong != 0;
}
