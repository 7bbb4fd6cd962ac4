// SPDX-License-Identifier: BSD-3-Clause
#include "contents.hpp"

#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/dtypes.hpp>

#include "cells.hpp"
#include "hdf5/types.hpp"
#include "read/raw_cells.hpp"
#include "read/signature.hpp"
#include "read/structure_process.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace graticule::detail {

namespace {

[[noreturn]] void broken(std::string const& what) { throw Error(Fault::input, "BrokenFile", what); }

/// A dataset as it describes itself.
struct Described {
  std::string name;
  std::optional<DType> dtype;  ///< none for a text
  Indices extents;
  Index size = 0;  ///< bytes of a text
  Indices grid_axes;
  std::uint64_t checksum = 0;
  haddr_t address = HADDR_UNDEF;
  std::vector<Attribute> attributes;  ///< the user's
};

std::optional<Index> own_integer(hid_t object, char const* name) {
  auto const attribute = h5::read_attribute(object, name);
  auto const* numbers = attribute ? std::get_if<std::vector<Index>>(&attribute->value) : nullptr;
  return numbers != nullptr && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

Index required_integer(hid_t object, char const* name, std::string const& owner) {
  auto const found = own_integer(object, name);
  if (!found) broken(owner + " has no attribute " + name);
  return *found;
}

Indices extents_of(hid_t dataset, std::string const& name) {
  h5::Space const space(h5::check(H5Dget_space(dataset), "H5Dget_space"));
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  int const ndim = H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  if (ndim < 0 || ndim > max_ndim) broken(name + " has " + std::to_string(ndim) + " axes");
  Indices result;
  hsize_t bytes = sizeof(std::complex<double>);
  for (int axis = 0; axis < ndim; ++axis) {
    auto const extent = extents[std::size_t(axis)];
    if (__builtin_mul_overflow(bytes, std::max<hsize_t>(extent, 1), &bytes) || bytes > hsize_t(INT64_MAX))
      broken(name + " has more than 2^63 bytes");
    result.push_back(Index(extent));
  }
  return result;
}

/// Cells lie in this file and nowhere else.
void require_own_storage(hid_t dataset, std::string const& name) {
  h5::Properties const properties(h5::check(H5Dget_create_plist(dataset), "H5Dget_create_plist"));
  auto const layout = h5::check(H5Pget_layout(properties.get()), "H5Pget_layout");
  if (layout != H5D_CONTIGUOUS || H5Pget_external_count(properties.get()) != 0)
    broken(name + " is stored in a way that checkpoints are not");
}

Described describe(hid_t file, std::string const& path, std::string name) {
  h5::Dataset const dataset(h5::check(H5Dopen2(file, path.c_str(), H5P_DEFAULT), "H5Dopen2"));
  Described result;
  result.name = std::move(name);
  require_own_storage(dataset.get(), path);
  h5::Type const type(h5::check(H5Dget_type(dataset.get()), "H5Dget_type"));
  result.extents = extents_of(dataset.get(), path);
  auto const kind = h5::read_attribute(dataset.get(), "graticule_dtype");
  auto const kind_text = kind ? kind->text() : std::string();
  for (auto const dtype : enum_values<DType>)
    if (to_string(dtype) == kind_text) result.dtype = dtype;
  if (result.dtype ? H5Tequal(type.get(), element_type(*result.dtype, Place::file).get()) <= 0
                   : kind_text != "text" || H5Tget_class(type.get()) != H5T_STRING)
    broken(path + " is not of the type '" + kind_text + "' that it names");
  if (!result.dtype) {
    h5::Space const space(h5::check(H5Dget_space(dataset.get()), "H5Dget_space"));
    bool const is_empty = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
    result.size = is_empty ? 0 : Index(H5Tget_size(type.get()));
  }
  if (auto const axes = h5::read_attribute(dataset.get(), "graticule_grid_axes"))
    if (auto const* numbers = std::get_if<std::vector<Index>>(&axes->value)) result.grid_axes = Indices(*numbers);
  result.checksum = std::uint64_t(required_integer(dataset.get(), "graticule_checksum", path));
  result.address = H5Dget_offset(dataset.get());
  result.attributes = h5::read_attributes(dataset.get());
  std::erase_if(result.attributes, [](auto const& attribute) { return attribute.name.starts_with(own_prefix); });
  return result;
}

struct Links {
  std::vector<std::string> names;
  bool are_hard = true;
  bool failed = false;
};

extern "C" herr_t graticule_keep_link(hid_t, char const* name, H5L_info_t const* info, void* data) {
  auto& links = *static_cast<Links*>(data);
  try {
    links.are_hard = links.are_hard && info->type == H5L_TYPE_HARD;
    links.names.emplace_back(name);
  } catch (...) {
    links.failed = true;
    return -1;
  }
  return 0;
}

/// The datasets below a group, in order of names.
std::vector<Described> describe_all(hid_t file, std::string const& group,
                                    std::function<void(std::string const&)> const& reads) {
  Links links;
  h5::check(H5Lvisit_by_name(file, group.c_str(), H5_INDEX_NAME, H5_ITER_INC, graticule_keep_link, &links, H5P_DEFAULT),
            "H5Lvisit_by_name");
  if (!links.are_hard) broken(group + " holds links to other places");
  std::sort(links.names.begin(), links.names.end());
  std::vector<Described> result;
  for (auto& name : links.names) {
    auto const path = group + "/" + name;
    reads(path);
    H5O_info_t info{};
    h5::check(H5Oget_info_by_name2(file, path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT), "H5Oget_info_by_name2");
    if (info.type == H5O_TYPE_DATASET) result.push_back(describe(file, path, std::move(name)));
  }
  return result;
}

struct DescribedFile {
  Index step = 0;
  Index number = 0;
  std::vector<Described> fields;
  std::vector<Described> values;

  DescribedFile(hid_t file, std::function<void(std::string const&)> const& reads)
      : step(required_integer(file, "graticule_step", "the file")),
        number(required_integer(file, "graticule_number", "the file")),
        fields(describe_all(file, "fields", reads)),
        values(describe_all(file, "values", reads)) {}

  [[nodiscard]] std::uint64_t hash() const {
    Hash hash;
    hash.add(checkpoint_version).add(step).add(number);
    for (auto const* list : {&fields, &values}) {
      for (auto const& each : *list) {
        hash.add(each.name).add(each.dtype ? to_string(*each.dtype) : "text").add(each.extents).add(each.size);
        hash.add(each.grid_axes).add(each.checksum);
        for (auto const& attribute : each.attributes)
          hash.add(attribute.name).add(int(attribute.type)).add(attribute.text()).add(attribute.numbers());
      }
      hash.add(list->size());
    }
    return hash.value();
  }
};

template <class T>
std::vector<T> list_of(RawValue const& raw) {
  std::vector<T> values(std::size_t(raw.count()));
  if (!values.empty()) std::memcpy(values.data(), raw.bytes.data(), raw.bytes.size());
  return values;
}

CheckpointValue typed_value(RawValue const& raw, std::string const& name) {
  if (raw.is_text) return std::string(reinterpret_cast<char const*>(raw.bytes.data()), raw.bytes.size());
  if (raw.dtype == DType::u8 && raw.ndim == 1) return raw.bytes;
  if (raw.dtype == DType::i64 && raw.ndim == 0) return list_of<Index>(raw).at(0);
  if (raw.dtype == DType::f64 && raw.ndim == 0) return list_of<double>(raw).at(0);
  if (raw.dtype == DType::i64 && raw.ndim == 1) return list_of<Index>(raw);
  if (raw.dtype == DType::f64 && raw.ndim == 1) return list_of<double>(raw);
  broken("value " + name + " is of a type that values do not have");
}

CheckpointValue read_value(hid_t file, Described const& described, std::uintmax_t file_bytes) {
  RawValue raw{.dtype = described.dtype.value_or(DType::u8),
               .is_text = !described.dtype,
               .ndim = described.extents.size(),
               .bytes = {}};
  if (raw.ndim > 1) broken("value " + described.name + " has more than one axis");
  Index const count = raw.is_text ? described.size : Box::from_extents(described.extents).num_cells();
  auto const bytes = std::uintmax_t(count) * std::uintmax_t(size_of(raw.dtype));
  if (bytes > file_bytes) broken("value " + described.name + " is larger than the file");
  raw.bytes.resize(std::size_t(bytes));
  if (!raw.bytes.empty()) {
    h5::Dataset const dataset(h5::check(H5Dopen2(file, ("values/" + described.name).c_str(), H5P_DEFAULT), "H5Dopen2"));
    auto const type = raw.is_text ? text_type(raw.bytes.size()) : element_type(raw.dtype, Place::memory);
    h5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.bytes.data()), "H5Dread");
  }
  if (raw.checksum() != described.checksum) broken("value " + described.name + " does not have its checksum");
  return typed_value(raw, described.name);
}

