// SPDX-License-Identifier: BSD-3-Clause
// Handles that were freed, are of another type, or never were any; handles that live longer than the library or MPI.
#include "check.h"

#include <unistd.h>

/// The objects of all types that need no file of a network.
struct all {
  gr_comm* comm;
  gr_teams* teams;
  gr_cuts* cuts;
  gr_layout* layout;
  gr_node_memory* memory;
  gr_halo* halo;
  gr_halo_depth* depth;
  gr_repartition* plan;
  gr_zonal* zonal;
  gr_area_sum* area_sum;
  gr_pending* pending;
  gr_attributes* attributes;
  gr_file* file;
  gr_writer* writer;
  gr_checkpoints* checkpoints;
  gr_checkpoint_writer* checkpoint_writer;
  gr_checkpoint* checkpoint;
};

static double cells[6 * 10];
static double rows[4 * 8];

static gr_field rows_of(void) {
  gr_field field;
  int64_t const extents[2] = {4, 8};
  OK(gr_field_dense(rows, GR_F64, 2, extents, &field));
  return field;
}

static struct all all_handles(char const* folder) {
  struct all h;
  memset(&h, 0, sizeof h);
  int64_t const extents[2] = {4 * world_size, 8};
  int64_t const lower[2] = {4 * world_rank, 0};
  int64_t const upper[2] = {4 * world_rank + 4, 8};
  int const parts[2] = {world_size, 1};
  int const sizes[1] = {world_size};
  char const* const names[1] = {"all"};
  char path[4096];
  double* weights = calloc((size_t)extents[0], sizeof *weights);
  for (int i = 0; i < extents[0]; ++i) weights[i] = 1;
  OK(gr_comm_create(MPI_COMM_WORLD, &h.comm));
  OK(gr_teams_create(h.comm, 1, names, sizes, &h.teams));
  OK(gr_cuts_create_balanced(8, 2, &h.cuts));
  OK(gr_layout_create(2, extents, parts, &h.layout));
  OK(gr_node_memory_create(64, &h.memory));
  gr_halo_kind kind;
  OK(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind));
  OK(gr_halo_create(h.comm, h.layout, 1, &kind, &h.halo));
  OK(gr_halo_depth_create(h.halo, "q", 0, GR_EVEN, &h.depth));
  OK(gr_repartition_create(h.comm, h.layout, h.layout, NULL, &h.plan));
  OK(gr_zonal_create(h.comm, h.layout, 1, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &h.zonal));
  OK(gr_area_sum_create(h.comm, h.layout, 1, 0, (int)extents[0], weights, GR_SCALE_SUM, &h.area_sum));
  free(weights);
  OK(gr_attributes_create(&h.attributes));
  gr_field const field = rows_of();
  snprintf(path, sizeof path, "%s/r.nc", folder);
  OK(gr_writer_create(h.comm, path, NULL, &h.writer));
  OK(gr_writer_add_dimension(h.writer, "y", extents[0], 0));
  OK(gr_writer_add_dimension(h.writer, "x", 8, 0));
  OK(gr_writer_add_variable(h.writer, "q", "y x", GR_F64, NULL, NULL));
  OK(gr_writer_write(h.writer, "q", 2, lower, upper, NULL, 0, NULL, &field));
  OK(gr_writer_commit(h.writer));
  OK(gr_writer_destroy(&h.writer));
  OK(gr_file_open(h.comm, path, &h.file));
  snprintf(path, sizeof path, "%s/w.nc", folder);
  OK(gr_writer_create(h.comm, path, NULL, &h.writer));
  OK(gr_checkpoints_create(h.comm, folder, 2, &h.checkpoints));
  OK(gr_checkpoint_begin(h.checkpoints, 1, &h.checkpoint_writer));
  OK(gr_checkpoint_add(h.checkpoint_writer, "q", h.layout, &field));
  OK(gr_checkpoint_commit(h.checkpoint_writer));
  OK(gr_checkpoint_writer_destroy(&h.checkpoint_writer));
  OK(gr_checkpoints_newest(h.checkpoints, &h.checkpoint));
  OK(gr_checkpoint_begin(h.checkpoints, 2, &h.checkpoint_writer));
  int64_t const local[2] = {6, 10};
  gr_field halo_field;
  OK(gr_field_dense(cells, GR_F64, 2, local, &halo_field));
  OK(gr_halo_start(h.halo, 1, &halo_field, &h.pending));
  return h;
}

