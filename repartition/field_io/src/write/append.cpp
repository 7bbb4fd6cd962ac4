// SPDX-License-Identifier: BSD-3-Clause
// Existing files, and the variables that are extended.
#include <graticule/partition/failure.hpp>

#include "state.hpp"

#include <algorithm>

namespace graticule {

Index num_complete_records(FileContents const& contents, std::string_view dimension) {
  auto const found = std::find_if(contents.dimensions.begin(), contents.dimensions.end(),
                                  [&](auto const& one) { return one.name == dimension; });
  if (found == contents.dimensions.end())
    throw Error("MissingVariable", contents.path.string() + " has no dimension '" + std::string(dimension) + "'");
  auto const* coordinate = contents.find(dimension);
  bool const has_coordinate =
      coordinate != nullptr && coordinate->ndim() > 0 && coordinate->dimensions.front() == dimension;
  return has_coordinate ? coordinate->stored_extents[0] : found->extent;
}

FieldWriter::State::State(Comm const& on, detail::OpenedSink opened, FieldWriterOptions const& chosen)
    : comm(on), path(opened.catalogue.contents.path), options(chosen), sink(std::move(opened.sink)) {
  auto const& catalogue = opened.catalogue;
  run_agreed(on, [&] {
    for (auto const& one : catalogue.contents.dimensions)
      table.dimensions.push_back({one.name, num_complete_records(catalogue.contents, one.name), sink->grows(one)});
    for (std::size_t i = 0; i < catalogue.places.size(); ++i)
      take_over(catalogue.contents.variables[i], catalogue.places[i]);
  });
}

void FieldWriter::State::take_over(Variable const& variable, detail::VariablePlace const& place) {
  if (auto const refusal = sink->refusal(variable); !refusal.empty()) {
    unwritable.push_back(variable);
    unwritable.back().refusal = refusal;
    return;
  }
  auto const spec = VariableSpec::of(variable);
  Target target;
  target.dimensions = variable.dimensions;
  target.extents = variable.extents;
  for (int axis = 0; axis < variable.ndim(); ++axis)
    if (auto const& name = variable.dimensions[std::size_t(axis)];
        table.has_dimension(name) && table.dimension(name).is_unlimited)
      target.extents[axis] = table.dimension(name).extent;
  target.old_extents = target.extents;
  target.in_file = variable.stored_extents;
  for (int axis = 0; axis < variable.ndim(); ++axis)
    target.in_file[axis] = std::min(target.in_file[axis], target.old_extents[axis]);
  target.unwritten = detail::unwritten_value(variable);
  target.chunk = variable.chunk;
  target.plan = detail::packing_plan_of(spec);
  target.value_bytes = variable.value_bytes;
  sink->take_over(variable, place);
  table.variables.emplace(variable.name, std::move(target));
}

void FieldWriter::State::require_growing(std::string_view name, Index count) const {
  auto const& grown = table.dimension(name);
  if (!grown.is_unlimited || count < 1)
    throw Error("BadOption", "the " + std::string(grown.is_unlimited ? "unlimited" : "fixed") + " dimension " +
                                 grown.name + " cannot grow by " + std::to_string(count) + " cells");
  for (auto const& variable : unwritable)
    if (variable.axis(name) >= 0)
      throw Error(
          Fault::input, "UnreadableVariable",
          "variable " + to_string(variable) + " of " + path.string() + " cannot be appended to: " + variable.refusal);
}

void FieldWriter::State::extend(std::string_view name, Index count) {
  run_agreed(comm, [&] { require_growing(name, count); });
  sink->reserve_growth(table, name, count);
  auto& grown = table.dimensions[table.place_of(name)];
  grown.extent += count;
  grown.grew = true;
  std::vector<std::string> longer;
  for (auto& [target_name, target] : table.variables) {
    auto extents = detail::grown_extents(target, name, count);
    if (extents == target.extents) continue;
    target.extents = std::move(extents);
    longer.push_back(target_name);
  }
  sink->grow(table, longer);
}

}  // namespace graticule
