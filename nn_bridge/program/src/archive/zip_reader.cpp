// SPDX-License-Identifier: BSD-3-Clause
#include "archive/zip_reader.hpp"

#include <graticule/partition/error.hpp>

#include "archive/checksum.hpp"

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
