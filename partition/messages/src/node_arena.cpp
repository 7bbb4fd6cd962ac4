// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/node_arena.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace graticule::messages {

#ifdef __linux__

namespace {

constexpr std::size_t page = 4096;
/// Blocks are cut from segments of this size, so that a process needs few of them; larger blocks get their own.
constexpr std::size_t segment_bytes = std::size_t(64) << 20U;
/// A freed block gives its memory back to the system from this size on.
constexpr std::size_t punched_bytes = std::size_t(1) << 20U;
constexpr std::uint64_t magic = 0x6772617469637531U;

/// The first page of each segment; read by peers.
struct Header {
  std::uint64_t magic;
  std::uint64_t serial;
  std::uint64_t bytes;
  std::atomic<std::uint32_t> closed;  ///< the owner has let go: peers unmap it when they next look
};

std::size_t pages(std::size_t bytes) { return (std::max(bytes, std::size_t(1)) + page - 1) / page * page; }

std::byte* map_file(int file, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

/// A memory file of this process and the free runs in it (offset to bytes).
struct Segment {
  SegmentName name;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::map<std::size_t, std::size_t> free;

  Segment() = default;
  Segment(Segment const&) = delete;
  Segment& operator=(Segment const&) = delete;
  ~Segment() {
    if (data) {
      reinterpret_cast<Header*>(data)->closed.store(1, std::memory_order_release);
      munmap(data, bytes);
    }
    if (name.file >= 0) close(int(name.file));
  }
  [[nodiscard]] bool unused() const noexcept { return free.size() == 1 && free.begin()->second == bytes - page; }
};

/// Gives the file its size; false where a limit of the process or a lack of memory forbids it. A limit is reported by a
/// signal, too, which ends a process that has not said otherwise.
bool set_size(int file, std::size_t bytes) {
  sigset_t limit;
  sigset_t before;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  if (pthread_sigmask(SIG_BLOCK, &limit, &before) != 0) return false;
  bool const good = ftruncate(file, off_t(bytes)) == 0;
  bool const limited = !good && errno == EFBIG;
  timespec const now{};
  // One that was blocked before is not ours to take.
  if (limited && sigismember(&before, SIGXFSZ) == 0) (void)sigtimedwait(&limit, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return good;
}

std::unique_ptr<Segment> make_segment(std::size_t bytes, std::uint64_t serial) {
  auto segment = std::make_unique<Segment>();
  int const file = memfd_create("graticule", MFD_CLOEXEC);
  segment->name = {getpid(), file, serial};
  if (file < 0 || !set_size(file, bytes)) return nullptr;
  segment->data = map_file(file, bytes);
  if (!segment->data) return nullptr;
  segment->bytes = bytes;
  segment->free[page] = bytes - page;
  new (segment->data) Header{magic, serial, bytes, 0};
  return segment;
}

/// A peer's segment mapped here.
struct Mapping {
  SegmentName name;
  std::byte* data;
  std::size_t bytes;
};

class Arena {
 public:
  std::optional<NodeBlock> allocate(std::size_t bytes) {
    std::lock_guard const lock(mutex_);
    note_change();
    for (auto const& segment : segments_)
      if (auto block = cut(*segment, pages(bytes))) return block;
    auto segment = make_segment(std::max(segment_bytes, pages(bytes) + page), ++last_serial_);
    if (!segment) return std::nullopt;
    return cut(*segments_.emplace_back(std::move(segment)), pages(bytes));
  }

  void free(NodeBlock const& block) {
    std::lock_guard const lock(mutex_);
    note_change();
    auto const found = std::find_if(segments_.begin(), segments_.end(),
                                    [&](auto const& s) { return s->name == block.address.segment; });
    if (found == segments_.end()) return;
    auto& segment = **found;
    auto const offset = std::size_t(block.address.offset);
    if (block.bytes >= punched_bytes)
      (void)fallocate(int(segment.name.file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset),
                      off_t(block.bytes));
    auto at = segment.free.emplace(offset, block.bytes).first;
    if (auto const next = std::next(at); next != segment.free.end() && at->first + at->second == next->first) {
      at->second += next->second;
      segment.free.erase(next);
    }
    if (at != segment.free.begin()) {
      auto const previous = std::prev(at);
      if (previous->first + previous->second == at->first) {
        previous->second += at->second;
        segment.free.erase(at);
      }
    }
    if (segment.unused() && segment.bytes > segment_bytes) segments_.erase(found);
  }

  std::optional<NodeAddress> find(std::byte const* data, std::size_t bytes) {
    std::lock_guard const lock(mutex_);
    for (auto const& segment : segments_)
      if (data >= segment->data + page && data + bytes <= segment->data + segment->bytes)
        return NodeAddress{segment->name, std::uint64_t(data - segment->data)};
    return std::nullopt;
  }

  std::byte* map(NodeAddress const& address) {
    std::lock_guard const lock(mutex_);
    for (auto const& segment : segments_)
      if (segment->name == address.segment) return segment->data + address.offset;
    for (auto const& mapping : mappings_)
      if (mapping.name == address.segment) return mapping.data + address.offset;
    std::erase_if(mappings_, [this](Mapping const& mapping) {
      if (reinterpret_cast<Header const*>(mapping.data)->closed.load(std::memory_order_acquire) == 0) return false;
      munmap(mapping.data, mapping.bytes);
      note_change();
      return true;
    });
    auto const mapping = open_peer(address.segment);
    if (!mapping.data) return nullptr;
    mappings_.push_back(mapping);
    return mapping.data + address.offset;
  }

  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

 private:
  void note_change() noexcept { changes_.fetch_add(1, std::memory_order_release); }

  static std::optional<NodeBlock> cut(Segment& segment, std::size_t bytes) {
    for (auto at = segment.free.begin(); at != segment.free.end(); ++at) {
      if (at->second < bytes) continue;
      auto const [offset, available] = *at;
      segment.free.erase(at);
      if (available > bytes) segment.free[offset + bytes] = available - bytes;
      return NodeBlock{segment.data + offset, bytes, {segment.name, offset}};
    }
    return std::nullopt;
  }

  static Mapping open_peer(SegmentName const& name) {
    auto const path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
    int const file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return {name, nullptr, 0};
    struct stat status {};
    std::byte* data = nullptr;
    bool const large = fstat(file, &status) == 0 && std::size_t(status.st_size) > page;
    if (large) data = map_file(file, std::size_t(status.st_size));
    close(file);
    if (!data) return {name, nullptr, 0};
    auto const& header = *reinterpret_cast<Header const*>(data);
    if (header.magic == magic && header.serial == name.serial && header.bytes == std::uint64_t(status.st_size))
      return {name, data, std::size_t(status.st_size)};
    munmap(data, std::size_t(status.st_size));
    return {name, nullptr, 0};
  }

  std::mutex mutex_;
  std::atomic<std::uint64_t> changes_{1};
  /// Starts anywhere: a later process may get the number of an earlier one.
  std::uint64_t last_serial_ = std::uint64_t(std::random_device{}()) << 32U;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Mapping> mappings_;
};

Arena& arena() {
  // Never destroyed: fields may be freed after the end of main.
  static auto* const instance = new Arena;
  return *instance;
}

}  // namespace

std::optional<NodeBlock> allocate_node_block(std::size_t bytes) { return arena().allocate(bytes); }
void free_node_block(NodeBlock const& block) noexcept { arena().free(block); }
std::optional<NodeAddress> find_node_address(void const* data, std::size_t bytes) noexcept {
  return arena().find(static_cast<std::byte const*>(data), bytes);
}
std::byte* map_node_address(NodeAddress const& address) noexcept { return arena().map(address); }
std::uint64_t node_memory_changes() noexcept { return arena().changes(); }

#else

std::optional<NodeBlock> allocate_node_block(std::size_t) { return std::nullopt; }
void free_node_block(NodeBlock const&) noexcept {}
std::optional<NodeAddress> find_node_address(void const*, std::size_t) noexcept { return std::nullopt; }
std::byte* map_node_address(NodeAddress const&) noexcept { return nullptr; }
std::uint64_t node_memory_changes() noexcept { return 0; }

#endif

}  // namespace graticule::messages