/// A use of a handle of each type. @return how many did not refuse it with `part` in the text
static int uses(struct all h, char const* part) {
  struct all made;
  memset(&made, 0, sizeof made);
  int number = 0;
  int64_t box[2];
  char const* text = NULL;
  void* address = NULL;
  double value = 0;
  gr_field const field = rows_of();
  int wrong = 0;
  gr_halo_kind kind;
  OK(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kind));
#define USE(call)                                                                \
  do {                                                                           \
    gr_status const status_ = (call);                                            \
    if (status_ != GR_ERROR_ARGUMENT || strstr(gr_error_text(), part) == NULL) { \
      failed(__FILE__, __LINE__, #call);                                         \
      ++wrong;                                                                   \
    }                                                                            \
  } while (0)
  USE(gr_comm_rank(h.comm, &number));
  USE(gr_teams_world(h.teams, &made.comm));
  USE(gr_cuts_num_parts(h.cuts, &number));
  USE(gr_layout_ndim(h.layout, &number));
  USE(gr_layout_owned(h.layout, 0, 2, box, box));
  USE(gr_node_memory_address(h.memory, &address));
  USE(gr_halo_owned(h.halo, 2, box, box));
  USE(gr_halo_exchange(h.halo, 1, &field));
  USE(gr_halo_depth_exchanged(h.depth));
  USE(gr_repartition_num_targets(h.plan, &number));
  USE(gr_zonal_cells(h.zonal, 2, box, box));
  USE(gr_area_sum_apply(h.area_sum, &field, 1, &value));
  USE(gr_test(h.pending, &number));
  USE(gr_attributes_add_text(h.attributes, "a", "b"));
  USE(gr_file_num_variables(h.file, &number));
  USE(gr_writer_commit(h.writer));
  USE(gr_checkpoints_skipped(h.checkpoints, &text));
  USE(gr_checkpoint_commit(h.checkpoint_writer));
  USE(gr_checkpoint_path(h.checkpoint, &text));
  // As an argument of calls of others.
  USE(gr_layout_create_cuts(1, (gr_cuts const* const*)&h.cuts, 1, NULL, &made.layout));
#undef USE
  return wrong;
}

