// SPDX-License-Identifier: BSD-3-Clause
// Assertions for test programs in C: failures are counted on each rank and fail the run.
#ifndef GRATICULE_TESTS_CHECK_H
#define GRATICULE_TESTS_CHECK_H

#include <graticule/graticule.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int num_failures = 0;
static int world_rank = 0;
static int world_size = 1;

inline static void failed(char const* file, int line, char const* what) {
  ++num_failures;
  fprintf(stderr, "[rank %d/%d] %s:%d: %s (last error: %s)\n", world_rank, world_size, file, line, what,
          gr_error_text());
}

/// The condition holds.
#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) failed(__FILE__, __LINE__, #condition); \
  } while (0)

/// The call succeeds; without it the rest of the test makes no sense.
#define OK(call)                         \
  do {                                   \
    if ((call) != GR_SUCCESS) {          \
      failed(__FILE__, __LINE__, #call); \
      MPI_Abort(MPI_COMM_WORLD, 1);      \
    }                                    \
  } while (0)

/// The call fails with this status, and its text contains `part`.
#define FAILS(call, status, part)                                                                       \
  do {                                                                                                  \
    gr_status const status_ = (call);                                                                   \
    if (status_ != (status) || gr_error_status() != status_ || strstr(gr_error_text(), part) == NULL || \
        gr_error_rule()[0] == '\0')                                                                     \
      failed(__FILE__, __LINE__, #call " fails with " #status " and '" part "'");                       \
  } while (0)

/// The call fails with a bad argument, and its text contains `part`.
#define REFUSES(call, part) FAILS(call, GR_ERROR_ARGUMENT, part)

/// The last error broke this rule.
#define RULE(name) CHECK(strcmp(gr_error_rule(), name) == 0)

inline static void begin(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  char const* const expected = getenv("GRATICULE_TEST_NP");
  if (expected != NULL) CHECK(atoi(expected) == world_size);
}

/// @return the exit status of the program
inline static int end(void) {
  int all = 0;
  MPI_Allreduce(&num_failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}

/// Fields of `num_batch` x rows x columns doubles.
inline static gr_field field_of(double* base, int64_t num_batch, int64_t rows, int64_t columns) {
  gr_field field;
  int64_t const extents[3] = {num_batch, rows, columns};
  OK(gr_field_dense(base, GR_F64, 3, extents, &field));
  return field;
}

#endif
