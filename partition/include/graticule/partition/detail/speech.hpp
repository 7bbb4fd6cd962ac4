// SPDX-License-Identifier: BSD-3-Clause
// Texts about cells and axes in the conventions of the caller's language.
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <string>

namespace graticule::detail {

/// How texts name cells and axes. `to_string` of a box and of indices obeys it, too.
enum class Speech : std::uint8_t {
  half_open,  ///< C and C++: `[2, 5) x [0, 8)`, counted from 0, the last axis fastest
  fortran,    ///< `(1:8, 3:5)`, inclusive and counted from 1, the first dimension fastest
};

/// That of this thread; `half_open` unless a scope says otherwise.
[[nodiscard]] Speech speech() noexcept;

/// Sets the convention of this thread until the end of a scope.
class SpeechScope {
 public:
  explicit SpeechScope(Speech speech) noexcept;
  SpeechScope(SpeechScope const&) = delete;
  SpeechScope& operator=(SpeechScope const&) = delete;
  ~SpeechScope();

 private:
  Speech before_;
};

/// One of `ndim` axes: `axis 0`, or `dimension 2` of 2.
[[nodiscard]] std::string axis_text(Index axis, Index ndim);
/// The number in it.
[[nodiscard]] Index axis_number(Index axis, Index ndim) noexcept;
/// Axes of `ndim`, such as a permutation: `(1, 0, 2)`; in Fortran for its dimensions, in its order.
[[nodiscard]] std::string axes_text(Indices const& axes, Index ndim);
/// A cell: `(4, 0)`, in Fortran `(1, 5)`.
[[nodiscard]] std::string cell_text(Indices const& cell);
/// A coordinate, or a place in a list: from 0, or from 1.
[[nodiscard]] Index place_number(Index place) noexcept;

}  // namespace graticule::detail
