// SPDX-License-Identifier: BSD-3-Clause
#include "types.hpp"

#include <graticule/field_io/detail/value_types.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace graticule::detail::h5 {

namespace {

/// Attributes larger than this are not treated as metadata.
constexpr hsize_t largest_attribute = hsize_t(16) << 20;

/// No file is smaller, so its length need not be asked for.
constexpr hsize_t surely_small_attribute = 512;

/// Longer texts are not treated as values of a field; their product with extents could overflow.
constexpr std::size_t largest_text = 65536;

ValueType integer_type(std::size_t size, bool is_signed) {
  switch (size) {
    case 1: return is_signed ? ValueType::i8 : ValueType::u8;
    case 2: return is_signed ? ValueType::i16 : ValueType::u16;
    case 4: return is_signed ? ValueType::i32 : ValueType::u32;
    case 8: return is_signed ? ValueType::i64 : ValueType::u64;
    default: return ValueType::other;
  }
}

/// Two arguments, not a list: nvcc 13.0 takes the comma in HDF5's macros for one of the list.
bool is_either(hid_t type, hid_t one, hid_t other) { return H5Tequal(type, one) > 0 || H5Tequal(type, other) > 0; }

/// IEEE binary16: HDF5 1.10 has no name for it.
bool is_half(hid_t type) {
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_bits = 0;
  return H5Tget_size(type) == 2 && H5Tget_offset(type) == 0 &&
         H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 && sign == 15 &&
         exponent == 10 && exponent_bits == 5 && mantissa == 0 && mantissa_bits == 10 && H5Tget_ebias(type) == 15;
}

std::string_view class_name(H5T_class_t kind) {
  switch (kind) {
    case H5T_TIME: return "a time type";
    case H5T_BITFIELD: return "a bit field";
    case H5T_OPAQUE: return "an opaque type";
    case H5T_COMPOUND: return "a compound type";
    case H5T_REFERENCE: return "a reference";
    case H5T_ENUM: return "an enumeration";
    case H5T_VLEN: return "a variable-length type";
    case H5T_ARRAY: return "an array type";
    default: return "an unknown type";
  }
}

constexpr std::array<std::string_view, 9> hidden_attributes{"CLASS",
                                                            "NAME",
                                                            "DIMENSION_LIST",
                                                            "REFERENCE_LIST",
                                                            "DIMENSION_LABELS",
                                                            "_Netcdf4Dimid",
                                                            "_Netcdf4Coordinates",
                                                            "_NCProperties",
                                                            "_nc3_strict"};

struct Reclaim {
  hid_t type;
  hid_t space;
  void* data;
  ~Reclaim() { H5Dvlen_reclaim(type, space, H5P_DEFAULT, data); }
};

/// Bytes of the file that holds an object.
hsize_t file_bytes(hid_t object) {
  File const file(check(H5Iget_file_id(object), "H5Iget_file_id"));
  hsize_t bytes = 0;
  check(H5Fget_filesize(file.get(), &bytes), "H5Fget_filesize");
  return bytes;
}

/// Attributes are copied and sent: a damaged one may be read, but not be any length.
void require_smaller_than_file(hid_t attribute, std::string const& name, hsize_t bytes) {
  if (bytes > surely_small_attribute && bytes > file_bytes(attribute))
    throw Error("Hdf5Error", "attribute " + name + " of " + std::to_string(bytes) + " bytes is larger than the file");
}

std::vector<std::string> read_texts(hid_t attribute, std::string const& name, hid_t type, hid_t space,
                                    std::size_t count) {
  std::vector<std::string> texts;
  if (check(H5Tis_variable_str(type), "H5Tis_variable_str") > 0) {
    Type const memory(check(H5Tcopy(type), "H5Tcopy"));
    std::vector<char*> pointers(count, nullptr);
    check(H5Aread(attribute, memory.get(), pointers.data()), "H5Aread");
    Reclaim const reclaim{memory.get(), space, pointers.data()};
    hsize_t bytes = 0;
    for (char const* text : pointers) {
      bytes += text != nullptr ? std::strlen(text) : 0;
      require_smaller_than_file(attribute, name, bytes);
      texts.emplace_back(text != nullptr ? text : "");
    }
  } else {
    auto const size = H5Tget_size(type);
    if (size == 0 || count > largest_attribute / size) return {};
    std::string bytes(size * count, '\0');
    check(H5Aread(attribute, type, bytes.data()), "H5Aread");
    for (std::size_t i = 0; i < count; ++i) {
      auto const text = std::string_view(bytes).substr(i * size, size);
      texts.emplace_back(text.substr(0, text.find('\0')));
    }
  }
  return texts;
}

std::optional<Attribute> read_open_attribute(hid_t attribute, std::string name) {
  Type const type(check(H5Aget_type(attribute), "H5Aget_type"));
  Space const space(check(H5Aget_space(attribute), "H5Aget_space"));
  auto const count = check(H5Sget_simple_extent_npoints(space.get()), "H5Sget_simple_extent_npoints");
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL || count == 0)
    return H5Tget_class(type.get()) == H5T_STRING ? std::optional(Attribute::of_text(std::move(name), ""))
                                                  : std::nullopt;
  auto const bytes = H5Aget_storage_size(attribute);
  require_smaller_than_file(attribute, name, bytes);
  if (bytes > largest_attribute || hsize_t(count) > largest_attribute / 8) return {};
  switch (H5Tget_class(type.get())) {
    case H5T_STRING: {
      auto texts = read_texts(attribute, name, type.get(), space.get(), std::size_t(count));
      if (texts.size() > 1) return Attribute{std::move(name), ValueType::text, std::move(texts)};
      return Attribute::of_text(std::move(name), texts.empty() ? std::string() : std::move(texts.front()));
    }
    case H5T_INTEGER: {
      auto const stored = stored_type(type.get());
      if (stored.type == ValueType::other) return {};
      std::vector<Index> values(std::size_t(count), 0);
      // Unsigned 64-bit values keep their bits.
      auto const memory = stored.type == ValueType::u64 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64;
      check(H5Aread(attribute, memory, values.data()), "H5Aread");
      return Attribute{std::move(name), stored.type, std::move(values)};
    }
    case H5T_FLOAT: {
      auto const stored = stored_type(type.get());
      std::vector<double> values(std::size_t(count), 0.0);
      check(H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()), "H5Aread");
      return Attribute{std::move(name), stored.type == ValueType::other ? ValueType::f64 : stored.type,
                       std::move(values)};
    }
    default: return {};
  }
}

