// SPDX-License-Identifier: BSD-3-Clause
// A tracer on the sphere, carried over the poles by a wind that friction slows down; both diffuse.
//
//   mpiexec -n 4 example_c OUTPUT.nc STEPS [FOLDER]
//
// With a folder, the run continues from the newest checkpoint there, and saves one at its end. The output has the same
// bytes for any number of ranks, with and without a restart.
#include <graticule/graticule.h>

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NLAT = 24, NLON = 48, Q = 0, U = 1, V = 2 };
static double const friction = 0.01;

/// Ends all ranks with the text of the error.
#define DO(call)                                \
  do {                                          \
    if ((call) != GR_SUCCESS) {                 \
      fprintf(stderr, "%s\n", gr_error_text()); \
      MPI_Abort(MPI_COMM_WORLD, 1);             \
    }                                           \
  } while (0)

/// The cells of this rank with a halo of one: fields q, u, v, each `rows` x `columns`.
typedef struct model {
  int64_t lower[2], upper[2];  // owned
  int64_t rows, columns;       // with the halo
  double* now;
  double* next;
  double cosine[NLAT], tangent[NLAT];
  double dphi, dlambda, dt;
} model;

static double* at(model const* m, double* state, int field, int64_t j, int64_t i) {
  return state + (field * m->rows + j - m->lower[0] + 1) * m->columns + i - m->lower[1] + 1;
}

static double latitude(int64_t j) { return -acos(-1.0) / 2 + ((double)j + 0.5) * (acos(-1.0) / NLAT); }
static double longitude(int64_t i) { return (double)i * (2 * acos(-1.0) / NLON); }

/// The model's own domain decomposition: the rank's box in a grid of ranks.
static model make_model(void) {
  model m;
  int rank = 0;
  int size = 0;
  int dims[2] = {0, 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, dims);
  int const coords[2] = {rank / dims[1], rank % dims[1]};
  int const cells[2] = {NLAT, NLON};
  for (int a = 0; a < 2; ++a) {
    m.lower[a] = (int64_t)cells[a] * coords[a] / dims[a];
    m.upper[a] = (int64_t)cells[a] * (coords[a] + 1) / dims[a];
  }
  m.rows = m.upper[0] - m.lower[0] + 2;
  m.columns = m.upper[1] - m.lower[1] + 2;
  m.now = calloc((size_t)(3 * m.rows * m.columns), sizeof(double));
  m.next = calloc((size_t)(3 * m.rows * m.columns), sizeof(double));
  m.dphi = acos(-1.0) / NLAT;
  m.dlambda = 2 * acos(-1.0) / NLON;
  for (int j = 0; j < NLAT; ++j) {
    m.cosine[j] = cos(latitude(j));
    m.tangent[j] = tan(latitude(j));
  }
  double const dx = m.cosine[0] * m.dlambda;
  m.dt = 0.2 * dx * dx / friction;
  return m;
}

/// A bell near the north pole; a rotation about an axis through the equator.
static void set_initial_state(model* m) {
  for (int64_t j = m->lower[0]; j < m->upper[0]; ++j)
    for (int64_t i = m->lower[1]; i < m->upper[1]; ++i) {
      double const phi = latitude(j);
      double const lambda = longitude(i);
      double const x = cos(phi) * cos(lambda) - cos(1.3);
      double const y = cos(phi) * sin(lambda);
      double const z = sin(phi) - sin(1.3);
      *at(m, m->now, Q, j, i) = exp(-20 * (x * x + y * y + z * z));
      *at(m, m->now, U, j, i) = sin(phi) * cos(lambda);
      *at(m, m->now, V, j, i) = -sin(lambda);
    }
}

static double laplacian(model const* m, double const* f, int64_t j) {
  double const east_west = (f[1] - 2 * f[0] + f[-1]) / (m->cosine[j] * m->cosine[j] * m->dlambda * m->dlambda);
  double const north_south = (f[m->columns] - 2 * f[0] + f[-m->columns]) / (m->dphi * m->dphi);
  double const slope = (f[m->columns] - f[-m->columns]) / (2 * m->dphi);
  return east_west + north_south - m->tangent[j] * slope;
}

