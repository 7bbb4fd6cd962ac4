// SPDX-License-Identifier: BSD-3-Clause
#include "handle_table.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace graticule::c {

HandleTable& HandleTable::get() {
  // Never destroyed: static objects of the program may still free handles.
  static auto* const only = new HandleTable;
  return *only;
}

HandleTable::HandleTable() {
  // Tables of other libraries lie elsewhere. No small number is a handle.
  auto const address = std::uintptr_t(this);
  mark_ = ((address >> 6U ^ address >> 22U) & 0x7fffU) | 0x8000U;
}

std::size_t HandleTable::free_place() {
  if (!free_.empty()) {
    auto const place = free_.back();
    free_.pop_back();
    return place;
  }
  auto const block = num_places_ / block_size;
  if (block == blocks_.size()) throw std::bad_alloc();
  // A place that is given back finds room.
  if (free_.capacity() <= num_places_) free_.reserve(2 * num_places_ + block_size);
  if (blocks_[block].load(std::memory_order_relaxed) == nullptr)
    blocks_[block].store(new Block, std::memory_order_release);
  return num_places_++;
}

void* HandleTable::add(HandleKind const& kind, void* of) {
  struct Guard {
    HandleKind const& kind;
    void* of;
    ~Guard() {
      if (of != nullptr) kind.free(of);
    }
  } guard{kind, of};
  std::lock_guard const lock(mutex_);
  auto const place = free_place();
  auto& entry = entry_at(place);
  entry.kind = &kind;
  entry.of = std::exchange(guard.of, nullptr);
  entry.order = ++num_made_;
  auto const use = ++entry.num_uses & ((std::uint64_t(1) << use_bits) - 1);
  auto const handle = mark_ << (place_bits + use_bits) | std::uintptr_t(use) << place_bits | place;
  entry.handle.store(handle, std::memory_order_release);
  return reinterpret_cast<void*>(handle);
}

void* HandleTable::take(HandleKind const& kind, void const* handle) noexcept {
  std::lock_guard const lock(mutex_);
  auto* const of = find(kind, handle);
  if (of == nullptr) return nullptr;
  entry_of(handle)->handle.store(0, std::memory_order_release);
  free_.push_back(std::uintptr_t(handle) & ((std::uintptr_t(1) << place_bits) - 1));
  return of;
}

std::string HandleTable::fault(HandleKind const& kind, void const* handle) const {
  std::lock_guard const lock(mutex_);
  auto const* const entry = entry_of(handle);
  auto const bits = std::uintptr_t(handle);
  auto const use = bits >> place_bits & ((std::uintptr_t(1) << use_bits) - 1);
  std::string const wanted = kind.name;
  if (entry == nullptr || use == 0 || use > (entry->num_uses & ((std::uint64_t(1) << use_bits) - 1)))
    return "is no " + wanted + " of this program";
  if (entry->handle.load(std::memory_order_relaxed) == bits) return "is a " + std::string(entry->kind->name);
  return "is a copy of a handle that was freed, and no " + wanted + " any more";
}

std::string HandleTable::live() const {
  std::lock_guard const lock(mutex_);
  std::vector<std::pair<HandleKind const*, int>> counts;
  for (std::size_t place = 0; place < num_places_; ++place) {
    auto const& entry = entry_at(place);
    if (entry.handle.load(std::memory_order_relaxed) == 0) continue;
    auto const known = std::find_if(counts.begin(), counts.end(), [&](auto const& c) { return c.first == entry.kind; });
    if (known != counts.end())
      ++known->second;
    else
      counts.emplace_back(entry.kind, 1);
  }
  std::string text;
  for (auto const& [kind, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind->name;
  return text;
}

std::vector<std::uintptr_t> HandleTable::newest_first() const {
  std::lock_guard const lock(mutex_);
  std::vector<std::pair<std::uint64_t, std::uintptr_t>> found;
  for (std::size_t place = 0; place < num_places_; ++place) {
    auto const& entry = entry_at(place);
    if (auto const handle = entry.handle.load(std::memory_order_relaxed); handle != 0)
      found.emplace_back(entry.order, handle);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::uintptr_t> handles;
  for (auto const& [order, handle] : found) handles.push_back(handle);
  return handles;
}

void HandleTable::free_all() {
  for (auto const bits : newest_first()) {
    auto const* const handle = reinterpret_cast<void const*>(bits);
    auto const& kind = *entry_of(handle)->kind;
    // What is freed may have freed this one.
    if (auto* const of = take(kind, handle)) kind.free(of);
  }
}

}  // namespace graticule::c
