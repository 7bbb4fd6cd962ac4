// SPDX-License-Identifier: BSD-3-Clause
// Repartitions: permutation, conversion, factors, sub-boxes, several targets, inverses and adjoints.
#include "check.h"

#include <math.h>

enum { ROWS = 7, COLUMNS = 6, MOST = 3 * ROWS * COLUMNS };

static gr_comm* comm = NULL;
static gr_layout* by_rows = NULL;
static gr_layout* by_columns = NULL;

static double cell(int64_t i, int64_t j) { return (double)(100 * i + j + 1); }

typedef struct box {
  int64_t lo[2];
  int64_t hi[2];
} box;

static int64_t extent(box const* b, int a) { return b->hi[a] > b->lo[a] ? b->hi[a] - b->lo[a] : 0; }

static void fill(double* cells, box const* b) {
  int64_t n = 0;
  for (int64_t i = b->lo[0]; i < b->hi[0]; ++i)
    for (int64_t j = b->lo[1]; j < b->hi[1]; ++j) cells[n++] = cell(i, j);
}

static gr_field field_on(double* cells, box const* b) { return field_of(cells, 1, extent(b, 0), extent(b, 1)); }

static box source_of(gr_repartition const* plan) {
  box b;
  OK(gr_repartition_source(plan, 2, b.lo, b.hi));
  return b;
}

static box target_of(gr_repartition const* plan, int target) {
  box b;
  OK(gr_repartition_target(plan, target, 2, b.lo, b.hi));
  return b;
}

static void moves_and_moves_back(void) {
  gr_repartition* plan = NULL;
  OK(gr_repartition_create(comm, by_rows, by_columns, NULL, &plan));
  box const from = source_of(plan);
  box const to = target_of(plan, 0);
  int num_targets = 0;
  OK(gr_repartition_num_targets(plan, &num_targets));
  CHECK(num_targets == 1);
  double old[MOST];
  double moved[MOST];
  fill(old, &from);
  for (int n = 0; n < MOST; ++n) moved[n] = NAN;
  gr_field const source = field_on(old, &from);
  gr_field const target = field_on(moved, &to);
  OK(gr_repartition_apply(plan, 1, &source, 1, &target, NULL));
  int wrong = 0;
  int64_t n = 0;
  for (int64_t i = to.lo[0]; i < to.hi[0]; ++i)
    for (int64_t j = to.lo[1]; j < to.hi[1]; ++j) wrong += moved[n++] != cell(i, j);
  CHECK(wrong == 0);

  // Half of it added: 1.5 times the field; and in flight.
  gr_update half = GR_UPDATE_INIT;
  half.alpha[0] = 0.5;
  half.has_beta = 1;
  half.beta[0] = 1;
  gr_pending* pending = NULL;
  OK(gr_repartition_start(plan, 1, &source, 1, &target, &half, &pending));
  OK(gr_finish(&pending));
  n = 0;
  for (int64_t i = to.lo[0]; i < to.hi[0]; ++i)
    for (int64_t j = to.lo[1]; j < to.hi[1]; ++j) wrong += moved[n++] != 1.5 * cell(i, j);
  CHECK(wrong == 0);

  // Back.
  for (int call = 0; call < 2; ++call) {
    for (int64_t k = 0; k < MOST; ++k) old[k] = NAN;
    if (call == 0) {
      OK(gr_repartition_apply_inverse(plan, 1, &source, 1, &target, NULL));
    } else {
      OK(gr_repartition_start_inverse(plan, 1, &source, 1, &target, NULL, &pending));
      OK(gr_finish(&pending));
    }
    n = 0;
    for (int64_t i = from.lo[0]; i < from.hi[0]; ++i)
      for (int64_t j = from.lo[1]; j < from.hi[1]; ++j) wrong += old[n++] != 1.5 * cell(i, j);
    CHECK(wrong == 0);
  }
  // The adjoint adds.
  for (int call = 0; call < 2; ++call) {
    fill(old, &from);
    if (call == 0) {
      OK(gr_repartition_apply_adjoint(plan, 1, &source, 1, &target, NULL));
    } else {
      OK(gr_repartition_start_adjoint(plan, 1, &source, 1, &target, NULL, &pending));
      OK(gr_finish(&pending));
    }
    n = 0;
    for (int64_t i = from.lo[0]; i < from.hi[0]; ++i)
      for (int64_t j = from.lo[1]; j < from.hi[1]; ++j) wrong += old[n++] != 2.5 * cell(i, j);
    CHECK(wrong == 0);
  }
  OK(gr_repartition_destroy(&plan));
}

