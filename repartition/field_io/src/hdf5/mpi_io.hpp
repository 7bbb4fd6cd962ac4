// SPDX-License-Identifier: BSD-3-Clause
// What is known of MPI's own file layer.
#pragma once

#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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

/// Names of a file for MPI-IO, in the order in which they are tried. A name without a colon goes as it is.
///
/// ROMIO takes what stands before the first colon for a type of file system (`nfs:a.nc`) and removes it. Up to
/// MPICH 4.0 and in Open MPI 4.1 it refuses all other names with a colon: `ADIO_FileSysType_prefix` in
/// adio/common/ad_fstype.c. MPICH 4.1 takes unknown types for a part of the name
/// (https://github.com/pmodels/mpich/pull/5951). Behind a type of our own colons are free in all of them. OMPIO knows
/// no types: it finds the plain name, and nothing under the others.
/// `./` keeps the beginning of a relative name from being a type.
///
/// Example: `run:1/a.nc` on NFS: `nfs:./run:1/a.nc`, `./run:1/a.nc`, `ufs:./run:1/a.nc`.
/// @param type ROMIO's name of the file system, so that it locks and stripes as for other names; empty where it knows
///        none. Then the plain name is the first: MPICH 4.1 recognises more than `statfs` shows (DAOS)
[[nodiscard]] std::vector<std::string> mpi_io_names(std::filesystem::path const& path, std::string_view type);

/// The first of these names that rank 0 can open, or the last: no list of MPI libraries decides. Collective.
/// @pre the file exists where its name has a colon, even if it is to be created
/// Cost: for names with a colon one all-reduce of 1 integer, one broadcast, and rank 0 opens the file up to twice.
[[nodiscard]] std::string mpi_io_name(Comm const& comm, std::filesystem::path const& path);

}  // namespace graticule::detail
