// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule::models {

/// Networks that graticule-train trains; see `make_model`. A `program` was exported by PyTorch to a file.
enum class ModelKind : std::uint8_t { convnet, unet, sfno, window, program };

}  // namespace graticule::models
