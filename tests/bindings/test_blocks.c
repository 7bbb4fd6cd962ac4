// SPDX-License-Identifier: BSD-3-Clause
// A tripolar C grid whose land is left out: several blocks per rank, or one box per rank.
#include "check.h"

#include <math.h>
#include <unistd.h>

enum { ROWS = 17, COLUMNS = 22, WIDTH = 2, MOST = 64 };
static double const land = -7;
static double const wall = -5;
static gr_comm* comm = NULL;

/// The blocks of all ranks; this rank's first.
typedef struct blocks {
  int count;
  int own;
  int64_t lower[MOST][2];
  int64_t upper[MOST][2];
} blocks;

static double own_value(int64_t i, int64_t j) { return (double)(i * COLUMNS + j + 1); }

/// Blocks of 3 x 4 cells and less at the ends, of which 3 of 10 are land.
static blocks ocean(void) {
  blocks result = {0, 0, {{0}}, {{0}}};
  for (int own = 1; own >= 0; --own) {
    int number = 0;
    for (int64_t i = 0; i < ROWS; i += 3)
      for (int64_t j = 0; j < COLUMNS; j += 4) {
        int const at = number++;
        if ((at * 7) % 10 < 3 || (at % world_size == world_rank) != own) continue;
        int const b = result.count++;
        result.own += own;
        result.lower[b][0] = i;
        result.lower[b][1] = j;
        result.upper[b][0] = i + 3 < ROWS ? i + 3 : ROWS;
        result.upper[b][1] = j + 4 < COLUMNS ? j + 4 : COLUMNS;
      }
  }
  return result;
}

static int is_ocean(blocks const* all, int64_t i, int64_t j) {
  for (int b = 0; b < all->count; ++b)
    if (i >= all->lower[b][0] && i < all->upper[b][0] && j >= all->lower[b][1] && j < all->upper[b][1]) return 1;
  return 0;
}

/// What cell (i, j) of T, U or V (0, 1, 2) holds after the exchange.
static double expected(blocks const* all, int field, int64_t i, int64_t j) {
  if (i < 0) return wall;
  int64_t const column = (j + COLUMNS) % COLUMNS;
  int64_t const mirrored = 2 * ROWS - 1 - (field == 2) - i;
  int64_t const partner = (2 * COLUMNS - 1 - column - (field == 1)) % COLUMNS;
  int const copied = i == mirrored && column > partner && is_ocean(all, mirrored, partner);
  if (i >= ROWS || copied)
    return is_ocean(all, mirrored, partner) ? (field == 0 ? 1 : -1) * own_value(mirrored, partner) : land;
  return is_ocean(all, i, column) ? own_value(i, column) : land;
}

/// Place of cell (i, j) of a block in a field with halos of `rows` x `columns` cells per block.
static int64_t place(blocks const* all, int b, int64_t rows, int64_t columns, int64_t i, int64_t j) {
  return (b * rows + i - all->lower[b][0] + WIDTH) * columns + j - all->lower[b][1] + WIDTH;
}

static void make_kinds(gr_halo_kind* kinds) {
  for (int k = 0; k < 3; ++k) {
    OK(gr_halo_kind_tripolar(GR_EDGE_CONSTANT, GR_EDGE_TRIPOLAR_FACE, WIDTH, &kinds[k]));
    kinds[k].constant[0] = wall;
    kinds[k].hole = land;
  }
  kinds[1].stagger[1] = GR_HIGH_FACE;
  kinds[2].stagger[0] = GR_HIGH_FACE;
}

