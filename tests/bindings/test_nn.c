// SPDX-License-Identifier: BSD-3-Clause
// Exported networks on the arrays of a program.
//
//   test_nn FOLDER [DATA]: FOLDER has what write_networks made, DATA exported networks with Python's outputs
#include <graticule/graticule_nn.h>

#include "check.h"

#include <math.h>
#include <unistd.h>

static gr_comm* comm = NULL;
static gr_comm* self = NULL;
static char const* folder = ".";
static char const* data = NULL;

static char const* in_folder(char const* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/// A grid cut into blocks of latitude and longitude, or into uneven bands of which the last ranks may have none.
static gr_layout* blocks(int64_t rows, int64_t columns) {
  gr_layout* layout = NULL;
  int dims[2] = {0, 0};
  MPI_Dims_create(world_size, 2, dims);
  int const parts[2] = {dims[1], dims[0]};
  OK(gr_layout_create(2, (int64_t const[2]){rows, columns}, parts, &layout));
  return layout;
}

static gr_layout* bands(int64_t rows, int64_t columns) {
  gr_layout* layout = NULL;
  gr_cuts* cuts[2] = {NULL, NULL};
  int64_t sizes[64] = {0};
  sizes[0] = world_size == 1 ? rows : rows - rows / 3;
  if (world_size > 1) sizes[1] = rows / 3;  // a third rank has no rows
  OK(gr_cuts_create(world_size, sizes, &cuts[0]));
  OK(gr_cuts_create_balanced(columns, 1, &cuts[1]));
  OK(gr_layout_create_cuts(2, (gr_cuts const* const*)cuts, 0, NULL, &layout));
  for (int a = 0; a < 2; ++a) OK(gr_cuts_destroy(&cuts[a]));
  return layout;
}

static gr_layout* whole(int64_t rows, int64_t columns) {
  gr_layout* layout = NULL;
  OK(gr_layout_create(2, (int64_t const[2]){rows, columns}, (int const[2]){1, 1}, &layout));
  return layout;
}

/// How an array lies in memory.
typedef enum memory { DENSE, WITH_HALO, BACKWARDS, LEVELS_LAST, EVERY_SECOND, NUM_MEMORIES } memory;

/// An array of `channels` levels on the box of this rank in a layout.
typedef struct array {
  double* base;
  gr_field field;
  int64_t lower[2];
  int64_t size[2];
  int64_t channels;
  int64_t strides[3];  // elements: channel, row, column
  double* first;
} array;

static array make_array(gr_layout const* layout, int rank, int64_t channels, memory how) {
  array a;
  memset(&a, 0, sizeof a);
  int64_t upper[2];
  OK(gr_layout_owned(layout, rank, 2, a.lower, upper));
  for (int d = 0; d < 2; ++d) a.size[d] = upper[d] - a.lower[d];
  if (a.size[0] == 0 || a.size[1] == 0) a.size[0] = a.size[1] = 0;
  a.channels = channels;
  int64_t const halo = how == WITH_HALO ? 2 : 0;
  int64_t const step = how == EVERY_SECOND ? 2 : 1;
  int64_t const rows = a.size[0] + 2 * halo;
  int64_t const columns = (a.size[1] + 2 * halo) * step;
  int64_t const count = channels * rows * columns + 1;
  a.base = malloc((size_t)count * sizeof(double));
  for (int64_t i = 0; i < count; ++i) a.base[i] = -777;
  int const last = how == LEVELS_LAST;
  int64_t const extents[3] = {last ? rows : channels, last ? a.size[1] : rows, last ? channels : a.size[1] + 2 * halo};
  OK(gr_field_dense(a.base, GR_F64, 3, extents, &a.field));
  a.strides[0] = last ? 1 : rows * columns;
  a.strides[1] = last ? columns * channels : columns;
  a.strides[2] = last ? channels : step;
  a.first = a.base + halo * a.strides[1] + halo * a.strides[2];
  if (last) {
    a.field.num_grid_axes = 2;
    a.field.grid_axes[0] = 0;
    a.field.grid_axes[1] = 1;
  }
  if (halo > 0) {
    a.field.has_first = 1;
    a.field.first[1] = a.field.first[2] = halo;
  }
  if (how == EVERY_SECOND) {
    a.field.strides[2] *= step;
    a.field.strides[1] *= step;
    a.field.strides[0] *= step;
  }
  if (how == BACKWARDS && a.size[0] > 0) {  // the last row and the last column come first
    a.field.base = a.base + (rows - 1) * columns + columns - 1;
    a.field.strides[1] = -a.field.strides[1];
    a.field.strides[2] = -a.field.strides[2];
    a.first = a.field.base;
    a.strides[1] = -a.strides[1];
    a.strides[2] = -a.strides[2];
  }
  return a;
}

static double* at(array const* a, int64_t channel, int64_t row, int64_t column) {
  return a->first + channel * a->strides[0] + row * a->strides[1] + column * a->strides[2];
}

/// Channels of a whole field [channel][row][column].
static void fill(array const* a, double const* values, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < a->channels; ++c)
    for (int64_t i = 0; i < a->size[0]; ++i)
      for (int64_t j = 0; j < a->size[1]; ++j)
        *at(a, c, i, j) = values[(c * rows + a->lower[0] + i) * columns + a->lower[1] + j];
}

