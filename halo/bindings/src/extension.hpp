// SPDX-License-Identifier: BSD-3-Clause
// What libraries over libgraticule_c share with it: the last error of a thread, and the handles that exist. They have
// an engine of their own, so that only these functions and those of graticule.h connect the two.
#pragma once

#include <graticule/graticule.h>

#include <string>

extern "C" {

/// Keeps an error as the last one of this thread. @return `status`
GR_API gr_status gr_extension_fail(gr_status status, char const* rule, char const* text);
/// 1 between `gr_init` and `gr_finalize`.
GR_API int gr_extension_started(void);
/// Counts handles, for the text of `gr_finalize`. @param name of static duration
GR_API void gr_extension_count(char const* name, int change);
}

namespace graticule::c {

/// Their handles that exist, such as `1 gr_net`; empty when there are none.
[[nodiscard]] std::string extension_handles();

}  // namespace graticule::c
