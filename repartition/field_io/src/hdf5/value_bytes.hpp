// SPDX-License-Identifier: BSD-3-Clause
// What files contain as bytes, for other ranks and for the process that reads a file's structure. One `visit` per
// structure serves both directions: a `ByteWriter` appends each part, a `ByteReader` fills it.
#pragma once

#include <graticule/partition/error.hpp>
#include <graticule/partition/indices.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::detail {

template <class T>
concept NumberInBytes = std::integral<T> || std::is_enum_v<T>;

class ByteWriter {
 public:
  void number(NumberInBytes auto const& value) {
    auto const wide = Index(value);
    bytes_.append(reinterpret_cast<char const*>(&wide), sizeof wide);
  }
  /// A string, or numbers that lie one after the other.
  void values(auto const& held) {
    number(held.size());
    bytes_.append(reinterpret_cast<char const*>(held.data()), held.size() * sizeof(held[0]));
  }
  void list(auto const& held, auto const& visit_one) {
    number(held.size());
    for (auto const& one : held) visit_one(one);
  }
  void indices(Indices const& indices) { values(std::vector<Index>(indices.begin(), indices.end())); }
  /// Of strings, lists of strings, numbers of 8 bytes and lists of them.
  void variant(auto const& value) {
    number(value.index());
    std::visit([this](auto const& held) { hold(held); }, value);
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void hold(auto const& held) {
    if constexpr (std::is_same_v<decltype(held), std::vector<std::string> const&>)
      list(held, [this](std::string const& text) { values(text); });
    else if constexpr (requires { held.size(); })
      values(held);
    else
      bytes_.append(reinterpret_cast<char const*>(&held), sizeof held);
  }

  std::string bytes_;
};

/// @throws `BrokenFile` where the bytes end early or say what no writer has written
class ByteReader {
 public:
  explicit ByteReader(std::string_view rest) : rest_(rest) {}

  void number(NumberInBytes auto& value) {
    Index wide = 0;
    take(&wide, sizeof wide);
    value = std::remove_reference_t<decltype(value)>(wide);
  }
  void values(auto& held) {
    held.resize(count());
    take(held.data(), held.size() * sizeof(held[0]));
  }
  template <class T>
  void list(std::vector<T>& held, auto const& visit_one) {
    held.resize(count());
    for (auto& one : held) visit_one(one);
  }
  void indices(Indices& indices) {
    std::vector<Index> read;
    values(read);
    indices = Indices(read);
  }
  template <class... Types>
  void variant(std::variant<Types...>& value) {
    auto const index = count();
    std::size_t i = 0;
    bool const known = ((i++ == index && (hold(value.template emplace<Types>()), true)) || ...);
    if (!known) throw Error("BrokenFile", "the bytes name a type that there is not");
  }

 private:
  void hold(auto& held) {
    if constexpr (std::is_same_v<decltype(held), std::vector<std::string>&>)
      list(held, [this](std::string& text) { values(text); });
    else if constexpr (requires { held.size(); })
      values(held);
    else
      take(&held, sizeof held);
  }
  /// No more than there are bytes.
  std::size_t count() {
    std::size_t result = 0;
    number(result);
    if (result > rest_.size()) throw Error("BrokenFile", "the bytes end early");
    return result;
  }
  void take(void* to, std::size_t count) {
    if (count > rest_.size()) throw Error("BrokenFile", "the bytes end early");
    if (count > 0) std::memcpy(to, rest_.data(), count);
    rest_.remove_prefix(count);
  }

  std::string_view rest_;
};

void visit_attributes(auto& io, auto& attributes) {
  io.list(attributes, [&](auto& attribute) {
    io.values(attribute.name);
    io.number(attribute.type);
    io.variant(attribute.value);
  });
}

}  // namespace graticule::detail
