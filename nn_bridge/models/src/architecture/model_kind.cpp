// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/model_kind.hpp>

namespace graticule::models {

std::map<std::string, ModelKind> const& model_kinds() {
  static std::map<std::string, ModelKind> const kinds{{"convnet", ModelKind::convnet},
                                                      {"unet", ModelKind::unet},
                                                      {"sfno", ModelKind::sfno},
                                                      {"window", ModelKind::window}};
  return kinds;
}

std::string to_string(ModelKind kind) {
  if (kind == ModelKind::program) return "program";
  for (auto const& [name, other] : model_kinds())
    if (other == kind) return name;
  return "?";
}

}  // namespace graticule::models
