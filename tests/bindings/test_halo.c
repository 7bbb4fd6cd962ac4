// SPDX-License-Identifier: BSD-3-Clause
// Halo plans: boxes, exchanges of several fields and kinds, strided memory, adjoints, transports, reports.
#include "check.h"

#include <math.h>

enum { ROWS = 12, COLUMNS = 8 };

static gr_comm* comm = NULL;
static gr_layout* layout = NULL;

/// Value of the global cell (i, j) of a scalar.
static double cell(int64_t i, int64_t j) { return (double)(100 * i + j); }

/// What a ghost cell of a sphere with a pole on the outer face gets; `sign` is -1 for vectors across a pole.
static double image(int64_t i, int64_t j, double sign) {
  double factor = 1;
  if (i < 0 || i >= ROWS) {
    i = i < 0 ? -1 - i : 2 * ROWS - 1 - i;
    j += COLUMNS / 2;
    factor = sign;
  }
  return factor * cell(i, (j % COLUMNS + COLUMNS) % COLUMNS);
}

/// A box with its memory: one array of `num_batch` levels.
typedef struct box {
  int64_t lo[2];
  int64_t hi[2];
  int64_t rows;
  int64_t columns;
} box;

static box local_box(gr_halo const* halo, int kind) {
  box result;
  OK(gr_halo_local(halo, kind, 2, result.lo, result.hi));
  result.rows = result.hi[0] - result.lo[0];
  result.columns = result.hi[1] - result.lo[1];
  return result;
}

static void fill(double* cells, box const* local, box const* owned, double offset) {
  for (int64_t i = local->lo[0]; i < local->hi[0]; ++i)
    for (int64_t j = local->lo[1]; j < local->hi[1]; ++j)
      cells[(i - local->lo[0]) * local->columns + j - local->lo[1]] =
          i >= owned->lo[0] && i < owned->hi[0] && j >= owned->lo[1] && j < owned->hi[1] ? cell(i, j) + offset : NAN;
}

static int wrong_cells(double const* cells, box const* local, double sign) {
  int wrong = 0;
  for (int64_t i = local->lo[0]; i < local->hi[0]; ++i)
    for (int64_t j = local->lo[1]; j < local->hi[1]; ++j)
      if (cells[(i - local->lo[0]) * local->columns + j - local->lo[1]] != image(i, j, sign)) ++wrong;
  return wrong;
}

static box owned_box(gr_halo const* halo) {
  box result;
  OK(gr_halo_owned(halo, 2, result.lo, result.hi));
  result.rows = result.hi[0] - result.lo[0];
  result.columns = result.hi[1] - result.lo[1];
  return result;
}

static void makes_kinds(void) {
  gr_halo_kind kind;
  OK(gr_halo_kind_uniform(3, GR_EDGE_REPLICATE, 2, &kind));
  CHECK(kind.size == sizeof kind && kind.ndim == 3 && kind.lower[2] == 2 && kind.upper[0] == 2 && kind.lower[3] == 0);
  CHECK(kind.lower_edge[1] == GR_EDGE_REPLICATE && kind.upper_edge[2] == GR_EDGE_REPLICATE);
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, &kind));
  CHECK(kind.lower_edge[0] == GR_EDGE_POLE_ROW && kind.upper_edge[0] == GR_EDGE_POLE_ROW &&
        kind.lower_edge[1] == GR_EDGE_PERIODIC && kind.longitude_axis == 1);
  OK(gr_halo_kind_tripolar(GR_EDGE_CONSTANT, GR_EDGE_TRIPOLAR_ROW, 1, &kind));
  CHECK(kind.lower_edge[0] == GR_EDGE_CONSTANT && kind.upper_edge[0] == GR_EDGE_TRIPOLAR_ROW &&
        kind.mirror_line == GR_COPY_MIRROR);
  REFUSES(gr_halo_kind_uniform(0, GR_EDGE_CONSTANT, 1, &kind), "ndim is 0");
  REFUSES(gr_halo_kind_uniform(2, (gr_edge)12, 1, &kind), "edge is 12; known are 0 to 11");
  REFUSES(gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, NULL), "kind is NULL");
  REFUSES(gr_halo_kind_tripolar(GR_EDGE_CONSTANT, (gr_edge)-1, 1, &kind), "seam is -1");
}

