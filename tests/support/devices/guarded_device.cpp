// SPDX-License-Identifier: BSD-3-Clause
#include "devices/guarded_device.hpp"

#include "devices/gpu_memory.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

namespace graticule::test {

namespace {

constexpr std::size_t arena_bytes = std::size_t(8) << 30U;
constexpr std::size_t block_alignment = 256;
constexpr int most_frames = 24;
constexpr int most_noted = 16;

/// What the signal handler writes down.
struct Access {
  std::byte* address = nullptr;
  int device_of_work = -1;  ///< -1: an access of the host
  int num_frames = 0;
  std::array<void*, most_frames> frames{};
};

/// Identifies an arena on the node.
struct ArenaName {
  std::int64_t process = 0;
  std::int64_t file = -1;
  friend bool operator==(ArenaName const&, ArenaName const&) = default;
};

/// Memory of one device, of this process or of a peer: reserved at once, closed, used from its begin on.
struct Arena {
  ArenaName name;
  int reader = -1;  ///< of a peer: the device of this process for which it was mapped
  std::byte* begin = nullptr;
  std::size_t used = 0;
  int num_open = 0;  ///< work that runs, and the host's window
  std::map<std::byte*, std::size_t> blocks;
  std::multimap<std::size_t, std::byte*> free_blocks;
};

struct Noted {
  std::array<Access, most_noted> accesses{};
  std::atomic<int> number{0};
};

/// Those of peers, whose memory this process has mapped, come after its own.
constexpr int most_peer_arenas = 32;
std::array<Arena, GuardedDevice::num_devices + most_peer_arenas> arenas;
std::atomic<int> num_arenas{GuardedDevice::num_devices};
std::mutex arenas_mutex;
Noted noted;
struct sigaction previous_action;
thread_local int device_of_this_thread = -1;

/// Code of the MPI library and of what it sends with.
struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
constexpr int most_libraries = 256;  // Open MPI alone loads some fifty components
std::array<Code, most_libraries> mpi_code{};
std::atomic<int> num_mpi_code{0};
std::atomic<bool> mpi_is_let_in{false};

int note_code(dl_phdr_info* info, std::size_t, void*) {
  std::string_view const name(info->dlpi_name ? info->dlpi_name : "");
  auto const is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (!is("libmpi") && !is("libuc") && !is("libfabric") && !is("libopen-pal") && !is("/openmpi/")) return 0;
  for (int i = 0; i < info->dlpi_phnum && num_mpi_code < most_libraries; ++i) {
    auto const& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    auto const begin = std::uintptr_t(info->dlpi_addr + part.p_vaddr);
    mpi_code[std::size_t(num_mpi_code++)] = {begin, begin + part.p_memsz};
  }
  return 0;
}

/// Of an access that MPI makes on behalf of host code.
bool is_of_mpi(std::array<void*, most_frames> const& frames, int num_frames) {
  for (int f = 0; f < num_frames; ++f)
    for (int c = 0; c < num_mpi_code; ++c) {
      auto const at = reinterpret_cast<std::uintptr_t>(frames[std::size_t(f)]);
      if (at >= mpi_code[std::size_t(c)].begin && at < mpi_code[std::size_t(c)].end) return true;
    }
  return false;
}

int arena_of(void const* address) {
  for (int d = 0; d < num_arenas; ++d) {
    auto const& arena = arenas[std::size_t(d)];
    if (arena.begin && address >= arena.begin && address < arena.begin + arena_bytes) return d;
  }
  return -1;
}

void on_fault(int, siginfo_t* info, void*) {
  int const error = errno;
  int const device = arena_of(info->si_addr);
  if (device < 0) {
    // Of somebody else: the instruction runs again, and ends as it would without this handler.
    sigaction(SIGSEGV, &previous_action, nullptr);
    errno = error;
    return;
  }
  Access access;
  access.address = static_cast<std::byte*>(info->si_addr);
  access.device_of_work = device_of_this_thread;
  access.num_frames = backtrace(access.frames.data(), most_frames);
  if (!mpi_is_let_in || access.device_of_work >= 0 || !is_of_mpi(access.frames, access.num_frames)) {
    int const n = noted.number.fetch_add(1);
    if (n < most_noted) noted.accesses[std::size_t(n)] = access;
  }
  auto const page_bytes = std::uintptr_t(sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(info->si_addr) / page_bytes * page_bytes);
  mprotect(page, page_bytes, PROT_READ | PROT_WRITE);
  errno = error;
}

std::byte* map_arena(int file) {
  void* const memory = mmap(nullptr, arena_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void protect(Arena& arena, int protection) {
  if (arena.used == 0) return;
  if (mprotect(arena.begin, arena.used, protection) != 0) std::perror("guarded device: mprotect");
}

void open_arena(int device) {
  std::lock_guard const lock(arenas_mutex);
  auto& arena = arenas[std::size_t(device)];
  if (arena.num_open++ == 0) protect(arena, PROT_READ | PROT_WRITE);
}

void close_arena(int device) {
  std::lock_guard const lock(arenas_mutex);
  auto& arena = arenas[std::size_t(device)];
  if (--arena.num_open == 0) protect(arena, PROT_NONE);
}

/// Opens the memory of some devices while work runs that was given to them.
class OpenArenas {
 public:
  explicit OpenArenas(std::vector<int> devices) : devices_(std::move(devices)) {
    for (int const device : devices_) open_arena(device);
  }
  OpenArenas(OpenArenas const&) = delete;
  OpenArenas& operator=(OpenArenas const&) = delete;
  ~OpenArenas() {
    for (int const device : devices_) close_arena(device);
  }

 private:
  std::vector<int> devices_;
};

std::string in_words(Access const& access) {
  int const device = arena_of(access.address);
  std::string text =
      access.device_of_work < 0 ? std::string("host code") : "work of device " + std::to_string(access.device_of_work);
  text += " touched memory of ";
  text += device < GuardedDevice::num_devices ? "device " + std::to_string(device) : std::string("a device of a peer");
  {
    std::lock_guard const lock(arenas_mutex);
    auto const& blocks = arenas[std::size_t(device)].blocks;
    auto const after = blocks.upper_bound(access.address);
    if (after != blocks.begin()) {
      auto const& [begin, bytes] = *std::prev(after);
      auto const offset = std::size_t(access.address - begin);
      if (offset < bytes)
        text += ", byte " + std::to_string(offset) + " of a block of " + std::to_string(bytes);
      else
        text += " that is not allocated";
    }
  }
  char** const names = backtrace_symbols(access.frames.data(), access.num_frames);
  for (int f = 2; names && f < std::min(access.num_frames, 12); ++f) text += "\n    " + std::string(names[f]);
  std::free(names);
  return text;
}

/// Fails a test in which the host touched memory of the device.
class AccessListener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(testing::TestInfo const&) override { GuardedDevice::instance().close_to_host(); }
  void OnTestEnd(testing::TestInfo const&) override {
    for (auto const& access : GuardedDevice::instance().take_accesses()) ADD_FAILURE() << access;
  }
};

}  // namespace

/// Work in order, and the thread that does it.
class GuardedQueue {
 public:
  struct Job {
    std::function<void()> work;
    std::vector<int> devices;  ///< whose memory is open meanwhile
  };

