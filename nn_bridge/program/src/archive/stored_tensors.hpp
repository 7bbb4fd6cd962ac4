// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "archive/archive.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace graticule::program::detail {

/// The tensors in the text of a table (`model_weights_config.json`), without their content.
/// @param folder of the records, with a slash
[[nodiscard]] std::vector<StoredTensor> read_tensor_table(std::string const& text, std::string const& folder,
                                                          std::string_view place);

}  // namespace graticule::program::detail
