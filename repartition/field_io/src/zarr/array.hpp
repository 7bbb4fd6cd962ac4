// SPDX-License-Identifier: BSD-3-Clause
// How an array of a store is laid out, from its metadata: versions 2 and 3 of the format.
// Sources: the Zarr v2 and v3 core specifications and the sharding codec (ZEP 2), zarr-specs.readthedocs.io.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "json.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::detail::zarr {

/// In the index of a shard: offset and bytes of an inner chunk that it does not hold.
constexpr std::uint64_t absent = ~std::uint64_t(0);

/// One step between the bytes of a chunk and those in the store.
struct Codec {
  enum class Kind : std::uint8_t { gzip, zlib, zstd, blosc, crc32c, shuffle };
  Kind kind = Kind::gzip;
  std::string name;             ///< as `graticule-info` shows it
  Index element_bytes = 1;      ///< of `shuffle`
  int level = 5;                ///< of compressors, to write
  std::string compressor = {};  ///< within blosc, to write
  int blosc_shuffle = 0;        ///< blosc's number of it, to write
};

/// Stored numbers are `(value - offset) * scale`, rounded: numcodecs' fixedscaleoffset.
struct FixedScale {
  double scale = 1;
  double offset = 0;
  ValueType stored = ValueType::f64;
};

/// Times as numpy stores them.
struct TimeUnit {
  Index seconds = 1;    ///< that one unit lasts,
  Index fraction = 1;   ///< divided by this
  bool is_date = true;  ///< since 1970; else a length of time
};

/// How an array holds strings, which are no numbers.
enum class Strings : std::uint8_t {
  none,
  utf32,           ///< numbers of 4 bytes along one more axis, the last
  variable_length  ///< a chunk has the number of its strings, then the bytes of each and it itself, in UTF-8
};

struct Array {
  Indices extents;
  Indices chunk;  ///< of one key: a shard where there are inner chunks
  Indices inner;  ///< what is decoded at once; `chunk` without shards
  bool is_sharded = false;
  bool index_at_start = false;
  std::vector<Codec> index_codecs;
  bool is_index_big_endian = false;

  ValueType type = ValueType::other;  ///< of the values, as they are read
  Index value_bytes = 0;
  Index stored_bytes = 0;  ///< of a value in a chunk
  bool is_big_endian = false;
  Indices order;  ///< axis `i` of a chunk in the store is axis `order[i]`; empty: as they are
  std::optional<FixedScale> scale;
  std::optional<TimeUnit> time;
  std::vector<Codec> codecs;    ///< in the order in which a chunk was written
  std::vector<std::byte> fill;  ///< a value of cells whose chunk is absent, in this machine's byte order

  Strings strings = Strings::none;
  std::string fill_text;  ///< of strings whose chunk is absent

  bool has_default_keys = false;  ///< `c/0/1` instead of `0.1`
  char separator = '.';

  /// Key of a chunk, by its numbers along each axis.
  [[nodiscard]] std::string key(Indices const& number) const;
};

/// An array and the variable that it is.
struct Described {
  Variable variable;  ///< with a `refusal` where it cannot be read as numbers
  Array array;        ///< meaningful without a refusal, and for strings, `Variable::is_strings`
};

/// A type of values as version 3 names it. @throws `WrongType` for types that no array is written with
[[nodiscard]] Json name_of_type(ValueType type, Index text_bytes);

/// @param name with its groups @param metadata of the array (`.zarray` or `zarr.json`) @param attributes `.zattrs` of
/// version 2; null for version 3, which has them within
/// @throws `BrokenFile` (input) where not even the shape can be read
[[nodiscard]] Described describe(std::string const& name, Json const& metadata, Json const& attributes);

}  // namespace graticule::detail::zarr
