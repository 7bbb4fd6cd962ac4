// SPDX-License-Identifier: BSD-3-Clause
#include "rewrite.hpp"

#include <graticule/app/joined.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/field_io/detail/writes_store.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

namespace graticule::archive {

namespace {

using app::joined;

/// netCDF's own fill value of f32 and f64.
constexpr double default_fill = 9.969209968386869e+36;
constexpr double packed_fill = -32768;
/// HDF5 counts the bytes of a chunk in 32 bits.
constexpr Index most_chunk_bytes = (Index(1) << 32) - 1;
/// Of chunks that nobody asked for, where filters or unlimited dimensions need some.
constexpr Index usual_chunk_bytes = Index(4) << 20;

[[noreturn]] void refuse(std::string const& rule, std::string const& what) { throw Error(Fault::usage, rule, what); }

bool holds(std::vector<std::string> const& names, std::string const& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Gives axes without a dimension netCDF's names for them: `phony_dim_0`, ..., one for each extent.
std::vector<Variable> with_names(FileContents const& contents, std::vector<Dimension>& dimensions) {
  auto variables = contents.variables;
  std::map<Index, std::string> phony;
  for (auto& variable : variables) {
    variable.dimensions.resize(std::size_t(variable.ndim()));
    for (int axis = 0; axis < variable.ndim(); ++axis) {
      auto& name = variable.dimensions[std::size_t(axis)];
      if (!name.empty()) continue;
      auto const [found, is_new] = phony.try_emplace(variable.extents[axis]);
      if (is_new) {
        found->second = "phony_dim_" + std::to_string(phony.size() - 1);
        dimensions.push_back({found->second, variable.extents[axis], false});
      }
      name = found->second;
    }
  }
  return variables;
}

void require_known(std::vector<std::string> const& names, std::vector<std::string> const& known,
                   std::string const& option, std::string const& kind) {
  std::set<std::string> seen;
  for (auto const& name : names) {
    if (!holds(known, name))
      refuse("UnknownName", option + ": there is no " + kind + " '" + name + "'; the file has " + joined(known));
    if (!seen.insert(name).second) refuse("BadOption", option + " names " + name + " twice");
  }
}

/// Variables that others name as their coordinates, bounds and the like, and coordinates.
std::set<std::string> helpers(std::vector<Variable> const& variables) {
  std::set<std::string> names;
  for (auto const& variable : variables) {
    for (auto const* attribute : {"coordinates", "bounds", "climatology", "grid_mapping", "ancillary_variables",
                                  "cell_measures", "formula_terms"}) {
      std::istringstream words(variable.text(attribute));
      for (std::string word; words >> word;) names.insert(word);
    }
    if (!variable.dimensions.empty() && variable.dimensions.front() == variable.name) names.insert(variable.name);
  }
  return names;
}

bool is_number(Variable const& variable) { return variable.refusal.empty() && size_in_bytes(variable.type) > 0; }

/// The source's axes in the order of the target; those that share a dimension follow each other as in the source.
Indices ordered_axes(Variable const& variable, std::vector<std::string> const& order) {
  Indices axes;
  for (auto const& name : order)
    for (int axis = 0; axis < variable.ndim(); ++axis)
      if (variable.dimensions[std::size_t(axis)] == name) axes.push_back(axis);
  for (int axis = 0; axis < variable.ndim() && order.empty(); ++axis) axes.push_back(axis);
  return axes;
}

/// Two axes share a dimension, and the order would separate or move them; it cannot distinguish them.
bool is_ambiguous(Variable const& variable, std::vector<std::string> const& order) {
  std::set<std::string> const different(variable.dimensions.begin(), variable.dimensions.end());
  if (different.size() == variable.dimensions.size()) return false;
  auto const axes = ordered_axes(variable, order);
  return !std::is_sorted(axes.begin(), axes.end());
}

struct Choice {
  std::vector<std::string> names;
  std::vector<std::string> ambiguous;  ///< fields that nobody asked for by name, so they stay as they are
};

Choice chosen(FileContents const& contents, std::vector<Variable> const& variables, Options const& options) {
  Choice choice;
  std::vector<std::string> all;
  Variable const* refused = nullptr;
  auto const known_helpers = helpers(variables);
  for (auto const& variable : variables) {
    all.push_back(variable.name);
    bool const has_order =
        options.order.empty() || std::all_of(variable.dimensions.begin(), variable.dimensions.end(),
                                             [&](auto const& dimension) { return holds(options.order, dimension); });
    bool const is_field = variable.ndim() > 1 && size_in_bytes(variable.type) > 0 && has_order &&
                          !known_helpers.contains(variable.name) && !holds(options.exclude, variable.name);
    if (!is_field) continue;
    if (!variable.refusal.empty()) {
      refused = &variable;
      continue;
    }
    if (is_ambiguous(variable, options.order))
      choice.ambiguous.push_back(to_string(variable));
    else
      choice.names.push_back(variable.name);
  }
  require_known(options.variables, all, "--variables", "variable");
  require_known(options.exclude, all, "--exclude", "variable");
  for (auto const& name : options.variables)
    if (holds(options.exclude, name)) refuse("BadOption", "--exclude and --variables both name " + name);
  if (!options.variables.empty()) return {options.variables, {}};
  if (choice.names.empty() && refused != nullptr)
    throw Error(
        Fault::input, refused->refusal_rule,
        "variable " + refused->name + " of " + contents.path.string() + " cannot be rewritten: " + refused->refusal);
  if (choice.names.empty() && !options.order.empty())
    refuse("BadOption",
           "--order " + joined(options.order) +
               (choice.ambiguous.empty() ? ": no field has dimensions of these names only"
                                         : " cannot tell the axes of " + joined(choice.ambiguous) + " apart"));
  return choice;
}

Indices permutation_of(Variable const& variable, std::vector<std::string> const& order) {
  for (auto const& name : variable.dimensions)
    if (!order.empty() && !holds(order, name))
      refuse("BadOption", "--order lacks '" + name + "' of " + to_string(variable));
  if (is_ambiguous(variable, order))
    refuse("BadOption", "--order " + joined(order) + " cannot tell the axes of " + to_string(variable) + " apart");
  return ordered_axes(variable, order);
}

bool is_packed(Variable const& variable) {
  return variable.attribute("scale_factor") != nullptr || variable.attribute("add_offset") != nullptr;
}

/// The first of the values that mean "missing", by the CF conventions.
std::optional<double> missing_value(Variable const& variable) {
  for (auto const* name : {"_FillValue", "missing_value"})
    if (auto const* attribute = variable.attribute(name))
      if (auto const numbers = attribute->numbers(); !numbers.empty()) return numbers.front();
  return {};
}

/// Cells are codes, of the type of these attributes.
bool has_flags(Variable const& variable) {
  return variable.attribute("flag_values") != nullptr || variable.attribute("flag_masks") != nullptr;
}

std::vector<Attribute> without(std::vector<Attribute> attributes, std::set<std::string> const& names) {
  std::erase_if(attributes, [&](auto const& attribute) { return names.contains(attribute.name); });
  return attributes;
}

void set_type(Rewrite& rewrite, TypeWish wish) {
  auto const& source = rewrite.source;
  auto const type = wish == TypeWish::f32 ? ValueType::f32 : ValueType::f64;
  bool const packed = is_packed(source) || !source.text("_Unsigned").empty();
  if (wish == TypeWish::same || has_flags(source) || (wish != TypeWish::i16_packed && source.type == type && !packed))
    return;
  if (wish == TypeWish::i16_packed && source.ndim() == 0) return;  // the range of one value is no scale
  if (!is_number(source))
    throw Error(Fault::input, "UnreadableVariable",
                "variable " + source.name +
                    " cannot be converted: " + (source.refusal.empty() ? "it holds text" : source.refusal));
  // Attributes that refer to stored values no longer hold.
  std::set<std::string> dropped{"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"};
  if (packed || wish == TypeWish::i16_packed)
    for (auto const* limit : {"valid_min", "valid_max", "valid_range"})
      if (source.attribute(limit) != nullptr) {
        dropped.insert(limit);
        rewrite.dropped_limits.emplace_back(limit);
      }
  rewrite.target.attributes = without(std::move(rewrite.target.attributes), dropped);
  if (wish == TypeWish::i16_packed) {
    rewrite.packs = true;
    rewrite.target.type = ValueType::i16;
    rewrite.target.fill = packed_fill;
    rewrite.form =
        size_in_bytes(source.type) <= (source.type == ValueType::f32 ? 4 : 2) && !packed ? Form::f32 : Form::f64;
  } else {
    rewrite.target.type = type;
    rewrite.form = wish == TypeWish::f32 ? Form::f32 : Form::f64;
  }
  if (auto const missing = missing_value(source); missing && !rewrite.packs) {
    bool const fits = !packed && (std::isnan(*missing) || std::abs(*missing) <= std::numeric_limits<float>::max());
    rewrite.target.fill = fits ? *missing : default_fill;
    if (wish == TypeWish::f32) rewrite.target.fill = double(float(*rewrite.target.fill));
  }
  if (rewrite.target.fill && source.attribute("missing_value") != nullptr)
    rewrite.target.attributes.push_back(
        Attribute::of_number("missing_value", *rewrite.target.fill, rewrite.target.type));
}

/// Whole fast axes, as many cells of the slower ones as fit.
Indices usual_chunk(Indices const& extents, Index value_bytes) {
  Indices chunk = Indices::filled(extents.size(), 1);
  Index cells = std::max<Index>(usual_chunk_bytes / value_bytes, 1);
  for (int axis = extents.size() - 1; axis >= 0; --axis) {
    chunk[axis] = std::clamp<Index>(cells, 1, std::max<Index>(extents[axis], 1));
    cells /= chunk[axis];
  }
  return chunk;
}

void set_chunk(Rewrite& rewrite, ChunkWish const& wish, bool needs_chunk) {
  auto const& source = rewrite.source;
  Indices chunk;
  Indices extents;
  for (Index const axis : rewrite.permutation) {
    Index const extent = source.extents[int(axis)];
    extents.push_back(extent);
    auto const found = wish.extents.find(source.dimensions[std::size_t(axis)]);
    Index value = source.chunk.size() == source.ndim() ? source.chunk[int(axis)] : extent;
    if (found != wish.extents.end()) value = found->second == ChunkWish::whole ? extent : found->second;
    chunk.push_back(std::clamp<Index>(value, 1, std::max<Index>(extent, 1)));
  }
  bool const names_axis = std::any_of(source.dimensions.begin(), source.dimensions.end(),
                                      [&](auto const& name) { return wish.extents.contains(name); });
  Index const value_bytes =
      rewrite.target.type == ValueType::text ? rewrite.target.text_bytes : size_in_bytes(rewrite.target.type);
  bool const keeps = wish.kind != ChunkWish::Kind::none && (names_axis || source.chunk.size() > 0);
  rewrite.target.chunk = keeps ? chunk : needs_chunk ? usual_chunk(extents, value_bytes) : Indices();
  Index bytes = value_bytes;
  for (Index const extent : rewrite.target.chunk)
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > most_chunk_bytes)
      refuse("BadOption", "--chunk: chunks of " + to_string(rewrite.target.chunk) + " cells of " + source.name +
                              " would be larger than HDF5's 4 GiB");
}

/// Wishes that are the same for all chosen variables.
struct Wishes {
  TypeWish type;
  ChunkWish chunk;
  std::optional<int> deflate;
  ChunkWish shard;
  bool to_store = false;
};

/// Its `_FillValue` has no place in the output, though its cells do.
bool lacks_fill(Rewrite const& rewrite, Wishes const& wishes) {
  auto const& target = rewrite.target;
  bool const has_fill = std::any_of(target.attributes.begin(), target.attributes.end(), [](Attribute const& one) {
    return one.name == "_FillValue" && !one.text().empty();
  });
  return has_fill && target.type == ValueType::text && (wishes.to_store || target.text_bytes > 1);
}

/// netCDF has no half precision; f32 holds its values.
bool is_widened(Variable const& source, Wishes const& wishes) {
  bool const stays = wishes.type == TypeWish::same || source.ndim() == 0;
  return source.type == ValueType::f16 && !wishes.to_store && stays && !has_flags(source);
}

/// Codecs of a store are not those of a netCDF-4 file.
void require_fitting(Options const& options, Wishes const& wishes) {
  if (wishes.to_store) {
    if (options.deflate != "same" || options.shuffle || options.no_shuffle)
      refuse("BadOption", "--deflate, --shuffle and --no-shuffle are for netCDF-4 files; " + options.output +
                              " is to be a Zarr store: use --codec, such as --codec gzip:5");
    if (wishes.chunk.kind == ChunkWish::Kind::none)
      refuse("BadOption", "--chunk none: " + options.output + " is to be a Zarr store, which has chunks");
    if (wishes.shard.kind == ChunkWish::Kind::none) refuse("BadOption", "--shard none: leave the option out");
  } else if (!options.codec.empty() || !options.shard.empty()) {
    refuse("BadOption", "--codec and --shard are for Zarr stores; " + options.output +
                            " is to be a netCDF-4 file: name one that ends in .zarr");
  }
}

/// Whole chunks in the target's order of axes; none without a wish for one of its dimensions.
Indices shard_of(VariableSpec const& target, Variable const& source, ChunkWish const& wish) {
  Indices shard;
  bool names_axis = false;
  for (int axis = 0; axis < target.chunk.size(); ++axis) {
    auto const found = wish.extents.find(target.dimensions[std::size_t(axis)]);
    Index const extent = source.extents[source.axis(target.dimensions[std::size_t(axis)])];
    names_axis = names_axis || found != wish.extents.end();
    Index const cells = found == wish.extents.end()         ? target.chunk[axis]
                        : found->second == ChunkWish::whole ? std::max<Index>(extent, 1)
                                                            : found->second;
    shard.push_back(cells);
  }
  return names_axis ? shard : Indices();
}

Rewrite rewrite_of(Variable const& source, Options const& options, Wishes const& wishes,
                   std::vector<Dimension> const& dimensions) {
  Rewrite rewrite{
      .source = source, .permutation = permutation_of(source, options.order), .target = VariableSpec::of(source)};
  set_type(rewrite, is_widened(source, wishes) ? TypeWish::f32 : wishes.type);
  rewrite.target.dimensions.clear();
  bool is_unlimited = false;
  for (Index const axis : rewrite.permutation) {
    auto const& name = source.dimensions[std::size_t(axis)];
    rewrite.target.dimensions.push_back(name);
    for (auto const& dimension : dimensions)
      is_unlimited = is_unlimited || (dimension.name == name && dimension.is_unlimited);
  }
  if (wishes.to_store) {
    rewrite.to_store = true;
    rewrite.target.deflate = 0;
    rewrite.target.shuffle = Shuffle::never;
    set_chunk(rewrite, wishes.chunk, true);
    rewrite.target.shard = shard_of(rewrite.target, source, wishes.shard);
    return rewrite;
  }
  if (wishes.deflate) rewrite.target.deflate = *wishes.deflate;
  if (options.shuffle) rewrite.target.shuffle = Shuffle::always;
  if (options.no_shuffle) rewrite.target.shuffle = Shuffle::never;
  if (wishes.deflate && !options.shuffle && !options.no_shuffle) rewrite.target.shuffle = Shuffle::with_deflate;
  bool const has_filters = rewrite.target.deflate > 0 || rewrite.target.shuffle == Shuffle::always;
  if (wishes.chunk.kind == ChunkWish::Kind::none && has_filters)
    refuse("BadOption",
           "--chunk none: " + source.name + " needs chunks because it is compressed (--deflate 0 --no-shuffle)");
  set_chunk(rewrite, wishes.chunk, has_filters || is_unlimited);
  return rewrite;
}

/// @param fixed dimensions that are unlimited no more: what is stored along them needs no chunks but for filters
Rewrite copy_of(Variable const& source, Wishes const& wishes, std::vector<std::string> const& fixed) {
  Rewrite rewrite{.source = source, .permutation = permutation_of(source, {}), .target = VariableSpec::of(source)};
  rewrite.target.dimensions = source.dimensions;
  if (is_widened(source, wishes)) set_type(rewrite, TypeWish::f32);
  if (wishes.to_store) {
    rewrite.to_store = true;
    rewrite.target.deflate = 0;
    return rewrite;
  }
  bool const has_filters = rewrite.target.deflate > 0 || rewrite.target.shuffle == Shuffle::always;
  bool const is_freed = std::any_of(source.dimensions.begin(), source.dimensions.end(),
                                    [&](auto const& dimension) { return holds(fixed, dimension); });
  if (is_freed && !has_filters) rewrite.target.chunk = {};
  return rewrite;
}

/// Parallel HDF5 writes no strings of variable length: they become characters along one more dimension, which readers
/// of netCDF take for strings again.
Rewrite characters_of(Variable const& source, std::vector<Dimension>& dimensions) {
  Rewrite rewrite{.source = source,
                  .permutation = permutation_of(source, {}),
                  .target = {.name = source.name, .dimensions = source.dimensions, .type = ValueType::text}};
  auto& target = rewrite.target;
  target.text_bytes = 1;
  // A fill value of characters is one character.
  target.attributes = without(source.attributes, {"_FillValue"});
  if (source.attribute("_Encoding") == nullptr) target.attributes.push_back(Attribute::of_text("_Encoding", "utf-8"));
  auto name = "string" + std::to_string(source.value_bytes);
  auto const find = [&] {
    return std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& one) { return one.name == name; });
  };
  while (find() != dimensions.end() && find()->extent != source.value_bytes) name += "_";
  if (find() == dimensions.end()) dimensions.push_back({name, source.value_bytes, false});
  bool is_unlimited = false;
  for (auto const& dimension : dimensions)
    is_unlimited = is_unlimited || (dimension.is_unlimited && source.axis(dimension.name) >= 0);
  target.dimensions.push_back(name);
  auto extents = source.extents;
  extents.push_back(source.value_bytes);
  if (is_unlimited) target.chunk = usual_chunk(extents, 1);
  return rewrite;
}

