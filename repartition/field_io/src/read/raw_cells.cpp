// SPDX-License-Identifier: BSD-3-Clause
#include "raw_cells.hpp"

#include <graticule/partition/box.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/values.hpp"
#include "packed_chunks.hpp"

#include <fcntl.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

/// Whether all chunks were written.
bool has_all_cells(hid_t dataset) {
  H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
  h5::check(H5Dget_space_status(dataset, &status), "H5Dget_space_status");
  return status == H5D_SPACE_STATUS_ALLOCATED;
}

/// Whether HDF5 leaves cells of the memory as they are, because they were never written and have no fill value either:
/// netCDF's `NC_NOFILL`.
bool leaves_cells(hid_t dataset) {
  h5::Properties const creation(h5::check(H5Dget_create_plist(dataset), "H5Dget_create_plist"));
  H5D_fill_time_t time = H5D_FILL_TIME_IFSET;
  h5::check(H5Pget_fill_time(creation.get(), &time), "H5Pget_fill_time");
  return time == H5D_FILL_TIME_NEVER && !has_all_cells(dataset);
}

/// Nothing for chunks, values within the header, other files, and files with a user block, behind which places count.
std::optional<ContiguousPlace> contiguous_place(Variable const& variable, hid_t dataset) {
  if (variable.chunk.size() > 0 || variable.is_virtual || variable.is_short() || variable.value_bytes == 0) return {};
  h5::File const file(h5::check(H5Iget_file_id(dataset), "H5Iget_file_id"));
  h5::Properties const creation(h5::check(H5Fget_create_plist(file.get()), "H5Fget_create_plist"));
  hsize_t block = 0;
  h5::check(H5Pget_userblock(creation.get(), &block), "H5Pget_userblock");
  auto const offset = H5Dget_offset(dataset);
  auto const bytes = Box::from_extents(variable.extents).num_cells() * variable.value_bytes;
  bool const is_here = block == 0 && offset != HADDR_UNDEF && H5Dget_storage_size(dataset) == hsize_t(bytes);
  if (!is_here) return {};
  return ContiguousPlace{Index(offset), variable.extents, variable.value_bytes};
}

/// The system copies so many bytes in the time of a call.
constexpr Index most_gap_bytes = 4096;
/// Stays in the second cache.
constexpr Index most_span_bytes = Index(256) << 10U;

/// Runs in rising order, which follow each other at the target.
class RunReader {
 public:
  RunReader(Descriptor const& file, Index run_bytes, std::byte* target)
      : file_(file), run_bytes_(run_bytes), target_(target) {}

  void add(Index offset) {
    if (!runs_.empty()) {
      Index const end = runs_.back() + run_bytes_;
      if (offset - end > most_gap_bytes || offset + run_bytes_ - runs_.front() > most_span_bytes) read();
    }
    runs_.push_back(offset);
  }

  void read() {
    if (runs_.empty()) return;
    Index const first = runs_.front();
    Index const bytes = runs_.back() + run_bytes_ - first;
    bool const is_dense = bytes == Index(runs_.size()) * run_bytes_;
    if (!is_dense && Index(span_.size()) < bytes) span_.resize(std::size_t(bytes));
    if (auto const reason = file_.read(is_dense ? target_ : span_.data(), bytes, first); !reason.empty())
      throw Error("Hdf5Error", reason);
    if (!is_dense)
      for (std::size_t i = 0; i < runs_.size(); ++i)
        std::memcpy(target_ + Index(i) * run_bytes_, span_.data() + (runs_[i] - first), std::size_t(run_bytes_));
    target_ += Index(runs_.size()) * run_bytes_;
    runs_.clear();
  }

 private:
  Descriptor const& file_;
  Index run_bytes_;
  std::byte* target_;
  std::vector<Index> runs_;  ///< their first bytes
  std::vector<std::byte> span_;
};

