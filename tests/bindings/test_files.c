// SPDX-License-Identifier: BSD-3-Clause
// Field files and checkpoints: written, appended to, read on every rank, damaged.
#include "check.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 7, COLUMNS = 6, MOST = 4 * ROWS * COLUMNS };

static gr_comm* comm = NULL;
static gr_layout* layout = NULL;
static int64_t lo[2];
static int64_t hi[2];

static double cell(int64_t t, int64_t i, int64_t j) { return (double)(1000 * t + 100 * i + j); }

static void fill(double* cells, int64_t t) {
  int64_t n = 0;
  for (int64_t i = lo[0]; i < hi[0]; ++i)
    for (int64_t j = lo[1]; j < hi[1]; ++j) cells[n++] = cell(t, i, j);
}

/// Fields of two axes: the box of this rank.
static gr_field own_field(double* cells) {
  gr_field field;
  int64_t const extents[2] = {hi[0] - lo[0], hi[1] - lo[1]};
  OK(gr_field_dense(cells, GR_F64, 2, extents, &field));
  return field;
}

/// Writes time `t` as the record `at` of a file.
static void write_record(gr_writer* writer, int64_t at, int64_t t) {
  double cells[MOST];
  fill(cells, t);
  gr_field const field = own_field(cells);
  int64_t const lower[3] = {at, lo[0], lo[1]};
  int64_t const upper[3] = {at + 1, hi[0], hi[1]};
  OK(gr_writer_write(writer, "u", 3, lower, upper, NULL, 0, NULL, &field));
  double hours = 6.0 * (double)t;
  gr_field time;
  int64_t const one[1] = {1};
  int64_t const first[1] = {at};
  if (t % 2 == 0) {
    int64_t const last[1] = {world_rank == 0 ? at + 1 : at};
    OK(gr_field_dense(&hours, GR_F64, 1, one, &time));
    OK(gr_writer_write(writer, "time", 1, first, last, NULL, 0, NULL, &time));
  } else {
    // The same by one call on all ranks, of a number.
    int64_t const last[1] = {at + 1};
    OK(gr_field_dense(&hours, GR_F64, 0, NULL, &time));
    OK(gr_writer_write_replicated(writer, "time", 1, first, last, NULL, 0, NULL, &time));
    int64_t const far[1] = {at + 2};
    REFUSES(gr_writer_write_replicated(writer, "time", 1, first, far, NULL, 0, NULL, &time), "field is a number");
    REFUSES(gr_writer_write_replicated(writer, NULL, 1, first, last, NULL, 0, NULL, &time), "variable is NULL");
    hours += world_rank;
    if (world_size > 1) {
      FAILS(gr_writer_write_replicated(writer, "time", 1, first, last, NULL, 0, NULL, &time), GR_ERROR_PROGRAM,
            "the field for time differs from that on rank 0, first in element (0)");
      RULE("ReplicaMismatch");
    }
  }
}