/// Fields in one piece cannot grow.
void fix_dimensions(Plan& plan, std::vector<Variable> const& variables, std::vector<std::string> const& fields) {
  for (auto const& variable : variables) {
    if (!holds(fields, variable.name)) continue;
    for (auto& dimension : plan.dimensions)
      if (dimension.is_unlimited && variable.axis(dimension.name) >= 0) {
        dimension.is_unlimited = false;
        plan.fixed.push_back(dimension.name);
      }
  }
}

void require_copyable(FileContents const& contents, Variable const& variable) {
  auto const leave_out = "; --exclude " + variable.name + " leaves it out";
  if (variable.name.find('/') != std::string::npos)
    throw Error(Fault::input, "Unsupported",
                contents.path.string() + " holds variable " + variable.name +
                    " in a group; extract it first, for example with `ncks -g`" + leave_out);
  if (variable.value_bytes == 0)
    throw Error(Fault::input, "UnreadableVariable",
                "variable " + variable.name + " of " + contents.path.string() + " cannot be copied (" +
                    variable.refusal + ")" + leave_out);
  try {
    if (variable.type != ValueType::text) require_packing(contents, variable);
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), error.text() + leave_out);
  }
}

}  // namespace

Storage Rewrite::source_storage() const {
  bool const kept = form == Form::stored || (!is_packed(source) && source.attribute("_FillValue") == nullptr &&
                                             source.attribute("missing_value") == nullptr &&
                                             source.type == (form == Form::f32 ? ValueType::f32 : ValueType::f64));
  return {source.chunk, !source.filters.empty(), source.value_bytes, !kept};
}

