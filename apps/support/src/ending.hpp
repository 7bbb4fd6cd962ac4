// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <exception>
#include <string>

namespace graticule::app {

/// The exit code and the sentence that an exception means.
struct Verdict {
  int code = 0;
  std::string message;
};
[[nodiscard]] Verdict verdict_of(std::exception_ptr const& failure);

/// Brings all ranks to the same end: each hands in its exit code and its failure, if any.
///
/// The failing rank of the lowest number prints its message, headed by `name`; one that failed because of another only
/// when no other does. A rank that failed and finds that the others do not come tells them (`announce_failure`), later
/// it prints its message and ends them all by `MPI_Abort`: they wait for something from this rank. Collective on
/// `comm`, which nothing else may use. @return the exit code of all ranks
[[nodiscard]] int end_together(Comm const& comm, std::string const& name, int code, std::exception_ptr const& failure);

/// Makes an exception that nobody catches end all ranks.
void end_all_ranks_on_terminate(std::string const& name);

}  // namespace graticule::app
