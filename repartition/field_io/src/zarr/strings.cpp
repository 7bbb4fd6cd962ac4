// SPDX-License-Identifier: BSD-3-Clause
#include "strings.hpp"

#include <graticule/partition/cells.hpp>
#include <graticule/partition/error.hpp>

#include "reader.hpp"

#include <cstring>
#include <span>

namespace graticule::detail::zarr {

namespace {

[[noreturn]] void damaged_strings(std::string const& what) {
  throw Error(Fault::input, "BrokenFile", "a chunk of strings is damaged: " + what);
}

void append_utf8(std::string& text, std::uint32_t point) {
  bool const is_half = point >= 0xd800U && point < 0xe000U;
  if (point > 0x10ffffU || is_half) damaged_strings("no character has the number " + std::to_string(point));
  auto const more = [&](unsigned shift) { text += char(0x80U | (point >> shift & 0x3fU)); };
  if (point < 0x80U) {
    text += char(point);
  } else if (point < 0x800U) {
    text += char(0xc0U | point >> 6U);
    more(0);
  } else if (point < 0x10000U) {
    text += char(0xe0U | point >> 12U);
    more(6), more(0);
  } else {
    text += char(0xf0U | point >> 18U);
    more(12), more(6), more(0);
  }
}

void drop_zeros(std::string& text) { text.erase(text.find_last_not_of('\0') + 1); }

/// The strings of a chunk of variable length.
std::vector<std::string> strings_of(std::span<std::byte const> bytes, Index count) {
  auto const number = [&] {
    std::uint32_t value = 0;
    if (bytes.size() < sizeof value) damaged_strings("it ends too early");
    for (std::size_t i = sizeof value; i-- > 0;) value = value << 8U | std::to_integer<std::uint32_t>(bytes[i]);
    bytes = bytes.subspan(sizeof value);
    return std::size_t(value);
  };
  if (auto const said = number(); said != std::size_t(count))
    damaged_strings("it has " + std::to_string(said) + " strings instead of " + std::to_string(count));
  std::vector<std::string> strings;
  for (Index i = 0; i < count; ++i) {
    auto const length = number();
    if (length > bytes.size()) damaged_strings("it ends too early");
    strings.emplace_back(reinterpret_cast<char const*>(bytes.data()), length);
    drop_zeros(strings.back());
    bytes = bytes.subspan(length);
  }
  return strings;
}

Indices product(Indices a, Indices const& b) {
  for (int axis = 0; axis < a.size(); ++axis) a[axis] *= b[axis];
  return a;
}

/// Errors that name the key.
auto within(std::string const& key, auto const& action) {
  try {
    return action();
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), key + ": " + error.text());
  }
}

class StringReader {
 public:
  StringReader(Store const& store, std::string const& key, Array const& array, Index most_bytes)
      : store_(store), key_(key), array_(array), most_bytes_(most_bytes) {}

  /// Strings of a fixed number of characters, as numbers.
  std::optional<std::vector<std::string>> of_fixed_length(Index count) {
    Index const characters = array_.extents[array_.extents.size() - 1];
    if (count > most_bytes_ / characters) return {};
    // No character has this number.
    std::uint32_t const absent_point = array_.fill_text.empty() ? 0 : 0xffffffffU;
    Array numbers = array_;
    numbers.fill.resize(sizeof absent_point);
    std::memcpy(numbers.fill.data(), &absent_point, sizeof absent_point);
    ArrayReader reader(store_, key_, numbers, 1);
    std::vector<std::uint32_t> points(std::size_t(count * characters));
    Slab const all{Indices::filled(array_.extents.size(), 0), Indices::filled(array_.extents.size(), 1),
                   array_.extents};
    if (count > 0) reader.read(all, reinterpret_cast<std::byte*>(points.data()));
    std::vector<std::string> strings{std::size_t(count)};
    for (std::size_t i = 0; i < points.size(); ++i) {
      auto& text = strings[i / std::size_t(characters)];
      if (absent_point == 0 || points[i] != absent_point)
        append_utf8(text, points[i]);
      else if (i % std::size_t(characters) == 0)
        text = array_.fill_text;
    }
    for (auto& text : strings) drop_zeros(text);
    return strings;
  }

  std::optional<std::vector<std::string>> of_variable_length(Index count) {
    if (count > most_bytes_) return {};
    std::vector<std::string> strings(std::size_t(count), array_.fill_text);
    if (array_.extents.size() == 0) {
      auto const key = joined(key_, array_.key({}));
      if (auto const item = store_.find(key)) strings = chunk(key, *item, {0, item->bytes}, 1);
      return strings;
    }
    if (count == 0) return strings;
    Slab const all{Indices::filled(array_.extents.size(), 0), Indices::filled(array_.extents.size(), 1),
                   array_.extents};
    Index num_bytes = 0;
    auto const put = [&](std::string const& key, Item const& item, StoredRange const& range, ChunkPlace const& place) {
      auto const held = chunk(key, item, range, Box::from_extents(place.extents).num_cells());
      for_each_cell(places_in(all, all.counts, place), [&](Indices const& cell) {
        auto& text = strings[std::size_t(place_of(cell, array_.extents))];
        text = held[std::size_t(place_of(cell_at(all, cell, place), place.extents))];
        num_bytes += Index(text.size());
      });
    };
    for_each_cell(chunks_of(all, all.counts, array_.chunk), [&](Indices const& number) {
      auto const key = joined(key_, array_.key(number));
      auto const item = store_.find(key);
      if (!item || num_bytes > most_bytes_) return;
      ChunkPlace const place{product(number, array_.chunk), array_.chunk};
      if (!array_.is_sharded) return put(key, *item, {0, item->bytes}, place);
      auto const index = within(key, [&] { return ShardIndex(array_, *item); });
      for_each_cell(Box::from_extents(index.counts()), [&](Indices const& inner) {
        ChunkPlace chunk{product(inner, array_.inner), array_.inner};
        for (int axis = 0; axis < inner.size(); ++axis) chunk.first[axis] += place.first[axis];
        if (places_in(all, all.counts, chunk).empty() || num_bytes > most_bytes_) return;
        if (auto const range = within(key, [&] { return index.find(inner); })) put(key, *item, *range, chunk);
      });
    });
    if (num_bytes > most_bytes_) return {};
    return strings;
  }

 private:
  [[nodiscard]] std::vector<std::string> chunk(std::string const& key, Item const& item, StoredRange const& range,
                                               Index count) const {
    return within(key, [&] {
      Index const most = 8 * most_bytes_;
      if (range.count > most || count > most_bytes_)
        damaged_strings("it has more than " + std::to_string(most) + " bytes");
      Bytes stored{std::size_t(range.count)};
      item.read(stored.data(), range.first, range.count);
      return strings_of(decoded_up_to(array_.codecs, std::move(stored), most).span(), count);
    });
  }

  Store const& store_;
  std::string const& key_;
  Array const& array_;
  Index most_bytes_;
};

}  // namespace

std::optional<std::vector<std::string>> read_strings(Store const& store, std::string const& key, Array const& array,
                                                     Index most_bytes) {
  StringReader reader(store, key, array, most_bytes);
  if (array.strings == Strings::variable_length)
    return reader.of_variable_length(Box::from_extents(array.extents).num_cells());
  auto cells = array.extents;
  cells[cells.size() - 1] = 1;
  return reader.of_fixed_length(Box::from_extents(cells).num_cells());
}

}  // namespace graticule::detail::zarr