  GuardedQueue(int device, Schedule const& schedule, std::uint64_t seed)
      : device_(device), schedule_(schedule), random_(seed), worker_([this] { run(); }) {}
  GuardedQueue(GuardedQueue const&) = delete;
  GuardedQueue& operator=(GuardedQueue const&) = delete;
  ~GuardedQueue() {
    {
      std::lock_guard const lock(mutex_);
      wanted_ = queued_;
      ends_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  [[nodiscard]] int device() const noexcept { return device_; }

  std::uint64_t push(Job job) {
    std::uint64_t number = 0;
    {
      std::lock_guard const lock(mutex_);
      jobs_.push_back(std::move(job));
      number = ++queued_;
    }
    changed_.notify_all();
    if (schedule_ == Schedule::soon) wait_for(number);
    return number;
  }

  [[nodiscard]] std::uint64_t num_queued() const {
    std::lock_guard const lock(mutex_);
    return queued_;
  }
  [[nodiscard]] std::uint64_t num_pending() const {
    std::lock_guard const lock(mutex_);
    return queued_ - done_;
  }

  bool has_passed(std::uint64_t number) {
    std::lock_guard const lock(mutex_);
    if (done_ >= number) return true;
    wanted_ = std::max(wanted_, number);
    changed_.notify_all();
    return false;
  }

  void wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    wanted_ = std::max(wanted_, number);
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= number; });
  }

