// SPDX-License-Identifier: BSD-3-Clause
// What C sees of an array of descriptors.f90.
#include <ISO_Fortran_binding.h>

int graticule_describes(CFI_cdesc_t* array, int rank, int extent, int stride);

int graticule_describes(CFI_cdesc_t* array, int rank, int extent, int stride) {
  int const type = rank == 1 ? CFI_type_int : CFI_type_double;
  return array->rank == rank && array->dim[0].extent == extent && array->dim[0].sm == stride && array->type == type;
}
