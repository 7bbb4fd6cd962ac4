// SPDX-License-Identifier: BSD-3-Clause
// The library starts MPI where the program has not (`own`), uses an MPI of any thread level that the program has
// started
// (`single`, `funneled`), starts again and again within it (`again`), and not after its end (`late`).
#include <graticule/graticule.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/// A plan, and whether calls on another thread were refused by name.
typedef struct Elsewhere {
  gr_comm* comm;
  gr_halo* halo;
  gr_field field;
  int refused;
} Elsewhere;

static int refuses(gr_status status) {
  return status == GR_ERROR_PROGRAM && strcmp(gr_error_rule(), "ThreadLevel") == 0 &&
         strstr(gr_error_text(), "start MPI by MPI_Init_thread with MPI_THREAD_SERIALIZED") != NULL;
}

static void* calls_elsewhere(void* given) {
  Elsewhere* const all = given;
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_checkpoints* checkpoints = NULL;
  int64_t const zero[2] = {0, 0};
  int ndim = 0;
  all->refused = refuses(gr_halo_exchange(all->halo, 1, &all->field)) &&
                 refuses(gr_comm_create(MPI_COMM_WORLD, &comm)) &&
                 refuses(gr_layout_create_boxes(all->comm, 2, zero, 1, zero, zero, &layout)) &&
                 refuses(gr_checkpoints_create(all->comm, "folder", 1, &checkpoints));
  // What calls no MPI may be called anywhere.
  all->refused = all->refused && gr_layout_create(2, (int64_t[2]){4, 4}, (int[2]){1, 1}, &layout) == GR_SUCCESS &&
                 gr_layout_ndim(layout, &ndim) == GR_SUCCESS && gr_layout_destroy(&layout) == GR_SUCCESS;
  return NULL;
}

/// Calls that send messages, of another thread than the one that started MPI, below MPI_THREAD_SERIALIZED.
static int refuses_other_threads(void) {
  Elsewhere all = {0};
  gr_layout* layout = NULL;
  gr_halo_kind kind;
  pthread_t thread;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int64_t const extents[2] = {4 * size, 8};
  int64_t const local[2] = {6, 10};
  int const parts[2] = {size, 1};
  double cells[60];
  for (int i = 0; i < 60; ++i) cells[i] = 1;
  int good = gr_comm_create(MPI_COMM_WORLD, &all.comm) == GR_SUCCESS &&
             gr_layout_create(2, extents, parts, &layout) == GR_SUCCESS &&
             gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind) == GR_SUCCESS &&
             gr_halo_create(all.comm, layout, 1, &kind, &all.halo) == GR_SUCCESS &&
             gr_field_dense(cells, GR_F64, 2, local, &all.field) == GR_SUCCESS;
  if (good) {
    pthread_create(&thread, NULL, calls_elsewhere, &all);
    pthread_join(thread, NULL);
  }
  good = good && all.refused && gr_halo_exchange(all.halo, 1, &all.field) == GR_SUCCESS;
  return gr_halo_destroy(&all.halo) == GR_SUCCESS && gr_layout_destroy(&layout) == GR_SUCCESS &&
         gr_comm_destroy(&all.comm) == GR_SUCCESS && good;
}

/// A checkpoint in the foreground. @return whether what is read is what was written
static int saves(void) {
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_checkpoints* checkpoints = NULL;
  gr_checkpoint_writer* writer = NULL;
  gr_checkpoint* checkpoint = NULL;
  gr_field field;
  char folder[4096];
  int rank = 0;
  int size = 0;
  int number = (int)getpid();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  char const* const temporary = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/graticule-start-%d", temporary != NULL ? temporary : "/tmp", number);
  int64_t const extents[2] = {size, 4};
  int64_t const own[2] = {1, 4};
  int const parts[2] = {size, 1};
  double cells[4] = {rank + 0.25, rank + 0.5, rank + 0.75, rank + 1};
  int good = gr_comm_create(MPI_COMM_WORLD, &comm) == GR_SUCCESS &&
             gr_layout_create(2, extents, parts, &layout) == GR_SUCCESS &&
             gr_field_dense(cells, GR_F64, 2, own, &field) == GR_SUCCESS &&
             gr_checkpoints_create(comm, folder, 2, &checkpoints) == GR_SUCCESS &&
             gr_checkpoint_begin(checkpoints, 7, &writer) == GR_SUCCESS &&
             gr_checkpoint_add(writer, "cells", layout, &field) == GR_SUCCESS &&
             gr_checkpoint_commit(writer) == GR_SUCCESS;
  for (int i = 0; i < 4; ++i) cells[i] = -1;
  good = good && gr_checkpoints_newest(checkpoints, &checkpoint) == GR_SUCCESS &&
         gr_checkpoint_read(checkpoint, "cells", layout, &field) == GR_SUCCESS && cells[0] == rank + 0.25 &&
         cells[3] == rank + 1;
  if (!good) fprintf(stderr, "%s\n", gr_error_text());
  // Freed by gr_finalize: these handles live on.
  return good;
}

static void* on_another_thread(void* status) {
  *(gr_status*)status = gr_init(0, NULL);
  if (*(gr_status*)status != GR_SUCCESS &&
      strstr(gr_error_text(), "MPI_Init_thread with MPI_THREAD_SERIALIZED") == NULL)
    *(gr_status*)status = GR_ERROR_OTHER;
  return NULL;
}

/// As nearly every simulation code starts MPI.
static int uses_any_level(int required) {
  int level = MPI_THREAD_SERIALIZED;
  gr_status elsewhere = GR_SUCCESS;
  pthread_t thread;
  if (required == MPI_THREAD_SINGLE)
    MPI_Init(NULL, NULL);
  else
    MPI_Init_thread(NULL, NULL, required, &level);
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
  if (level < MPI_THREAD_SERIALIZED && !refuses_other_threads()) return 6;
  if (!saves()) return 7;
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
  if (strcmp(mode, "single") == 0) return uses_any_level(MPI_THREAD_SINGLE);
  if (strcmp(mode, "funneled") == 0) return uses_any_level(MPI_THREAD_FUNNELED);
  if (strcmp(mode, "again") == 0) return starts_again();
  return strcmp(mode, "late") == 0 ? refuses_after_the_end() : 99;
}
