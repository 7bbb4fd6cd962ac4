// SPDX-License-Identifier: BSD-3-Clause
// A model of a tracer whose source is unknown: a network in its time step learns the source from observations.
//
//   mpiexec -n 4 example_c_closure NET.pt2 TUNED.pt2 STEPS
//
// NET.pt2 is an exported network [1, 3, 24, 48] -> [1, 1, 24, 48], tracer and wind in, source of the tracer out, such
// as that of ../python/closure_net.py. The model learns for STEPS steps, saves the network, and forecasts with and
// without it.
#include <graticule/graticule.h>
#include <graticule/graticule_nn.h>

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NLAT = 24, NLON = 48, FORECAST_STEPS = 20 };
static double const pi = 3.14159265358979323846;
static double const diffusivity = 0.002;
static double const dt = 0.05;

/// Ends all ranks with the text of the error.
#define DO(call)                                \
  do {                                          \
    if ((call) != GR_SUCCESS) {                 \
      fprintf(stderr, "%s\n", gr_error_text()); \
      MPI_Abort(MPI_COMM_WORLD, 1);             \
    }                                           \
  } while (0)

/// The cells of this rank: the tracer q with a halo of one, all other fields without.
typedef struct model {
  int64_t lower[2], upper[2];
  int64_t rows, columns, num_cells;
  double *q, *u, *v, *source, *missing, *rate;
  gr_halo* halo;
  gr_net* net;
  gr_optimizer* optimizer;
} model;

static double latitude(int64_t j) { return -pi / 2 + ((double)j + 0.5) * (pi / NLAT); }

static double* q_at(model const* m, int64_t j, int64_t i) { return m->q + (j + 1) * (m->columns + 2) + i + 1; }

static gr_field q_field(model const* m) {
  gr_field field;
  DO(gr_field_dense(m->q, GR_F64, 2, (int64_t const[2]){m->rows + 2, m->columns + 2}, &field));
  field.has_first = 1;
  field.first[0] = field.first[1] = 1;
  return field;
}

static gr_field field_of(model const* m, double* values) {
  gr_field field;
  DO(gr_field_dense(values, GR_F64, 2, (int64_t const[2]){m->rows, m->columns}, &field));
  return field;
}

/// The model's own domain decomposition, and a wind that does not change.
static model make_model(void) {
  model m;
  memset(&m, 0, sizeof m);
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
  m.rows = m.upper[0] - m.lower[0];
  m.columns = m.upper[1] - m.lower[1];
  m.num_cells = m.rows * m.columns;
  m.q = calloc((size_t)((m.rows + 2) * (m.columns + 2)), sizeof(double));
  double** const others[5] = {&m.u, &m.v, &m.source, &m.missing, &m.rate};
  for (int f = 0; f < 5; ++f) *others[f] = calloc((size_t)m.num_cells, sizeof(double));
  for (int64_t j = 0; j < m.rows; ++j)
    for (int64_t i = 0; i < m.columns; ++i) {
      double const phi = latitude(m.lower[0] + j);
      double const lambda = (double)(m.lower[1] + i) * 2 * pi / NLON;
      m.u[j * m.columns + i] = cos(phi) * (1 + 0.3 * sin(3 * lambda));
      m.v[j * m.columns + i] = 0.5 * sin(2 * phi) * cos(2 * lambda);
    }
  return m;
}

/// Loads the network, and binds the model's arrays to it.
static void load_network(model* m, gr_comm const* comm, gr_layout const* layout, char const* file) {
  double latitudes[NLAT];
  double weights[NLAT];
  for (int64_t j = 0; j < NLAT; ++j) latitudes[j] = 180 / pi * latitude(j);
  DO(gr_area_weights(NLAT, latitudes, weights));
  gr_field const inputs[3] = {q_field(m), field_of(m, m->u), field_of(m, m->v)};
  gr_field const source = field_of(m, m->source);
  gr_field const missing = field_of(m, m->missing);
  DO(gr_net_load(comm, file, NULL, &m->net));
  DO(gr_net_bind_input(m->net, NULL, layout, 3, inputs));
  DO(gr_net_bind_output(m->net, NULL, layout, 1, &source));
  DO(gr_net_bind_target(m->net, NULL, layout, 1, &missing, 1, NLAT, weights));
  DO(gr_optimizer_create(m->net, GR_ADAM, 0.01, NULL, &m->optimizer));
}

static void set_initial_state(model const* m) {
  for (int64_t j = 0; j < m->rows; ++j)
    for (int64_t i = 0; i < m->columns; ++i)
      *q_at(m, j, i) = 0.5 + 0.4 * cos(latitude(m->lower[0] + j)) * sin((double)(m->lower[1] + i) * 2 * pi / NLON);
}

