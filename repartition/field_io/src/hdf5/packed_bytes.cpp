// SPDX-License-Identifier: BSD-3-Clause
#include "packed_bytes.hpp"

#include <graticule/partition/error.hpp>

#ifdef GRATICULE_HAS_LIBDEFLATE
#include <libdeflate.h>
#endif
#include <zlib.h>

namespace graticule::detail {

namespace {

#ifdef GRATICULE_HAS_LIBDEFLATE
struct Decompressor {
  libdeflate_decompressor* held = libdeflate_alloc_decompressor();
  Decompressor() = default;
  Decompressor(Decompressor const&) = delete;
  Decompressor& operator=(Decompressor const&) = delete;
  ~Decompressor() { libdeflate_free_decompressor(held); }
};

Inflated inflate_at_once(Wrapping wrapping, Bytes const& packed, Bytes& bytes) {
  static thread_local Decompressor const decompressor;
  Inflated result;
  if (decompressor.held == nullptr) return result;
  auto const call = wrapping == Wrapping::gzip ? &libdeflate_gzip_decompress : &libdeflate_zlib_decompress;
  result.is_whole = call(decompressor.held, packed.data(), packed.size(), bytes.data(), bytes.size(),
                         &result.written) == LIBDEFLATE_SUCCESS;
  return result;
}
#endif

Inflated inflate_by_stream(Wrapping wrapping, Bytes const& packed, Bytes& bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, wrapping == Wrapping::gzip ? 15 + 16 : 15) != Z_OK) return {};
  auto* in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  auto* out = reinterpret_cast<Bytef*>(bytes.data());
  constexpr std::size_t most = std::size_t(1) << 30;
  std::size_t read = 0;
  Inflated result;
  int code = Z_OK;
  while (code == Z_OK) {
    stream.next_in = in + read;
    stream.avail_in = uInt(std::min(packed.size() - read, most));
    stream.next_out = out + result.written;
    stream.avail_out = uInt(std::min(bytes.size() - result.written, most));
    code = inflate(&stream, Z_SYNC_FLUSH);
    read = std::size_t(stream.next_in - in);
    result.written = std::size_t(stream.next_out - out);
    bool const has_more = read < packed.size() && result.written < bytes.size();
    if (code == Z_STREAM_END && wrapping == Wrapping::gzip && has_more && inflateReset(&stream) == Z_OK) code = Z_OK;
  }
  inflateEnd(&stream);
  result.is_whole = code == Z_STREAM_END;
  return result;
}

/// Values of `Size` bytes, of which `from` holds all first bytes, then all second ones, ...
template <std::size_t Size>
void interleave(std::byte const* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < Size; ++b) to[i * Size + b] = from[b * count + i];
}

}  // namespace

Inflated inflate_into(Wrapping wrapping, Bytes const& packed, Bytes& bytes) {
#ifdef GRATICULE_HAS_LIBDEFLATE
  if (auto const result = inflate_at_once(wrapping, packed, bytes); result.is_whole) return result;
#endif
  return inflate_by_stream(wrapping, packed, bytes);
}

Bytes deflated(Wrapping wrapping, Bytes const& plain, int level) {
  z_stream stream{};
  constexpr int most_memory = 9;
  if (deflateInit2(&stream, level, Z_DEFLATED, wrapping == Wrapping::gzip ? 15 + 16 : 15, most_memory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error("OutOfMemory", "zlib finds no memory to deflate");
  Bytes bytes(deflateBound(&stream, uLong(plain.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  constexpr std::size_t most = std::size_t(1) << 30;
  int code = Z_OK;
  while (code == Z_OK) {
    auto const read = std::size_t(stream.total_in);
    stream.avail_in = uInt(std::min(plain.size() - read, most));
    stream.avail_out = uInt(std::min(bytes.size() - std::size_t(stream.total_out), most));
    code = deflate(&stream, read + stream.avail_in == plain.size() ? Z_FINISH : Z_NO_FLUSH);
  }
  auto const written = std::size_t(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw Error("OutOfMemory", "zlib cannot deflate a chunk");
  bytes.shorten(written);
  return bytes;
}

std::uint32_t zip_checksum(std::span<std::byte const> bytes) noexcept {
#ifdef GRATICULE_HAS_LIBDEFLATE
  return libdeflate_crc32(0, bytes.data(), bytes.size());
#else
  return std::uint32_t(crc32_z(0, reinterpret_cast<Bytef const*>(bytes.data()), bytes.size()));
#endif
}

Bytes shuffled(Bytes const& bytes, std::size_t value_bytes) {
  Bytes result(bytes.size());
  auto const count = value_bytes > 0 ? bytes.size() / value_bytes : 0;
  for (std::size_t b = 0; b < value_bytes; ++b)
    for (std::size_t i = 0; i < count; ++i) result.data()[b * count + i] = bytes.data()[i * value_bytes + b];
  std::copy(bytes.data() + count * value_bytes, bytes.data() + bytes.size(), result.data() + count * value_bytes);
  return result;
}

Bytes unshuffled(Bytes bytes, std::size_t value_bytes) {
  auto const count = value_bytes > 0 ? bytes.size() / value_bytes : 0;
  if (value_bytes <= 1 || count <= 1) return bytes;
  Bytes result(bytes.size());
  auto const* const from = bytes.data();
  auto* const to = result.data();
  if (value_bytes == 2)
    interleave<2>(from, count, to);
  else if (value_bytes == 4)
    interleave<4>(from, count, to);
  else if (value_bytes == 8)
    interleave<8>(from, count, to);
  else
    for (std::size_t b = 0; b < value_bytes; ++b)
      for (std::size_t i = 0; i < count; ++i) to[i * value_bytes + b] = from[b * count + i];
  std::copy(from + count * value_bytes, from + bytes.size(), to + count * value_bytes);
  return result;
}

}  // namespace graticule::detail
