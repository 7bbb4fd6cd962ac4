// SPDX-License-Identifier: BSD-3-Clause
#include "array.hpp"

#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace graticule::detail::zarr {

namespace {

/// Why an array cannot be read; the store's others can.
struct Refused {
  std::string text;
};

[[noreturn]] void refuse(std::string text) { throw Refused{std::move(text)}; }

std::string quoted(Json const& value) {
  return value.is_string() ? "'" + value.get<std::string>() + "'"
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// An entry of an object; null where there is none.
Json const& entry(Json const& object, char const* name) {
  static Json const nothing;
  if (!object.is_object()) return nothing;
  auto const found = object.find(name);
  return found == object.end() ? nothing : *found;
}

std::string text_of(Json const& object, char const* name, std::string const& otherwise = {}) {
  auto const& value = entry(object, name);
  if (value.is_null()) return otherwise;
  if (!value.is_string()) refuse("its metadata have the " + std::string(name) + " " + quoted(value));
  return value.get<std::string>();
}

/// Of a codec of version 3: a name alone, or an object with a name.
std::string name_of(Json const& codec) { return codec.is_string() ? codec.get<std::string>() : text_of(codec, "name"); }
Json const& configuration(Json const& codec) {
  auto const& found = entry(codec, "configuration");
  if (!found.is_null() && !found.is_object()) refuse("its metadata have the configuration " + quoted(found));
  return found;
}

std::vector<Index> numbers_of(Json const& value, std::string const& what, Index least) {
  if (!value.is_array()) throw Error(Fault::input, "BrokenFile", what + " is no list of numbers: " + quoted(value));
  std::vector<Index> numbers;
  for (auto const& one : value) {
    bool const fits =
        one.is_number_integer() &&
        (!one.is_number_unsigned() || one.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<Index>::max()));
    if (!fits || one.get<Index>() < least)
      throw Error(Fault::input, "BrokenFile", what + " has the entry " + quoted(one));
    numbers.push_back(one.get<Index>());
  }
  return numbers;
}

Index number_or(Json const& value, Index otherwise) {
  return value.is_number_integer() ? value.get<Index>() : otherwise;
}

struct NamedType {
  std::string_view version3;
  std::string_view version2;  ///< numpy's, without the byte order
  ValueType type;
};
constexpr std::array types{NamedType{"bool", "b1", ValueType::u8},     NamedType{"int8", "i1", ValueType::i8},
                           NamedType{"uint8", "u1", ValueType::u8},    NamedType{"int16", "i2", ValueType::i16},
                           NamedType{"uint16", "u2", ValueType::u16},  NamedType{"int32", "i4", ValueType::i32},
                           NamedType{"uint32", "u4", ValueType::u32},  NamedType{"int64", "i8", ValueType::i64},
                           NamedType{"uint64", "u8", ValueType::u64},  NamedType{"float16", "f2", ValueType::f16},
                           NamedType{"float32", "f4", ValueType::f32}, NamedType{"float64", "f8", ValueType::f64}};

struct NamedUnit {
  std::string_view name;
  TimeUnit unit;
};
constexpr std::array time_units{
    NamedUnit{"D", {86400, 1}}, NamedUnit{"h", {3600, 1}},     NamedUnit{"m", {60, 1}},         NamedUnit{"s", {1, 1}},
    NamedUnit{"ms", {1, 1000}}, NamedUnit{"us", {1, 1000000}}, NamedUnit{"ns", {1, 1000000000}}};

void take_type(Array& array, ValueType type) {
  array.type = type;
  array.value_bytes = array.stored_bytes = size_in_bytes(type);
}

void take_time(Array& array, bool is_date, std::string const& unit, Index number) {
  auto const found =
      std::find_if(time_units.begin(), time_units.end(), [&](auto const& one) { return one.name == unit; });
  constexpr Index most = 1000000000;
  if (found == time_units.end() || number < 1 || number > most)
    refuse("it holds times in the unit '" + unit + "'" + (number == 1 ? "" : " times " + std::to_string(number)));
  take_type(array, ValueType::i64);
  array.time = found->unit;
  array.time->seconds *= number;
  array.time->is_date = is_date;
}

void take_text(Array& array, Index bytes) {
  constexpr Index most = 65536;  // as of netCDF-4 files
  if (bytes < 1 || bytes > most) refuse("it holds texts of " + std::to_string(bytes) + " bytes");
  array.type = ValueType::text;
  array.value_bytes = array.stored_bytes = bytes;
}

/// UTF-32, of which each character is a number along one more axis.
void take_utf32(Array& array, Index characters) {
  constexpr Index most = 16384;
  if (characters < 1 || characters > most || array.extents.size() == max_ndim)
    refuse("it holds strings of " + std::to_string(characters) + " characters, along " +
           std::to_string(array.extents.size()) + " axes");
  take_type(array, ValueType::u32);
  array.strings = Strings::utf32;
  array.extents.push_back(characters);
}

/// The axis of the characters lies in one chunk.
void add_characters(Array& array) {
  if (array.strings != Strings::utf32) return;
  int const axis = array.chunk.size();
  for (auto* const extents : {&array.chunk, &array.inner}) extents->push_back(array.extents[axis]);
  if (array.order.size() > 0) array.order.push_back(axis);
}

/// `<f4`, `|u1`, `|S4`, `<M8[ns]`, `<U4`.
void take_numpy_type(Array& array, Json const& dtype) {
  if (!dtype.is_string()) refuse("it holds records of several values, not numbers");
  auto text = dtype.get<std::string>();
  if (text.empty()) refuse("its type has no name");
  array.is_big_endian = text.front() == '>';
  if (std::string_view("<>|=").find(text.front()) != std::string_view::npos) text.erase(0, 1);
  for (auto const& one : types)
    if (one.version2 == text) return take_type(array, one.type);
  if (text.size() > 1 && text.size() < 7 && text.front() == 'S' &&
      text.find_first_not_of("0123456789", 1) == std::string::npos)
    return take_text(array, std::stoll(text.substr(1)));
  if (text.size() > 1 && text.size() < 7 && text.front() == 'U' &&
      text.find_first_not_of("0123456789", 1) == std::string::npos)
    return take_utf32(array, std::stoll(text.substr(1)));
  if ((text.starts_with("M8[") || text.starts_with("m8[")) && text.ends_with(']')) {
    auto unit = text.substr(3, text.size() - 4);
    Index number = 1;
    if (auto const digits = unit.find_first_not_of("0123456789"); digits != std::string::npos && digits > 0) {
      number = digits < 10 ? std::stoll(unit.substr(0, digits)) : 0;
      unit.erase(0, digits);
    }
    return take_time(array, text.front() == 'M', unit, number);
  }
  refuse("it holds values of the type '" + dtype.get<std::string>() + "', not numbers");
}

void take_type_of_version3(Array& array, Json const& type) {
  auto const name = name_of(type);
  for (auto const& one : types)
    if (one.version3 == name) return take_type(array, one.type);
  if (name == "numpy.datetime64" || name == "numpy.timedelta64") {
    auto const& scale = entry(configuration(type), "scale_factor");
    return take_time(array, name == "numpy.datetime64", text_of(configuration(type), "unit", "generic"),
                     scale.is_null() ? 1 : number_or(scale, 0));
  }
  auto const bytes = number_or(entry(configuration(type), "length_bytes"), 0);
  if (name == "null_terminated_bytes") return take_text(array, bytes);
  if (name == "fixed_length_utf32") return take_utf32(array, bytes / 4);
  if (name == "string") {
    array.strings = Strings::variable_length;
    return;
  }
  refuse("it holds values of the type " + quoted(type.is_string() ? type : Json(name)) + ", not numbers");
}

Codec codec_of(std::string const& name, Json const& options) {
  auto const packer = [&](Codec::Kind kind, std::string shown, char const* level) {
    Codec codec{.kind = kind, .name = std::move(shown)};
    if (auto const& value = entry(options, level); value.is_number_integer()) {
      codec.name += " " + std::to_string(value.get<Index>());
      codec.level = int(std::clamp<Index>(value.get<Index>(), -(1 << 20), 1 << 20));
    }
    return codec;
  };
  if (name == "gzip") return packer(Codec::Kind::gzip, "gzip", "level");
  if (name == "zlib" || name == "numcodecs.zlib") return packer(Codec::Kind::zlib, "zlib", "level");
  if (name == "zstd") return packer(Codec::Kind::zstd, "zstd", "level");
  if (name == "blosc") {
    auto codec = packer(Codec::Kind::blosc, "blosc " + text_of(options, "cname", "?"), "clevel");
    codec.compressor = text_of(options, "cname", "lz4");
    auto const& shuffle = entry(options, "shuffle");  // a number in version 2
    codec.blosc_shuffle = shuffle == "bitshuffle" ? 2 : shuffle == "shuffle" ? 1 : 0;
    return codec;
  }
  if (name == "crc32c" || name == "numcodecs.crc32c") return {.kind = Codec::Kind::crc32c, .name = "crc32c"};
  if (name == "shuffle" || name == "numcodecs.shuffle") {
    auto const& size = entry(options, "elementsize");
    Index const bytes = size.is_null() ? 4 : number_or(size, 0);
    if (bytes < 1 || bytes > 64) refuse("its codec shuffle has elements of " + std::to_string(bytes) + " bytes");
    return {.kind = Codec::Kind::shuffle, .name = "shuffle", .element_bytes = bytes};
  }
  refuse("it is stored with the codec '" + name +
         "', which this program lacks; rewrite the store by `xarray.open_zarr(IN).drop_encoding().to_zarr(OUT)`, or "
         "read it in Python by graticule.open_shard of a Dataset of xarray");
}

/// Filters that have rounded values before they were written: nothing is to be undone.
bool only_rounds(std::string_view name, Json const& options) {
  constexpr std::string_view prefix = "numcodecs.";
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  auto const& stored = entry(options, "astype");
  return name == "bitround" || (name == "quantize" && (stored.is_null() || stored == entry(options, "dtype")));
}

bool packs(Codec const& codec) { return codec.kind != Codec::Kind::crc32c && codec.kind != Codec::Kind::shuffle; }

void require_one_size(std::vector<Codec> const& codecs) {
  if (std::count_if(codecs.begin(), codecs.end(), packs) > 1) refuse("it is compressed twice in a row");
}

void refuse_order(Json const& order, int ndim) {
  refuse("its codec transpose has the order " + quoted(order) + " for " + std::to_string(ndim) + " axes");
}

Indices order_of(Json const& order, int ndim) {
  Indices result;
  if (order == "F" || order == "C") {
    for (int i = 0; i < ndim; ++i) result.push_back(order == "F" ? ndim - 1 - i : i);
    return result;
  }
  if (!order.is_array() || int(order.size()) != ndim) refuse_order(order, ndim);
  for (auto const& one : order) {
    bool const fits = one.is_number_integer() && one >= 0 && one < ndim;
    if (!fits || std::find(result.begin(), result.end(), one.get<Index>()) != result.end()) refuse_order(order, ndim);
    result.push_back(one.get<Index>());
  }
  return result;
}

/// What `transpose` and `bytes` say, and the codecs after them.
struct Pipeline {
  Indices order;
  bool is_big_endian = false;
  std::vector<Codec> codecs;
  Json const* sharding = nullptr;
};

/// @param has_order whether a value's bytes have one
Pipeline pipeline_of(Json const& codecs, int ndim, bool has_order) {
  if (!codecs.is_array()) refuse("its metadata have no list of codecs");
  Pipeline result;
  bool has_bytes = false;
  for (auto const& codec : codecs) {
    auto const name = name_of(codec);
    if (name == "transpose") {
      if (has_bytes || result.order.size() > 0) refuse("its codec transpose comes twice, or after the codec bytes");
      result.order = order_of(entry(configuration(codec), "order"), ndim);
    } else if (name == "bytes" || name == "endian") {
      if (has_bytes) refuse("its codec bytes comes twice");
      has_bytes = true;
      auto const endian = text_of(configuration(codec), "endian", has_order ? "" : "little");
      if (endian != "little" && endian != "big") refuse("its codec bytes has no byte order");
      result.is_big_endian = endian == "big";
    } else if (name == "sharding_indexed") {
      if (codecs.size() != 1) refuse("its shards pass through other codecs, too");
      result.sharding = &codec;
      return result;
    } else if (has_bytes || !only_rounds(name, configuration(codec))) {
      if (!has_bytes) refuse("its codec '" + name + "' comes before the codec bytes");
      result.codecs.push_back(codec_of(name, configuration(codec)));
    }
  }
  if (!has_bytes) refuse("its codecs lack the codec bytes");
  require_one_size(result.codecs);
  return result;
}

template <class Value>
std::vector<std::byte> bytes_of(Value value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Of text, which has them in base64.
std::optional<std::string> fill_bytes(Json const& value) {
  return value.is_string() ? bytes_of_base64(value.get_ref<std::string const&>()) : std::nullopt;
}

std::vector<std::byte> fill_of(Array const& array, Json const& value) {
  if (value.is_null()) return std::vector<std::byte>(std::size_t(array.value_bytes), std::byte{0});
  if (array.time) {
    bool const is_number = value.is_number_integer();
    return bytes_of(is_number ? value.get<std::int64_t>() : std::numeric_limits<std::int64_t>::min());
  }
  if (array.type == ValueType::text) {
    auto const text = fill_bytes(value).value_or("");
    std::vector<std::byte> bytes(std::size_t(array.value_bytes), std::byte{0});
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
    return bytes;
  }
  // 0x7fc00001: the bits themselves.
  if (value.is_string() && value.get_ref<std::string const&>().starts_with("0x")) {
    auto const& text = value.get_ref<std::string const&>();
    std::uint64_t const bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    auto bytes = bytes_of(bits);
    if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
    bytes.resize(std::size_t(array.value_bytes));
    if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  }
  auto const number = number_of(value);
  if (!number) refuse("its fill value is " + quoted(value) + ", which is no number");
  auto const integer = [&](auto sample) {
    using Integer = decltype(sample);
    auto const fitting = [&](auto held) {
      if (!std::in_range<Integer>(held))
        refuse("its fill value is " + quoted(value) + ", which its type does not hold");
      return bytes_of(Integer(held));
    };
    if (value.is_number_unsigned()) return fitting(value.get<std::uint64_t>());
    if (value.is_number_integer()) return fitting(value.get<std::int64_t>());
    bool const is_whole = *number == std::trunc(*number) && std::abs(*number) < 9e18;
    if (!is_whole) refuse("its fill value is " + quoted(value) + ", which its type does not hold");
    return fitting(std::int64_t(*number));
  };
  switch (array.type) {
    case ValueType::i8: return integer(std::int8_t{});
    case ValueType::u8: return integer(std::uint8_t{});
    case ValueType::i16: return integer(std::int16_t{});
    case ValueType::u16: return integer(std::uint16_t{});
    case ValueType::i32: return integer(std::int32_t{});
    case ValueType::u32: return integer(std::uint32_t{});
    case ValueType::i64: return integer(std::int64_t{});
    case ValueType::u64: return integer(std::uint64_t{});
    case ValueType::f16: return bytes_of(half_bits(*number));
    case ValueType::f32: return bytes_of(float(*number));
    case ValueType::f64: return bytes_of(*number);
    case ValueType::text:
    case ValueType::other: break;
  }
  refuse("it holds no numbers");
}

/// What `fill_value` of version 2 and `_FillValue` of version 3 mean to readers of the CF conventions.
void set_missing(Variable& variable, ValueType type, Json const& value) {
  std::erase_if(variable.attributes, [](Attribute const& one) { return one.name == "_FillValue"; });
  if (type == ValueType::text) {
    if (auto const text = fill_bytes(value); text && !text->empty())
      variable.attributes.push_back(Attribute::of_text("_FillValue", *text));
    return;
  }
  auto const number = number_of(value);
  if (!number) return;
  if (value.is_number_integer())
    variable.attributes.push_back(attribute_of("_FillValue", value));
  else
    variable.attributes.push_back(Attribute::of_number("_FillValue", *number));
}

void replace_attribute(Variable& variable, Attribute attribute) {
  std::erase_if(variable.attributes, [&](Attribute const& one) { return one.name == attribute.name; });
  variable.attributes.push_back(std::move(attribute));
}

void add_time(Variable& variable, TimeUnit const& unit) {
  replace_attribute(variable,
                    Attribute::of_text("units", unit.is_date ? "seconds since 1970-01-01 00:00:00" : "seconds"));
  if (unit.is_date) replace_attribute(variable, Attribute::of_text("calendar", "proleptic_gregorian"));
  Attribute missing;
  missing.name = "_FillValue";
  missing.type = ValueType::i64;
  missing.value = std::vector<Index>{std::numeric_limits<Index>::min()};
  replace_attribute(variable, std::move(missing));
}

void take_attributes(Variable& variable, Json const& attributes) {
  if (!attributes.is_object()) return;
  for (auto const& [name, value] : attributes.items())
    if (name != "_ARRAY_DIMENSIONS") variable.attributes.push_back(attribute_of(name, value));
}

void take_dimensions(Variable& variable, Json const& names) {
  variable.dimensions.assign(std::size_t(variable.ndim()), "");
  if (!names.is_array() || names.size() != variable.dimensions.size()) return;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].is_string()) variable.dimensions[i] = names[i].get<std::string>();
}

