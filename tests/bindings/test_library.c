// SPDX-License-Identifier: BSD-3-Clause
// Starting and ending the library, errors, communicators.
#include "check.h"

#include <pthread.h>

static void works_before_the_start(void) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  OK(gr_version(&major, &minor, &patch));
  CHECK(major == GR_VERSION_MAJOR && minor == GR_VERSION_MINOR && patch == GR_VERSION_PATCH);
  CHECK(GR_VERSION == major * 10000 + minor * 100 + patch);
  REFUSES(gr_version(&major, NULL, &patch), "gr_version: BadArgument: minor is NULL");
  int initialized = -1;
  OK(gr_is_initialized(&initialized));
  CHECK(initialized == 0);
  REFUSES(gr_is_initialized(NULL), "initialized is NULL");
  gr_comm* comm = NULL;
  FAILS(gr_comm_create(MPI_COMM_WORLD, &comm), GR_ERROR_PROGRAM, "gr_init was not called");
  RULE("WrongState");
  CHECK(comm == NULL);
  FAILS(gr_finalize(), GR_ERROR_PROGRAM, "gr_init was not called");
}

static void counts_starts(void) {
  int initialized = -1;
  REFUSES(gr_init(-1, NULL), "num_threads is -1");
  REFUSES(gr_init(0, "everything"), "check_mode is 'everything'; known are none, comm, cells and all");
  OK(gr_is_initialized(&initialized));
  CHECK(initialized == 0);
  OK(gr_init(1, "comm"));
  CHECK(strcmp(getenv("GRATICULE_CHECK"), "comm") == 0);
  OK(gr_init(0, NULL));
  OK(gr_finalize());
  OK(gr_is_initialized(&initialized));
  CHECK(initialized == 1);
}

static void knows_ranks(void) {
  gr_comm* comm = NULL;
  OK(gr_comm_create(MPI_COMM_WORLD, &comm));
  int rank = -1;
  int size = -1;
  OK(gr_comm_rank(comm, &rank));
  OK(gr_comm_size(comm, &size));
  CHECK(rank == world_rank && size == world_size);
  int node_size = -1;
  int node_rank = -1;
  OK(gr_comm_node(comm, &node_size, &node_rank));
  CHECK(node_size == world_size && node_rank == world_rank);
  REFUSES(gr_comm_rank(NULL, &rank), "gr_comm_rank: BadArgument: comm is NULL");
  REFUSES(gr_comm_size(comm, NULL), "num_ranks is NULL");
  REFUSES(gr_comm_node(comm, &node_size, NULL), "node_rank is NULL");
  REFUSES(gr_comm_create(MPI_COMM_WORLD, NULL), "comm is NULL");
  FAILS(gr_comm_create(MPI_COMM_NULL, &comm), GR_ERROR_PROGRAM, "WrongState: MPI_COMM_NULL");

  gr_comm* of_fortran = NULL;
  REFUSES(gr_comm_create_f(-12345, &of_fortran), "mpi is -12345, which is no communicator");
  CHECK(of_fortran == NULL);
  OK(gr_comm_create_f(MPI_Comm_c2f(MPI_COMM_SELF), &of_fortran));
  OK(gr_comm_size(of_fortran, &size));
  CHECK(size == 1);
  OK(gr_comm_destroy(&of_fortran));
  CHECK(of_fortran == NULL);
  OK(gr_comm_destroy(&of_fortran));
  REFUSES(gr_comm_destroy(NULL), "comm is NULL");
  OK(gr_comm_destroy(&comm));
}

static void* fails_elsewhere(void* text) {
  // A new thread has had no error.
  CHECK(gr_error_status() == GR_SUCCESS && gr_error_text()[0] == '\0' && gr_error_rule()[0] == '\0');
  int size = 0;
  REFUSES(gr_comm_size(NULL, &size), "gr_comm_size");
  snprintf(text, 200, "%s", gr_error_text());
  return NULL;
}

static void keeps_errors_per_thread(void) {
  int rank = 0;
  char text[200] = "";
  REFUSES(gr_comm_rank(NULL, &rank), "gr_comm_rank: BadArgument: comm is NULL");
  pthread_t thread;
  pthread_create(&thread, NULL, fails_elsewhere, text);
  pthread_join(thread, NULL);
  CHECK(strstr(text, "gr_comm_size") != NULL);
  CHECK(strstr(gr_error_text(), "gr_comm_rank") != NULL);
}

static void sets_patience(void) {
  OK(gr_set_patience(100, 0));
  FAILS(gr_set_patience(-1, 0), GR_ERROR_USAGE, "-1");
}

int main(int argc, char** argv) {
  begin(argc, argv);
  works_before_the_start();
  counts_starts();
  knows_ranks();
  keeps_errors_per_thread();
  sets_patience();
  OK(gr_finalize());
  int initialized = 1;
  OK(gr_is_initialized(&initialized));
  CHECK(initialized == 0);
  return end();
}
