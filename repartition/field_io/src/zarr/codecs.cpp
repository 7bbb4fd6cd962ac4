// SPDX-License-Identifier: BSD-3-Clause
#include "codecs.hpp"

#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/values.hpp"

#ifdef GRATICULE_HAS_BLOSC
#include <blosc.h>
#endif
#ifdef GRATICULE_HAS_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace graticule::detail::zarr {

namespace {

[[noreturn]] void damaged(std::string const& what) {
  throw Error(Fault::input, "BrokenFile", "a chunk is damaged: " + what);
}

[[noreturn]] [[maybe_unused]] void lacking(std::string const& codec, std::string const& package) {
  throw Error(
      Fault::input, "UnreadableVariable",
      "it is stored with the codec '" + codec + "', which this program was built without (Debian: " + package + ")");
}

std::string of_bytes(std::size_t found, std::size_t count) {
  return std::to_string(found) + " bytes instead of " + std::to_string(count);
}

constexpr std::size_t crc_bytes = 4;
constexpr std::uint32_t crc_polynomial = 0x82f63b78;  // reversed

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? crc_polynomial : 0U);
    table[i] = value;
  }
  return table;
}();

std::uint32_t crc32c_by_table(std::span<std::byte const> bytes, std::uint32_t sum) noexcept {
  for (auto const one : bytes) sum = (sum >> 8U) ^ crc_table[(sum ^ std::to_integer<std::uint32_t>(one)) & 0xffU];
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_processor(std::span<std::byte const> bytes,
                                                                    std::uint32_t sum) noexcept {
  std::uint64_t wide = sum;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    wide = __builtin_ia32_crc32di(wide, word);
    bytes = bytes.subspan(8);
  }
  return crc32c_by_table(bytes, std::uint32_t(wide));
}
#endif

Bytes inflated(Wrapping wrapping, Bytes const& packed, std::size_t count) {
  // Deflate makes nothing more than 1,032 times smaller.
  if (count / 1032 > packed.size()) damaged(of_bytes(packed.size(), count) + " when inflated");
  Bytes bytes(count);
  auto const result = inflate_into(wrapping, packed, bytes);
  if (!result.is_whole || result.written != count) damaged("it inflates to " + of_bytes(result.written, count));
  return bytes;
}

#ifdef GRATICULE_HAS_ZSTD
struct ZstdMemory {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ZstdMemory() = default;
  ZstdMemory(ZstdMemory const&) = delete;
  ZstdMemory& operator=(ZstdMemory const&) = delete;
  ~ZstdMemory() { ZSTD_freeDCtx(context); }
};

Bytes from_zstd(Bytes const& packed, std::size_t count) {
  auto const said = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (said == ZSTD_CONTENTSIZE_ERROR) damaged("it is no frame of zstd");
  if (said != ZSTD_CONTENTSIZE_UNKNOWN && said > count) damaged("zstd has " + of_bytes(said, count));
  static thread_local ZstdMemory memory;
  Bytes bytes(count);
  auto const written = ZSTD_decompressDCtx(memory.context, bytes.data(), count, packed.data(), packed.size());
  if (ZSTD_isError(written) != 0) damaged(std::string("zstd: ") + ZSTD_getErrorName(written));
  if (written != count) damaged("zstd gives " + of_bytes(written, count));
  return bytes;
}
#else
Bytes from_zstd(Bytes const&, std::size_t) { lacking("zstd", "libzstd-dev"); }
#endif

#ifdef GRATICULE_HAS_BLOSC
void require_blosc(Bytes const& packed, std::size_t count) {
  std::size_t said = 0;
  bool const is_whole =
      packed.size() >= BLOSC_MIN_HEADER_LENGTH && blosc_cbuffer_validate(packed.data(), packed.size(), &said) == 0;
  if (!is_whole) damaged("it is no whole buffer of blosc");
  if (said != count) damaged("blosc has " + of_bytes(said, count));
}