/// Largest difference from a whole field, of this rank.
static double difference(array const* a, double const* values, int64_t rows, int64_t columns) {
  double most = 0;
  for (int64_t c = 0; c < a->channels; ++c)
    for (int64_t i = 0; i < a->size[0]; ++i)
      for (int64_t j = 0; j < a->size[1]; ++j) {
        double const d = fabs(*at(a, c, i, j) - values[(c * rows + a->lower[0] + i) * columns + a->lower[1] + j]);
        if (!(d <= most)) most = d;
      }
  return most;
}

/// The numbers of elements that are neither owned cells nor what they were made with.
static int num_damaged(array const* a, int64_t halo, int64_t step) {
  int64_t const count = a->channels * (a->size[0] + 2 * halo) * (a->size[1] + 2 * halo) * step + 1;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) kept += a->base[i] == -777;
  return (int)(count - a->channels * a->size[0] * a->size[1] - kept);
}

enum { ROWS = 24, COLUMNS = 48, CHANNELS = 3 };
static double x[CHANNELS * ROWS * COLUMNS];
static double y[ROWS * COLUMNS];
static double truth[ROWS * COLUMNS];
static double latitude_weights[ROWS];

static void make_fields(void) {
  for (int i = 0; i < CHANNELS * ROWS * COLUMNS; ++i) x[i] = sin(0.37 * i) + 0.1 * cos(0.011 * i);
  double latitudes[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    latitudes[i] = -90 + (i + 0.5) * 180 / ROWS;
    for (int j = 0; j < COLUMNS; ++j)
      truth[i * COLUMNS + j] = 0.5 * x[i * COLUMNS + j] * x[(ROWS + i) * COLUMNS + (j + 1) % COLUMNS];
  }
  OK(gr_area_weights(ROWS, latitudes, latitude_weights));
}

static gr_net* load(gr_comm const* on, char const* name, int has_type, gr_type type) {
  gr_net* net = NULL;
  gr_net_options options = GR_NET_OPTIONS_INIT;
  options.has_type = has_type;
  options.type = type;
  OK(gr_net_load(on, in_folder(name), &options, &net));
  return net;
}

/// The output of closure.pt2 on one rank, from its own parameters or those of another file.
static void alone(char const* name, double* result) {
  gr_net* net = load(self, name, 1, GR_F64);
  gr_layout* layout = whole(ROWS, COLUMNS);
  gr_field in;
  gr_field out;
  OK(gr_field_dense(x, GR_F64, 3, (int64_t const[3]){CHANNELS, ROWS, COLUMNS}, &in));
  OK(gr_field_dense(result, GR_F64, 2, (int64_t const[2]){ROWS, COLUMNS}, &out));
  OK(gr_net_bind_input(net, "x", layout, 1, &in));
  OK(gr_net_bind_output(net, "y", layout, 1, &out));
  OK(gr_net_run(net));
  OK(gr_layout_destroy(&layout));
  OK(gr_net_destroy(&net));
}

