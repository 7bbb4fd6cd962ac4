// SPDX-License-Identifier: BSD-3-Clause
// netCDF-4 and HDF5 files.
#include <graticule/field_io/calendar.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/detail/copy_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/field_view.hpp>

#include "handles.hpp"
#include "structures.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <utility>
#include <variant>

using namespace graticule;
using namespace graticule::c;

namespace {

ValueType stored_type(gr_type type, char const* name) {
  switch (type) {
    case GR_U8: return ValueType::u8;
    case GR_I8: return ValueType::i8;
    case GR_I16: return ValueType::i16;
    case GR_I32: return ValueType::i32;
    case GR_I64: return ValueType::i64;
    case GR_F16: return ValueType::f16;
    case GR_F32: return ValueType::f32;
    case GR_F64: return ValueType::f64;
    default: throw bad_argument(std::string(name) + " is " + std::to_string(int(type)) + ", which files do not store");
  }
}

std::vector<Attribute> list_of(gr_attributes const* attributes) {
  return attributes != nullptr ? required(attributes, "attributes").list : std::vector<Attribute>();
}

/// Calls a function of a file, or of several that are read as one.
template <class Call>
auto with_file(Object<gr_file> const& file, Call&& call) {
  return std::visit(call, file.file);
}

FileContents const& contents_of(gr_file const* file) {
  return *with_file(required(file, "file"), [](auto const& of) { return &of.contents(); });
}

/// The files of a series; `nullptr` for a single file.
FieldSeries const* series_of(gr_file const* file) { return std::get_if<FieldSeries>(&required(file, "file").file); }

Variable const& variable_of(gr_file const* file, char const* variable) {
  return contents_of(file).variable(&required(variable, "variable"));
}

/// The attribute of a variable, or of the file; `nullptr` when there is none.
Attribute const* attribute_of(gr_file const* file, char const* variable, char const* attribute) {
  auto const* const name = &required(attribute, "attribute");
  if (variable != nullptr) return variable_of(file, variable).attribute(name);
  auto const& all = contents_of(file).attributes;
  auto const found = std::find_if(all.begin(), all.end(), [&](Attribute const& one) { return one.name == name; });
  return found != all.end() ? &*found : nullptr;
}

Variable const& time_coordinate(FileContents const& contents, char const* dimension) {
  auto const* const found = contents.coordinate(dimension);
  if (found == nullptr)
    throw Error(Fault::input, "MissingVariable",
                "dimension '" + std::string(dimension) + "' of " + contents.path.string() + " has no coordinate");
  return *found;
}

/// Runs an action on a coordinate of time, which its errors name.
template <class Action>
auto of_times(FileContents const& contents, Variable const& coordinate, Action const& action) {
  try {
    return action();
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(), coordinate.name + " of " + contents.path.string() + ": " + error.text());
  }
}

/// Box, steps and axes of a read or a write, and the field.
struct Part {
  FileSelection selection;
  FieldView view;
};

/// Arguments of `gr_file_read` and `gr_writer_write`.
struct PartArguments {
  int ndim;
  int64_t const* lower;
  int64_t const* upper;
  int64_t const* steps;
  int num_axes;
  int const* axes;
  gr_field const* field;
};

Part part_of(PartArguments const& given) {
  auto const field = read_structure(given.field, {"field"});
  Part part;
  part.view = memory_of(field, {"field"});
  // A variable without axes has one cell.
  if (given.ndim != 0) part.selection.box = box_of(given.ndim, given.lower, given.upper);
  if (given.steps != nullptr) part.selection.steps = indices(given.steps, given.ndim, "steps");
  if (given.axes != nullptr) {
    if (given.num_axes != field.rank)
      throw bad_argument("num_axes is " + std::to_string(given.num_axes) + " for a field of " +
                         std::to_string(field.rank) + " axes");
    for (int m = 0; m < field.rank; ++m) part.selection.axes.push_back(given.axes[m]);
  } else if (field.rank < given.ndim) {
    for (int m = 0; m < field.rank; ++m) part.selection.axes.push_back(given.ndim - field.rank + m);
  }
  if (field.has_first != 0)
    for (int m = 0; m < field.rank; ++m) part.selection.offset.push_back(field.first[m]);
  return part;
}

}  // namespace

