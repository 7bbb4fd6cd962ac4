// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/field_io/references.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/error.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"
#include "hdf5/values.hpp"
#include "json.hpp"
#include "read/catalogue.hpp"
#include "read/raw_cells.hpp"
#include "store.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace graticule {

namespace {

namespace h5 = detail::h5;
using detail::zarr::Json;

/// Why a variable is left out.
struct LeftOut {
  std::string text;
};

[[noreturn]] void leave_out(std::string text) { throw LeftOut{std::move(text)}; }

/// Numpy's name of the stored type.
std::string numpy_type(Variable const& variable) {
  auto const size = std::to_string(variable.value_bytes);
  auto const order = variable.value_bytes == 1 ? "|" : variable.is_big_endian ? ">" : "<";
  switch (enum_row(variable.type).kind) {
    case detail::StoredKind::signed_integer: return order + ("i" + size);
    case detail::StoredKind::unsigned_integer: return order + ("u" + size);
    case detail::StoredKind::real: return order + ("f" + size);
    case detail::StoredKind::text: return "|S" + size;
    case detail::StoredKind::other: break;
  }
  leave_out("its type has no name in Zarr");
}

/// The codecs of numcodecs that undo the filters of a chunk, in the order in which it passed through them.
Json filters_of(Variable const& variable) {
  auto filters = Json::array();
  for (auto const& filter : variable.filters) {
    auto const parameter = [&](Index otherwise) {
      return filter.parameters.empty() ? otherwise : filter.parameters.front();
    };
    switch (filter.id) {
      case H5Z_FILTER_SHUFFLE:
        filters.push_back({{"id", "shuffle"}, {"elementsize", parameter(variable.value_bytes)}});
        break;
      case H5Z_FILTER_DEFLATE: filters.push_back({{"id", "zlib"}, {"level", parameter(1)}}); break;
      case H5Z_FILTER_FLETCHER32: filters.push_back({{"id", "fletcher32"}}); break;
      case 307: filters.push_back({{"id", "bz2"}, {"level", parameter(9)}}); break;
      case 32001: filters.push_back({{"id", "blosc"}}); break;
      case 32015: filters.push_back({{"id", "zstd"}, {"level", parameter(3)}}); break;
      default: leave_out("no codec of Zarr undoes its filter '" + filter.name + "'");
    }
  }
  return filters;
}

/// `_FillValue`, which in version 2 is the fill value of the array.
Json declared_fill(Variable const& variable) {
  auto const* const declared = variable.attribute("_FillValue");
  if (declared == nullptr || variable.type == ValueType::text) return {};
  auto value = detail::zarr::json_of(*declared);
  if (value.is_array()) value = value.empty() ? Json() : value.front();
  if (!value.is_number_float()) return value;
  return detail::zarr::fill_json(value.get<double>());
}

/// What cells hold that were never written, where a variable does not say it: nothing would stand for 0.
Json default_fill_of(Variable const& variable) {
  if (variable.type == ValueType::text || variable.type == ValueType::f16) return {};
  auto const value = detail::zarr::json_of(detail::default_fill(variable.type));
  return value.is_number_float() ? detail::zarr::fill_json(value.get<double>()) : value;
}

class References {
 public:
  References(std::filesystem::path const& file, FilterPlugins plugins)
      : path_(std::filesystem::absolute(file).lexically_normal().string()),
        catalogue_(detail::read_catalogue(file, plugins)),
        file_(detail::open_alone(file)) {
    h5::Properties const creation(h5::check(H5Fget_create_plist(file_.get()), "H5Fget_create_plist"));
    hsize_t block = 0;
    h5::check(H5Pget_userblock(creation.get(), &block), "H5Pget_userblock");
    if (block > 0)
      throw Error(Fault::input, "UnsupportedFile",
                  file.string() + " begins with a user block of " + std::to_string(block) +
                      " bytes, after which HDF5 counts places; rewrite it without, by `h5repack -u /dev/null`");
  }

