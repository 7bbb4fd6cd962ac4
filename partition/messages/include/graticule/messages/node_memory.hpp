// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>

namespace graticule::messages {

/// Memory for fields that the other ranks of the node read in place, so that a plan copies each of their cells once.
///
/// Allocated and freed by one rank alone, at any time; fields may lie anywhere in it, and be combined with fields in
/// ordinary memory. Where the system cannot share memory it is ordinary memory, and `shared()` returns false. Aligned
/// to a page.
/// Example: `NodeMemory memory(bytes); Kokkos::View<double**, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>
/// field(memory.data<double>(), rows, columns);`
class NodeMemory {
 public:
  NodeMemory() = default;
  /// The values are unspecified. @throws `std::bad_alloc`
  explicit NodeMemory(std::size_t bytes);

  template <class T = std::byte>
  [[nodiscard]] T* data() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }
  /// True when peers can read it in place.
  [[nodiscard]] bool shared() const noexcept { return shared_; }

 private:
  std::shared_ptr<std::byte> data_;
  bool shared_ = false;
};

}  // namespace graticule::messages
