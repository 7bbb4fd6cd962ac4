// SPDX-License-Identifier: BSD-3-Clause
#include "errors.hpp"

#include <new>

namespace graticule::c {

namespace {

/// The last error of a thread. The texts are of fixed size in the worst case only: without memory.
struct LastError {
  gr_status status = GR_SUCCESS;
  std::string text;
  std::string rule;
  char const* plain_text = "";  ///< where no memory was left for `text`
};

thread_local LastError last;

}  // namespace

gr_status keep_error(gr_status status, char const* rule, char const* text) noexcept {
  try {
    if (text != nullptr) {
      last.rule = rule;
      last.text = text;
      last.status = status;
      last.plain_text = nullptr;
      return status;
    }
  } catch (std::bad_alloc const&) {
    // Below.
  }
  last.status = GR_ERROR_MEMORY;
  last.rule.clear();
  last.text.clear();
  last.plain_text = "memory could not be allocated";
  return GR_ERROR_MEMORY;
}

}  // namespace graticule::c

using namespace graticule::c;

char const* gr_error_text(void) { return last.plain_text != nullptr ? last.plain_text : last.text.c_str(); }

char const* gr_error_rule(void) { return last.rule.c_str(); }

gr_status gr_error_status(void) { return last.status; }
