// SPDX-License-Identifier: BSD-3-Clause
// A network of graticule-train on the arrays of a program.
//
//   test_forecaster CHECKPOINT SERIES.nc RECORD FORECAST.nc STEPS: begins with a record of h, u and v of the series,
//   and compares with the forecast of graticule-forecast, which has vorticity as well
#include <graticule/graticule_nn.h>

#include "check.h"

#include <math.h>

enum { NLAT = 16, NLON = 32, STATES = 3, CHANNELS = 4, HISTORY = 2 };
static char const* const names[CHANNELS] = {"h", "u", "v", "vorticity"};

/// Blocks of latitude and longitude, or all cells on rank 0.
static gr_layout* cut(int ranks) {
  gr_layout* layout = NULL;
  int parts[2] = {0, 0};
  MPI_Dims_create(ranks, 2, parts);
  OK(gr_layout_create(2, (int64_t const[2]){NLAT, NLON}, parts, &layout));
  return layout;
}

/// The fields of this rank's box, each as an array of its own.
typedef struct state {
  int64_t lower[2];
  int64_t upper[2];
  double values[CHANNELS][NLAT * NLON];
  gr_field fields[CHANNELS];
} state;

static state* make_state(gr_layout const* layout) {
  state* s = calloc(1, sizeof *s);
  OK(gr_layout_owned(layout, world_rank, 2, s->lower, s->upper));
  for (int c = 0; c < CHANNELS; ++c)
    s->fields[c] = field_of(s->values[c], 1, s->upper[0] - s->lower[0], s->upper[1] - s->lower[1]);
  return s;
}

static int64_t num_cells(state const* s) { return (s->upper[0] - s->lower[0]) * (s->upper[1] - s->lower[1]); }

static void read_record(gr_file const* file, int64_t record, int channels, state* s) {
  int64_t const lower[3] = {record, s->lower[0], s->lower[1]};
  int64_t const upper[3] = {record + 1, s->upper[0], s->upper[1]};
  for (int c = 0; c < channels; ++c) OK(gr_file_read(file, names[c], 3, lower, upper, NULL, 0, NULL, &s->fields[c]));
}

/// As many steps as asked for, from a record of the series, against the records of the forecast.
static void steps(gr_comm const* comm, gr_layout const* layout, char** arguments) {
  int const record = atoi(arguments[3]);
  int const num_steps = atoi(arguments[5]);
  gr_forecaster* network = NULL;
  gr_file* series = NULL;
  gr_file* forecast = NULL;
  OK(gr_forecaster_load(comm, arguments[1], layout, 1, &network));
  OK(gr_file_open(comm, arguments[2], &series));
  OK(gr_file_open(comm, arguments[4], &forecast));
  state* present = make_state(layout);
  state* before = make_state(layout);
  state* const expected = make_state(layout);
  read_record(series, record, STATES, present);
  read_record(series, record - 1, STATES, before);
  int64_t lead = 0;
  int history = 0;
  OK(gr_forecaster_step(network, &history, &lead));
  CHECK(history == HISTORY && lead == 6 * 3600);
  double largest = 0;
  for (int step = 0; step < num_steps; ++step) {
    gr_field states[HISTORY * STATES];
    memcpy(states, present->fields, STATES * sizeof *states);
    memcpy(states + STATES, before->fields, STATES * sizeof *states);
    // In place of the earlier state.
    int64_t const time = 946684800 + (record + step) * lead;
    OK(gr_forecaster_next(network, time, HISTORY * STATES, states, CHANNELS, before->fields));
    state* const later = before;
    before = present;
    present = later;
    read_record(forecast, step, CHANNELS, expected);
    for (int c = 0; c < CHANNELS; ++c) {
      double scale = 0;
      for (int64_t i = 0; i < num_cells(present); ++i) scale = fmax(scale, fabs(expected->values[c][i]));
      for (int64_t i = 0; i < num_cells(present); ++i) {
        double const difference = fabs(present->values[c][i] - expected->values[c][i]);
        CHECK(difference <= 5e-5 * scale);
        if (c == 0) largest = fmax(largest, fabs(expected->values[c][i]));
      }
    }
  }
  CHECK(num_cells(present) == 0 || largest > 1000);
  free(present);
  free(before);
  free(expected);
  OK(gr_file_close(&series));
  OK(gr_file_close(&forecast));
  OK(gr_forecaster_destroy(&network));
  CHECK(network == NULL);
}

