// SPDX-License-Identifier: BSD-3-Clause
// A cubed sphere of several blocks per rank, and tiles that meet with a turn.
#include "check.h"

enum { N = 48, WIDTH = 2, ROWS = 20, COLUMNS = 17, MOST = 64, FACES = 6 };
static gr_comm* comm = NULL;
static double const untouched = -12345;

/// The faces of the cube [-N, N]^3: outward normals, and the directions of growing rows and columns.
static int64_t const normals[FACES][3] = {{1, 0, 0}, {0, 1, 0}, {-1, 0, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
static int64_t const rows_of[FACES][3] = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {-1, 0, 0}, {1, 0, 0}};
static int64_t const columns_of[FACES][3] = {{0, 1, 0}, {-1, 0, 0}, {0, -1, 0}, {1, 0, 0}, {0, 1, 0}, {0, 1, 0}};

/// The blocks of this rank, with their extents in order of memory: (face, row, column).
typedef struct blocks {
  int count;
  int64_t lower[MOST][3];
  int64_t upper[MOST][3];
} blocks;

static blocks own_blocks(void) {
  blocks result = {0, {{0}}, {{0}}};
  int number = 0;
  for (int64_t f = 0; f < FACES; ++f)
    for (int64_t i = 0; i < N; i += ROWS)
      for (int64_t j = 0; j < N; j += COLUMNS) {
        if (number++ % world_size != world_rank) continue;
        int64_t const lower[3] = {f, i, j};
        int64_t const upper[3] = {f + 1, i + ROWS < N ? i + ROWS : N, j + COLUMNS < N ? j + COLUMNS : N};
        memcpy(result.lower[result.count], lower, sizeof lower);
        memcpy(result.upper[result.count++], upper, sizeof upper);
      }
  return result;
}

/// The face with the normal `side` times `normal`.
static int face_of(int64_t side, int64_t const* normal) {
  int f = 0;
  while (normals[f][0] != side * normal[0] || normals[f][1] != side * normal[1] || normals[f][2] != side * normal[2])
    ++f;
  return f;
}

/// Whether fields of a kind have one value more than cells along an axis: on a C grid, components along their own axis.
static int64_t more(int kind, int axis, int c_grid) { return c_grid && kind == axis + 1; }

/// What cell (i, j) on or around a face holds: of the scalar (0), or of the component along rows (1) or columns (2).
/// Round an edge both the place and the directions of the face are folded; what lies on the edge belongs to the lower
/// face.
static double expected(int kind, int c_grid, int64_t face, int64_t i, int64_t j) {
  int64_t const index[2] = {i, j};
  int64_t const* const direction[2] = {rows_of[face], columns_of[face]};
  int64_t along[2][3];
  int64_t at[3];
  int64_t height = N;
  int64_t cell[2];
  int plane = (int)face;
  for (int a = 0; a < 2; ++a) {
    cell[a] = 2 * index[a] + 1 - N - more(kind, a, c_grid);
    int64_t const side = cell[a] > N ? 1 : cell[a] < -N ? -1 : 0;
    for (int x = 0; x < 3; ++x) along[a][x] = side == 0 ? direction[a][x] : -side * normals[face][x];
    if (side == 0) continue;
    height -= side * cell[a] - N;
    cell[a] = side * N;
    plane = face_of(side, direction[a]);
  }
  for (int a = 0; a < 2; ++a) {
    if (more(kind, a, c_grid) == 0 || (cell[a] != N && cell[a] != -N)) continue;
    int64_t const side = cell[a] / N;
    if (index[a] == (side < 0 ? 0 : N) && face_of(side, direction[a]) < plane)
      for (int x = 0; x < 3; ++x) along[a][x] = -side * normals[plane][x];
  }
  for (int x = 0; x < 3; ++x) at[x] = height * normals[face][x] + cell[0] * direction[0][x] + cell[1] * direction[1][x];
  if (kind == 0) return (double)(at[0] + 200 * at[1] + 40000 * at[2]);
  double const vector[3] = {(double)(3 * at[0] + at[1] + 4 * at[2] + 7), (double)(at[0] + 5 * at[1] + 9 * at[2] - 1),
                            (double)(2 * at[0] + 6 * at[1] + 5 * at[2] + 2)};
  double value = 0;
  for (int x = 0; x < 3; ++x) value += vector[x] * (double)along[kind - 1][x];
  return value;
}

/// Place in a field with room for the largest blocks of either component.
static int64_t place(int64_t const* extents, blocks const* own, int b, int64_t i, int64_t j) {
  return (b * extents[1] + i - own->lower[b][1] + WIDTH) * extents[2] + j - own->lower[b][2] + WIDTH;
}

static void make_kinds(gr_halo_kind* kinds, int c_grid) {
  for (int k = 0; k < 3; ++k) {
    OK(gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, WIDTH, &kinds[k]));
    kinds[k].has_component = k > 0;
    kinds[k].component = k == 2;
    for (int a = 0; a < 2; ++a)
      if (more(k, a, c_grid)) kinds[k].stagger[a] = GR_ALL_FACES;
  }
}

