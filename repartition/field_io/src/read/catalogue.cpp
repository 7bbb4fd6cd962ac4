// SPDX-License-Identifier: BSD-3-Clause
// Lists what a netCDF-4 or HDF5 file holds, by serial HDF5 calls.
#include "catalogue.hpp"

#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/partition/box.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/types.hpp"
#include "hdf5_source.hpp"
#include "packed_chunks.hpp"
#include "raw_cells.hpp"
#include "signature.hpp"
#include "structure_process.hpp"
#include "virtual_sources.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace graticule {

namespace {

namespace h5 = detail::h5;

constexpr int deepest_group = 32;
constexpr std::size_t most_objects = 200000;
constexpr std::string_view no_variable = "This is a netCDF dimension but not a netCDF variable.";
constexpr std::string_view clash_prefix = "_nc4_non_coord_";

/// A link that was met, in the order of the file.
struct Met {
  std::string path;     ///< from the root, without the first slash
  haddr_t address = 0;  ///< of the dataset; 0 when the link leads elsewhere
  std::string refusal;  ///< set when the link leads out of the file
};

std::string shown_name(std::string const& path) {
  auto const base = path.rfind('/') + 1;  // 0 without a slash
  if (std::string_view(path).substr(base).starts_with(clash_prefix))
    return path.substr(0, base) + path.substr(base + clash_prefix.size());
  return path;
}

/// HDF5's message for a structure version of a later release.
bool is_newer(std::string const& reason) {
  return reason.find("bad") != std::string::npos && reason.find("version number") != std::string::npos;
}

/// The message, with advice.
/// @param checked a checksum has shown that the bytes are those that were written
std::string newer_text(std::string reason, bool checked) {
  if (auto const call = reason.find(" failed: "); call != std::string::npos) reason.erase(0, call + 9);
  // Where libver is "latest": h5py 3.16 has HDF5 2.0; references to dimension scales have been new since 1.12.
  auto const* const needed = reason.find("layout message") != std::string::npos     ? "HDF5 2.0 reads it; "
                             : reason.find("datatype message") != std::string::npos ? "HDF5 1.12 reads it; "
                                                                                    : "";
  return "stored in a newer version of the format than HDF5 " + h5::release() + ", which this program has, reads (" +
         reason + ")" + (checked ? "" : ", or damaged") + "; " + needed +
         "rewrite the file where the newer HDF5 is, with its `nccopy -k nc4 IN OUT`, xarray's to_netcdf, or h5py's "
         "libver=(\"earliest\", \"v110\")";
}

class Listing {
 public:
  Listing(hid_t file, std::filesystem::path const& path, FilterPlugins plugins, detail::ListingWatch const& watch)
      : file_(file), path_(path), plugins_(plugins), watch_(watch) {
    H5F_info2_t info{};
    h5::check(H5Fget_info2(file, &info), "H5Fget_info2");
    has_checksums_ = info.super.version >= 2;
  }

  void walk() {
    h5::Group const root(h5::check(H5Gopen2(file_, "/", H5P_DEFAULT), "H5Gopen2"));
    H5O_info_t info{};
    h5::check(H5Oget_info2(root.get(), &info, H5O_INFO_BASIC), "H5Oget_info2");
    groups_.insert(info.addr);
    walk(root.get(), "", 0);
  }

  detail::Catalogue catalogue() {
    detail::Catalogue catalogue;
    auto& result = catalogue.contents;
    result.path = path_;
    h5::Group const root(h5::check(H5Gopen2(file_, "/", H5P_DEFAULT), "H5Gopen2"));
    try {
      result.attributes = h5::read_attributes(root.get());
    } catch (Error const& error) {
      if (!is_newer(error.text())) throw;
    }
    for (auto const& met : met_) named(met, [&] { find_dimension(met); });
    order_dimensions(result);
    for (auto const& met : met_)
      if (auto variable = named(met, [&] { return describe(met); })) {
        result.variables.push_back(std::move(*variable));
        catalogue.places.push_back({met.address, nullptr});
      }
    add_named_dimensions(result);
    for (auto& dimension : result.dimensions)
      if (dimension.is_unlimited) measure(dimension, result.variables);
    return catalogue;
  }