/// One step of the cells of a box: upwind advection of q, the vector Laplacian of the wind.
static void step_box(model* m, int64_t const lower[2], int64_t const upper[2]) {
  for (int64_t j = lower[0]; j < upper[0]; ++j)
    for (int64_t i = lower[1]; i < upper[1]; ++i) {
      double const* const q = at(m, m->now, Q, j, i);
      double const* const u = at(m, m->now, U, j, i);
      double const* const v = at(m, m->now, V, j, i);
      double const c = m->cosine[j];
      double const t = m->tangent[j];
      double const q_east = (u[0] > 0 ? q[0] - q[-1] : q[1] - q[0]) / (c * m->dlambda);
      double const q_north = (v[0] > 0 ? q[0] - q[-m->columns] : q[m->columns] - q[0]) / m->dphi;
      double const u_east = (u[1] - u[-1]) / (2 * m->dlambda);
      double const v_east = (v[1] - v[-1]) / (2 * m->dlambda);
      double const q_rate = friction * laplacian(m, q, j) - (u[0] * q_east + v[0] * q_north);
      double const u_rate = friction * (laplacian(m, u, j) - u[0] / (c * c) - 2 * t / c * v_east);
      double const v_rate = friction * (laplacian(m, v, j) - v[0] / (c * c) + 2 * t / c * u_east);
      *at(m, m->next, Q, j, i) = q[0] + m->dt * q_rate;
      *at(m, m->next, U, j, i) = u[0] + m->dt * u_rate;
      *at(m, m->next, V, j, i) = v[0] + m->dt * v_rate;
    }
}

/// The fields of a state: the wind changes its sign across a pole.
static void describe(model const* m, double* state, gr_field fields[3]) {
  int64_t const extents[2] = {m->rows, m->columns};
  for (int f = 0; f < 3; ++f) {
    DO(gr_field_dense(state + f * m->rows * m->columns, GR_F64, 2, extents, &fields[f]));
    fields[f].has_first = 1;  // the owned cells begin at element (1, 1)
    fields[f].first[0] = 1;
    fields[f].first[1] = 1;
    fields[f].parity = f == Q ? GR_EVEN : GR_ODD;
  }
}

static void step(model* m, gr_halo const* halo) {
  gr_field fields[3];
  gr_pending* pending = NULL;
  int64_t lower[2], upper[2], lowers[4][2], uppers[4][2];
  int num_boxes = 0;
  describe(m, m->now, fields);
  DO(gr_halo_start(halo, 3, fields, &pending));
  DO(gr_halo_interior(halo, 0, 2, NULL, NULL, lower, upper));
  step_box(m, lower, upper);  // while the halos travel
  DO(gr_finish(&pending));
  DO(gr_halo_border(halo, 0, 2, NULL, NULL, 4, &num_boxes, lowers[0], uppers[0]));
  for (int b = 0; b < num_boxes; ++b) step_box(m, lowers[b], uppers[b]);
  double* const done = m->next;
  m->next = m->now;
  m->now = done;
}

static char const* const names[3] = {"q", "u", "v"};

static int64_t load(gr_checkpoints* checkpoints, model* m, gr_layout const* layout) {
  gr_checkpoint* checkpoint = NULL;
  int64_t steps = 0;
  DO(gr_checkpoints_newest(checkpoints, &checkpoint));
  if (checkpoint == NULL) return 0;
  gr_field fields[3];
  describe(m, m->now, fields);
  for (int f = 0; f < 3; ++f) DO(gr_checkpoint_read(checkpoint, names[f], layout, &fields[f]));
  DO(gr_checkpoint_step(checkpoint, &steps));
  DO(gr_checkpoint_close(&checkpoint));
  return steps;
}

static void save(gr_checkpoints* checkpoints, model* m, gr_layout const* layout, int64_t steps) {
  gr_checkpoint_writer* writer = NULL;
  gr_field fields[3];
  describe(m, m->now, fields);
  DO(gr_checkpoint_begin(checkpoints, steps, &writer));
  for (int f = 0; f < 3; ++f) DO(gr_checkpoint_add(writer, names[f], layout, &fields[f]));
  DO(gr_checkpoint_commit(writer));
  DO(gr_checkpoint_writer_destroy(&writer));
}