static void describes_a_network(void) {
  gr_net* net = load(comm, "several.pt2", 0, GR_F32);
  int count = 0;
  char const* text = NULL;
  OK(gr_net_num_inputs(net, &count));
  CHECK(count == 2);
  OK(gr_net_num_outputs(net, &count));
  CHECK(count == 2);
  OK(gr_net_input_name(net, 1, &text));
  CHECK(strcmp(text, "factors") == 0);
  OK(gr_net_output_name(net, 0, &text));
  CHECK(strcmp(text, "scaled") == 0);
  OK(gr_net_text(net, &text));
  CHECK(strstr(text, "network in f32 on") != NULL && strstr(text, "1 parameters with 2 values") != NULL);
  CHECK(strstr(text, "input 'x': f32 [1, 2, 6, 8], rows are divided, not bound") != NULL);
  CHECK(strstr(text, "input 'factors': f32 [2], whole on every rank, not bound") != NULL);
  REFUSES(gr_net_input_name(net, 2, &text), "input is 2 of 2");
  REFUSES(gr_net_output_name(net, -1, &text), "output is -1 of 2");
  REFUSES(gr_net_num_inputs(NULL, &count), "net is NULL");
  REFUSES(gr_net_num_outputs(net, NULL), "num_outputs is NULL");
  REFUSES(gr_net_text(net, NULL), "text is NULL");
  gr_optimizer* optimizer = NULL;
  OK(gr_optimizer_create(net, GR_SGD, 0.1, NULL, &optimizer));
  gr_net* copy = net;
  gr_optimizer* other = optimizer;
  REFUSES(gr_optimizer_set_rate((gr_optimizer*)(void*)net, 1), "optimizer is a gr_net");
  OK(gr_optimizer_destroy(&optimizer));
  OK(gr_net_destroy(&net));
  REFUSES(gr_net_num_inputs(copy, &count), "net is a copy of a handle that was freed");
  REFUSES(gr_net_destroy(&copy), "net is a copy of a handle that was freed");
  REFUSES(gr_optimizer_set_rate(other, 1), "optimizer is a copy of a handle that was freed");
  REFUSES(gr_net_num_inputs((gr_net*)(void*)comm, &count), "net is no gr_net of this program");
  gr_comm* wrong = (gr_comm*)(void*)load(comm, "several.pt2", 0, GR_F32);
  REFUSES(gr_comm_rank(wrong, &count), "comm is no gr_comm of this program");
  // gr_finalize frees it.
  CHECK(net == NULL);
  OK(gr_net_destroy(&net));
  REFUSES(gr_net_destroy(NULL), "net is NULL");
}

static void refuses_at_load(void) {
  gr_net* net = NULL;
  gr_net_options options = GR_NET_OPTIONS_INIT;
  FAILS(gr_net_load(comm, in_folder("refused.pt2"), NULL, &net), GR_ERROR_INPUT, "aten.nonzero.default in head");
  CHECK(strstr(gr_error_text(), "head.py:27") != NULL);
  RULE("RefusedProgram");
  FAILS(gr_net_load(comm, in_folder("missing.pt2"), NULL, &net), GR_ERROR_INPUT, "missing.pt2");
  RULE("NoSuchFile");
  REFUSES(gr_net_load(comm, NULL, NULL, &net), "path is NULL");
  REFUSES(gr_net_load(comm, in_folder("closure.pt2"), NULL, NULL), "net is NULL");
  REFUSES(gr_net_load(NULL, in_folder("closure.pt2"), NULL, &net), "comm is NULL");
  options.has_type = 1;
  options.type = GR_I32;
  REFUSES(gr_net_load(comm, in_folder("closure.pt2"), &options, &net), "options.type is 3");
  options.type = GR_F64;
  options.num_threads = -2;
  REFUSES(gr_net_load(comm, in_folder("closure.pt2"), &options, &net), "options.num_threads is -2");
  options.num_threads = 1;
  options.size = 4000;
  REFUSES(gr_net_load(comm, in_folder("closure.pt2"), &options, &net), "options.size is 4000");
  if (world_size > 1) {  // one rank's argument is an error of all
    gr_status const status = gr_net_load(comm, world_rank == 1 ? NULL : in_folder("closure.pt2"), NULL, &net);
    CHECK(status == GR_ERROR_ARGUMENT && strstr(gr_error_text(), "path is NULL") != NULL);
  }
  CHECK(net == NULL);
}

/// Blocks, bands and all kinds of memory: the values of one rank.
static void reads_any_memory(void) {
  alone("closure.pt2", y);
  gr_net* net = load(comm, "closure.pt2", 1, GR_F64);
  for (int cut = 0; cut < 2; ++cut) {
    gr_layout* layout = cut == 0 ? blocks(ROWS, COLUMNS) : bands(ROWS, COLUMNS);
    for (int how = 0; how < NUM_MEMORIES; ++how) {
      // Three channels of two arrays, of which one lies otherwise.
      array in[2] = {make_array(layout, world_rank, 1, (memory)how), make_array(layout, world_rank, 2, DENSE)};
      array out = make_array(layout, world_rank, 1, (memory)how);
      fill(&in[0], x, ROWS, COLUMNS);
      fill(&in[1], x + ROWS * COLUMNS, ROWS, COLUMNS);
      gr_field const fields[2] = {in[0].field, in[1].field};
      OK(gr_net_bind_input(net, NULL, layout, 2, fields));
      OK(gr_net_bind_output(net, NULL, layout, 1, &out.field));
      OK(gr_net_run(net));
      CHECK(difference(&out, y, ROWS, COLUMNS) < 1e-13);
      CHECK(num_damaged(&out, how == WITH_HALO ? 2 : 0, how == EVERY_SECOND ? 2 : 1) == 0);
      fill(&in[0], y, ROWS, COLUMNS);  // the same plan with other values
      OK(gr_net_start(net));
      FAILS(gr_net_run(net), GR_ERROR_PROGRAM, "call gr_net_finish first");
      OK(gr_net_finish(net));
      CHECK(out.size[0] == 0 || difference(&out, y, ROWS, COLUMNS) > 1e-3);
      FAILS(gr_net_finish(net), GR_ERROR_PROGRAM, "call gr_net_start first");
      free(in[0].base);
      free(in[1].base);
      free(out.base);
    }
    OK(gr_layout_destroy(&layout));
  }
  char const* text = NULL;
  OK(gr_net_text(net, &text));
  CHECK(strstr(text, "bound to 2 arrays, per channel") != NULL && strstr(text, "a call: the busiest rank") != NULL);
  OK(gr_net_destroy(&net));
}