/// A description that differs from that of the call before in one member only is read anew.
static void reads_each_description(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  box const local = local_box(halo, 0);
  box const owned = owned_box(halo);
  int64_t const size = local.rows * local.columns;
  double* const cells = malloc(sizeof(double) * (size_t)(2 * size));
  gr_field field = field_of(cells, 1, local.rows, local.columns);
  for (int call = 0; call < 6; ++call) {
    double* const base = cells + (call / 2 % 2) * size;
    field.base = base;
    field.parity = call >= 4 ? GR_ODD : GR_EVEN;
    fill(base, &local, &owned, 0);
    OK(gr_halo_exchange(halo, 1, &field));
    CHECK(wrong_cells(base, &local, call >= 4 ? -1 : 1) == 0);
  }
  field.kind = 1;
  REFUSES(gr_halo_exchange(halo, 1, &field), "fields[0].kind is 1 of a plan with 1 kinds");
  free(cells);
  OK(gr_halo_destroy(&halo));
}

static void exchanges_several_fields(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 2, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  box const local = local_box(halo, 0);
  box const owned = owned_box(halo);
  CHECK(local.lo[0] == owned.lo[0] - 2 && local.hi[1] == owned.hi[1] + 2);
  int64_t const size = local.rows * local.columns;
  double* const cells = malloc(sizeof(double) * (size_t)(3 * size));
  gr_field fields[2] = {field_of(cells, 1, local.rows, local.columns),
                        field_of(cells + size, 1, local.rows, local.columns)};
  fields[1].parity = GR_ODD;
  for (int call = 0; call < 2; ++call) {
    fill(cells, &local, &owned, 0);
    fill(cells + size, &local, &owned, 0);
    if (call == 0) {
      OK(gr_halo_exchange(halo, 2, fields));
    } else {
      gr_pending* pending = NULL;
      int complete = 0;
      OK(gr_halo_start(halo, 2, fields, &pending));
      while (!complete) OK(gr_test(pending, &complete));
      OK(gr_finish(&pending));
      CHECK(pending == NULL);
      REFUSES(gr_finish(&pending), "*pending is NULL");
      REFUSES(gr_finish(NULL), "pending is NULL");
      REFUSES(gr_test(NULL, &complete), "pending is NULL");
    }
    CHECK(wrong_cells(cells, &local, 1) == 0);
    CHECK(wrong_cells(cells + size, &local, -1) == 0);
  }

  // In the middle of a larger array, with rows from north to south: `first` and a negative stride.
  int64_t const rows = owned.rows + 8;
  int64_t const columns = owned.columns + 7;
  double* const large = malloc(sizeof(double) * (size_t)(rows * columns));
  for (int64_t n = 0; n < rows * columns; ++n) large[n] = -7;
  gr_field part = field_of(large, 1, rows, columns);
  part.base = large + (rows - 1) * columns;
  part.strides[1] = -part.strides[1];
  part.has_first = 1;
  part.first[1] = 3;
  part.first[2] = 4;
  double* const first = large + (rows - 1 - 3) * columns + 4;
  for (int64_t i = 0; i < owned.rows; ++i)
    for (int64_t j = 0; j < owned.columns; ++j) first[-i * columns + j] = cell(owned.lo[0] + i, owned.lo[1] + j);
  OK(gr_halo_exchange(halo, 1, &part));
  int wrong = 0;
  int64_t touched = 0;
  for (int64_t i = -2; i < owned.rows + 2; ++i)
    for (int64_t j = -2; j < owned.columns + 2; ++j)
      if (first[-i * columns + j] != image(owned.lo[0] + i, owned.lo[1] + j, 1)) ++wrong;
  for (int64_t n = 0; n < rows * columns; ++n) touched += large[n] != -7;
  CHECK(wrong == 0 && touched == local.rows * local.columns);
  part.first[1] = 1;
  REFUSES(gr_halo_exchange(halo, 1, &part), "fields[0].first[1] is 1");
  part.first[1] = 3;
  part.first[0] = 1;
  REFUSES(gr_halo_exchange(halo, 1, &part), "fields[0].first[0] is 1 on an axis that is not of the grid");
  free(large);

  // Columns first in memory, and channels interleaved.
  gr_field swapped = GR_FIELD_INIT;
  swapped.base = cells;
  swapped.type = GR_F32;
  swapped.rank = 3;
  swapped.extents[0] = local.columns;
  swapped.extents[1] = local.rows;
  swapped.extents[2] = 2;
  swapped.strides[2] = sizeof(float);
  swapped.strides[1] = 2 * (int64_t)sizeof(float);
  swapped.strides[0] = local.rows * swapped.strides[1];
  swapped.num_grid_axes = 2;
  swapped.grid_axes[0] = 1;
  swapped.grid_axes[1] = 0;
  float* const values = (float*)cells;
  for (int64_t n = 0; n < 2 * size; ++n) values[n] = NAN;
  for (int64_t i = owned.lo[0]; i < owned.hi[0]; ++i)
    for (int64_t j = owned.lo[1]; j < owned.hi[1]; ++j)
      for (int c = 0; c < 2; ++c)
        values[((j - local.lo[1]) * local.rows + i - local.lo[0]) * 2 + c] = (float)(cell(i, j) + 10000 * c);
  OK(gr_halo_exchange(halo, 1, &swapped));
  wrong = 0;
  for (int64_t i = local.lo[0]; i < local.hi[0]; ++i)
    for (int64_t j = local.lo[1]; j < local.hi[1]; ++j)
      for (int c = 0; c < 2; ++c)
        if (values[((j - local.lo[1]) * local.rows + i - local.lo[0]) * 2 + c] != (float)(image(i, j, 1) + 10000 * c))
          ++wrong;
  CHECK(wrong == 0);
  free(cells);
  OK(gr_halo_destroy(&halo));
  REFUSES(gr_halo_destroy(NULL), "halo is NULL");
}

