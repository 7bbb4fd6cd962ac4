// SPDX-License-Identifier: BSD-3-Clause
#include "catalogue.hpp"

#include <graticule/partition/error.hpp>

#include "array.hpp"
#include "flattened.hpp"
#include "reader.hpp"
#include "strings.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace graticule::detail::zarr {

namespace {

constexpr std::size_t most_arrays = 100000;
constexpr int deepest_group = 32;

/// The metadata of a node: of version 2 in two files, of version 3 in one.
struct Node {
  Json metadata;
  Json attributes;
};

[[noreturn]] void broken(Store const& store, std::string const& what) {
  throw Error(Fault::input, "BrokenFile", store.path().string() + " is damaged or incomplete: " + what);
}

/// Nothing where the key is absent.
Json parsed(Store const& store, std::string const& key) {
  auto const text = store.text(key);
  return text ? parse(*text, store.path().string() + "/" + key) : Json();
}

class Listing {
 public:
  explicit Listing(Store const& store) : store_(store) { listed_.contents.path = store.path(); }

  Listed list() {
    if (auto const root = parsed(store_, "zarr.json"); !root.is_null())
      list_version3(root);
    else
      list_version2();
    unfold(store_, listed_);
    name_dimensions();
    add_dimensions();
    return std::move(listed_);
  }

 private:
  void list_version3(Json const& root) {
    if (root.is_object() && root.value("node_type", "") == "array") return add("", {root, Json()});
    take_attributes(root.is_object() ? root.value("attributes", Json()) : Json());
    auto const consolidated = root.is_object() ? root.value("consolidated_metadata", Json()) : Json();
    auto const all = consolidated.is_object() ? consolidated.value("metadata", Json()) : Json();
    if (!all.is_object()) return walk("", 0);
    for (auto const& [key, metadata] : all.items())
      if (metadata.is_object() && metadata.value("node_type", "") == "array") add(key, {metadata, Json()});
  }

  void list_version2() {
    auto const consolidated = parsed(store_, ".zmetadata");
    // Its chunks would all be absent, and read as fill values.
    if (consolidated.is_object() && consolidated.contains("record_size"))
      throw Error(Fault::input, "UnsupportedFile",
                  store_.path().string() +
                      " holds references of kerchunk as parquet; write them as JSON, or read them in Python, by "
                      "graticule.open_shard of xarray.open_dataset(REFERENCES, engine=\"kerchunk\")");
    auto const all = consolidated.is_object() ? consolidated.value("metadata", Json()) : Json();
    if (all.is_object()) {
      if (auto const found = all.find(".zattrs"); found != all.end()) take_attributes(*found);
      constexpr std::string_view ending = "/.zarray";
      for (auto const& [key, metadata] : all.items()) {
        if (!key.ends_with(ending)) continue;
        auto const name = key.substr(0, key.size() - ending.size());
        auto const attributes = all.find(name + "/.zattrs");
        add(name, {metadata, attributes == all.end() ? Json() : *attributes});
      }
      return;
    }
    if (auto metadata = parsed(store_, ".zarray"); !metadata.is_null())
      return add("", {std::move(metadata), parsed(store_, ".zattrs")});
    take_attributes(parsed(store_, ".zattrs"));
    walk("", 0);
  }

  /// Folders that hold an array or a group. Others, as those that a writer has left, are passed over.
  void walk(std::string const& group, int depth) {
    if (depth > deepest_group) broken(store_, "groups lie more than " + std::to_string(deepest_group) + " deep");
    for (auto const& name : store_.folders(group)) {
      auto const key = joined(group, name);
      if (auto metadata = parsed(store_, key + "/zarr.json"); metadata.is_object()) {
        if (metadata.value("node_type", "") == "array")
          add(key, {std::move(metadata), Json()});
        else
          walk(key, depth + 1);
      } else if (metadata = parsed(store_, key + "/.zarray"); metadata.is_object()) {
        add(key, {std::move(metadata), parsed(store_, key + "/.zattrs")});
      } else if (store_.find(key + "/.zgroup")) {
        walk(key, depth + 1);
      }
    }
  }

  void add(std::string const& key, Node node) {
    if (listed_.contents.variables.size() >= most_arrays)
      broken(store_, "it holds more than " + std::to_string(most_arrays) + " arrays");
    auto name = key.empty() ? store_.path().filename().string() : key;
    if (key.empty()) name = name.substr(0, name.rfind('.'));
    try {
      auto described = describe(name, node.metadata, node.attributes);
      described.variable.name = name;
      if (described.variable.is_strings) add_strings(key, described);
      listed_.contents.variables.push_back(std::move(described.variable));
    } catch (Json::exception const& error) {
      broken(store_, "metadata of " + name + ": " + error.what());
    } catch (Error const& error) {
      throw Error(error.fault(), error.rule(), store_.path().string() + ": " + error.text());
    }
    listed_.arrays.push_back(
        Json{{"key", key}, {"metadata", std::move(node.metadata)}, {"attributes", std::move(node.attributes)}}.dump(
            -1, ' ', false, Json::error_handler_t::replace));
  }