Bytes from_blosc(Bytes const& packed, std::size_t count) {
  require_blosc(packed, count);
  Bytes bytes(count);
  int const written = blosc_decompress_ctx(packed.data(), bytes.data(), count, 1);
  if (written < 0 || std::size_t(written) != count)
    damaged("blosc gives " + of_bytes(std::size_t(std::max(written, 0)), count));
  return bytes;
}
#else
Bytes from_blosc(Bytes const&, std::size_t) { lacking("blosc", "libblosc-dev"); }
#endif

Bytes without_checksum(Bytes const& bytes) {
  if (bytes.size() < crc_bytes) damaged("it is shorter than its checksum");
  auto const length = bytes.size() - crc_bytes;
  std::uint32_t stored = 0;
  for (std::size_t i = 0; i < crc_bytes; ++i)
    stored |= std::to_integer<std::uint32_t>(bytes.data()[length + i]) << (8U * unsigned(i));
  if (stored != crc32c(bytes.span().first(length))) damaged("it does not have its checksum");
  Bytes result(length);
  std::copy_n(bytes.data(), length, result.data());
  return result;
}

template <class Stored, class Value>
void unscale(Bytes const& from, FixedScale const& scale, Bytes& to) {
  auto const count = from.size() / sizeof(Stored);
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored{};
    std::memcpy(&stored, from.data() + i * sizeof stored, sizeof stored);
    // As numpy computes it: f32 stays f32.
    using Number = std::conditional_t<std::is_same_v<Stored, float>, float, double>;
    auto const value = Value(Number(stored) / Number(scale.scale) + Number(scale.offset));
    std::memcpy(to.data() + i * sizeof value, &value, sizeof value);
  }
}

template <class Stored>
Bytes unscaled(Array const& array, Bytes const& from) {
  Bytes to(from.size() / sizeof(Stored) * std::size_t(array.value_bytes));
  if (array.type == ValueType::f32)
    unscale<Stored, float>(from, *array.scale, to);
  else
    unscale<Stored, double>(from, *array.scale, to);
  return to;
}

Bytes unscaled(Array const& array, Bytes const& from) {
  switch (array.scale->stored) {
    case ValueType::i8: return unscaled<std::int8_t>(array, from);
    case ValueType::u8: return unscaled<std::uint8_t>(array, from);
    case ValueType::i16: return unscaled<std::int16_t>(array, from);
    case ValueType::u16: return unscaled<std::uint16_t>(array, from);
    case ValueType::i32: return unscaled<std::int32_t>(array, from);
    case ValueType::u32: return unscaled<std::uint32_t>(array, from);
    case ValueType::i64: return unscaled<std::int64_t>(array, from);
    case ValueType::u64: return unscaled<std::uint64_t>(array, from);
    case ValueType::f32: return unscaled<float>(array, from);
    case ValueType::f64: return unscaled<double>(array, from);
    case ValueType::f16:
    case ValueType::text:
    case ValueType::other: break;
  }
  throw Error("WrongType", "values of this type cannot be scaled");
}

void to_seconds(TimeUnit const& unit, Bytes& bytes) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(std::int64_t); ++i) {
    std::int64_t time = 0;
    auto* const at = bytes.data() + i * sizeof time;
    std::memcpy(&time, at, sizeof time);
    if (time == std::numeric_limits<std::int64_t>::min()) continue;  // numpy's NaT
    if (__builtin_mul_overflow(time, unit.seconds, &time) || time % unit.fraction != 0)
      throw Error(Fault::input, "UnreadableVariable", "it holds times between two seconds, or after all dates");
    time /= unit.fraction;
    std::memcpy(at, &time, sizeof time);
  }
}