gr_status gr_attributes_create(gr_attributes** attributes) {
  return GR_BODY({
    required(attributes, "attributes");
    give(attributes);
  });
}

gr_status gr_attributes_add_text(gr_attributes* attributes, char const* name, char const* value) {
  return GR_BODY({
    auto& list = required(attributes, "attributes").list;
    list.push_back(Attribute::of_text(&required(name, "name"), &required(value, "value")));
  });
}

gr_status gr_attributes_add_number(gr_attributes* attributes, char const* name, double value, gr_type type) {
  return GR_BODY({
    auto& list = required(attributes, "attributes").list;
    list.push_back(Attribute::of_number(&required(name, "name"), value, stored_type(type, "type")));
  });
}

gr_status gr_attributes_destroy(gr_attributes** attributes) {
  return GR_FREE({ free_handle(attributes, "attributes"); });
}

gr_status gr_file_open(gr_comm const* comm, char const* path, gr_file** file) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    run_agreed(of, [&] {
      required(path, "path");
      required(file, "file");
    });
    give(file, of, FieldFile(of, path));
  });
}

gr_status gr_file_open_series(gr_comm const* comm, int num_patterns, char const* const* patterns, char const* dimension,
                              int most_open, gr_file** file) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto const names = agreed(of, [&] {
      required(file, "file");
      require_count(num_patterns, 1, "num_patterns");
      require_count(most_open, 1, "most_open");
      return texts_of(num_patterns, patterns, "patterns");
    });
    require_same(of, "ArgumentDisagreement", std::uint64_t(num_patterns), std::to_string(num_patterns) + " patterns");
    std::vector<std::filesystem::path> files;
    for (auto const& name : names) {
      auto const found = find_files(of, name);
      files.insert(files.end(), found.begin(), found.end());
    }
    FieldSeriesOptions options;
    if (dimension != nullptr) options.dimension = dimension;
    options.most_open = most_open;
    give(file, of, FieldSeries(of, std::move(files), options));
  });
}

gr_status gr_file_num_files(gr_file const* file, int* num_files) {
  return GR_BODY({
    auto const* const series = series_of(file);
    required(num_files, "num_files") = series != nullptr ? int(series->files().size()) : 1;
  });
}

gr_status gr_file_part(gr_file const* file, int number, int64_t* cells_before, int64_t* num_cells, char const** path) {
  return GR_BODY({
    auto const* const series = series_of(file);
    auto const files = series != nullptr ? series->files() : std::vector<std::filesystem::path>{contents_of(file).path};
    if (number < 0 || number >= int(files.size()))
      throw bad_argument("number is " + std::to_string(number) + " of " + std::to_string(files.size()) + " files");
    auto& before = required(cells_before, "cells_before");
    auto& cells = required(num_cells, "num_cells");
    required(path, "path") = kept_text(files[std::size_t(number)].string());
    bool const joined = series != nullptr && !series->dimension().empty();
    auto const ends = joined ? series->file_ends() : std::vector<Index>();
    before = joined ? ends[std::size_t(number)] : 0;
    cells = joined ? ends[std::size_t(number) + 1] - before : 0;
  });
}

gr_status gr_file_series_dimension(gr_file const* file, char const** name) {
  return GR_BODY({
    auto const* const series = series_of(file);
    required(name, "name") = kept_text(series != nullptr ? series->dimension() : std::string());
  });
}

gr_status gr_file_close(gr_file** file) {
  return GR_FREE({ free_handle(file, "file"); });
}

gr_status gr_file_num_variables(gr_file const* file, int* num_variables) {
  return GR_BODY({ required(num_variables, "num_variables") = int(contents_of(file).variables.size()); });
}

gr_status gr_file_variable_name(gr_file const* file, int number, char const** name) {
  return GR_BODY({
    auto const& all = contents_of(file).variables;
    if (number < 0 || number >= int(all.size()))
      throw bad_argument("number is " + std::to_string(number) + " of " + std::to_string(all.size()) + " variables");
    required(name, "name") = kept_text(all[std::size_t(number)].name);
  });
}

