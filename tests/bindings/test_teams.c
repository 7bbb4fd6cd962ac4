// SPDX-License-Identifier: BSD-3-Clause
// Teams of ranks, nodes of ranks, communicators of MPI, and boxes that change their ranks.
#include "check.h"

static gr_comm* comm = NULL;

static void divides_ranks(void) {
  gr_teams* teams = NULL;
  char const* const names[2] = {"data", "domain"};
  int const pairs[2] = {0, world_size % 2 == 0 ? 2 : 1};
  OK(gr_teams_create(comm, 2, names, pairs, &teams));
  gr_comm* all = NULL;
  gr_comm* domain = NULL;
  gr_comm* data = NULL;
  OK(gr_teams_world(teams, &all));
  OK(gr_teams_team(teams, "domain", &domain));
  OK(gr_teams_team(teams, "data", &data));
  OK(gr_teams_destroy(&teams));  // the communicators stay
  CHECK(teams == NULL);
  int rank = -1;
  int size = -1;
  int in_domain = -1;
  int in_data = -1;
  OK(gr_comm_rank(all, &rank));
  OK(gr_comm_size(domain, &size));
  CHECK(size == pairs[1]);
  OK(gr_comm_size(data, &size));
  CHECK(size == world_size / pairs[1]);
  OK(gr_comm_rank(domain, &in_domain));
  OK(gr_comm_rank(data, &in_data));
  CHECK(in_domain == rank % pairs[1] && in_data == rank / pairs[1]);  // the last axis varies fastest

  // A communicator of MPI, as a program needs it beside the library's calls.
  MPI_Comm of_library = MPI_COMM_NULL;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Fint number = 0;
  int mpi_size = -1;
  OK(gr_comm_mpi(domain, &of_library));
  OK(gr_comm_mpi_f(domain, &number));
  CHECK(number == MPI_Comm_c2f(of_library));
  MPI_Comm_dup(of_library, &own);
  MPI_Comm_size(own, &mpi_size);
  CHECK(mpi_size == pairs[1]);
  MPI_Comm_free(&own);
  OK(gr_comm_destroy(&domain));
  OK(gr_comm_destroy(&data));
  OK(gr_comm_destroy(&all));
}

static void refuses_bad_teams(void) {
  gr_teams* teams = NULL;
  gr_comm* team = NULL;
  char const* const names[2] = {"data", "domain"};
  char const* const missing[2] = {"data", NULL};
  int const sizes[2] = {0, 1};
  int const too_many[2] = {1, 2 * world_size};
  REFUSES(gr_teams_create(NULL, 2, names, sizes, &teams), "comm is NULL");
  REFUSES(gr_teams_create(comm, 0, names, sizes, &teams), "num_axes is 0, at least 1 is needed");
  REFUSES(gr_teams_create(comm, 2, NULL, sizes, &teams), "names is NULL");
  REFUSES(gr_teams_create(comm, 2, missing, sizes, &teams), "names[1] is NULL");
  REFUSES(gr_teams_create(comm, 2, names, NULL, &teams), "sizes is NULL");
  REFUSES(gr_teams_create(comm, 2, names, sizes, NULL), "teams is NULL");
  FAILS(gr_teams_create(comm, 2, names, too_many, &teams), GR_ERROR_PROGRAM, "BadProcessGrid");
  if (world_size > 1) {  // one rank's argument is an error of all
    gr_status const status = gr_teams_create(comm, 2, names, world_rank == 1 ? NULL : sizes, &teams);
    CHECK(status == GR_ERROR_ARGUMENT && strstr(gr_error_text(), "sizes is NULL") != NULL);
  }
  CHECK(teams == NULL);
  OK(gr_teams_create(comm, 2, names, sizes, &teams));
  FAILS(gr_teams_team(teams, "ensemble", &team), GR_ERROR_PROGRAM, "ensemble");
  REFUSES(gr_teams_team(teams, NULL, &team), "name is NULL");
  REFUSES(gr_teams_team(teams, "data", NULL), "comm is NULL");
  REFUSES(gr_teams_team(NULL, "data", &team), "teams is NULL");
  REFUSES(gr_teams_world(teams, NULL), "comm is NULL");
  REFUSES(gr_teams_world(NULL, &team), "teams is NULL");
  CHECK(team == NULL);
  OK(gr_teams_destroy(&teams));
  REFUSES(gr_teams_destroy(NULL), "teams is NULL");
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Fint number = 0;
  REFUSES(gr_comm_mpi(NULL, &mpi), "comm is NULL");
  REFUSES(gr_comm_mpi(comm, NULL), "mpi is NULL");
  REFUSES(gr_comm_mpi_f(NULL, &number), "comm is NULL");
}