void take_fill_text(Array& array, Json const& fill) {
  if (fill.is_string()) array.fill_text = fill.get<std::string>();
}

void take_version2(Described& described, Json const& metadata) {
  auto& array = described.array;
  int const ndim = array.extents.size();
  auto const& filters = entry(metadata, "filters");
  if (!filters.is_null() && !filters.is_array()) refuse("its filters are " + quoted(filters));
  take_fill_text(array, entry(metadata, "fill_value"));
  if (bool const is_object = entry(metadata, "dtype") == "|O";
      is_object && filters.is_array() && filters.size() == 1 && text_of(filters.front(), "id") == "vlen-utf8")
    array.strings = Strings::variable_length;
  else
    take_numpy_type(array, entry(metadata, "dtype"));
  array.chunk = array.inner = Indices(std::span<Index const>(numbers_of(entry(metadata, "chunks"), "chunks", 1)));
  auto const& order = entry(metadata, "order");
  if (ndim > 1 && order != "C" && order != "F") refuse("the order of its cells is " + quoted(order) + ", not C or F");
  if (order == "F") array.order = order_of(order, ndim);
  auto const separator = text_of(metadata, "dimension_separator", ".");
  if (separator != "." && separator != "/") refuse("the numbers in its keys are separated by '" + separator + "'");
  array.separator = separator.front();
  if (filters.is_array() && array.strings != Strings::variable_length)
    for (auto const& filter : filters) {
      auto const id = text_of(filter, "id");
      if (only_rounds(id, filter)) continue;
      if (id != "fixedscaleoffset") {
        array.codecs.push_back(codec_of(id, filter));
        continue;
      }
      if (array.scale || !array.codecs.empty()) refuse("its filters come in an order that this program lacks");
      Array stored;
      take_numpy_type(stored, entry(filter, "astype").is_null() ? entry(filter, "dtype") : entry(filter, "astype"));
      auto const scale = number_of(entry(filter, "scale"));
      auto const offset = number_of(entry(filter, "offset"));
      bool const is_float = array.type == ValueType::f32 || array.type == ValueType::f64;
      Array plain;  // numcodecs takes the values for ones of this type
      take_numpy_type(plain, entry(filter, "dtype"));
      bool const is_same = plain.type == array.type && plain.is_big_endian == array.is_big_endian;
      bool const is_number = !stored.time && stored.strings == Strings::none && stored.type != ValueType::f16;
      if (!scale || !offset || *scale == 0 || !is_number || !is_float || !is_same)
        refuse("its filter fixedscaleoffset has options that this program lacks");
      array.scale = FixedScale{*scale, *offset, stored.type};
      array.stored_bytes = stored.value_bytes;
      array.is_big_endian = stored.is_big_endian;
    }
  auto const& compressor = entry(metadata, "compressor");
  if (!compressor.is_null()) array.codecs.push_back(codec_of(text_of(compressor, "id"), compressor));
  require_one_size(array.codecs);
  if (array.strings == Strings::variable_length && array.order.size() > 1) refuse("its strings have the order F");
  if (array.strings != Strings::none) return;
  auto const& fill = entry(metadata, "fill_value");
  array.fill = fill_of(array, fill);
  // To xarray the fill value of version 2 is `_FillValue`.
  if (!fill.is_null()) set_missing(described.variable, array.type, fill);
}

