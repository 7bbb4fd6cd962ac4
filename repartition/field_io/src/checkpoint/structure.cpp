// SPDX-License-Identifier: BSD-3-Clause
#include "structure.hpp"

#include "hdf5/hyperslab.hpp"
#include "hdf5/types.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace graticule::detail {

namespace {

/// Metadata stays in memory until the file is closed.
h5::Properties access_list() {
  h5::Properties access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  h5::check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  h5::check(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  h5::write_metadata_once(access);
  return access;
}

/// Without the time of day, so that the bytes depend on what is written only.
h5::Properties untimed(hid_t kind) {
  h5::Properties creation(h5::check(H5Pcreate(kind), "H5Pcreate"));
  h5::check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
  return creation;
}

h5::Space dataspace(Indices const& extents) {
  auto const sizes = sizes_of(extents);
  return h5::Space(
      h5::check(extents.size() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(extents.size(), sizes.data(), nullptr),
                "H5Screate_simple"));
}

Attribute integer(std::string const& name, Index value, ValueType type = ValueType::i64) {
  return {name, type, std::vector<Index>{value}};
}

/// From now on HDF5 writes to memory that is discarded.
void divert(hid_t file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0) return;
#ifdef __linux__
  int const memory = ::memfd_create("graticule", MFD_CLOEXEC);
#else
  int const memory = ::open("/dev/null", O_RDWR | O_CLOEXEC);
#endif
  if (memory < 0) return;
  ::dup2(memory, *static_cast<int*>(handle));
  ::close(memory);
}

}  // namespace

CheckpointStructure::CheckpointStructure(std::filesystem::path const& path, Index number, Index step) {
  h5::Quiet const quiet;
  auto const access = access_list();
  auto const creation = untimed(H5P_FILE_CREATE);
  file_ = h5::File(h5::check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), "H5Fcreate"));
  h5::Group const root(h5::check(H5Gopen2(file_.get(), "/", H5P_DEFAULT), "H5Gopen2"));
  h5::write_attribute(root.get(), integer("graticule_checkpoint", checkpoint_version));
  h5::write_attribute(root.get(), integer("graticule_number", number));
  h5::write_attribute(root.get(), integer("graticule_step", step));
  make_groups("fields/");
  make_groups("values/");
}

CheckpointStructure::~CheckpointStructure() {
  if (!file_) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    // HDF5 has closed everything when MPI ended.
    for (auto& [name, field] : fields_) field.release();
    file_.release();
    return;
  }
  h5::Quiet const quiet;
  divert(file_.get());
  fields_.clear();
  file_.close();
}

void CheckpointStructure::make_groups(std::string const& path) {
  for (auto at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    auto const group = path.substr(0, at);
    if (!groups_.insert(group).second) continue;
    auto const creation = untimed(H5P_GROUP_CREATE);
    h5::Group(
        h5::check(H5Gcreate2(file_.get(), group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), "H5Gcreate2"));
  }
}

h5::Dataset CheckpointStructure::make_dataset(std::string const& path, h5::Type const& type, h5::Space const& space,
                                              std::vector<Attribute> const& attributes) {
  make_groups(path);
  auto const creation = untimed(H5P_DATASET_CREATE);
  h5::check(H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
            "H5Pset_attr_creation_order");
  h5::check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  h5::Dataset dataset(h5::check(
      H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "H5Dcreate2"));
  for (auto const& attribute : attributes) h5::write_attribute(dataset.get(), attribute);
  return dataset;
}

Index CheckpointStructure::add_field(CheckpointField const& field) {
  h5::Quiet const quiet;
  auto attributes = field.attributes;
  attributes.push_back(Attribute::of_text("graticule_dtype", to_string(field.dtype)));
  if (field.grid_axes.size() > 0)
    attributes.push_back(
        {"graticule_grid_axes", ValueType::i64, std::vector<Index>(field.grid_axes.begin(), field.grid_axes.end())});
  auto dataset = make_dataset("fields/" + field.name, element_type(field.dtype, Place::file), dataspace(field.extents),
                              attributes);
  auto const offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF && !Box::from_extents(field.extents).empty())
    throw Error("Hdf5Error", "H5Dget_offset failed: " + h5::error_text());
  fields_.emplace(field.name, std::move(dataset));
  return offset == HADDR_UNDEF ? 0 : Index(offset);
}

void CheckpointStructure::add_value(std::string const& name, RawValue const& value) {
  h5::Quiet const quiet;
  auto const size = value.bytes.size();
  auto const type = [&](Place place) {
    return value.is_text ? text_type(std::max<std::size_t>(size, 1)) : element_type(value.dtype, place);
  };
  auto const kind = value.is_text ? "text" : to_string(value.dtype);
  auto const dataset = make_dataset("values/" + name, type(Place::file),
                                    value.is_text && size == 0 ? h5::Space(h5::check(H5Screate(H5S_NULL), "H5Screate"))
                                    : value.ndim == 1          ? dataspace(Indices{value.count()})
                                                               : dataspace({}),
                                    {Attribute::of_text("graticule_dtype", kind),
                                     integer("graticule_checksum", Index(value.checksum()), ValueType::u64)});
  if (size > 0)
    h5::check(H5Dwrite(dataset.get(), type(Place::memory).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.bytes.data()),
              "H5Dwrite");
}

void CheckpointStructure::finish(std::vector<std::uint64_t> const& checksums) {
  h5::Quiet const quiet;
  std::size_t i = 0;
  for (auto& [name, dataset] : fields_) {
    h5::write_attribute(dataset.get(), integer("graticule_checksum", Index(checksums.at(i++)), ValueType::u64));
    h5::check(dataset.close(), "H5Dclose");
  }
  fields_.clear();
  {
    // From the file, so that it is the hash of what a reader will find.
    auto const hash = contents_hash(file_.get());
    h5::Group const root(h5::check(H5Gopen2(file_.get(), "/", H5P_DEFAULT), "H5Gopen2"));
    h5::write_attribute(root.get(), integer("graticule_contents", Index(hash), ValueType::u64));
  }
  // After a flush that worked, closing has nothing left that could fail.
  h5::check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "H5Fflush");
  h5::check(file_.close(), "H5Fclose");
}

}  // namespace graticule::detail
