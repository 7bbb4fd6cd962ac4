// SPDX-License-Identifier: BSD-3-Clause
// Cells of a dataset in the file's own type and byte order.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "hdf5/descriptor.hpp"
#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"

#include <filesystem>
#include <optional>

namespace graticule::detail {

/// A file that this process opens by itself, without MPI. @throws `Hdf5Error`
[[nodiscard]] h5::File open_alone(std::filesystem::path const& path);

/// Another descriptor of an open file, the same one whatever has its name now; none where HDF5's addresses are not
/// places in the file, because another driver (HDF5_DRIVER) or a connector may put the bytes elsewhere. @throws
/// `Hdf5Error`
[[nodiscard]] Descriptor descriptor_of(hid_t file);

/// Where a dataset lies in a file in one piece, in row-major order.
struct ContiguousPlace {
  Index offset = 0;  ///< of its first byte
  Indices extents;
  Index value_bytes = 1;
};

/// An open dataset.
class RawDataset {
 public:
  /// @param file of `descriptor_of`, for reads without HDF5; null where ranks read together; outlives this object
  /// @throws `Hdf5Error`
  RawDataset(Variable const& variable, h5::Object object, Descriptor const* file);

  /// Reads the slab's cells, or takes part in a collective call without any: in the file's own type and byte order,
  /// because a conversion inside HDF5 would turn collective calls into single ones. Cells that the file does not hold
  /// are `unwritten_value`s. @param num_threads that unpack chunks @throws `Hdf5Error`
  void read(Variable const& variable, hid_t transfer, std::optional<Slab> const& slab, void* target,
            int num_threads) const;
  /// Whether ranks may read it in one call: HDF5 1.10.8 gives MPI negative places for chunks that were never written.
  [[nodiscard]] bool reads_together() const noexcept { return reads_together_; }
  /// Gives it up without closing it.
  void release() noexcept;

 private:
  h5::Object object_;
  h5::Type type_;
  bool leaves_cells_;
  bool reads_together_;
  Descriptor const* file_;
  std::optional<ContiguousPlace> place_;  ///< where the file has it in one piece
};

}  // namespace graticule::detail
