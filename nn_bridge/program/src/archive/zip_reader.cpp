// SPDX-License-Identifier: BSD-3-Clause
#include "archive/zip_reader.hpp"

#include <graticule/partition/error.hpp>

#include "archive/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>

// The layout of the archive: APPNOTE.TXT of PKWARE, version 6.3, sections 4.3 and 4.5.
namespace graticule::program::detail {

namespace {

[[noreturn]] void broken_zip(std::string const& why) {
  throw Error(Fault::input, "BrokenFile", "the archive cannot be read (" + why + ")");
}

// A number of some bytes, the lowest first.
std::uint64_t number_at(std::string_view bytes, std::size_t offset, std::size_t count) {
  if (offset > bytes.size() || bytes.size() - offset < count) {
    broken_zip("its directory ends in the middle of an entry");
  }
  std::uint64_t number = 0;
  for (std::size_t i = count; i > 0; --i) {
    number = number << 8U | static_cast<unsigned char>(bytes[offset + i - 1]);
  }
  return number;
}

constexpr std::string_view end_mark = "PK\x05\x06";
constexpr std::string_view wide_end_mark = "PK\x06\x06";
constexpr std::string_view wide_locator_mark = "PK\x06\x07";
constexpr std::string_view entry_mark = "PK\x01\x02";
constexpr std::string_view header_mark = "PK\x03\x04";
constexpr std::uint64_t end_bytes = 22;
constexpr std::uint64_t wide_locator_bytes = 20;
constexpr std::uint64_t wide_end_bytes = 56;
constexpr std::uint64_t entry_bytes = 46;
constexpr std::uint64_t header_bytes = 30;
constexpr std::uint64_t most_comment_bytes = 0xffff;
constexpr std::uint64_t in_wide_field = 0xffffffff;
constexpr std::uint64_t wide_field_id = 1;

// Numbers of an entry that need more than 32 bits stand in its field 1, in this order.
void take_wide_numbers(std::string_view fields, std::array<std::uint64_t*, 3> const& numbers) {
  for (std::size_t at = 0; at + 4 <= fields.size();) {
    std::size_t const size = number_at(fields, at + 2, 2);
    if (number_at(fields, at, 2) == wide_field_id) {
      std::string_view const field = fields.substr(at + 4, size);
      std::size_t next = 0;
      for (std::uint64_t* const number : numbers) {
        if (*number == in_wide_field) {
          *number = number_at(field, next, 8);
          next += 8;
        }
      }
      return;
    }
    at += 4 + size;
  }
}

std::string hexadecimal(std::uint32_t number) {
  std::array<char, 9> text{};
  (void)std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

}  // namespace

ZipReader::ZipReader(std::filesystem::path const& path)
    : file_(path, std::ios::binary), file_bytes_(std::filesystem::file_size(path)) {
  read_directory(find_directory());
}

std::string ZipReader::piece(std::uint64_t offset, std::uint64_t count) {
  if (offset > file_bytes_ || count > file_bytes_ - offset) {
    broken_zip("it ends before what its directory names; is the file complete?");
  }
  std::string bytes(count, '\0');
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  if (count > 0 && !file_.read(bytes.data(), static_cast<std::streamsize>(count))) {
    broken_zip("reading failed");
  }
  return bytes;
}

ZipReader::Directory ZipReader::find_directory() {
  std::uint64_t const tail_bytes = std::min(file_bytes_, end_bytes + most_comment_bytes);
  std::uint64_t const tail_at = file_bytes_ - tail_bytes;
  std::string const tail = piece(tail_at, tail_bytes);
  std::size_t const end = tail.rfind(end_mark);
  if (end == std::string::npos || tail.size() - end < end_bytes) {
    broken_zip("it has no directory; is the file complete?");
  }
  std::string_view const record = std::string_view(tail).substr(end);
  Directory directory{number_at(record, 16, 4), number_at(record, 12, 4), number_at(record, 10, 2)};
  bool const is_wide =
      directory.offset == in_wide_field || directory.bytes == in_wide_field || directory.count == 0xffff;
  std::uint64_t const end_at = tail_at + end;
  if (!is_wide || end_at < wide_locator_bytes) {
    return directory;
  }
  std::string const locator = piece(end_at - wide_locator_bytes, wide_locator_bytes);
  if (!locator.starts_with(wide_locator_mark)) {
    return directory;
  }
  std::string const wide = piece(number_at(locator, 8, 8), wide_end_bytes);
  if (!wide.starts_with(wide_end_mark)) {
    broken_zip("its directory is not where it says");
  }
  return {number_at(wide, 48, 8), number_at(wide, 40, 8), number_at(wide, 32, 8)};
}

void ZipReader::read_directory(Directory const& directory) {
  std::string const bytes = piece(directory.offset, directory.bytes);
  std::string folder;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    std::string_view const rest = std::string_view(bytes).substr(std::min(at, bytes.size()));
    if (rest.size() < entry_bytes || !rest.starts_with(entry_mark)) {
      broken_zip("its directory has fewer entries than it says");
    }
    std::size_t const name_bytes = number_at(rest, 28, 2);
    std::size_t const field_bytes = number_at(rest, 30, 2);
    std::size_t const size = entry_bytes + name_bytes + field_bytes + number_at(rest, 32, 2);
    if (size > rest.size()) {
      broken_zip("its directory ends in the middle of an entry");
    }
    std::string const name(rest.substr(entry_bytes, name_bytes));
    std::uint64_t packed = number_at(rest, 20, 4);
    Entry entry{number_at(rest, 42, 4), number_at(rest, 24, 4), static_cast<std::uint32_t>(number_at(rest, 16, 4))};
    take_wide_numbers(rest.substr(entry_bytes + name_bytes, field_bytes), {&entry.bytes, &packed, &entry.header});
    if (number_at(rest, 10, 2) != 0 || packed != entry.bytes) {
      broken_zip("its record '" + name + "' is compressed; torch.export.save stores records as they are");
    }
    if (entry.bytes > file_bytes_) {
      broken_zip("its record '" + name + "' is larger than the file");
    }
    folder = i == 0 ? name.substr(0, name.find('/') + 1) : folder;
    if (!name.starts_with(folder)) {
      broken_zip("its record '" + name + "' is not in the folder '" + folder + "' of the others");
    }
    std::string record = name.substr(folder.size());
    if (!entries_.emplace(record, entry).second) {
      broken_zip("its record '" + record + "' is there twice");
    }
    names_.push_back(std::move(record));
    at += size;
  }
}

ZipReader::Entry const& ZipReader::entry(std::string const& record) const {
  auto const found = entries_.find(record);
  if (found == entries_.end()) {
    throw Error(Fault::input, "BrokenFile", "the record '" + record + "' is missing");
  }
  return found->second;
}

std::size_t ZipReader::bytes(std::string const& record) const { return entry(record).bytes; }

void ZipReader::read(std::string const& record, void* target) {
  Entry const& known = entry(record);
  std::string const header = piece(known.header, header_bytes);
  if (!header.starts_with(header_mark)) {
    broken_zip("the record '" + record + "' is not where the directory says");
  }
  std::uint64_t const begin = known.header + header_bytes + number_at(header, 26, 2) + number_at(header, 28, 2);
  if (begin > file_bytes_ || known.bytes > file_bytes_ - begin) {
    broken_zip("it ends before the end of the record '" + record + "'; is the file complete?");
  }
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(begin));
  if (known.bytes > 0 && !file_.read(static_cast<char*>(target), static_cast<std::streamsize>(known.bytes))) {
    broken_zip("reading the record '" + record + "' failed");
  }
  std::uint32_t const found = crc32_of(target, known.bytes);
  if (found != known.checksum) {
    throw Error(Fault::input, "BrokenFile",
                "the record '" + record + "' is damaged: its bytes have the checksum " + hexadecimal(found) +
                    ", the archive says " + hexadecimal(known.checksum) + "; copy or export the file again");
  }
}

}  // namespace graticule::program::detail
