// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include <map>
#include <string>

namespace graticule::training {

/// Named state, in the form of a checkpoint's values.
///
/// Example: `for (auto const& [name, value] : daso.state()) writer.add_value("daso/" + name, value);`
using Values = std::map<std::string, CheckpointValue>;

}  // namespace graticule::training