/// Axis `i` of `from` is axis `array.order[i]` of the result.
Bytes transposed(Array const& array, Bytes const& from) {
  int const ndim = array.inner.size();
  auto const size = std::size_t(array.value_bytes);
  Bytes to(from.size());
  Indices strides = array.inner;  // of the result, in values
  Index stride = 1;
  for (int axis = ndim; axis-- > 0;) {
    strides[axis] = stride;
    stride *= array.inner[axis];
  }
  Indices at = Indices::filled(ndim, 0);
  Index place = 0;
  for (std::size_t i = 0; i < from.size() / size; ++i) {
    std::memcpy(to.data() + std::size_t(place) * size, from.data() + i * size, size);
    for (int k = ndim; k-- > 0;) {
      auto const axis = int(array.order[k]);
      place += strides[axis];
      if (++at[k] < array.inner[axis]) break;
      place -= strides[axis] * array.inner[axis];
      at[k] = 0;
    }
  }
  return to;
}

bool is_other_order(Array const& array) {
  bool const is_number = array.type != ValueType::text && array.stored_bytes > 1;
  return is_number && array.is_big_endian != (std::endian::native == std::endian::big);
}

}  // namespace

std::uint32_t crc32c(std::span<std::byte const> bytes) noexcept {
  std::uint32_t const start = 0xffffffffU;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~crc32c_by_processor(bytes, start);
#endif
  return ~crc32c_by_table(bytes, start);
}

Index encoded_bytes(std::vector<Codec> const& codecs, Index count) {
  for (auto const& codec : codecs)
    if (codec.kind == Codec::Kind::crc32c) count += Index(crc_bytes);
  return count;
}

Bytes decoded(std::vector<Codec> const& codecs, Bytes stored, Index count) {
  for (std::size_t i = codecs.size(); i-- > 0;) {
    // What this codec got: the values and the checksums before it.
    auto const before = std::size_t(encoded_bytes({codecs.begin(), codecs.begin() + std::ptrdiff_t(i)}, count));
    switch (codecs[i].kind) {
      case Codec::Kind::gzip: stored = inflated(Wrapping::gzip, stored, before); break;
      case Codec::Kind::zlib: stored = inflated(Wrapping::zlib, stored, before); break;
      case Codec::Kind::zstd: stored = from_zstd(stored, before); break;
      case Codec::Kind::blosc: stored = from_blosc(stored, before); break;
      case Codec::Kind::crc32c: stored = without_checksum(stored); break;
      case Codec::Kind::shuffle: stored = unshuffled(std::move(stored), std::size_t(codecs[i].element_bytes)); break;
    }
  }
  if (stored.size() != std::size_t(count)) damaged("it has " + of_bytes(stored.size(), std::size_t(count)));
  return stored;
}

namespace {

/// The bytes that a codec got, of whatever number.
Bytes undone(Codec const& codec, Bytes stored, [[maybe_unused]] std::size_t most) {
  auto const fits = [most](std::size_t count) {
    if (count > most) damaged("it has more than " + std::to_string(most) + " bytes");
    return count;
  };
  switch (codec.kind) {
    case Codec::Kind::gzip:
    case Codec::Kind::zlib: {
      Bytes bytes(std::min(most, 1032 * stored.size() + 64));
      auto const result =
          inflate_into(codec.kind == Codec::Kind::gzip ? Wrapping::gzip : Wrapping::zlib, stored, bytes);
      if (!result.is_whole) damaged("it does not inflate to at most " + std::to_string(bytes.size()) + " bytes");
      bytes.shorten(result.written);
      return bytes;
    }
    case Codec::Kind::zstd: {
#ifdef GRATICULE_HAS_ZSTD
      auto const said = ZSTD_getFrameContentSize(stored.data(), stored.size());
      if (said == ZSTD_CONTENTSIZE_UNKNOWN) damaged("zstd does not say how many bytes it has");
      return from_zstd(stored, said == ZSTD_CONTENTSIZE_ERROR ? most : fits(said));
#else
      return from_zstd(stored, most);
#endif
    }
    case Codec::Kind::blosc: {
      std::size_t said = 0;
#ifdef GRATICULE_HAS_BLOSC
      if (stored.size() >= BLOSC_MIN_HEADER_LENGTH)
        static_cast<void>(blosc_cbuffer_validate(stored.data(), stored.size(), &said));
#endif
      return from_blosc(stored, fits(said));
    }
    case Codec::Kind::crc32c: return without_checksum(stored);
    case Codec::Kind::shuffle: return unshuffled(std::move(stored), std::size_t(codec.element_bytes));
  }
  return stored;
}

}  // namespace