/// What the model does not know: the source of the tracer.
static double nature(double tracer, double east, double north) {
  return 0.6 * east * tanh(2 * tracer) - 0.8 * tracer + 0.7 * north;
}

/// Diffusion, which the model knows.
static void diffuse(model const* m) {
  double const dphi = pi / NLAT;
  for (int64_t j = 0; j < m->rows; ++j) {
    double const dx = fmax(cos(latitude(m->lower[0] + j)) * 2 * pi / NLON, 0.1);
    for (int64_t i = 0; i < m->columns; ++i) {
      double const q = *q_at(m, j, i);
      m->rate[j * m->columns + i] = diffusivity * ((*q_at(m, j, i + 1) - 2 * q + *q_at(m, j, i - 1)) / (dx * dx) +
                                                   (*q_at(m, j + 1, i) - 2 * q + *q_at(m, j - 1, i)) / (dphi * dphi));
    }
  }
}

/// The rate of change by what the model knows, and the source by the network.
static void compute_rates(model const* m) {
  gr_field const q = q_field(m);
  DO(gr_net_start(m->net));  // the inputs travel to the rows of the network
  DO(gr_halo_exchange(m->halo, 1, &q));
  diffuse(m);
  DO(gr_net_finish(m->net));
}

/// One step from an observed state to the next one: the difference is what the network should have given.
static double learn_from_observation(model const* m) {
  double loss = 0;
  compute_rates(m);
  for (int64_t c = 0; c < m->num_cells; ++c)
    m->missing[c] = nature(*q_at(m, c / m->columns, c % m->columns), m->u[c], m->v[c]);
  DO(gr_net_learn(m->net, m->optimizer, &loss));
  for (int64_t c = 0; c < m->num_cells; ++c)
    *q_at(m, c / m->columns, c % m->columns) += dt * (m->rate[c] + m->missing[c]);
  return loss;
}

/// Distance from nature after some steps without observations.
static double error_of_forecast(model const* m, int with_network) {
  double* const truth = calloc((size_t)m->num_cells, sizeof(double));
  double error = 0;
  for (int run = 0; run < 2; ++run) {  // nature, then the model
    set_initial_state(m);
    for (int step = 0; step < FORECAST_STEPS; ++step) {
      compute_rates(m);
      for (int64_t c = 0; c < m->num_cells; ++c) {
        double* const q = q_at(m, c / m->columns, c % m->columns);
        *q += dt * (m->rate[c] + (run == 0 ? nature(*q, m->u[c], m->v[c]) : with_network ? m->source[c] : 0));
      }
    }
    for (int64_t c = 0; c < m->num_cells; ++c) {
      double const q = *q_at(m, c / m->columns, c % m->columns);
      if (run == 0) truth[c] = q;
      error += (q - truth[c]) * (q - truth[c]);
    }
  }
  free(truth);
  MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sqrt(error / (NLON * NLAT));
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "use: example_c_closure NET.pt2 TUNED.pt2 STEPS\n");
    return 2;
  }
  gr_comm* comm = NULL;
  gr_layout* layout = NULL;
  gr_halo_kind kind;
  DO(gr_init(0, NULL));  // starts MPI, too
  model m = make_model();
  DO(gr_comm_create(MPI_COMM_WORLD, &comm));
  DO(gr_layout_create_boxes(comm, 2, (int64_t const[2]){NLAT, NLON}, 1, m.lower, m.upper, &layout));
  DO(gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, &kind));
  DO(gr_halo_create(comm, layout, 1, &kind, &m.halo));
  load_network(&m, comm, layout, argv[1]);

  int const steps = atoi(argv[3]);
  double loss = 0;
  double first_loss = 0;
  for (int step = 0; step < steps; ++step) {
    if (step % FORECAST_STEPS == 0) set_initial_state(&m);  // the next event
    loss = learn_from_observation(&m);
    if (step == 0) first_loss = loss;
  }
  DO(gr_net_save(m.net, argv[2]));
  double const without = error_of_forecast(&m, 0);
  double const with = error_of_forecast(&m, 1);
  int rank = 0;
  DO(gr_comm_rank(comm, &rank));
  if (rank == 0)
    printf("loss %.4E, was %.4E; error of the forecast %.4E, without the network %.4E\n", loss, first_loss, with,
           without);

  DO(gr_optimizer_destroy(&m.optimizer));
  DO(gr_net_destroy(&m.net));
  DO(gr_halo_destroy(&m.halo));
  DO(gr_layout_destroy(&layout));
  DO(gr_comm_destroy(&comm));
  double* const fields[6] = {m.q, m.u, m.v, m.source, m.missing, m.rate};
  for (int f = 0; f < 6; ++f) free(fields[f]);
  DO(gr_finalize());
  return 0;
}
