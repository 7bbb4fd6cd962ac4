// SPDX-License-Identifier: BSD-3-Clause
#include "extension.hpp"

#include "errors.hpp"

#include <mutex>
#include <vector>

namespace graticule::c {

namespace {

struct Extensions {
  std::mutex mutex;
  std::vector<gr_extension_handles const*> all;
};

Extensions& extensions() {
  // Never destroyed: handles may be freed by static objects of the program.
  static auto* const only = new Extensions;
  return *only;
}

std::vector<gr_extension_handles const*> all_extensions() {
  auto& known = extensions();
  std::lock_guard const lock(known.mutex);
  return known.all;
}

}  // namespace

std::string extension_handles() {
  std::string text;
  for (auto const* const one : all_extensions()) {
    std::string const live = one->live();
    if (!live.empty()) text += (text.empty() ? "" : ", ") + live;
  }
  return text;
}

void free_extension_handles() {
  for (auto const* const one : all_extensions()) one->free_all();
}

}  // namespace graticule::c

using namespace graticule::c;

gr_status gr_extension_fail(gr_status status, char const* rule, char const* text) {
  return keep_error(status, rule, text);
}

gr_status gr_extension_started(void) {
  return guarded(__func__, require_started, [] {});
}

int gr_extension_initialized(void) {
  int started = 0;
  return gr_is_initialized(&started) == GR_SUCCESS ? started : 0;
}

void gr_extension_add(gr_extension_handles const* handles) {
  auto& known = extensions();
  std::lock_guard const lock(known.mutex);
  known.all.push_back(handles);
}