bool tracks_attribute_order(hid_t object) {
  unsigned order = 0;
  Properties properties;
  switch (H5Iget_type(object)) {
    case H5I_DATASET: properties = Properties(H5Dget_create_plist(object)); break;
    case H5I_GROUP: properties = Properties(H5Gget_create_plist(object)); break;
    default: return false;
  }
  return properties && H5Pget_attr_creation_order(properties.get(), &order) >= 0 &&
         (order & H5P_CRT_ORDER_TRACKED) != 0;
}

}  // namespace

std::optional<std::vector<std::string>> read_strings(hid_t dataset, std::size_t most_bytes) {
  Type const type(check(H5Dget_type(dataset), "H5Dget_type"));
  Space const space(check(H5Dget_space(dataset), "H5Dget_space"));
  auto const count = check(H5Sget_simple_extent_npoints(space.get()), "H5Sget_simple_extent_npoints");
  if (count < 0 || std::size_t(count) > most_bytes) return {};
  Type const memory(check(H5Tcopy(type.get()), "H5Tcopy"));
  std::vector<char*> pointers(std::size_t(count), nullptr);
  if (count > 0) check(H5Dread(dataset, memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), "H5Dread");
  Reclaim const reclaim{memory.get(), space.get(), pointers.data()};
  std::vector<std::string> strings;
  std::size_t longest = 1;
  for (char const* text : pointers) {
    auto const length = text != nullptr ? std::strlen(text) : 0;
    longest = std::max(longest, length);
    if (longest > most_bytes / std::max<std::size_t>(pointers.size(), 1)) return {};
    strings.emplace_back(text != nullptr ? text : "");
  }
  return strings;
}

StoredType stored_type(hid_t type) {
  auto const kind = H5Tget_class(type);
  auto const size = H5Tget_size(type);
  StoredType result;
  if (kind == H5T_STRING) {
    result.type = ValueType::text;
    result.described = "text";
    result.is_strings = H5Tis_variable_str(type) > 0;
    if (!result.is_strings && size <= largest_text) result.bytes = Index(size);
    return result;
  }
  if (kind == H5T_INTEGER) {
    bool const is_plain = H5Tget_offset(type) == 0 && H5Tget_precision(type) == 8 * size;
    result.type = is_plain ? integer_type(size, H5Tget_sign(type) == H5T_SGN_2) : ValueType::other;
    result.is_big_endian = H5Tget_order(type) == H5T_ORDER_BE;
    if (result.type == ValueType::other) result.described = "an integer of unusual size";
    result.bytes = size_in_bytes(result.type);
    return result;
  }
  if (kind == H5T_FLOAT) {
    if (is_either(type, H5T_IEEE_F32LE, H5T_IEEE_F32BE)) result.type = ValueType::f32;
    if (is_either(type, H5T_IEEE_F64LE, H5T_IEEE_F64BE)) result.type = ValueType::f64;
    if (is_half(type)) result.type = ValueType::f16;
    auto const order = H5Tget_order(type);
    result.is_big_endian = order == H5T_ORDER_BE;
    if (result.type == ValueType::other || (order != H5T_ORDER_BE && order != H5T_ORDER_LE)) {
      result.type = ValueType::other;
      result.described = "a floating-point type that is not IEEE 16, 32 or 64 bits";
    }
    result.bytes = size_in_bytes(result.type);
    return result;
  }
  result.described = class_name(kind);
  return result;
}

std::optional<Attribute> read_attribute(hid_t object, std::string const& name) {
  if (H5Aexists(object, name.c_str()) <= 0) return {};
  AttributeId const attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), "H5Aopen"));
  return read_open_attribute(attribute.get(), name);
}

