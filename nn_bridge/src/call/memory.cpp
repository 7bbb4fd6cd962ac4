// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/memory.hpp>
#include <graticule/partition/detail/environment.hpp>

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace graticule::nn {

namespace detail {

namespace {

/// Smaller tensors come from LibTorch's own allocator.
constexpr std::size_t least_bytes = std::size_t(1) << 20U;

/// Blocks after which the most used bytes are counted anew.
constexpr std::size_t period = 16384;

/// Blocks of whole pages, mapped from the system; pages of blocks that were given back serve the next ones.
///
/// Kept pages are not bound to the block that they were in: neighbours join, a block may take a part of a run, and what
/// is returned to the system is any run of pages. Any thread may call.
class KeptPages {
 public:
  KeptPages();

  /// @return nullptr if the system has no memory left
  [[nodiscard]] void* take(std::size_t num_bytes);
  [[nodiscard]] bool holds(void* block);
  /// @pre `holds(block)`
  void give_back(void* block) noexcept;
  [[nodiscard]] TensorMemory counts();
  /// Unmaps all kept pages, and counts the most used bytes anew.
  void release();

  /// For the time of a fork, so that no other thread is in a call when the child copies this.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Run {
    std::size_t num_bytes = 0;
    std::size_t age = 0;  ///< number of blocks that had been taken when a part of it was last given back
  };
  using Runs = std::map<char*, Run>;

  [[nodiscard]] char* take_kept(std::size_t num_bytes);
  [[nodiscard]] char* map_new(std::size_t num_bytes);
  void keep(char* block, std::size_t num_bytes);
  /// Returns the runs that were kept longest, until used and kept bytes are at most the most that lately were in use.
  void trim();
  void unmap(Runs::iterator run, std::size_t num_bytes);
  void unmap_all();

  std::mutex mutex_;
  std::size_t page_bytes_;
  Runs kept_;
  std::unordered_map<void*, std::size_t> used_;
  std::size_t kept_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t most_ = 0;         ///< used bytes in this period
  std::size_t most_before_ = 0;  ///< in the period before
  std::size_t num_taken_ = 0;
};

KeptPages::KeptPages() : page_bytes_(std::size_t(::sysconf(_SC_PAGESIZE))) {}

void* KeptPages::take(std::size_t num_bytes) {
  std::lock_guard const lock(mutex_);
  auto const whole = (num_bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  if (++num_taken_ % period == 0) {
    most_before_ = most_;
    most_ = used_bytes_;
  }
  used_bytes_ += whole;
  most_ = std::max(most_, used_bytes_);
  char* block = take_kept(whole);
  trim();
  if (!block) block = map_new(whole);
  if (!block)
    used_bytes_ -= whole;
  else
    used_[block] = whole;
  return block;
}

bool KeptPages::holds(void* block) {
  std::lock_guard const lock(mutex_);
  return used_.contains(block);
}

void KeptPages::give_back(void* block) noexcept {
  std::lock_guard const lock(mutex_);
  auto const found = used_.find(block);
  auto const num_bytes = found->second;
  used_.erase(found);
  used_bytes_ -= num_bytes;
  try {
    keep(static_cast<char*>(block), num_bytes);
  } catch (std::bad_alloc const&) {
    ::munmap(block, num_bytes);
  }
}

TensorMemory KeptPages::counts() {
  std::lock_guard const lock(mutex_);
  return {Index(used_bytes_), Index(kept_bytes_)};
}

void KeptPages::release() {
  std::lock_guard const lock(mutex_);
  unmap_all();
  most_ = used_bytes_;
  most_before_ = 0;
}

char* KeptPages::take_kept(std::size_t num_bytes) {
  auto best = kept_.end();
  for (auto run = kept_.begin(); run != kept_.end(); ++run)
    if (run->second.num_bytes >= num_bytes && (best == kept_.end() || run->second.num_bytes < best->second.num_bytes))
      best = run;
  if (best == kept_.end()) return nullptr;
  auto const [block, run] = *best;
  kept_.erase(best);
  if (run.num_bytes > num_bytes) kept_[block + num_bytes] = {run.num_bytes - num_bytes, run.age};
  kept_bytes_ -= num_bytes;
  return block;
}

char* KeptPages::map_new(std::size_t num_bytes) {
  auto const map = [&] {
    return ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  void* block = map();
  if (block == MAP_FAILED && !kept_.empty()) {
    unmap_all();
    block = map();
  }
  return block == MAP_FAILED ? nullptr : static_cast<char*>(block);
}

void KeptPages::keep(char* block, std::size_t num_bytes) {
  auto const run = kept_.emplace(block, Run{num_bytes, num_taken_}).first;
  kept_bytes_ += num_bytes;
  auto const join = [&](Runs::iterator lower, Runs::iterator upper) {
    if (lower->first + lower->second.num_bytes != upper->first) return lower;
    lower->second = {lower->second.num_bytes + upper->second.num_bytes, num_taken_};
    kept_.erase(upper);
    return lower;
  };
  if (auto const next = std::next(run); next != kept_.end()) join(run, next);
  if (run != kept_.begin()) join(std::prev(run), run);
}

void KeptPages::trim() {
  auto const most = std::max(most_, most_before_);
  while (!kept_.empty() && used_bytes_ + kept_bytes_ > most) {
    auto const oldest = std::min_element(kept_.begin(), kept_.end(),
                                         [](auto const& a, auto const& b) { return a.second.age < b.second.age; });
    unmap(oldest, std::min(oldest->second.num_bytes, used_bytes_ + kept_bytes_ - most));
  }
}

void KeptPages::unmap(Runs::iterator run, std::size_t num_bytes) {
  auto const [block, whole] = *run;
  // The upper part, so that the run keeps its place.
  ::munmap(block + whole.num_bytes - num_bytes, num_bytes);
  kept_bytes_ -= num_bytes;
  if (num_bytes == whole.num_bytes)
    kept_.erase(run);
  else
    run->second.num_bytes -= num_bytes;
}

void KeptPages::unmap_all() {
  while (!kept_.empty()) unmap(kept_.begin(), kept_.begin()->second.num_bytes);
}

/// Lives until the process ends, because tensors may be freed after all static objects.
KeptPages& tensor_pages() {
  static auto* const pages = new KeptPages;
  return *pages;
}

void delete_tensor(void* memory) {
  auto& pages = tensor_pages();
  if (!pages.holds(memory)) return c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
  c10::profiledCPUMemoryReporter().Delete(memory);
  pages.give_back(memory);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t num_bytes) override {
    void* const memory = num_bytes < least_bytes ? nullptr : tensor_pages().take(num_bytes);
    if (!memory) return c10::GetDefaultCPUAllocator()->allocate(num_bytes);
    c10::profiledCPUMemoryReporter().New(memory, num_bytes);
    return {memory, memory, &delete_tensor, c10::Device(c10::DeviceType::CPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &delete_tensor; }
  void copy_data(void* to, void const* from, std::size_t num_bytes) const override {
    default_copy_data(to, from, num_bytes);
  }
};

bool is_wanted() {
  [[maybe_unused]] bool const kept =
      graticule::detail::choice_of_environment("GRATICULE_TENSOR_MEMORY", {"keep", "system"}) == 0;
#if defined(__SANITIZE_ADDRESS__)
  return false;  // It finds a tensor that is used after its end, which kept pages would hide.
#else
  return kept && c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator();
#endif
}

}  // namespace

void keep_tensor_memory() {
  static bool const done = [] {
    if (!is_wanted()) return false;
    (void)tensor_pages();
    ::pthread_atfork([] { tensor_pages().lock(); }, [] { tensor_pages().unlock(); }, [] { tensor_pages().unlock(); });
    c10::SetCPUAllocator(new KeepingAllocator);
    return true;
  }();
  (void)done;
}

}  // namespace detail

TensorMemory TensorMemory::now() { return detail::tensor_pages().counts(); }

void TensorMemory::release_kept() { detail::tensor_pages().release(); }

}  // namespace graticule::nn