 private:
  struct Scale {
    Dimension dimension;
    Index id = -1;
    std::size_t order = 0;
    bool is_variable = true;
  };

  /// Runs `action`, and names the variable in the error that ends it.
  template <class Action>
  std::invoke_result_t<Action> named(Met const& met, Action const& action) const {
    auto const name = "variable " + shown_name(met.path);
    watch_.reads(name);
    try {
      return action();
    } catch (Error const& error) {
      throw Error(error.fault(), error.rule(), name + ": " + error.text());
    }
  }

  void walk(hid_t group, std::string const& prefix, int depth) {
    if (depth > deepest_group)
      throw Error("BrokenFile", "groups lie more than " + std::to_string(deepest_group) + " deep");
    h5::Properties const properties(h5::check(H5Gget_create_plist(group), "H5Gget_create_plist"));
    unsigned order = 0;
    h5::check(H5Pget_link_creation_order(properties.get(), &order), "H5Pget_link_creation_order");
    auto const index = (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    H5G_info_t info{};
    h5::check(H5Gget_info(group, &info), "H5Gget_info");
    std::vector<Subgroup> subgroups;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      auto const size = h5::check(H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT),
                                  "H5Lget_name_by_idx");
      std::string name(std::size_t(size) + 1, '\0');
      h5::check(H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, i, name.data(), name.size(), H5P_DEFAULT),
                "H5Lget_name_by_idx");
      name.resize(std::size_t(size));
      follow(group, name, prefix + name, subgroups);
    }
    // As ncdump lists them: a group's own variables before its groups.
    for (auto const& subgroup : subgroups) walk(subgroup.group.get(), subgroup.path + "/", depth + 1);
  }

  struct Subgroup {
    h5::Object group;
    std::string path;
  };

  void follow(hid_t group, std::string const& name, std::string const& path, std::vector<Subgroup>& subgroups) {
    if (met_.size() + groups_.size() > most_objects)
      throw Error("BrokenFile", "it holds more than " + std::to_string(most_objects) + " objects");
    H5L_info_t link{};
    h5::check(H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT), "H5Lget_info");
    if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT) {
      met_.push_back({path, 0,
                      link.type == H5L_TYPE_EXTERNAL ? "it is a link to another file, and such links are not followed"
                                                     : "it is a link of a user-defined kind"});
      return;
    }
    h5::Object object(link.type == H5L_TYPE_SOFT ? open_soft(group, name) : H5Oopen(group, name.c_str(), H5P_DEFAULT));
    if (!object) {
      if (link.type == H5L_TYPE_SOFT) return;
      auto const reason = h5::error_text();
      if (is_newer(reason)) {
        met_.push_back({path, 0, "it is " + newer_text(reason, has_checksums_)});
        return;
      }
      throw Error("BrokenFile", "object " + path + " cannot be opened: " + reason);
    }
    H5O_info_t info{};
    h5::check(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC), "H5Oget_info2");
    if (info.type == H5O_TYPE_DATASET) {
      met_.push_back({path, info.addr, ""});
      names_.try_emplace(info.addr, shown_name(path));
    } else if (info.type == H5O_TYPE_GROUP && groups_.insert(info.addr).second) {
      subgroups.push_back({std::move(object), path});
    }
  }

  /// Opens what a soft link leads to, unless an external link lies on the way.
  static hid_t open_soft(hid_t group, std::string const& name) {
    h5::Properties const access(h5::check(H5Pcreate(H5P_LINK_ACCESS), "H5Pcreate"));
    h5::check(H5Pset_elink_cb(access.get(), refuse_external, nullptr), "H5Pset_elink_cb");
    return H5Oopen(group, name.c_str(), access.get());
  }

  static herr_t refuse_external(char const*, char const*, char const*, char const*, unsigned*, hid_t, void*) {
    return -1;
  }

  [[nodiscard]] h5::Object open(Met const& met) const {
    return h5::Object(h5::check(H5Oopen_by_addr(file_, met.address), "H5Oopen_by_addr"));
  }

  static bool is_scale(hid_t dataset) { return h5::attribute_trouble(dataset).empty() && H5DSis_scale(dataset) > 0; }

  void find_dimension(Met const& met) {
    if (met.address == 0) return;
    auto const dataset = open(met);
    if (!is_scale(dataset.get()) || scales_.contains(met.address)) return;
    h5::Space const space(h5::check(H5Dget_space(dataset.get()), "H5Dget_space"));
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    std::array<hsize_t, H5S_MAX_RANK> limits{};
    int const ndim = H5Sget_simple_extent_dims(space.get(), extents.data(), limits.data());
    if (ndim < 1 || extents[0] > hsize_t(std::numeric_limits<Index>::max())) return;
    Scale scale;
    scale.dimension = {names_.at(met.address), Index(extents[0]), limits[0] == H5S_UNLIMITED};
    scale.order = scales_.size();
    auto const name = h5::read_attribute(dataset.get(), "NAME");
    scale.is_variable = !name || !name->text().starts_with(no_variable);
    if (auto const id = h5::read_attribute(dataset.get(), "_Netcdf4Dimid"); id && !id->numbers().empty())
      scale.id = Index(id->numbers().front());
    scales_.emplace(met.address, std::move(scale));
  }

  void order_dimensions(FileContents& result) const {
    std::vector<Scale const*> scales;
    for (auto const& [address, scale] : scales_) scales.push_back(&scale);
    std::sort(scales.begin(), scales.end(),
              [](auto const* a, auto const* b) { return std::pair(a->id, a->order) < std::pair(b->id, b->order); });
    for (auto const* scale : scales) result.dimensions.push_back(scale->dimension);
  }

  /// Those whose own dataset does not tell that it is one, because its attributes cannot be read.
  static void add_named_dimensions(FileContents& result) {
    for (auto const& variable : result.variables)
      for (int axis = 0; axis < variable.ndim(); ++axis) {
        auto const& name = variable.dimensions[std::size_t(axis)];
        bool const is_known = std::any_of(result.dimensions.begin(), result.dimensions.end(),
                                          [&](auto const& dimension) { return dimension.name == name; });
        if (!name.empty() && !is_known) result.dimensions.push_back({name, variable.extents[axis], false});
      }
  }

  /// netCDF-4's own rule: an unlimited dimension is as long as the longest variable along it, and so are then all of
  /// them. netCDF never makes the data set longer that stands for a dimension without coordinate.
  static void measure(Dimension& dimension, std::vector<Variable>& variables) {
    auto const for_each_axis = [&](auto const& visit) {
      for (auto& variable : variables)
        for (int axis = 0; axis < variable.ndim(); ++axis)
          if (variable.dimensions[std::size_t(axis)] == dimension.name) visit(variable, variable.extents[axis]);
    };
    std::optional<Index> longest;
    for_each_axis([&](Variable const&, Index extent) { longest = std::max(longest.value_or(0), extent); });
    if (!longest) return;
    dimension.extent = *longest;
    for_each_axis([&](Variable& variable, Index& extent) {
      extent = *longest;
      refuse_overflow(variable);
    });
  }

  static void refuse_overflow(Variable& variable) {
    Index bytes = 8;
    for (Index const extent : variable.extents)
      if (__builtin_mul_overflow(bytes, std::max<Index>(extent, 1), &bytes)) {
        variable.refusal = "its extents multiply to more than 2^63 bytes";
        variable.value_bytes = 0;
        return;
      }
  }

  std::optional<Variable> describe(Met const& met) {
    Variable variable;
    variable.name = shown_name(met.path);
    if (met.address == 0) {
      variable.refusal = met.refusal;
      return variable;
    }
    auto const scale = scales_.find(met.address);
    if (scale != scales_.end() && !scale->second.is_variable) return {};
    auto const dataset = open(met);
    h5::Type const type(h5::check(H5Dget_type(dataset.get()), "H5Dget_type"));
    auto const stored = h5::stored_type(type.get());
    variable.type = stored.type;
    variable.is_big_endian = stored.is_big_endian;
    describe_extents(dataset.get(), variable);
    describe_storage(dataset.get(), variable);
    if (variable.refusal.empty()) variable.value_bytes = stored.bytes;
    bool const is_in_file = variable.refusal.empty() && !variable.is_virtual;
    if (size_in_bytes(stored.type) == 0 && variable.refusal.empty())
      variable.refusal = "it holds " + stored.described + ", not numbers";
    variable.dimensions.assign(std::size_t(variable.ndim()), "");
    if (read_attributes(dataset.get(), variable)) name_axes(dataset.get(), met, variable);
    look_at_storage(dataset.get(), variable);
    variable.is_strings = stored.is_strings;
    if (stored.is_strings && is_in_file && variable.refusal_rule == "UnreadableVariable")
      read_strings(dataset.get(), variable);
    return variable;
  }

  /// Without them nobody knows what its values mean. @return whether they could be read
  bool read_attributes(hid_t dataset, Variable& variable) const {
    try {
      variable.attributes = h5::read_attributes(dataset);
      return true;
    } catch (Error const& error) {
      if (!is_newer(error.text())) throw;
      variable.refusal = "its attributes are " + newer_text(error.text(), has_checksums_);
      variable.value_bytes = 0;
      return false;
    }
  }

  /// Names and versions beside the fields, such as `expver` of ERA5: a list of them comes along with the structure, so
  /// that HDF5 need not follow their pointers in the program itself.
  static void read_strings(hid_t dataset, Variable& variable) {
    constexpr std::size_t most_bytes = std::size_t(1) << 20;
    auto strings = h5::read_strings(dataset, most_bytes);
    if (!strings) {
      variable.refusal = "it holds more than 1 MiB of strings of variable length";
      return;
    }
    std::size_t longest = 1;
    for (auto const& text : *strings) longest = std::max(longest, text.size());
    variable.value_bytes = Index(longest);
    variable.strings = std::move(*strings);
  }

  /// Where only its cells are damaged, the file's other variables can be read.
  void look_at_storage(hid_t dataset, Variable& variable) const {
    if (!variable.refusal.empty()) return;
    try {
      watch_.opened(dataset, variable);
    } catch (Error const& error) {
      variable.refusal = "it is damaged (" + error.text() + ")";
      variable.refusal_rule = "BrokenFile";
      variable.value_bytes = 0;
    }
  }

  static void describe_extents(hid_t dataset, Variable& variable) {
    h5::Space const space(h5::check(H5Dget_space(dataset), "H5Dget_space"));
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
      variable.refusal = "it holds no values";
      return;
    }
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    int const ndim =
        h5::check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), "H5Sget_simple_extent_dims");
    if (ndim > max_ndim) {
      variable.refusal =
          "it has " + std::to_string(ndim) + " axes, at most " + std::to_string(max_ndim) + " can be read";
      return;
    }
    for (int axis = 0; axis < ndim; ++axis) {
      constexpr auto most = hsize_t(std::numeric_limits<Index>::max());
      variable.extents.push_back(Index(std::min(extents[std::size_t(axis)], most)));
    }
    variable.stored_extents = variable.extents;
    refuse_overflow(variable);
  }

  void describe_storage(hid_t dataset, Variable& variable) const {
    h5::Properties const properties(h5::check(H5Dget_create_plist(dataset), "H5Dget_create_plist"));
    auto const layout = h5::check(H5Pget_layout(properties.get()), "H5Pget_layout");
    if (layout == H5D_VIRTUAL && variable.refusal.empty()) {
      variable.is_virtual = true;
      auto const num_cells = hsize_t(Box::from_extents(variable.extents).num_cells());
      auto [rule, text] = detail::check_virtual_sources(properties.get(), num_cells, path_);
      if (!text.empty()) {
        variable.refusal = std::move(text);
        variable.refusal_rule = std::move(rule);
      }
    }
    if (h5::check(H5Pget_external_count(properties.get()), "H5Pget_external_count") > 0)
      variable.refusal = "its values lie in another file, and such files are not followed";
    if (layout == H5D_CHUNKED && variable.ndim() > 0) {
      std::array<hsize_t, H5S_MAX_RANK> chunk{};
      int const ndim = h5::check(H5Pget_chunk(properties.get(), H5S_MAX_RANK, chunk.data()), "H5Pget_chunk");
      for (int axis = 0; axis < std::min(ndim, max_ndim); ++axis)
        variable.chunk.push_back(Index(chunk[std::size_t(axis)]));
    }
    int const num_filters = h5::check(H5Pget_nfilters(properties.get()), "H5Pget_nfilters");
    for (int i = 0; i < num_filters; ++i) describe_filter(properties.get(), unsigned(i), variable);
    if (layout == H5D_CHUNKED && !h5::allows_plugins(plugins_)) refuse_unsafe_filters(variable);
  }

  /// HDF5 1.10.8 unpacks chunks without looking at their lengths, in the program itself: a damaged one would crash it,
  /// or show other memory as values.
  static void refuse_unsafe_filters(Variable& variable) {
    if (!variable.refusal.empty() || variable.filters.empty() || detail::is_packed(variable)) return;
    std::string names;
    for (auto const& filter : variable.filters) {
      auto const known = filter_name(filter.id);
      names += (names.empty() ? "" : ", ") + (known.empty() ? "number " + std::to_string(filter.id) : known);
    }
    variable.refusal =
        "it is stored with filters (" + names +
        ") that cannot be undone safely when a file is damaged; if the file is sound, set HDF5_PLUGIN_PATH to a "
        "folder, "
        "which lets HDF5 undo them, or rewrite the file with `h5repack -f NONE IN OUT`, or with `-f SHUF -f GZIP=1`";
  }

  static std::string filter_name(int id) {
    switch (id) {
      case H5Z_FILTER_DEFLATE: return "deflate";
      case H5Z_FILTER_SHUFFLE: return "shuffle";
      case H5Z_FILTER_FLETCHER32: return "fletcher32";
      case H5Z_FILTER_SZIP: return "szip";
      case H5Z_FILTER_NBIT: return "nbit";
      case H5Z_FILTER_SCALEOFFSET: return "scaleoffset";
      case 307: return "bzip2";
      case 32000: return "lzf";
      case 32001: return "blosc";
      case 32004: return "lz4";
      case 32008: return "bitshuffle";
      case 32013: return "zfp";
      case 32015: return "zstd";
      case 32026: return "blosc2";
      default: return {};
    }
  }

  /// Why a filter is not there, and what helps.
  static std::string missing_plugin(FilterPlugins plugins, int id) {
    constexpr int lzf = 32000;
    if (id == lzf)
      return "which only h5py has; copy the file there without it, for example by "
             "`xarray.open_dataset(IN, engine=\"h5netcdf\").to_netcdf(OUT)`";
    char const* const path = std::getenv("HDF5_PLUGIN_PATH");
    auto const remedy = std::string(
        "HDF5_PLUGIN_PATH=FOLDER, where FOLDER holds the filter's plugin for HDF5: `pip "
        "install hdf5plugin` has many in its folder hdf5plugin/plugins, netCDF4 those of "
        "zstd, blosc, bzip2 and szip in netCDF4/plugins");
    if (h5::allows_plugins(plugins) && path != nullptr)
      return "whose plugin is not in HDF5_PLUGIN_PATH (" + std::string(path) + "); run with " + remedy;
    return "which this program lacks; run with " + remedy;
  }

  void describe_filter(hid_t properties, unsigned i, Variable& variable) const {
    unsigned flags = 0;
    std::array<unsigned, 32> parameters{};
    std::size_t count = parameters.size();
    std::array<char, 128> name{};
    unsigned config = 0;
    auto const id = h5::check(
        H5Pget_filter2(properties, i, &flags, &count, parameters.data(), name.size() - 1, name.data(), &config),
        "H5Pget_filter2");
    Variable::Filter filter;
    filter.id = int(id);
    filter.name = name.data();
    for (std::size_t k = 0; k < std::min(count, parameters.size()); ++k) filter.parameters.push_back(parameters[k]);
    filter.available = H5Zfilter_avail(id) > 0;
    // What files say of the others is a sentence, if anything.
    auto const known = filter_name(filter.id);
    if (!filter.available && !known.empty()) filter.name = known;
    if (filter.name.empty()) filter.name = std::to_string(id);
    if (!filter.available)
      variable.refusal = "it is stored with the filter '" + filter.name + "' (number " + std::to_string(filter.id) +
                         "), " + missing_plugin(plugins_, filter.id);
    variable.filters.push_back(std::move(filter));
  }

  void name_axes(hid_t dataset, Met const& met, Variable& variable) const {
    if (auto const scale = scales_.find(met.address); scale != scales_.end() && variable.ndim() == 1) {
      variable.dimensions[0] = scale->second.dimension.name;
      return;
    }
    for (int axis = 0; axis < variable.ndim(); ++axis) {
      if (H5DSget_num_scales(dataset, unsigned(axis)) <= 0) continue;
      haddr_t address = 0;
      H5DSiterate_scales(dataset, unsigned(axis), nullptr, keep_address, &address);
      if (auto const found = names_.find(address); found != names_.end())
        variable.dimensions[std::size_t(axis)] = found->second;
    }
    name_axes_by_ids(dataset, variable);
  }

  static herr_t keep_address(hid_t, unsigned, hid_t scale, void* data) {
    H5O_info_t info{};
    if (H5Oget_info2(scale, &info, H5O_INFO_BASIC) >= 0) *static_cast<haddr_t*>(data) = info.addr;
    return 1;  // the first scale names the axis
  }

  /// netCDF-4 cannot attach scales to a coordinate of several axes, and lists dimension numbers there instead.
  void name_axes_by_ids(hid_t dataset, Variable& variable) const {
    auto const ids = h5::read_attribute(dataset, "_Netcdf4Coordinates");
    if (!ids || ids->numbers().size() != std::size_t(variable.ndim())) return;
    for (int axis = 0; axis < variable.ndim(); ++axis) {
      auto& name = variable.dimensions[std::size_t(axis)];
      auto const id = Index(ids->numbers()[std::size_t(axis)]);
      for (auto const& [address, scale] : scales_)
        if (name.empty() && scale.id == id) name = scale.dimension.name;
    }
  }

  hid_t file_;
  std::filesystem::path path_;
  FilterPlugins plugins_;
  detail::ListingWatch const& watch_;
  bool has_checksums_ = false;  ///< of every structure
  std::vector<Met> met_;
  std::set<haddr_t> groups_;
  std::map<haddr_t, std::string> names_;
  std::map<haddr_t, Scale> scales_;
};

