// SPDX-License-Identifier: BSD-3-Clause
#include "contents.hpp"

#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>

namespace graticule::detail {

namespace {

// One `visit` serves both directions: `Out` appends each part, `In` fills it.

class Out {
 public:
  void number(std::integral auto const& value) {
    auto const wide = Index(value);
    bytes_.append(reinterpret_cast<char const*>(&wide), sizeof wide);
  }
  void bytes(auto const& values) {
    number(values.size());
    bytes_.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(values[0]));
  }
  void list(auto const& values, auto const& visit_one) {
    number(values.size());
    for (auto const& value : values) visit_one(value);
  }
  void indices(Indices const& values) { bytes(std::vector<Index>(values.begin(), values.end())); }
  void variant(auto const& value) {
    number(value.index());
    std::visit(
        [&](auto const& held) {
          if constexpr (std::is_same_v<decltype(held), std::vector<std::string> const&>)
            list(held, [&](std::string const& text) { bytes(text); });
          else if constexpr (requires { held.size(); })
            bytes(held);
          else
            number(std::bit_cast<Index>(held));
        },
        value);
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class In {
 public:
  explicit In(std::string_view rest) : rest_(rest) {}
  void number(std::integral auto& value) {
    Index wide = 0;
    take(&wide, sizeof wide);
    value = std::remove_reference_t<decltype(value)>(wide);
  }
  void bytes(auto& values) {
    values.resize(count());
    take(values.data(), values.size() * sizeof(values[0]));
  }
  template <class T>
  void list(std::vector<T>& values, auto const& visit_one) {
    values.resize(count());
    for (auto& value : values) visit_one(value);
  }
  void indices(Indices& values) {
    std::vector<Index> read;
    bytes(read);
    values = Indices(read);
  }
  template <class... Types>
  void variant(std::variant<Types...>& value) {
    auto const index = count();
    std::size_t i = 0;
    (void)((i++ == index && (hold(value.template emplace<Types>()), true)) || ...);
  }

 private:
  void hold(auto& held) {
    if constexpr (std::is_same_v<decltype(held), std::vector<std::string>&>)
      list(held, [&](std::string& text) { bytes(text); });
    else if constexpr (requires { held.size(); })
      bytes(held);
    else
      take(&held, sizeof held);
  }
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

void visit_enum(Out& io, auto const& value) { io.number(int(value)); }
void visit_enum(In& io, auto& value) {
  int number = 0;
  io.number(number);
  value = std::remove_reference_t<decltype(value)>(number);
}

void visit(auto& io, auto& contents) {
  io.number(contents.step);
  io.number(contents.number);
  io.list(contents.fields, [&](auto& field) {
    io.bytes(field.name);
    visit_enum(io, field.dtype);
    io.indices(field.extents);
    io.indices(field.grid_axes);
    io.list(field.attributes, [&](auto& attribute) {
      io.bytes(attribute.name);
      visit_enum(io, attribute.type);
      io.variant(attribute.value);
    });
  });
  io.bytes(contents.checksums);
  io.bytes(contents.offsets);
  io.list(contents.values, [&](auto& value) {
    io.bytes(value.first);
    io.variant(value.second);
  });
}

}  // namespace

std::string to_bytes(CheckpointContents const& contents) {
  Out out;
  visit(out, contents);
  return out.take();
}

CheckpointContents checkpoint_contents_from_bytes(std::string_view bytes) {
  In in(bytes);
  CheckpointContents contents;
  visit(in, contents);
  return contents;
}

}  // namespace graticule::detail
