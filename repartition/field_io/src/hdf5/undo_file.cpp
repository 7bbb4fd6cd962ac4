// SPDX-License-Identifier: BSD-3-Clause
#include "undo_file.hpp"

#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/error.hpp>

#include "file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace graticule::detail {

namespace {

namespace fs = std::filesystem;

/// An undo file holds this, the ranges, the fingerprints of the first `num_samples` ranges between them, and the bytes
/// of the ranges.
struct Head {
  std::array<char, 16> magic{'g', 'r', 'a', 't', 'i', 'c', 'u', 'l', 'e', '-', 'u', 'n', 'd', 'o', '-', '1'};
  std::uint64_t host = 0;
  std::int64_t process = 0;
  std::uint64_t inode = 0;
  Index file_bytes = 0;
  std::uint64_t num_ranges = 0;
  std::uint64_t num_samples = 0;
  std::uint64_t sum = 0;  ///< of all that follows
};
static_assert(std::has_unique_object_representations_v<Head>);

constexpr std::size_t most_samples = 64;
constexpr Index sample_bytes = 64;
constexpr Index block_bytes = Index(4) << 20U;

std::uint64_t host_number() { return Hash().add(std::string_view(host_name())).value(); }

fs::path folder_of(fs::path const& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

fs::path undo_of(fs::path const& target) { return folder_of(target) / ("." + target.filename().string() + ".undo"); }

/// The bytes of [0, end) that no range holds.
std::vector<ByteRange> complement(std::vector<ByteRange> ranges, Index end) {
  std::sort(ranges.begin(), ranges.end(), [](auto const& a, auto const& b) { return a.lo < b.lo; });
  std::vector<ByteRange> rest;
  Index at = 0;
  for (auto const& range : ranges) {
    if (std::min(range.lo, end) > at) rest.push_back({at, std::min(range.lo, end)});
    at = std::max(at, range.hi);
  }
  if (end > at) rest.push_back({at, end});
  return rest;
}

/// Reads a file, or throws what `fail` makes of the reason.
template <class Fail>
class Input {
 public:
  Input(int file, Fail fail) : file_(file), fail_(std::move(fail)) {}

  void read(void* data, Index bytes, Index offset) const {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      auto const got = ::pread(file_, at, std::size_t(std::min(bytes, block_bytes)), off_t(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail_(got < 0 ? system_reason(errno) : std::string("it ends early"));
      at += got;
      bytes -= Index(got);
      offset += Index(got);
    }
  }

  /// Calls `visit(bytes, offset)` for the blocks of a range.
  template <class Visit>
  void for_each_block(ByteRange const& range, Visit const& visit) const {
    std::vector<std::byte> block(std::size_t(std::min(block_bytes, range.hi - range.lo)));
    for (Index at = range.lo; at < range.hi; at += Index(block.size())) {
      block.resize(std::size_t(std::min(Index(block.size()), range.hi - at)));
      read(block.data(), Index(block.size()), at);
      visit(block, at);
    }
  }

  /// Of the first and last bytes of a range.
  [[nodiscard]] std::uint64_t fingerprint(ByteRange const& range) const {
    Index const bytes = std::min(sample_bytes, range.hi - range.lo);
    std::array<std::uint64_t, 2 * sample_bytes / sizeof(std::uint64_t)> words{};
    read(words.data(), bytes, range.lo);
    read(words.data() + words.size() / 2, bytes, range.hi - bytes);
    return Hash().add(words).value();
  }

 private:
  int file_;
  Fail fail_;
};

/// A sum over bytes that come in parts.
class Sum {
 public:
  void add(void const* data, std::size_t bytes) {
    auto const* at = static_cast<char const*>(data);
    for (; bytes >= sizeof(std::uint64_t); at += sizeof(std::uint64_t), bytes -= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      hash_.add(word);
    }
    hash_.add(std::string_view(at, bytes));
  }
  [[nodiscard]] std::uint64_t value() const { return hash_.value(); }

 private:
  Hash hash_;
};

std::vector<ByteRange> samples_of(std::vector<ByteRange> const& ranges, Index end) {
  auto between = complement(ranges, end);
  between.resize(std::min(between.size(), most_samples));
  return between;
}

/// Appends to a file.
class Output {
 public:
  Output(Descriptor file, fs::path const& given) : file_(std::move(file)), given_(given) {}

  void add(void const* data, std::size_t bytes) {
    if (auto const why = file_.write(static_cast<std::byte const*>(data), Index(bytes), end_); !why.empty())
      fail_output(given_, why + " (bytes of the file that are saved before it is changed)");
    end_ += Index(bytes);
    sum_.add(data, bytes);
  }
  void write_head(Head head) {
    head.sum = sum_.value();
    if (auto const why = file_.write(reinterpret_cast<std::byte const*>(&head), sizeof head, 0); !why.empty())
      fail_output(given_, why);
  }

 private:
  Descriptor file_;
  fs::path const& given_;
  Index end_ = sizeof(Head);
  Sum sum_;
};

void save(fs::path const& path, fs::path const& target, std::vector<ByteRange> const& unchanged, Index file_bytes,
          std::uint64_t inode, fs::path const& to) {
  auto const source = open_to_read(target);
  Input const input(source.get(), [&](std::string const& why) { fail_output(path, why); });
  auto const ranges = complement(unchanged, file_bytes);
  std::vector<std::uint64_t> samples;
  for (auto const& range : samples_of(ranges, file_bytes)) samples.push_back(input.fingerprint(range));
  Output output(open_to_write(to), path);
  output.add(ranges.data(), ranges.size() * sizeof(ByteRange));
  output.add(samples.data(), samples.size() * sizeof(std::uint64_t));
  for (auto const& range : ranges)
    input.for_each_block(range, [&](auto const& bytes, Index) { output.add(bytes.data(), bytes.size()); });
  Head head;
  head.host = host_number();
  head.process = ::getpid();
  head.inode = inode;
  head.file_bytes = file_bytes;
  head.num_ranges = ranges.size();
  head.num_samples = samples.size();
  output.write_head(head);
}

/// An undo file that is open, and the file that it is of.
class Restoring {
 public:
  Restoring(fs::path const& target, fs::path const& undo, int file)
      : target_(target), undo_(undo), input_(file, Fail{target, undo}) {
    input_.read(&head_, sizeof head_, 0);
    Head const expected;
    struct stat status {};
    auto const bytes = ::fstat(file, &status) == 0 ? std::uint64_t(status.st_size) : 0;
    if (head_.magic != expected.magic || head_.num_ranges > bytes / sizeof(ByteRange) ||
        head_.num_samples > most_samples)
      Fail{target, undo}("it is damaged");
    ranges_.resize(head_.num_ranges);
    samples_.resize(head_.num_samples);
    Index const ranges_bytes = Index(ranges_.size() * sizeof(ByteRange));
    Index const samples_bytes = Index(samples_.size() * sizeof(std::uint64_t));
    input_.read(ranges_.data(), ranges_bytes, sizeof head_);
    input_.read(samples_.data(), samples_bytes, Index(sizeof head_) + ranges_bytes);
    begin_ = Index(sizeof head_) + ranges_bytes + samples_bytes;
    check_sum();
  }

  /// @param file open for reading and writing
  void write_back(Descriptor const& file) const {
    check_identity(file.get());
    Index from = begin_;
    for (auto const& range : ranges_) {
      input_.for_each_block({from, from + range.hi - range.lo}, [&](auto const& bytes, Index at) {
        if (auto const why = file.write(bytes.data(), Index(bytes.size()), range.lo + at - from); !why.empty())
          fail_output(target_, why);
      });
      from += range.hi - range.lo;
    }
    if (::ftruncate(file.get(), off_t(head_.file_bytes)) != 0) fail_output(target_, system_reason(errno));
    sync_to_disk(file, target_);
  }

 private:
  struct Fail {
    fs::path const& target;
    fs::path const& undo;
    void operator()(std::string const& why) const {
      throw Error(Fault::input, "BrokenFile",
                  target.string() + " was left incomplete by a program that was killed, and cannot be restored from " +
                      undo.string() + ": " + why);
    }
  };

  void check_sum() const {
    Sum sum;
    sum.add(ranges_.data(), ranges_.size() * sizeof(ByteRange));
    sum.add(samples_.data(), samples_.size() * sizeof(std::uint64_t));
    Index from = begin_;
    for (auto const& range : ranges_) {
      if (range.lo < 0 || range.hi < range.lo || range.hi > head_.file_bytes) Fail{target_, undo_}("it is damaged");
      input_.for_each_block({from, from + range.hi - range.lo},
                            [&](auto const& bytes, Index) { sum.add(bytes.data(), bytes.size()); });
      from += range.hi - range.lo;
    }
    if (sum.value() != head_.sum) Fail{target_, undo_}("it is damaged");
  }

  /// Whether most of the saved bytes are as they were. Copies of a folder have other inodes.
  template <class Target>
  [[nodiscard]] bool is_similar(Target const& target) const {
    Index num_blocks = 0;
    Index num_same = 0;
    Index from = begin_;
    for (auto const& range : ranges_) {
      for (Index at = range.lo; at < range.hi; at += sample_bytes) {
        ByteRange const block{at, std::min(at + sample_bytes, range.hi)};
        Index const saved = from + at - range.lo;
        num_same += target.fingerprint(block) == input_.fingerprint({saved, saved + block.hi - block.lo}) ? 1 : 0;
        ++num_blocks;
      }
      from += range.hi - range.lo;
    }
    return 2 * num_same > num_blocks;
  }

  /// A file that was put there since must not be written to; a copy of the whole folder may.
  void check_identity(int file) const {
    struct stat status {};
    bool same = ::fstat(file, &status) == 0 && Index(status.st_size) >= head_.file_bytes;
    Input const target(file, [&](std::string const& why) { fail_output(target_, why); });
    if (same && std::uint64_t(status.st_ino) != head_.inode && samples_.empty()) same = is_similar(target);
    auto const between = samples_of(ranges_, head_.file_bytes);
    same = same && between.size() == samples_.size();
    for (std::size_t i = 0; same && i < samples_.size(); ++i) same = target.fingerprint(between[i]) == samples_[i];
    if (!same)
      throw Error(Fault::input, "BrokenFile",
                  undo_.string() + " has the old bytes of another " + target_.filename().string() +
                      ", which a killed program was appending to; remove it, if the present one is complete");
  }

  fs::path const& target_;
  fs::path const& undo_;
  Input<Fail> input_;
  Head head_;
  std::vector<ByteRange> ranges_;
  std::vector<std::uint64_t> samples_;
  Index begin_ = 0;
};

void remove_undo(fs::path const& undo) {
  if (::unlink(undo.c_str()) != 0 && errno != ENOENT) fail_output(undo, system_reason(errno));
  sync_to_disk(folder_of(undo));
}

void write_back(fs::path const& target, fs::path const& undo, int file) {
  Restoring const restoring(target, undo, file);
  Descriptor const changed(::open(target.c_str(), O_RDWR | O_CLOEXEC));
  if (changed.get() < 0)
    throw Error(Fault::input, "BrokenFile",
                target.string() +
                    " was left incomplete by a program that was killed while it appended, and cannot be "
                    "restored: " +
                    system_reason(errno) + "; open it where it can be written to");
  restoring.write_back(changed);
  remove_undo(undo);
}

/// Only the owner of a file, and root, may say what its bytes were.
bool is_trusted(int undo, fs::path const& target) {
  struct stat one {};
  struct stat other {};
  return ::fstat(undo, &one) == 0 && ::stat(target.c_str(), &other) == 0 && S_ISREG(one.st_mode) &&
         (one.st_uid == other.st_uid || one.st_uid == 0);
}

/// Where the lock does not tell it: whether the program that made an undo file is still there.
bool may_live(int undo, Locked locked, Unseen unseen) {
  Head head;
  if (::pread(undo, &head, sizeof head, 0) != ssize_t(sizeof head)) return false;
  if (head.host == host_number()) return locked == Locked::unknown && process_lives(long(head.process));
  return unseen == Unseen::lives && (locked == Locked::unknown || locks_stay_on_host(undo));
}

}  // namespace

FileStamp stamp_of(fs::path const& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {std::uint64_t(status.st_ino), Index(status.st_size), std::int64_t(status.st_mtim.tv_sec),
          std::int64_t(status.st_mtim.tv_nsec)};
}

UndoFile::UndoFile(fs::path const& path, std::vector<ByteRange> unchanged, FileStamp const& seen) : path_(path) {
  auto const target = linked_path(path);
  undo_ = undo_of(target);
  auto const in_use = [&] { fail_output(path, "another program appends to it"); };
  if (restore_interrupted(path, Unseen::has_ended) == Interrupted::in_use) in_use();
  {
    TemporaryFile saved(undo_);
    save(path, target, unchanged, seen.bytes, seen.inode, saved.path());
    struct stat other {};
    if (::lstat(undo_.c_str(), &other) == 0) fail_output(path, undo_.string() + ", of another program, is in the way");
    file_ = Descriptor(saved.publish_locked());
  }
  if (stamp_of(path) == seen) return;
  drop();
  fail_output(path, "another program has changed it meanwhile");
}

void UndoFile::drop() {
  remove_undo(undo_);
  file_ = {};
}

void UndoFile::restore() {
  write_back(linked_path(path_), undo_, file_.get());
  file_ = {};
}

Interrupted restore_interrupted(fs::path const& path, Unseen unseen) {
  // The folder of what symbolic links lead to has the file beside it.
  std::error_code error;
  auto const target = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  auto const undo = undo_of(target);
  struct stat found {};
  if (error || ::lstat(undo.c_str(), &found) != 0) return Interrupted::no;
  auto kind = LockKind::exclusive;
  Descriptor file(::open(undo.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
    kind = LockKind::shared;
    file = Descriptor(::open(undo.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  }
  if (file.get() < 0 && errno == ENOENT) return Interrupted::no;
  if (file.get() < 0)
    throw Error(Fault::input, "BrokenFile",
                target.string() + " was left incomplete by a program that was killed while it appended, and " +
                    undo.string() + " cannot be read: " + system_reason(errno));
  auto const locked = lock_file(file.get(), kind);
  if (locked == Locked::by_another || may_live(file.get(), locked, unseen)) return Interrupted::in_use;
  // The program that had it locked may have ended well in between.
  if (!is_name_of(undo, file.get())) return Interrupted::no;
  if (!is_trusted(file.get(), target)) return Interrupted::no;
  write_back(target, undo, file.get());
  return Interrupted::restored;
}

void forget_interrupted(fs::path const& path) noexcept {
  try {
    static_cast<void>(restore_interrupted(path, Unseen::lives));
  } catch (Error const&) {
    ::unlink(undo_of(path).c_str());
  }
}

}  // namespace graticule::detail
