// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "catalogue.hpp"

#include <bit>
#include <concepts>
#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>

namespace graticule::detail {

namespace {

// One `visit` per structure serves both directions: `Writer` appends each part, `Reader` fills it.

class Writer {
 public:
  void integer(std::integral auto const& value) { number(Index(value)); }
  void text(std::string const& value) {
    number(Index(value.size()));
    bytes_ += value;
  }
  void list(auto const& values, auto const& visit_one) {
    number(Index(values.size()));
    for (auto const& value : values) visit_one(value);
  }
  void value(Attribute const& attribute) {
    number(Index(attribute.value.index()));
    if (auto const* words = std::get_if<0>(&attribute.value)) text(*words);
    if (auto const* integers = std::get_if<1>(&attribute.value)) list(*integers, [&](Index v) { number(v); });
    if (auto const* floats = std::get_if<2>(&attribute.value))
      list(*floats, [&](double v) { number(std::bit_cast<Index>(v)); });
    if (auto const* several = std::get_if<3>(&attribute.value)) list(*several, [&](std::string const& v) { text(v); });
  }
  void indices(Indices const& values) {
    list(std::vector<Index>(values.begin(), values.end()), [&](Index v) { number(v); });
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void number(Index value) { bytes_.append(reinterpret_cast<char const*>(&value), sizeof value); }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  void integer(std::integral auto& value) { value = std::remove_reference_t<decltype(value)>(number()); }
  void text(std::string& value) { value = std::string(take(std::size_t(number()))); }
  template <class T>
  void list(std::vector<T>& values, auto const& visit_one) {
    auto const count = std::size_t(number());
    if (count > rest_.size()) throw Error("BrokenFile", "the bytes end early");
    values.resize(count);
    for (auto& value : values) visit_one(value);
  }
  void value(Attribute& attribute) {
    switch (number()) {
      case 0: text(attribute.value.emplace<0>()); break;
      case 1: list(attribute.value.emplace<1>(), [&](Index& v) { v = number(); }); break;
      case 2: list(attribute.value.emplace<2>(), [&](double& v) { v = std::bit_cast<double>(number()); }); break;
      default: list(attribute.value.emplace<3>(), [&](std::string& v) { text(v); }); break;
    }
  }
  void indices(Indices& values) {
    std::vector<Index> read;
    list(read, [&](Index& v) { v = number(); });
    values = Indices(std::span<Index const>(read));
  }

 private:
  Index number() {
    Index value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw Error("BrokenFile", "the bytes end early");
    auto const taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest_;
};

void type(Writer& io, ValueType value) { io.integer(int(value)); }
void type(Reader& io, ValueType& value) {
  int number = 0;
  io.integer(number);
  value = ValueType(number);
}

void visit_attributes(auto& io, auto& attributes) {
  io.list(attributes, [&](auto& attribute) {
    io.text(attribute.name);
    type(io, attribute.type);
    io.value(attribute);
  });
}

void visit_variable(auto& io, auto& variable) {
  io.text(variable.name);
  io.list(variable.dimensions, [&](auto& name) { io.text(name); });
  io.indices(variable.extents);
  io.indices(variable.stored_extents);
  type(io, variable.type);
  io.integer(variable.is_big_endian);
  io.integer(variable.value_bytes);
  io.indices(variable.chunk);
  io.list(variable.filters, [&](auto& filter) {
    io.integer(filter.id);
    io.text(filter.name);
    io.list(filter.parameters, [&](auto& parameter) { io.integer(parameter); });
    io.integer(filter.available);
  });
  visit_attributes(io, variable.attributes);
  io.integer(variable.is_virtual);
  io.text(variable.refusal);
  io.text(variable.refusal_rule);
}

void visit_catalogue(auto& io, auto& catalogue) {
  auto& contents = catalogue.contents;
  io.list(contents.dimensions, [&](auto& dimension) {
    io.text(dimension.name);
    io.integer(dimension.extent);
    io.integer(dimension.is_unlimited);
  });
  io.list(contents.variables, [&](auto& variable) { visit_variable(io, variable); });
  visit_attributes(io, contents.attributes);
  io.list(catalogue.addresses, [&](auto& address) { io.integer(address); });
}

}  // namespace

std::string to_bytes(Catalogue const& catalogue) {
  Writer writer;
  visit_catalogue(writer, catalogue);
  return writer.take();
}

Catalogue catalogue_from_bytes(std::string const& bytes) {
  Reader reader(bytes);
  Catalogue catalogue;
  visit_catalogue(reader, catalogue);
  return catalogue;
}

Catalogue shared_catalogue(Comm const& comm, std::filesystem::path const& path, FilterPlugins plugins) {
  // The first byte tells what follows: a list, or the rule and the sentence of an error.
  std::string message;
  std::string rule;
  if (comm.rank() == 0) {
    try {
      message = "L" + to_bytes(read_catalogue(path, plugins));
    } catch (Error const& error) {
      rule = error.rule();
      message = "E" + error.text();
    } catch (std::exception const& error) {
      rule = "BrokenFile";
      message = "E" + path.string() + " cannot be listed: " + error.what();
    }
  }
  message = comm.broadcast(message, 0);
  if (message.front() == 'E') throw Error(Fault::input, comm.broadcast(rule, 0), message.substr(1));
  auto catalogue = catalogue_from_bytes(message.substr(1));
  catalogue.contents.path = path;
  return catalogue;
}

}  // namespace graticule::detail