 private:
  void run() {
    device_of_this_thread = device_;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        if (jobs_.empty()) return ends_;
        return wanted_ > done_ || schedule_ != Schedule::late;
      });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      auto const pause = std::chrono::microseconds(random_() % 200);
      lock.unlock();
      if (schedule_ == Schedule::at_random) std::this_thread::sleep_for(pause);
      try {
        OpenArenas const open(std::move(job.devices));
        job.work();
      } catch (std::exception const& error) {
        std::fprintf(stderr, "work of the guarded device threw: %s\n", error.what());
        std::abort();
      }
      job.work = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  int device_;
  Schedule const& schedule_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::uint64_t queued_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t wanted_ = 0;  ///< somebody waits for the work up to there
  bool ends_ = false;
  std::minstd_rand random_;
  std::thread worker_;  // last: it uses all others
};

/// What processes share of an event: records of it are numbered.
struct SharedWords {
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> wanted;  ///< a peer waits for the work up to there
  std::atomic<std::uint64_t> done;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The events of this process, in a file that peers map, and the thread that sees what peers wait for.
class GuardedEvents {
 public:
  static constexpr std::size_t most = 4096;
  struct Name {
    std::int64_t process = 0;
    std::int64_t file = -1;
    std::int64_t number = 0;
  };

  GuardedEvents() : file_(memfd_create("guarded events", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, off_t(most * sizeof(SharedWords))) != 0) throw std::bad_alloc();
    words_ = map(file_);
    if (!words_) throw std::bad_alloc();
    std::thread([this] { watch(); }).detach();
  }

  std::optional<detail::OwnEvent> make(int device) {
    std::lock_guard const lock(mutex_);
    if (points_.size() == most) return std::nullopt;
    Name const name{getpid(), file_, std::int64_t(points_.size())};
    points_.emplace_back();
    detail::OwnEvent event{words_ + name.number, device, {}};
    std::memcpy(&event.address.handle, &name, sizeof name);
    event.address.process = name.process;
    return event;
  }

  void record(std::shared_ptr<GuardedQueue> const& queue, detail::OwnEvent const& event) {
    if (queue->device() != event.device) throw std::runtime_error("guarded device: an event of another device");
    auto& words = *static_cast<SharedWords*>(event.native);
    auto const number = words.recorded.load() + 1;
    Point point{number, {queue, queue->push({[&words, number] { words.done.store(number); }, {}})}};
    {
      std::lock_guard const lock(mutex_);
      points_[std::size_t(&words - words_)].push_back(std::move(point));
    }
    words.recorded.store(number);
  }

  /// Work of a queue: blocks until the owner's work up to `number` has run, or the owner has ended.
  static void wait(SharedWords& words, std::uint64_t number, std::int64_t owner) {
    auto before = words.wanted.load();
    while (before < number && !words.wanted.compare_exchange_weak(before, number)) {
    }
    while (words.done.load() < number && kill(pid_t(owner), 0) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  /// Null where a peer's cannot be mapped.
  SharedWords* find(Name const& name) {
    std::lock_guard const lock(mutex_);
    auto& peer = peers_[{name.process, name.file}];
    if (!peer) {
      auto const path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
      int const file = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0) return nullptr;
      peer = map(file);
      close(file);
    }
    return peer ? peer + name.number : nullptr;
  }

 private:
  /// A record, and where it stands in this process.
  struct Point {
    std::uint64_t number;
    QueuePoint at;
  };

  static SharedWords* map(int file) {
    void* const memory = mmap(nullptr, most * sizeof(SharedWords), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<SharedWords*>(memory);
  }

  void watch() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::lock_guard const lock(mutex_);
      for (std::size_t e = 0; e < points_.size(); ++e) {
        auto const wanted = words_[e].wanted.load();
        std::erase_if(points_[e], [&](Point const& point) {
          return point.number <= wanted && point.at.queue->has_passed(point.at.number);
        });
      }
    }
  }

  int file_;
  SharedWords* words_ = nullptr;
  std::mutex mutex_;
  std::vector<std::vector<Point>> points_;  ///< by event: records that peers have not waited for
  std::map<std::pair<std::int64_t, std::int64_t>, SharedWords*> peers_;
};

struct GuardedDevice::State {
  Schedule schedule = Schedule::late;
  std::uint64_t seed = 1;
  std::array<std::shared_ptr<GuardedQueue>, num_devices> defaults;
  std::mutex mutex;
  std::vector<std::weak_ptr<GuardedQueue>> queues;
  std::map<void*, std::size_t> pinned;
  std::multimap<std::size_t, void*> free_pinned;
  std::atomic<bool> window{false};
  GuardedEvents* events = nullptr;  ///< never destroyed, as the thread that watches them

