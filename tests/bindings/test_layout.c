// SPDX-License-Identifier: BSD-3-Clause
// Cuts and layouts.
#include "check.h"

#include <math.h>

static void cuts_axes(void) {
  gr_cuts* cuts = NULL;
  int parts = -1;
  int64_t sizes[8];
  int64_t const given[3] = {4, 0, 6};
  OK(gr_cuts_create(3, given, &cuts));
  OK(gr_cuts_num_parts(cuts, &parts));
  CHECK(parts == 3);
  OK(gr_cuts_sizes(cuts, 3, sizes));
  CHECK(sizes[0] == 4 && sizes[1] == 0 && sizes[2] == 6);
  REFUSES(gr_cuts_sizes(cuts, 2, sizes), "num_parts is 2, the cuts have 3 parts");
  REFUSES(gr_cuts_sizes(cuts, 3, NULL), "sizes is NULL");
  REFUSES(gr_cuts_num_parts(NULL, &parts), "cuts is NULL");
  OK(gr_cuts_destroy(&cuts));
  REFUSES(gr_cuts_destroy(NULL), "cuts is NULL");

  OK(gr_cuts_create_balanced(10, 3, &cuts));
  OK(gr_cuts_sizes(cuts, 3, sizes));
  CHECK(sizes[0] == 4 && sizes[1] == 3 && sizes[2] == 3);
  gr_cuts* rebalanced = NULL;
  double const seconds[3] = {4, 1, 1};
  OK(gr_cuts_create_rebalanced(cuts, 3, seconds, 1, &rebalanced));
  OK(gr_cuts_sizes(rebalanced, 3, sizes));
  CHECK(sizes[0] < 4 && sizes[0] + sizes[1] + sizes[2] == 10);
  REFUSES(gr_cuts_create_rebalanced(cuts, 2, seconds, 1, &rebalanced), "num_parts is 2, the cuts have 3 parts");
  OK(gr_cuts_destroy(&rebalanced));
  OK(gr_cuts_destroy(&cuts));

  double const weights[4] = {3, 1, 1, 1};
  OK(gr_cuts_create_weighted(4, weights, 2, 1, &cuts));
  OK(gr_cuts_sizes(cuts, 2, sizes));
  CHECK(sizes[0] == 1 && sizes[1] == 3);
  OK(gr_cuts_destroy(&cuts));
  FAILS(gr_cuts_create_weighted(4, weights, 2, -3, &cuts), GR_ERROR_PROGRAM, "min_cells must be at least 0, got -3");
  double const negative[2] = {1, -1};
  FAILS(gr_cuts_create_weighted(2, negative, 2, 1, &cuts), GR_ERROR_PROGRAM, "-1");
  FAILS(gr_cuts_create_balanced(-4, 2, &cuts), GR_ERROR_PROGRAM, "-4");
  REFUSES(gr_cuts_create(0, given, &cuts), "num_parts is 0");
  REFUSES(gr_cuts_create(3, NULL, &cuts), "sizes is NULL");
  CHECK(cuts == NULL);

  double const latitudes[3] = {-90, 0, 90};
  double areas[3];
  OK(gr_area_weights(3, latitudes, areas));
  CHECK(fabs(areas[1] - sqrt(0.5)) < 1e-15 && fabs(areas[0] + areas[1] + areas[2] - 1) < 1e-15);
  double const wrong[2] = {0, 95};
  FAILS(gr_area_weights(2, wrong, areas), GR_ERROR_PROGRAM, "95");
  REFUSES(gr_area_weights(3, latitudes, NULL), "weights is NULL");
}

