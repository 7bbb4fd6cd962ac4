// SPDX-License-Identifier: BSD-3-Clause
// What only the Fortran module calls.
#pragma once

#include <graticule/graticule.h>
#include <graticule/partition/detail/speech.hpp>

#include <string>

extern "C" {

/// Records that an array of a Fortran call has another size than the call needs.
GR_API gr_status gr_fortran_wrong_size(char const* function, char const* argument, int found, int expected);

/// Announces that the next function of this thread is called by Fortran, with texts for Fortran.
/// @param sizes what Fortran has instead of numbers of elements: `ndim=size(extents);num_kinds=size(kinds);`, static
GR_API void gr_fortran_call(char const* sizes);
/// Announces that the next `gr_fortran_call` passes descriptions of the arrays that the caller passes.
GR_API void gr_fortran_arrays(void);

/// How Fortran has called.
typedef struct gr_fortran_caller {
  char const* sizes;  ///< NULL: another language calls
  int has_arrays;     ///< 1: arrays instead of descriptions of them
} gr_fortran_caller;
/// What `gr_fortran_call` has announced; once.
GR_API gr_fortran_caller gr_fortran_take(void);

/// Rank of this process in MPI_COMM_WORLD; -1 before and after MPI.
GR_API int gr_fortran_rank(void);

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
/// @param field written as a whole
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

/// The caller of the exported function that this thread is in.
class FortranScope {
 public:
  explicit FortranScope(gr_fortran_caller const& caller) noexcept;
  FortranScope(FortranScope const&) = delete;
  FortranScope& operator=(FortranScope const&) = delete;
  ~FortranScope();

 private:
  gr_fortran_caller before_;
  detail::SpeechScope speech_;
};

[[nodiscard]] bool speaks_fortran() noexcept;
/// Fortran passes the arrays themselves, which live until the call returns.
[[nodiscard]] bool passes_arrays() noexcept;
/// The name of an argument: of a number of elements in Fortran, `size(extents)`.
[[nodiscard]] std::string argument_text(char const* name);
/// A text that may begin with such a name, or with a member of a structure: `kinds(1)%ndim is 3`.
[[nodiscard]] std::string words_of_caller(std::string const& text);
/// An element of a list: `fields[0]`; in Fortran `fields(1)`, or `field1` where arrays were passed.
[[nodiscard]] std::string element_text(char const* list, int number);

/// Why a field of Fortran has a type below 0.
[[nodiscard]] char const* faulty_field(int type) noexcept;

}  // namespace graticule::c