static void splits_owned_boxes(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  box const owned = owned_box(halo);
  int64_t lo[2];
  int64_t hi[2];
  int64_t los[4][2];
  int64_t his[4][2];
  int num_boxes = -1;
  OK(gr_halo_interior(halo, 0, 2, NULL, NULL, lo, hi));
  CHECK(lo[0] == owned.lo[0] + 1 && hi[0] == owned.hi[0] - 1 && lo[1] == owned.lo[1] + 1 && hi[1] == owned.hi[1] - 1);
  OK(gr_halo_border(halo, 0, 2, NULL, NULL, 4, &num_boxes, los[0], his[0]));
  int64_t cells = (hi[0] - lo[0]) * (hi[1] - lo[1]);
  for (int b = 0; b < num_boxes; ++b) cells += (his[b][0] - los[b][0]) * (his[b][1] - los[b][1]);
  CHECK(num_boxes == 4 && cells == owned.rows * owned.columns);
  int64_t const none[2] = {0, 0};
  OK(gr_halo_interior(halo, 0, 2, none, none, lo, hi));
  CHECK(lo[0] == owned.lo[0] && hi[1] == owned.hi[1]);
  REFUSES(gr_halo_border(halo, 0, 2, NULL, NULL, 3, &num_boxes, los[0], his[0]), "most_boxes is 3, there are 4 boxes");
  FAILS(gr_halo_interior(halo, 1, 2, NULL, NULL, lo, hi), GR_ERROR_PROGRAM,
        "kind must be in [0, 1), the kinds of this plan, got 1");
  REFUSES(gr_halo_interior(halo, 0, 1, NULL, NULL, lo, hi), "ndim is 1, the grid has 2 axes");
  FAILS(gr_halo_local(halo, 3, 2, lo, hi), GR_ERROR_PROGRAM, "kind must be in [0, 1), the kinds of this plan, got 3");
  REFUSES(gr_halo_owned(halo, 2, lo, NULL), "upper is NULL");
  OK(gr_halo_destroy(&halo));
}