static void describes(gr_comm const* comm, gr_layout const* layout, char const* path) {
  gr_forecaster* network = NULL;
  OK(gr_forecaster_load(comm, path, layout, 1, &network));
  int prognostic = 0;
  int all = 0;
  OK(gr_forecaster_num_channels(network, &prognostic, &all));
  CHECK(prognostic == STATES && all == CHANNELS);
  char const* text = NULL;
  for (int c = 0; c < CHANNELS; ++c) {
    OK(gr_forecaster_channel(network, c, &text));
    CHECK(strcmp(text, names[c]) == 0);
  }
  REFUSES(gr_forecaster_channel(network, CHANNELS, &text), "channel is 4 of 4");
  OK(gr_forecaster_text(network, &text));
  CHECK(strstr(text, "a step of 6 h from 2 states, 16 x 32 cells\nh (m)\n") != NULL);
  CHECK(strstr(text, "vorticity (s-1), diagnostic\n") != NULL);
  OK(gr_forecaster_calendar(network, &text));
  CHECK(strcmp(text, "standard") == 0);
  OK(gr_forecaster_set_calendar(network, "365_day"));
  OK(gr_forecaster_calendar(network, &text));
  CHECK(strcmp(text, "noleap") == 0);
  FAILS(gr_forecaster_set_calendar(network, "lunar"), GR_ERROR_INPUT, "the calendar 'lunar' is none of");
  OK(gr_forecaster_destroy(&network));
}

static void refuses(gr_comm const* comm, gr_layout const* layout, char** arguments) {
  gr_forecaster* network = NULL;
  FAILS(gr_forecaster_load(comm, "nowhere", layout, 1, &network), GR_ERROR_INPUT, "nowhere does not exist");
  FAILS(gr_forecaster_load(comm, arguments[2], layout, 1, &network), GR_ERROR_INPUT, "series.nc");
  gr_layout* other = NULL;
  OK(gr_layout_create(2, (int64_t const[2]){NLAT + 2, NLON}, (int const[2]){1, world_size}, &other));
  FAILS(gr_forecaster_load(comm, arguments[1], other, 1, &network), GR_ERROR_PROGRAM,
        "the layout divides 18 x 32 cells");
  RULE("LayoutMismatch");
  OK(gr_layout_destroy(&other));
  REFUSES(gr_forecaster_load(comm, arguments[1], layout, -1, &network), "num_threads is -1");
  REFUSES(gr_forecaster_load(comm, NULL, layout, 1, &network), "path is NULL");
  CHECK(network == NULL);

  OK(gr_forecaster_load(comm, arguments[1], layout, 1, &network));
  state* const s = make_state(layout);
  REFUSES(gr_forecaster_next(network, 0, 2, s->fields, CHANNELS, s->fields),
          "states have 2 values per cell, the network 6");
  gr_field wrong[HISTORY * STATES];
  memcpy(wrong, s->fields, STATES * sizeof *wrong);
  memcpy(wrong + STATES, s->fields, STATES * sizeof *wrong);
  REFUSES(gr_forecaster_next(network, 0, HISTORY * STATES, wrong, STATES, s->fields),
          "later have 3 values per cell, the network 4");
  REFUSES(gr_forecaster_next(network, 0, 0, s->fields, CHANNELS, s->fields), "num_states is 0");
  wrong[0].type = GR_I64;
  REFUSES(gr_forecaster_next(network, 0, HISTORY * STATES, wrong, CHANNELS, s->fields), "states[0].type is i64");
  wrong[0] = s->fields[0];
  wrong[2].extents[1] += 1;
  if (world_size == 1)
    REFUSES(gr_forecaster_next(network, 0, HISTORY * STATES, wrong, CHANNELS, s->fields), "states[2] has 17 rows");
  REFUSES(gr_forecaster_next(NULL, 0, STATES, s->fields, CHANNELS, s->fields), "forecaster is NULL");
  free(s);
  OK(gr_forecaster_destroy(&network));
}

int main(int argc, char** argv) {
  begin(argc, argv);
  if (argc != 6) return 2;
  OK(gr_init(1, NULL));
  gr_comm* comm = NULL;
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  gr_layout* blocks = cut(world_size);
  gr_layout* first = cut(1);
  describes(comm, blocks, argv[1]);
  steps(comm, blocks, argv);
  steps(comm, first, argv);
  refuses(comm, blocks, argv);
  OK(gr_layout_destroy(&first));
  OK(gr_layout_destroy(&blocks));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  return end();
}