  /// @return why variables are left out
  std::vector<std::string> run() {
    auto const& contents = catalogue_.contents;
    put_group("", contents.attributes);
    std::vector<std::string> reasons;
    for (std::size_t i = 0; i < contents.variables.size(); ++i) {
      auto const& variable = contents.variables[i];
      Json own = Json::object();
      try {
        add(variable, catalogue_.places[i].address, own);
      } catch (LeftOut const& left) {
        reasons.push_back(variable.name + " is left out: " + left.text);
        continue;
      }
      for (auto at = variable.name.find('/'); at != std::string::npos; at = variable.name.find('/', at + 1))
        put_group(variable.name.substr(0, at), {});
      refs_.update(own);
      ++num_variables_;
    }
    if (num_variables_ == 0)
      throw Error(Fault::input, "UnsupportedFile",
                  contents.path.string() + " has no variable that references can name" +
                      (reasons.empty() ? std::string() : ": " + reasons.front()));
    return reasons;
  }

  [[nodiscard]] std::string text() const { return detail::zarr::text_of({{"version", 1}, {"refs", refs_}}); }

 private:
  void put_group(std::string const& name, std::vector<Attribute> const& attributes) {
    auto const key = detail::zarr::joined(name, ".zgroup");
    if (refs_.contains(key)) return;
    refs_[key] = R"({"zarr_format": 2})";
    auto described = Json::object();
    for (auto const& attribute : attributes) described[attribute.name] = detail::zarr::json_of(attribute);
    refs_[detail::zarr::joined(name, ".zattrs")] = detail::zarr::text_of(described);
  }

  void add(Variable const& variable, std::uint64_t address, Json& own) const {
    if (!variable.refusal.empty() && variable.value_bytes == 0) leave_out(variable.refusal);
    if (variable.is_virtual) leave_out("it is composed of datasets in other files");
    h5::Object dataset(h5::check(H5Oopen_by_addr(file_.get(), address), "H5Oopen_by_addr"));
    auto chunk = variable.extents;
    auto filters = Json::array();
    bool lacks_cells = false;
    if (variable.is_strings) {
      put_values(variable, strings_of(variable), own);
    } else if (variable.chunk.size() > 0) {
      chunk = variable.chunk;
      filters = filters_of(variable);
      lacks_cells = put_chunks(variable, dataset.get(), own);
    } else {
      lacks_cells = put_block(variable, std::move(dataset), own);
    }
    for (auto& extent : chunk) extent = std::max<Index>(extent, 1);
    auto fill = declared_fill(variable);
    if (fill.is_null() && lacks_cells) fill = default_fill_of(variable);
    auto const numbers = [](Indices const& values) { return std::vector<Index>(values.begin(), values.end()); };
    own[variable.name + "/.zarray"] = detail::zarr::text_of({{"zarr_format", 2},
                                                             {"shape", numbers(variable.extents)},
                                                             {"chunks", numbers(chunk)},
                                                             {"dtype", numpy_type(variable)},
                                                             {"order", "C"},
                                                             {"fill_value", fill},
                                                             {"filters", filters.empty() ? Json() : filters},
                                                             {"compressor", Json()}});
    auto attributes = Json::object();
    for (auto const& attribute : variable.attributes)
      if (attribute.name != "_FillValue") attributes[attribute.name] = detail::zarr::json_of(attribute);
    auto names = variable.dimensions;
    for (int axis = 0; axis < int(names.size()); ++axis)
      if (auto& name = names[std::size_t(axis)]; name.empty())
        name = "phony_" + variable.name + "_" + std::to_string(axis);
    attributes["_ARRAY_DIMENSIONS"] = names;
    own[variable.name + "/.zattrs"] = detail::zarr::text_of(attributes);
  }

  static std::string key_of(Variable const& variable, Indices const& number) {
    std::string key;
    for (auto const one : number) key += (key.empty() ? "" : ".") + std::to_string(one);
    return variable.name + "/" + (key.empty() ? "0" : key);
  }

