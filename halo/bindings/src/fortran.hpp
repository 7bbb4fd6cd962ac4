// SPDX-License-Identifier: BSD-3-Clause
// What only the Fortran module calls.
#pragma once

#include <graticule/graticule.h>

extern "C" {

/// Records that an array of a Fortran call has another size than the call needs.
GR_API gr_status gr_fortran_wrong_size(char const* function, char const* argument, int found, int expected);

/// @return its argument
GR_API gr_field const* gr_fortran_address(gr_field const* field);

/// 1 where a field that this thread has just described is memory that has been freed: a copy that the compiler made of
/// the array. gfortran 12 makes one of a component of an array of derived types, although neither the array nor the
/// argument of `gr_field` allows it. Asked once for each description; other copies are not recognised.
GR_API int gr_fortran_freed(void const* base, int64_t num_bytes);

/// Describes the memory of a Fortran array as a field, with its axes in the order of C: the first Fortran axis last.
/// What cannot be described gets a type below 0, which the call that uses the field reports: see `faulty_field`.
/// @param type as in `gr_field`; -1 for one that fields do not have
/// @param extents, strides in bytes, of each dimension in Fortran's order
/// @param axes the dimension (from 1) of each grid axis in Fortran's order; none: the first ones
/// @param field with the initial values of the Fortran type
/// @param owned the place (from 1) of the first owned cell along each dimension; none: unset
GR_API void gr_fortran_field(void* base, int type, int rank, int64_t const* extents, int64_t const* strides,
                             int num_axes, int const* axes, int num_owned, int const* owned, int parity, int kind,
                             gr_field* field);
}

namespace graticule::c {

// Types of fields that cannot be used.
constexpr int unknown_type = -1;
constexpr int too_many_axes = -2;
constexpr int wrong_axes = -3;
constexpr int wrong_owned = -4;
constexpr int wrong_options = -5;

/// Why a field of Fortran has a type below 0.
[[nodiscard]] char const* faulty_field(int type) noexcept;

}  // namespace graticule::c