gr_status gr_file_ndim(gr_file const* file, char const* variable, int* ndim) {
  return GR_BODY({ required(ndim, "ndim") = variable_of(file, variable).ndim(); });
}

gr_status gr_file_extents(gr_file const* file, char const* variable, int ndim, int64_t* extents) {
  return GR_BODY({
    auto const& of = variable_of(file, variable);
    if (ndim != of.ndim())
      throw bad_argument("ndim is " + std::to_string(ndim) + ", the variable has " + std::to_string(of.ndim()) +
                         " axes");
    write_indices(of.extents, ndim, extents, "extents");
  });
}

gr_status gr_file_dimension(gr_file const* file, char const* variable, int ndim, int axis, char const** name) {
  return GR_BODY({
    auto const& of = variable_of(file, variable);
    if (ndim != of.ndim())
      throw bad_argument("ndim is " + std::to_string(ndim) + ", the variable has " + std::to_string(of.ndim()) +
                         " axes");
    if (axis < 0 || axis >= of.ndim())
      throw bad_argument("axis is " + std::to_string(axis) + " of " + std::to_string(of.ndim()));
    required(name, "name") =
        kept_text(std::size_t(axis) < of.dimensions.size() ? of.dimensions[std::size_t(axis)] : "");
  });
}

gr_status gr_file_coordinate(gr_file const* file, char const* dimension, int num_values, double* values) {
  return GR_BODY({
    auto const& of = required(file, "file");
    run_agreed(of.comm, [&] {
      required(dimension, "dimension");
      required(values, "values");
    });
    auto const all = with_file(of, [&](auto const& one) { return one.coordinate(dimension); });
    if (num_values != int(all.size()))
      throw bad_argument("num_values is " + std::to_string(num_values) + ", the dimension has " +
                         std::to_string(all.size()) + " cells");
    std::copy(all.begin(), all.end(), values);
  });
}

gr_status gr_file_calendar(gr_file const* file, char const* dimension, char const** calendar) {
  return GR_BODY({
    auto const& contents = contents_of(file);
    auto const& found = time_coordinate(contents, &required(dimension, "dimension"));
    auto const name = of_times(contents, found, [&] { return to_string(calendar_of(found.text("calendar"))); });
    required(calendar, "calendar") = kept_text(std::string(name));
  });
}

gr_status gr_file_times(gr_file const* file, char const* dimension, int num_times, int64_t* times) {
  return GR_BODY({
    auto const& of = required(file, "file");
    run_agreed(of.comm, [&] {
      required(dimension, "dimension");
      required(times, "times");
    });
    auto const values = with_file(of, [&](auto const& one) { return one.coordinate(dimension); });
    auto const& contents = contents_of(file);
    auto const& found = time_coordinate(contents, dimension);
    if (num_times != int(values.size()))
      throw bad_argument("num_times is " + std::to_string(num_times) + ", the dimension has " +
                         std::to_string(values.size()) + " cells");
    auto const all = of_times(
        contents, found, [&] { return times_of(values, found.text("units"), calendar_of(found.text("calendar"))); });
    std::copy(all.begin(), all.end(), times);
  });
}

gr_status gr_time_of_date(char const* calendar, int year, int month, int day, int second, int64_t* time) {
  return GR_BODY({
    auto const of = calendar_of(&required(calendar, "calendar"));
    required(time, "time") = seconds_of({year, month, day, second}, of);
  });
}

gr_status gr_date_of_time(char const* calendar, int64_t time, int* year, int* month, int* day, int* second) {
  return GR_BODY({
    auto const of = calendar_of(&required(calendar, "calendar"));
    auto const date = date_time_of(time, of);
    required(year, "year") = date.year;
    required(month, "month") = date.month;
    required(day, "day") = date.day;
    required(second, "second") = int(date.second);
  });
}

