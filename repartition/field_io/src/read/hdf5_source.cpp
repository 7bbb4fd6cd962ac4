// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5_source.hpp"

#include <graticule/partition/detail/end.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/parallel_file.hpp"
#include "raw_cells.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace graticule::detail {

namespace {

class Hdf5Source final : public Source {
 public:
  Hdf5Source(std::filesystem::path const& path, SourceOptions const& options) : path_(path), options_(options) {
    if (options.comm == nullptr) {
      alone_ = open_alone(path);
      return;
    }
    together_.emplace(ParallelFile::open(*options.comm, path));
    // Now, not at the first read: another file may have the name then.
    if (!options.calls_together) run_agreed(*options.comm, [&] { alone_ = open_alone(path); });
  }

  ~Hdf5Source() override {
    if (!mpi_is_over()) return;
    // HDF5 has closed everything when MPI ended.
    for (auto& [name, dataset] : datasets_) dataset.release();
    alone_.release();
  }

  ReadCells reader_of(Variable const& variable, VariablePlace const& place) override {
    auto const& found = dataset(variable, place);
    // A damaged chunk shows only when it is unpacked, on the ranks that need it. Without collective calls in there the
    // others do not wait for those ranks. Measured with HDF5 1.10.8: not slower, each rank reads whole chunks anyway.
    std::shared_ptr<h5::Properties const> transfer;
    if (variable.filters.empty() && !variable.is_virtual && options_.calls_together && found.reads_together()) {
      transfer = std::make_shared<h5::Properties const>(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
      h5::check(H5Pset_dxpl_mpio(transfer->get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
    }
    return [this, &variable, &found, transfer](std::optional<Slab> const& slab, std::byte* target) {
      found.read(variable, transfer ? transfer->get() : H5P_DEFAULT, slab, target, options_.num_threads);
    };
  }

 private:
  /// Opens on the first use. Collective where ranks have opened the file together.
  RawDataset const& dataset(Variable const& variable, VariablePlace const& place) {
    auto const found = datasets_.find(variable.name);
    if (found != datasets_.end()) return found->second;
    std::optional<RawDataset> opened;
    auto const open = [&] {
      bool const together = together_ && options_.calls_together && !variable.is_virtual;
      auto const file = together ? together_->id() : alone_id();
      if (!together && bytes_.get() < 0) bytes_ = descriptor_of(file);
      opened.emplace(variable, h5::Object(h5::check(H5Oopen_by_addr(file, place.address), "H5Oopen_by_addr")),
                     together ? nullptr : &bytes_);
    };
    if (together_)
      run_agreed(*options_.comm, open);
    else
      open();
    return datasets_.emplace(variable.name, std::move(*opened)).first->second;
  }

  /// The file as this rank alone has it open: HDF5 would open the sources of a virtual dataset as it opened the file,
  /// by all ranks together, but only on ranks that need them, and wait for the others for ever.
  hid_t alone_id() {
    if (!alone_) alone_ = open_alone(path_);
    return alone_.get();
  }

  std::filesystem::path path_;
  SourceOptions options_;
  std::optional<ParallelFile> together_;
  h5::File alone_;
  Descriptor bytes_;  ///< of the file, where each rank reads by itself
  std::map<std::string, RawDataset, std::less<>> datasets_;
};

}  // namespace

std::unique_ptr<Source> open_hdf5(std::filesystem::path const& path, SourceOptions const& options) {
  return std::make_unique<Hdf5Source>(path, options);
}

}  // namespace graticule::detail
