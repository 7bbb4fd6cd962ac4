// SPDX-License-Identifier: BSD-3-Clause
// Valid layers of halos, and fields in memory that the other ranks of the node read.
#include "check.h"

#include <math.h>
#include <stdint.h>

enum { ROWS = 12, COLUMNS = 8, STEPS = 5, MOST = (ROWS + 6) * (COLUMNS + 6) };

static gr_comm* comm = NULL;
static gr_layout* layout = NULL;

/// A field with its halo and the plan that fills it.
typedef struct state {
  gr_halo* halo;
  int64_t owned[2][2];  ///< lower and upper bounds
  int64_t local[2][2];
  double cells[MOST];
} state;

static double cell(int64_t i, int64_t j) { return (double)(7 * i * i + 3 * j + 1); }

static double* at(state* s, int64_t i, int64_t j) {
  return &s->cells[(i - s->local[0][0]) * (s->local[1][1] - s->local[0][1]) + j - s->local[0][1]];
}

static gr_field field(state* s) {
  return field_of(s->cells, 1, s->local[1][0] - s->local[0][0], s->local[1][1] - s->local[0][1]);
}

static void make(state* s, int64_t width) {
  gr_halo_kind kind;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, width, &kind));
  OK(gr_halo_create(comm, layout, 1, &kind, &s->halo));
  OK(gr_halo_owned(s->halo, 2, s->owned[0], s->owned[1]));
  OK(gr_halo_local(s->halo, 0, 2, s->local[0], s->local[1]));
  for (int64_t i = s->local[0][0]; i < s->local[1][0]; ++i)
    for (int64_t j = s->local[0][1]; j < s->local[1][1]; ++j) *at(s, i, j) = NAN;
  for (int64_t i = s->owned[0][0]; i < s->owned[1][0]; ++i)
    for (int64_t j = s->owned[0][1]; j < s->owned[1][1]; ++j) *at(s, i, j) = cell(i, j);
}

/// A stencil of integer weights on the cells of a box; all others become NaN, so that reading them shows.
static void step(state* s, int lopsided, int64_t const* lower, int64_t const* upper) {
  static state before;
  before = *s;
  for (int i = 0; i < MOST; ++i) s->cells[i] = NAN;
  for (int64_t i = lower[0]; i < upper[0]; ++i)
    for (int64_t j = lower[1]; j < upper[1]; ++j)
      *at(s, i, j) = fmod(*at(&before, i - 1, j) + (lopsided ? 5 : 1) * *at(&before, i + 1, j) +
                              2 * *at(&before, i, j - 1) + 2 * *at(&before, i, j + 1) + 3 * *at(&before, i, j),
                          1009);
}

/// Steps of a field with a deep halo, exchanged where its layers are used up, give what an exchange before each gives.
static void saves_exchanges(int lopsided) {
  static state deep;
  static state shallow;
  int64_t const one[2] = {1, 1};
  int64_t lower[2];
  int64_t upper[2];
  int num_exchanges = 0;
  make(&deep, 3);
  make(&shallow, 1);
  gr_halo_depth* depth = NULL;
  OK(gr_halo_depth_create(deep.halo, "tracer", 0, GR_EVEN, &depth));
  for (int n = 0; n < STEPS; ++n) {
    gr_field const all = field(&deep);
    int suffices = -1;
    OK(gr_halo_depth_suffices(depth, 2, one, one, &suffices));
    CHECK(suffices == (n % 3 != 0));
    if (!suffices) {
      OK(gr_halo_exchange(deep.halo, 1, &all));
      OK(gr_halo_depth_exchanged(depth));
      ++num_exchanges;
    }
    OK(gr_halo_depth_apply(depth, depth, 2, one, one, lopsided ? GR_MIRRORS_DIFFER : GR_MIRRORS_COMMUTE, lower, upper));
    int64_t valid[2][2];
    OK(gr_halo_depth_valid(depth, 2, valid[0], valid[1]));
    CHECK(memcmp(valid[0], lower, sizeof lower) == 0 && memcmp(valid[1], upper, sizeof upper) == 0);
    CHECK(upper[1] - lower[1] == COLUMNS + 2 * (2 - n % 3));
    step(&deep, lopsided, lower, upper);
    if (lopsided) OK(gr_halo_depth_refill(depth, &all));

    gr_field const thin = field(&shallow);
    OK(gr_halo_exchange(shallow.halo, 1, &thin));
    step(&shallow, lopsided, shallow.owned[0], shallow.owned[1]);
    int wrong = 0;
    for (int64_t i = deep.owned[0][0]; i < deep.owned[1][0]; ++i)
      for (int64_t j = deep.owned[0][1]; j < deep.owned[1][1]; ++j)
        if (*at(&deep, i, j) != *at(&shallow, i, j)) ++wrong;
    CHECK(wrong == 0);
  }
  CHECK(num_exchanges == 2);
  OK(gr_halo_depth_destroy(&depth));
  CHECK(depth == NULL);
  OK(gr_halo_destroy(&deep.halo));
  OK(gr_halo_destroy(&shallow.halo));
}

