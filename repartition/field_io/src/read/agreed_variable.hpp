// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <string>
#include <string_view>

namespace graticule::detail {

/// The variable that all ranks name: without one, all of them throw alike. Collective.
/// @throws `ArgumentDisagreement`, `MissingVariable` (input)
[[nodiscard]] inline Variable const& agreed_variable(Comm const& comm, FileContents const& contents,
                                                     std::string_view name) {
  require_same(comm, "ArgumentDisagreement", Hash().add(name).value(), "variable " + std::string(name));
  return contents.variable(name);
}

}  // namespace graticule::detail
