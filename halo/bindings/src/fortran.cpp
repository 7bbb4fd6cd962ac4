// SPDX-License-Identifier: BSD-3-Clause
#include "fortran.hpp"

#include "errors.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace graticule::c {

namespace {

/// @return 0, or the reason why the array cannot be described
int describe(gr_field& field, int type, int rank, std::span<int const> axes, std::span<int const> owned) {
  if (type < 0) return unknown_type;
  if (rank > GR_MAX_AXES) return too_many_axes;
  if (int(axes.size()) > rank) return wrong_axes;
  if (!owned.empty() && int(owned.size()) != rank) return wrong_owned;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] < 1 || axes[a] > rank) return wrong_axes;
    field.grid_axes[axes.size() - 1 - a] = rank - axes[a];
  }
  field.num_grid_axes = int(axes.size());
  for (std::size_t m = 0; m < owned.size(); ++m) field.first[owned.size() - 1 - m] = owned[m] - 1;
  field.has_first = owned.empty() ? 0 : 1;
  return 0;
}

}  // namespace

}  // namespace graticule::c

using namespace graticule::c;

gr_status gr_fortran_wrong_size(char const* function, char const* argument, int found, int expected) {
  try {
    throw bad_argument(std::string(argument) + " has " + std::to_string(found) + " elements, " +
                       std::to_string(expected) + " are needed");
  } catch (...) {
    return record(function, std::current_exception());
  }
}

gr_field const* gr_fortran_address(gr_field const* field) { return field; }

void gr_fortran_field(void* base, int type, int rank, int64_t const* extents, int64_t const* strides, int num_axes,
                      int const* axes, int num_owned, int const* owned, int parity, int kind, gr_field* field) {
  field->size = sizeof(gr_field);
  field->base = base;
  field->parity = gr_parity(parity);
  field->kind = kind;
  int const fault = describe(*field, type, rank, {axes, std::size_t(num_axes)}, {owned, std::size_t(num_owned)});
  field->type = gr_type(fault != 0 ? fault : type);
  field->rank = std::min(rank, GR_MAX_AXES);
  for (int m = 0; m < field->rank; ++m) {
    field->extents[field->rank - 1 - m] = extents[m];
    field->strides[field->rank - 1 - m] = strides[m];
  }
}
