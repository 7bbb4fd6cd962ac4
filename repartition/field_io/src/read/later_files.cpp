// SPDX-License-Identifier: BSD-3-Clause
#include "later_files.hpp"

#include <graticule/partition/error.hpp>

#include "hdf5/value_bytes.hpp"
#include "hdf5/values.hpp"
#include "poles.hpp"
#include "series_times.hpp"

#include <utility>

namespace graticule::detail {

namespace {

struct SentCoordinate {
  std::string dimension;
  std::vector<double> values;
};

struct SentFile {
  std::string catalogue;  ///< empty where it cannot be listed
  std::vector<SentCoordinate> coordinates;
  Fault fault = Fault::input;
  std::string rule;  ///< empty without an error
  std::string text;
};

void visit_files(auto& io, auto& files) {
  io.list(files, [&](auto& file) {
    io.values(file.catalogue);
    io.list(file.coordinates, [&](auto& coordinate) {
      io.values(coordinate.dimension);
      io.values(coordinate.values);
    });
    io.number(file.fault);
    io.values(file.rule);
    io.values(file.text);
  });
}

VariablePlace const& place_of(Catalogue const& catalogue, Variable const& variable) {
  return catalogue.places[std::size_t(&variable - catalogue.contents.variables.data())];
}

std::vector<double> read_coordinate(Source& source, Catalogue const& catalogue, std::string const& dimension) {
  auto const& contents = catalogue.contents;
  auto const& variable = *contents.coordinate(dimension);
  auto const named = [&](std::string const& start, std::string const& why) {
    return "variable " + variable.name + " of " + contents.path.string() + start + why;
  };
  if (!variable.refusal.empty())
    throw Error(Fault::input, variable.refusal_rule, named(" cannot be read: ", variable.refusal));
  auto const unpacking = unpacking_of(contents, variable);
  std::vector<double> values(std::size_t(variable.extents[0]));
  std::vector<std::byte> stored(values.size() * std::size_t(variable.value_bytes));
  try {
    Box const all({0}, {variable.extents[0]});
    if (!values.empty()) source.reader_of(variable, place_of(catalogue, variable))(slab_of(&all), stored.data());
  } catch (Error const& error) {
    if (error.rule() == "UnreadableVariable" || error.rule() == "UnreadableFile")
      throw Error(error.fault(), error.rule(), named(" cannot be read: ", error.text()));
    throw Error(Fault::input, "BrokenFile",
                contents.path.string() + " cannot be read (variable " + variable.name + ": " + error.text() +
                    "); it is damaged or incomplete, copy or make it again");
  }
  unpack(unpacking, stored.data(), std::span(values));
  to_degrees(contents, dimension, values);
  return values;
}

SentFile read_file(std::filesystem::path const& path, FilterPlugins plugins, FileContents first,
                   std::string const& dimension) {
  SentFile sent;
  try {
    auto catalogue = read_catalogue(path, plugins);
    sent.catalogue = to_bytes(catalogue);
    catalogue.contents.path = path;
    adopt_times(catalogue.contents, first, dimension);
    h5::Quiet const quiet(plugins);
    auto const source = format_of(path).open(path, {});
    for (auto const& one : first.dimensions) {
      auto const* const expected = first.coordinate(one.name);
      if (expected == nullptr || !expected->refusal.empty() || catalogue.contents.coordinate(one.name) == nullptr)
        continue;
      sent.coordinates.push_back({one.name, read_coordinate(*source, catalogue, one.name)});
    }
  } catch (Error const& error) {
    sent.fault = error.fault();
    sent.rule = error.rule();
    sent.text = error.text();
  } catch (std::exception const& error) {
    sent.rule = "BrokenFile";
    sent.text = path.string() + " cannot be listed: " + error.what();
  }
  return sent;
}

}  // namespace

std::vector<LaterFile> read_later_files(Comm const& comm, std::span<std::filesystem::path const> paths,
                                        FilterPlugins plugins, FileContents const& first,
                                        std::string const& dimension) {
  std::vector<SentFile> sent;
  std::string bytes;
  if (comm.rank() == 0) {
    for (auto const& path : paths) {
      sent.push_back(read_file(path, plugins, first, dimension));
      if (sent.back().catalogue.empty()) break;
    }
    ByteWriter writer;
    visit_files(writer, sent);
    bytes = writer.take();
  }
  bytes = comm.broadcast(bytes, 0);
  ByteReader reader(bytes);
  visit_files(reader, sent);
  std::vector<LaterFile> files;
  for (auto& one : sent) {
    LaterFile file;
    if (!one.catalogue.empty()) {
      file.catalogue = catalogue_from_bytes(one.catalogue);
      file.catalogue->contents.path = paths[files.size()];
    }
    for (auto& [name, values] : one.coordinates) file.coordinates.emplace(std::move(name), std::move(values));
    if (!one.rule.empty()) file.failure = std::make_exception_ptr(Error(one.fault, one.rule, one.text));
    files.push_back(std::move(file));
  }
  return files;
}

KnownFile known_file(Catalogue const& catalogue, FileContents const& first, KnownFile const* before) {
  KnownFile result;
  for (auto const& variable : catalogue.contents.variables) {
    if (!variable.refusal.empty() || first.find(variable.name) == nullptr) continue;
    KnownVariable known{std::make_shared<Variable const>(variable), place_of(catalogue, variable)};
    if (before != nullptr)
      if (auto const same = before->variables.find(variable.name); same != before->variables.end()) {
        auto const& [other, place] = same->second;
        if (*other == variable) known.variable = other;
        if (place.array && known.place.array && *place.array == *known.place.array) known.place.array = place.array;
      }
    result.variables.emplace(variable.name, std::move(known));
  }
  return result;
}

}  // namespace graticule::detail