  GuardedEvents& made_events() {
    std::lock_guard const lock(mutex);
    if (!events) events = new GuardedEvents;
    return *events;
  }
  std::shared_ptr<GuardedQueue> new_queue(int device) {
    std::lock_guard const lock(mutex);
    std::erase_if(queues, [](auto const& queue) { return queue.expired(); });
    auto queue = std::make_shared<GuardedQueue>(device, schedule, seed++);
    queues.push_back(queue);
    return queue;
  }
  /// Shared with the caller's `DeviceQueue`, which owns it.
  std::shared_ptr<GuardedQueue> find(DeviceQueue const& queue) {
    if (queue.instance() == nullptr) return defaults[0];
    std::lock_guard const lock(mutex);
    for (auto const& known : queues)
      if (auto held = known.lock(); held.get() == queue.instance()) return held;
    throw std::runtime_error("guarded device: a queue that is none of this device");
  }
};

namespace {

DeviceQueue public_queue(std::shared_ptr<GuardedQueue> const& queue) { return DeviceQueue(queue, queue->device()); }

std::vector<int> devices_of(std::initializer_list<void const*> addresses, int device) {
  std::vector<int> result{device};
  for (auto const* address : addresses) {
    int const d = arena_of(address);
    if (d >= 0 && d != device) result.push_back(d);
  }
  return result;
}

}  // namespace

GuardedDevice::GuardedDevice() : state_(std::make_unique<State>()) {
  for (int d = 0; d < num_devices; ++d) {
    auto& arena = arenas[std::size_t(d)];
    int const file = memfd_create("guarded device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(arena_bytes)) != 0) throw std::bad_alloc();
    arena.name = {getpid(), file};
    arena.begin = map_arena(file);
    if (arena.begin == nullptr) throw std::bad_alloc();
  }
  // The first call loads a library, which the handler must not do.
  std::array<void*, 2> frames{};
  (void)backtrace(frames.data(), int(frames.size()));
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_action);
  if (char const* const asked = std::getenv("GRATICULE_TEST_DEVICE")) {
    std::string_view const text(asked);
    if (text == "soon")
      set_schedule(Schedule::soon);
    else if (text != "late" && !text.empty())
      set_schedule(Schedule::at_random, std::uint64_t(std::atoll(asked)));
  }
  for (int d = 0; d < num_devices; ++d) state_->defaults[std::size_t(d)] = state_->new_queue(d);
}

GuardedDevice& GuardedDevice::instance() {
  if (gpu_is_wanted()) throw std::logic_error("the guarded device in a run on a GPU (GRATICULE_TEST_MEMORY=gpu)");
  // Never destroyed: fields of static duration may live longer than any order of destruction allows.
  static auto* const device = [] {
    auto* const made = new GuardedDevice;
    detail::install_device(made);
    testing::UnitTest::GetInstance()->listeners().Append(new AccessListener);
    return made;
  }();
  return *device;
}

bool GuardedDevice::is_wanted() {
  static bool const wanted = [] {
    char const* const kind = std::getenv("GRATICULE_TEST_MEMORY");
    return kind && std::string_view(kind) == "device";
  }();
  return wanted;
}

void GuardedDevice::set_schedule(Schedule schedule, std::uint64_t seed) {
  state_->schedule = schedule;
  state_->seed = seed;
}

Schedule GuardedDevice::schedule() const noexcept { return state_->schedule; }

std::vector<std::string> GuardedDevice::take_accesses() {
  int const number = noted.number.load();
  std::vector<std::string> result;
  for (int n = 0; n < std::min(number, most_noted); ++n) result.push_back(in_words(noted.accesses[std::size_t(n)]));
  if (number > most_noted) result.push_back("and " + std::to_string(number - most_noted) + " more accesses");
  noted.number.store(0);
  return result;
}

void GuardedDevice::let_mpi_in(bool allowed) {
  num_mpi_code = 0;
  if (allowed) dl_iterate_phdr(note_code, nullptr);
  mpi_is_let_in = allowed;
}

bool GuardedDevice::owns(void const* memory) const noexcept { return arena_of(memory) >= 0; }

DeviceQueue GuardedDevice::make_queue(int device) { return public_queue(state_->new_queue(device)); }

