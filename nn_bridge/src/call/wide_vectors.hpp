// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define GRATICULE_WIDE_VECTORS 1
#include <immintrin.h>
#endif

namespace graticule::nn::detail {

/// The processor has vectors of 32 bytes, and this build uses them.
[[nodiscard]] inline bool has_wide_vectors() noexcept {
#ifdef GRATICULE_WIDE_VECTORS
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

#ifdef GRATICULE_WIDE_VECTORS

/// Everything that `loops` calls is compiled into this function, for AVX2.
template <class Loops>
__attribute__((target("avx2"), flatten, noinline)) void in_avx2(Loops const& loops) {
  loops();
}

/// to[i] = value(i) for first <= i < last, past the caches but for the ends. `store_fence` orders what follows.
template <class T, class Value>
__attribute__((target("avx2"), flatten, noinline)) void stream_in_avx2(T* to, std::int64_t first, std::int64_t last,
                                                                       Value value) {
  constexpr std::int64_t lanes = 32 / sizeof(T);
  auto i = first;
  for (; i < last && reinterpret_cast<std::uintptr_t>(to + i) % 32 != 0; ++i) to[i] = value(i);
  for (; i + lanes <= last; i += lanes) {
    alignas(32) T values[std::size_t(lanes)];
    for (std::int64_t k = 0; k < lanes; ++k) values[k] = value(i + k);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), *reinterpret_cast<__m256i const*>(values));
  }
  for (; i < last; ++i) to[i] = value(i);
}

#endif

/// Calls `loops`, compiled for AVX2 where the processor has it. Results keep their bits: AVX2 alone does not add a
/// product in one step, and the order of sums is that of the loops.
template <class Loops>
void in_wide_vectors(Loops const& loops) {
#ifdef GRATICULE_WIDE_VECTORS
  if (has_wide_vectors()) {
    in_avx2(loops);
    return;
  }
#endif
  loops();
}

}  // namespace graticule::nn::detail