  /// @return whether some chunks are not in the file
  bool put_chunks(Variable const& variable, hid_t dataset, Json& own) const {
    auto numbers = Box::from_extents(variable.extents);
    auto stored = Box::from_extents(variable.stored_extents);
    for (auto* box : {&numbers, &stored})
      for (int axis = 0; axis < box->ndim(); ++axis)
        box->set(axis, 0, (box->hi(axis) + variable.chunk[axis] - 1) / variable.chunk[axis]);
    bool lacks_some = numbers != stored;
    for_each_cell(stored, [&](Indices const& number) {
      auto first = number;
      for (int axis = 0; axis < first.size(); ++axis) first[axis] *= variable.chunk[axis];
      auto const offset = detail::sizes_of(first);
      unsigned mask = 0;
      haddr_t place = HADDR_UNDEF;
      hsize_t bytes = 0;
      h5::check(H5Dget_chunk_info_by_coord(dataset, offset.data(), &mask, &place, &bytes),
                "H5Dget_chunk_info_by_coord");
      if (place == HADDR_UNDEF || bytes == 0) {
        lacks_some = true;
        return;
      }
      if (mask != 0) leave_out("a chunk has not passed through all of its filters");
      own[key_of(variable, number)] = Json::array({path_, std::uint64_t(place), std::uint64_t(bytes)});
    });
    return lacks_some;
  }

  /// @return whether its cells are not in the file
  bool put_block(Variable const& variable, h5::Object dataset, Json& own) const {
    if (Box::from_extents(variable.extents).empty()) return false;
    auto const bytes = Box::from_extents(variable.extents).num_cells() * variable.value_bytes;
    auto const zero = Indices::filled(variable.ndim(), 0);
    if (auto const place = H5Dget_offset(dataset.get()); place != HADDR_UNDEF) {
      own[key_of(variable, zero)] = Json::array({path_, std::uint64_t(place), std::uint64_t(bytes)});
      return false;
    }
    h5::Properties const creation(h5::check(H5Dget_create_plist(dataset.get()), "H5Dget_create_plist"));
    if (h5::check(H5Pget_layout(creation.get()), "H5Pget_layout") != H5D_COMPACT) return true;
    std::vector<std::byte> values(static_cast<std::size_t>(bytes));
    auto const all = Box::from_extents(variable.extents);
    detail::RawDataset(variable, std::move(dataset), nullptr)
        .read(variable, H5P_DEFAULT, detail::slab_of(&all), values.data(), 1);
    put_values(variable, values, own);
    return false;
  }

  static std::vector<std::byte> strings_of(Variable const& variable) {
    std::vector<std::byte> values;
    for (auto const& text : variable.strings) {
      auto const* const bytes = reinterpret_cast<std::byte const*>(text.data());
      values.insert(values.end(), bytes, bytes + text.size());
      values.resize(values.size() + std::size_t(variable.value_bytes) - text.size());
    }
    return values;
  }

  static void put_values(Variable const& variable, std::span<std::byte const> values, Json& own) {
    own[key_of(variable, Indices::filled(variable.ndim(), 0))] = "base64:" + detail::zarr::base64_of(values);
  }

  std::string path_;
  detail::Catalogue catalogue_;
  h5::File file_;
  Json refs_ = Json::object();
  std::size_t num_variables_ = 0;
};

}  // namespace

std::vector<std::string> write_references(std::filesystem::path const& file, std::filesystem::path const& references,
                                          FilterPlugins plugins) {
  if (detail::zarr::is_store(file))
    throw Error(Fault::input, "UnsupportedFile",
                file.string() + " is a Zarr store already; references are made of netCDF-4 and HDF5 files");
  h5::Quiet const quiet(plugins);
  try {
    References made(file, plugins);
    auto reasons = made.run();
    write_complete_file(references, made.text());
    return reasons;
  } catch (Error const& error) {
    if (error.rule() != "Hdf5Error") throw;
    throw Error(Fault::input, "BrokenFile",
                file.string() + " is damaged or incomplete (" + error.text() + "); copy or make it again");
  }
}

}  // namespace graticule