bool has_order(Array const& array) { return array.value_bytes > 1 && array.type != ValueType::text; }

void take_codecs_of_strings(Array& array, Json const& codecs) {
  bool const is_known = codecs.is_array() && !codecs.empty() && name_of(codecs.front()) == "vlen-utf8";
  if (!is_known) refuse("it holds strings by other codecs than vlen-utf8");
  for (std::size_t i = 1; i < codecs.size(); ++i)
    array.codecs.push_back(codec_of(name_of(codecs[i]), configuration(codecs[i])));
  require_one_size(array.codecs);
}

void take_shards(Array& array, Json const& sharding) {
  auto const& options = configuration(sharding);
  int const ndim = array.chunk.size();
  array.is_sharded = true;
  array.inner = Indices(std::span<Index const>(numbers_of(entry(options, "chunk_shape"), "chunk_shape", 1)));
  if (array.inner.size() != ndim) refuse("the chunks in its shards have another number of axes");
  for (int axis = 0; axis < ndim; ++axis)
    if (array.chunk[axis] % array.inner[axis] != 0) refuse("the chunks in its shards do not divide them");
  auto const place = text_of(options, "index_location", "end");
  if (place != "end" && place != "start") refuse("the index of its shards lies at '" + place + "'");
  array.index_at_start = place == "start";
  auto const index = pipeline_of(entry(options, "index_codecs"), 1, true);
  bool const has_one_size = std::all_of(index.codecs.begin(), index.codecs.end(),
                                        [](Codec const& one) { return one.kind == Codec::Kind::crc32c; });
  if (index.sharding != nullptr || index.order.size() > 0 || !has_one_size)
    refuse("the index of its shards passes through codecs that this program lacks");
  array.index_codecs = index.codecs;
  array.is_index_big_endian = index.is_big_endian;
  if (array.strings == Strings::variable_length) return take_codecs_of_strings(array, entry(options, "codecs"));
  auto chunks = pipeline_of(entry(options, "codecs"), ndim, has_order(array));
  if (chunks.sharding != nullptr) refuse("its shards hold shards");
  array.order = chunks.order;
  array.is_big_endian = chunks.is_big_endian;
  array.codecs = std::move(chunks.codecs);
}

