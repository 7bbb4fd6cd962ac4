// SPDX-License-Identifier: BSD-3-Clause
#include "json.hpp"

#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace graticule::detail::zarr {

namespace {

/// Before a number that was bare: no text of a file begins so.
constexpr char bare_mark = '\x01';

struct Named {
  std::string_view name;
  double value;
};
constexpr std::array not_finite{Named{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                Named{"Infinity", std::numeric_limits<double>::infinity()},
                                Named{"-Infinity", -std::numeric_limits<double>::infinity()}};

/// Bare NaN and infinities as texts that `number_of` knows.
std::string strict(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool within_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (within_text) {
      result += c;
      if (c == '\\' && i + 1 < text.size()) result += text[++i];
      if (c == '"') within_text = false;
      continue;
    }
    within_text = c == '"';
    auto const found = std::find_if(not_finite.begin(), not_finite.end(),
                                    [&](Named const& one) { return text.substr(i).starts_with(one.name); });
    if (found == not_finite.end()) {
      result += c;
      continue;
    }
    result += "\"\\u0001" + std::string(found->name) + '"';
    i += found->name.size() - 1;
  }
  return result;
}

bool is_bare(Json const& value) {
  return value.is_string() && value.get_ref<std::string const&>().starts_with(bare_mark);
}

std::string plain_text(Json const& value) {
  auto text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::string const mark = "\\u0001"; text.find(mark) != std::string::npos;)
    text.erase(text.find(mark), mark.size());
  return text;
}

bool is_index(Json const& value) {
  return value.is_boolean() || (value.is_number_integer() &&
                                (!value.is_number_unsigned() ||
                                 value.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<Index>::max())));
}

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint64_t little_endian(std::uint64_t bits) {
  return std::endian::native == std::endian::little ? bits : __builtin_bswap64(bits);
}

void append(std::string& text, Json const& value) {
  auto const list = [&](char open, char close, auto const& items, auto const& one) {
    text += open;
    bool is_first = true;
    for (auto const& item : items) {
      if (!is_first) text += ',';
      is_first = false;
      one(item);
    }
    text += close;
  };
  auto const plain = [](Json const& one) { return one.dump(-1, ' ', false, Json::error_handler_t::replace); };
  if (value.is_object()) {
    list('{', '}', value.items(), [&](auto const& item) {
      text += plain(item.key()) + ':';
      append(text, item.value());
    });
  } else if (value.is_array()) {
    list('[', ']', value, [&](Json const& item) { append(text, item); });
  } else if (is_bare(value)) {
    text += value.get_ref<std::string const&>().substr(1);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    auto const number = value.get<double>();
    text += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  } else {
    text += plain(value);
  }
}

Index index_of(Json const& value) { return value.is_boolean() ? Index(value.get<bool>()) : value.get<Index>(); }

/// Of u64, as attributes of files have it.
Index bits_of(Json const& value) { return Index(value.get<std::uint64_t>()); }

}  // namespace

Json parse(std::string_view text, std::string const& where) {
  try {
    return Json::parse(strict(text));
  } catch (Json::exception const& error) {
    throw Error(Fault::input, "BrokenFile", where + " is not JSON: " + error.what());
  }
}

std::optional<double> number_of(Json const& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return {};
  std::string_view text = value.get_ref<std::string const&>();
  if (text.starts_with(bare_mark)) text.remove_prefix(1);
  for (auto const& one : not_finite)
    if (text == one.name) return one.value;
  return {};
}

Attribute attribute_of(std::string const& name, Json const& value) {
  Attribute attribute;
  attribute.name = name;
  auto const take = [&](ValueType type, auto held) {
    attribute.type = type;
    attribute.value = std::move(held);
    return attribute;
  };
  if (is_index(value)) return take(ValueType::i64, std::vector<Index>{index_of(value)});
  if (value.is_number_unsigned()) return take(ValueType::u64, std::vector<Index>{bits_of(value)});
  if (value.is_number() || is_bare(value)) return take(ValueType::f64, std::vector<double>{*number_of(value)});
  if (value.is_string()) return take(ValueType::text, value.get<std::string>());
  if (value.is_array() && !value.empty()) {
    auto const all = [&](auto const& is) { return std::all_of(value.begin(), value.end(), is); };
    if (all([](Json const& one) { return is_index(one); })) {
      std::vector<Index> numbers;
      for (auto const& one : value) numbers.push_back(index_of(one));
      return take(ValueType::i64, std::move(numbers));
    }
    if (all([](Json const& one) { return one.is_number_unsigned(); })) {
      std::vector<Index> numbers;
      for (auto const& one : value) numbers.push_back(bits_of(one));
      return take(ValueType::u64, std::move(numbers));
    }
    if (all([](Json const& one) { return one.is_number() || is_bare(one); })) {
      std::vector<double> numbers;
      for (auto const& one : value) numbers.push_back(*number_of(one));
      return take(ValueType::f64, std::move(numbers));
    }
    if (all([](Json const& one) { return one.is_string() && !is_bare(one); }))
      return take(ValueType::text, value.get<std::vector<std::string>>());
  }
  return take(ValueType::text, plain_text(value));
}

std::string text_of(Json const& value) {
  std::string text;
  append(text, value);
  return text;
}

Json json_of(Attribute const& attribute) {
  auto const numbers = [](auto const& held, auto const& one) {
    if (held.size() == 1) return Json(one(held.front()));
    auto list = Json::array();
    for (auto const value : held) list.push_back(one(value));
    return list;
  };
  if (auto const* text = std::get_if<std::string>(&attribute.value)) return *text;
  if (auto const* texts = std::get_if<std::vector<std::string>>(&attribute.value)) return *texts;
  if (auto const* reals = std::get_if<std::vector<double>>(&attribute.value))
    return numbers(*reals, [](double value) { return Json(value); });
  bool const is_unsigned = attribute.type == ValueType::u64;  // whose bits an `Index` has
  return numbers(std::get<std::vector<Index>>(attribute.value),
                 [&](Index value) { return is_unsigned ? Json(std::uint64_t(value)) : Json(value); });
}

Json fill_json(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

std::string base64_of(std::span<std::byte const> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t held = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      held = held << 8U | (k < bytes.size() ? std::to_integer<std::uint32_t>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= bytes.size() - i ? base64_digits[held >> (18U - 6U * unsigned(k)) & 63U] : '=';
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t held = 0;
  unsigned num_bits = 0;
  for (char const c : text) {
    auto const digit = base64_digits.find(c);
    if (digit == std::string_view::npos) return {};
    held = (held << 6U | std::uint32_t(digit)) & 0xffffU;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += char(held >> num_bits & 0xffU);
  }
  return bytes;
}

std::string base64_of(double number) {
  auto const bits = little_endian(std::bit_cast<std::uint64_t>(number));
  return base64_of(std::as_bytes(std::span(&bits, 1)));
}

std::optional<double> number_of_base64(std::string_view text) {
  std::uint64_t bits = 0;
  auto const bytes = text.size() == 12 && text.back() == '=' ? bytes_of_base64(text) : std::nullopt;
  if (!bytes || bytes->size() != sizeof bits) return {};
  std::memcpy(&bits, bytes->data(), sizeof bits);
  return std::bit_cast<double>(little_endian(bits));
}

}  // namespace graticule::detail::zarr