static void owns_boxes(void) {
  gr_layout* layout = NULL;
  int64_t const extents[2] = {241, 480};
  int const parts[2] = {4, 1};
  OK(gr_layout_create(2, extents, parts, &layout));
  int ndim = 0;
  OK(gr_layout_ndim(layout, &ndim));
  CHECK(ndim == 2);
  int64_t lower[2];
  int64_t upper[2];
  OK(gr_layout_extents(layout, 2, upper));
  CHECK(upper[0] == 241 && upper[1] == 480);
  OK(gr_layout_owned(layout, 1, 2, lower, upper));
  CHECK(lower[0] == 61 && upper[0] == 121 && lower[1] == 0 && upper[1] == 480);
  OK(gr_layout_owned(layout, 7, 2, lower, upper));
  CHECK(lower[0] == upper[0]);
  char const* text = NULL;
  OK(gr_layout_text(layout, &text));
  CHECK(strstr(text, "4x1 ranks") != NULL);
  REFUSES(gr_layout_text(layout, NULL), "text is NULL");
  int64_t const too_many[2] = {INT64_MAX, 2};
  gr_layout* refused = NULL;
  FAILS(gr_layout_create(2, too_many, parts, &refused), GR_ERROR_PROGRAM, "more than 2^63 cells");
  CHECK(refused == NULL);
  REFUSES(gr_layout_owned(layout, 0, 3, lower, upper), "ndim is 3, the grid has 2 axes");
  FAILS(gr_layout_owned(layout, -1, 2, lower, upper), GR_ERROR_PROGRAM, "rank must be at least 0, got -1");
  REFUSES(gr_layout_owned(layout, 0, 2, NULL, upper), "lower is NULL");
  REFUSES(gr_layout_extents(layout, 2, NULL), "extents is NULL");
  REFUSES(gr_layout_ndim(NULL, &ndim), "layout is NULL");
  OK(gr_layout_destroy(&layout));
  REFUSES(gr_layout_destroy(NULL), "layout is NULL");
  int const none[2] = {0, 1};
  FAILS(gr_layout_create(2, extents, none, &layout), GR_ERROR_PROGRAM, "BadProcessGrid");
  REFUSES(gr_layout_create(9, extents, parts, &layout), "ndim is 9, 1 to 8 are possible");
  REFUSES(gr_layout_create(2, NULL, parts, &layout), "extents is NULL");
  REFUSES(gr_layout_create(2, extents, NULL, &layout), "num_parts is NULL");
  CHECK(layout == NULL);
}

static void places_cuts_on_ranks(void) {
  gr_cuts* cuts[2] = {NULL, NULL};
  int64_t const rows[2] = {3, 5};
  OK(gr_cuts_create(2, rows, &cuts[0]));
  OK(gr_cuts_create_balanced(6, 1, &cuts[1]));
  gr_layout* layout = NULL;
  int64_t lower[2];
  int64_t upper[2];
  int const ranks[2] = {1, 0};
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 2, ranks, &layout));
  OK(gr_layout_owned(layout, 0, 2, lower, upper));
  CHECK(lower[0] == 3 && upper[0] == 8 && upper[1] == 6);
  OK(gr_layout_destroy(&layout));
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 0, NULL, &layout));
  OK(gr_layout_owned(layout, 0, 2, lower, upper));
  CHECK(lower[0] == 0 && upper[0] == 3);
  OK(gr_layout_destroy(&layout));
  int const twice[2] = {1, 1};
  FAILS(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 2, twice, &layout), GR_ERROR_PROGRAM, "BadProcessGrid");
  gr_cuts const* const missing[2] = {cuts[0], NULL};
  REFUSES(gr_layout_create_cuts(2, missing, 0, NULL, &layout), "cuts[1] is NULL");
  OK(gr_cuts_destroy(&cuts[0]));
  OK(gr_cuts_destroy(&cuts[1]));
}