QueuePoint GuardedDevice::record(DeviceQueue const& queue) {
  auto held = state_->find(queue);
  auto const number = held->num_queued();
  return {std::move(held), number};
}

void GuardedDevice::wait(DeviceQueue const& queue, QueuePoint const& point) {
  close_to_host();
  auto const held = state_->find(queue);
  if (held == point.queue || !point.queue) return;
  held->push({[point] { point.queue->wait_for(point.number); }, {}});
}

bool GuardedDevice::has_passed(QueuePoint const& point) {
  return !point.queue || point.queue->has_passed(point.number);
}

void GuardedDevice::wait_for(QueuePoint const& point) {
  close_to_host();
  if (point.queue) point.queue->wait_for(point.number);
}

void GuardedDevice::fence_all(int device) {
  close_to_host();
  std::vector<std::shared_ptr<GuardedQueue>> held;
  {
    std::lock_guard const lock(state_->mutex);
    for (auto const& queue : state_->queues)
      if (auto const alive = queue.lock(); alive && alive->device() == device) held.push_back(alive);
  }
  for (auto const& queue : held) queue->wait_for(queue->num_queued());
}

std::size_t GuardedDevice::num_pending() const {
  std::lock_guard const lock(state_->mutex);
  std::size_t result = 0;
  for (auto const& queue : state_->queues)
    if (auto const alive = queue.lock()) result += alive->num_pending();
  return result;
}

void* GuardedDevice::allocate(std::size_t bytes, int device) {
  close_to_host();
  auto const rounded = (std::max<std::size_t>(bytes, 1) + block_alignment - 1) / block_alignment * block_alignment;
  auto& arena = arenas.at(std::size_t(device));
  std::byte* block = nullptr;
  {
    std::lock_guard const lock(arenas_mutex);
    if (auto const at = arena.free_blocks.find(rounded); at != arena.free_blocks.end()) {
      block = at->second;
      arena.free_blocks.erase(at);
    } else {
      if (rounded > arena_bytes - arena.used) return nullptr;
      block = arena.begin + arena.used;
      auto const page = std::size_t(sysconf(_SC_PAGESIZE));
      auto const covered = (arena.used + page - 1) / page * page;
      arena.used += rounded;
      // Other work may run meanwhile, for which all that is used is open.
      if (arena.num_open > 0 && arena.used > covered)
        mprotect(arena.begin + covered, arena.used - covered, PROT_READ | PROT_WRITE);
    }
    arena.blocks[block] = bytes;
  }
  OpenArenas const open({device});
  std::memset(block, 0xff, rounded);
  return block;
}

void GuardedDevice::release(void* memory) noexcept {
  if (memory == nullptr) return;
  close_to_host();
  int const device = arena_of(memory);
  if (device < 0) std::terminate();
  auto& arena = arenas[std::size_t(device)];
  auto* const block = static_cast<std::byte*>(memory);
  std::size_t rounded = 0;
  {
    std::lock_guard const lock(arenas_mutex);
    auto const at = arena.blocks.find(block);
    if (at == arena.blocks.end()) std::terminate();
    rounded = (std::max<std::size_t>(at->second, 1) + block_alignment - 1) / block_alignment * block_alignment;
    arena.blocks.erase(at);
  }
  {
    OpenArenas const open({device});
    std::memset(block, 0xff, rounded);
  }
  std::lock_guard const lock(arenas_mutex);
  arena.free_blocks.emplace(rounded, block);
}

void GuardedDevice::release_in_order(DeviceQueue const& queue, void* memory) {
  if (memory == nullptr) return;
  auto const held = state_->find(queue);
  held->push({[this, memory] { release(memory); }, {}});
}

void* GuardedDevice::allocate_pinned(std::size_t bytes) {
  std::lock_guard const lock(state_->mutex);
  auto const rounded = (std::max<std::size_t>(bytes, 1) + block_alignment - 1) / block_alignment * block_alignment;
  void* memory = nullptr;
  if (auto const at = state_->free_pinned.find(rounded); at != state_->free_pinned.end()) {
    memory = at->second;
    state_->free_pinned.erase(at);
  } else {
    memory = std::aligned_alloc(block_alignment, rounded);
    if (memory == nullptr) return nullptr;
  }
  std::memset(memory, 0xff, rounded);
  state_->pinned[memory] = rounded;
  return memory;
}

