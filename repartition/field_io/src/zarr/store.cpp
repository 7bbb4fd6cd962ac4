// SPDX-License-Identifier: BSD-3-Clause
#include "store.hpp"

#include <graticule/partition/error.hpp>

#include "hdf5/packed_bytes.hpp"
#include "json.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr Index most_text_bytes = Index(1) << 30;

[[noreturn]] void refuse(std::string_view rule, std::string const& text) { throw Error(Fault::input, rule, text); }

bool is_absent(int code) { return code == ENOENT || code == ENOTDIR; }

}  // namespace

std::string joined(std::string_view folder, std::string_view name) {
  return folder.empty() ? std::string(name) : std::string(folder) + "/" + std::string(name);
}

void Item::read(std::byte* data, Index from, Index count) const {
  if (memory) {
    std::memcpy(data, memory->data() + offset + from, std::size_t(count));
    return;
  }
  if (auto const reason = file->read(data, count, offset + from); !reason.empty())
    refuse("BrokenFile", "a chunk cannot be read: " + reason);
  bool const is_whole = from == 0 && count == bytes;
  if (is_whole && checksum && zip_checksum({data, std::size_t(count)}) != *checksum)
    refuse("BrokenFile", "it is damaged: the zip archive has another checksum of it");
}

bool is_store(std::filesystem::path const& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    for (char const* name : {"zarr.json", ".zgroup", ".zmetadata", ".zarray"})
      if (std::filesystem::exists(path / name, unknown)) return true;
    return false;
  }
  auto const name = path.string();
  return std::filesystem::is_regular_file(path, unknown) && (name.ends_with(".zip") || name.ends_with(".json"));
}

Store::Store(std::filesystem::path path) : path_(std::move(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0)
    refuse(is_absent(errno) ? "NoSuchFile" : "UnreadableFile",
           path_.string() + (is_absent(errno) ? " does not exist" : " cannot be accessed: " + system_reason(errno)));
  if (S_ISDIR(status.st_mode)) {
    folder_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder_.get() < 0) refuse("UnreadableFile", path_.string() + " cannot be opened: " + system_reason(errno));
    std::error_code unknown;
    absolute_ = std::filesystem::absolute(path_, unknown);
    return;
  }
  if (path_.extension() == ".json") {
    read_references();
    return;
  }
  zip_ = std::make_shared<Descriptor const>(open_to_read(path_));
  read_zip(Index(status.st_size));
}

void Store::read_zip(Index size) {
  zip_file_ = {std::uint64_t(size), [this](std::uint64_t offset, std::uint64_t count) {
                 std::string bytes(count, '\0');
                 auto* const target = reinterpret_cast<std::byte*>(bytes.data());
                 if (auto const reason = zip_->read(target, Index(count), Index(offset)); !reason.empty())
                   refuse("BrokenFile", "it cannot be read: " + reason);
                 return bytes;
               }};
  try {
    // A member that was written again stands there twice: the last one counts.
    for (auto& member : zip_members(zip_file_)) members_.insert_or_assign(member.name, member);
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), path_.string() + " cannot be read: " + error.text());
  }
}

std::optional<Item> Store::find_in_zip(std::string const& key) const {
  auto const found = members_.find(key);
  if (found == members_.end()) return {};
  auto const& member = found->second;
  if (!member.is_stored)
    refuse("UnsupportedFile",
           path_.string() + ": member " + key +
               " is compressed; store members as they are (`zip -0`), Zarr compresses chunks itself");
  try {
    return Item{zip_, nullptr, Index(zip_offset(zip_file_, member)), Index(member.bytes), member.checksum};
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), path_.string() + " cannot be read: " + error.text());
  }
}