CheckpointContents read_contents_of(hid_t file, std::uintmax_t file_bytes,
                                    std::function<void(std::string const&)> const& reads) {
  auto const version = own_integer(file, "graticule_checkpoint");
  if (!version) broken("it is an HDF5 file, but not a checkpoint");
  if (*version > checkpoint_version)
    throw Error(Fault::input, "UnsupportedFile",
                "it is a checkpoint of format " + std::to_string(*version) + ", and this program reads up to format " +
                    std::to_string(checkpoint_version));
  DescribedFile const described(file, reads);
  if (std::uint64_t(required_integer(file, "graticule_contents", "the file")) != described.hash())
    broken("what it says of its contents does not have its checksum");
  CheckpointContents contents;
  contents.step = described.step;
  contents.number = described.number;
  for (auto const& field : described.fields) {
    if (!field.dtype) broken("field " + field.name + " is a text");
    auto const bytes = std::uintmax_t(Box::from_extents(field.extents).num_cells() * size_of(*field.dtype));
    if (bytes > 0 && (field.address > file_bytes || bytes > file_bytes - field.address))
      broken("the cells of field " + field.name + " lie outside the file");
    contents.fields.push_back({field.name, *field.dtype, field.extents, field.grid_axes, field.attributes});
    contents.checksums.push_back(field.checksum);
    contents.offsets.push_back(bytes > 0 ? Index(field.address) : 0);
  }
  reads("values");
  for (auto const& value : described.values)
    contents.values.emplace_back(value.name, read_value(file, value, file_bytes));
  return contents;
}

}  // namespace

std::uint64_t contents_hash(hid_t file) {
  return DescribedFile(file, [](std::string const&) {}).hash();
}

CheckpointContents read_checkpoint_contents(std::filesystem::path const& path) {
  require_hdf5_signature(path);
  auto const bytes = read_by_process(Structure::checkpoint, path, FilterPlugins::refused);
  return bytes ? checkpoint_contents_from_bytes(*bytes) : list_checkpoint(path, [](std::string const&) {});
}

CheckpointContents list_checkpoint(std::filesystem::path const& path,
                                   std::function<void(std::string const&)> const& reads) {
  h5::Quiet const quiet;
  auto const refuse = [&](std::string const& rule, std::string const& what) {
    return Error(Fault::input, rule, path.string() + " cannot be used: " + what);
  };
  try {
    auto const file = open_alone(path);
    return read_contents_of(file.get(), std::filesystem::file_size(path), reads);
  } catch (Error const& error) {
    if (error.fault() == Fault::input) throw refuse(error.rule(), error.text());
    throw refuse("BrokenFile", "it is damaged or incomplete (" + error.text() + ")");
  } catch (std::exception const& error) {
    throw refuse("BrokenFile", error.what());
  }
}

}  // namespace graticule::detail