/// Components of vectors in the centres of cells, or on a C grid.
static void exchanges_a_cubed_sphere(int c_grid) {
  blocks const own = own_blocks();
  int64_t const grid[3] = {FACES, N, N};
  gr_layout* layout = NULL;
  OK(gr_layout_create_faces(comm, 3, grid, own.count, own.lower[0], own.upper[0], 0, NULL, &layout));
  char const* text = NULL;
  OK(gr_layout_text(layout, &text));
  CHECK(strstr(text, "54 blocks of 6 faces of [0, 48) x [0, 48)") != NULL);
  gr_halo_kind kinds[3];
  make_kinds(kinds, c_grid);
  gr_halo* halo = NULL;
  OK(gr_halo_create(comm, layout, 3, kinds, &halo));
  int64_t lower[3];
  int64_t upper[3];
  int64_t extents[3];
  gr_field fields[3];
  double* values[3];
  for (int k = 0; k < 3; ++k) {
    OK(gr_halo_local(halo, k, 3, lower, upper));
    for (int a = 0; a < 3; ++a) extents[a] = upper[a] - lower[a] + (a > 0);  // room for more
    CHECK(extents[0] == own.count && own.count > 1);
    size_t const cells = (size_t)(extents[0] * extents[1] * extents[2]);
    values[k] = malloc(cells * sizeof(double));
    for (size_t c = 0; c < cells; ++c) values[k][c] = untouched;
    for (int b = 0; b < own.count; ++b)
      for (int64_t i = own.lower[b][1]; i < own.upper[b][1] + (more(k, 0, c_grid) && own.upper[b][1] == N); ++i)
        for (int64_t j = own.lower[b][2]; j < own.upper[b][2] + (more(k, 1, c_grid) && own.upper[b][2] == N); ++j)
          values[k][place(extents, &own, b, i, j)] = expected(k, c_grid, own.lower[b][0], i, j);
    OK(gr_field_dense(values[k], GR_F64, 3, extents, &fields[k]));
    fields[k].kind = k;
    fields[k].has_first = 1;
    fields[k].first[1] = fields[k].first[2] = WIDTH;
  }
  // Values on a side are stored in both faces: those of the higher one are copies.
  int copies = 0;
  for (int k = 1; c_grid && k < 3; ++k)
    for (int b = 0; b < own.count; ++b)
      for (int64_t at = 0; at <= N; at += N) {
        int64_t const* const direction = k == 1 ? rows_of[own.lower[b][0]] : columns_of[own.lower[b][0]];
        if (face_of(at == 0 ? -1 : 1, direction) > own.lower[b][0]) continue;
        if (own.lower[b][k] > at || own.upper[b][k] < at || (at == 0 && own.lower[b][k] > 0)) continue;
        OK(gr_halo_local(halo, k, 3, lower, upper));
        for (int a = 0; a < 3; ++a) extents[a] = upper[a] - lower[a] + (a > 0);
        for (int64_t along = own.lower[b][3 - k]; along < own.upper[b][3 - k]; ++along, ++copies)
          values[k][place(extents, &own, b, k == 1 ? at : along, k == 1 ? along : at)] = -1e9;
      }
  OK(gr_halo_exchange(halo, 3, fields));
  int wrong = 0;
  int seen = 0;
  for (int k = 0; k < 3; ++k) {
    OK(gr_halo_local(halo, k, 3, lower, upper));
    for (int a = 0; a < 3; ++a) extents[a] = upper[a] - lower[a] + (a > 0);
    for (int b = 0; b < own.count; ++b) {
      int64_t const last[2] = {own.upper[b][1] + (more(k, 0, c_grid) && own.upper[b][1] == N),
                               own.upper[b][2] + (more(k, 1, c_grid) && own.upper[b][2] == N)};
      for (int64_t i = own.lower[b][1] - WIDTH; i < last[0] + WIDTH; ++i)
        for (int64_t j = own.lower[b][2] - WIDTH; j < last[1] + WIDTH; ++j) {
          double const found = values[k][place(extents, &own, b, i, j)];
          int const beyond_rows = i < 0 || i >= N + more(k, 0, c_grid);
          int const beyond_columns = j < 0 || j >= N + more(k, 1, c_grid);
          int const corner = beyond_rows && beyond_columns;
          wrong += found != (corner ? untouched : expected(k, c_grid, own.lower[b][0], i, j));
          seen += !corner && (beyond_rows || beyond_columns);
        }
    }
  }
  CHECK(wrong == 0);
  CHECK(seen > 0);
  int all_copies = 0;
  MPI_Allreduce(&copies, &all_copies, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all_copies == (c_grid ? 12 * N : 0));
  REFUSES(gr_halo_exchange(halo, 1, &(gr_field){0}), "fields[0].size is 0");

  // Files know layouts of whole faces: one repartition.
  int const parts[3] = {world_size < FACES ? world_size : FACES, 1, 1};
  gr_layout* whole = NULL;
  gr_repartition* plan = NULL;
  OK(gr_layout_create(3, grid, parts, &whole));
  OK(gr_repartition_create(comm, whole, layout, NULL, &plan));
  OK(gr_repartition_source(plan, 3, lower, upper));
  double* on_faces = malloc((size_t)((upper[0] - lower[0]) * N * N + 1) * sizeof(double));
  int64_t const part[3] = {upper[0] - lower[0], N, N};
  gr_field from;
  OK(gr_field_dense(on_faces, GR_F64, 3, part, &from));
  gr_field to = fields[0];
  to.has_first = 1;
  to.first[1] = to.first[2] = WIDTH;
  OK(gr_repartition_apply_inverse(plan, 1, &from, 1, &to, NULL));
  for (int64_t f = 0; f < part[0]; ++f)
    for (int64_t i = 0; i < N; ++i)
      for (int64_t j = 0; j < N; ++j) wrong += on_faces[(f * N + i) * N + j] != expected(0, 0, lower[0] + f, i, j);
  CHECK(wrong == 0);
  free(on_faces);
  OK(gr_repartition_destroy(&plan));
  OK(gr_layout_destroy(&whole));
  for (int k = 0; k < 3; ++k) free(values[k]);

  gr_halo* refused = NULL;
  FAILS(gr_halo_create(comm, layout, 2, kinds, &refused), GR_ERROR_PROGRAM,
        "the kind of the other one is not beside it");
  RULE("BadOption");
  kinds[1].component = 2;
  REFUSES(gr_halo_create(comm, layout, 3, kinds, &refused), "kinds[1].component is 2, the kind has 2 axes");
  OK(gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, &kinds[0]));
  FAILS(gr_halo_create(comm, layout, 1, kinds, &refused), GR_ERROR_PROGRAM, "on faces that meet, both are untouched");
  RULE("BadBoundary");
  OK(gr_halo_destroy(&halo));
  OK(gr_layout_destroy(&layout));
}

