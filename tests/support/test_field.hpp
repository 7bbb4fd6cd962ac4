// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/node_memory.hpp>

#include "devices/gpu_memory.hpp"
#include "devices/guarded_device.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

namespace graticule::test {

/// Before test code uses memory of fields, which may lie on a device.
inline void open_to_host() {
  if (GuardedDevice::is_wanted()) GuardedDevice::instance().open_to_host();
  if (gpu_is_wanted()) wait_for_gpu();
}

/// Before fields are given to a call. True where they lie on a device.
inline bool close_to_host() {
  if (GuardedDevice::is_wanted()) GuardedDevice::instance().close_to_host();
  if (gpu_is_wanted()) give_to_gpu();
  return GuardedDevice::is_wanted() || gpu_is_wanted();
}

/// Opens the memory of an object that is copied; the first member of it.
struct OpensWhenCopied {
  OpensWhenCopied() = default;
  OpensWhenCopied(OpensWhenCopied const&) { open_to_host(); }
  OpensWhenCopied(OpensWhenCopied&&) noexcept = default;
  OpensWhenCopied& operator=(OpensWhenCopied const&) {
    open_to_host();
    return *this;
  }
  OpensWhenCopied& operator=(OpensWhenCopied&&) noexcept = default;
};

/// Memory of test fields: ordinary, or where `GRATICULE_TEST_MEMORY` is `node` shared by the node, where it is `device`
/// of the guarded device, where it is `gpu` within reach of a GPU.
template <class T>
struct FieldAllocator {
  using value_type = T;

  FieldAllocator() = default;
  template <class U>
  explicit FieldAllocator(FieldAllocator<U> const&) {}

  T* allocate(std::size_t count) {
    if (GuardedDevice::is_wanted()) {
      auto* const memory = static_cast<T*>(GuardedDevice::instance().allocate(count * sizeof(T), 0));
      open_to_host();
      return memory;
    }
    if (gpu_is_wanted()) return static_cast<T*>(allocate_for_gpu(count * sizeof(T)));
    char const* const kind = std::getenv("GRATICULE_TEST_MEMORY");
    if (!kind || std::string_view(kind) != "node") return static_cast<T*>(std::malloc(count * sizeof(T)));
    NodeMemory const memory(count * sizeof(T));
    EXPECT_TRUE(memory.shared());
    shared()[memory.data()] = memory;
    return memory.data<T>();
  }
  void deallocate(T* data, std::size_t) {
    if (GuardedDevice::is_wanted()) return GuardedDevice::instance().release(data);
    if (gpu_is_wanted()) return release_of_gpu(data);
    if (shared().erase(reinterpret_cast<std::byte*>(data)) == 0) std::free(data);
  }
  friend bool operator==(FieldAllocator const&, FieldAllocator const&) { return true; }

 private:
  static std::map<std::byte*, NodeMemory>& shared() {
    static std::map<std::byte*, NodeMemory> memories;
    return memories;
  }
};

/// How the cells of a field lie in memory.
struct MemoryShape {
  Indices grid_axes;     ///< memory axis of each grid axis; the others are batch axes
  Indices slow_to_fast;  ///< memory axes by stride
  Indices padding;       ///< elements left out at the end of each memory axis
  Indices direction;     ///< 1, or -1 for an axis that runs backwards

  /// Batch axes first, last axis contiguous.
  static MemoryShape dense(int num_grid, int num_batch) {
    MemoryShape shape;
    for (int m = 0; m < num_grid + num_batch; ++m) shape.slow_to_fast.push_back(m);
    for (int a = 0; a < num_grid; ++a) shape.grid_axes.push_back(num_batch + a);
    shape.padding = Indices::filled(num_grid + num_batch, 0);
    shape.direction = Indices::filled(num_grid + num_batch, 1);
    return shape;
  }

  /// Grid and batch axes in any order, memory in any order, padded rows.
  static MemoryShape random(Random& random, int num_grid, int num_batch) {
    int const ndim = num_grid + num_batch;
    auto shape = dense(num_grid, num_batch);
    auto const places = random_permutation(random, ndim);
    for (int a = 0; a < num_grid; ++a) shape.grid_axes[a] = places[a];
    shape.slow_to_fast = random_permutation(random, ndim);
    for (auto& padding : shape.padding) padding = std::max<Index>(0, draw(random, -2, 2));
    return shape;
  }

  MemoryShape& run_backwards_at_random(Random& random) {
    for (auto& step : direction) step = draw(random, 0, 2) == 0 ? -1 : 1;
    return *this;
  }
};

/// A field of one rank in memory of its own, with guard elements before, after and between its cells.
///
/// Elements are compared as bits over the whole memory, so a write to a wrong place shows wherever it goes.
template <class T>
class TestField {
 public:
  static constexpr Index guard = 5;