static void counts_layers(void) {
  gr_halo_kind kind;
  gr_halo* halo = NULL;
  gr_halo_depth* depth = NULL;
  OK(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 2, &kind));
  kind.upper_edge[0] = GR_EDGE_CONSTANT;
  kind.upper[1] = 3;
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  OK(gr_halo_depth_create(halo, "u", 0, GR_ODD, &depth));
  OK(gr_halo_destroy(&halo));  // which the counts do not need
  int64_t lower[2] = {-1, -1};
  int64_t upper[2] = {-1, -1};
  OK(gr_halo_depth_inside(depth, 2, lower, upper));
  CHECK(lower[0] == 0 && lower[1] == 0 && upper[0] == 0 && upper[1] == 0);
  OK(gr_halo_depth_exchanged(depth));
  OK(gr_halo_depth_inside(depth, 2, lower, upper));
  CHECK(lower[0] == 2 && lower[1] == 2 && upper[0] == 2 && upper[1] == 3);
  OK(gr_halo_depth_beyond(depth, 2, lower, upper));
  CHECK(lower[0] == 2 && upper[0] == 2);
  int below[2] = {-1, -1};
  int above[2] = {-1, -1};
  OK(gr_halo_depth_commutes(depth, 2, below, above));
  CHECK(below[0] == 1 && above[0] == 0 && below[1] == 1 && above[1] == 1);
  int64_t const wide[2] = {1, 3};
  int64_t const one[2] = {1, 1};
  FAILS(gr_halo_depth_apply(depth, depth, 2, wide, one, GR_MIRRORS_DIFFER, lower, upper), GR_ERROR_PROGRAM,
        "field u has 2 valid ghost layers on the lower side of axis 1; the operator needs 3");
  RULE("HaloTooShallow");
  OK(gr_halo_depth_inside(depth, 2, lower, upper));
  CHECK(lower[0] == 2 && lower[1] == 2);
  OK(gr_halo_depth_apply(depth, depth, 2, one, one, GR_MIRRORS_COMMUTE, lower, upper));
  OK(gr_halo_depth_beyond(depth, 2, lower, upper));
  CHECK(lower[0] == 1 && upper[0] == 0);
  OK(gr_halo_depth_written(depth));
  OK(gr_halo_depth_inside(depth, 2, lower, upper));
  CHECK(lower[0] == 0 && upper[1] == 0);
  OK(gr_halo_depth_destroy(&depth));
}

static void refuses_bad_arguments(void) {
  static state s;
  gr_halo_depth* depth = NULL;
  int64_t a[2] = {1, 1};
  int64_t b[2] = {1, 1};
  int flags[2] = {0, 0};
  make(&s, 1);
  REFUSES(gr_halo_depth_create(NULL, "u", 0, GR_EVEN, &depth), "halo is NULL");
  REFUSES(gr_halo_depth_create(s.halo, NULL, 0, GR_EVEN, &depth), "name is NULL");
  REFUSES(gr_halo_depth_create(s.halo, "u", 1, GR_EVEN, &depth), "kind is 1 of a plan with 1 kinds");
  REFUSES(gr_halo_depth_create(s.halo, "u", 0, (gr_parity)2, &depth), "parity is 2");
  REFUSES(gr_halo_depth_create(s.halo, "u", 0, GR_EVEN, NULL), "depth is NULL");
  CHECK(depth == NULL);
  OK(gr_halo_depth_create(s.halo, "u", 0, GR_EVEN, &depth));
  OK(gr_halo_depth_exchanged(depth));
  REFUSES(gr_halo_depth_inside(depth, 3, a, b), "ndim is 3, the grid has 2 axes");
  REFUSES(gr_halo_depth_beyond(depth, 2, a, NULL), "upper is NULL");
  REFUSES(gr_halo_depth_valid(depth, 2, NULL, b), "lower is NULL");
  REFUSES(gr_halo_depth_commutes(depth, 2, NULL, flags), "lower is NULL");
  REFUSES(gr_halo_depth_suffices(depth, 2, a, NULL, flags), "reach_upper is NULL");
  REFUSES(gr_halo_depth_suffices(depth, 2, a, b, NULL), "suffices is NULL");
  REFUSES(gr_halo_depth_apply(depth, NULL, 2, a, b, GR_MIRRORS_DIFFER, a, b), "input is NULL");
  REFUSES(gr_halo_depth_apply(depth, depth, 2, a, b, (gr_at_mirrors)2, a, b), "at_mirrors is 2; known are 0 to 1");
  REFUSES(gr_halo_depth_apply(depth, depth, 2, a, b, GR_MIRRORS_DIFFER, NULL, b), "lower is NULL");
  int64_t const negative[2] = {-1, 0};
  FAILS(gr_halo_depth_suffices(depth, 2, negative, b, flags), GR_ERROR_PROGRAM,
        "the reach of an operator must be at least 0, got -1");
  gr_field odd = field(&s);
  odd.parity = GR_ODD;
  REFUSES(gr_halo_depth_refill(depth, &odd), "field.parity is 1, the layers are counted for 0");
  odd.parity = GR_EVEN;
  odd.kind = 1;
  REFUSES(gr_halo_depth_refill(depth, &odd), "field.kind is 1, the layers are counted for kind 0");
  REFUSES(gr_halo_depth_refill(depth, NULL), "field is NULL");
  REFUSES(gr_halo_depth_exchanged(NULL), "depth is NULL");
  REFUSES(gr_halo_depth_written(NULL), "depth is NULL");
  int suffices = 0;
  OK(gr_halo_depth_suffices(depth, 2, a, b, &suffices));
  CHECK(suffices == 1);  // nothing changed
  OK(gr_halo_depth_destroy(&depth));
  OK(gr_halo_depth_destroy(&depth));
  REFUSES(gr_halo_depth_destroy(NULL), "depth is NULL");
  OK(gr_halo_destroy(&s.halo));
}

