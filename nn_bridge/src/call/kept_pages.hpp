// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/memory.hpp>

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

namespace graticule::nn::detail {

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

/// Sets up the allocator that `TensorMemory` describes, once in a process.
/// @throws `BadOption` if `GRATICULE_TENSOR_MEMORY` is neither `keep` nor `system`
void keep_tensor_memory();

}  // namespace graticule::nn::detail