/// Frees every handle. @return how many frees did not give `status`
static int frees(struct all* h, gr_status status) {
  int wrong = 0;
#define FREE(call)                       \
  do {                                   \
    if ((call) != status) {              \
      failed(__FILE__, __LINE__, #call); \
      ++wrong;                           \
    }                                    \
  } while (0)
  FREE(gr_finish(&h->pending));
  FREE(gr_checkpoint_close(&h->checkpoint));
  FREE(gr_checkpoint_writer_destroy(&h->checkpoint_writer));
  FREE(gr_checkpoints_destroy(&h->checkpoints));
  FREE(gr_writer_destroy(&h->writer));
  FREE(gr_file_close(&h->file));
  FREE(gr_attributes_destroy(&h->attributes));
  FREE(gr_area_sum_destroy(&h->area_sum));
  FREE(gr_zonal_destroy(&h->zonal));
  FREE(gr_repartition_destroy(&h->plan));
  FREE(gr_halo_depth_destroy(&h->depth));
  FREE(gr_halo_destroy(&h->halo));
  FREE(gr_node_memory_destroy(&h->memory));
  FREE(gr_layout_destroy(&h->layout));
  FREE(gr_cuts_destroy(&h->cuts));
  FREE(gr_teams_destroy(&h->teams));
  FREE(gr_comm_destroy(&h->comm));
#undef FREE
  return wrong;
}

static void refuses_copies(char const* folder) {
  struct all h = all_handles(folder);
  struct all copy = h;
  CHECK(frees(&h, GR_SUCCESS) == 0);
  CHECK(h.comm == NULL && h.layout == NULL && h.pending == NULL);
  CHECK(uses(copy, "is a copy of a handle that was freed") == 0);
  CHECK(frees(&copy, GR_ERROR_ARGUMENT) == 0);
  // New handles do not make the copies valid again.
  struct all next = all_handles(folder);
  CHECK(uses(copy, "is a copy of a handle that was freed") == 0);
  CHECK(frees(&copy, GR_ERROR_ARGUMENT) == 0);
  CHECK(frees(&next, GR_SUCCESS) == 0);
}

static void refuses_others(void) {
  gr_layout* layout = NULL;
  gr_cuts* cuts = NULL;
  int64_t const extents[2] = {4, 4};
  int const parts[2] = {1, 1};
  int number = 0;
  OK(gr_layout_create(2, extents, parts, &layout));
  OK(gr_cuts_create_balanced(8, 2, &cuts));
  REFUSES(gr_cuts_num_parts((gr_cuts*)(void*)layout, &number), "gr_cuts_num_parts: BadArgument: cuts is a gr_layout");
  REFUSES(gr_layout_ndim((gr_layout*)(void*)cuts, &number), "layout is a gr_cuts");
  gr_cuts* wrong = (gr_cuts*)(void*)layout;
  REFUSES(gr_cuts_destroy(&wrong), "cuts is a gr_layout");
  OK(gr_layout_ndim(layout, &number));
  OK(gr_cuts_destroy(&cuts));
  OK(gr_layout_destroy(&layout));
  struct all garbage;
  memset(&garbage, 0x5a, sizeof garbage);
  CHECK(uses(garbage, " of this program") == 0);
  CHECK(frees(&garbage, GR_ERROR_ARGUMENT) == 0);
  memset(&garbage, 0xff, sizeof garbage);
  CHECK(uses(garbage, " of this program") == 0);
  memset(&garbage, 0, sizeof garbage);
  CHECK(uses(garbage, " is NULL") == 0);
}

/// What live handles are named by, on stderr in check mode.
static void frees_what_is_left(char const* folder) {
  struct all h = all_handles(folder);
  OK(gr_finalize());
  int number = 0;
  FAILS(gr_layout_ndim(h.layout, &number), GR_ERROR_PROGRAM, "gr_init was not called");
  FAILS(gr_layout_destroy(&h.layout), GR_ERROR_PROGRAM, "gr_init was not called");
  OK(gr_init(0, NULL));
  CHECK(uses(h, "is a copy of a handle that was freed") == 0);
}

static int remove_folder(char const* folder) {
  char command[5000];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

int main(int argc, char** argv) {
  char folder[4096] = "";
  begin(argc, argv);
  if (world_rank == 0) {
    char const* const tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/graticule-handles-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  // As often as wanted within one MPI.
  for (int round = 0; round < 3; ++round) {
    OK(gr_init(0, NULL));
    if (round == 0) refuses_copies(folder);
    if (round == 1) refuses_others();
    frees_what_is_left(folder);
    OK(gr_finalize());
  }
  FAILS(gr_finalize(), GR_ERROR_PROGRAM, "gr_init was not called");
  char const* const memory = getenv("GRATICULE_TEST_MEMORY");
  if (memory != NULL && strcmp(memory, "valgrind") == 0) {
    if (world_rank == 0) {
      printf("skipped: communicators that live longer than MPI are lost memory for valgrind\n");
      CHECK(remove_folder(folder) == 0);
    }
    return end();
  }
  // The handles of the last round live longer than MPI.
  OK(gr_init(0, NULL));
  struct all h = all_handles(folder);
  if (world_rank == 0) CHECK(remove_folder(folder) == 0);
  gr_field const field = rows_of();
  int const status = end();
  int number = 0;
  int wrong = 0;
  wrong += gr_halo_exchange(h.halo, 1, &field) != GR_ERROR_PROGRAM || strstr(gr_error_text(), "MPI has ended") == NULL;
  wrong += gr_layout_ndim(h.layout, &number) != GR_ERROR_PROGRAM;
  wrong += gr_layout_destroy(&h.layout) != GR_SUCCESS;
  wrong += gr_halo_destroy(&h.halo) != GR_SUCCESS;
  wrong += gr_writer_destroy(&h.writer) != GR_SUCCESS;
  wrong += gr_finalize() != GR_SUCCESS;
  wrong += gr_init(0, NULL) != GR_ERROR_PROGRAM || strstr(gr_error_text(), "MPI has ended") == NULL;
  wrong += gr_finalize() != GR_ERROR_PROGRAM;
  if (wrong != 0) fprintf(stderr, "%d calls after MPI_Finalize are wrong, the last: %s\n", wrong, gr_error_text());
  return status != 0 || wrong != 0;
}