/// Longitude first, every second row from the south, as packed 16-bit integers.
static void permutes_selects_and_packs(void) {
  gr_layout* swapped = NULL;
  int64_t const extents[2] = {COLUMNS, 4};
  int const parts[2] = {world_size, 1};
  OK(gr_layout_create(2, extents, parts, &swapped));
  gr_repartition_options options = GR_REPARTITION_OPTIONS_INIT;
  options.ndim = 2;
  options.has_permutation = 1;
  options.permutation[0] = 1;
  options.permutation[1] = 0;
  options.has_from = 1;
  options.from_first[0] = ROWS - 1;
  options.from_step[0] = -2;
  options.from_count[0] = 4;
  options.from_step[1] = 1;
  options.from_count[1] = COLUMNS;
  options.workspace_bytes = 1 << 20;
  gr_repartition* plan = NULL;
  OK(gr_repartition_create(comm, by_rows, swapped, &options, &plan));
  box const from = source_of(plan);
  box const to = target_of(plan, 0);
  double old[MOST];
  int16_t packed[MOST];
  fill(old, &from);
  if (from.lo[0] < from.hi[0] && from.hi[0] == ROWS) old[(ROWS - 1 - from.lo[0]) * COLUMNS] = NAN;
  gr_field const source = field_on(old, &from);
  gr_field target;
  int64_t const shape[3] = {1, extent(&to, 0), extent(&to, 1)};
  OK(gr_field_dense(packed, GR_I16, 3, shape, &target));
  gr_update update = GR_UPDATE_INIT;
  update.to_packed = 1;
  update.to_scale = 0.5;
  update.to_offset = 1;
  update.to_has_missing = 1;
  update.to_missing = -999;
  OK(gr_repartition_apply(plan, 1, &source, 1, &target, &update));
  int wrong = 0;
  for (int64_t j = to.lo[0]; j < to.hi[0]; ++j)
    for (int64_t k = to.lo[1]; k < to.hi[1]; ++k) {
      int const expected = j == 0 && k == 0 ? -999 : (int)(2 * (cell(ROWS - 1 - 2 * k, j) - 1));
      wrong += packed[(j - to.lo[0]) * shape[2] + k - to.lo[1]] != expected;
    }
  CHECK(wrong == 0);
  // NaN of one rank, without a value for it, is an error on all.
  update.to_has_missing = 0;
  FAILS(gr_repartition_apply(plan, 1, &source, 1, &target, &update), GR_ERROR_PROGRAM, "Conversion");
  update.to_has_missing = 1;
  update.to_scale = 1e-6;
  FAILS(gr_repartition_apply(plan, 1, &source, 1, &target, &update), GR_ERROR_PROGRAM, "Conversion");
  OK(gr_repartition_destroy(&plan));
  options.permutation[1] = 1;
  FAILS(gr_repartition_create(comm, by_rows, swapped, &options, &plan), GR_ERROR_PROGRAM, "AxesMismatch");
  options.ndim = 0;
  REFUSES(gr_repartition_create(comm, by_rows, swapped, &options, &plan), "options.ndim is 0");
  options.ndim = 2;
  options.workspace_bytes = -1;
  options.permutation[1] = 0;
  REFUSES(gr_repartition_create(comm, by_rows, swapped, &options, &plan), "options.workspace_bytes is -1");
  OK(gr_layout_destroy(&swapped));
}

/// The first and the last row on rank 0, two fields in one call; nothing on the others.
static void fills_several_boxes(void) {
  int64_t const lower[2][2] = {{0, 0}, {ROWS - 1, 0}};
  int64_t const upper[2][2] = {{1, COLUMNS}, {ROWS, COLUMNS}};
  gr_repartition* plan = NULL;
  int const mine = world_rank == 0 ? 2 : 0;
  OK(gr_repartition_create_boxes(comm, by_rows, 2, mine, lower[0], upper[0], NULL, &plan));
  int num_targets = 0;
  OK(gr_repartition_num_targets(plan, &num_targets));
  CHECK(num_targets == (world_rank == 0 ? 2 : 1));
  box const from = source_of(plan);
  double old[2][MOST];
  double rows[4][COLUMNS];
  fill(old[0], &from);
  for (int n = 0; n < MOST; ++n) old[1][n] = -1;
  gr_field const source[2] = {field_on(old[0], &from), field_on(old[1], &from)};
  gr_field target[4];
  for (int t = 0; t < 2 * num_targets; ++t) {
    box const b = target_of(plan, t % num_targets);
    target[t] = field_on(rows[t], &b);
  }
  OK(gr_repartition_apply(plan, 2, source, 2 * num_targets, target, NULL));
  if (world_rank == 0)
    for (int j = 0; j < COLUMNS; ++j)
      CHECK(rows[0][j] == cell(0, j) && rows[1][j] == cell(ROWS - 1, j) && rows[2][j] == -1 && rows[3][j] == -1);
  REFUSES(gr_repartition_apply(plan, 2, source, 2 * num_targets + 1, target, NULL), "num_to is");
  int64_t lo[2];
  int64_t hi[2];
  REFUSES(gr_repartition_target(plan, num_targets, 2, lo, hi), "target is");
  OK(gr_repartition_destroy(&plan));
  REFUSES(gr_repartition_create_boxes(comm, by_rows, 3, mine, lower[0], upper[0], NULL, &plan),
          "ndim is 3, the grid has 2 axes");
  REFUSES(gr_repartition_create_boxes(comm, by_rows, 2, world_rank == 0 ? -1 : 0, lower[0], upper[0], NULL, &plan),
          "num_boxes is -1");
  REFUSES(gr_repartition_create_boxes(comm, by_rows, 2, 1, NULL, upper[0], NULL, &plan), "lower is NULL");
}