/// Values that are whole on every rank, and arrays of other types.
static void takes_whole_values(void) {
  gr_net* net = load(comm, "several.pt2", 0, GR_F32);
  gr_layout* layout = blocks(6, 8);
  array in = make_array(layout, world_rank, 2, DENSE);
  array out = make_array(layout, world_rank, 2, LEVELS_LAST);
  double values[2 * 6 * 8];
  double expected[2 * 6 * 8];
  double means[2] = {0, 0};
  for (int i = 0; i < 96; ++i) {
    values[i] = 0.25 * i;
    expected[i] = values[i] * (i < 48 ? 2 : -3) + (i < 48 ? 1 : -2);
    means[i / 48] += expected[i] / 48;
  }
  fill(&in, values, 6, 8);
  float factors[4] = {2, 99, -3, 99};
  int64_t mean[2] = {-1, -1};
  gr_field factors_field;
  gr_field mean_field;
  OK(gr_field_dense(factors, GR_F32, 1, (int64_t const[1]){2}, &factors_field));
  OK(gr_field_dense(mean, GR_I64, 1, (int64_t const[1]){2}, &mean_field));
  factors_field.strides[0] = 2 * sizeof(float);
  FAILS(gr_net_bind_input(net, "factors", layout, 1, &factors_field), GR_ERROR_ARGUMENT, "layout is given");
  FAILS(gr_net_bind_output(net, "scaled", layout, 1, &out.field), GR_ERROR_PROGRAM, "bind input 'x' first");
  OK(gr_net_bind_input(net, NULL, layout, 1, &in.field));
  FAILS(gr_net_run(net), GR_ERROR_PROGRAM, "input 'factors' is not bound");
  OK(gr_net_bind_input(net, NULL, NULL, 1, &factors_field));
  OK(gr_net_bind_output(net, "mean", NULL, 1, &mean_field));
  OK(gr_net_bind_output(net, NULL, layout, 1, &out.field));
  REFUSES(gr_net_bind_output(net, NULL, layout, 1, &out.field), "name is NULL, and all 2 outputs are bound");
  OK(gr_net_run(net));
  CHECK(difference(&out, expected, 6, 8) == 0);
  CHECK(mean[0] == (int64_t)means[0] && mean[1] == (int64_t)means[1]);
  free(in.base);
  free(out.base);
  OK(gr_layout_destroy(&layout));
  OK(gr_net_destroy(&net));
}

/// Ten steps of training on a communicator. @return the last loss; `after`, if not NULL, is a file for the network
static double train(gr_comm const* on, gr_layout* layout, int rank, gr_optimizer_kind kind, double const* weights,
                    double losses[11], char const* after) {
  gr_net* net = load(on, "closure.pt2", 1, GR_F64);
  array in = make_array(layout, rank, CHANNELS, WITH_HALO);
  array target = make_array(layout, rank, 1, DENSE);
  fill(&in, x, ROWS, COLUMNS);
  fill(&target, truth, ROWS, COLUMNS);
  OK(gr_net_bind_input(net, "x", layout, 1, &in.field));
  OK(gr_net_bind_target(net, "y", layout, 1, &target.field, 2.5, weights != NULL ? ROWS : 0, weights));
  gr_optimizer* optimizer = NULL;
  gr_optimizer_options options = GR_OPTIMIZER_OPTIONS_INIT;
  options.momentum = kind == GR_SGD ? 0.5 : 0;
  options.most_gradient = kind == GR_SGD ? 0.8 : 0;
  OK(gr_optimizer_create(net, kind, 0.5, &options, &optimizer));
  OK(gr_optimizer_set_rate(optimizer, 0.02));
  for (int step = 0; step < 10; ++step) OK(gr_net_learn(net, optimizer, &losses[step]));
  OK(gr_net_learn(net, NULL, &losses[10]));
  if (after != NULL) OK(gr_net_save(net, after));
  double again = 0;
  OK(gr_net_learn(net, NULL, &again));
  CHECK(again == losses[10]);
  OK(gr_net_destroy(&net));  // before its optimizer
  OK(gr_optimizer_destroy(&optimizer));
  free(in.base);
  free(target.base);
  return losses[10];
}

