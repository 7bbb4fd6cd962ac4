// SPDX-License-Identifier: BSD-3-Clause
#include "fortran.hpp"

#include <graticule/repartition/field_view.hpp>

#include "errors.hpp"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

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

/// Dense arrays that were described and not used yet: a copy is dense.
class Described {
 public:
  void add(void const* base) noexcept { bases_[next_++ % bases_.size()] = base; }
  [[nodiscard]] bool take(void const* base) noexcept {
    auto const found = std::find(bases_.begin(), bases_.end(), base);
    if (found == bases_.end()) return false;
    *found = nullptr;
    return true;
  }

 private:
  std::array<void const*, 16> bases_{};
  std::size_t next_ = 0;
};

thread_local Described described;

bool is_dense(int type, int rank, int64_t const* extents, int64_t const* strides) {
  Index next = type < 0 ? 0 : size_of(DType(type));
  for (int d = 0; d < rank; ++d) {
    if (extents[d] > 1 && strides[d] != next) return false;
    next *= extents[d];
  }
  return next > 0;
}

/// False where the process has no memory: the C library gives long copies back to the system.
bool is_mapped(void const* address) noexcept {
#ifdef __linux__
  unsigned char resident = 0;
  auto const page = std::uintptr_t(::sysconf(_SC_PAGESIZE));
  auto* const begin = reinterpret_cast<void*>(std::uintptr_t(address) / page * page);
  return ::mincore(begin, 1, &resident) == 0 || errno != ENOMEM;
#else
  return address != nullptr;
#endif
}

/// True when these bytes can be allocated, at least in part, so that nobody owns them. Small blocks of the size that
/// were freed before may come first: glibc keeps 7 of a size for each thread apart.
bool can_be_allocated(void const* base, std::size_t num_bytes) noexcept {
  // Compilers may leave out an allocation that they see through.
  static void* (*const volatile allocate)(std::size_t) = std::malloc;
  constexpr std::size_t small_block = 1032;
  std::array<void*, 9> blocks{};
  std::size_t const most = num_bytes <= small_block ? blocks.size() : 1;
  std::size_t count = 0;
  bool meets = false;
  while (!meets && count < most) {
    auto* const block = allocate(num_bytes);
    if (block == nullptr) break;
    blocks[count++] = block;
    auto const from = std::uintptr_t(block);
    auto const first = std::uintptr_t(base);
    meets = from < first + num_bytes && first < from + num_bytes;
  }
  while (count > 0) std::free(blocks[--count]);
  return meets;
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

int gr_fortran_freed(void const* base, int64_t num_bytes) {
  if (num_bytes <= 0 || !described.take(base)) return 0;
  auto const* const last = static_cast<std::byte const*>(base) + num_bytes - 1;
  return !is_mapped(base) || !is_mapped(last) || can_be_allocated(base, std::size_t(num_bytes)) ? 1 : 0;
}

namespace {

thread_local gr_fortran_caller next_caller{};

}  // namespace

void gr_fortran_call(char const* sizes) { next_caller.sizes = sizes; }

void gr_fortran_arrays(void) { next_caller.has_arrays = 1; }

gr_fortran_caller gr_fortran_take(void) { return std::exchange(next_caller, {}); }

int gr_fortran_rank(void) {
  int started = 0;
  int ended = 0;
  int rank = -1;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started != 0 && ended == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

gr_field const* gr_fortran_address(gr_field const* field) { return field; }

void gr_fortran_field(void* base, int type, int rank, int64_t const* extents, int64_t const* strides, int num_axes,
                      int const* axes, int num_owned, int const* owned, int parity, int kind, gr_field* field) {
  *field = {};
  field->size = sizeof(gr_field);
  field->base = base;
  field->parity = gr_parity(parity);
  field->kind = kind;
  int const fault = describe(*field, type, rank, {axes, std::size_t(num_axes)}, {owned, std::size_t(num_owned)});
  field->type = gr_type(fault != 0 ? fault : type);
  field->rank = std::min(rank, GR_MAX_AXES);
  if (is_dense(type, field->rank, extents, strides)) described.add(base);
  for (int m = 0; m < field->rank; ++m) {
    field->extents[field->rank - 1 - m] = extents[m];
    field->strides[field->rank - 1 - m] = strides[m];
  }
}
