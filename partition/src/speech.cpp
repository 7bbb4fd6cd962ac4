// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/speech.hpp>

#include <utility>

namespace graticule::detail {

namespace {

thread_local Speech spoken = Speech::half_open;

}  // namespace

Speech speech() noexcept { return spoken; }

SpeechScope::SpeechScope(Speech speech) noexcept : before_(std::exchange(spoken, speech)) {}

SpeechScope::~SpeechScope() { spoken = before_; }

Index axis_number(Index axis, Index ndim) noexcept { return spoken == Speech::fortran ? ndim - axis : axis; }

std::string axis_text(Index axis, Index ndim) {
  return (spoken == Speech::fortran ? "dimension " : "axis ") + std::to_string(axis_number(axis, ndim));
}

std::string axes_text(Indices const& axes, Index ndim) {
  Indices numbers;
  for (Index const axis : axes) numbers.push_back(axis_number(axis, ndim));
  return to_string(numbers);
}

std::string cell_text(Indices const& cell) {
  Indices numbers;
  for (Index const place : cell) numbers.push_back(place_number(place));
  return to_string(numbers);
}

Index place_number(Index place) noexcept { return spoken == Speech::fortran ? place + 1 : place; }

}  // namespace graticule::detail
