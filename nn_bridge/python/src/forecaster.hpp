// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/extension.h>

namespace graticule::python {

/// Networks of graticule-train.
void define_forecaster(pybind11::module_& m);

}  // namespace graticule::python
