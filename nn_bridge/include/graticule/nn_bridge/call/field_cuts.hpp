// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

namespace graticule::nn {

/// Where the rows and columns of a domain's fields are cut.
struct FieldCuts {
  Cuts rows;
  Cuts columns;
};

}  // namespace graticule::nn