/// T, U and V in one exchange on a layout of blocks (3 axes) or of boxes (2 axes); every cell.
static void exchanges(gr_layout const* layout, blocks const* all, int ndim) {
  gr_halo_kind kinds[3];
  make_kinds(kinds);
  gr_halo* halo = NULL;
  OK(gr_halo_create(comm, layout, 3, kinds, &halo));
  int64_t lower[3];
  int64_t upper[3];
  OK(gr_halo_local(halo, 0, ndim, lower, upper));
  int64_t const rows = upper[ndim - 2] - lower[ndim - 2];
  int64_t const columns = upper[ndim - 1] - lower[ndim - 1];
  int64_t const extents[3] = {all->own, rows, columns};
  gr_field fields[3];
  double* values[3];
  for (int f = 0; f < 3; ++f) {
    size_t const cells = (size_t)(all->own * rows * columns);
    values[f] = malloc((cells + 1) * sizeof(double));
    for (size_t c = 0; c < cells; ++c) values[f][c] = NAN;
    for (int b = 0; b < all->own; ++b)
      for (int64_t i = all->lower[b][0]; i < all->upper[b][0]; ++i)
        for (int64_t j = all->lower[b][1]; j < all->upper[b][1]; ++j)
          values[f][place(all, b, rows, columns, i, j)] = own_value(i, j);
    OK(gr_field_dense(values[f], GR_F64, ndim, extents + 3 - ndim, &fields[f]));
    fields[f].kind = f;
    fields[f].parity = f == 0 ? GR_EVEN : GR_ODD;
  }
  OK(gr_halo_exchange(halo, 3, fields));
  int wrong = 0;
  for (int f = 0; f < 3; ++f)
    for (int b = 0; b < all->own; ++b)
      for (int64_t i = all->lower[b][0] - WIDTH; i < all->upper[b][0] + WIDTH; ++i)
        for (int64_t j = all->lower[b][1] - WIDTH; j < all->upper[b][1] + WIDTH; ++j)
          wrong += values[f][place(all, b, rows, columns, i, j)] != expected(all, f, i, j);
  CHECK(wrong == 0);
  CHECK(all->own > 0);
  for (int f = 0; f < 3; ++f) free(values[f]);
  int64_t const none[3] = {0, 0, 0};
  OK(gr_halo_interior(halo, 0, ndim, none, none, lower, upper));
  int64_t owned_lower[3];
  int64_t owned_upper[3];
  OK(gr_halo_owned(halo, ndim, owned_lower, owned_upper));
  CHECK(upper[0] == owned_upper[0] && lower[0] == owned_lower[0]);
  OK(gr_halo_destroy(&halo));
}

/// Checkpoints and counted depths know layouts that cover their grid, and say so.
static void refuses_without_support(gr_layout const* layout, int ndim, char const* why) {
  gr_halo_kind kinds[3];
  make_kinds(kinds);
  gr_halo* halo = NULL;
  gr_halo_depth* depth = NULL;
  OK(gr_halo_create(comm, layout, 3, kinds, &halo));
  FAILS(gr_halo_depth_create(halo, "t", 0, GR_EVEN, &depth), GR_ERROR_PROGRAM, "one box per rank without holes");
  RULE("Unsupported");
  OK(gr_halo_destroy(&halo));
  int64_t lower[3];
  int64_t upper[3];
  int64_t extents[3];
  OK(gr_layout_owned(layout, world_rank, ndim, lower, upper));
  int64_t cells = 1;
  for (int a = 0; a < ndim; ++a) cells *= extents[a] = upper[a] - lower[a];
  double* values = calloc((size_t)cells + 1, sizeof(double));
  gr_field field;
  OK(gr_field_dense(values, GR_F64, ndim, extents, &field));
  gr_checkpoints* checkpoints = NULL;
  gr_checkpoint_writer* writer = NULL;
  OK(gr_checkpoints_create(comm, "bindings-blocks-checkpoints", 1, &checkpoints));
  OK(gr_checkpoint_begin(checkpoints, 0, &writer));
  gr_status const status = gr_checkpoint_add(writer, "t", layout, &field);
  CHECK(status == GR_ERROR_PROGRAM && strstr(gr_error_text(), why) != NULL);
  RULE("Unsupported");
  OK(gr_checkpoint_writer_destroy(&writer));
  OK(gr_checkpoints_destroy(&checkpoints));
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) (void)rmdir("bindings-blocks-checkpoints");
  free(values);
}

static void exchanges_blocks(void) {
  blocks const all = ocean();
  int64_t const extents[2] = {ROWS, COLUMNS};
  gr_layout* layout = NULL;
  OK(gr_layout_create_blocks(comm, 2, extents, all.own, all.lower[0], all.upper[0], &layout));
  int ndim = 0;
  OK(gr_layout_ndim(layout, &ndim));
  CHECK(ndim == 3);
  int64_t found[3];
  OK(gr_layout_extents(layout, 3, found));
  CHECK(found[0] == all.count && found[1] == 3 && found[2] == 4);
  char const* text = NULL;
  OK(gr_layout_text(layout, &text));
  CHECK(strstr(text, "blocks of") != NULL && strstr(text, "holes") != NULL);
  exchanges(layout, &all, 3);

  // What has no blocks says so.
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  OK(gr_halo_kind_uniform(3, GR_EDGE_PERIODIC, 1, &kind));
  REFUSES(gr_halo_create(comm, layout, 1, &kind, &halo), "kinds[0].ndim is 3, the grid of the blocks has 2 axes");
  gr_zonal* zonal = NULL;
  FAILS(gr_zonal_create(comm, layout, 2, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &zonal), GR_ERROR_PROGRAM,
        "layout has several blocks per rank");
  RULE("Unsupported");
  gr_area_sum* sum = NULL;
  double const weights[ROWS] = {0};
  FAILS(gr_area_sum_create(comm, layout, 2, 1, ROWS, weights, GR_SCALE_SUM, &sum), GR_ERROR_PROGRAM,
        "layout has several blocks per rank");
  gr_repartition* plan = NULL;
  FAILS(gr_repartition_create(comm, layout, layout, NULL, &plan), GR_ERROR_PROGRAM, "pass it as `to`");
  gr_layout* other = NULL;
  FAILS(gr_layout_relabel(layout, layout, NULL, 0, NULL, 0, NULL, &other, NULL), GR_ERROR_PROGRAM,
        "from has several blocks per rank");
  refuses_without_support(layout, 3, "layout has several blocks per rank");
  OK(gr_layout_destroy(&layout));
}

