// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace graticule::program::detail {

using Json = nlohmann::json;

/// @throws Error `BrokenFile`: "in PLACE: WHAT"
[[noreturn]] void malformed(std::string_view place, std::string_view what);

/// Text to JSON. @throws Error `BrokenFile` with the place of the first mistake
[[nodiscard]] Json parse_json(std::string_view text, std::string_view place);

// Members of a checked kind. `place` is where the object lies, for messages. All throw `BrokenFile`.
[[nodiscard]] Json const& member(Json const& object, char const* key, std::string_view place);
[[nodiscard]] Json const& list(Json const& object, char const* key, std::string_view place);
[[nodiscard]] Json const& table(Json const& object, char const* key, std::string_view place);
[[nodiscard]] std::string const& text(Json const& object, char const* key, std::string_view place);
[[nodiscard]] std::int64_t integer(Json const& object, char const* key, std::string_view place);

[[nodiscard]] std::string const& as_text(Json const& value, std::string_view place);
[[nodiscard]] std::int64_t as_integer(Json const& value, std::string_view place);
[[nodiscard]] bool as_boolean(Json const& value, std::string_view place);
/// Numbers, and "Infinity", "-Infinity", "NaN", as Python writes them.
[[nodiscard]] double as_real(Json const& value, std::string_view place);

/// The alternative that a union holds, {"as_int": 3} for instance: its name and its value.
struct Alternative {
  std::string const& name;
  Json const& value;
};
[[nodiscard]] Alternative alternative(Json const& object, std::string_view place);

}  // namespace graticule::program::detail