/// One tile whose upper rows meet its upper columns, which are counted backwards, and nothing elsewhere.
static void exchanges_a_tile_with_itself(void) {
  gr_face_joint joint = GR_FACE_JOINT_INIT;
  joint.is_upper = joint.other_is_upper = joint.is_reversed = 1;
  joint.other_axis = 1;
  int64_t const grid[3] = {2, 4, 4};
  int64_t const lower[2][3] = {{0, 0, 0}, {1, 0, 0}};
  int64_t const upper[2][3] = {{1, 4, 4}, {2, 4, 4}};
  int const own = world_rank == world_size - 1 ? 2 : 0;
  gr_layout* layout = NULL;
  OK(gr_layout_create_faces(comm, 3, grid, own, lower[0], upper[0], 1, &joint, &layout));
  gr_halo_kind kind;
  OK(gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, 1, &kind));
  gr_halo* halo = NULL;
  OK(gr_halo_create(comm, layout, 1, &kind, &halo));
  double values[2][6][6];
  for (int f = 0; f < 2; ++f)
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j)
        values[f][i][j] = i > 0 && i < 5 && j > 0 && j < 5 ? 100 * f + 10 * (i - 1) + j - 1 : untouched;
  int64_t const extents[3] = {own, 6, 6};
  gr_field field;
  OK(gr_field_dense(values, GR_F64, 3, extents, &field));
  OK(gr_halo_exchange(halo, 1, &field));
  int wrong = 0;
  for (int j = 0; j < 4 && own == 2; ++j) {
    wrong += values[0][5][j + 1] != 10 * (3 - j) + 3;  // beyond row 3, at column j: row 3 - j of column 3
    wrong += values[0][j + 1][5] != 30 + (3 - j);
    wrong += values[0][0][j + 1] != untouched || values[1][5][j + 1] != untouched;
  }
  CHECK(wrong == 0);
  OK(gr_halo_destroy(&halo));
  OK(gr_layout_destroy(&layout));
}