/// A field in node memory is read in place by the peers, and gives what ordinary memory gives.
static void shares_memory(void) {
  static state s;
  make(&s, 1);
  OK(gr_halo_set_transport(s.halo, GR_TRANSPORT_NODE_SHARED));
  gr_node_memory* memory = NULL;
  void* address = NULL;
  int64_t size = 0;
  int shared = -1;
  OK(gr_node_memory_create((int64_t)sizeof s.cells, &memory));
  OK(gr_node_memory_address(memory, &address));
  OK(gr_node_memory_size(memory, &size));
  OK(gr_node_memory_is_shared(memory, &shared));
  CHECK((uintptr_t)address % 4096 == 0 && size == (int64_t)sizeof s.cells && (shared == 0 || shared == 1));
  gr_field const plain = field(&s);
  gr_field in_place = plain;
  in_place.base = address;
  memcpy(address, s.cells, sizeof s.cells);
  OK(gr_halo_exchange(s.halo, 1, &in_place));
  gr_stats stats = GR_STATS_INIT;
  OK(gr_halo_stats(s.halo, &stats));
  if (shared && world_size > 1) CHECK(stats.node_in_place_messages > 0);
  OK(gr_halo_exchange(s.halo, 1, &plain));
  gr_stats again = GR_STATS_INIT;
  OK(gr_halo_stats(s.halo, &again));
  CHECK(again.node_in_place_messages == stats.node_in_place_messages);
  int64_t const num_cells = plain.extents[1] * plain.extents[2];
  CHECK(memcmp(address, s.cells, sizeof(double) * (size_t)num_cells) == 0);
  OK(gr_node_memory_destroy(&memory));
  CHECK(memory == NULL);
  OK(gr_halo_destroy(&s.halo));
  OK(gr_node_memory_create(0, &memory));
  OK(gr_node_memory_size(memory, &size));
  CHECK(size == 0);
  OK(gr_node_memory_destroy(&memory));
  REFUSES(gr_node_memory_create(-1, &memory), "num_bytes is -1");
  REFUSES(gr_node_memory_create(8, NULL), "memory is NULL");
  REFUSES(gr_node_memory_address(NULL, &address), "memory is NULL");
  REFUSES(gr_node_memory_size(NULL, &size), "memory is NULL");
  REFUSES(gr_node_memory_is_shared(NULL, &shared), "memory is NULL");
  REFUSES(gr_node_memory_destroy(NULL), "memory is NULL");
  // valgrind ends a program whose memory is refused.
  if (getenv("GRATICULE_TEST_MEMORY") == NULL)
    FAILS(gr_node_memory_create(INT64_MAX, &memory), GR_ERROR_MEMORY, "memory could not be allocated");
  CHECK(memory == NULL);
}

/// The queue of a field in host memory is not looked at; device fields of a call share one.
static void has_queues(void) {
  static state s;
  static double other[MOST];
  make(&s, 1);
  memcpy(other, s.cells, sizeof other);
  gr_field fields[2] = {field(&s), field(&s)};
  fields[1].base = other;
  fields[0].queue = &s;
  OK(gr_halo_exchange(s.halo, 2, fields));
  CHECK(*at(&s, s.owned[0][0], -1) == cell(s.owned[0][0], COLUMNS - 1));
  CHECK(memcmp(other, s.cells, sizeof(double) * (size_t)(fields[0].extents[1] * fields[0].extents[2])) == 0);
  fields[0].space = fields[1].space = GR_DEVICE;
  REFUSES(gr_halo_exchange(s.halo, 2, fields), "fields[1].queue differs from that of the device fields before it");
  // A program that was compiled before fields had a queue.
  fields[0].space = fields[1].space = GR_HOST;
  gr_field old = fields[0];
  old.size = offsetof(gr_field, queue);
  *at(&s, s.owned[0][0], -1) = NAN;
  OK(gr_halo_exchange(s.halo, 1, &old));
  CHECK(*at(&s, s.owned[0][0], -1) == cell(s.owned[0][0], COLUMNS - 1));
  OK(gr_halo_destroy(&s.halo));
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const parts[2] = {world_size, 1};
  OK(gr_layout_create(2, extents, parts, &layout));
  saves_exchanges(0);
  saves_exchanges(1);
  counts_layers();
  refuses_bad_arguments();
  shares_memory();
  has_queues();
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
