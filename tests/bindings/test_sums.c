// SPDX-License-Identifier: BSD-3-Clause
// Zonal sums and means, area sums, and their adjoints.
#include "check.h"

#include <math.h>

enum { ROWS = 5, COLUMNS = 6, MOST = 2 * ROWS * COLUMNS };

static gr_comm* comm = NULL;
static gr_layout* layout = NULL;

static double cell(int64_t i, int64_t j) { return (double)(10 * i + j); }

static void adds_rows(void) {
  gr_zonal* zonal = NULL;
  OK(gr_zonal_create(comm, layout, 1, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &zonal));
  int64_t lo[2];
  int64_t hi[2];
  int64_t slo[2];
  int64_t shi[2];
  OK(gr_zonal_cells(zonal, 2, lo, hi));
  OK(gr_zonal_sums(zonal, 2, slo, shi));
  CHECK(slo[0] == lo[0] && shi[0] == hi[0] && slo[1] == 0 && shi[1] <= 1);
  int64_t const rows = hi[0] - lo[0];
  int64_t const columns = hi[1] - lo[1];
  double cells[MOST];
  double sums[ROWS];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) cells[i * columns + j] = cell(lo[0] + i, lo[1] + j);
  gr_field const of_cells = field_of(cells, 1, rows, columns);
  gr_field const of_sums = field_of(sums, 1, rows, 1);
  for (int call = 0; call < 2; ++call) {
    for (int i = 0; i < ROWS; ++i) sums[i] = NAN;
    if (call == 0) {
      OK(gr_zonal_apply(zonal, 1, &of_cells, &of_sums));
    } else {
      gr_pending* pending = NULL;
      OK(gr_zonal_start(zonal, 1, &of_cells, &of_sums, &pending));
      OK(gr_finish(&pending));
    }
    for (int64_t i = 0; i < rows && columns > 0; ++i) CHECK(sums[i] == 60.0 * (double)(lo[0] + i) + 15);
  }
  for (int i = 0; i < ROWS; ++i) sums[i] = 1000;
  OK(gr_zonal_apply_adjoint(zonal, 1, &of_cells, &of_sums, GR_COTANGENTS_REPLICATED));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) CHECK(cells[i * columns + j] == cell(lo[0] + i, lo[1] + j) + 1000);
  REFUSES(gr_zonal_apply_adjoint(zonal, 1, &of_cells, &of_sums, (gr_cotangents)4), "cotangents is 4");
  gr_pending* pending = NULL;
  gr_field bad = of_cells;
  bad.type = (gr_type)12;
  REFUSES(gr_zonal_apply(zonal, 1, &bad, &of_sums), "cells[0].type is 12");
  REFUSES(gr_zonal_start(zonal, 1, &of_cells, NULL, &pending), "sums is NULL");
  REFUSES(gr_zonal_start(zonal, 1, &of_cells, &of_sums, NULL), "pending is NULL");
  REFUSES(gr_zonal_apply(NULL, 1, &of_cells, &of_sums), "zonal is NULL");
  REFUSES(gr_zonal_cells(zonal, 1, lo, hi), "ndim is 1");
  REFUSES(gr_zonal_sums(zonal, 2, NULL, hi), "lower is NULL");
  OK(gr_zonal_apply(zonal, 1, &of_cells, &of_sums));
  OK(gr_zonal_destroy(&zonal));
  REFUSES(gr_zonal_destroy(NULL), "zonal is NULL");

  // Means over a part of the grid, fast.
  int64_t const lower[2] = {0, 0};
  int64_t const upper[2] = {ROWS, 2};
  OK(gr_zonal_create(comm, layout, 1, GR_SUM_FAST, GR_SCALE_MEAN, 2, lower, upper, &zonal));
  OK(gr_zonal_sums(zonal, 2, slo, shi));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) cells[i * columns + j] = cell(lo[0] + i, lo[1] + j);
  int64_t const owned_sums = shi[1] > slo[1] && shi[0] > slo[0] ? shi[0] - slo[0] : 0;
  gr_field const of_means = field_of(sums, 1, owned_sums, owned_sums > 0 ? 1 : 0);
  OK(gr_zonal_apply(zonal, 1, &of_cells, &of_means));
  for (int64_t i = 0; i < owned_sums; ++i) CHECK(sums[i] == 10.0 * (double)(slo[0] + i) + 0.5);
  OK(gr_zonal_destroy(&zonal));
  FAILS(gr_zonal_create(comm, layout, 2, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &zonal), GR_ERROR_PROGRAM, "2");
  REFUSES(gr_zonal_create(comm, layout, 1, (gr_summation)3, GR_SCALE_SUM, 0, NULL, NULL, &zonal), "summation is 3");
  REFUSES(gr_zonal_create(comm, layout, 1, GR_SUM_EXACT, (gr_scale)3, 0, NULL, NULL, &zonal), "scale is 3");
  REFUSES(gr_zonal_create(comm, layout, 1, GR_SUM_EXACT, GR_SCALE_SUM, 2, lower, NULL, &zonal), "upper is NULL");
  CHECK(zonal == NULL);
}