gr_status gr_file_attribute_text(gr_file const* file, char const* variable, char const* attribute, char const** text) {
  return GR_BODY({
    auto const* const found = attribute_of(file, variable, attribute);
    required(text, "text") = kept_text(found != nullptr ? found->text() : "");
  });
}

gr_status gr_file_attribute_numbers(gr_file const* file, char const* variable, char const* attribute, int most_numbers,
                                    int* num_numbers, double* numbers) {
  return GR_BODY({
    require_count(most_numbers, 0, "most_numbers");
    auto const* const found = attribute_of(file, variable, attribute);
    auto const all = found != nullptr ? found->numbers() : std::vector<double>();
    auto& number = required(num_numbers, "num_numbers");
    auto const fit = std::min(all.size(), std::size_t(most_numbers));
    if (fit > 0) std::copy_n(all.begin(), fit, &required(numbers, "numbers"));
    number = int(all.size());
  });
}

gr_status gr_file_read(gr_file const* file, char const* variable, int ndim, int64_t const* lower, int64_t const* upper,
                       int64_t const* steps, int num_axes, int const* axes, gr_field const* field) {
  return GR_BODY({
    auto const& of = required(file, "file");
    auto const part = agreed(of.comm, [&] {
      required(variable, "variable");
      return part_of({ndim, lower, upper, steps, num_axes, axes, field});
    });
    with_file(of, [&](auto const& one) { one.read(variable, part.selection, part.view); });
  });
}

gr_status gr_writer_create(gr_comm const* comm, char const* path, gr_attributes const* attributes, gr_writer** writer) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto const given = agreed(of, [&] {
      required(path, "path");
      required(writer, "writer");
      return list_of(attributes);
    });
    give(writer, of, FieldWriter(of, path, given));
  });
}

gr_status gr_writer_append(gr_comm const* comm, char const* path, int in_place, gr_writer** writer) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    run_agreed(of, [&] {
      required(path, "path");
      required(writer, "writer");
    });
    give(writer, of, FieldWriter::append(of, path, in_place != 0 ? AppendTo::in_place : AppendTo::copy));
  });
}

gr_status gr_writer_destroy(gr_writer** writer) {
  return GR_FREE({ free_handle(writer, "writer"); });
}

gr_status gr_writer_add_dimension(gr_writer* writer, char const* name, int64_t extent, int unlimited) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    run_agreed(of.comm, [&] { required(name, "name"); });
    of.writer.add_dimension(name, extent, unlimited != 0 ? DimensionKind::unlimited : DimensionKind::fixed);
  });
}

gr_status gr_writer_add_coordinate(gr_writer* writer, char const* name, int num_values, double const* values,
                                   gr_type type, gr_attributes const* attributes) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const [stored, given] = agreed(of.comm, [&] {
      required(name, "name");
      require_count(num_values, 0, "num_values");
      if (num_values > 0) required(values, "values");
      return std::pair(stored_type(type, "type"), list_of(attributes));
    });
    of.writer.add_coordinate(name, std::span<double const>(values, std::size_t(num_values)), stored, given);
  });
}

gr_status gr_writer_add_variable(gr_writer* writer, char const* name, char const* dimensions, gr_type type,
                                 gr_variable_options const* options, gr_attributes const* attributes) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const spec = agreed(of.comm, [&] {
      VariableSpec result;
      result.name = &required(name, "name");
      std::istringstream words(&required(dimensions, "dimensions"));
      for (std::string word; words >> word;) result.dimensions.push_back(word);
      result.type = stored_type(type, "type");
      result.attributes = list_of(attributes);
      if (options == nullptr) return result;
      auto const storage = read_structure(options, {"options"});
      if (storage.ndim != 0) result.chunk = indices(storage.chunk, storage.ndim, "options.chunk");
      result.deflate = storage.deflate;
      if (storage.packed != 0) result.packing = Packing{storage.scale, storage.offset};
      if (storage.has_fill != 0) result.fill = storage.fill;
      return result;
    });
    of.writer.add_variable(spec);
  });
}

gr_status gr_writer_extend(gr_writer* writer, char const* dimension, int64_t count) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    run_agreed(of.comm, [&] { required(dimension, "dimension"); });
    of.writer.extend(dimension, count);
  });
}

