// SPDX-License-Identifier: BSD-3-Clause
// An HDF5 file that all ranks of a communicator have open.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/watch.hpp>

#include "handle.hpp"

#include <filesystem>

namespace graticule::detail {

/// Watches collective calls of HDF5 and MPI-IO, in which this rank may wait for one that does not come: see `Watch`.
/// What this thread waits for the disk, asleep, does not count.
class FileWatch {
 public:
  /// @param doing such as `writing`
  FileWatch(Comm const& comm, std::filesystem::path const& path, char const* doing);

 private:
  Watch watch_;
};

/// Closing such a file is collective. When an exception unwinds this rank, the others may be elsewhere and never come:
/// then this rank waits for them for a few seconds and else leaves the file open, for `MPI_Abort` or `MPI_Finalize`
/// (HDF5 closes what is open there) to end it.
class ParallelFile {
 public:
  /// Opens for reading. Collective. @throws `Error` of HDF5, on this rank
  [[nodiscard]] static ParallelFile open(Comm const& comm, std::filesystem::path const& path);
  /// Opens for writing to what is there. Collective.
  [[nodiscard]] static ParallelFile open_to_write(Comm const& comm, std::filesystem::path const& path);
  /// Makes a new file, or empties an old one, ready for netCDF-4. Collective. @pre as of `mpi_io_name`
  [[nodiscard]] static ParallelFile create(Comm const& comm, std::filesystem::path const& path);

  ParallelFile(ParallelFile&&) = default;
  ParallelFile& operator=(ParallelFile&&) = delete;
  ~ParallelFile();

  [[nodiscard]] hid_t id() const noexcept { return file_.get(); }
  /// Makes the file longer by `num_bytes`, which read as zeros. HDF5 cuts it to its right length in the end.
  /// Collective.
  ///
  /// MPI-IO writes scattered parts by reading what lies between, and writing it back with them. Behind the end of the
  /// file nothing is read and ROMIO (MPICH 4.0.2) writes what its buffer happened to hold: files would differ.
  void reserve(Index num_bytes);
  /// Closes now, checked. Collective.
  void close();
  /// Brings everything that was written to the disk. Collective.
  void flush();
  /// Closing cannot fail from now on: `divert_to_memory`.
  void divert() const noexcept;
  /// Every rank calls this within a few seconds: none has gone elsewhere by an exception.
  [[nodiscard]] bool meets_others() const noexcept;

 private:
  /// True when all ranks have come to close the file; false when some cannot come.
  [[nodiscard]] bool all_close() const noexcept;
  ParallelFile(Comm const& comm, std::filesystem::path path);
  /// Has the file, and notes for the end of the process that it is open; `forget` notes that it is closed.
  void take(hid_t id);
  void forget() const noexcept;
  [[nodiscard]] MPI_File handle() const;

  std::filesystem::path path_;
  h5::File file_;
  /// A communicator of its own, so that the last meeting never mixes with other calls.
  Comm meeting_;
  int num_exceptions_;
  MPI_Offset reserved_ = 0;
};

}  // namespace graticule::detail