Bytes decoded_up_to(std::vector<Codec> const& codecs, Bytes stored, Index most) {
  for (std::size_t i = codecs.size(); i-- > 0;)
    stored = undone(codecs[i], std::move(stored), std::size_t(encoded_bytes(codecs, most)));
  return stored;
}

namespace {

[[noreturn]] [[maybe_unused]] void cannot_write(std::string const& codec, std::string const& package) {
  throw Error(Fault::usage, "BadOption",
              "this program was built without the codec '" + codec + "' (Debian: " + package +
                  "); choose another one, such as gzip");
}

#ifdef GRATICULE_HAS_ZSTD
Bytes to_zstd(Codec const& codec, Bytes const& plain) {
  Bytes packed(ZSTD_compressBound(plain.size()));
  auto const size = ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), codec.level);
  if (ZSTD_isError(size) != 0)
    throw Error("OutOfMemory", std::string("zstd cannot compress: ") + ZSTD_getErrorName(size));
  packed.shorten(size);
  return packed;
}
#else
Bytes to_zstd(Codec const&, Bytes const&) { cannot_write("zstd", "libzstd-dev"); }
#endif

#ifdef GRATICULE_HAS_BLOSC
Bytes to_blosc(Codec const& codec, Bytes const& plain, Index value_bytes) {
  if (plain.size() > BLOSC_MAX_BUFFERSIZE)
    throw Error("BadOption", "blosc has no chunks of more than 2 GiB; choose smaller ones");
  Bytes packed(plain.size() + BLOSC_MAX_OVERHEAD);
  // blosc's largest type.
  auto const size = std::size_t(value_bytes > BLOSC_MAX_TYPESIZE ? 1 : value_bytes);
  int const written = blosc_compress_ctx(codec.level, codec.blosc_shuffle, size, plain.size(), plain.data(),
                                         packed.data(), packed.size(), codec.compressor.c_str(), 0, 1);
  if (written <= 0)
    throw Error("BadOption",
                "blosc cannot compress by '" + codec.compressor + "' at level " + std::to_string(codec.level));
  packed.shorten(std::size_t(written));
  return packed;
}
constexpr std::string_view usual_codec = "blosc-zstd:3";
#else
Bytes to_blosc(Codec const&, Bytes const&, Index) { cannot_write("blosc", "libblosc-dev"); }
#ifdef GRATICULE_HAS_ZSTD
constexpr std::string_view usual_codec = "zstd:3";
#else
constexpr std::string_view usual_codec = "gzip:5";
#endif
#endif

Bytes with_checksum(Bytes const& bytes) {
  Bytes result(bytes.size() + crc_bytes);
  std::copy_n(bytes.data(), bytes.size(), result.data());
  auto const sum = crc32c(bytes.span());
  for (std::size_t i = 0; i < crc_bytes; ++i) result.data()[bytes.size() + i] = std::byte(sum >> (8U * unsigned(i)));
  return result;
}

/// `zstd:3`, and what there is.
struct NamedPacker {
  std::string_view name;
  int least;
  int most;
  int usual;
};
constexpr std::array packers{NamedPacker{"gzip", 0, 9, 5},         NamedPacker{"zstd", 1, 22, 3},
                             NamedPacker{"blosc-zstd", 1, 9, 3},   NamedPacker{"blosc-lz4", 1, 9, 5},
                             NamedPacker{"blosc-lz4hc", 1, 9, 5},  NamedPacker{"blosc-zlib", 1, 9, 5},
                             NamedPacker{"blosc-blosclz", 1, 9, 5}};

