// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::nn {

/// Keeps memory that tensors on the CPU free, for the next ones, instead of giving it back to the system.
///
/// By default glibc maps blocks of more than 32 MiB afresh for each tensor and the kernel clears every page of them at
/// first touch, which costs more than most layers' messages. After this call such blocks come from the heap, which only
/// grows; a program that works in steps of equal shape then touches no new page after the first steps.
/// Cost: the process keeps its largest size. Call it once at the start of a program; libraries should leave it alone.
/// @return false where the C library has no such setting (it is glibc's `mallopt`)
bool keep_freed_memory() noexcept;

}  // namespace graticule::nn