/// <A x, y> = <x, A' y> with integers, so exactly.
static void has_the_adjoint(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 2, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  box const local = local_box(halo, 0);
  box const owned = owned_box(halo);
  int64_t const size = local.rows * local.columns;
  double* const x = malloc(sizeof(double) * (size_t)size);
  double* const y = malloc(sizeof(double) * (size_t)size);
  for (int call = 0; call < 2; ++call) {
    double sides[2] = {0, 0};
    double* const given = malloc(sizeof(double) * (size_t)(2 * size));
    for (int64_t n = 0; n < size; ++n) {
      int64_t const i = n / local.columns + local.lo[0];
      int64_t const j = n % local.columns + local.lo[1];
      int const inside = i >= owned.lo[0] && i < owned.hi[0] && j >= owned.lo[1] && j < owned.hi[1];
      x[n] = inside ? (double)((7 * i + 3 * j) % 11) : 0;
      y[n] = (double)((5 * i + 2 * j + 40 + world_rank) % 13);
      given[n] = x[n];
      given[size + n] = y[n];
    }
    gr_field fields[2] = {field_of(x, 1, local.rows, local.columns), field_of(y, 1, local.rows, local.columns)};
    fields[0].parity = GR_ODD;
    fields[1].parity = GR_ODD;
    OK(gr_halo_exchange(halo, 1, &fields[0]));
    if (call == 0) {
      OK(gr_halo_exchange_adjoint(halo, 1, &fields[1]));
    } else {
      gr_pending* pending = NULL;
      OK(gr_halo_start_adjoint(halo, 1, &fields[1], &pending));
      OK(gr_finish(&pending));
    }
    for (int64_t n = 0; n < size; ++n) {
      sides[0] += x[n] * given[size + n];
      sides[1] += given[n] * y[n];
    }
    MPI_Allreduce(MPI_IN_PLACE, sides, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sides[0] == sides[1] && sides[0] != 0);
    free(given);
  }
  free(x);
  free(y);
  OK(gr_halo_destroy(&halo));
}

/// Two kinds in one message: other widths, rules, directions and memory.
static void combines_kinds(void) {
  gr_halo_kind kinds[2];
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kinds[0]));
  OK(gr_halo_kind_uniform(2, GR_EDGE_CONSTANT, 0, &kinds[1]));
  kinds[1].lower[0] = 1;  // only the row below, with a constant beyond the globe
  kinds[1].constant[0] = 42;
  kinds[1].corners = GR_SKIP_CORNERS;
  kinds[1].num_directions = 1;
  kinds[1].directions[0][0] = -1;
  kinds[1].has_memory = 1;
  for (int a = 0; a < 2; ++a) kinds[1].memory_lower[a] = kinds[1].memory_upper[a] = 2;
  OK(gr_halo_create(comm, layout, 2, kinds, &halo));
  box const locals[2] = {local_box(halo, 0), local_box(halo, 1)};
  box const owned = owned_box(halo);
  CHECK(locals[1].rows == owned.rows + 4);
  double* const a = malloc(sizeof(double) * (size_t)(locals[0].rows * locals[0].columns));
  double* const b = malloc(sizeof(double) * (size_t)(locals[1].rows * locals[1].columns));
  fill(a, &locals[0], &owned, 0);
  fill(b, &locals[1], &owned, 0);
  gr_field fields[2] = {field_of(a, 1, locals[0].rows, locals[0].columns),
                        field_of(b, 1, locals[1].rows, locals[1].columns)};
  fields[1].kind = 1;
  OK(gr_halo_exchange(halo, 2, fields));
  CHECK(wrong_cells(a, &locals[0], 1) == 0);
  int wrong = 0;
  for (int64_t i = locals[1].lo[0]; i < locals[1].hi[0]; ++i)
    for (int64_t j = locals[1].lo[1]; j < locals[1].hi[1]; ++j) {
      double const found = b[(i - locals[1].lo[0]) * locals[1].columns + j - locals[1].lo[1]];
      int const column = j >= owned.lo[1] && j < owned.hi[1];
      int const row = i >= owned.lo[0] && i < owned.hi[0];
      if (column && (row || i == owned.lo[0] - 1))
        wrong += found != (i < 0 ? 42 : cell(i, j));
      else
        wrong += !isnan(found);
    }
  CHECK(wrong == 0);
  fields[1].kind = 2;
  REFUSES(gr_halo_exchange(halo, 2, fields), "fields[1].kind is 2 of a plan with 2 kinds");
  free(a);
  free(b);
  OK(gr_halo_destroy(&halo));
}