void require_built_with(std::string_view packer) {
#ifndef GRATICULE_HAS_ZSTD
  if (packer == "zstd") cannot_write("zstd", "libzstd-dev");
#endif
#ifndef GRATICULE_HAS_BLOSC
  if (packer.starts_with("blosc")) cannot_write("blosc", "libblosc-dev");
#endif
  static_cast<void>(packer);
}

}  // namespace

Bytes encoded(std::vector<Codec> const& codecs, Bytes plain, Index value_bytes) {
  for (auto const& codec : codecs) switch (codec.kind) {
      case Codec::Kind::gzip: plain = deflated(Wrapping::gzip, plain, codec.level); break;
      case Codec::Kind::zlib: plain = deflated(Wrapping::zlib, plain, codec.level); break;
      case Codec::Kind::zstd: plain = to_zstd(codec, plain); break;
      case Codec::Kind::blosc: plain = to_blosc(codec, plain, value_bytes); break;
      case Codec::Kind::crc32c: plain = with_checksum(plain); break;
      case Codec::Kind::shuffle: plain = shuffled(plain, std::size_t(codec.element_bytes)); break;
    }
  return plain;
}

Json codecs_of(std::string const& choice, Index value_bytes) {
  auto const& text = choice.empty() ? std::string(usual_codec) : choice;
  auto codecs = Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}});
  if (text == "none") return codecs;
  auto const colon = text.find(':');
  auto const name = text.substr(0, colon);
  auto const* const found =
      std::find_if(packers.begin(), packers.end(), [&](NamedPacker const& one) { return one.name == name; });
  auto const refuse = [&](std::string const& expected) {
    throw Error(Fault::usage, "BadOption", "the codec '" + text + "' is not " + expected);
  };
  if (found == packers.end())
    refuse(
        "none, gzip, zstd, blosc-zstd, blosc-lz4, blosc-lz4hc, blosc-zlib or blosc-blosclz, with or without a "
        "level (zstd:3)");
  int level = found->usual;
  if (colon != std::string::npos) {
    auto const digits = text.substr(colon + 1);
    bool const is_number =
        !digits.empty() && digits.size() < 4 && digits.find_first_not_of("0123456789") == std::string::npos;
    level = is_number ? std::stoi(digits) : -1;
    if (level < found->least || level > found->most)
      refuse(name + " with a level of " + std::to_string(found->least) + " to " + std::to_string(found->most));
  }
  require_built_with(found->name);
  if (name == "gzip") {
    codecs.push_back({{"name", "gzip"}, {"configuration", {{"level", level}}}});
  } else if (name == "zstd") {
    codecs.push_back({{"name", "zstd"}, {"configuration", {{"level", level}, {"checksum", false}}}});
  } else {
    codecs.push_back({{"name", "blosc"},
                      {"configuration",
                       {{"cname", name.substr(name.find('-') + 1)},
                        {"clevel", level},
                        {"shuffle", value_bytes > 1 ? "shuffle" : "noshuffle"},
                        {"typesize", value_bytes},
                        {"blocksize", 0}}}});
  }
  return codecs;
}

bool has_blosc() noexcept {
#ifdef GRATICULE_HAS_BLOSC
  return true;
#else
  return false;
#endif
}

bool has_parts(Array const& array) {
  bool const is_plain = array.order.size() == 0 && !array.scale;
  return is_plain && has_blosc() && array.codecs.size() == 1 && array.codecs.front().kind == Codec::Kind::blosc;
}