std::string attribute_trouble(hid_t object) {
  // Looks through all attributes that lie in the object's header.
  if (H5Aexists(object, "no attribute of this name") < 0) return error_text();
  // Others are looked up by name; these two may hold references of a newer version.
  for (auto const* name : {"REFERENCE_LIST", "DIMENSION_LIST"}) {
    if (H5Aexists(object, name) <= 0) continue;
    if (!AttributeId(H5Aopen(object, name, H5P_DEFAULT))) return error_text();
  }
  return {};
}

std::vector<Attribute> read_attributes(hid_t object) {
  if (auto const trouble = attribute_trouble(object); !trouble.empty()) throw Error("Hdf5Error", trouble);
  H5O_info_t info{};
  check(H5Oget_info2(object, &info, H5O_INFO_NUM_ATTRS), "H5Oget_info2");
  auto const index = tracks_attribute_order(object) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  std::vector<Attribute> attributes;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    AttributeId const attribute(
        check(H5Aopen_by_idx(object, ".", index, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT), "H5Aopen_by_idx"));
    auto const size = check(H5Aget_name(attribute.get(), 0, nullptr), "H5Aget_name");
    std::string name(std::size_t(size) + 1, '\0');
    check(H5Aget_name(attribute.get(), name.size(), name.data()), "H5Aget_name");
    name.resize(std::size_t(size));
    if (std::find(hidden_attributes.begin(), hidden_attributes.end(), name) != hidden_attributes.end()) continue;
    if (auto read = read_open_attribute(attribute.get(), std::move(name))) attributes.push_back(std::move(*read));
  }
  return attributes;
}

void write_attribute(hid_t object, Attribute const& attribute) {
  // netCDF knows no half precision.
  if (attribute.type == ValueType::f16)
    return write_attribute(object, {attribute.name, ValueType::f32, attribute.numbers()});
  auto const create = [&](hid_t type, hid_t space, void const* data) {
    AttributeId id(
        check(H5Acreate2(object, attribute.name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2"));
    if (data != nullptr) check(H5Awrite(id.get(), type, data), "H5Awrite");
    check(id.close(), "H5Aclose");
  };
  auto const text_type = [](std::string const& text, std::size_t size) {
    Type type(check(H5Tcopy(H5T_C_S1), "H5Tcopy"));
    check(H5Tset_strpad(type.get(), H5T_STR_NULLTERM), "H5Tset_strpad");
    bool const is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
    check(H5Tset_cset(type.get(), is_ascii ? H5T_CSET_ASCII : H5T_CSET_UTF8), "H5Tset_cset");
    check(H5Tset_size(type.get(), std::max<std::size_t>(size, 1)), "H5Tset_size");
    return type;
  };
  if (auto const* several = std::get_if<std::vector<std::string>>(&attribute.value)) {
    // Of equal length: HDF5 writes no strings of their own lengths in parallel. netCDF reads them as NC_STRING.
    std::size_t longest = 0;
    for (auto const& text : *several) longest = std::max(longest, text.size() + 1);
    std::string bytes(longest * several->size(), '\0');
    for (std::size_t i = 0; i < several->size(); ++i) (*several)[i].copy(bytes.data() + i * longest, longest);
    hsize_t const count = several->size();
    Space const space(check(H5Screate_simple(1, &count, nullptr), "H5Screate_simple"));
    create(text_type(bytes, longest).get(), space.get(), bytes.data());
    return;
  }
  if (attribute.type == ValueType::text) {
    auto const text = attribute.text();
    Space const space(check(H5Screate(text.empty() ? H5S_NULL : H5S_SCALAR), "H5Screate"));
    create(text_type(text, text.size()).get(), space.get(), text.empty() ? nullptr : text.data());
    return;
  }
  std::string const name = attribute.name;
  if (auto const* integers = std::get_if<std::vector<Index>>(&attribute.value)) {
    hsize_t const count = integers->size();
    Space const space(check(H5Screate_simple(1, &count, nullptr), "H5Screate_simple"));
    Type const memory(check(H5Tcopy(native_type(attribute.type)), "H5Tcopy"));
    auto values = *integers;
    // In place: HDF5 turns the 64-bit values into the attribute's own type.
    auto const from = attribute.type == ValueType::u64 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64;
    check(H5Tconvert(from, memory.get(), values.size(), values.data(), nullptr, H5P_DEFAULT), "H5Tconvert");
    create(memory.get(), space.get(), values.data());
    return;
  }
  auto values = attribute.numbers();
  hsize_t const count = values.size();
  Space const space(check(H5Screate_simple(1, &count, nullptr), "H5Screate_simple"));
  hid_t const memory = native_type(attribute.type);
  check(H5Tconvert(H5T_NATIVE_DOUBLE, memory, values.size(), values.data(), nullptr, H5P_DEFAULT), "H5Tconvert");
  create(memory, space.get(), values.data());
}

}  // namespace graticule::detail::h5