static void numbers_nodes(void) {
  int nodes[64];
  for (int r = 0; r < world_size; ++r) nodes[r] = -1;
  OK(gr_comm_nodes(comm, world_size, nodes));
  for (int r = 0; r < world_size; ++r) CHECK(nodes[r] == 0);
  REFUSES(gr_comm_nodes(comm, world_size + 1, nodes), "num_ranks is ");
  REFUSES(gr_comm_nodes(comm, world_size, NULL), "nodes is NULL");
  REFUSES(gr_comm_nodes(NULL, world_size, nodes), "comm is NULL");
}

/// Rows in order, and the same rows with each box one rank further.
static void shifted_rows(gr_layout** rows, gr_layout** shifted, int num_ranks) {
  int64_t const sizes[2] = {3 * num_ranks, 4};
  int ranks[64];
  gr_cuts* cuts[2] = {NULL, NULL};
  OK(gr_cuts_create_balanced(sizes[0], num_ranks, &cuts[0]));
  OK(gr_cuts_create_balanced(sizes[1], 1, &cuts[1]));
  for (int r = 0; r < num_ranks; ++r) ranks[r] = (r + 1) % num_ranks;
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 0, NULL, rows));
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, num_ranks, ranks, shifted));
  OK(gr_cuts_destroy(&cuts[0]));
  OK(gr_cuts_destroy(&cuts[1]));
}

static int ascending(void const* a, void const* b) {
  int64_t const difference = *(int64_t const*)a - *(int64_t const*)b;
  return difference < 0 ? -1 : difference > 0;
}

