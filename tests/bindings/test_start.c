// SPDX-License-Identifier: BSD-3-Clause
// The library starts MPI where the program has not (`own`), uses an MPI of any thread level that the program has
// started
// (`single`), starts again and again within it (`again`), and not after its end (`late`).
#include <graticule/graticule.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int starts_mpi(void) {
  int started = 0;
  int level = 0;
  int finalized = 0;
  if (gr_init(0, NULL) != GR_SUCCESS) return 2;
  MPI_Initialized(&started);
  MPI_Query_thread(&level);
  if (!started || level < MPI_THREAD_SERIALIZED) return 3;
  if (gr_finalize() != GR_SUCCESS) return 4;
  MPI_Finalized(&finalized);
  return finalized ? 0 : 5;
}

/// One exchange of a periodic halo. @return whether the library works
static int exchanges(void) {
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  gr_field field;
  int size = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int64_t const extents[2] = {4 * size, 8};
  int64_t const local[2] = {6, 10};
  int const parts[2] = {size, 1};
  double cells[6][10];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 10; ++j) cells[i][j] = i > 0 && i < 5 && j > 0 && j < 9 ? 4 * rank + i - 1 : -1;
  int good = gr_comm_create(MPI_COMM_WORLD, &comm) == GR_SUCCESS &&
             gr_layout_create(2, extents, parts, &layout) == GR_SUCCESS &&
             gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind) == GR_SUCCESS &&
             gr_halo_create(comm, layout, 1, &kind, &halo) == GR_SUCCESS &&
             gr_field_dense(cells, GR_F64, 2, local, &field) == GR_SUCCESS &&
             gr_halo_exchange(halo, 1, &field) == GR_SUCCESS;
  if (!good) fprintf(stderr, "%s\n", gr_error_text());
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 10; ++j) good = good && cells[i][j] == (4 * rank + i - 1 + 4 * size) % (4 * size);
  return good && gr_halo_destroy(&halo) == GR_SUCCESS && gr_layout_destroy(&layout) == GR_SUCCESS &&
         gr_comm_destroy(&comm) == GR_SUCCESS;
}

static void* on_another_thread(void* status) {
  *(gr_status*)status = gr_init(0, NULL);
  if (*(gr_status*)status != GR_SUCCESS &&
      strstr(gr_error_text(), "MPI_Init_thread with MPI_THREAD_SERIALIZED") == NULL)
    *(gr_status*)status = GR_ERROR_OTHER;
  return NULL;
}

/// As nearly every simulation code starts MPI.
static int uses_any_level(void) {
  int level = MPI_THREAD_SERIALIZED;
  gr_status elsewhere = GR_SUCCESS;
  pthread_t thread;
  MPI_Init(NULL, NULL);
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    pthread_create(&thread, NULL, on_another_thread, &elsewhere);
    pthread_join(thread, NULL);
    if (elsewhere != GR_ERROR_PROGRAM) return 2;
  }
  if (gr_init(0, NULL) != GR_SUCCESS) {
    fprintf(stderr, "level %d: %s\n", level, gr_error_text());
    return 3;
  }
  if (!exchanges()) return 4;
  if (gr_finalize() != GR_SUCCESS) return 5;
  MPI_Finalize();
  return 0;
}

static int starts_again(void) {
  MPI_Init(NULL, NULL);
  for (int round = 0; round < 3; ++round)
    if (gr_init(0, NULL) != GR_SUCCESS || !exchanges() || gr_finalize() != GR_SUCCESS) {
      fprintf(stderr, "round %d: %s\n", round, gr_error_text());
      return 2;
    }
  MPI_Finalize();
  return 0;
}

static int refuses_after_the_end(void) {
  if (gr_init(0, NULL) != GR_SUCCESS || !exchanges() || gr_finalize() != GR_SUCCESS) return 2;
  for (int round = 0; round < 2; ++round)
    if (gr_init(0, NULL) != GR_ERROR_PROGRAM || strcmp(gr_error_rule(), "WrongState") != 0 ||
        strstr(gr_error_text(), "MPI has ended") == NULL)
      return 3;
  return gr_finalize() == GR_ERROR_PROGRAM ? 0 : 4;
}

int main(int argc, char** argv) {
  char const* const mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "own") == 0) return starts_mpi();
  if (strcmp(mode, "single") == 0) return uses_any_level();
  if (strcmp(mode, "again") == 0) return starts_again();
  return strcmp(mode, "late") == 0 ? refuses_after_the_end() : 99;
}