static void adds_areas(void) {
  double weights[ROWS];
  for (int i = 0; i < ROWS; ++i) weights[i] = i + 1;
  gr_area_sum* sum = NULL;
  OK(gr_area_sum_create(comm, layout, 1, 0, ROWS, weights, GR_SCALE_MEAN, &sum));
  int64_t lo[2];
  int64_t hi[2];
  OK(gr_layout_owned(layout, world_rank, 2, lo, hi));
  int64_t const rows = hi[0] - lo[0];
  int64_t const columns = hi[1] - lo[1];
  double cells[MOST];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      cells[i * columns + j] = (double)(lo[0] + i);
      cells[(rows + i) * columns + j] = 2;
    }
  gr_field const field = field_of(cells, 2, rows, columns);
  double means[2] = {NAN, NAN};
  OK(gr_area_sum_apply(sum, &field, 2, means));
  // (0*1 + 1*2 + 2*3 + 3*4 + 4*5) / 15
  CHECK(fabs(means[0] - 40.0 / 15) < 1e-15 && means[1] == 2);
  double const cotangents[2] = {COLUMNS * 15, 0};
  OK(gr_area_sum_apply_adjoint(sum, &field, 2, cotangents));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      CHECK(fabs(cells[i * columns + j] - (double)(2 * (lo[0] + i) + 1)) < 1e-12);
      CHECK(cells[(rows + i) * columns + j] == 2);
    }
  REFUSES(gr_area_sum_apply(sum, &field, 3, means), "num_sums is 3, cells have 2 batch elements");
  REFUSES(gr_area_sum_apply(sum, NULL, 2, means), "cells is NULL");
  REFUSES(gr_area_sum_apply(sum, &field, 2, NULL), "sums is NULL");
  REFUSES(gr_area_sum_apply_adjoint(sum, &field, 1, cotangents), "num_sums is 1");
  REFUSES(gr_area_sum_apply_adjoint(NULL, &field, 2, cotangents), "area_sum is NULL");
  OK(gr_area_sum_destroy(&sum));
  REFUSES(gr_area_sum_destroy(NULL), "area_sum is NULL");
  FAILS(gr_area_sum_create(comm, layout, 1, 0, ROWS - 1, weights, GR_SCALE_SUM, &sum), GR_ERROR_PROGRAM,
        "ShapeMismatch");
  REFUSES(gr_area_sum_create(comm, layout, 1, 0, ROWS, NULL, GR_SCALE_SUM, &sum), "weights is NULL");
  CHECK(sum == NULL);
}

/// Cells of F32 whose sums are F64: no digit is lost, whatever the type of the cells could hold.
static void adds_single_in_double(void) {
  gr_zonal* zonal = NULL;
  OK(gr_zonal_create(comm, layout, 1, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &zonal));
  int64_t lo[2];
  int64_t hi[2];
  OK(gr_zonal_cells(zonal, 2, lo, hi));
  int64_t const extents[2] = {ROWS, hi[1] - lo[1]};
  int64_t const slots[2] = {ROWS, 1};
  float cells[MOST];
  double sums[ROWS];
  gr_field of_cells;
  gr_field of_sums;
  OK(gr_field_dense(cells, GR_F32, 2, extents, &of_cells));
  OK(gr_field_dense(sums, GR_F64, 2, slots, &of_sums));
  // 2^24 and 1 have no sum in single precision.
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t j = lo[1]; j < hi[1]; ++j) cells[i * extents[1] + j - lo[1]] = j == 0 ? 16777216.0F : (float)(i + 1);
  OK(gr_zonal_apply(zonal, 1, &of_cells, &of_sums));
  for (int i = 0; i < ROWS; ++i) CHECK(extents[1] == 0 || sums[i] == 16777216.0 + (COLUMNS - 1) * (i + 1));
  for (int i = 0; i < ROWS; ++i) sums[i] = 0.5;
  OK(gr_zonal_apply_adjoint(zonal, 1, &of_cells, &of_sums, GR_COTANGENTS_REPLICATED));
  if (lo[1] > 0 && hi[1] > lo[1]) CHECK(cells[0] == 1.5F && cells[extents[1]] == 2.5F);
  // Sums of F32 of cells of F64 would lose digits.
  of_cells.type = GR_F64;
  of_sums.type = GR_F32;
  double wide[MOST] = {0};
  of_cells.base = wide;
  for (int m = 0; m < 2; ++m) of_cells.strides[m] *= 2;
  FAILS(gr_zonal_apply(zonal, 1, &of_cells, &of_sums), GR_ERROR_PROGRAM, "FieldMismatch");
  OK(gr_zonal_destroy(&zonal));
}