/// An entry that is not of the format may change the meaning of the others, unless it says that it does not.
void refuse_unknown_entries(Json const& metadata) {
  constexpr std::array<std::string_view, 11> known{
      "zarr_format", "node_type",  "shape",      "data_type",       "chunk_grid",          "chunk_key_encoding",
      "codecs",      "fill_value", "attributes", "dimension_names", "storage_transformers"};
  for (auto const& [name, value] : metadata.items())
    if (std::find(known.begin(), known.end(), name) == known.end() && entry(value, "must_understand") != false)
      refuse("its metadata have the entry '" + name + "', which this program does not know");
}

void take_version3(Described& described, Json const& metadata) {
  auto& array = described.array;
  int const ndim = array.extents.size();
  refuse_unknown_entries(metadata);
  take_fill_text(array, entry(metadata, "fill_value"));
  take_type_of_version3(array, entry(metadata, "data_type"));
  auto const& grid = entry(metadata, "chunk_grid");
  if (name_of(grid) != "regular") refuse("its chunks form a grid of the kind '" + name_of(grid) + "'");
  array.chunk = array.inner =
      Indices(std::span<Index const>(numbers_of(entry(configuration(grid), "chunk_shape"), "chunk_shape", 1)));
  auto const& keys = entry(metadata, "chunk_key_encoding");
  array.has_default_keys = name_of(keys) == "default";
  if (!array.has_default_keys && name_of(keys) != "v2") refuse("its keys are of the kind '" + name_of(keys) + "'");
  auto const separator = text_of(configuration(keys), "separator", array.has_default_keys ? "/" : ".");
  if (separator != "." && separator != "/") refuse("the numbers in its keys are separated by '" + separator + "'");
  array.separator = separator.front();
  auto const& transformers = entry(metadata, "storage_transformers");
  if (!transformers.is_null() && transformers != Json::array())
    refuse("it needs storage transformers, which this program lacks");
  if (array.strings == Strings::variable_length) {
    auto const& codecs = entry(metadata, "codecs");
    bool const is_sharded = codecs.is_array() && codecs.size() == 1 && name_of(codecs.front()) == "sharding_indexed";
    if (is_sharded) return take_shards(array, codecs.front());
    return take_codecs_of_strings(array, codecs);
  }
  auto pipeline = pipeline_of(entry(metadata, "codecs"), ndim, has_order(array));
  if (pipeline.sharding != nullptr) {
    take_shards(array, *pipeline.sharding);
  } else {
    array.order = pipeline.order;
    array.is_big_endian = pipeline.is_big_endian;
    array.codecs = std::move(pipeline.codecs);
  }
  if (array.strings != Strings::none) return;
  array.fill = fill_of(array, entry(metadata, "fill_value"));
  for (auto& attribute : described.variable.attributes) {
    bool const is_float = array.type == ValueType::f16 || array.type == ValueType::f32 || array.type == ValueType::f64;
    if (attribute.name != "_FillValue" || attribute.type != ValueType::text || !is_float) continue;
    // xarray writes the eight bytes of a double.
    auto number = number_of_base64(attribute.text());
    if (!number) number = number_of(Json(attribute.text()));
    if (number) attribute = Attribute::of_number("_FillValue", *number);
  }
}