  /// Names beside the fields, such as those of stations: all of them come along, as those of netCDF-4 files do.
  void add_strings(std::string const& key, Described& described) {
    constexpr Index most_bytes = Index(1) << 20;
    auto& variable = described.variable;
    try {
      auto strings = read_strings(store_, key, described.array, most_bytes);
      if (!strings) {
        variable.refusal = "it holds more than 1 MiB of strings";
        return;
      }
      std::size_t longest = 1;
      for (auto const& text : *strings) longest = std::max(longest, text.size());
      variable.value_bytes = Index(longest);
      variable.strings = std::move(*strings);
    } catch (Error const& error) {
      variable.refusal = error.text();
      variable.refusal_rule = error.rule();
    }
  }

  void take_attributes(Json const& attributes) {
    if (!attributes.is_object()) return;
    for (auto const& [name, value] : attributes.items())
      listed_.contents.attributes.push_back(attribute_of(name, value));
  }

  /// A dimension belongs to the group whose array is its coordinate: the variable's own, or the closest one around it.
  /// Without any it belongs to the variable's own group. So groups may have other grids.
  void name_dimensions() {
    std::map<std::string, Index, std::less<>> coordinates;  // and their lengths
    auto& variables = listed_.contents.variables;
    for (auto const& one : variables)
      if (one.ndim() == 1 && one.dimensions.front() == one.name.substr(one.name.rfind('/') + 1))
        coordinates.emplace(one.name, one.extents[0]);
    for (auto& one : variables) {
      auto const slash = one.name.rfind('/');
      if (slash == std::string::npos) continue;
      for (int axis = 0; axis < one.ndim(); ++axis)
        if (auto& name = one.dimensions[std::size_t(axis)]; !name.empty())
          name = named_by(coordinates, one.name.substr(0, slash), name, one.extents[axis]);
    }
  }

  static std::string named_by(std::map<std::string, Index, std::less<>> const& coordinates, std::string const& group,
                              std::string const& name, Index extent) {
    for (auto around = group;;) {
      auto const found = coordinates.find(joined(around, name));
      if (found != coordinates.end() && found->second == extent) return found->first;
      if (around.empty()) return joined(group, name);
      auto const slash = around.rfind('/');
      around.erase(slash == std::string::npos ? 0 : slash);
    }
  }

  /// A name whose variables have different extents names none of them: Zarr has no dimensions of its own.
  void add_dimensions() {
    auto& contents = listed_.contents;
    for (auto const& variable : contents.variables)
      for (int axis = 0; axis < variable.ndim() && !variable.dimensions.empty(); ++axis) {
        auto const& name = variable.dimensions[std::size_t(axis)];
        if (name.empty()) continue;
        auto const found = std::find_if(contents.dimensions.begin(), contents.dimensions.end(),
                                        [&](Dimension const& one) { return one.name == name; });
        if (found == contents.dimensions.end())
          contents.dimensions.push_back({name, variable.extents[axis], false});
        else if (found->extent != variable.extents[axis])
          broken(store_, "dimension '" + name + "' is " + std::to_string(found->extent) + " long for some arrays and " +
                             std::to_string(variable.extents[axis]) + " for " + variable.name);
      }
  }

  Store const& store_;
  Listed listed_;
};

}  // namespace

Catalogue list(std::filesystem::path const& path) {
  Store const store(path);
  try {
    auto listed = Listing(store).list();
    Catalogue catalogue{std::move(listed.contents), {}, {}};
    for (auto& array : listed.arrays)
      catalogue.places.push_back({0, std::make_shared<std::string const>(std::move(array))});
    return catalogue;
  } catch (Json::exception const& error) {
    broken(store, std::string("its metadata: ") + error.what());
  }
}

namespace {

class StoreSource final : public Source {
 public:
  StoreSource(std::filesystem::path const& path, int num_threads) : store_(path), num_threads_(num_threads) {}

  ReadCells reader_of(Variable const& variable, VariablePlace const& place) override {
    return [this, &variable, &place](std::optional<Slab> const& slab, std::byte* target) {
      if (slab) read(variable, *place.array, *slab, target);
    };
  }

 private:
  void read(Variable const& variable, std::string const& array, Slab const& slab, std::byte* target) {
    auto found = readers_.find(variable.name);
    if (found == readers_.end()) {
      auto const description = Json::parse(array);
      auto described = describe(variable.name, description.at("metadata"), description.at("attributes"));
      auto reader = std::make_unique<ArrayReader>(store_, description.at("key").get<std::string>(),
                                                  std::move(described.array), num_threads_);
      found = readers_.emplace(variable.name, Open{std::move(reader), description.value("fold", Json())}).first;
    }
    auto& [reader, fold] = found->second;
    if (fold.is_null()) return reader->read(slab, target);
    read_unfolded(*reader, fold, variable.value_bytes, slab, target);
  }

  struct Open {
    std::unique_ptr<ArrayReader> reader;
    Json fold;  ///< null for an array that is a variable as it is
  };
  Store store_;
  int num_threads_;
  std::map<std::string, Open, std::less<>> readers_;
};

}  // namespace

std::unique_ptr<Source> open_store(std::filesystem::path const& path, SourceOptions const& options) {
  return std::make_unique<StoreSource>(path, options.num_threads);
}

std::filesystem::path metadata_file(std::filesystem::path const& path) {
  std::error_code unknown;
  for (char const* name : {"zarr.json", ".zmetadata", ".zarray", ".zgroup"})
    if (std::filesystem::exists(path / name, unknown)) return path / name;
  return path;
}

}  // namespace graticule::detail::zarr