std::optional<Item> Store::find_in_folder(std::string const& key) const {
  auto const where = path_.string() + "/" + key;
  // Folder by folder, so that no link on the way is followed.
  Descriptor folder;
  std::size_t at = 0;
  for (;;) {
    auto const slash = key.find('/', at);
    auto const name = key.substr(at, slash == std::string::npos ? std::string::npos : slash - at);
    if (name.empty() || name == "." || name == "..") refuse("BrokenFile", where + " is no key of a store");
    bool const is_last = slash == std::string::npos;
    int const kind = is_last ? O_NONBLOCK : O_DIRECTORY;
    int const id = ::openat(folder.get() < 0 ? folder_.get() : folder.get(), name.c_str(),
                            O_RDONLY | O_CLOEXEC | O_NOFOLLOW | kind);
    if (id < 0) {
      if (is_absent(errno)) {
        struct stat link {};
        bool const is_link =
            errno == ENOTDIR &&
            ::fstatat(folder.get() < 0 ? folder_.get() : folder.get(), name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(link.st_mode);
        if (!is_link) return {};
        errno = ELOOP;
      }
      if (errno == ELOOP)
        refuse("UnreadableFile", where + " leads through a symbolic link, which a store must not; copy the files");
      refuse("UnreadableFile", where + " cannot be opened: " + system_reason(errno));
    }
    Descriptor next(id);
    if (!is_last) {
      folder = std::move(next);
      at = slash + 1;
      continue;
    }
    struct stat status {};
    if (::fstat(next.get(), &status) != 0) refuse("UnreadableFile", where + ": " + system_reason(errno));
    if (!S_ISREG(status.st_mode)) refuse("UnreadableFile", where + " is not a regular file");
    return Item{std::make_shared<Descriptor const>(std::move(next)), nullptr, 0, Index(status.st_size)};
  }
}

namespace {

constexpr std::string_view python_way =
    "; read it in Python, by graticule.open_shard of xarray.open_dataset(REFERENCES, engine=\"kerchunk\")";

}  // namespace

void Store::read_references() {
  auto const where = path_.string();
  auto const broken = [&](std::string const& what) { refuse("BrokenFile", where + ": " + what); };
  Descriptor const file = open_to_read(path_);
  Item const item{nullptr, nullptr, 0, Index(std::filesystem::file_size(path_))};
  if (item.bytes > most_text_bytes) broken("it has " + std::to_string(item.bytes) + " bytes of references");
  std::string text(std::size_t(item.bytes), '\0');
  if (auto const reason = file.read(reinterpret_cast<std::byte*>(text.data()), item.bytes, 0); !reason.empty())
    broken("it cannot be read: " + reason);
  auto const all = parse(text, where);
  auto const& keys = all.is_object() && all.contains("refs") ? all["refs"] : all;
  bool const has_metadata = keys.is_object() && (keys.contains(".zgroup") || keys.contains(".zmetadata") ||
                                                 keys.contains("zarr.json") || keys.contains(".zarray"));
  if (!has_metadata) refuse("UnsupportedFile", where + " is JSON, but no references of kerchunk or VirtualiZarr");
  for (char const* name : {"gen", "templates"})
    if (all.contains("refs") && all.contains(name) && !all[name].empty())
      refuse("UnsupportedFile",
             where + " abbreviates its references ('" + name + "'); write them out" + std::string(python_way));
  for (auto const& [key, value] : keys.items()) {
    Reference reference;
    if (value.is_string()) {
      auto const& held = value.get_ref<std::string const&>();
      constexpr std::string_view mark = "base64:";
      auto bytes =
          held.starts_with(mark) ? bytes_of_base64(std::string_view(held).substr(mark.size())) : std::optional(held);
      if (!bytes) broken("the reference " + key + " is no base64");
      reference.text = std::make_shared<std::string const>(std::move(*bytes));
    } else if (value.is_object()) {
      reference.text = std::make_shared<std::string const>(value.dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
      auto const is_number = [&](std::size_t i) { return value[i].is_number_integer() && value[i] >= 0; };
      bool const is_range = value.is_array() && value.size() == 3 && is_number(1) && is_number(2);
      if (!value.is_array() || value.empty() || !value[0].is_string() || !(value.size() == 1 || is_range))
        broken("the reference " + key + " names no part of a file");
      reference.path = value[0].get<std::string>();
      if (reference.path.starts_with("file://")) reference.path.erase(0, 7);
      if (reference.path.find("://") != std::string::npos)
        refuse("UnsupportedFile",
               where + " refers to " + reference.path + ", which is no local file" + std::string(python_way));
      if (is_range) {
        reference.offset = value[1].get<Index>();
        reference.bytes = value[2].get<Index>();
      }
    }
    references_.emplace(key, std::move(reference));
  }
}

std::optional<Item> Store::find_in_references(std::string const& key) const {
  auto const found = references_.find(key);
  if (found == references_.end()) return {};
  auto const& reference = found->second;
  if (reference.text) return Item{nullptr, reference.text, 0, Index(reference.text->size())};
  auto const path = path_.parent_path() / reference.path;
  auto const file = [&] {
    std::lock_guard const lock(mutex_);
    auto& held = open_[path.string()];
    if (!held) held = std::make_shared<Descriptor const>(open_to_read(path));
    return held;
  }();
  struct stat status {};
  if (::fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse("UnreadableFile", path.string() + ", which " + path_.string() + " refers to, is not a regular file");
  auto const all = Index(status.st_size);
  auto const bytes = reference.bytes.value_or(all);
  if (reference.offset > all || bytes > all - reference.offset)
    refuse("BrokenFile", path_.string() + " refers to bytes " + std::to_string(reference.offset) + " to " +
                             std::to_string(reference.offset + bytes) + " of " + path.string() + ", which has " +
                             std::to_string(all) + "; the file has changed since, write the references again");
  return Item{file, nullptr, reference.offset, bytes};
}

std::optional<Item> Store::find(std::string const& key) const {
  if (zip_) return find_in_zip(key);
  return folder_.get() < 0 ? find_in_references(key) : find_in_folder(key);
}

std::optional<std::string> Store::text(std::string const& key) const {
  auto const item = find(key);
  if (!item) return {};
  if (item->bytes > most_text_bytes)
    refuse("BrokenFile", path_.string() + "/" + key + " has " + std::to_string(item->bytes) + " bytes of metadata");
  std::string text(std::size_t(item->bytes), '\0');
  try {
    item->read(reinterpret_cast<std::byte*>(text.data()), 0, item->bytes);
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), path_.string() + "/" + key + ": " + error.text());
  }
  return text;
}

Store::Metadata Store::metadata_of(std::string const& array) const {
  if (folder_.get() < 0) return Metadata::of_array;
  struct stat opened {};
  struct stat now {};
  bool const is_other =
      ::fstat(folder_.get(), &opened) != 0 ||
      (::stat(absolute_.c_str(), &now) == 0 && (now.st_ino != opened.st_ino || now.st_dev != opened.st_dev));
  if (is_other) return Metadata::gone;
  auto const has = [&](std::string const& key) { return ::faccessat(folder_.get(), key.c_str(), F_OK, 0) == 0; };
  if (has(joined(array, "zarr.json")) || has(joined(array, ".zarray"))) return Metadata::of_array;
  return has("zarr.json") || has(".zmetadata") ? Metadata::of_store : Metadata::gone;
}

std::vector<std::string> Store::folders(std::string const& folder) const {
  std::set<std::string> names;
  auto const add_names = [&](auto const& keys) {
    auto const start = folder.empty() ? std::string() : folder + "/";
    for (auto at = keys.lower_bound(start); at != keys.end() && at->first.starts_with(start); ++at)
      if (auto const slash = at->first.find('/', start.size()); slash != std::string::npos)
        names.insert(at->first.substr(start.size(), slash - start.size()));
  };
  if (zip_) {
    add_names(members_);
  } else if (folder_.get() < 0) {
    add_names(references_);
  } else {
    // Metadata of the store lie where links do not count: `find` refuses them.
    std::error_code unknown;
    for (auto const& entry : std::filesystem::directory_iterator(path_ / folder, unknown))
      if (entry.is_directory(unknown) && !entry.is_symlink(unknown)) names.insert(entry.path().filename().string());
  }
  return {names.begin(), names.end()};
}

}  // namespace graticule::detail::zarr
