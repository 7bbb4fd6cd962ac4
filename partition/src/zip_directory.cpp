// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/zip_directory.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace graticule::detail {

namespace {

[[noreturn]] void broken_zip(std::string const& what) {
  throw Error(Fault::input, "BrokenFile", "it is no whole zip archive: " + what);
}

/// The lowest byte first.
std::uint64_t zip_number(std::string_view bytes, std::size_t offset, std::size_t count) {
  if (offset > bytes.size() || bytes.size() - offset < count)
    broken_zip("its directory ends in the middle of an entry");
  std::uint64_t number = 0;
  for (std::size_t i = count; i > 0; --i) number = number << 8U | static_cast<unsigned char>(bytes[offset + i - 1]);
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

struct ZipDirectory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

std::string piece_of(ZipFile const& file, std::uint64_t offset, std::uint64_t count) {
  if (offset > file.bytes || count > file.bytes - offset) broken_zip("it ends before what its directory names");
  return file.read(offset, count);
}

ZipDirectory find_directory(ZipFile const& file) {
  auto const tail_bytes = std::min(file.bytes, end_bytes + most_comment_bytes);
  auto const tail = piece_of(file, file.bytes - tail_bytes, tail_bytes);
  // A comment follows, whose bytes may look like the mark.
  auto const ends_file = [&](std::size_t at) {
    return tail.size() - at >= end_bytes && at + end_bytes + zip_number(tail, at + 20, 2) == tail.size();
  };
  auto end = tail.rfind(end_mark);
  while (end != std::string::npos && !ends_file(end)) end = end > 0 ? tail.rfind(end_mark, end - 1) : std::string::npos;
  if (end == std::string::npos) broken_zip("it lacks its directory");
  auto const record = std::string_view(tail).substr(end);
  ZipDirectory const directory{zip_number(record, 16, 4), zip_number(record, 12, 4), zip_number(record, 10, 2)};
  bool const is_wide =
      directory.offset == in_wide_field || directory.bytes == in_wide_field || directory.count == 0xffff;
  auto const end_at = file.bytes - tail_bytes + end;
  if (!is_wide || end_at < wide_locator_bytes) return directory;
  auto const locator = piece_of(file, end_at - wide_locator_bytes, wide_locator_bytes);
  if (!locator.starts_with(wide_locator_mark)) return directory;
  auto const wide = piece_of(file, zip_number(locator, 8, 8), wide_end_bytes);
  if (!wide.starts_with(wide_end_mark)) broken_zip("its directory is not where it says");
  return {zip_number(wide, 48, 8), zip_number(wide, 40, 8), zip_number(wide, 32, 8)};
}

/// Numbers of an entry that need more than 32 bits stand in its field 1, in this order.
void take_wide_numbers(std::string_view fields, std::array<std::uint64_t*, 3> const& numbers) {
  for (std::size_t at = 0; at + 4 <= fields.size();) {
    auto const size = std::size_t(zip_number(fields, at + 2, 2));
    if (zip_number(fields, at, 2) == wide_field_id) {
      auto const field = fields.substr(at + 4, size);
      std::size_t next = 0;
      for (auto* const number : numbers) {
        if (*number != in_wide_field) continue;
        *number = zip_number(field, next, 8);
        next += 8;
      }
      return;
    }
    at += 4 + size;
  }
}

}  // namespace

std::vector<ZipMember> zip_members(ZipFile const& file) {
  auto const directory = find_directory(file);
  auto const bytes = piece_of(file, directory.offset, directory.bytes);
  std::vector<ZipMember> members;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    auto const rest = std::string_view(bytes).substr(std::min(at, bytes.size()));
    if (rest.size() < entry_bytes || !rest.starts_with(entry_mark))
      broken_zip("its directory has fewer entries than it says");
    auto const name_bytes = std::size_t(zip_number(rest, 28, 2));
    auto const field_bytes = std::size_t(zip_number(rest, 30, 2));
    auto const size = entry_bytes + name_bytes + field_bytes + zip_number(rest, 32, 2);
    if (size > rest.size()) broken_zip("its directory ends in the middle of an entry");
    auto plain = zip_number(rest, 24, 4);
    ZipMember member{.name = std::string(rest.substr(entry_bytes, name_bytes)),
                     .header = zip_number(rest, 42, 4),
                     .bytes = zip_number(rest, 20, 4),
                     .checksum = static_cast<std::uint32_t>(zip_number(rest, 16, 4))};
    take_wide_numbers(rest.substr(entry_bytes + name_bytes, field_bytes), {&plain, &member.bytes, &member.header});
    if (member.bytes > file.bytes || member.header > file.bytes)
      broken_zip("its member '" + member.name + "' lies beyond its end");
    member.is_stored = zip_number(rest, 10, 2) == 0 && plain == member.bytes;
    members.push_back(std::move(member));
    at += size;
  }
  return members;
}

std::uint64_t zip_offset(ZipFile const& file, ZipMember const& member) {
  auto const named = [&](std::string const& what) { broken_zip("its member '" + member.name + "' " + what); };
  if (member.header > file.bytes || header_bytes > file.bytes - member.header) named("lies beyond its end");
  auto const header = file.read(member.header, header_bytes);
  if (!header.starts_with(header_mark)) named("is not where its directory says");
  auto const begin = member.header + header_bytes + zip_number(header, 26, 2) + zip_number(header, 28, 2);
  if (begin > file.bytes || member.bytes > file.bytes - begin) named("lies beyond its end");
  return begin;
}

}  // namespace graticule::detail