void require_size(Array const& array) {
  for (auto const* extents : {&array.extents, &array.chunk}) {
    Index bytes = std::max(array.value_bytes, array.stored_bytes);
    for (Index const extent : *extents)
      if (__builtin_mul_overflow(bytes, std::max<Index>(extent, 1), &bytes))
        refuse("its extents multiply to more than 2^63 bytes");
  }
  Index bytes = std::max(array.value_bytes, array.stored_bytes);
  for (Index const extent : array.inner)
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes >= Index(1) << 31U)
      refuse("its chunks have more than 2 GiB");
}

}  // namespace

std::string Array::key(Indices const& number) const {
  std::string text = has_default_keys ? "c" : "";
  int const ndim = number.size() - (strings == Strings::utf32 ? 1 : 0);  // the characters have none
  for (int axis = 0; axis < ndim; ++axis) {
    if (!text.empty()) text += separator;
    text += std::to_string(number[axis]);
  }
  return text.empty() ? "0" : text;
}

Json name_of_type(ValueType type, Index text_bytes) {
  if (type == ValueType::text)
    return {{"name", "null_terminated_bytes"}, {"configuration", {{"length_bytes", text_bytes}}}};
  for (auto const& one : types)
    if (one.type == type && one.version3 != "bool") return std::string(one.version3);
  throw Error("WrongType", "Zarr stores have no variables of type " + std::string(to_string(type)));
}

