// SPDX-License-Identifier: BSD-3-Clause
#include "extension.hpp"

#include "errors.hpp"

#include <map>
#include <mutex>

namespace graticule::c {

namespace {

struct Extensions {
  std::mutex mutex;
  std::map<std::string, int> handles;
};

Extensions& extensions() {
  // Never destroyed: handles may be freed by static objects of the program.
  static auto* const only = new Extensions;
  return *only;
}

}  // namespace

std::string extension_handles() {
  auto& known = extensions();
  std::lock_guard const lock(known.mutex);
  std::string text;
  for (auto const& [name, count] : known.handles)
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text;
}

}  // namespace graticule::c

using namespace graticule::c;

gr_status gr_extension_fail(gr_status status, char const* rule, char const* text) {
  return keep_error(status, rule, text);
}

int gr_extension_started(void) {
  int started = 0;
  return gr_is_initialized(&started) == GR_SUCCESS ? started : 0;
}

void gr_extension_count(char const* name, int change) {
  auto& known = extensions();
  std::lock_guard const lock(known.mutex);
  known.handles[name] += change;
}
