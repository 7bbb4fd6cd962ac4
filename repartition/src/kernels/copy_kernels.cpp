// SPDX-License-Identifier: BSD-3-Clause
// Copies of long runs. Memory that is written whole need not be read first, and what is written past the caches drives
// nothing useful out of them. Which of the ways is the fastest differs between processors, by up to two.
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define GRATICULE_X86_COPIES 1
#include <immintrin.h>
#endif

namespace graticule {

namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t page = 4096;
constexpr char const* variable = "GRATICULE_COPY";

void copy_by_memcpy(std::byte* to, std::byte const* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#ifdef GRATICULE_X86_COPIES

void copy_by_movsb(std::byte* to, std::byte const* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

void stream_sse2(std::byte* to, std::byte const* from, std::size_t bytes) {
#pragma GCC unroll 4
  for (std::size_t at = 0; at < bytes; at += line_bytes) {
    auto const* const source = reinterpret_cast<__m128i const*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    __m128i const a = _mm_loadu_si128(source);
    __m128i const b = _mm_loadu_si128(source + 1);
    __m128i const c = _mm_loadu_si128(source + 2);
    __m128i const d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

__attribute__((target("avx2"))) void stream_avx2(std::byte* to, std::byte const* from, std::size_t bytes) {
#pragma GCC unroll 4
  for (std::size_t at = 0; at < bytes; at += line_bytes) {
    auto const* const source = reinterpret_cast<__m256i const*>(from + at);
    auto* const target = reinterpret_cast<__m256i*>(to + at);
    __m256i const a = _mm256_loadu_si256(source);
    __m256i const b = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
  }
}

__attribute__((target("avx512f"))) void stream_avx512(std::byte* to, std::byte const* from, std::size_t bytes) {
#pragma GCC unroll 4
  for (std::size_t at = 0; at < bytes; at += line_bytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
}

/// Four pages at a time, where hardware fetches ahead within each page, so that more of memory is under way. Eight
/// lines of each in turn: a load waits for an earlier store to the same place in another page, and large arrays often
/// begin at the same place.
template <void (*stream)(std::byte*, std::byte const*, std::size_t)>
void stream_pages(std::byte* to, std::byte const* from, std::size_t bytes) {
  constexpr std::size_t turn = 8 * line_bytes;
  std::size_t at = 0;
  for (; at + 4 * page <= bytes; at += 4 * page)
    for (std::size_t run = at; run < at + page; run += turn)
      for (std::size_t p = 0; p < 4; ++p) stream(to + run + p * page, from + run + p * page, turn);
  stream(to + at, from + at, bytes - at);
}

/// Of kernels that a trial cannot tell apart, the first is taken.
constexpr std::array kernels{
    CopyKernel{"avx2", "AVX2", true, true, stream_avx2},
    CopyKernel{"avx512", "AVX-512", true, true, stream_avx512},
    CopyKernel{"sse2", "", true, true, stream_sse2},
    CopyKernel{"avx2-pages", "AVX2", true, false, stream_pages<stream_avx2>},
    CopyKernel{"avx512-pages", "AVX-512", true, false, stream_pages<stream_avx512>},
    CopyKernel{"sse2-pages", "", true, false, stream_pages<stream_sse2>},
    CopyKernel{"movsb", "", false, false, copy_by_movsb},
    CopyKernel{"memcpy", "", false, false, copy_by_memcpy},
};

#else

constexpr std::array kernels{CopyKernel{"memcpy", "", false, false, copy_by_memcpy}};

#endif

/// Page by page; a line of the page after the next is fetched meanwhile, on both sides. Hardware fetches ahead within a
/// page, and beyond it only where the translation of its address is known, which takes long in a virtual machine.
void copy_pages(CopyKernel const& kernel, std::byte* to, std::byte const* from, std::size_t bytes) {
  __builtin_prefetch(from + page);
  __builtin_prefetch(to + page);
  std::size_t at = 0;
  for (; at + page < bytes; at += page) {
    if (at + 2 * page < bytes) {
      __builtin_prefetch(from + at + 2 * page);
      __builtin_prefetch(to + at + 2 * page);
    }
    kernel.copy_lines(to + at, from + at, page);
  }
  kernel.copy_lines(to + at, from + at, bytes - at);
}

/// Seconds of the shortest of some copies by each kernel; infinite for those that this processor lacks, and for those
/// that fill the caches: what they leave there is written later, which a short trial does not see.
std::array<double, kernels.size()> trial() {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t bytes = std::size_t(2) << 20U;
  constexpr int num_rounds = 4;
  constexpr double most_seconds = 0.015;
  // What the copy before has written past the caches is what the next one reads.
  std::vector<std::byte> one(bytes);
  std::vector<std::byte> other(bytes);
  std::array<double, kernels.size()> best{};
  best.fill(std::numeric_limits<double>::infinity());
  auto const begin = Clock::now();
  auto const seconds_since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  for (int round = 0; round < num_rounds && (round == 0 || seconds_since(begin) < most_seconds); ++round)
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (!kernels[k].bypasses_caches || !has_feature(kernels[k])) continue;
      auto const start = Clock::now();
      copy_run(kernels[k], other.data(), one.data(), bytes);
      store_fence();
      best[k] = std::min(best[k], seconds_since(start));
      one.swap(other);
    }
  return best;
}

/// The kernel that the environment asks for; null where it leaves the choice.
CopyKernel const* kernel_of_environment() {
  char const* const text = std::getenv(variable);
  std::string_view const value = text ? text : "";
  if (value.empty() || value == "auto") return nullptr;
  auto const* const found = std::ranges::find(kernels, value, &CopyKernel::name);
  if (found == kernels.end()) {
    std::string valid = "auto";
    for (auto const& kernel : kernels)
      valid += (&kernel == &kernels.back() ? " and " : ", ") + std::string(kernel.name);
    throw Error(Fault::usage, "BadOption",
                std::string(variable) + " is '" + std::string(value) + "'; valid are " + valid);
  }
  if (!has_feature(*found))
    throw Error(Fault::usage, "BadOption",
                std::string(variable) + " is '" + std::string(value) + "', which needs " + std::string(found->feature) +
                    "; this processor has none");
  return found;
}

std::atomic<CopyKernel const*> chosen = nullptr;

}  // namespace

std::span<CopyKernel const> copy_kernels() noexcept { return kernels; }

bool has_feature(CopyKernel const& kernel) noexcept {
#ifdef GRATICULE_X86_COPIES
  if (kernel.feature == "AVX2") return __builtin_cpu_supports("avx2") != 0;
  if (kernel.feature == "AVX-512") return __builtin_cpu_supports("avx512f") != 0;
#endif
  return kernel.feature.empty();
}

void copy_run(CopyKernel const& kernel, std::byte* to, std::byte const* from, std::size_t bytes) {
  // Half a line streamed would be read back.
  std::size_t const head =
      std::min((line_bytes - reinterpret_cast<std::uintptr_t>(to) % line_bytes) % line_bytes, bytes);
  std::size_t const lines = (bytes - head) / line_bytes * line_bytes;
  std::memcpy(to, from, head);
  if (kernel.fetches_pages && lines > page)
    copy_pages(kernel, to + head, from + head, lines);
  else if (lines > 0)
    kernel.copy_lines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

void store_fence() noexcept {
#ifdef GRATICULE_X86_COPIES
  _mm_sfence();
#endif
}

CopyKernel const& copy_kernel() {
  if (auto const* const kernel = chosen.load()) return *kernel;
  static CopyKernel const& once = []() -> CopyKernel const& {
    auto const* const asked = kernel_of_environment();
    return asked ? *asked : fastest_copy_kernel();
  }();
  CopyKernel const* none = nullptr;
  chosen.compare_exchange_strong(none, &once);
  return *chosen.load();
}

bool writes_past_caches(std::size_t bytes) {
  return bytes >= std::size_t(detail::least_streamed_bytes) && &copy_kernel() != &kernels.back();
}

void use_copy_kernel(CopyKernel const& kernel) noexcept { chosen = &kernel; }

CopyKernel const* chosen_copy_kernel() noexcept { return chosen; }

void check_copy_environment() { static_cast<void>(kernel_of_environment()); }

CopyKernel const& fastest_copy_kernel() {
  constexpr double gain = 0.97;
  auto const seconds = trial();
  CopyKernel const* best = &kernels.back();
  double shortest = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (seconds[k] < gain * shortest) {
      best = &kernels[k];
      shortest = seconds[k];
    }
  return *best;
}

}  // namespace graticule
