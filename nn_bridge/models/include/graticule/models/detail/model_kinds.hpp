// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model_kind.hpp>

#include <map>
#include <string>

namespace graticule::models {

/// By the names of `--model`, but for `program`, which has the name of its file.
[[nodiscard]] std::map<std::string, ModelKind> const& model_kinds();
/// The name of `--model`.
[[nodiscard]] std::string to_string(ModelKind kind);

}  // namespace graticule::models
