// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule::nn {

/// Memory of this process's CPU tensors of 1 MiB and more, in whole pages.
///
/// The kernel clears each page that a process touches for the first time, which costs more than most layers' messages.
/// From the first `Domain` on, pages of freed tensors are therefore kept for the next ones of any thread, in LibTorch's
/// own layers, too. Used and kept bytes together never exceed the most that tensors lately used at once (since 16,384
/// to 32,768 tensors ago), so the peak is that of the tensors. A program whose steps have equal shapes touches hardly
/// any new page after the first.
/// `GRATICULE_TENSOR_MEMORY=system`, a CPU allocator that the program has set by `c10::SetCPUAllocator`, and
/// AddressSanitizer keep this from being set up; both counts are 0 then.
struct TensorMemory {
  Index used_bytes = 0;  ///< by tensors that are alive
  Index kept_bytes = 0;  ///< for later ones

  /// Of this process, at this moment. Cost: one lock.
  [[nodiscard]] static TensorMemory now();
  /// Returns the kept memory to the system, before a phase of the program that needs it otherwise. Later tensors are
  /// mapped anew, and the most that they use at once is counted anew.
  /// Cost: one system call per kept block.
  static void release_kept();
};

namespace detail {
/// Sets up the allocator that `TensorMemory` describes, once in a process.
/// @throws `BadOption` if `GRATICULE_TENSOR_MEMORY` is neither `keep` nor `system`
void keep_tensor_memory();
}  // namespace detail

}  // namespace graticule::nn