/// A weight for each cell; cells of weight 0 may hold anything.
static void adds_weighted_cells(void) {
  gr_area_sum* sum = NULL;
  gr_field weights;
  gr_field field;
  int64_t lo[2];
  int64_t hi[2];
  OK(gr_layout_owned(layout, world_rank, 2, lo, hi));
  int64_t const columns = hi[1] - lo[1];
  int64_t const extents[2] = {ROWS, columns};
  int64_t const levels[3] = {2, ROWS, columns};
  double areas[MOST];
  float cells[MOST];
  double expected = 0;
  double total = 0;
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t j = 0; j < COLUMNS; ++j) {
      double const area = (i + j) % 3 == 0 ? 0 : (double)(1 + i * j);
      expected += area * cell(i, j);
      total += area;
      if (j < lo[1] || j >= hi[1]) continue;
      int64_t const at = i * columns + j - lo[1];
      areas[at] = area;
      cells[at] = area == 0 ? NAN : (float)cell(i, j);
      cells[ROWS * columns + at] = area == 0 ? INFINITY : 1.0F;
    }
  OK(gr_field_dense(areas, GR_F64, 2, extents, &weights));
  OK(gr_field_dense(cells, GR_F32, 3, levels, &field));
  for (int scale = 0; scale < 2; ++scale) {
    double sums[2] = {0, 0};
    double const divisor = scale == 0 ? 1 : total;
    OK(gr_plan_name("areas"));
    OK(gr_area_sum_create_cells(comm, layout, &weights, scale == 0 ? GR_SCALE_SUM : GR_SCALE_MEAN, &sum));
    OK(gr_area_sum_apply(sum, &field, 2, sums));
    CHECK(sums[0] == expected / divisor && sums[1] == total / divisor);
    OK(gr_area_sum_destroy(&sum));
  }
  double ones[MOST];
  double const cotangents[1] = {2};
  for (int i = 0; i < MOST; ++i) ones[i] = 1;
  gr_field adjoint;
  OK(gr_field_dense(ones, GR_F64, 2, extents, &adjoint));
  OK(gr_area_sum_create_cells(comm, layout, &weights, GR_SCALE_SUM, &sum));
  OK(gr_area_sum_apply_adjoint(sum, &adjoint, 1, cotangents));
  for (int64_t i = 0; i < ROWS * columns; ++i) CHECK(ones[i] == 1 + 2 * areas[i]);
  OK(gr_area_sum_destroy(&sum));
  REFUSES(gr_area_sum_create_cells(comm, layout, NULL, GR_SCALE_SUM, &sum), "weights is NULL");
  if (columns > 0) areas[0] = NAN;
  FAILS(gr_area_sum_create_cells(comm, layout, &weights, GR_SCALE_SUM, &sum), GR_ERROR_PROGRAM, "NotFinite");
  for (int i = 0; i < MOST; ++i) areas[i] = 0;
  FAILS(gr_area_sum_create_cells(comm, layout, &weights, GR_SCALE_MEAN, &sum), GR_ERROR_PROGRAM, "sum to 0");
  CHECK(sum == NULL);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const parts[2] = {1, world_size};
  OK(gr_layout_create(2, extents, parts, &layout));
  adds_rows();
  adds_areas();
  adds_single_in_double();
  adds_weighted_cells();
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