detail::Catalogue list_file(std::filesystem::path const& path, FilterPlugins plugins,
                            detail::ListingWatch const& watch) {
  auto const file = detail::open_alone(path);
  Listing listing(file.get(), path, plugins, watch);
  listing.walk();
  return listing.catalogue();
}

}  // namespace

namespace detail {

Catalogue read_hdf5_catalogue(std::filesystem::path const& path, FilterPlugins plugins, Structure kind) {
  static_cast<void>(restore_interrupted(path, kind == Structure::growing ? Unseen::has_ended : Unseen::lives));
  require_hdf5_signature(path);
  auto const bytes = read_by_process(kind, path, plugins);
  if (!bytes) return list_catalogue(path, plugins);
  auto catalogue = catalogue_from_bytes(*bytes);
  catalogue.contents.path = path;
  return catalogue;
}

Catalogue list_catalogue(std::filesystem::path const& path, FilterPlugins plugins, ListingWatch const& watch) {
  h5::Quiet const quiet(plugins);
  try {
    return list_file(path, plugins, watch);
  } catch (Error const& error) {
    if (is_newer(error.text()))
      throw Error(Fault::input, "UnsupportedFile", path.string() + " is " + newer_text(error.text(), false));
    if (auto const divided = divided_file_text(path, error.text()); !divided.empty())
      throw Error(Fault::input, "UnsupportedFile", path.string() + " " + divided);
    throw Error(Fault::input, "BrokenFile",
                path.string() + " is damaged or incomplete (" + error.text() + "); copy or make it again");
  }
}

}  // namespace detail

}  // namespace graticule
