// SPDX-License-Identifier: BSD-3-Clause
// The C of README.md: ghost cells hold the values of the cells that they stand for.
#include <graticule/graticule.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/// The number of the cell that (row, column) stands for: rows beyond a pole are rows at the opposite longitude.
static double number_of(int64_t row, int64_t column, int64_t rows, int64_t columns) {
  if (row < 0 || row >= rows) {
    row = row < 0 ? -row : 2 * (rows - 1) - row;
    column += columns / 2;
  }
  return (double)(row * columns + (column + columns) % columns);
}

int main(void) {
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  gr_field field;
  int rank = 0;
  int size = 0;
  if (gr_init(0, NULL) != GR_SUCCESS) return 1;  // starts MPI, too
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int64_t const grid[2] = {721, 1440};
  int64_t const lower[2] = {721 * rank / size, 0};
  int64_t const upper[2] = {721 * (rank + 1) / size, 1440};
  int64_t const extents[2] = {upper[0] - lower[0] + 2, 1442};
  double* const t = calloc((size_t)(extents[0] * extents[1]), sizeof(double));
  for (int64_t j = lower[0]; j < upper[0]; ++j)
    for (int64_t i = 0; i < 1440; ++i) t[(j - lower[0] + 1) * 1442 + i + 1] = number_of(j, i, grid[0], grid[1]);

  gr_comm_create(MPI_COMM_WORLD, &comm);
  gr_layout_create_boxes(comm, 2, grid, 1, lower, upper, &layout);  // each rank passes the box that it owns
  gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, &kind);
  gr_halo_create(comm, layout, 1, &kind, &halo);
  gr_field_dense(t, GR_F64, 2, extents, &field);  // the box with one ghost cell on each side
  gr_halo_exchange(halo, 1, &field);

  int wrong = 0;
  for (int64_t j = lower[0] - 1; j <= upper[0]; ++j)
    for (int64_t i = -1; i <= 1440; ++i)
      wrong += t[(j - lower[0] + 1) * 1442 + i + 1] != number_of(j, i, grid[0], grid[1]);
  if (wrong != 0) printf("%d cells are wrong: %s\n", wrong, gr_error_text());
  free(t);
  gr_halo_destroy(&halo);
  gr_layout_destroy(&layout);
  gr_comm_destroy(&comm);
  gr_finalize();
  return wrong != 0;
}