  TestField(Box const& cover, Indices const& batch, MemoryShape const& shape, T const& fill)
      : cover_(cover), batch_(Box::from_extents(batch)), grid_axes_(shape.grid_axes) {
    int const ndim = cover.ndim() + batch.size();
    extents_ = Indices::filled(ndim, -1);
    for (int a = 0; a < cover.ndim(); ++a) extents_[int(grid_axes_[a])] = cover.extent(a);
    for (int m = 0, b = 0; m < ndim; ++m)
      if (extents_[m] < 0) {
        batch_axes_.push_back(m);
        extents_[m] = batch[b++];
      }
    strides_ = Indices::filled(ndim, 0);
    Index size = 1;
    first_ = guard;
    for (int i = ndim - 1; i >= 0; --i) {
      int const m = int(shape.slow_to_fast[i]);
      strides_[m] = size * shape.direction[m];
      if (shape.direction[m] < 0 && extents_[m] > 0) first_ += size * (extents_[m] - 1);
      size *= std::max<Index>(extents_[m], 1) + shape.padding[m];
    }
    memory_.assign(std::size_t(size + 2 * guard), fill);
  }

  [[nodiscard]] Box const& cover() const { return cover_; }
  [[nodiscard]] Box const& batch() const { return batch_; }
  [[nodiscard]] auto const& memory() const {
    open_to_host();
    return memory_;
  }

  [[nodiscard]] std::size_t index(Indices const& batch, Indices const& cell) const {
    Index at = first_;
    for (int b = 0; b < batch.size(); ++b) at += batch[b] * strides_[int(batch_axes_[b])];
    for (int a = 0; a < cell.size(); ++a) at += (cell[a] - cover_.lo(a)) * strides_[int(grid_axes_[a])];
    return std::size_t(at);
  }
  [[nodiscard]] T& at(Indices const& batch, Indices const& cell) {
    open_to_host();
    return memory_[index(batch, cell)];
  }
  [[nodiscard]] T const& at(Indices const& batch, Indices const& cell) const {
    open_to_host();
    return memory_[index(batch, cell)];
  }

  /// Calls `visit(batch, cell)` for all batch elements of all cells of `box`.
  template <class Visit>
  void for_each(Box const& box, Visit&& visit) const {
    for_each_cell(batch_, [&](Indices const& b) { for_each_cell(box, [&](Indices const& cell) { visit(b, cell); }); });
  }

  /// Sets the cells of `box` to `value(batch, cell)`.
  template <class Value>
  void set(Box const& box, Value&& value) {
    for_each(box, [&](Indices const& b, Indices const& cell) { at(b, cell) = value(b, cell); });
  }

  [[nodiscard]] FieldView view() { return view(dtype_of<T>()); }
  /// The same bits as another type of the same size.
  [[nodiscard]] FieldView view(DType dtype) {
    EXPECT_EQ(size_of(dtype), Index(sizeof(T)));
    auto const space = close_to_host() ? MemorySpace::device : MemorySpace::host;
    return {memory_.data() + first_, dtype, extents_, strides_, grid_axes_, space};
  }

  /// Every element of the memory has the bits that `expected` has, guards included.
  [[nodiscard]] testing::AssertionResult holds(TestField const& expected) const {
    if (memory_.size() != expected.memory_.size()) return testing::AssertionFailure() << "other memory";
    open_to_host();
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (std::memcmp(&memory_[i], &expected.memory_[i], sizeof(T)) != 0) return difference(expected, i);
    return testing::AssertionSuccess();
  }

 private:
  [[nodiscard]] testing::AssertionResult difference(TestField const& expected, std::size_t i) const {
    std::string place = "an element outside the field";
    for_each(cover_, [&](Indices const& b, Indices const& cell) {
      if (index(b, cell) == i) place = "cell " + to_string(cell) + " of batch " + to_string(b);
    });
    return testing::AssertionFailure() << place << " of " << to_string(cover_) << " is "
                                       << testing::PrintToString(memory_[i]) << ", not "
                                       << testing::PrintToString(expected.memory_[i]);
  }

  OpensWhenCopied window_;
  Box cover_;
  Box batch_;
  Indices grid_axes_;
  Indices batch_axes_;
  Indices extents_;
  Indices strides_;
  Index first_ = 0;
  std::vector<T, FieldAllocator<T>> memory_;
};

/// Bits that differ for different cells and batch elements, as a `T`.
template <class T>
[[nodiscard]] T bits_of(Indices const& batch, Indices const& cell, std::uint64_t salt = 0) {
  std::uint64_t z = salt + 0x1234567;
  for (auto const* list : {&batch, &cell})
    for (Index i : *list) {
      z = (z ^ std::uint64_t(i)) * 0x9e3779b97f4a7c15U;
      z ^= z >> 29U;
    }
  std::array<std::uint64_t, 2> const words{z * 0xbf58476d1ce4e5b9U, z * 0x94d049bb133111ebU};
  T value{};
  static_assert(sizeof(T) <= sizeof(words));
  std::memcpy(&value, reinterpret_cast<char const*>(words.data()) + sizeof(words) - sizeof(T), sizeof(T));
  return value;
}

/// Up to two batch axes.
inline Indices random_batch(Random& random, Index longest = 3) {
  return random_extents(random, int(draw(random, 0, 2)), longest);
}

/// A field whose cells in `box` hold bits made from their place.
template <class T>
TestField<T> numbered(Box const& box, Indices const& batch, MemoryShape const& shape, std::uint64_t salt = 0) {
  TestField<T> field(box, batch, shape, bits_of<T>({}, {}, 1));
  field.set(box, [&](auto const& b, auto const& cell) { return bits_of<T>(b, cell, salt); });
  return field;
}

}  // namespace graticule::test