Storage Rewrite::target_storage() const {
  bool const kept = form == Form::stored || (!target.packing && !packs && !target.fill);
  Index const bytes = target.type == ValueType::text ? target.text_bytes : size_in_bytes(target.type);
  return {target.chunk, to_store || target.deflate > 0 || target.shuffle == Shuffle::always, bytes, !kept};
}

Plan plan_rewrite(FileContents const& contents, Options const& options) {
  Wishes const wishes{parse_type(options.dtype), parse_chunk(options.chunk), parse_deflate(options.deflate),
                      parse_chunk(options.shard, "--shard"), writes_store(options.output)};
  require_fitting(options, wishes);
  if (options.shuffle && options.no_shuffle) refuse("BadOption", "--shuffle and --no-shuffle exclude each other");
  Plan plan{.dimensions = contents.dimensions};
  auto const variables = with_names(contents, plan.dimensions);
  std::vector<std::string> dimensions;
  for (auto const& dimension : plan.dimensions) dimensions.push_back(dimension.name);
  std::vector<std::string> chunked;
  for (auto const& [name, extent] : wishes.chunk.extents) chunked.push_back(name);
  require_known(options.order, dimensions, "--order", "dimension");
  require_known(chunked, dimensions, "--chunk", "dimension");
  std::vector<std::string> sharded;
  for (auto const& [name, extent] : wishes.shard.extents) sharded.push_back(name);
  require_known(sharded, dimensions, "--shard", "dimension");
  auto const choice = chosen(contents, variables, options);
  plan.ambiguous = choice.ambiguous;
  if (wishes.chunk.kind == ChunkWish::Kind::none) fix_dimensions(plan, variables, choice.names);
  for (auto const& variable : variables) {
    if (holds(options.exclude, variable.name)) continue;
    require_copyable(contents, variable);
    if (variable.is_strings) {
      plan.variables.push_back(characters_of(variable, plan.dimensions));
      if (!variable.text("_FillValue").empty()) plan.no_fills.push_back(variable.name);
      continue;
    }
    bool const is_rewritten = holds(choice.names, variable.name);
    if (is_rewritten && !variable.dimensions.empty() && variable.dimensions.front() == variable.name)
      refuse("BadOption", "--variables: " + variable.name + " is a coordinate, which comes along as it is");
    plan.variables.push_back(is_rewritten ? rewrite_of(variable, options, wishes, plan.dimensions)
                                          : copy_of(variable, wishes, plan.fixed));
    if (variable.type == ValueType::f16 && !wishes.to_store) plan.widened.push_back(variable.name);
    if (is_rewritten && wishes.type != TypeWish::same && has_flags(variable)) plan.flags.push_back(variable.name);
    if (lacks_fill(plan.variables.back(), wishes)) plan.no_fills.push_back(variable.name);
    for (auto const& limit : plan.variables.back().dropped_limits)
      plan.no_limits.push_back(limit + " of " + variable.name);
  }
  // Dimensions of groups; whoever used them was left out.
  std::erase_if(plan.dimensions, [](auto const& d) { return d.name.find('/') != std::string::npos; });
  return plan;
}

}  // namespace graticule::archive