Described describe(std::string const& name, Json const& metadata, Json const& attributes) {
  Described described;
  auto& [variable, array] = described;
  variable.name = name;
  auto const format = entry(metadata, "zarr_format");
  bool const is_version2 = format == 2;
  if (!is_version2 && format != 3)
    throw Error(Fault::input, "UnsupportedFile",
                "array " + name + " is of Zarr's format " + quoted(format) + "; 2 and 3 can be read");
  auto const shape = numbers_of(entry(metadata, "shape"), "the shape of array " + name, 0);
  if (shape.size() > std::size_t(max_ndim)) {
    variable.refusal =
        "it has " + std::to_string(shape.size()) + " axes, at most " + std::to_string(max_ndim) + " can be read";
    return described;
  }
  array.extents = variable.extents = variable.stored_extents = Indices(std::span<Index const>(shape));
  auto const& held = is_version2 ? attributes : entry(metadata, "attributes");
  take_attributes(variable, held);
  auto const& names = entry(metadata, "dimension_names").is_array() ? entry(metadata, "dimension_names")
                                                                    : entry(held, "_ARRAY_DIMENSIONS");
  take_dimensions(variable, names);
  try {
    if (names.is_array() && names.size() != shape.size())
      refuse("it has " + std::to_string(names.size()) + " names for its " + std::to_string(shape.size()) + " axes");
    if (!metadata.contains("fill_value")) refuse("its metadata lack the fill value");
    if (is_version2)
      take_version2(described, metadata);
    else
      take_version3(described, metadata);
    if (array.chunk.size() != variable.ndim()) refuse("its chunks have another number of axes than it has itself");
    add_characters(array);
    require_size(array);
    if (array.strings != Strings::none) {
      variable.is_strings = true;
      refuse("it holds strings, not numbers");
    }
    if (array.time) add_time(variable, *array.time);
    variable.type = array.type;
    variable.value_bytes = array.value_bytes;
    variable.chunk = array.inner;
    for (auto const& codec : array.codecs) variable.filters.push_back({0, codec.name, {}, true});
  } catch (Refused const& refused) {
    variable.refusal = refused.text;
    variable.value_bytes = 0;
  } catch (Error const& error) {
    variable.refusal = error.text();
    variable.refusal_rule = error.rule();
    variable.value_bytes = 0;
  }
  return described;
}

}  // namespace graticule::detail::zarr