void GuardedDevice::release_pinned(void* memory) noexcept {
  if (memory == nullptr) return;
  std::lock_guard const lock(state_->mutex);
  auto const at = state_->pinned.find(memory);
  if (at == state_->pinned.end()) std::terminate();
  // Kept, so that late work that still uses it does not damage other memory; what it reads is wrong.
  std::memset(memory, 0xff, at->second);
  state_->free_pinned.emplace(at->second, memory);
  state_->pinned.erase(at);
}

void GuardedDevice::copy(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) {
  close_to_host();
  auto const held = state_->find(queue);
  held->push({[=] { std::memcpy(to, from, bytes); }, devices_of({to, from}, held->device())});
}

void GuardedDevice::launch(DeviceQueue const& queue, std::function<void()> kernel) {
  close_to_host();
  auto const held = state_->find(queue);
  std::vector<int> open{held->device()};
  for (int d = num_devices; d < num_arenas; ++d)
    if (arenas[std::size_t(d)].reader == held->device()) open.push_back(d);
  held->push({std::move(kernel), std::move(open)});
}

std::optional<detail::DeviceAddress> GuardedDevice::address_of(void const* memory) {
  int const device = arena_of(memory);
  if (device < 0 || device >= num_devices) return std::nullopt;
  auto const& arena = arenas[std::size_t(device)];
  detail::DeviceAddress address;
  std::memcpy(&address.handle, &arena.name, sizeof arena.name);
  address.offset = std::uint64_t(static_cast<std::byte const*>(memory) - arena.begin);
  return address;
}

std::byte* GuardedDevice::map(detail::DeviceAddress const& address, int device) {
  static_assert(std::is_trivially_copyable_v<ArenaName>);
  ArenaName name;
  std::memcpy(static_cast<void*>(&name), &address.handle, sizeof name);
  std::lock_guard const lock(arenas_mutex);
  for (int d = num_devices; d < num_arenas; ++d) {
    auto const& known = arenas[std::size_t(d)];
    if (known.name == name && known.reader == device) return known.begin + address.offset;
  }
  if (num_arenas == int(arenas.size())) return nullptr;
  auto const path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  int const file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  auto& arena = arenas[std::size_t(num_arenas.load())];
  arena.begin = map_arena(file);
  close(file);
  if (arena.begin == nullptr) return nullptr;
  arena.name = name;
  arena.reader = device;
  arena.used = arena_bytes;
  ++num_arenas;
  return arena.begin + address.offset;
}

std::optional<detail::OwnEvent> GuardedDevice::make_event(int device) { return state_->made_events().make(device); }

void GuardedDevice::record(DeviceQueue const& queue, detail::OwnEvent const& event) {
  close_to_host();
  state_->made_events().record(state_->find(queue), event);
}

bool GuardedDevice::wait_for(DeviceQueue const& queue, detail::EventAddress const& event) {
  close_to_host();
  GuardedEvents::Name name;
  std::memcpy(static_cast<void*>(&name), &event.handle, sizeof name);
  auto* const words = state_->made_events().find(name);
  if (!words) return false;
  auto const number = words->recorded.load();
  auto const owner = name.process;
  state_->find(queue)->push({[words, number, owner] { GuardedEvents::wait(*words, number, owner); }, {}});
  return true;
}

void GuardedDevice::fence(DeviceQueue const& queue) { wait_for(record(queue)); }

DeviceQueue GuardedDevice::queue_of_stream(void* stream, int device) {
  auto const* const wanted = static_cast<GuardedQueue const*>(stream);
  if (wanted == nullptr) return public_queue(state_->defaults.at(std::size_t(device)));
  std::lock_guard const lock(state_->mutex);
  for (auto const& known : state_->queues)
    if (auto const held = known.lock(); held.get() == wanted) {
      if (held->device() != device) throw std::runtime_error("guarded device: a queue of another device");
      return public_queue(held);
    }
  throw std::runtime_error("guarded device: a stream that is none");
}

void* GuardedDevice::stream_of(DeviceQueue const& queue) noexcept { return const_cast<void*>(queue.instance()); }

void GuardedDevice::open_to_host() {
  if (state_->window.exchange(true)) return;
  for (int d = 0; d < num_devices; ++d) open_arena(d);
}

void GuardedDevice::close_to_host() {
  // Work that frees memory says nothing about what the host does.
  if (device_of_this_thread >= 0) return;
  if (!state_->window.load(std::memory_order_relaxed) || !state_->window.exchange(false)) return;
  for (int d = 0; d < num_devices; ++d) close_arena(d);
}

}  // namespace graticule::test