static void learns_as_on_one_rank(void) {
  gr_layout* all = whole(ROWS, COLUMNS);
  for (int kind = GR_SGD; kind <= GR_ADAMW; ++kind)
    for (int cut = 0; cut < 2; ++cut) {
      double const* const weights = cut == 0 ? latitude_weights : NULL;
      gr_layout* layout = cut == 0 ? blocks(ROWS, COLUMNS) : bands(ROWS, COLUMNS);
      double one[11];
      double many[11];
      train(self, all, 0, (gr_optimizer_kind)kind, weights, one, NULL);
      train(comm, layout, world_rank, (gr_optimizer_kind)kind, weights, many, NULL);
      CHECK(one[10] < 0.97 * one[0]);
      for (int step = 0; step < 11; ++step) CHECK(fabs(one[step] - many[step]) <= 1e-10 * one[step]);
      OK(gr_layout_destroy(&layout));
    }

  // The loss is what it says: 2.5 sum of w (y - t)^2 / (columns * sum of w).
  double losses[11];
  double expected = 0;
  double total = 0;
  alone("closure.pt2", y);
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) {
      double const d = y[i * COLUMNS + j] - truth[i * COLUMNS + j];
      expected += latitude_weights[i] * d * d;
      total += latitude_weights[i];
    }
  gr_layout* layout = blocks(ROWS, COLUMNS);
  train(comm, layout, world_rank, GR_ADAM, latitude_weights, losses, NULL);
  CHECK(fabs(losses[0] - 2.5 * expected / total) < 1e-12);
  OK(gr_layout_destroy(&layout));
  OK(gr_layout_destroy(&all));
}

static void saves_what_it_learned(void) {
  double before[ROWS * COLUMNS];
  double losses[11];
  char name[64];
  snprintf(name, sizeof name, "tuned-%d.pt2", world_size);
  gr_layout* layout = blocks(ROWS, COLUMNS);
  char path[4096];
  snprintf(path, sizeof path, "%s", in_folder(name));
  train(comm, layout, world_rank, GR_ADAM, NULL, losses, path);
  alone("closure.pt2", before);
  alone(name, y);
  // The file has f32 as the original, so it is near, not equal.
  double loss = 0;
  double change = 0;
  for (int i = 0; i < ROWS * COLUMNS; ++i) {
    loss += 2.5 * (y[i] - truth[i]) * (y[i] - truth[i]) / (ROWS * COLUMNS);
    change = fmax(change, fabs(y[i] - before[i]));
  }
  CHECK(fabs(loss - losses[10]) < 1e-6 && change > 1e-3);
  gr_net* net = load(comm, name, 0, GR_F32);
  FAILS(gr_net_save(net, in_folder("no/such/folder.pt2")), GR_ERROR_PROGRAM, "folder.pt2");
  RULE("OutputError");
  REFUSES(gr_net_save(net, NULL), "path is NULL");
  REFUSES(gr_net_save(NULL, path), "net is NULL");
  OK(gr_net_destroy(&net));
  OK(gr_layout_destroy(&layout));
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) unlink(path);
}

