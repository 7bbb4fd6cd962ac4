// SPDX-License-Identifier: BSD-3-Clause
// A program whose last rank calls exit(5) while the others are in a call: `ends OPERATION FOLDER`. Those take the error
// and end without gr_finalize, with exit code 0.
#include <graticule/graticule.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gr_comm* comm;
static gr_layout* layout;

static void ok(gr_status status) {
  if (status == GR_SUCCESS) return;
  fprintf(stderr, "%s\n", gr_error_text());
  exit(99);
}

static gr_writer* new_writer(char const* folder, int num_ranks) {
  char path[4096];
  gr_writer* writer = NULL;
  snprintf(path, sizeof path, "%s/w.nc", folder);
  ok(gr_writer_create(comm, path, NULL, &writer));
  ok(gr_writer_add_dimension(writer, "y", 4 * num_ranks, 0));
  ok(gr_writer_add_dimension(writer, "x", 8, 0));
  ok(gr_writer_add_variable(writer, "q", "y x", GR_F64, NULL, NULL));
  return writer;
}

int main(int argc, char** argv) {
  int rank = 0;
  int num_ranks = 0;
  if (argc < 3) return 99;
  char const* const operation = argv[1];
  ok(gr_init(0, NULL));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  ok(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {4 * num_ranks, 8};
  int const parts[2] = {num_ranks, 1};
  ok(gr_layout_create(2, extents, parts, &layout));
  int64_t const lower[2] = {4 * rank, 0};
  int64_t const upper[2] = {4 * rank + 4, 8};
  double cells[6][10] = {{0}};
  gr_field field;
  gr_halo* halo = NULL;
  gr_pending* pending = NULL;
  gr_writer* writer = NULL;
  if (strcmp(operation, "writer") == 0) {
    int64_t const owned[2] = {4, 8};
    writer = new_writer(argv[2], num_ranks);
    ok(gr_field_dense(cells, GR_F64, 2, owned, &field));
  } else {
    int64_t const local[2] = {6, 10};
    gr_halo_kind kind;
    ok(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind));
    ok(gr_halo_create(comm, layout, 1, &kind, &halo));
    ok(gr_field_dense(cells, GR_F64, 2, local, &field));
    // A call in flight.
    if (strcmp(operation, "pending") == 0 && rank == num_ranks - 1) ok(gr_halo_start(halo, 1, &field, &pending));
  }
  if (rank == num_ranks - 1) exit(5);
  for (int step = 0; step < 2; ++step) {
    gr_status const status = writer != NULL ? gr_writer_write(writer, "q", 2, lower, upper, NULL, 0, NULL, &field)
                                            : gr_halo_exchange(halo, 1, &field);
    if (status != GR_SUCCESS) {
      printf("%s\n", gr_error_text());
      return 0;
    }
  }
  return 99;
}