static void refuses_bad_faces(void) {
  int64_t const grid[3] = {FACES, N, N};
  int64_t const two[3] = {2, N, N};
  int64_t const long_faces[3] = {FACES, N, N + 1};
  int64_t const lower[3] = {0, 0, 0};
  int64_t const both[3] = {2, N, N};
  int64_t const one[3] = {1, N, N};
  int const own = world_rank == 0;
  gr_layout* layout = NULL;
  FAILS(gr_layout_create_faces(comm, 3, grid, own, lower, both, 0, NULL, &layout), GR_ERROR_PROGRAM,
        "block 0 (of rank 0) is [0, 2) x [0, 48) x [0, 48), which is not on one face");
  RULE("BadLayout");
  REFUSES(gr_layout_create_faces(comm, 3, two, own, lower, one, 0, NULL, &layout),
          "extents have 2 faces; without joints");
  REFUSES(gr_layout_create_faces(comm, 3, two, own, lower, one, 1, NULL, &layout), "joints is NULL");
  REFUSES(gr_layout_create_faces(comm, 2, grid, own, lower, one, 0, NULL, &layout), "ndim is 2");
  FAILS(gr_layout_create_faces(comm, 3, long_faces, own, lower, one, 0, NULL, &layout), GR_ERROR_PROGRAM,
        "has 49 cells and meets face 4 above axis 1, which has 48");
  gr_face_joint joint = GR_FACE_JOINT_INIT;
  joint.other_face = 2;
  FAILS(gr_layout_create_faces(comm, 3, two, own, lower, one, 1, &joint, &layout), GR_ERROR_PROGRAM,
        "a joint has face 2 of 2");
  RULE("OutOfRange");
  CHECK(layout == NULL);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  exchanges_a_cubed_sphere(0);
  exchanges_a_cubed_sphere(1);
  exchanges_a_tile_with_itself();
  refuses_bad_faces();
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
