// SPDX-License-Identifier: BSD-3-Clause
#include "allocations.hpp"

#include "mpi/pmpi_shim.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> number{0};

void count() {
  if (!graticule::test::inside_mpi()) ++number;
}

}  // namespace

long graticule::test::num_allocations() { return number; }

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {

// The names under which glibc keeps its own; `free` needs no change.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number_of, std::size_t bytes) {
  count();
  return __libc_calloc(number_of, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}

}  // extern "C"

#else

// Not inlined: GCC 12 takes new and delete for a pair that does not match then.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// The sanitizer's own would not go through ours.
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  count();
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