/// Reads the slab's cells as they are stored, dense in row-major order: HDF5 takes as long for a call as the system for
/// 60 KiB, and reads short runs by a buffer of 64 KiB.
void read_contiguous(Descriptor const& file, ContiguousPlace const& place, Slab const& slab, std::byte* target) {
  if (Box::from_extents(slab.counts).empty()) return;
  int const ndim = slab.counts.size();
  Indices strides = Indices::filled(ndim, 0);  // in bytes
  Index stride = place.value_bytes;
  for (int axis = ndim; axis-- > 0;) {
    strides[axis] = stride;
    stride *= place.extents[axis];
  }
  // Whole axes at the end, and the cells of the axis before them where they follow each other.
  int inner = ndim;
  Index run_bytes = place.value_bytes;
  while (inner > 0 && (slab.steps[inner - 1] == 1 || slab.counts[inner - 1] == 1)) {
    --inner;
    run_bytes = slab.counts[inner] * strides[inner];
    if (slab.counts[inner] != place.extents[inner]) break;
  }
  Index offset = place.offset;
  for (int axis = 0; axis < ndim; ++axis) offset += slab.start[axis] * strides[axis];
  RunReader reader(file, run_bytes, target);
  Indices outer;
  for (int axis = 0; axis < inner; ++axis) outer.push_back(slab.counts[axis]);
  if (inner == 0) {
    reader.add(offset);
  } else {
    for_each_cell(Box::from_extents(outer), [&](Indices const& at) {
      Index first = offset;
      for (int axis = 0; axis < inner; ++axis) first += at[axis] * slab.steps[axis] * strides[axis];
      reader.add(first);
    });
  }
  reader.read();
}

}  // namespace

RawDataset::RawDataset(Variable const& variable, h5::Object object, Descriptor const* file)
    : object_(std::move(object)),
      type_(h5::check(H5Dget_type(object_.get()), "H5Dget_type")),
      leaves_cells_(!is_packed(variable) && leaves_cells(object_.get())),
      reads_together_(file == nullptr && (variable.chunk.size() == 0 || has_all_cells(object_.get()))),
      file_(file),
      place_(file != nullptr && file->get() >= 0 ? contiguous_place(variable, object_.get()) : std::nullopt) {}

void RawDataset::release() noexcept {
  object_.release();
  type_.release();
}

h5::File open_alone(std::filesystem::path const& path) {
  h5::Properties const access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  // Some parallel file systems refuse locks; a reader does not need one.
  h5::check(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  return h5::File(h5::check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "H5Fopen"));
}

Descriptor descriptor_of(hid_t file) {
  h5::Properties const access(h5::check(H5Fget_access_plist(file), "H5Fget_access_plist"));
  bool const are_there = H5Pget_driver(access.get()) == H5FD_SEC2 && std::getenv("HDF5_VOL_CONNECTOR") == nullptr;
  if (!are_there) return {};
  void* handle = nullptr;
  h5::check(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle), "H5Fget_vfd_handle");
  return Descriptor(::fcntl(*static_cast<int const*>(handle), F_DUPFD_CLOEXEC, 0));
}

void RawDataset::read(Variable const& variable, hid_t transfer, std::optional<Slab> const& slab, void* target,
                      int num_threads) const {
  if (place_) {
    if (slab) read_contiguous(*file_, *place_, *slab, static_cast<std::byte*>(target));
    return;
  }
  bool const ends_early = slab && variable.is_short();
  if (slab && (ends_early || leaves_cells_))
    fill_unwritten(variable, Box::from_extents(slab->counts).num_cells(), target);
  if (is_packed(variable)) {
    if (slab)
      read_packed(variable, object_.get(), *slab, counts_within(*slab, variable.stored_extents), target, num_threads);
    return;
  }
  auto const selection = ends_early ? select(object_.get(), *slab, counts_within(*slab, variable.stored_extents))
                                    : select(object_.get(), slab);
  std::byte nothing{};
  h5::check(H5Dread(object_.get(), type_.get(), selection.memory.get(), selection.file.get(), transfer,
                    slab ? target : &nothing),
            "H5Dread");
}

}  // namespace graticule::detail
