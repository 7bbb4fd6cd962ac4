// SPDX-License-Identifier: BSD-3-Clause
// The handles that exist. Compiled into each library that has handles, which then has a table of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace graticule::c {

/// A type of handles.
struct HandleKind {
  char const* name;        ///< such as `gr_layout`
  void (*free)(void* of);  ///< frees what a handle stands for
};

/// What stands behind the handles of a program.
///
/// A handle is no address, but the place of an entry, how often that place has been used, and a mark of the library: a
/// copy of a handle that was freed, one of another type, and what never was a handle are recognised without reading the
/// memory that they might point to. Any thread may call anything.
class HandleTable {
 public:
  /// The one of this library.
  [[nodiscard]] static HandleTable& get();

  /// Takes what a new handle stands for. @throws `std::bad_alloc` for more than a million handles; it is freed then
  [[nodiscard]] void* add(HandleKind const& kind, void* of);
  /// What a handle of this type stands for; NULL when there is no such handle.
  [[nodiscard]] void* find(HandleKind const& kind, void const* handle) const noexcept {
    auto const* const entry = entry_of(handle);
    if (entry == nullptr || entry->handle.load(std::memory_order_acquire) != std::uintptr_t(handle)) return nullptr;
    return entry->kind == &kind ? entry->of : nullptr;
  }
  /// As `find`; from now on there is no such handle, and the caller frees it.
  [[nodiscard]] void* take(HandleKind const& kind, void const* handle) noexcept;
  /// Why there is no such handle, as in `NAME is a gr_layout that was destroyed`.
  [[nodiscard]] std::string fault(HandleKind const& kind, void const* handle) const;
  /// The handles that exist, such as `2 gr_layout, 1 gr_halo`; empty when there are none.
  [[nodiscard]] std::string live() const;
  /// Frees all of them, the newest first.
  void free_all();

 private:
  struct Entry {
    std::atomic<std::uintptr_t> handle{0};  ///< 0: free
    HandleKind const* kind = nullptr;       ///< of the last handle here
    void* of = nullptr;
    std::uint64_t num_uses = 0;
    std::uint64_t order = 0;
  };
  // Bits of a handle: its place, the number of uses of the place, the mark of the library.
  static constexpr unsigned place_bits = 20;
  static constexpr unsigned use_bits = 28;
  static constexpr std::size_t block_size = 1024;
  using Block = std::array<Entry, block_size>;

  [[nodiscard]] Entry* entry_of(void const* handle) const noexcept {
    auto const bits = std::uintptr_t(handle);
    if (bits >> (place_bits + use_bits) != mark_) return nullptr;
    auto const place = bits & ((std::uintptr_t(1) << place_bits) - 1);
    auto* const block = blocks_[place / block_size].load(std::memory_order_acquire);
    return block == nullptr ? nullptr : &(*block)[place % block_size];
  }
  [[nodiscard]] Entry& entry_at(std::size_t place) const noexcept {
    return (*blocks_[place / block_size].load(std::memory_order_relaxed))[place % block_size];
  }
  [[nodiscard]] std::size_t free_place();
  [[nodiscard]] std::vector<std::uintptr_t> newest_first() const;
  HandleTable();

  std::uintptr_t mark_;
  std::array<std::atomic<Block*>, (std::size_t(1) << place_bits) / block_size> blocks_{};
  mutable std::mutex mutex_;
  std::size_t num_places_ = 0;
  std::vector<std::size_t> free_;
  std::uint64_t num_made_ = 0;
};

}  // namespace graticule::c
