// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace graticule::detail {

/// Copies of few elements, as a small halo has them: 80 bytes each where a task has 400, run in loops of their own.
class SmallCopies {
 public:
  /// The side of the copies that lies in a message, which may move.
  enum class InMessage : std::uint8_t { none, to, from };

  void clear() noexcept { copies_.clear(); }
  /// True where it holds the copies of all tasks. Nothing is held where one of them is no copy (or negation of
  /// floating-point numbers) of few elements of 4 or 8 bytes along one or two axes.
  /// @param message where it lies now
  bool set(std::span<StridedTask const> tasks, InMessage side, std::byte const* message);
  [[nodiscard]] bool empty() const noexcept { return copies_.empty(); }
  /// Copies to or from the message, which now lies at `message`.
  void run(std::byte const* message) const noexcept;

 private:
  /// Strides are in bytes.
  struct Copy {
    std::byte* to;
    std::byte const* from;
    std::uint32_t rows;
    std::uint32_t count;  ///< in each row
    std::ptrdiff_t to_row;
    std::ptrdiff_t from_row;
    std::ptrdiff_t to_step;
    std::ptrdiff_t from_step;
    std::uint64_t flip;           ///< bits that change
    std::uint32_t element_bytes;  ///< 4 or 8
    bool dense;
  };

  template <std::size_t bytes>
  static void run_short(Copy const& copy, std::byte* to, std::byte const* from) noexcept;
  template <class T>
  static void run(Copy const& copy, std::byte* to, std::byte const* from) noexcept;

  std::vector<Copy> copies_;
  InMessage side_ = InMessage::none;
  std::byte const* message_ = nullptr;
};

}  // namespace graticule::detail
