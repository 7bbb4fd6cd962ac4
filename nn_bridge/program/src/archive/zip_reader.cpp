// SPDX-License-Identifier: BSD-3-Clause
#include "archive/zip_reader.hpp"

#include <graticule/partition/error.hpp>

#include <array>
#include <cstdio>
#include <utility>

namespace graticule::program::detail {

namespace {

[[noreturn]] void broken_archive(std::string const& why) {
  throw Error(Fault::input, "BrokenFile", "the archive cannot be read (" + why + ")");
}

std::string hexadecimal(std::uint32_t number) {
  std::array<char, 9> text{};
  (void)std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

constexpr std::size_t crc_stride = 8;
using CrcTables = std::array<std::array<std::uint32_t, 256>, crc_stride>;

// tables[k][b]: what the byte b adds to the remainder when k more bytes follow it.
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest & 1U) != 0 ? (rest >> 1U) ^ 0xedb88320U : rest >> 1U;
    }
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < crc_stride; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::uint32_t const before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr CrcTables crc_tables = make_crc_tables();

// The CRC-32 of ZIP archives (ISO 3309, reflected, polynomial 0x04c11db7): of "123456789" it is 0xcbf43926.
std::uint32_t crc32_of(void const* bytes, std::size_t count) noexcept {
  auto const* next = static_cast<unsigned char const*>(bytes);
  std::uint32_t rest = ~std::uint32_t{0};
  for (; count >= crc_stride; count -= crc_stride, next += crc_stride) {
    std::uint32_t const low = rest ^ (std::uint32_t{next[0]} | std::uint32_t{next[1]} << 8U |
                                      std::uint32_t{next[2]} << 16U | std::uint32_t{next[3]} << 24U);
    rest = crc_tables[7][low & 0xffU] ^ crc_tables[6][(low >> 8U) & 0xffU] ^ crc_tables[5][(low >> 16U) & 0xffU] ^
           crc_tables[4][low >> 24U] ^ crc_tables[3][next[4]] ^ crc_tables[2][next[5]] ^ crc_tables[1][next[6]] ^
           crc_tables[0][next[7]];
  }
  for (; count > 0; --count, ++next) {
    rest = (rest >> 8U) ^ crc_tables[0][(rest ^ *next) & 0xffU];
  }
  return ~rest;
}

}  // namespace

ZipReader::ZipReader(std::filesystem::path const& path)
    : file_(path, std::ios::binary),
      zip_{std::filesystem::file_size(path), [this](std::uint64_t offset, std::uint64_t count) {
             std::string bytes(count, '\0');
             read_at(offset, bytes.data(), count);
             return bytes;
           }} {
  std::string folder;
  for (auto& member : graticule::detail::zip_members(zip_)) {
    auto const& name = member.name;
    if (!member.is_stored) {
      broken_archive("its record '" + name + "' is compressed; torch.export.save stores records as they are");
    }
    folder = names_.empty() ? name.substr(0, name.find('/') + 1) : folder;
    if (!name.starts_with(folder)) {
      broken_archive("its record '" + name + "' is not in the folder '" + folder + "' of the others");
    }
    std::string record = name.substr(folder.size());
    if (!entries_.emplace(record, std::move(member)).second) {
      broken_archive("its record '" + record + "' is there twice");
    }
    names_.push_back(std::move(record));
  }
}

void ZipReader::read_at(std::uint64_t offset, char* target, std::uint64_t count) {
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  if (count > 0 && !file_.read(target, static_cast<std::streamsize>(count))) {
    broken_archive("reading failed");
  }
}

graticule::detail::ZipMember const& ZipReader::entry(std::string const& record) const {
  auto const found = entries_.find(record);
  if (found == entries_.end()) {
    throw Error(Fault::input, "BrokenFile", "the record '" + record + "' is missing");
  }
  return found->second;
}

std::size_t ZipReader::bytes(std::string const& record) const { return entry(record).bytes; }

std::string ZipReader::text(std::string const& record) {
  std::string content(bytes(record), '\0');
  read(record, content.data());
  return content;
}

void ZipReader::read(std::string const& record, void* target) {
  auto const& known = entry(record);
  read_at(graticule::detail::zip_offset(zip_, known), static_cast<char*>(target), known.bytes);
  std::uint32_t const found = crc32_of(target, known.bytes);
  if (found != known.checksum) {
    throw Error(Fault::input, "BrokenFile",
                "the record '" + record + "' is damaged: its bytes have the checksum " + hexadecimal(found) +
                    ", the archive says " + hexadecimal(known.checksum) + "; copy or export the file again");
  }
}

}  // namespace graticule::program::detail