static void reports(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  box const local = local_box(halo, 0);
  double* const cells = calloc((size_t)(local.rows * local.columns), sizeof(double));
  gr_field const field = field_of(cells, 1, local.rows, local.columns);
  OK(gr_halo_set_transport(halo, GR_TRANSPORT_POINT_TO_POINT));
  OK(gr_halo_exchange(halo, 1, &field));
  gr_counts counts = GR_COUNTS_INIT;
  gr_stats stats = GR_STATS_INIT;
  OK(gr_halo_counts(halo, &counts));
  OK(gr_halo_stats(halo, &stats));
  CHECK(counts.num_send_peers == counts.num_receive_peers && (counts.num_send_peers > 0) == (world_size > 1));
  CHECK(counts.receive_cells + counts.local_cells ==
        local.rows * local.columns - (local.rows - 2) * (local.columns - 2));
  CHECK(stats.num_calls == 1 && stats.point_to_point_messages == counts.num_send_peers);
  CHECK(stats.point_to_point_bytes == 8 * counts.send_cells && stats.local_bytes == 8 * counts.local_cells);
  char const* text = NULL;
  OK(gr_halo_report(halo, &text));
  CHECK((strstr(text, "cells out") != NULL) == (world_size > 1));
  gr_transport chosen = (gr_transport)-1;
  OK(gr_halo_tune(halo, 1, &field, 2, &chosen));
  CHECK(chosen == GR_TRANSPORT_POINT_TO_POINT || chosen == GR_TRANSPORT_NODE_SHARED ||
        chosen == GR_TRANSPORT_AUTOMATIC);
  OK(gr_halo_dump(halo, "bindings-halo-plan.json"));
  if (world_rank == 0) {
    FILE* const file = fopen("bindings-halo-plan.json", "r");
    CHECK(file != NULL);
    if (file != NULL) fclose(file);
    remove("bindings-halo-plan.json");
  }
  // An older program, whose structure ends earlier.
  gr_counts old = GR_COUNTS_INIT;
  old.size = offsetof(gr_counts, receive_cells);
  old.receive_cells = -5;
  OK(gr_halo_counts(halo, &old));
  CHECK(old.send_cells == counts.send_cells && old.receive_cells == -5 &&
        old.size == offsetof(gr_counts, receive_cells));
  old.size = 0;
  REFUSES(gr_halo_counts(halo, &old), "counts.size is 0");
  REFUSES(gr_halo_stats(halo, NULL), "stats is NULL");
  REFUSES(gr_halo_report(NULL, &text), "halo is NULL");
  REFUSES(gr_halo_set_transport(halo, (gr_transport)9), "transport is 9");
  REFUSES(gr_halo_tune(halo, 1, &field, 2, NULL), "chosen is NULL");
  FAILS(gr_halo_tune(halo, 1, &field, 0, &chosen), GR_ERROR_PROGRAM, "0");
  REFUSES(gr_halo_dump(halo, NULL), "path is NULL");
  free(cells);
  OK(gr_halo_destroy(&halo));
}

