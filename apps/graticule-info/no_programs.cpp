// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "program_report.hpp"

namespace graticule::info {

void start_program_reader(int, char**) {}

int show_program(app::Context&, Options const& options) {
  throw Error(Fault::usage, "Unsupported",
              options.file +
                  ": this Graticule was built without LibTorch, which reads exported networks; "
                  "build it with GRATICULE_ENABLE_TORCH=ON");
}

}  // namespace graticule::info
