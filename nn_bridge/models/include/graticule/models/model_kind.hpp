// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace graticule::models {

/// Networks that graticule-train trains; see `make_model`. A `program` was exported by PyTorch to a file.
enum class ModelKind : std::uint8_t { convnet, unet, sfno, window, program };

/// By the names of `--model`, but for `program`, which has the name of its file.
[[nodiscard]] std::map<std::string, ModelKind> const& model_kinds();
/// The name of `--model`.
[[nodiscard]] std::string to_string(ModelKind kind);

}  // namespace graticule::models