/// One error that names argument and value; nothing is changed, nobody waits, and the next call works.
static void refuses_bad_arguments(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  FAILS(gr_halo_kind_sphere(GR_EDGE_PERIODIC, 1, &kind), GR_ERROR_PROGRAM,
        "must be pole_face or pole_row, got periodic");
  FAILS(gr_halo_kind_tripolar(GR_EDGE_CONSTANT, GR_EDGE_POLE_ROW, 1, &kind), GR_ERROR_PROGRAM,
        "must be tripolar_face or tripolar_row, got pole_row");
  FAILS(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, -1, &kind), GR_ERROR_PROGRAM, "width is -1");
  FAILS(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, -1, &kind), GR_ERROR_PROGRAM, "width is -1");
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  REFUSES(gr_halo_create(comm, NULL, 1, &kind, &halo), "layout is NULL");
  REFUSES(gr_halo_create(comm, layout, 0, &kind, &halo), "num_kinds is 0, at least 1 is needed");
  REFUSES(gr_halo_create(comm, layout, 1, NULL, &halo), "kinds is NULL");
  kind.lower_edge[1] = 77;
  // On one rank alone: the others get the same error.
  gr_halo_kind const bad_kind = kind;
  kind.lower_edge[1] = GR_EDGE_PERIODIC;
  REFUSES(gr_halo_create(comm, layout, 1, world_rank == 0 ? &bad_kind : &kind, &halo), "kinds[0].lower_edge[1] is 77");
  kind.lower_edge[1] = GR_EDGE_PERIODIC;
  kind.ndim = 3;
  REFUSES(gr_halo_create(comm, layout, 1, &kind, &halo), "kinds[0].ndim is 3, the layout has 2 axes");
  kind.ndim = 2;
  kind.lower[0] = -1;
  FAILS(gr_halo_create(comm, layout, 1, &kind, &halo), GR_ERROR_PROGRAM, "BadHaloWidth");
  kind.lower[0] = 1;
  kind.num_directions = 33;
  REFUSES(gr_halo_create(comm, layout, 1, &kind, &halo), "kinds[0].num_directions is 33, at most 32 are possible");
  CHECK(halo == NULL);
  kind.num_directions = 0;
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));

  box const local = local_box(halo, 0);
  box const owned = owned_box(halo);
  double* const cells = malloc(sizeof(double) * (size_t)(local.rows * local.columns));
  fill(cells, &local, &owned, 0);
  gr_field const good = field_of(cells, 1, local.rows, local.columns);
  gr_field bad = good;
  gr_pending* pending = NULL;
  bad.type = (gr_type)11;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].type is 11; known are 0 to 10");
  bad = good;
  bad.rank = 9;
  REFUSES(gr_halo_start(halo, 1, &bad, &pending), "fields[0].rank is 9, at most 8 is possible");
  bad = good;
  bad.base = NULL;
  REFUSES(gr_halo_exchange_adjoint(halo, 1, &bad), "fields[0].base is NULL");
  bad = good;
  bad.strides[1] += 3;
  REFUSES(gr_halo_start_adjoint(halo, 1, &bad, &pending), "bytes, which is no multiple of the 8 of f64");
  bad = good;
  bad.parity = (gr_parity)2;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].parity is 2");
  bad = good;
  bad.extents[0] = -2;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].extents[0] is -2");
  bad = good;
  bad.space = (gr_space)5;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].space is 5");
  bad = good;
  bad.size = 1;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].size is 1");
  bad = good;
  bad.num_grid_axes = 2;
  bad.grid_axes[1] = 3;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].grid_axes[1] is 3 of a field of 3 axes");
  bad.num_grid_axes = 1;
  REFUSES(gr_halo_exchange(halo, 1, &bad), "fields[0].num_grid_axes is 1, the grid has 2 axes");
  REFUSES(gr_halo_exchange(halo, 1, NULL), "fields is NULL");
  REFUSES(gr_halo_exchange(halo, 0, &good), "num_fields is 0");
  REFUSES(gr_halo_start(halo, 1, &good, NULL), "pending is NULL");
  REFUSES(gr_halo_exchange(NULL, 1, &good), "halo is NULL");
  bad = good;
  bad.extents[2] -= 1;
  FAILS(gr_halo_exchange(halo, 1, &bad), GR_ERROR_PROGRAM, "FieldMismatch");
  CHECK(pending == NULL);

  // Nothing has changed.
  int wrong = 0;
  for (int64_t i = local.lo[0]; i < local.hi[0]; ++i)
    for (int64_t j = local.lo[1]; j < local.hi[1]; ++j) {
      double const found = cells[(i - local.lo[0]) * local.columns + j - local.lo[1]];
      int const inside = i >= owned.lo[0] && i < owned.hi[0] && j >= owned.lo[1] && j < owned.hi[1];
      wrong += inside ? found != cell(i, j) : !isnan(found);
    }
  CHECK(wrong == 0);

  // A field that one rank alone cannot use: its peers do not wait.
  bad = good;
  bad.type = (gr_type)11;
  gr_status const status = gr_halo_exchange(halo, 1, world_rank == 0 ? &bad : &good);
  if (world_rank == 0)
    CHECK(status == GR_ERROR_ARGUMENT);
  else if (status != GR_SUCCESS)
    RULE("PeerRefused");
  CHECK(status != GR_SUCCESS || world_rank != 0);
  fill(cells, &local, &owned, 0);
  OK(gr_halo_exchange(halo, 1, &good));
  CHECK(wrong_cells(cells, &local, 1) == 0);
  free(cells);
  OK(gr_halo_destroy(&halo));
}