/// The caller's own bounds become a layout of cuts where they are one, and any other disjoint boxes too.
static void takes_the_callers_boxes(gr_comm* comm) {
  gr_layout* layout = NULL;
  int64_t const extents[2] = {2 * world_size, 6};
  // Rank r owns rows of the opposite end.
  int64_t lower[2] = {2 * (world_size - 1 - world_rank), 0};
  int64_t upper[2] = {2 * (world_size - world_rank), 6};
  OK(gr_layout_create_boxes(comm, 2, extents, 1, lower, upper, &layout));
  for (int r = 0; r < world_size; ++r) {
    int64_t lo[2];
    int64_t hi[2];
    OK(gr_layout_owned(layout, r, 2, lo, hi));
    CHECK(lo[0] == 2 * (world_size - 1 - r) && hi[0] == lo[0] + 2 && lo[1] == 0 && hi[1] == 6);
  }
  char const* text = NULL;
  OK(gr_layout_text(layout, &text));
  CHECK(strstr(text, "boxes") == NULL);  // a tensor product
  OK(gr_layout_destroy(&layout));

  // All on the last rank.
  int64_t const all[2] = {2 * world_size, 6};
  int64_t const zero[2] = {0, 0};
  OK(gr_layout_create_boxes(comm, 2, extents, world_rank == world_size - 1 ? 1 : 0, zero, all, &layout));
  int64_t lo[2];
  int64_t hi[2];
  OK(gr_layout_owned(layout, world_size - 1, 2, lo, hi));
  CHECK(lo[0] == 0 && hi[0] == 2 * world_size);
  OK(gr_layout_destroy(&layout));

  if (world_size == 3) {
    // Boxes that are no tensor product: two halves of the upper rows, all of the lower ones.
    int64_t const los[3][2] = {{0, 0}, {0, 3}, {3, 0}};
    int64_t const his[3][2] = {{3, 3}, {3, 6}, {6, 6}};
    OK(gr_layout_create_boxes(comm, 2, extents, 1, los[world_rank], his[world_rank], &layout));
    OK(gr_layout_owned(layout, 1, 2, lo, hi));
    CHECK(lo[0] == 0 && lo[1] == 3 && hi[0] == 3 && hi[1] == 6);
    OK(gr_layout_text(layout, &text));
    CHECK(strstr(text, "3 boxes") != NULL);
    OK(gr_layout_destroy(&layout));
  }

  // Errors are the same on all ranks.
  if (world_size > 1) {
    int64_t const same[2] = {0, 0};
    FAILS(gr_layout_create_boxes(comm, 2, extents, 1, same, all, &layout), GR_ERROR_PROGRAM, "both own");
    RULE("BadLayout");
  }
  FAILS(gr_layout_create_boxes(comm, 2, extents, 0, NULL, NULL, &layout), GR_ERROR_PROGRAM,
        "BadLayout: the boxes cover");
  FAILS(gr_layout_create_boxes(comm, 2, extents, world_rank == 0 ? 2 : 1, lower, upper, &layout), GR_ERROR_PROGRAM,
        "num_boxes is 2");
  RULE("Unsupported");
  REFUSES(gr_layout_create_boxes(comm, 2, world_rank == 0 ? NULL : extents, 1, lower, upper, &layout),
          "extents is NULL");
  if (world_size > 1) {
    int64_t const other[2] = {2 * world_size + world_rank, 6};
    FAILS(gr_layout_create_boxes(comm, 2, other, 1, lower, upper, &layout), GR_ERROR_PROGRAM, "ArgumentDisagreement");
    FAILS(gr_layout_create_boxes(comm, world_rank == 0 ? 1 : 2, extents, 1, lower, upper, &layout), GR_ERROR_PROGRAM,
          "ArgumentDisagreement");
  }
  REFUSES(gr_layout_create_boxes(NULL, 2, extents, 1, lower, upper, &layout), "comm is NULL");
  CHECK(layout == NULL);
}

static void chooses_grids(gr_comm* comm) {
  gr_layout* layout = NULL;
  gr_halo_kind kind;
  int64_t const extents[2] = {64, 128};
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  OK(gr_layout_create_best(comm, 2, extents, &kind, 8, 10, &layout));
  int64_t cells = 0;
  for (int r = 0; r < world_size; ++r) {
    int64_t lo[2];
    int64_t hi[2];
    OK(gr_layout_owned(layout, r, 2, lo, hi));
    cells += (hi[0] - lo[0]) * (hi[1] - lo[1]);
  }
  CHECK(cells == 64 * 128);
  OK(gr_layout_destroy(&layout));
  kind.size = 3;
  REFUSES(gr_layout_create_best(comm, 2, extents, &kind, 8, 10, &layout), "kind.size is 3");
  kind.size = sizeof kind + 8;
  REFUSES(gr_layout_create_best(comm, 2, extents, &kind, 8, 10, &layout), "kind.size is");
  FAILS(gr_layout_create_best(comm, 2, extents, NULL, 8, 10, &layout), GR_ERROR_ARGUMENT, "kind is NULL");
}

/// A layout that rank 0 alone knows, in the ranks of all.
static void shares_layouts(gr_comm* comm) {
  gr_comm* self = NULL;
  gr_layout* mine = NULL;
  gr_layout* shared = NULL;
  int64_t const extents[1] = {5};
  int const parts[1] = {1};
  OK(gr_comm_create(MPI_COMM_SELF, &self));
  OK(gr_layout_create(1, extents, parts, &mine));
  int const knows = world_rank == world_size - 1;
  OK(gr_layout_create_shared(comm, knows ? mine : NULL, knows ? self : NULL, &shared));
  int64_t lo[1];
  int64_t hi[1];
  OK(gr_layout_owned(shared, world_size - 1, 1, lo, hi));
  CHECK(lo[0] == 0 && hi[0] == 5);
  OK(gr_layout_destroy(&shared));
  REFUSES(gr_layout_create_shared(comm, mine, NULL, &shared), "part_comm is NULL, part is not");
  FAILS(gr_layout_create_shared(comm, NULL, NULL, &shared), GR_ERROR_PROGRAM, "provides a layout");
  RULE("BadLayout");
  OK(gr_layout_destroy(&mine));
  OK(gr_comm_destroy(&self));
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  gr_comm* comm = NULL;
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  cuts_axes();
  owns_boxes();
  places_cuts_on_ranks();
  takes_the_callers_boxes(comm);
  chooses_grids(comm);
  shares_layouts(comm);
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
