// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "catalogue.hpp"
#include "hdf5/value_bytes.hpp"

#include <exception>
#include <string_view>
#include <type_traits>

namespace graticule::detail {

namespace {

void visit_variable(auto& io, auto& variable) {
  io.values(variable.name);
  io.list(variable.dimensions, [&](auto& name) { io.values(name); });
  io.indices(variable.extents);
  io.indices(variable.stored_extents);
  io.number(variable.type);
  io.number(variable.is_big_endian);
  io.number(variable.value_bytes);
  io.indices(variable.chunk);
  io.list(variable.filters, [&](auto& filter) {
    io.number(filter.id);
    io.values(filter.name);
    io.list(filter.parameters, [&](auto& parameter) { io.number(parameter); });
    io.number(filter.available);
  });
  visit_attributes(io, variable.attributes);
  io.number(variable.is_strings);
  io.list(variable.strings, [&](auto& text) { io.values(text); });
  io.number(variable.is_virtual);
  io.values(variable.refusal);
  io.values(variable.refusal_rule);
}

void visit_catalogue(auto& io, auto& catalogue) {
  auto& contents = catalogue.contents;
  io.list(contents.dimensions, [&](auto& dimension) {
    io.values(dimension.name);
    io.number(dimension.extent);
    io.number(dimension.is_unlimited);
  });
  io.list(contents.variables, [&](auto& variable) { visit_variable(io, variable); });
  visit_attributes(io, contents.attributes);
  io.list(catalogue.places, [&](auto& place) {
    io.number(place.address);
    std::string array = place.array ? *place.array : std::string();
    io.values(array);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(place)>>)
      if (!array.empty()) place.array = std::make_shared<std::string const>(std::move(array));
  });
  io.list(catalogue.unchanged, [&](auto& range) {
    io.number(range.lo);
    io.number(range.hi);
  });
}

}  // namespace

std::string to_bytes(Catalogue const& catalogue) {
  ByteWriter writer;
  visit_catalogue(writer, catalogue);
  return writer.take();
}

Catalogue catalogue_from_bytes(std::string const& bytes) {
  ByteReader reader(bytes);
  Catalogue catalogue;
  visit_catalogue(reader, catalogue);
  return catalogue;
}

Catalogue shared_catalogue(Comm const& comm, std::filesystem::path const& path, FilterPlugins plugins, Structure kind) {
  // The first byte tells what follows: a list, or the fault, the rule and the sentence of an error.
  std::string message;
  std::string rule;
  if (comm.rank() == 0) {
    try {
      message = "L" + to_bytes(read_catalogue(path, plugins, kind));
    } catch (Error const& error) {
      rule = error.rule();
      message = std::string("E") + char(error.fault()) + error.text();
    } catch (std::exception const& error) {
      rule = "BrokenFile";
      message = std::string("E") + char(Fault::input) + path.string() + " cannot be listed: " + error.what();
    }
  }
  message = comm.broadcast(message, 0);
  if (message.front() == 'E') throw Error(Fault(message.at(1)), comm.broadcast(rule, 0), message.substr(2));
  auto catalogue = catalogue_from_bytes(message.substr(1));
  catalogue.contents.path = path;
  return catalogue;
}

}  // namespace graticule::detail
