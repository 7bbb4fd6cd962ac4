// SPDX-License-Identifier: BSD-3-Clause
// What is known of MPI's own file layer.
#pragma once

#include <string_view>

namespace graticule::detail {

/// How the environment adjusts the file layer of Open MPI; empty where it does not.
struct OpenMpiSettings {
  std::string_view io = {};       ///< `OMPI_MCA_io`: the component, or `^` and those that are not used
  std::string_view sieving = {};  ///< `OMPI_MCA_fbtl_posix_read_datasieving`
};

/// False where collective reads may leave the last cells as they were: data sieving of OMPIO loses what lies behind the
/// last of several overlapping parts (https://github.com/open-mpi/ompi/issues/10546, Open MPI 4.1.0 to 4.1.4; seen
/// with 4.1.4 from 3 ranks on). Later defects of the same code were mended until 5.0.6, so all before that count.
/// @param library what `MPI_Get_library_version` gives
[[nodiscard]] bool reads_together(std::string_view library, OpenMpiSettings const& settings);

/// The same of this process. Settings must have been there when MPI started: see `Runtime`.
[[nodiscard]] bool reads_together();

}  // namespace graticule::detail
