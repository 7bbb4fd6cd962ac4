// SPDX-License-Identifier: BSD-3-Clause
// The library starts MPI where the program has not (`own`), and refuses an MPI that allows too few threads (`single`).
#include <graticule/graticule.h>

#include <stdio.h>
#include <string.h>

static int starts_mpi(void) {
  int started = 0;
  int level = 0;
  int finalized = 0;
  if (gr_init(0, NULL) != GR_SUCCESS) return 2;
  MPI_Initialized(&started);
  MPI_Query_thread(&level);
  if (!started || level < MPI_THREAD_SERIALIZED) return 3;
  if (gr_finalize() != GR_SUCCESS) return 4;
  MPI_Finalized(&finalized);
  return finalized ? 0 : 5;
}

static int refuses_mpi(void) {
  int level = 0;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
  gr_status const status = gr_init(0, NULL);
  int const refused = status == GR_ERROR_PROGRAM && strcmp(gr_error_rule(), "ThreadLevel") == 0 &&
                      strstr(gr_error_text(), "gr_init: ThreadLevel: MPI gives thread level") != NULL;
  int initialized = 1;
  gr_is_initialized(&initialized);
  if (!refused) fprintf(stderr, "status %d: %s\n", (int)status, gr_error_text());
  MPI_Finalize();
  return (level >= MPI_THREAD_SERIALIZED ? status == GR_SUCCESS : refused && !initialized) ? 0 : 6;
}

int main(int argc, char** argv) { return argc > 1 && strcmp(argv[1], "own") == 0 ? starts_mpi() : refuses_mpi(); }
