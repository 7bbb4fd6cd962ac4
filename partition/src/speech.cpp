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

Index place_number(Index place) noexcept { return spoken == Speech::fortran ? place + 1 : place; }

}  // namespace graticule::detail