static void refuses_arguments(void) {
  gr_net* net = load(comm, "closure.pt2", 1, GR_F64);
  gr_net* other = load(comm, "closure.pt2", 0, GR_F32);
  gr_layout* layout = blocks(ROWS, COLUMNS);
  gr_layout* wrong = blocks(ROWS + 1, COLUMNS);
  array in = make_array(layout, world_rank, CHANNELS, DENSE);
  array out = make_array(layout, world_rank, 1, DENSE);
  array target = make_array(layout, world_rank, 1, DENSE);
  fill(&in, x, ROWS, COLUMNS);
  fill(&target, truth, ROWS, COLUMNS);
  REFUSES(gr_net_bind_input(net, "z", layout, 1, &in.field), "name is 'z'; the inputs are 'x'");
  REFUSES(gr_net_bind_input(net, "x", NULL, 1, &in.field), "layout is NULL, and input 'x' is a field");
  REFUSES(gr_net_bind_input(net, "x", wrong, 1, &in.field), "layout has 25 x 48 cells, input 'x' has 24 rows");
  REFUSES(gr_net_bind_input(net, "x", layout, 0, &in.field), "num_fields is 0");
  REFUSES(gr_net_bind_input(net, "x", layout, 1, NULL), "fields is NULL");
  REFUSES(gr_net_bind_input(net, "x", layout, 1, &out.field), "fields have 1 values per cell, input 'x' has 3");
  REFUSES(gr_net_bind_input(NULL, "x", layout, 1, &in.field), "net is NULL");
  gr_field bad = in.field;
  bad.extents[1] += 1;
  REFUSES(gr_net_bind_input(net, "x", layout, 1, &bad), "fields[0] has ");
  bad = in.field;
  bad.type = GR_C64;
  REFUSES(gr_net_bind_input(net, "x", layout, 1, &bad), "fields[0].type is c64");
  bad = in.field;
  bad.space = GR_DEVICE;
  REFUSES(gr_net_bind_input(net, "x", layout, 1, &bad), "fields[0].space is GR_DEVICE");
  if (world_size > 1) {  // one rank's argument is an error of all
    gr_status const status = gr_net_bind_input(net, world_rank == 1 ? "z" : "x", layout, 1, &in.field);
    CHECK(status == GR_ERROR_ARGUMENT && strstr(gr_error_text(), "name is 'z'") != NULL);
  }
  FAILS(gr_net_run(net), GR_ERROR_PROGRAM, "input 'x' is not bound");
  OK(gr_net_bind_input(net, "x", layout, 1, &in.field));
  REFUSES(gr_net_bind_output(net, "z", layout, 1, &out.field), "the outputs are 'y'");
  REFUSES(gr_net_bind_target(net, "y", layout, 1, &target.field, 1, 3, latitude_weights), "num_rows is 3");
  REFUSES(gr_net_bind_target(net, "y", layout, 1, &target.field, NAN, 0, NULL), "scale is nan");
  double zeros[ROWS] = {0};
  REFUSES(gr_net_bind_target(net, "y", layout, 1, &target.field, 1, ROWS, zeros), "weights are all 0");
  zeros[4] = -1;
  REFUSES(gr_net_bind_target(net, "y", layout, 1, &target.field, 1, ROWS, zeros), "weights[4] is -1");
  double loss = -1;
  FAILS(gr_net_learn(net, NULL, &loss), GR_ERROR_PROGRAM, "no output has a target");
  OK(gr_net_bind_target(net, "y", layout, 1, &target.field, 1, 0, NULL));
  gr_optimizer* optimizer = NULL;
  gr_optimizer_options options = GR_OPTIMIZER_OPTIONS_INIT;
  REFUSES(gr_optimizer_create(net, (gr_optimizer_kind)7, 1, NULL, &optimizer), "kind is 7");
  REFUSES(gr_optimizer_create(net, GR_ADAM, -1, NULL, &optimizer), "rate is -1");
  REFUSES(gr_optimizer_create(NULL, GR_ADAM, 1, NULL, &optimizer), "net is NULL");
  REFUSES(gr_optimizer_create(net, GR_ADAM, 1, NULL, NULL), "optimizer is NULL");
  options.has_betas = 1;
  options.betas[1] = 1;
  REFUSES(gr_optimizer_create(net, GR_ADAM, 1, &options, &optimizer), "options.betas[1] is 1");
  CHECK(optimizer == NULL);
  OK(gr_optimizer_create(other, GR_ADAM, 0.01, NULL, &optimizer));
  REFUSES(gr_net_learn(net, optimizer, &loss), "optimizer was made for another network");
  REFUSES(gr_optimizer_set_rate(optimizer, NAN), "rate is nan");
  REFUSES(gr_optimizer_set_rate(NULL, 1), "optimizer is NULL");
  REFUSES(gr_net_learn(net, NULL, NULL), "loss is NULL");
  REFUSES(gr_net_learn(NULL, NULL, &loss), "net is NULL");
  REFUSES(gr_net_start(NULL), "net is NULL");
  REFUSES(gr_net_finish(NULL), "net is NULL");
  REFUSES(gr_net_run(NULL), "net is NULL");
  CHECK(loss == -1);
  OK(gr_optimizer_destroy(&optimizer));
  REFUSES(gr_optimizer_destroy(NULL), "optimizer is NULL");

  // A value that is no number is an error on all ranks, and no parameter changes.
  double before = 0;
  OK(gr_optimizer_create(net, GR_SGD, 1, NULL, &optimizer));
  OK(gr_net_learn(net, NULL, &before));
  if (world_rank == 0 && target.size[0] > 0) *at(&target, 0, 0, 0) = NAN;
  FAILS(gr_net_learn(net, optimizer, &loss), GR_ERROR_PROGRAM, "the loss is nan");
  RULE("NotFinite");
  fill(&target, truth, ROWS, COLUMNS);
  OK(gr_net_learn(net, NULL, &loss));
  CHECK(loss == before);
  OK(gr_optimizer_destroy(&optimizer));
  free(in.base);
  free(out.base);
  free(target.base);
  OK(gr_layout_destroy(&layout));
  OK(gr_layout_destroy(&wrong));
  OK(gr_net_destroy(&net));
  OK(gr_net_destroy(&other));
}

