// SPDX-License-Identifier: BSD-3-Clause
#include "storage.hpp"

#include <graticule/field_io/detail/value_types.hpp>

#include "hdf5/hyperslab.hpp"
#include "hdf5/types.hpp"

#include <algorithm>
#include <cmath>

namespace graticule {

namespace detail {

namespace {

/// Where no chunks are given, they hold about as many bytes as this at most.
constexpr Index most_chunk_bytes = Index(4) << 20;
/// Values in a chunk of a variable along an unlimited dimension only, such as a time coordinate.
constexpr Index series_chunk = 512;

hid_t little_endian(ValueType type) {
  switch (type) {
    case ValueType::i8: return H5T_STD_I8LE;
    case ValueType::u8: return H5T_STD_U8LE;
    case ValueType::i16: return H5T_STD_I16LE;
    case ValueType::u16: return H5T_STD_U16LE;
    case ValueType::i32: return H5T_STD_I32LE;
    case ValueType::u32: return H5T_STD_U32LE;
    case ValueType::i64: return H5T_STD_I64LE;
    case ValueType::u64: return H5T_STD_U64LE;
    case ValueType::f32: return H5T_IEEE_F32LE;
    case ValueType::f64: return H5T_IEEE_F64LE;
    case ValueType::f16:
    case ValueType::text:
    case ValueType::other: break;
  }
  throw Error("WrongType", "netCDF files have no variables of type " + std::string(to_string(type)));
}

h5::Type text_type(Index bytes) {
  if (bytes < 1) throw Error("WrongType", "text must have at least 1 byte, got " + std::to_string(bytes));
  h5::Type type(h5::check(H5Tcopy(H5T_C_S1), "H5Tcopy"));
  h5::check(H5Tset_size(type.get(), std::size_t(bytes)), "H5Tset_size");
  return type;
}

Attribute const* find(VariableSpec const& spec, std::string_view name) {
  auto const found =
      std::find_if(spec.attributes.begin(), spec.attributes.end(), [&](auto const& a) { return a.name == name; });
  return found != spec.attributes.end() ? &*found : nullptr;
}

std::optional<double> number_of(VariableSpec const& spec, std::string_view name, bool given) {
  auto const* attribute = find(spec, name);
  if (attribute == nullptr) return {};
  auto const numbers = attribute->numbers();
  if (given || numbers.size() != 1)
    throw Error("BadOption",
                std::string(name) + " of variable " + spec.name + (given ? " is given twice" : " is not one number"));
  return numbers.front();
}

}  // namespace

bool Shape::grows() const noexcept { return std::find(unlimited.begin(), unlimited.end(), true) != unlimited.end(); }

h5::Type file_type(ValueType type, Index text_bytes) {
  if (type == ValueType::text) return text_type(text_bytes);
  return h5::Type(h5::check(H5Tcopy(little_endian(type)), "H5Tcopy"));
}

h5::Type memory_type(ValueType type, Index text_bytes) {
  if (type == ValueType::text) return text_type(text_bytes);
  return h5::Type(h5::check(H5Tcopy(h5::native_type(type)), "H5Tcopy"));
}

h5::Properties creation_list() {
  h5::Properties creation(h5::check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"));
  h5::check(H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
            "H5Pset_attr_creation_order");
  h5::check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
  h5::check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return creation;
}

PackingPlan packing_plan_of(VariableSpec const& spec) {
  auto const scale = number_of(spec, "scale_factor", spec.packing.has_value());
  auto const offset = number_of(spec, "add_offset", spec.packing.has_value());
  if (spec.packing && spec.packing->missing)
    throw Error("BadOption", "variable " + spec.name + ": the stored value of missing cells is its `fill`");
  PackingPlan plan;
  plan.type = spec.type;
  plan.scales = spec.packing || scale || offset;
  plan.scale = spec.packing ? spec.packing->scale : scale.value_or(1.0);
  plan.offset = spec.packing ? spec.packing->offset : offset.value_or(0.0);
  if (plan.scales && !(std::isfinite(plan.scale) && plan.scale != 0 && std::isfinite(plan.offset)))
    throw Error("BadOption", "variable " + spec.name + ": the scale must be finite and not 0, the offset finite");
  if (spec.type == ValueType::text) return plan;
  auto const fill = number_of(spec, "_FillValue", spec.fill.has_value());
  plan.fill = spec.fill ? spec.fill : fill;
  return plan;
}

Indices default_chunk(VariableSpec const& spec, Shape const& shape) {
  if (shape.extents.size() == 1 && shape.grows()) return {series_chunk};
  Index bytes = spec.type == ValueType::text ? spec.text_bytes : size_in_bytes(spec.type);
  Indices chunk;
  for (int axis = 0; axis < shape.extents.size(); ++axis) {
    chunk.push_back(shape.unlimited[std::size_t(axis)] ? 1 : std::max<Index>(shape.extents[axis], 1));
    bytes *= chunk[axis];
  }
  for (int axis = 0; axis < chunk.size(); ++axis)
    while (bytes > most_chunk_bytes && chunk[axis] > 1) {
      bytes = bytes / chunk[axis] * ((chunk[axis] + 1) / 2);
      chunk[axis] = (chunk[axis] + 1) / 2;
    }
  return chunk;
}

Indices chunk_of(VariableSpec const& spec, Shape const& shape) {
  auto const ndim = shape.extents.size();
  if (spec.chunk.size() == 0) return shape.grows() ? default_chunk(spec, shape) : Indices();
  if (spec.chunk.size() != ndim)
    throw Error("BadOption", "variable " + spec.name + " has " + std::to_string(ndim) + " axes, its chunks have " +
                                 std::to_string(spec.chunk.size()));
  Indices chunk = spec.chunk;
  for (int axis = 0; axis < ndim; ++axis) {
    if (chunk[axis] < 1) throw Error("BadOption", "variable " + spec.name + " has a chunk extent below 1");
    if (shape.unlimited[std::size_t(axis)]) continue;
    // HDF5 has no chunks without cells.
    if (shape.extents[axis] == 0) return {};
    chunk[axis] = std::min(chunk[axis], shape.extents[axis]);
  }
  return chunk;
}

void require_deflate(VariableSpec const& spec) {
  if (spec.deflate < 0 || spec.deflate > 9)
    throw Error("BadOption", "variable " + spec.name + ": deflate " + std::to_string(spec.deflate) + " is not 0 to 9");
}

void set_storage(h5::Properties const& creation, VariableSpec const& spec, Indices const& chunk) {
  require_deflate(spec);
  bool const shuffles = spec.shuffle == Shuffle::always || (spec.shuffle == Shuffle::with_deflate && spec.deflate > 0);
  bool const has_filters = shuffles || spec.deflate > 0;
  if (has_filters && spec.chunk.size() == 0 && chunk.size() == 0)
    throw Error("BadOption", "variable " + spec.name + " is deflated or shuffled but has no chunks");
  if (chunk.size() > 0) {
    h5::check(H5Pset_chunk(creation.get(), chunk.size(), sizes_of(chunk).data()), "H5Pset_chunk");
    if (shuffles) h5::check(H5Pset_shuffle(creation.get()), "H5Pset_shuffle");
    if (spec.deflate > 0) h5::check(H5Pset_deflate(creation.get(), unsigned(spec.deflate)), "H5Pset_deflate");
    if (has_filters) return;
  }
  h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
}

namespace {

/// netCDF 4.9.0 takes texts of several bytes for strings, and the bytes of their fill value for an address, which it
/// frees.
bool has_fatal_fill(VariableSpec const& spec) { return spec.type == ValueType::text && spec.text_bytes > 1; }

}  // namespace

void set_fill(h5::Properties const& creation, VariableSpec const& spec) {
  if (has_fatal_fill(spec)) return;
  auto const set = [&](hid_t type, void const* value) {
    h5::check(H5Pset_fill_value(creation.get(), type, value), "H5Pset_fill_value");
  };
  auto const* attribute = find(spec, "_FillValue");
  if (spec.fill) {
    set(H5T_NATIVE_DOUBLE, &*spec.fill);
  } else if (attribute == nullptr) {
    return;
  } else if (spec.type == ValueType::text) {
    auto text = attribute->text();
    text.resize(std::size_t(spec.text_bytes), '\0');
    set(text_type(spec.text_bytes).get(), text.data());
  } else if (auto const* integers = std::get_if<std::vector<Index>>(&attribute->value)) {
    // Unsigned 64-bit values come with their bits.
    set(attribute->type == ValueType::u64 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, integers->data());
  } else {
    set(H5T_NATIVE_DOUBLE, attribute->numbers().data());
  }
}

void write_attributes(hid_t dataset, VariableSpec const& spec) {
  if (spec.fill) h5::write_attribute(dataset, Attribute::of_number("_FillValue", *spec.fill, spec.type));
  for (auto attribute : spec.attributes) {
    if (attribute.name == "_FillValue" && attribute.type != ValueType::text) attribute.type = spec.type;
    // A zero byte, as text ends with one: HDF5's fill value without being told.
    bool const is_zero = attribute.type == ValueType::text && attribute.text().empty();
    if (attribute.name == "_FillValue" && (is_zero || has_fatal_fill(spec))) continue;
    h5::write_attribute(dataset, attribute);
  }
  if (spec.packing) {
    h5::write_attribute(dataset, Attribute::of_number("scale_factor", spec.packing->scale));
    h5::write_attribute(dataset, Attribute::of_number("add_offset", spec.packing->offset));
  }
}

}  // namespace detail

VariableSpec VariableSpec::of(Variable const& variable) {
  if (variable.value_bytes == 0 || variable.is_strings)
    throw Error(Fault::input, "UnreadableVariable",
                "variable " + to_string(variable) + " cannot be copied: " + variable.refusal);
  VariableSpec spec{.name = variable.name, .dimensions = variable.dimensions, .type = variable.type};
  if (variable.type == ValueType::text) spec.text_bytes = variable.value_bytes;
  spec.chunk = variable.chunk;
  spec.shuffle = Shuffle::never;
  for (auto const& filter : variable.filters) {
    if (filter.id == H5Z_FILTER_SHUFFLE) spec.shuffle = Shuffle::always;
    if (filter.id == H5Z_FILTER_DEFLATE && !filter.parameters.empty()) spec.deflate = int(filter.parameters.front());
  }
  spec.attributes = variable.attributes;
  if (variable.is_short() && variable.type != ValueType::text && variable.attribute("_FillValue") == nullptr)
    spec.attributes.push_back(detail::default_fill(variable.type));
  return spec;
}

}  // namespace graticule