static void refuses_fields(void) {
  gr_field field;
  double cells[4];
  int64_t extents[2] = {2, 2};
  OK(gr_field_dense(cells, GR_F64, 2, extents, &field));
  CHECK(field.size == sizeof field && field.base == cells && field.rank == 2 && field.strides[0] == 16 &&
        field.strides[1] == 8 && field.extents[1] == 2 && field.has_first == 0);
  OK(gr_field_dense(cells, GR_F64, 0, NULL, &field));
  REFUSES(gr_field_dense(cells, (gr_type)-1, 2, extents, &field), "type is -1");
  REFUSES(gr_field_dense(NULL, GR_F64, 2, extents, &field), "base is NULL");
  REFUSES(gr_field_dense(cells, GR_F64, 9, extents, &field), "rank is 9, 1 to 8 are possible");
  REFUSES(gr_field_dense(cells, GR_F64, 2, NULL, &field), "extents is NULL");
  REFUSES(gr_field_dense(cells, GR_F64, 2, extents, NULL), "field is NULL");
  extents[0] = -1;
  REFUSES(gr_field_dense(cells, GR_F64, 2, extents, &field), "extents[0] is -1");
}

/// T at the centres of the rows, V on all their faces, from pole to pole: one row more, in the same call.
static void exchanges_all_faces(void) {
  gr_halo_kind kinds[2];
  gr_halo* halo = NULL;
  gr_layout* faces = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kinds[0]));
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kinds[1]));
  kinds[1].stagger[0] = GR_ALL_FACES;
  OK(gr_halo_create(comm, layout, 2, kinds, &halo));
  box const owned = owned_box(halo);
  box const t = local_box(halo, 0);
  box const v = local_box(halo, 1);
  box of_v = owned;
  OK(gr_halo_layout(halo, 1, &faces));
  OK(gr_layout_owned(faces, world_rank, 2, of_v.lo, of_v.hi));
  CHECK(of_v.hi[0] == owned.hi[0] + (owned.hi[0] == ROWS) && v.hi[0] == of_v.hi[0] + 1 && t.hi[0] == owned.hi[0] + 1);
  double* const cells = malloc(sizeof(double) * (size_t)(t.rows * t.columns));
  double* const winds = malloc(sizeof(double) * (size_t)(v.rows * v.columns));
  fill(cells, &t, &owned, 0);
  fill(winds, &v, &of_v, 0);
  gr_field fields[2] = {field_of(cells, 1, t.rows, t.columns), field_of(winds, 1, v.rows, v.columns)};
  fields[1].kind = 1;
  fields[1].parity = GR_ODD;
  OK(gr_halo_exchange(halo, 2, fields));
  CHECK(wrong_cells(cells, &t, 1) == 0);
  int wrong = 0;
  for (int64_t i = v.lo[0]; i < v.hi[0]; ++i)
    for (int64_t j = v.lo[1]; j < v.hi[1]; ++j) {
      int const beyond = i < 0 || i > ROWS;
      int64_t const row = i < 0 ? -i : i > ROWS ? 2 * ROWS - i : i;
      int64_t const column = (j + COLUMNS + (beyond ? COLUMNS / 2 : 0)) % COLUMNS;
      if (winds[(i - v.lo[0]) * v.columns + j - v.lo[1]] != (beyond ? -1 : 1) * cell(row, column)) ++wrong;
    }
  CHECK(wrong == 0);
  OK(gr_layout_destroy(&faces));
  REFUSES(gr_halo_layout(halo, 0, NULL), "layout is NULL");
  FAILS(gr_halo_layout(halo, 2, &faces), GR_ERROR_PROGRAM, "kind must be in [0, 2), the kinds of this plan, got 2");
  free(cells);
  free(winds);
  OK(gr_halo_destroy(&halo));
  kinds[1].stagger[0] = 3;
  REFUSES(gr_halo_create(comm, layout, 2, kinds, &halo), "kinds[1].stagger[0] is 3");
  kinds[1].stagger[0] = 0;
  kinds[1].stagger[1] = GR_ALL_FACES;
  FAILS(gr_halo_create(comm, layout, 2, kinds, &halo), GR_ERROR_PROGRAM, "is periodic and has values on all faces");
}

/// The first call that moves enough bytes chooses how long runs are copied, in this process.
static void names_long_copies(void) {
  char const* name = NULL;
  OK(gr_long_copies(&name));
  CHECK(name != NULL && strlen(name) < 32);
  REFUSES(gr_long_copies(NULL), "name is NULL");
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const parts[2] = {world_size, 1};
  OK(gr_layout_create(2, extents, parts, &layout));
  makes_kinds();
  exchanges_several_fields();
  reads_each_description();
  splits_owned_boxes();
  has_the_adjoint();
  combines_kinds();
  exchanges_all_faces();
  names_long_copies();
  reports();
  refuses_bad_arguments();
  refuses_fields();
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