static void returns_boxes(void) {
  enum { RANKS = 4 };
  gr_layout* rows = NULL;
  gr_layout* shifted = NULL;
  gr_layout* back = NULL;
  gr_relabelling cells = GR_RELABELLING_INIT;
  shifted_rows(&rows, &shifted, RANKS);
  OK(gr_layout_relabel(rows, shifted, NULL, 0, NULL, 0, NULL, &back, &cells));
  CHECK(cells.moved_cells_before == RANKS * 3 * 4 && cells.moved_cells == 0 && cells.off_node_cells_before == 0);
  for (int r = 0; r < RANKS; ++r) {
    int64_t lower[2];
    int64_t upper[2];
    OK(gr_layout_owned(back, r, 2, lower, upper));
    CHECK(lower[0] == 3 * r && upper[0] == 3 * r + 3 && upper[1] == 4);
  }
  OK(gr_layout_destroy(&back));

  // Rows to columns of random sizes, where the cheapest assignment is not searched for: it pairs the largest.
  enum { MANY = 1100, CELLS = 4 * MANY };
  int64_t sizes[2][MANY];
  unsigned random = 59;
  for (int a = 0; a < 2; ++a) {
    for (int i = 0; i < MANY; ++i) sizes[a][i] = 1;
    for (int i = MANY; i < CELLS; ++i) {
      random = 1664525U * random + 1013904223U;
      ++sizes[a][(random >> 8) % MANY];
    }
  }
  int64_t const whole[1] = {CELLS};
  gr_cuts* cuts[3] = {NULL, NULL, NULL};
  gr_layout* many[2] = {NULL, NULL};
  OK(gr_cuts_create(MANY, sizes[0], &cuts[0]));
  OK(gr_cuts_create(1, whole, &cuts[1]));
  OK(gr_cuts_create(MANY, sizes[1], &cuts[2]));
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 0, NULL, &many[0]));
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)(cuts + 1), 0, NULL, &many[1]));
  OK(gr_layout_relabel(many[0], many[1], NULL, 0, NULL, 0, NULL, &back, &cells));
  for (int a = 0; a < 2; ++a) qsort(sizes[a], MANY, sizeof(int64_t), ascending);
  int64_t least = (int64_t)CELLS * CELLS;
  for (int i = 0; i < MANY; ++i) least -= sizes[0][i] * sizes[1][i];
  CHECK(cells.cost_above_least > 0 && cells.moved_cells >= least &&
        cells.moved_cells - cells.cost_above_least <= least);
  OK(gr_layout_destroy(&back));
  for (int a = 0; a < 2; ++a) OK(gr_layout_destroy(&many[a]));
  for (int a = 0; a < 3; ++a) OK(gr_cuts_destroy(&cuts[a]));

  // Columns of the transposed grid: with nodes of two ranks, half of the cells leave their node at least.
  gr_layout* columns = NULL;
  int64_t const extents[2] = {4, 3 * RANKS};
  int const parts[2] = {RANKS, 1};
  int const nodes[RANKS] = {0, 0, 1, 1};
  gr_relabel_options options = GR_RELABEL_OPTIONS_INIT;
  options.ndim = 2;
  options.has_permutation = 1;
  options.permutation[0] = 1;
  options.permutation[1] = 0;
  options.off_node_weight = 2;
  OK(gr_layout_create(2, extents, parts, &columns));
  OK(gr_layout_relabel(rows, columns, &options, RANKS, nodes, 0, NULL, &back, &cells));
  CHECK(cells.cost_above_least == 0 && cells.moved_cells == cells.moved_cells_before && cells.moved_cells == 36 &&
        cells.off_node_cells == 24);
  OK(gr_layout_destroy(&back));

  // All boxes to ranks 5 to 8, of which none holds a cell.
  int const others[RANKS] = {5, 6, 7, 8};
  OK(gr_layout_relabel(rows, shifted, NULL, 0, NULL, RANKS, others, &back, NULL));
  int64_t lower[2];
  int64_t upper[2];
  OK(gr_layout_owned(back, 0, 2, lower, upper));
  CHECK(lower[0] == upper[0] || lower[1] == upper[1]);
  OK(gr_layout_owned(back, 8, 2, lower, upper));
  CHECK(upper[0] - lower[0] == 3 && upper[1] == 4);
  OK(gr_layout_destroy(&back));

  REFUSES(gr_layout_relabel(NULL, shifted, NULL, 0, NULL, 0, NULL, &back, NULL), "from is NULL");
  REFUSES(gr_layout_relabel(rows, NULL, NULL, 0, NULL, 0, NULL, &back, NULL), "to is NULL");
  REFUSES(gr_layout_relabel(rows, shifted, NULL, -1, nodes, 0, NULL, &back, NULL), "num_nodes is -1");
  REFUSES(gr_layout_relabel(rows, shifted, NULL, 0, NULL, 0, NULL, NULL, NULL), "layout is NULL");
  options.ndim = 9;
  REFUSES(gr_layout_relabel(rows, columns, &options, 0, NULL, 0, NULL, &back, NULL), "options.ndim is 9");
  options.size = 3;
  REFUSES(gr_layout_relabel(rows, columns, &options, 0, NULL, 0, NULL, &back, NULL), "options.size is 3");
  cells.size = 0;
  REFUSES(gr_layout_relabel(rows, shifted, NULL, 0, NULL, 0, NULL, &back, &cells), "saving.size is 0");
  FAILS(gr_layout_relabel(rows, columns, NULL, 0, NULL, 0, NULL, &back, NULL), GR_ERROR_PROGRAM, "LayoutMismatch");
  FAILS(gr_layout_relabel(rows, shifted, NULL, 0, NULL, 2, others, &back, NULL), GR_ERROR_PROGRAM, "BadProcessGrid");
  CHECK(back == NULL);
  OK(gr_layout_destroy(&columns));
  OK(gr_layout_destroy(&rows));
  OK(gr_layout_destroy(&shifted));
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  divides_ranks();
  refuses_bad_teams();
  numbers_nodes();
  returns_boxes();
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
