// SPDX-License-Identifier: BSD-3-Clause
// What libraries over libgraticule_c share with it: the last error of a thread, and the handles that exist. They have
// an engine of their own, so that only these functions and those of graticule.h connect the two.
#pragma once

#include <graticule/graticule.h>

#include <string>

extern "C" {

/// The handles of a library that exist.
typedef struct gr_extension_handles {
  char const* (*live)(void);  ///< such as `1 gr_net`, until the next call; empty when there are none
  void (*free_all)(void);
} gr_extension_handles;

/// Keeps an error as the last one of this thread. @return `status`
GR_API gr_status gr_extension_fail(gr_status status, char const* rule, char const* text);
/// `GR_SUCCESS` between `gr_init` and `gr_finalize` while MPI runs, else an error, which is kept.
GR_API gr_status gr_extension_started(void);
/// 1 between `gr_init` and `gr_finalize`.
GR_API int gr_extension_initialized(void);
/// Handles that `gr_finalize` frees before its own. @param handles of static duration
GR_API void gr_extension_add(gr_extension_handles const* handles);
}

namespace graticule::c {

/// Their handles that exist, such as `1 gr_net`; empty when there are none.
[[nodiscard]] std::string extension_handles();
void free_extension_handles();

}  // namespace graticule::c
