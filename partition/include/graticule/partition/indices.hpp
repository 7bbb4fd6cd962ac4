// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace graticule {

/// Global index, extent, stride or count: 64 bits everywhere.
using Index = std::int64_t;

/// Maximum number of axes of a box or a field.
inline constexpr int max_ndim = 8;

/// A list of up to `max_ndim` integers held in place: one value per axis. @throws `AxesMismatch` for more
class Indices {
 public:
  Indices() = default;
  Indices(std::initializer_list<Index> values) : Indices(std::span(values.begin(), values.size())) {}
  explicit Indices(std::span<Index const> values) {
    if (values.size() > std::size_t(max_ndim)) throw_too_many(Index(values.size()));
    size_ = int(values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  /// `size` copies of `value`.
  [[nodiscard]] static Indices filled(int size, Index value) {
    if (size < 0 || size > max_ndim) throw_too_many(size);
    Indices result;
    result.size_ = size;
    std::fill_n(result.values_.begin(), size, value);
    return result;
  }

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] Index& operator[](int axis) noexcept { return values_[std::size_t(axis)]; }
  [[nodiscard]] Index operator[](int axis) const noexcept { return values_[std::size_t(axis)]; }
  [[nodiscard]] Index const* begin() const noexcept { return values_.data(); }
  [[nodiscard]] Index const* end() const noexcept { return values_.data() + size_; }
  [[nodiscard]] Index* begin() noexcept { return values_.data(); }
  [[nodiscard]] Index* end() noexcept { return values_.data() + size_; }

  void push_back(Index value) {
    if (size_ == max_ndim) throw_too_many(max_ndim + 1);
    values_[std::size_t(size_++)] = value;
  }

  friend bool operator==(Indices const& a, Indices const& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  /// Lexicographic order.
  friend bool operator<(Indices const& a, Indices const& b) noexcept {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  [[noreturn]] static void throw_too_many(Index size) {
    throw Error("AxesMismatch",
                "the number of axes must be in [0, " + std::to_string(max_ndim) + "], got " + std::to_string(size));
  }

  std::array<Index, max_ndim> values_{};
  int size_ = 0;
};

/// `(1, 2, 3)`
[[nodiscard]] std::string to_string(Indices const& values);

}  // namespace graticule
