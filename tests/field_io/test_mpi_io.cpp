// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/mpi_io.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace graticule {
namespace {

TEST(MpiIo, collective_reads_are_left_to_layers_that_are_not_known_to_lose_cells) {
  struct Case {
    char const* library;
    detail::OpenMpiSettings settings;
    bool together;
  };
  std::vector<Case> const cases{{"MPICH Version:\t4.0.2\nMPICH Release date:", {}, true},
                                {"Intel(R) MPI Library 2021.9 for Linux* OS", {}, true},
                                {"Open MPI v4.0.7, package: Debian OpenMPI", {}, true},
                                {"Open MPI v4.1.0, package: Debian OpenMPI", {}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", {}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "romio321"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "^ompio"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = "ompio"}, false},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = {}, .sieving = "0"}, true},
                                {"Open MPI v4.1.4, package: Debian OpenMPI", {.io = {}, .sieving = "1"}, false},
                                {"Open MPI v5.0.5, package: Open MPI", {}, false},
                                {"Open MPI v5.0.6, package: Open MPI", {}, true},
                                {"Open MPI v5.1.0a1, package: Open MPI", {}, true}};
  for (auto const& one : cases)
    EXPECT_EQ(detail::reads_together(one.library, one.settings), one.together)
        << one.library << ", io '" << one.settings.io << "', sieving '" << one.settings.sieving << "'";
}

}  // namespace
}  // namespace graticule
