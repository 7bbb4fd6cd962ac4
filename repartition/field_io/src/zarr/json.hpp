// SPDX-License-Identifier: BSD-3-Clause
// JSON as Zarr's writers write it: with bare NaN and Infinity.
#pragma once

#include <graticule/field_io/contents.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace graticule::detail::zarr {

using Json = nlohmann::json;

/// @param where for messages @throws `BrokenFile` (input)
[[nodiscard]] Json parse(std::string_view text, std::string const& where);

/// A number, also where JSON has none: NaN and the infinities, bare or as texts. Nothing for other values.
[[nodiscard]] std::optional<double> number_of(Json const& value);

/// Objects and mixed lists become their JSON text.
[[nodiscard]] Attribute attribute_of(std::string const& name, Json const& value);

/// JSON with bare NaN and infinities, as other writers of Zarr write it; `parse` reads it.
[[nodiscard]] std::string text_of(Json const& value);

/// What `attribute_of` reads.
[[nodiscard]] Json json_of(Attribute const& attribute);

/// A number as an array's `fill_value`, which has NaN and the infinities as texts.
[[nodiscard]] Json fill_json(double number);

[[nodiscard]] std::string base64_of(std::span<std::byte const> bytes);
/// Nothing where it is not base64.
[[nodiscard]] std::optional<std::string> bytes_of_base64(std::string_view text);

/// The bytes of a little-endian f64 in base64.
[[nodiscard]] std::string base64_of(double number);

/// `text` must be base64 of eight bytes, a little-endian f64. Nothing where it is not.
[[nodiscard]] std::optional<double> number_of_base64(std::string_view text);

}  // namespace graticule::detail::zarr
