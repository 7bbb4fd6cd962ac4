// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::nn {

/// Retains memory that CPU tensors free for later tensors, instead of returning it to the system.
///
/// By default glibc maps each block of more than 32 MiB anew, and the kernel clears each of its pages at first touch,
/// which costs more than most layers' messages. After this call such blocks come from the heap, which only grows. A
/// program whose steps have equal shapes then touches no new page after the first steps.
/// Cost: the process keeps its peak size. Call it once at the start of a program; libraries should not call it.
/// @return false if the C library lacks this setting (glibc's `mallopt`)
bool keep_freed_memory() noexcept;

}  // namespace graticule::nn