static void writes_and_appends(char const* path) {
  gr_attributes* attributes = NULL;
  gr_writer* writer = NULL;
  OK(gr_attributes_create(&attributes));
  OK(gr_attributes_add_text(attributes, "title", "a test"));
  OK(gr_attributes_add_number(attributes, "height", 10.5, GR_F64));
  REFUSES(gr_attributes_add_number(attributes, "height", 10.5, GR_C64), "type is 9, which files do not store");
  REFUSES(gr_attributes_add_text(attributes, "title", NULL), "value is NULL");
  OK(gr_writer_create(comm, path, attributes, &writer));
  double latitudes[ROWS];
  for (int i = 0; i < ROWS; ++i) latitudes[i] = 90 - 30.0 * i;
  OK(gr_attributes_destroy(&attributes));
  REFUSES(gr_attributes_destroy(NULL), "attributes is NULL");
  OK(gr_attributes_create(&attributes));
  OK(gr_attributes_add_text(attributes, "units", "degrees_north"));
  OK(gr_writer_add_dimension(writer, "time", 1, 1));
  OK(gr_writer_add_coordinate(writer, "latitude", ROWS, latitudes, GR_F64, attributes));
  OK(gr_attributes_destroy(&attributes));
  OK(gr_writer_add_dimension(writer, "longitude", COLUMNS, 0));
  gr_variable_options options = GR_VARIABLE_OPTIONS_INIT;
  options.ndim = 3;
  options.chunk[0] = 1;
  options.chunk[1] = ROWS;
  options.chunk[2] = COLUMNS;
  options.deflate = 1;
  options.has_fill = 1;
  options.fill = -1e30;
  gr_attributes* of_time = NULL;
  OK(gr_attributes_create(&of_time));
  OK(gr_attributes_add_text(of_time, "units", "hours since 2000-02-28 18:00"));
  OK(gr_attributes_add_text(of_time, "calendar", "365_day"));
  OK(gr_writer_add_variable(writer, "time", "time", GR_F64, NULL, of_time));
  OK(gr_attributes_destroy(&of_time));
  OK(gr_writer_add_variable(writer, "u", "time latitude longitude", GR_F64, &options, NULL));
  REFUSES(gr_writer_add_variable(writer, "v", "time latitude longitude", GR_C128, NULL, NULL), "type is 10");
  FAILS(gr_writer_add_variable(writer, "v", "height", GR_F64, NULL, NULL), GR_ERROR_PROGRAM, "MissingVariable");
  REFUSES(gr_writer_add_dimension(writer, NULL, 1, 0), "name is NULL");
  REFUSES(gr_writer_add_coordinate(writer, "x", 2, NULL, GR_F64, NULL), "values is NULL");
  FAILS(gr_writer_commit(writer), GR_ERROR_PROGRAM, "were written");
  RULE("WrongState");
  write_record(writer, 0, 0);
  OK(gr_writer_commit(writer));
  OK(gr_writer_destroy(&writer));

  OK(gr_writer_append(comm, path, 0, &writer));
  OK(gr_writer_extend(writer, "time", 1));
  // Any dimension of a store can grow.
  if (strstr(path, ".zarr") == NULL) FAILS(gr_writer_extend(writer, "latitude", 1), GR_ERROR_PROGRAM, "latitude");
  write_record(writer, 1, 1);
  OK(gr_writer_commit(writer));
  OK(gr_writer_destroy(&writer));
  REFUSES(gr_writer_destroy(NULL), "writer is NULL");
  REFUSES(gr_writer_commit(NULL), "writer is NULL");
  REFUSES(gr_writer_create(comm, NULL, NULL, &writer), "path is NULL");
  FAILS(gr_writer_create(comm, "", NULL, &writer), GR_ERROR_PROGRAM, "it has no name");
  FAILS(gr_writer_create(comm, "no/such/folder/file.nc", NULL, &writer), GR_ERROR_PROGRAM, "folder");
  FAILS(gr_writer_append(comm, "no-such-file.nc", 0, &writer), GR_ERROR_INPUT, "no-such-file.nc");
  REFUSES(gr_writer_extend(NULL, "time", 1), "writer is NULL");
  CHECK(writer == NULL);
}

/// 0 and 6 hours since 2000-02-28 18:00 of a year without a leap day.
static void expect_times(gr_file const* file) {
  char const* calendar = NULL;
  OK(gr_file_calendar(file, "time", &calendar));
  CHECK(strcmp(calendar, "noleap") == 0);
  FAILS(gr_file_calendar(file, "longitude", &calendar), GR_ERROR_INPUT, "has no coordinate");
  REFUSES(gr_file_calendar(file, "time", NULL), "calendar is NULL");
  int64_t times[2] = {0, 0};
  OK(gr_file_times(file, "time", 2, times));
  int64_t march = 0;
  OK(gr_time_of_date("noleap", 2000, 3, 1, 0, &march));
  CHECK(march == (30 * 365 + 59) * (int64_t)86400);
  CHECK(times[0] == march - 6 * 3600 && times[1] == march);
  int date[4] = {0, 0, 0, 0};
  OK(gr_date_of_time("360_day", 59 * 86400 + 7, &date[0], &date[1], &date[2], &date[3]));
  CHECK(date[0] == 1970 && date[1] == 2 && date[2] == 30 && date[3] == 7);
  REFUSES(gr_file_times(file, "time", 3, times), "num_times is 3, the dimension has 2 cells");
  int64_t no_times[ROWS];
  FAILS(gr_file_times(file, "latitude", ROWS, no_times), GR_ERROR_INPUT, "'degrees_north' are no units of time");
  FAILS(gr_file_times(file, "latitude", ROWS, no_times), GR_ERROR_INPUT, "latitude of ");
  REFUSES(gr_time_of_date("noleap", 2000, 2, 29, 0, &march), "is no time of the calendar noleap");
  FAILS(gr_time_of_date("lunar", 2000, 2, 29, 0, &march), GR_ERROR_INPUT, "the calendar 'lunar' is none of");
}