/// Raw f32 values of a file. @return NULL where it is missing
static double* read_values(char const* network, char const* file, int64_t count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/programs/%s/%s", data, network, file);
  FILE* const stream = fopen(path, "rb");
  if (stream == NULL) return NULL;
  float* const raw = malloc((size_t)count * sizeof(float));
  double* const values = malloc((size_t)count * sizeof(double));
  CHECK(fread(raw, sizeof(float), (size_t)count, stream) == (size_t)count);
  for (int64_t i = 0; i < count; ++i) values[i] = raw[i];
  fclose(stream);
  free(raw);
  return values;
}

/// @return 0 where the network is missing
static int gives_what_python_gave(char const* network, int64_t in_channels, int64_t out_channels, int64_t rows,
                                  int64_t columns) {
  double* const input = read_values(network, "input_0.bin", in_channels * rows * columns);
  double* const output = read_values(network, "output_0.bin", out_channels * rows * columns);
  if (input == NULL || output == NULL) return 0;
  double largest = 0;
  for (int64_t i = 0; i < out_channels * rows * columns; ++i) largest = fmax(largest, fabs(output[i]));
  char path[4096];
  snprintf(path, sizeof path, "%s/programs/%s/program.pt2", data, network);
  double* const first = malloc((size_t)(out_channels * rows * columns) * sizeof(double));
  for (int type = 0; type < 2; ++type) {
    gr_net_options options = GR_NET_OPTIONS_INIT;
    options.has_type = type;
    options.type = GR_F64;
    for (int cut = 0; cut < 3; ++cut) {
      gr_net* net = NULL;
      gr_layout* layout = cut == 0 ? whole(rows, columns) : cut == 1 ? blocks(rows, columns) : bands(rows, columns);
      OK(gr_net_load(cut == 0 ? self : comm, path, &options, &net));
      int const rank = cut == 0 ? 0 : world_rank;
      array in = make_array(layout, rank, in_channels, WITH_HALO);
      array out = make_array(layout, rank, out_channels, LEVELS_LAST);
      fill(&in, input, rows, columns);
      OK(gr_net_bind_input(net, NULL, layout, 1, &in.field));
      OK(gr_net_bind_output(net, NULL, layout, 1, &out.field));
      OK(gr_net_run(net));
      CHECK(difference(&out, output, rows, columns) < 1e-5 * largest);
      if (cut == 0)
        for (int64_t i = 0; i < out_channels * rows * columns; ++i)
          first[i] = *at(&out, i / (rows * columns), i / columns % rows, i % columns);
      CHECK(difference(&out, first, rows, columns) <= (type == 1 ? 1e-12 : 1e-5) * largest);
      free(in.base);
      free(out.base);
      OK(gr_layout_destroy(&layout));
      OK(gr_net_destroy(&net));
    }
  }
  free(first);
  free(input);
  free(output);
  return 1;
}

/// Value of a cell of the globe.
static double level(int64_t c, int64_t i, int64_t j) { return (double)(i - 2 * j) + 5.0 * (double)c; }

/// Runs a network of `write_networks` with a norm on the globe. @return the outputs of this rank's rows are the inputs
/// normed by these statistics
static int norms_by(gr_net* net, double const* mean, double const* var) {
  gr_layout* layout = bands(6, 8);
  array x = make_array(layout, world_rank, 2, DENSE);
  array y = make_array(layout, world_rank, 2, DENSE);
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t i = 0; i < x.size[0]; ++i)
      for (int64_t j = 0; j < x.size[1]; ++j)
        x.first[c * x.strides[0] + i * x.strides[1] + j * x.strides[2]] = level(c, x.lower[0] + i, x.lower[1] + j);
  OK(gr_net_bind_input(net, "x", layout, 1, &x.field));
  OK(gr_net_bind_output(net, NULL, layout, 1, &y.field));
  int good = 1;
  // The second run gives what the first one gives.
  for (int run = 0; run < 2; ++run) {
    OK(gr_net_run(net));
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t i = 0; i < x.size[0]; ++i)
        for (int64_t j = 0; j < x.size[1]; ++j) {
          int64_t const at = c * x.strides[0] + i * x.strides[1] + j * x.strides[2];
          double const normed = (x.first[at] - mean[c]) / sqrt(var[c] + 0.25);
          good = good && fabs(y.first[at] - (c == 0 ? normed + 0.5 : 2 * normed)) < 1e-5;
        }
  }
  OK(gr_net_bind_target(net, NULL, layout, 1, &x.field, 1, 0, NULL));
  OK(gr_net_learn(net, NULL, &(double){0}));  // a loss alone changes nothing
  OK(gr_layout_destroy(&layout));
  free(x.base);
  free(y.base);
  return good;
}

