// SPDX-License-Identifier: BSD-3-Clause
// A simulation code in C with networks: the file is missing, which all ranks are told.
#include <graticule/graticule.h>
#include <graticule/graticule_nn.h>

#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  gr_comm* comm = NULL;
  gr_net* net = NULL;
  int rank = 0;
  int num_ranks = 0;
  if (gr_init(0, NULL) != GR_SUCCESS || gr_comm_create(MPI_COMM_WORLD, &comm) != GR_SUCCESS ||
      gr_comm_rank(comm, &rank) != GR_SUCCESS || gr_comm_size(comm, &num_ranks) != GR_SUCCESS)
    return 1;
  int wrong = gr_net_load(comm, "missing.pt2", NULL, &net) != GR_ERROR_INPUT || net != NULL ||
              strcmp(gr_error_rule(), "NoSuchFile") != 0 || strstr(gr_error_text(), "gr_net_load: ") == NULL;
  if (wrong) fprintf(stderr, "%s\n", gr_error_text());
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && wrong == 0) printf("c_nn: %d ranks agree\n", num_ranks);
  if (gr_comm_destroy(&comm) != GR_SUCCESS || gr_finalize() != GR_SUCCESS) return 1;
  return wrong != 0;
}