static void exchanges_boxes_with_holes(void) {
  blocks all = {world_size, 1, {{0}}, {{0}}};
  int64_t const strip = COLUMNS / world_size;
  for (int r = 0; r < world_size; ++r) {
    int const at = r == world_rank ? 0 : r < world_rank ? r + 1 : r;  // this rank's first
    all.lower[at][0] = 1 + r % 2;
    all.upper[at][0] = ROWS - (r + 1) % 3;
    all.lower[at][1] = r * strip;
    all.upper[at][1] = (r + 1) * strip - r % 2;
  }
  int64_t const extents[2] = {ROWS, COLUMNS};
  gr_layout* layout = NULL;
  FAILS(gr_layout_create_boxes(comm, 2, extents, 1, all.lower[0], all.upper[0], &layout), GR_ERROR_PROGRAM,
        "no rank owns");
  OK(gr_layout_create_with_holes(comm, 2, extents, 1, all.lower[0], all.upper[0], &layout));
  exchanges(layout, &all, 2);
  refuses_without_support(layout, 2, "a checkpoint needs a layout without holes");
  gr_zonal* zonal = NULL;
  FAILS(gr_zonal_create(comm, layout, 1, GR_SUM_EXACT, GR_SCALE_SUM, 0, NULL, NULL, &zonal), GR_ERROR_PROGRAM,
        "sums with a weight for each cell take any layout");
  RULE("Unsupported");
  OK(gr_layout_destroy(&layout));
}