gr_status gr_writer_write(gr_writer* writer, char const* variable, int ndim, int64_t const* lower, int64_t const* upper,
                          int64_t const* steps, int num_axes, int const* axes, gr_field const* field) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto const part = agreed(of.comm, [&] {
      required(variable, "variable");
      return part_of({ndim, lower, upper, steps, num_axes, axes, field});
    });
    of.writer.write(variable, part.selection, part.view);
  });
}

namespace {

/// The values of a field, in order of its memory axes.
std::vector<std::byte> values_of(FieldView const& view) {
  auto dense = view;
  dense.strides = row_major_strides(view.extents);
  Index elements = 1;
  for (Index const extent : view.extents) elements *= extent;
  std::vector<std::byte> bytes(std::size_t(elements * size_of(view.dtype)));
  dense.data = bytes.data();
  if (!bytes.empty()) copy_cells(view, dense);
  return bytes;
}

/// Collective. @throws `ReplicaMismatch` on all ranks where values differ from those of rank 0, with the first element
void require_same_values(Comm const& comm, FieldView const& view, std::string const& name) {
  auto const own = values_of(view);
  Hash hash;
  for (auto const byte : own) hash.add(int(byte));
  std::uint64_t first = hash.value();
  comm.broadcast(&first, Index(sizeof first), 0);
  std::array<Index, 1> differs{first != hash.value() ? 1 : 0};
  comm.max(differs);
  if (differs[0] == 0) return;
  auto of_first = own;
  comm.broadcast(of_first.data(), Index(of_first.size()), 0);
  run_agreed(comm, [&] {
    auto const at = std::mismatch(own.begin(), own.end(), of_first.begin()).first;
    if (at == own.end()) return;
    auto element = view.extents;
    Index number = Index(at - own.begin()) / size_of(view.dtype);
    for (int m = element.size() - 1; m >= 0; --m) {
      element[m] = number % view.extents[m];
      number /= view.extents[m];
    }
    throw Error("ReplicaMismatch",
                "the field for " + name + " differs from that on rank 0" +
                    (view.extents.size() > 0 ? ", first in element " + detail::cell_text(element) : std::string()));
  });
}

}  // namespace

gr_status gr_writer_write_replicated(gr_writer* writer, char const* variable, int ndim, int64_t const* lower,
                                     int64_t const* upper, int64_t const* steps, int num_axes, int const* axes,
                                     gr_field const* field) {
  return GR_BODY({
    auto& of = required(writer, "writer");
    auto part = agreed(of.comm, [&] {
      required(variable, "variable");
      auto result = part_of({ndim, lower, upper, steps, num_axes, axes, field});
      if (result.view.ndim() == 0 && ndim > 0) {
        if (result.selection.box.num_cells() != 1)
          throw bad_argument("field is a number, and the box " + to_string(result.selection.box) + " has " +
                             std::to_string(result.selection.box.num_cells()) + " cells");
        result.selection.axes = {};
        result.view.extents = Indices::filled(ndim, 1);
        result.view.strides = result.view.extents;
      }
      if (result.view.space != MemorySpace::host) throw bad_argument("field.space is not GR_HOST");
      return result;
    });
    auto const& box = part.selection.box;
    require_same(
        of.comm, "ReplicaMismatch",
        Hash().add(box.lo()).add(box.hi()).add(int(part.view.dtype)).add(part.view.extents).value(),
        to_string(part.view.dtype) + " " + to_string(part.view.extents) + " for " + variable + " " + to_string(box));
    require_same_values(of.comm, part.view, variable);
    // The other ranks write no cells. The one cell of a variable without axes is written by all, with the same bits.
    if (of.comm.rank() != 0 && ndim > 0) part.selection.box = Box(part.selection.box.lo(), part.selection.box.lo());
    of.writer.write(variable, part.selection, part.view);
  });
}

gr_status gr_writer_commit(gr_writer* writer) {
  return GR_BODY({ required(writer, "writer").writer.commit(); });
}