/// Statistics of norms stay what they are in a run; `evaluation` uses them.
static void evaluates_norms(void) {
  double const running_mean[2] = {3, -1};
  double const running_var[2] = {3.75, 15.75};
  double mean[2] = {0, 0};
  double var[2] = {0, 0};
  for (int c = 0; c < 2; ++c) {
    for (int n = 0; n < 48; ++n) mean[c] += level(c, n / 8, n % 8) / 48;
    for (int n = 0; n < 48; ++n) var[c] += pow(level(c, n / 8, n % 8) - mean[c], 2) / 48;
  }
  char const* const names[2] = {"normed.pt2", "functional.pt2"};
  for (int f = 0; f < 2; ++f) {
    gr_net* net = NULL;
    gr_net_options options = GR_NET_OPTIONS_INIT;
    char saved[4096];
    OK(gr_net_load(comm, in_folder(names[f]), NULL, &net));
    CHECK(norms_by(net, mean, var));
    snprintf(saved, sizeof saved, "%s/%d_of_%d_%s", folder, f, world_size, names[f]);
    OK(gr_net_save(net, saved));
    OK(gr_net_destroy(&net));
    options.evaluation = 1;
    OK(gr_net_load(comm, saved, &options, &net));
    CHECK(norms_by(net, running_mean, running_var));
    OK(gr_net_save(net, saved));
    OK(gr_net_destroy(&net));
    // What was saved is not in evaluation mode, and has the same statistics.
    OK(gr_net_load(comm, saved, NULL, &net));
    CHECK(norms_by(net, mean, var));
    // A step of training moves them: momentum 0.5, and the unbiased variance.
    gr_optimizer* optimizer = NULL;
    double loss = 0;
    OK(gr_optimizer_create(net, GR_SGD, 0, NULL, &optimizer));
    gr_layout* layout = bands(6, 8);
    array x = make_array(layout, world_rank, 2, DENSE);
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t i = 0; i < x.size[0]; ++i)
        for (int64_t j = 0; j < x.size[1]; ++j)
          x.first[c * x.strides[0] + i * x.strides[1] + j * x.strides[2]] = level(c, x.lower[0] + i, x.lower[1] + j);
    OK(gr_net_bind_input(net, "x", layout, 1, &x.field));
    OK(gr_net_bind_target(net, NULL, layout, 1, &x.field, 1, 0, NULL));
    OK(gr_net_learn(net, optimizer, &loss));
    OK(gr_optimizer_destroy(&optimizer));
    OK(gr_net_save(net, saved));
    OK(gr_net_destroy(&net));
    double moved_mean[2];
    double moved_var[2];
    for (int c = 0; c < 2; ++c) {
      moved_mean[c] = (running_mean[c] + mean[c]) / 2;
      moved_var[c] = (running_var[c] + var[c] * 48 / 47) / 2;
    }
    OK(gr_net_load(comm, saved, &options, &net));
    CHECK(norms_by(net, moved_mean, moved_var));
    OK(gr_net_destroy(&net));
    OK(gr_layout_destroy(&layout));
    free(x.base);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0) CHECK(unlink(saved) == 0);
  }
  gr_net* net = NULL;
  gr_net_options options = GR_NET_OPTIONS_INIT;
  OK(gr_net_load(comm, in_folder("computed.pt2"), NULL, &net));
  OK(gr_net_destroy(&net));
  options.evaluation = 1;
  FAILS(gr_net_load(comm, in_folder("computed.pt2"), &options, &net), GR_ERROR_INPUT, "after model.eval()");
  RULE("RefusedProgram");
}

int main(int argc, char** argv) {
  begin(argc, argv);
  if (argc > 1) folder = argv[1];
  if (argc > 2) data = argv[2];
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  OK(gr_comm_create(MPI_COMM_SELF, &self));
  make_fields();
  describes_a_network();
  refuses_at_load();
  reads_any_memory();
  takes_whole_values();
  learns_as_on_one_rank();
  saves_what_it_learned();
  evaluates_norms();
  refuses_arguments();
  if (data == NULL || !gives_what_python_gave("unet_probe", 3, 2, 24, 48) ||
      !gives_what_python_gave("makani_sfno", 4, 4, 33, 64))
    if (world_rank == 0) printf("skipped: the exported networks are missing (GRATICULE_TEST_DATA/programs)\n");
  OK(gr_comm_destroy(&self));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