static void reads(char const* path) {
  gr_file* file = NULL;
  FAILS(gr_file_open(comm, "no-such-file.nc", &file), GR_ERROR_INPUT, "no-such-file.nc");
  OK(gr_file_open(comm, path, &file));
  int num_variables = 0;
  int found = 0;
  OK(gr_file_num_variables(file, &num_variables));
  for (int v = 0; v < num_variables; ++v) {
    char const* name = NULL;
    OK(gr_file_variable_name(file, v, &name));
    found += strcmp(name, "u") == 0 || strcmp(name, "time") == 0 || strcmp(name, "latitude") == 0;
  }
  CHECK(found == 3 && num_variables == 3);
  char const* text = NULL;
  REFUSES(gr_file_variable_name(file, num_variables, &text), "number is 3 of 3 variables");
  int ndim = 0;
  int64_t extents[3];
  OK(gr_file_ndim(file, "u", &ndim));
  OK(gr_file_extents(file, "u", 3, extents));
  CHECK(ndim == 3 && extents[0] == 2 && extents[1] == ROWS && extents[2] == COLUMNS);
  FAILS(gr_file_ndim(file, "w", &ndim), GR_ERROR_INPUT, "MissingVariable");
  REFUSES(gr_file_extents(file, "u", 2, extents), "ndim is 2, the variable has 3 axes");
  OK(gr_file_dimension(file, "u", 3, 1, &text));
  CHECK(strcmp(text, "latitude") == 0);
  REFUSES(gr_file_dimension(file, "u", 3, 3, &text), "axis is 3 of 3");
  double values[ROWS];
  OK(gr_file_coordinate(file, "latitude", ROWS, values));
  CHECK(values[0] == 90 && values[ROWS - 1] == -90);
  REFUSES(gr_file_coordinate(file, "latitude", 2, values), "num_values is 2, the dimension has 7 cells");
  expect_times(file);
  FAILS(gr_file_coordinate(file, "longitude", COLUMNS, values), GR_ERROR_INPUT, "has no coordinate");
  RULE("MissingVariable");
  OK(gr_file_attribute_text(file, "latitude", "units", &text));
  CHECK(strcmp(text, "degrees_north") == 0);
  OK(gr_file_attribute_text(file, NULL, "title", &text));
  CHECK(strcmp(text, "a test") == 0);
  OK(gr_file_attribute_text(file, "u", "units", &text));
  CHECK(text[0] == '\0');
  int num_numbers = -1;
  OK(gr_file_attribute_numbers(file, NULL, "height", ROWS, &num_numbers, values));
  CHECK(num_numbers == 1 && values[0] == 10.5);
  OK(gr_file_attribute_numbers(file, "u", "height", 0, &num_numbers, NULL));
  CHECK(num_numbers == 0);
  REFUSES(gr_file_attribute_numbers(file, NULL, "height", ROWS, NULL, values), "num_numbers is NULL");
  REFUSES(gr_file_attribute_text(file, "u", NULL, &text), "attribute is NULL");

  // The second time into the middle of an array with columns first, rows from south to north.
  double cells[(COLUMNS + 2) * (ROWS + 2)];
  for (size_t n = 0; n < sizeof cells / sizeof *cells; ++n) cells[n] = -5;
  gr_field field;
  int64_t const shape[2] = {COLUMNS + 2, ROWS + 2};
  OK(gr_field_dense(cells, GR_F64, 2, shape, &field));
  field.has_first = 1;
  field.first[0] = 1;
  field.first[1] = 1;
  int64_t const lower[3] = {1, lo[0], lo[1]};
  int64_t const upper[3] = {2, hi[0], hi[1]};
  int64_t const steps[3] = {1, -1, 1};
  int const axes[2] = {2, 1};
  OK(gr_file_read(file, "u", 3, lower, upper, steps, 2, axes, &field));
  int wrong = 0;
  for (int64_t j = 0; j < COLUMNS + 2; ++j)
    for (int64_t i = 0; i < ROWS + 2; ++i) {
      int const inside = i >= 1 && i <= hi[0] - lo[0] && j >= 1 && j <= hi[1] - lo[1];
      wrong += cells[j * (ROWS + 2) + i] != (inside ? cell(1, hi[0] - i, lo[1] + j - 1) : -5);
    }
  CHECK(wrong == 0);
  REFUSES(gr_file_read(file, "u", 3, lower, upper, steps, 3, axes, &field), "num_axes is 3 for a field of 2 axes");
  REFUSES(gr_file_read(file, "u", 3, NULL, upper, steps, 2, axes, &field), "lower is NULL");
  int64_t const beyond[3] = {3, hi[0], hi[1]};
  FAILS(gr_file_read(file, "u", 3, lower, beyond, steps, 2, axes, &field), GR_ERROR_PROGRAM, "OutOfRange");
  FAILS(gr_file_read(file, "w", 3, lower, upper, steps, 2, axes, &field), GR_ERROR_INPUT, "MissingVariable");
  if (world_size > 1) {
    // Another name on one rank: all of them fail, and the next calls match again.
    char const* const unknown = world_rank == world_size - 1 ? "w" : "u";
    FAILS(gr_file_read(file, unknown, 3, lower, upper, steps, 2, axes, &field), GR_ERROR_PROGRAM, "variable ");
    RULE("ArgumentDisagreement");
    char const* const other = world_rank == world_size - 1 ? "longitude" : "latitude";
    double values[ROWS];
    FAILS(gr_file_coordinate(file, other, ROWS, values), GR_ERROR_PROGRAM, "coordinate of dimension ");
    RULE("ArgumentDisagreement");
  }
  OK(gr_file_read(file, "u", 3, lower, upper, steps, 2, axes, &field));
  OK(gr_file_close(&file));
  REFUSES(gr_file_close(NULL), "file is NULL");
  REFUSES(gr_file_num_variables(NULL, &num_variables), "file is NULL");
}

