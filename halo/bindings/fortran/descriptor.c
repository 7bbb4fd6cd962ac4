// SPDX-License-Identifier: BSD-3-Clause
// Arrays of Fortran by their C descriptors, whose header belongs to the Fortran compiler.
#include <graticule/graticule.h>

#include <ISO_Fortran_binding.h>

// In libgraticule_c, for Fortran only.
void gr_fortran_field(void* base, int type, int rank, int64_t const* extents, int64_t const* strides, int num_axes,
                      int const* axes, int num_owned, int const* owned, int parity, int kind, gr_field* field);
void gr_fortran_descriptor(CFI_cdesc_t* array, int num_axes, int const* axes, int num_owned, int const* owned,
                           int parity, int kind, gr_field* field);

// Several names of types may have one value, so this is no switch.
static int type_of(CFI_type_t type, size_t bytes) {
  if (type == CFI_type_float) return GR_F32;
  if (type == CFI_type_double) return GR_F64;
  if (type == CFI_type_int8_t || type == CFI_type_signed_char) return GR_I8;
  if (type == CFI_type_int16_t) return GR_I16;
  if (type == CFI_type_int32_t) return GR_I32;
  if (type == CFI_type_int64_t) return GR_I64;
  if (type == CFI_type_float_Complex) return GR_C64;
  if (type == CFI_type_double_Complex) return GR_C128;
  if (type == CFI_type_Bool) return GR_U8;
    // Logicals of other sizes, which C does not have, move as integers. flang gives them types of its least integers.
#if defined(CFI_type_Logical) && defined(CFI_type_mask)
  int const is_logical = (type & CFI_type_mask) == CFI_type_Logical;
#else
  int const is_logical =
      type == CFI_type_int_least16_t || type == CFI_type_int_least32_t || type == CFI_type_int_least64_t;
#endif
  if (is_logical && bytes == 2) return GR_I16;
  if (is_logical && bytes == 4) return GR_I32;
  if (is_logical && bytes == 8) return GR_I64;
  return -1;
}

void gr_fortran_descriptor(CFI_cdesc_t* array, int num_axes, int const* axes, int num_owned, int const* owned,
                           int parity, int kind, gr_field* field) {
  int64_t extents[CFI_MAX_RANK];
  int64_t strides[CFI_MAX_RANK];
  for (int d = 0; d < array->rank; ++d) {
    extents[d] = (int64_t)array->dim[d].extent;
    strides[d] = (int64_t)array->dim[d].sm;
  }
  gr_fortran_field(array->base_addr, type_of(array->type, array->elem_len), array->rank, extents, strides, num_axes,
                   axes, num_owned, owned, parity, kind, field);
}