namespace {

/// A number of four bytes of blosc's header, or of the table of blocks behind it.
Index blosc_number(std::span<std::byte const> bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8U | std::to_integer<std::uint32_t>(bytes[at + i]);
  return number;
}

constexpr std::size_t flags_at = 2;
constexpr std::byte is_copied{2};  // of the flags: not compressed, and without a table

Index num_blocks(std::span<std::byte const> header) {
  auto const block = blosc_number(header, 8);
  return block == 0 ? 0 : (blosc_number(header, 4) + block - 1) / block;
}

}  // namespace

Index table_bytes(std::span<std::byte const> header, Index bytes) {
  if (Index(header.size()) < blosc_header_bytes || (header[flags_at] & is_copied) != std::byte{0})
    return std::min(bytes, blosc_header_bytes);
  return std::min(bytes, blosc_header_bytes + 4 * num_blocks(header));
}

std::vector<StoredRange> needed_ranges(std::span<std::byte const> table, Index bytes, Index first, Index count) {
  if (Index(table.size()) < blosc_header_bytes || blosc_number(table, 12) != bytes || count < 1) return {};
  if ((table[flags_at] & is_copied) != std::byte{0}) {
    if (blosc_header_bytes + first + count > bytes) return {};
    return {{blosc_header_bytes + first, count}};
  }
  auto const block = blosc_number(table, 8);
  auto const number = num_blocks(table);
  if (block == 0 || first + count > blosc_number(table, 4) || Index(table.size()) < blosc_header_bytes + 4 * number)
    return {};
  // A block ends where the next one in the chunk begins, which need not be that of the next number.
  std::vector<Index> starts{bytes};
  auto const start_of = [&](Index i) { return blosc_number(table, std::size_t(blosc_header_bytes + 4 * i)); };
  for (Index i = 0; i < number; ++i) starts.push_back(start_of(i));
  std::sort(starts.begin(), starts.end());
  std::vector<StoredRange> ranges;
  for (Index i = first / block; i <= (first + count - 1) / block; ++i) {
    auto const start = start_of(i);
    auto const end = std::upper_bound(starts.begin(), starts.end(), start);
    if (start < Index(table.size()) || end == starts.end() || *end > bytes) return {};
    if (!ranges.empty() && ranges.back().first + ranges.back().count == start)
      ranges.back().count = *end - ranges.back().first;
    else
      ranges.push_back({start, *end - start});
  }
  return ranges;
}

Bytes decoded_part([[maybe_unused]] Array const& array, [[maybe_unused]] Bytes const& stored,
                   [[maybe_unused]] Index num_values, [[maybe_unused]] Index first, Index count) {
#ifdef GRATICULE_HAS_BLOSC
  auto const size = array.stored_bytes;
  require_blosc(stored, std::size_t(num_values * size));
  // Its items have the size that the header has, which a changed byte may make larger than the memory.
  auto const item = Index(std::to_integer<unsigned char>(stored.data()[3]));
  if (item == 0) damaged("blosc has values of 0 bytes");
  if (size % item != 0) {
    auto const whole = from_blosc(stored, std::size_t(num_values * size));
    Bytes part{std::size_t(count * size)};
    std::memcpy(part.data(), whole.data() + first * size, part.size());
    return part;
  }
  Bytes part{std::size_t(count * size)};
  int const written = blosc_getitem(stored.data(), int(first * size / item), int(count * size / item), part.data());
  if (written != int(part.size())) damaged("blosc gives " + of_bytes(std::size_t(std::max(written, 0)), part.size()));
  return part;
#else
  return Bytes(std::size_t(count));
#endif
}

Bytes values_of(Array const& array, Bytes chunk) {
  if (is_other_order(array))
    swap_bytes(chunk.data(), array.stored_bytes, chunk.size() / std::size_t(array.stored_bytes));
  if (array.scale) chunk = unscaled(array, chunk);
  if (array.time) to_seconds(*array.time, chunk);
  bool const has_order = array.order.size() > 1 && !std::is_sorted(array.order.begin(), array.order.end());
  if (has_order) chunk = transposed(array, chunk);
  return chunk;
}

}  // namespace graticule::detail::zarr