static void write_file(gr_comm const* comm, model* m, char const* path) {
  gr_writer* writer = NULL;
  gr_field fields[3];
  double latitudes[NLAT];
  double longitudes[NLON];
  double const degrees = 180 / acos(-1.0);
  for (int j = 0; j < NLAT; ++j) latitudes[j] = degrees * latitude(j);
  for (int i = 0; i < NLON; ++i) longitudes[i] = degrees * longitude(i);
  DO(gr_writer_create(comm, path, NULL, &writer));
  char const* const axes[2] = {"latitude", "longitude"};
  char const* const units[2] = {"degrees_north", "degrees_east"};
  for (int a = 0; a < 2; ++a) {
    gr_attributes* attributes = NULL;
    DO(gr_attributes_create(&attributes));
    DO(gr_attributes_add_text(attributes, "units", units[a]));
    DO(gr_writer_add_coordinate(writer, axes[a], a == 0 ? NLAT : NLON, a == 0 ? latitudes : longitudes, GR_F64,
                                attributes));
    DO(gr_attributes_destroy(&attributes));
  }
  describe(m, m->now, fields);
  for (int f = 0; f < 3; ++f) {
    DO(gr_writer_add_variable(writer, names[f], "latitude longitude", GR_F64, NULL, NULL));
    DO(gr_writer_write(writer, names[f], 2, m->lower, m->upper, NULL, 0, NULL, &fields[f]));
  }
  DO(gr_writer_commit(writer));
  DO(gr_writer_destroy(&writer));
}

/// The mean of q over the sphere, with the same bits on any number of ranks.
static double mean(gr_comm const* comm, gr_layout const* layout, model* m) {
  gr_area_sum* sum = NULL;
  gr_field fields[3];
  double latitudes[NLAT], weights[NLAT], result = 0;
  for (int j = 0; j < NLAT; ++j) latitudes[j] = 180 / acos(-1.0) * latitude(j);
  DO(gr_area_weights(NLAT, latitudes, weights));
  DO(gr_area_sum_create(comm, layout, 1, 0, NLAT, weights, GR_SCALE_MEAN, &sum));
  describe(m, m->now, fields);
  DO(gr_area_sum_apply(sum, &fields[Q], 1, &result));
  DO(gr_area_sum_destroy(&sum));
  return result;
}

/// Largest deviation of the wind from the exact solution: friction slows it by exp(-2 friction t).
static double wind_error(model* m, int64_t steps) {
  double error = 0;
  double const factor = exp(-2 * friction * m->dt * (double)steps);
  for (int64_t j = m->lower[0]; j < m->upper[0]; ++j)
    for (int64_t i = m->lower[1]; i < m->upper[1]; ++i) {
      double const u = factor * sin(latitude(j)) * cos(longitude(i));
      double const v = -factor * sin(longitude(i));
      error = fmax(error, fmax(fabs(*at(m, m->now, U, j, i) - u), fabs(*at(m, m->now, V, j, i) - v)));
    }
  MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return error;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "use: %s OUTPUT.nc STEPS [FOLDER]\n", argv[0]);
    return 2;
  }
  int64_t const steps = atoi(argv[2]);
  DO(gr_init(0, NULL));  // starts MPI, too
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo* halo = NULL;
  gr_halo_kind kind;
  int64_t const extents[2] = {NLAT, NLON};
  model m = make_model();
  DO(gr_comm_create(MPI_COMM_WORLD, &comm));
  DO(gr_layout_create_boxes(comm, 2, extents, 1, m.lower, m.upper, &layout));
  DO(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  DO(gr_halo_create(comm, layout, 1, &kind, &halo));

  gr_checkpoints* checkpoints = NULL;
  int64_t done = 0;
  set_initial_state(&m);
  double const begin = mean(comm, layout, &m);
  if (argc > 3) {
    DO(gr_checkpoints_create(comm, argv[3], 2, &checkpoints));
    done = load(checkpoints, &m, layout);
  }
  for (; done < steps; ++done) step(&m, halo);
  if (checkpoints != NULL) save(checkpoints, &m, layout, steps);
  write_file(comm, &m, argv[1]);
  double const end = mean(comm, layout, &m);
  double const error = wind_error(&m, steps);
  int rank = 0;
  DO(gr_comm_rank(comm, &rank));
  if (rank == 0) printf("mean %.6e, was %.6e; error of the wind %.2e\n", end, begin, error);

  if (checkpoints != NULL) DO(gr_checkpoints_destroy(&checkpoints));
  DO(gr_halo_destroy(&halo));
  DO(gr_layout_destroy(&layout));
  DO(gr_comm_destroy(&comm));
  free(m.now);
  free(m.next);
  DO(gr_finalize());
  return 0;
}