static void write_file(char const* path, int64_t first_time, int64_t num_times) {
  gr_writer* writer = NULL;
  OK(gr_writer_create(comm, path, NULL, &writer));
  OK(gr_writer_add_dimension(writer, "time", num_times, 1));
  OK(gr_writer_add_dimension(writer, "latitude", ROWS, 0));
  OK(gr_writer_add_dimension(writer, "longitude", COLUMNS, 0));
  OK(gr_writer_add_variable(writer, "time", "time", GR_F64, NULL, NULL));
  OK(gr_writer_add_variable(writer, "u", "time latitude longitude", GR_F64, NULL, NULL));
  for (int64_t n = 0; n < num_times; ++n) write_record(writer, n, first_time + n);
  OK(gr_writer_commit(writer));
  OK(gr_writer_destroy(&writer));
}

static void expect_part(gr_file* file, int number, int64_t cells_before, int64_t num_cells, char const* name) {
  int64_t before = -1;
  int64_t cells = -1;
  char const* path = NULL;
  OK(gr_file_part(file, number, &before, &cells, &path));
  CHECK(before == cells_before && cells == num_cells && strstr(path, name) != NULL);
}

/// What is no store, or none that is read or written here, is refused by name.
static void refuses_stores(char const* folder) {
  gr_file* file = NULL;
  gr_writer* writer = NULL;
  char path[300];
  FAILS(gr_file_open(comm, "s3://bucket/era5.zarr", &file), GR_ERROR_INPUT, "s3://bucket/era5.zarr is a URL");
  FAILS(gr_file_open(comm, "no-such.zarr", &file), GR_ERROR_INPUT, "no-such.zarr");
  FAILS(gr_writer_create(comm, "x.zarr.zip", NULL, &writer), GR_ERROR_USAGE, "stores are written as folders");
  // A store whose metadata are cut off, and one of which a chunk is.
  char chunk[400];
  char metadata[400];
  snprintf(path, sizeof path, "%s/file.zarr", folder);
  snprintf(chunk, sizeof chunk, "%s/u/c/1/0/0", path);
  snprintf(metadata, sizeof metadata, "%s/zarr.json", path);
  if (world_rank == 0) CHECK(truncate(chunk, 3) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(gr_file_open(comm, path, &file));
  double cells[MOST];
  gr_field const field = field_of(cells, 1, hi[0] - lo[0], COLUMNS);
  int64_t const lower[3] = {1, lo[0], 0};
  int64_t const upper[3] = {2, hi[0], COLUMNS};
  FAILS(gr_file_read(file, "u", 3, lower, upper, NULL, 0, NULL, &field), GR_ERROR_INPUT, "u/c/1/0/0");
  RULE("BrokenFile");
  OK(gr_file_close(&file));
  if (world_rank == 0) CHECK(truncate(metadata, 50) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  FAILS(gr_file_open(comm, path, &file), GR_ERROR_INPUT, "zarr.json");
  RULE("BrokenFile");
}

/// Two files of times 0, 1 and 2, the first one by its number, are read as one.
static void reads_a_series(char const* folder) {
  char first[300];
  char second[300];
  char pattern[300];
  snprintf(first, sizeof first, "%s/run_2.nc", folder);
  snprintf(second, sizeof second, "%s/run_10.nc", folder);
  snprintf(pattern, sizeof pattern, "%s/run_*.nc", folder);
  write_file(first, 0, 2);
  write_file(second, 2, 1);
  gr_file* file = NULL;
  char const* names[2] = {pattern, NULL};
  char const* text = NULL;
  int num_files = 0;
  int64_t extents[3];
  OK(gr_file_open_series(comm, 1, names, NULL, 4, &file));
  OK(gr_file_num_files(file, &num_files));
  OK(gr_file_series_dimension(file, &text));
  CHECK(num_files == 2 && strcmp(text, "time") == 0);
  expect_part(file, 0, 0, 2, "run_2.nc");
  expect_part(file, 1, 2, 1, "run_10.nc");
  OK(gr_file_extents(file, "u", 3, extents));
  CHECK(extents[0] == 3 && extents[1] == ROWS);
  double hours[3] = {-1, -1, -1};
  OK(gr_file_coordinate(file, "time", 3, hours));
  CHECK(hours[0] == 0 && hours[1] == 6 && hours[2] == 12);
  double cells[2 * MOST];
  double expected[2 * MOST];
  int64_t const num_cells = (hi[0] - lo[0]) * COLUMNS;
  fill(expected, 1);
  fill(expected + num_cells, 2);
  gr_field const field = field_of(cells, 2, hi[0] - lo[0], COLUMNS);
  int64_t const lower[3] = {1, lo[0], 0};
  int64_t const upper[3] = {3, hi[0], COLUMNS};
  OK(gr_file_read(file, "u", 3, lower, upper, NULL, 0, NULL, &field));
  CHECK(memcmp(cells, expected, sizeof(double) * (size_t)(2 * num_cells)) == 0);
  int64_t number = 0;
  REFUSES(gr_file_part(file, 2, &number, &number, &text), "number is 2 of 2 files");
  REFUSES(gr_file_part(file, 0, NULL, &number, &text), "cells_before is NULL");
  REFUSES(gr_file_num_files(file, NULL), "num_files is NULL");
  REFUSES(gr_file_series_dimension(file, NULL), "name is NULL");
  OK(gr_file_close(&file));

  OK(gr_file_open(comm, first, &file));
  OK(gr_file_num_files(file, &num_files));
  OK(gr_file_series_dimension(file, &text));
  CHECK(num_files == 1 && text[0] == '\0');
  expect_part(file, 0, 0, 0, "run_2.nc");
  OK(gr_file_close(&file));

  REFUSES(gr_file_open_series(comm, 2, names, NULL, 4, &file), "patterns[1] is NULL");
  names[0] = second;
  names[1] = first;
  FAILS(gr_file_open_series(comm, 2, names, "time", 4, &file), GR_ERROR_INPUT, "BadInput");
  names[0] = "no-such-*.nc";
  FAILS(gr_file_open_series(comm, 1, names, NULL, 4, &file), GR_ERROR_INPUT, "no-such-*.nc");
  REFUSES(gr_file_open_series(NULL, 1, names, NULL, 4, &file), "comm is NULL");
  REFUSES(gr_file_open_series(comm, 0, names, NULL, 4, &file), "num_patterns is 0");
  REFUSES(gr_file_open_series(comm, 1, NULL, NULL, 4, &file), "patterns is NULL");
  REFUSES(gr_file_open_series(comm, 1, names, NULL, 0, &file), "most_open is 0");
  REFUSES(gr_file_open_series(comm, 1, names, NULL, 4, NULL), "file is NULL");
  if (world_size > 1)
    FAILS(gr_file_open_series(comm, world_rank == 0 ? 2 : 1, names, NULL, 4, &file), GR_ERROR_PROGRAM, "1 patterns");
  CHECK(file == NULL);
}

static void saves_and_continues(char const* folder) {
  gr_checkpoints* checkpoints = NULL;
  gr_checkpoint_writer* writer = NULL;
  gr_checkpoint* checkpoint = NULL;
  OK(gr_checkpoints_create(comm, folder, 2, &checkpoints));
  OK(gr_checkpoints_newest(checkpoints, &checkpoint));
  CHECK(checkpoint == NULL);
  double cells[MOST];
  fill(cells, 3);
  gr_field const field = own_field(cells);
  double const table[3] = {1, 2.5, 4};
  double copy[3] = {0, 0, 0};
  int64_t const three[1] = {3};
  gr_field replica;
  OK(gr_field_dense((void*)(uintptr_t)table, GR_F64, 1, three, &replica));
  int64_t const seed[2] = {12, -5};
  int64_t const epoch = 4;
  double const rate = 0.125;
  for (int64_t step = 10; step <= 20; step += 10) {
    OK(gr_checkpoint_begin(checkpoints, step, &writer));
    OK(gr_checkpoint_add(writer, "u", layout, &field));
    OK(gr_checkpoint_add_replicated(writer, "table", &replica));
    OK(gr_checkpoint_add_integers(writer, "seed", 2, seed));
    OK(gr_checkpoint_add_integers(writer, "epoch", 1, &epoch));
    OK(gr_checkpoint_add_reals(writer, "rate", 1, &rate));
    OK(gr_checkpoint_add_text(writer, "name", "run 7"));
    FAILS(gr_checkpoint_add_text(writer, "name", "again"), GR_ERROR_PROGRAM, "BadName");
    REFUSES(gr_checkpoint_add(writer, "v", NULL, &field), "layout is NULL");
    REFUSES(gr_checkpoint_add_replicated(writer, "w", NULL), "field is NULL");
    REFUSES(gr_checkpoint_add_integers(writer, "n", 0, seed), "num_values is 0");
    REFUSES(gr_checkpoint_add_reals(writer, "r", 1, NULL), "values is NULL");
    gr_status const status = gr_checkpoint_commit(writer);
    // A refused `add` of the engine makes the checkpoint incomplete.
    if (status != GR_SUCCESS) {
      RULE("WrongState");
      OK(gr_checkpoint_writer_destroy(&writer));
      OK(gr_checkpoint_begin(checkpoints, step, &writer));
      OK(gr_checkpoint_add(writer, "u", layout, &field));
      OK(gr_checkpoint_add_replicated(writer, "table", &replica));
      OK(gr_checkpoint_add_integers(writer, "seed", 2, seed));
      OK(gr_checkpoint_add_integers(writer, "epoch", 1, &epoch));
      OK(gr_checkpoint_add_reals(writer, "rate", 1, &rate));
      OK(gr_checkpoint_add_text(writer, "name", "run 7"));
      OK(gr_checkpoint_commit(writer));
    }
    OK(gr_checkpoint_writer_destroy(&writer));
  }
  FAILS(gr_checkpoint_begin(checkpoints, -1, &writer), GR_ERROR_PROGRAM, "-1");
  REFUSES(gr_checkpoint_writer_destroy(NULL), "writer is NULL");
  REFUSES(gr_checkpoint_commit(NULL), "writer is NULL");

  OK(gr_checkpoints_newest(checkpoints, &checkpoint));
  CHECK(checkpoint != NULL);
  int64_t step = 0;
  OK(gr_checkpoint_step(checkpoint, &step));
  CHECK(step == 20);
  char const* text = NULL;
  char path[4096];
  OK(gr_checkpoint_path(checkpoint, &text));
  CHECK(strstr(text, "20.h5") != NULL);
  snprintf(path, sizeof path, "%s", text);
  OK(gr_checkpoints_skipped(checkpoints, &text));
  CHECK(text[0] == '\0');
  OK(gr_checkpoint_close(&checkpoint));
  OK(gr_checkpoint_open(comm, path, &checkpoint));
  OK(gr_checkpoint_verify(checkpoint));
  // The other precision, where it is asked for.
  float single[MOST];
  float single_table[3] = {0, 0, 0};
  gr_field other = field;
  gr_field other_table = replica;
  other.type = other_table.type = GR_F32;
  other.base = single;
  other_table.base = single_table;
  for (int m = 0; m < 2; ++m) other.strides[m] /= 2;
  other_table.strides[0] /= 2;
  FAILS(gr_checkpoint_read(checkpoint, "u", layout, &other), GR_ERROR_PROGRAM,
        "got a view of f32; gr_checkpoint_convert makes reads convert");
  OK(gr_checkpoint_convert(checkpoint, 1));
  OK(gr_checkpoint_read(checkpoint, "u", layout, &other));
  OK(gr_checkpoint_read_replicated(checkpoint, "table", &other_table));
  for (int64_t i = 0; i < (hi[0] - lo[0]) * (hi[1] - lo[1]); ++i) CHECK(single[i] == (float)cells[i]);
  CHECK(single_table[0] == 1 && single_table[1] == 2.5F && single_table[2] == 4);
  other_table.type = GR_I32;
  FAILS(gr_checkpoint_read_replicated(checkpoint, "table", &other_table), GR_ERROR_PROGRAM, "WrongType");
  OK(gr_checkpoint_convert(checkpoint, 0));
  FAILS(gr_checkpoint_read(checkpoint, "u", layout, &other), GR_ERROR_PROGRAM, "WrongType");
  REFUSES(gr_checkpoint_convert(NULL, 1), "checkpoint is NULL");
  int has = 0;
  OK(gr_checkpoint_has(checkpoint, "rate", &has));
  CHECK(has == 1);
  OK(gr_checkpoint_has(checkpoint, "speed", &has));
  CHECK(has == 0);
  for (int n = 0; n < MOST; ++n) cells[n] = NAN;
  OK(gr_checkpoint_read(checkpoint, "u", layout, &field));
  int64_t n = 0;
  int wrong = 0;
  for (int64_t i = lo[0]; i < hi[0]; ++i)
    for (int64_t j = lo[1]; j < hi[1]; ++j) wrong += cells[n++] != cell(3, i, j);
  CHECK(wrong == 0);
  OK(gr_field_dense(copy, GR_F64, 1, three, &replica));
  OK(gr_checkpoint_read_replicated(checkpoint, "table", &replica));
  CHECK(copy[0] == 1 && copy[1] == 2.5 && copy[2] == 4);
  int64_t integers[2] = {0, 0};
  double real = 0;
  OK(gr_checkpoint_integers(checkpoint, "seed", 2, integers));
  CHECK(integers[0] == 12 && integers[1] == -5);
  OK(gr_checkpoint_integers(checkpoint, "epoch", 1, integers));
  CHECK(integers[0] == 4);
  OK(gr_checkpoint_reals(checkpoint, "rate", 1, &real));
  CHECK(real == 0.125);
  OK(gr_checkpoint_text(checkpoint, "name", &text));
  CHECK(strcmp(text, "run 7") == 0);
  REFUSES(gr_checkpoint_integers(checkpoint, "seed", 1, integers), "num_values is 1, 'seed' has 2 values");
  FAILS(gr_checkpoint_reals(checkpoint, "seed", 2, &real), GR_ERROR_INPUT, "WrongType");
  FAILS(gr_checkpoint_text(checkpoint, "nobody", &text), GR_ERROR_INPUT, "has no value 'nobody'");
  RULE("MissingVariable");
  FAILS(gr_checkpoint_read(checkpoint, "v", layout, &field), GR_ERROR_INPUT, "has no field 'v'");
  RULE("MissingVariable");
  REFUSES(gr_checkpoint_read_replicated(checkpoint, NULL, &replica), "name is NULL");
  REFUSES(gr_checkpoint_has(checkpoint, NULL, &has), "name is NULL");
  REFUSES(gr_checkpoint_step(NULL, &step), "checkpoint is NULL");
  REFUSES(gr_checkpoint_path(checkpoint, NULL), "path is NULL");
  REFUSES(gr_checkpoint_verify(NULL), "checkpoint is NULL");
  OK(gr_checkpoint_close(&checkpoint));
  REFUSES(gr_checkpoint_close(NULL), "checkpoint is NULL");
  FAILS(gr_checkpoint_open(comm, "no-such-checkpoint.h5", &checkpoint), GR_ERROR_INPUT, "no-such-checkpoint.h5");

  // The newest one is cut off: the one before it is taken, and the report names the other.
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) CHECK(truncate(path, 1000) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(gr_checkpoints_newest(checkpoints, &checkpoint));
  OK(gr_checkpoint_step(checkpoint, &step));
  CHECK(step == 10);
  OK(gr_checkpoints_skipped(checkpoints, &text));
  CHECK(strstr(text, "20.h5") != NULL);
  OK(gr_checkpoint_close(&checkpoint));
  OK(gr_checkpoints_destroy(&checkpoints));
  REFUSES(gr_checkpoints_destroy(NULL), "checkpoints is NULL");
  REFUSES(gr_checkpoints_create(comm, NULL, 2, &checkpoints), "folder is NULL");
  REFUSES(gr_checkpoints_skipped(NULL, &text), "checkpoints is NULL");
}

int main(int argc, char** argv) {
  begin(argc, argv);
  OK(gr_init(0, NULL));
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int64_t const extents[2] = {ROWS, COLUMNS};
  int const parts[2] = {world_size, 1};
  OK(gr_layout_create(2, extents, parts, &layout));
  OK(gr_layout_owned(layout, world_rank, 2, lo, hi));
  // A folder of this run.
  char folder[] = "bindings-files-XXXXXX";
  if (world_rank == 0) CHECK(mkdtemp(folder) != NULL);
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  char path[200];
  // A netCDF-4 file and a Zarr store: the name decides.
  char const* const names[2] = {"file.nc", "file.zarr"};
  for (int i = 0; i < 2; ++i) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    writes_and_appends(path);
    reads(path);
  }
  refuses_stores(folder);
  reads_a_series(folder);
  char checkpoints[200];
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
  saves_and_continues(checkpoints);
  OK(gr_layout_destroy(&layout));
  OK(gr_comm_destroy(&comm));
  OK(gr_finalize());
  if (world_rank == 0 && num_failures == 0) {
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
  }
  return end();
}
