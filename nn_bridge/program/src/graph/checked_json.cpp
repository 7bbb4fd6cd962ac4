// SPDX-License-Identifier: BSD-3-Clause
#include "graph/checked_json.hpp"

#include <graticule/partition/error.hpp>

#include <limits>

namespace graticule::program::detail {

void malformed(std::string_view place, std::string_view what) {
  throw Error(Fault::input, "BrokenFile", "in " + std::string(place) + ": " + std::string(what));
}

Json parse_json(std::string_view text, std::string_view place) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (Json::exception const& mistake) {
    malformed(place, mistake.what());
  }
}

Json const& member(Json const& object, char const* key, std::string_view place) {
  if (!object.is_object()) {
    malformed(place, std::string("an object with '") + key + "' is expected");
  }
  auto const found = object.find(key);
  if (found == object.end()) {
    malformed(place, std::string("'") + key + "' is missing");
  }
  return *found;
}

Json const& list(Json const& object, char const* key, std::string_view place) {
  Json const& value = member(object, key, place);
  if (!value.is_array()) {
    malformed(place, std::string("'") + key + "' is not a list");
  }
  return value;
}

Json const& table(Json const& object, char const* key, std::string_view place) {
  Json const& value = member(object, key, place);
  if (!value.is_object()) {
    malformed(place, std::string("'") + key + "' is not an object");
  }
  return value;
}

std::string const& text(Json const& object, char const* key, std::string_view place) {
  return as_text(member(object, key, place), place);
}

std::int64_t integer(Json const& object, char const* key, std::string_view place) {
  return as_integer(member(object, key, place), place);
}

std::string const& as_text(Json const& value, std::string_view place) {
  if (!value.is_string()) {
    malformed(place, "a text is expected");
  }
  return value.get_ref<std::string const&>();
}

std::int64_t as_integer(Json const& value, std::string_view place) {
  if (!value.is_number_integer()) {
    malformed(place, "an integer is expected");
  }
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    malformed(place, "an integer of 64 bits is expected");
  }
  return value.get<std::int64_t>();
}

bool as_boolean(Json const& value, std::string_view place) {
  if (!value.is_boolean()) {
    malformed(place, "true or false is expected");
  }
  return value.get<bool>();
}

double as_real(Json const& value, std::string_view place) {
  if (value.is_number()) {
    return value.get<double>();
  }
  if (value == "Infinity") {
    return std::numeric_limits<double>::infinity();
  }
  if (value == "-Infinity") {
    return -std::numeric_limits<double>::infinity();
  }
  if (value == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  malformed(place, "a number is expected");
}

Alternative alternative(Json const& object, std::string_view place) {
  if (!object.is_object() || object.size() != 1) {
    malformed(place, "an object with one member is expected");
  }
  auto const first = object.begin();
  return {first.key(), first.value()};
}

}  // namespace graticule::program::detail
