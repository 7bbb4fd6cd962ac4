// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/companions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace graticule::samples {

std::string flat_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

namespace {

constexpr std::array naming_attributes{"bounds", "climatology", "formula_terms", "coordinates", "grid_mapping"};
/// netCDF's own default for f32, which f64 holds.
constexpr double default_fill = 9.969209968386869e+36;

/// `forecast/` of `forecast/z`.
std::string group_of(std::string const& name) { return name.substr(0, name.rfind('/') + 1); }

bool is_term(std::string const& word, std::string const& attribute) {
  return attribute == "formula_terms" && word.back() == ':';
}

/// A word of an attribute without the colon that `grid_mapping = "crs: x y"` may have.
std::string bare(std::string word) {
  if (word.back() == ':') word.pop_back();
  return word;
}

std::vector<std::string> words_of(Attribute const* attribute) {
  std::vector<std::string> words;
  std::istringstream text(attribute != nullptr ? attribute->text() : std::string());
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

void erase(std::vector<Attribute>& attributes, std::set<std::string> const& names) {
  std::erase_if(attributes, [&](Attribute const& attribute) { return names.contains(attribute.name); });
}

bool lacks(VariableSpec const& spec, char const* name) {
  return std::none_of(spec.attributes.begin(), spec.attributes.end(),
                      [&](Attribute const& attribute) { return attribute.name == name; });
}

bool names_variables(std::string const& attribute) {
  return std::find(naming_attributes.begin(), naming_attributes.end(), attribute) != naming_attributes.end();
}

/// The attribute in a file without groups; none if it names a variable that is not copied.
std::optional<Attribute> reference(std::string const& owner, Attribute const& attribute, CompanionSet const& set) {
  if (!names_variables(attribute.name)) return attribute;
  auto const has = [&](std::string const& name) {
    return std::any_of(set.variables.begin(), set.variables.end(),
                       [&](Companion const& companion) { return companion.spec.name == name; });
  };
  std::string text;
  for (auto const& word : words_of(&attribute)) {
    std::string shown = word;
    if (!is_term(word, attribute.name)) {
      auto const beside = group_of(owner) + bare(word);
      if (!has(beside) && !has(bare(word))) {
        if (attribute.name == "coordinates") continue;  // Each describes by itself.
        return {};
      }
      shown = flat_name(has(beside) ? beside : bare(word)) + (word.back() == ':' ? ":" : "");
    }
    text += (text.empty() ? "" : " ") + shown;
  }
  return text.empty() ? std::nullopt : std::optional(Attribute::of_text(attribute.name, text));
}

bool is_coordinate(Variable const& variable) {
  return variable.ndim() == 1 && variable.dimensions.front() == variable.name;
}

class Collector {
 public:
  Collector(Comm const& comm, FieldSeries const& file, std::string latitude, std::string longitude,
            Index num_longitudes, std::set<std::string> apart)
      : comm_(comm),
        file_(file),
        latitude_(std::move(latitude)),
        longitude_(std::move(longitude)),
        num_longitudes_(num_longitudes),
        apart_(std::move(apart)) {}

  CompanionSet operator()(std::vector<std::string> const& fields, std::vector<std::string> const& dimensions) {
    for (auto const& dimension : dimensions)
      if (file_.contents().find(dimension) != nullptr) want(dimension);
    for (auto const& field : fields) follow(file_.variable(field));
    for (std::size_t i = 0; i < found_.size(); ++i) follow(*found_[i]);
    for (auto const* source : found_) set_.variables.push_back(read(*source));
    for (auto& [spec, extents, values] : set_.variables) set_references(spec);
    return std::move(set_);
  }

 private:
  void follow(Variable const& owner) {
    for (auto const* attribute : naming_attributes)
      for (auto const& word : words_of(owner.attribute(attribute)))
        if (!is_term(word, attribute)) want(resolve(owner, bare(word)));
  }

  [[nodiscard]] std::string resolve(Variable const& owner, std::string const& name) const {
    auto const beside = group_of(owner.name) + name;
    return file_.contents().find(beside) != nullptr ? beside : name;
  }

  void want(std::string const& name) {
    if (!wanted_.insert(name).second) return;
    auto const* variable = file_.contents().find(name);
    if (variable != nullptr && comes_along(*variable))
      found_.push_back(variable);
    else
      set_.left_out.push_back(name);
  }

  [[nodiscard]] bool comes_along(Variable const& variable) const {
    if (apart_.contains(variable.name)) return false;
    for (auto const& dimension : variable.dimensions)
      if (apart_.contains(dimension)) return false;
    if (variable.axis("") >= 0 || (variable.axis(latitude_) >= 0 && variable.axis(longitude_) >= 0)) return false;
    if (variable.type != ValueType::text) return variable.refusal.empty();
    bool const is_joined = file_.files().size() > 1 && variable.axis(file_.dimension()) >= 0;
    return variable.value_bytes > 0 && !is_joined;
  }

  Companion read(Variable const& source) const {
    Companion companion{.spec = {.name = source.name, .dimensions = source.dimensions, .type = source.type},
                        .extents = source.extents,
                        .values = {}};
    companion.spec.attributes = source.attributes;
    if (source.type == ValueType::text) {
      companion.spec.text_bytes = source.value_bytes;
      std::vector<std::byte> text(std::size_t(num_cells(source) * source.value_bytes));
      FieldFile const first(comm_, file_.files().front(), {.plugins = file_.plugins()});
      first.read_stored(source.name, Box::from_extents(source.extents), text);
      companion.values = std::move(text);
      if (source.is_strings) {
        // As characters: parallel HDF5 writes no strings.
        companion.spec.text_bytes = 1;
        companion.spec.dimensions.push_back("string" + std::to_string(source.value_bytes));
        companion.extents.push_back(source.value_bytes);
        companion.spec.attributes.push_back(Attribute::of_text("_Encoding", "utf-8"));
      }
    } else {
      read_numbers(source, companion);
    }
    if (is_coordinate(source) && !source.is_strings) complete(companion.spec);
    leave_out_repetition(companion);
    return companion;
  }

  /// Of longitudes and their bounds, whose first axis it is.
  void leave_out_repetition(Companion& companion) const {
    auto const& dimensions = companion.spec.dimensions;
    if (dimensions.empty() || dimensions.front() != longitude_ || companion.extents[0] <= num_longitudes_) return;
    std::visit(
        [&](auto& values) {
          values.resize(values.size() / std::size_t(companion.extents[0]) * std::size_t(num_longitudes_));
        },
        companion.values);
    companion.extents[0] = num_longitudes_;
  }

  static Index num_cells(Variable const& variable) { return Box::from_extents(variable.extents).num_cells(); }

  void read_numbers(Variable const& source, Companion& companion) const {
    auto& spec = companion.spec;
    bool const is_packed = source.attribute("scale_factor") != nullptr || source.attribute("add_offset") != nullptr ||
                           !source.text("_Unsigned").empty();
    if (is_packed) {
      spec.type = ValueType::f64;
      erase(spec.attributes, {"scale_factor", "add_offset", "_Unsigned", "valid_min", "valid_max", "valid_range"});
    }
    if (spec.type == ValueType::f16) spec.type = ValueType::f32;
    auto const cells = std::size_t(num_cells(source));
    Box const all = Box::from_extents(source.extents);
    bool const has_gaps =
        source.attribute("_FillValue") != nullptr || source.attribute("missing_value") != nullptr || source.is_short();
    if (spec.type == ValueType::i64 && !has_gaps) {
      std::vector<std::int64_t> numbers(cells);
      file_.read(source.name, {.box = all}, field_view(numbers.data(), source.extents, 0));
      companion.values = std::move(numbers);
      return;
    }
    std::vector<double> numbers(cells);
    file_.read(source.name, all, std::span<double>(numbers));
    bool const has_nan = std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
    bool const is_real = spec.type == ValueType::f32 || spec.type == ValueType::f64;
    if (has_gaps) set_fill(spec, is_coordinate(source), is_packed || (has_nan && !is_real));
    companion.values = std::move(numbers);
  }

  /// What means "missing" in the input has become NaN in memory.
  static void set_fill(VariableSpec& spec, bool is_coordinate, bool changes_type) {
    if (changes_type) spec.type = ValueType::f64;
    if (is_coordinate || changes_type) erase(spec.attributes, {"_FillValue", "missing_value"});
    if (is_coordinate || !lacks(spec, "_FillValue")) return;
    spec.fill = default_fill;
    for (auto const& attribute : spec.attributes)
      if (attribute.name == "missing_value" && !attribute.numbers().empty()) spec.fill = attribute.numbers().front();
  }

  /// What CF asks of every coordinate.
  void complete(VariableSpec& spec) const {
    auto const add = [&](char const* name, std::string const& text) {
      if (lacks(spec, name)) spec.attributes.push_back(Attribute::of_text(name, text));
    };
    for (auto const& [dimension, name, units] : {std::array<std::string, 3>{latitude_, "latitude", "degrees_north"},
                                                 std::array<std::string, 3>{longitude_, "longitude", "degrees_east"}}) {
      if (spec.name != dimension) continue;
      // Of no direction: it was known by its name.
      std::erase_if(spec.attributes, [](Attribute const& attribute) {
        return attribute.name == "units" && (attribute.text() == "degrees" || attribute.text() == "degree");
      });
      add("standard_name", name);
      add("units", units);
    }
    auto const units = std::find_if(spec.attributes.begin(), spec.attributes.end(),
                                    [](Attribute const& attribute) { return attribute.name == "units"; });
    bool const is_time = units != spec.attributes.end() && units->text().find(" since ") != std::string::npos;
    if (is_time) add("standard_name", "time");
    if (lacks(spec, "standard_name")) add("long_name", spec.name);
    if (spec.type != ValueType::text) add("units", "1");
  }

  void set_references(VariableSpec& spec) const {
    auto const attributes = std::exchange(spec.attributes, {});
    for (auto const& attribute : attributes)
      if (auto kept = reference(spec.name, attribute, set_)) spec.attributes.push_back(std::move(*kept));
  }

  Comm const& comm_;
  FieldSeries const& file_;
  std::string latitude_;
  std::string longitude_;
  Index num_longitudes_;
  std::set<std::string> apart_;
  std::set<std::string> wanted_;
  std::vector<Variable const*> found_;
  CompanionSet set_;
};

}  // namespace

CompanionSet read_companions(Comm const& comm, FieldSeries const& file, std::vector<std::string> const& fields,
                             std::vector<std::string> const& dimensions, std::string const& latitude,
                             std::string const& longitude, Index num_longitudes, std::set<std::string> const& apart) {
  return Collector(comm, file, latitude, longitude, num_longitudes, apart)(fields, dimensions);
}

std::vector<Attribute> kept_attributes(Variable const& field, CompanionSet const& companions) {
  std::vector<Attribute> kept;
  for (auto const* name : {"standard_name", "units", "cell_methods", "coordinates", "grid_mapping"})
    if (auto const* attribute = field.attribute(name))
      if (auto found = reference(field.name, *attribute, companions)) kept.push_back(std::move(*found));
  return kept;
}

void write_companions(Comm const& comm, FieldWriter& writer, std::vector<Dimension> dimensions,
                      CompanionSet const& companions) {
  for (auto const& companion : companions.variables)
    for (int a = 0; a < companion.extents.size(); ++a) {
      auto const& name = companion.spec.dimensions[std::size_t(a)];
      if (std::none_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; }))
        dimensions.push_back({name, companion.extents[a]});
    }
  for (auto const& dimension : dimensions) writer.add_dimension(flat_name(dimension.name), dimension.extent);
  for (auto const& [spec, extents, values] : companions.variables) {
    VariableSpec flat = spec;
    flat.name = flat_name(flat.name);
    for (auto& dimension : flat.dimensions) dimension = flat_name(dimension);
    writer.add_variable(flat);
    bool const writes = comm.rank() == 0 || extents.size() == 0;  // all ranks write a single value
    Box const box = Box::from_extents(writes ? extents : Indices::filled(extents.size(), 0));
    if (auto const* text = std::get_if<0>(&values))
      writer.write_stored(flat.name, box, std::span(*text).first(writes ? text->size() : 0));
    else if (auto const* integers = std::get_if<1>(&values))
      writer.write(flat.name, {.box = box}, field_view(integers->data(), extents, 0));
    else if (auto const* numbers = std::get_if<2>(&values))
      writer.write(flat.name, box, std::span(*numbers).first(writes ? numbers->size() : 0));
  }
}

}  // namespace graticule::samples
