// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <source_location>
#include <string_view>

namespace graticule {

/// Throws `MpiError` unless `code` is `MPI_SUCCESS`; `call` names the MPI function.
void check_mpi(int code, std::string_view call, std::source_location where = std::source_location::current());

}  // namespace graticule
