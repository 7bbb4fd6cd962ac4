// SPDX-License-Identifier: BSD-3-Clause
// Ways of copying long runs on the host, and which of them this process uses.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace graticule {

/// One way of copying a run that is longer than what caches should keep. All of them write the same bytes.
struct CopyKernel {
  std::string_view name;     ///< as in `GRATICULE_COPY`
  std::string_view feature;  ///< of the processor that it needs; empty: none
  bool bypasses_caches;      ///< target lines are not read, and leave the caches
  bool fetches_pages;        ///< `copy_run` touches the next pages while it copies one
  /// Copies `bytes`, whole cache lines, to memory that begins one; `from` may lie anywhere. What bypasses the caches is
  /// ordered by the `store_fence` that follows.
  void (*copy_lines)(std::byte* to, std::byte const* from, std::size_t bytes);
};

/// All kernels of this build. Those that come first are preferred where others are no faster.
[[nodiscard]] std::span<CopyKernel const> copy_kernels() noexcept;

/// This processor, and its operating system, have the feature.
[[nodiscard]] bool has_feature(CopyKernel const& kernel) noexcept;

/// Copies any run: cache lines that it only fills in part go through the caches. @pre the runs do not overlap
void copy_run(CopyKernel const& kernel, std::byte* to, std::byte const* from, std::size_t bytes);

/// What other threads and processes see stored after this, a flag that they wait for, is seen after the copies.
void store_fence() noexcept;

/// The kernel of this process, the same in all calls: that of `GRATICULE_COPY`, or the fastest of those that bypass the
/// caches, which a trial of less than 20 ms finds when the first long run is copied. The only place that decides.
/// @throws `BadOption` where `GRATICULE_COPY` names none, or one that this processor lacks
[[nodiscard]] CopyKernel const& copy_kernel();

/// Memory of so many bytes, written whole at once, goes past the caches: by `copy_kernel()` where it is copied, and by
/// stores of their own kind where results are computed on the way, as in norms. False below 16 MiB, and with `memcpy`,
/// which keeps everything in the caches. The only place that decides. @throws as `copy_kernel`
[[nodiscard]] bool writes_past_caches(std::size_t bytes);

/// Replaces the choice, to compare kernels. @pre one of `copy_kernels()`, and this processor has its feature
void use_copy_kernel(CopyKernel const& kernel) noexcept;

/// The kernel, once it has been chosen.
[[nodiscard]] CopyKernel const* chosen_copy_kernel() noexcept;

/// @throws what `copy_kernel` throws; nothing is tried
void check_copy_environment();

/// The kernel that bypasses the caches and is the fastest on memory that no cache holds; one further down the list only
/// where it is faster by 3 %. `memcpy` where there is none.
[[nodiscard]] CopyKernel const& fastest_copy_kernel();

}  // namespace graticule
