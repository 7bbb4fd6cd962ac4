// SPDX-License-Identifier: BSD-3-Clause
// Transposes between two layouts of a f64 field as libraries do them; the candidates that a plan is compared with.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include <vector>

namespace graticule::bench {

class AllToAll {
 public:
  /// The fields cover the owned boxes of this rank, last axis contiguous.
  AllToAll(Comm const& comm, Layout const& from, Layout const& to, double const* source, double* target);
  AllToAll(AllToAll const&) = delete;
  AllToAll& operator=(AllToAll const&) = delete;
  ~AllToAll();

  /// One `MPI_Alltoallw` between subarrays of the fields.
  void with_types();
  /// Boxes packed by memcpy, `MPI_Alltoallv`, unpacked by memcpy.
  void packed();
  /// One `MPI_Alltoall` of contiguous buffers of the same volume, nothing else.
  void bare();

 private:
  void copy_boxes(std::vector<Box> const& boxes, Box const& owned, double* field, double* buffer, bool packs) const;

  Comm comm_;
  Box from_;
  Box to_;
  double const* source_;
  double* target_;
  std::vector<Box> sent_;
  std::vector<Box> received_;
  std::vector<int> send_counts_, receive_counts_, send_offsets_, receive_offsets_, ones_, zeros_;
  std::vector<MPI_Datatype> send_types_, receive_types_;
  std::vector<double> send_buffer_, receive_buffer_;
};

}  // namespace graticule::bench
