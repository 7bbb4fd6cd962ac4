// SPDX-License-Identifier: BSD-3-Clause
#include "store.hpp"

#include <graticule/partition/error.hpp>

#include "json.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr Index most_text_bytes = Index(1) << 30;

[[noreturn]] void refuse(std::string_view rule, std::string const& text) { throw Error(Fault::input, rule, text); }

bool is_absent(int code) { return code == ENOENT || code == ENOTDIR; }

std::uint64_t little(std::span<std::byte const> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

/// Fields of a zip structure, by their places.
class Fields {
 public:
  explicit Fields(std::span<std::byte const> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t operator()(std::size_t at, std::size_t count) const {
    return little(bytes_.subspan(at, count));
  }

 private:
  std::span<std::byte const> bytes_;
};

constexpr std::uint64_t end_signature = 0x06054b50;
constexpr std::uint64_t end64_signature = 0x06064b50;
constexpr std::uint64_t entry_signature = 0x02014b50;
constexpr std::uint64_t local_signature = 0x04034b50;
constexpr std::size_t end_bytes = 22;
constexpr std::size_t entry_bytes = 46;
constexpr std::size_t local_bytes = 30;
constexpr std::uint64_t none32 = 0xffffffff;

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
    return;
  }
  if (path_.extension() == ".json") {
    read_references();
    return;
  }
  zip_ = std::make_shared<Descriptor const>(open_to_read(path_));
  zip_bytes_ = Index(status.st_size);
  read_zip();
}

void Store::read_zip() {
  auto const broken = [&](std::string const& what) {
    refuse("BrokenFile", path_.string() + " is no whole zip file: " + what);
  };
  auto const bytes_at = [&](Index at, Index count) {
    if (at < 0 || count < 0 || at > zip_bytes_ || count > zip_bytes_ - at) broken("a structure lies beyond its end");
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    if (auto const reason = zip_->read(bytes.data(), count, at); !reason.empty()) broken(reason);
    return bytes;
  };
  // The last structure may be followed by a comment of up to 64 KiB.
  Index const tail = std::min<Index>(zip_bytes_, 65536 + Index(end_bytes));
  auto const last = bytes_at(zip_bytes_ - tail, tail);
  Index end = -1;
  for (Index i = tail - Index(end_bytes); i >= 0 && end < 0; --i)
    if (little(std::span(last).subspan(std::size_t(i), 4)) == end_signature) end = i;
  if (end < 0) broken("it lacks the list of its members");
  Fields const summary{std::span(last).subspan(std::size_t(end), end_bytes)};
  auto count = summary(10, 2);
  auto bytes = summary(12, 4);
  auto first = summary(16, 4);
  if (count == 0xffff || bytes == none32 || first == none32) {
    if (end < 20) broken("it lacks the place of its list of members");
    auto const at = Index(Fields(std::span(last).subspan(std::size_t(end) - 20, 20))(8, 8));
    auto const large = bytes_at(at, 56);
    Fields const field(large);
    if (field(0, 4) != end64_signature) broken("its list of members has no place");
    count = field(32, 8);
    bytes = field(40, 8);
    first = field(48, 8);
  }
  if (bytes > std::uint64_t(zip_bytes_)) broken("its list of members is longer than the file");
  auto const list = bytes_at(Index(first), Index(bytes));
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (list.size() - at < entry_bytes) broken("its list of members is cut off");
    Fields const entry{std::span(list).subspan(at, entry_bytes)};
    if (entry(0, 4) != entry_signature) broken("its list of members is damaged");
    auto const name_bytes = entry(28, 2);
    auto const extra_bytes = entry(30, 2);
    auto const whole = entry_bytes + name_bytes + extra_bytes + entry(32, 2);
    if (list.size() - at < whole) broken("its list of members is cut off");
    auto const* const name = reinterpret_cast<char const*>(list.data() + at + entry_bytes);
    Member member;
    auto packed = entry(20, 4);
    auto plain = entry(24, 4);
    auto header = entry(42, 4);
    auto extra = std::span(list).subspan(at + entry_bytes + name_bytes, extra_bytes);
    while (extra.size() >= 4) {
      auto const length = std::size_t(little(extra.subspan(2, 2)));
      if (extra.size() < 4 + length) break;
      if (little(extra.first(2)) == 1) {  // the sizes that 32 bits do not hold, in this order
        auto rest = extra.subspan(4, length);
        for (auto* value : {&plain, &packed, &header})
          if (*value == none32 && rest.size() >= 8) {
            *value = little(rest.first(8));
            rest = rest.subspan(8);
          }
      }
      extra = extra.subspan(4 + length);
    }
    if (packed > std::uint64_t(zip_bytes_) || header > std::uint64_t(zip_bytes_))
      broken("a member lies beyond its end");
    member.header = Index(header);
    member.bytes = Index(packed);
    member.is_stored = entry(10, 2) == 0 && packed == plain;
    // A member that was written again stands there twice: the last one counts.
    members_[std::string(name, name_bytes)] = member;
    at += whole;
  }
}

std::optional<Item> Store::find_in_zip(std::string const& key) const {
  auto const found = members_.find(key);
  if (found == members_.end()) return {};
  auto const& member = found->second;
  auto const where = path_.string() + ": member " + key;
  if (!member.is_stored)
    refuse("UnsupportedFile",
           where + " is compressed; store members as they are (`zip -0`), Zarr compresses chunks itself");
  std::array<std::byte, local_bytes> local{};
  if (member.header > zip_bytes_ - Index(local_bytes)) refuse("BrokenFile", where + " lies beyond the end of the file");
  if (auto const reason = zip_->read(local.data(), Index(local_bytes), member.header); !reason.empty())
    refuse("BrokenFile", where + " cannot be read: " + reason);
  Fields const field(local);
  if (field(0, 4) != local_signature) refuse("BrokenFile", where + " is not where the list of members says");
  Item item{zip_, nullptr, member.header + Index(local_bytes + field(26, 2) + field(28, 2)), member.bytes};
  if (item.bytes > zip_bytes_ - item.offset) refuse("BrokenFile", where + " lies beyond the end of the file");
  return item;
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
    if (S_ISDIR(status.st_mode)) return {};
    if (!S_ISREG(status.st_mode)) refuse("UnreadableFile", where + " is not a regular file");
    return Item{std::make_shared<Descriptor const>(std::move(next)), nullptr, 0, Index(status.st_size)};
  }
}

namespace {

/// Nothing where it is not base64.
std::optional<std::string> bytes_of_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t held = 0;
  unsigned num_bits = 0;
  for (char const c : text) {
    auto const digit = digits.find(c);
    if (digit == std::string_view::npos) return {};
    held = (held << 6U | std::uint32_t(digit)) & 0xffffU;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += char(held >> num_bits & 0xffU);
  }
  return bytes;
}

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
  auto& file = open_[path.string()];
  if (!file) file = std::make_shared<Descriptor const>(open_to_read(path));
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
  item->read(reinterpret_cast<std::byte*>(text.data()), 0, item->bytes);
  return text;
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