static void reports(void) {
  gr_repartition* plan = NULL;
  OK(gr_repartition_create(comm, by_rows, by_columns, NULL, &plan));
  box const from = source_of(plan);
  box const to = target_of(plan, 0);
  double old[MOST];
  double moved[MOST];
  fill(old, &from);
  gr_field const source = field_on(old, &from);
  gr_field const target = field_on(moved, &to);
  OK(gr_repartition_set_transport(plan, GR_TRANSPORT_POINT_TO_POINT));
  OK(gr_repartition_apply(plan, 1, &source, 1, &target, NULL));
  gr_counts counts = GR_COUNTS_INIT;
  gr_stats stats = GR_STATS_INIT;
  OK(gr_repartition_counts(plan, &counts));
  OK(gr_repartition_stats(plan, &stats));
  CHECK(counts.receive_cells + counts.local_cells == extent(&to, 0) * extent(&to, 1));
  CHECK(stats.num_calls == 1);
  char const* text = NULL;
  OK(gr_repartition_report(plan, &text));
  CHECK((strstr(text, "cells out") != NULL) == (counts.num_send_peers + counts.num_receive_peers > 0));
  gr_transport chosen = (gr_transport)-1;
  OK(gr_repartition_tune(plan, 1, &source, 1, &target, 2, &chosen));
  CHECK((int)chosen >= 0 && (int)chosen <= 2);
  OK(gr_repartition_dump(plan, "bindings-repartition-plan.json"));
  if (world_rank == 0) CHECK(remove("bindings-repartition-plan.json") == 0);

  gr_pending* pending = NULL;
  gr_field bad = source;
  bad.type = (gr_type)-7;
  REFUSES(gr_repartition_apply(plan, 1, &bad, 1, &target, NULL), "from[0]: an array of a type");
  REFUSES(gr_repartition_start(plan, 1, &source, 1, NULL, NULL, &pending), "to is NULL");
  REFUSES(gr_repartition_start_adjoint(plan, 0, &source, 0, &target, NULL, &pending), "num_from is 0");
  REFUSES(gr_repartition_start_inverse(plan, 1, &source, 1, &target, NULL, NULL), "pending is NULL");
  REFUSES(gr_repartition_apply_adjoint(NULL, 1, &source, 1, &target, NULL), "plan is NULL");
  gr_update update = GR_UPDATE_INIT;
  update.size = 2;
  REFUSES(gr_repartition_apply_inverse(plan, 1, &source, 1, &target, &update), "updates[0].size is 2");
  gr_update imaginary = GR_UPDATE_INIT;
  imaginary.alpha[1] = 1;
  FAILS(gr_repartition_apply(plan, 1, &source, 1, &target, &imaginary), GR_ERROR_PROGRAM, "Conversion");
  REFUSES(gr_repartition_tune(plan, 1, &source, 1, &target, 2, NULL), "chosen is NULL");
  REFUSES(gr_repartition_set_transport(NULL, GR_TRANSPORT_AUTOMATIC), "plan is NULL");
  REFUSES(gr_repartition_counts(plan, NULL), "counts is NULL");
  REFUSES(gr_repartition_stats(NULL, &stats), "plan is NULL");
  REFUSES(gr_repartition_report(plan, NULL), "text is NULL");
  REFUSES(gr_repartition_dump(plan, NULL), "path is NULL");
  REFUSES(gr_repartition_num_targets(plan, NULL), "num_targets is NULL");
  REFUSES(gr_repartition_source(plan, 1, moved == NULL ? NULL : (int64_t[1]){0}, (int64_t[1]){0}),
          "ndim is 1, the grid has 2 axes");
  CHECK(pending == NULL);
  OK(gr_repartition_apply(plan, 1, &source, 1, &target, NULL));
  OK(gr_repartition_destroy(&plan));
  REFUSES(gr_repartition_destroy(NULL), "plan is NULL");
  REFUSES(gr_repartition_create(comm, by_rows, NULL, NULL, &plan), "to is NULL");
  CHECK(plan == NULL);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const rows[2] = {world_size, 1};
  int const columns[2] = {1, world_size};
  OK(gr_layout_create(2, extents, rows, &by_rows));
  OK(gr_layout_create(2, extents, columns, &by_columns));
  moves_and_moves_back();
  permutes_selects_and_packs();
  fills_several_boxes();
  reports();
  OK(gr_layout_destroy(&by_rows));
  OK(gr_layout_destroy(&by_columns));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