/// To bands of rows and back, with the adjoint of nothing lost: land keeps what the bands hold.
static void moves_to_bands(void) {
  blocks const all = ocean();
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const parts[2] = {world_size, 1};
  gr_layout* layout = NULL;
  gr_layout* bands = NULL;
  OK(gr_layout_create_blocks(comm, 2, extents, all.own, all.lower[0], all.upper[0], &layout));
  OK(gr_layout_create(2, extents, parts, &bands));
  gr_repartition* plan = NULL;
  OK(gr_repartition_create(comm, bands, layout, NULL, &plan));
  int64_t lower[3];
  int64_t upper[3];
  int num_targets = 0;
  OK(gr_repartition_num_targets(plan, &num_targets));
  CHECK(num_targets == 1);
  OK(gr_repartition_target(plan, 0, 3, lower, upper));
  int64_t const shape[3] = {all.own, upper[1] + 2 * WIDTH, upper[2] + 2 * WIDTH};
  CHECK(upper[0] - lower[0] == all.own);
  OK(gr_repartition_source(plan, 2, lower, upper));
  int64_t const first = lower[0];
  int64_t const num_rows = upper[0] - first;
  double* rows = malloc((size_t)(num_rows * COLUMNS + 1) * sizeof(double));
  double* values = malloc((size_t)(shape[0] * shape[1] * shape[2]) * sizeof(double));
  for (int64_t c = 0; c < num_rows * COLUMNS; ++c) rows[c] = own_value(first, 0) + (double)c;
  for (int64_t c = 0; c < shape[0] * shape[1] * shape[2]; ++c) values[c] = NAN;
  gr_field from;
  gr_field to;
  int64_t const band[2] = {num_rows, COLUMNS};
  OK(gr_field_dense(rows, GR_F64, 2, band, &from));
  OK(gr_field_dense(values, GR_F64, 3, shape, &to));
  REFUSES(gr_repartition_apply(plan, 1, &from, 2, &to, NULL), "num_to is 2");
  to.has_first = 1;
  to.first[1] = to.first[2] = WIDTH;
  OK(gr_repartition_apply(plan, 1, &from, 1, &to, NULL));
  int wrong = 0;
  for (int b = 0; b < all.own; ++b)
    for (int64_t i = all.lower[b][0]; i < all.upper[b][0]; ++i)
      for (int64_t j = all.lower[b][1]; j < all.upper[b][1]; ++j) {
        double* const at = &values[place(&all, b, shape[1], shape[2], i, j)];
        wrong += *at != own_value(i, j);
        *at = -*at;
      }
  CHECK(wrong == 0);
  for (int64_t c = 0; c < num_rows * COLUMNS; ++c) rows[c] = land;
  OK(gr_repartition_apply_inverse(plan, 1, &from, 1, &to, NULL));
  for (int64_t i = 0; i < num_rows; ++i)
    for (int64_t j = 0; j < COLUMNS; ++j)
      wrong += rows[i * COLUMNS + j] != (is_ocean(&all, first + i, j) ? -own_value(first + i, j) : land);
  CHECK(wrong == 0);
  gr_transport chosen;
  OK(gr_repartition_tune(plan, 1, &from, 1, &to, 1, &chosen));

  gr_layout* smaller = NULL;
  int64_t const fewer[2] = {ROWS, COLUMNS + 1};
  gr_repartition* refused = NULL;
  OK(gr_layout_create(2, fewer, parts, &smaller));
  FAILS(gr_repartition_create(comm, smaller, layout, NULL, &refused), GR_ERROR_PROGRAM, "LayoutMismatch");
  OK(gr_layout_destroy(&smaller));

  // A sum with the weight 0 at places of no cell.
  OK(gr_layout_owned(layout, world_rank, 3, lower, upper));
  int64_t const places[3] = {all.own, upper[1], upper[2]};
  double* weights = calloc((size_t)(places[0] * places[1] * places[2] + 1), sizeof(double));
  for (int b = 0; b < all.own; ++b)
    for (int64_t i = 0; i < all.upper[b][0] - all.lower[b][0]; ++i)
      for (int64_t j = 0; j < all.upper[b][1] - all.lower[b][1]; ++j) weights[(b * places[1] + i) * places[2] + j] = 1;
  gr_field weight;
  OK(gr_field_dense(weights, GR_F64, 3, places, &weight));
  gr_area_sum* sum = NULL;
  OK(gr_area_sum_create_cells(comm, layout, &weight, GR_SCALE_SUM, &sum));
  double total = 0;
  OK(gr_area_sum_apply(sum, &to, 1, &total));
  double exact = 0;
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t j = 0; j < COLUMNS; ++j) exact -= is_ocean(&all, i, j) ? own_value(i, j) : 0;
  CHECK(total == exact);
  OK(gr_area_sum_destroy(&sum));
  free(weights);
  free(rows);
  free(values);
  OK(gr_repartition_destroy(&plan));
  OK(gr_layout_destroy(&bands));
  OK(gr_layout_destroy(&layout));
}

static void refuses_bad_blocks(void) {
  int64_t const extents[2] = {ROWS, COLUMNS};
  int64_t const lower[2][2] = {{0, 0}, {1, 1}};
  int64_t const upper[2][2] = {{2, 2}, {3, 3}};
  gr_layout* layout = NULL;
  FAILS(gr_layout_create_blocks(comm, 2, extents, 2, lower[0], upper[0], &layout), GR_ERROR_PROGRAM, "both have");
  FAILS(gr_layout_create_blocks(comm, 2, extents, world_rank == 0, lower[1], lower[1], &layout), GR_ERROR_PROGRAM,
        "block 0 (of rank 0) is [1, 1) x [1, 1), which has no cells");
  int64_t const far[2] = {0, COLUMNS};
  int64_t const beyond[2] = {1, COLUMNS + 1};
  FAILS(gr_layout_create_blocks(comm, 2, extents, world_rank == world_size - 1, far, beyond, &layout), GR_ERROR_PROGRAM,
        "which exceeds");
  REFUSES(gr_layout_create_blocks(comm, 2, extents, world_rank == 0 ? -1 : 0, lower[0], upper[0], &layout),
          "num_blocks is -1");
  REFUSES(gr_layout_create_blocks(comm, 2, extents, world_rank == 0, NULL, upper[0], &layout), "lower is NULL");
  if (world_size > 1) {
    int64_t const other[2] = {ROWS, COLUMNS + world_rank};
    FAILS(gr_layout_create_blocks(comm, 2, other, 0, NULL, NULL, &layout), GR_ERROR_PROGRAM, "ArgumentDisagreement");
  }
  REFUSES(gr_layout_create_with_holes(comm, 2, NULL, 0, NULL, NULL, &layout), "extents is NULL");
  CHECK(layout == NULL);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  exchanges_blocks();
  exchanges_boxes_with_holes();
  moves_to_bands();
  refuses_bad_blocks();
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
