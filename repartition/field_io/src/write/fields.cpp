// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/failure.hpp>

#include "state.hpp"

#include <algorithm>
#include <utility>

namespace graticule {

namespace {

std::uint64_t fingerprint(Attribute const& attribute) {
  return Hash().add(attribute.name).add(int(attribute.type)).add(attribute.text()).add(attribute.numbers()).value();
}

std::uint64_t fingerprint(std::vector<Attribute> const& attributes) {
  Hash hash;
  for (auto const& attribute : attributes) hash.add(fingerprint(attribute));
  return hash.value();
}

std::uint64_t fingerprint(VariableSpec const& spec) {
  Hash hash;
  hash.add(spec.name).add(int(spec.type)).add(spec.deflate).add(fingerprint(spec.attributes));
  for (auto const& dimension : spec.dimensions) hash.add(dimension);
  for (auto const extent : spec.chunk) hash.add(extent);
  for (auto const extent : spec.shard) hash.add(extent);
  hash.add(spec.text_bytes).add(int(spec.shuffle));
  hash.add(spec.packing ? spec.packing->scale : 0.0).add(spec.packing ? spec.packing->offset : 0.0);
  return hash.add(spec.fill.value_or(0.0)).add(int(spec.fill.has_value())).value();
}

void require_extent(std::string_view name, Index extent) {
  if (extent < 0)
    throw Error("BadOption",
                "dimension " + std::string(name) + " needs at least 0 cells, got " + std::to_string(extent));
}

void require_writers(FieldWriterOptions const& options) {
  if (options.writers_per_node < 0)
    throw Error("BadOption", "writers_per_node must be at least 0, got " + std::to_string(options.writers_per_node));
}

}  // namespace

FieldWriter::State::State(Comm const& on, std::filesystem::path const& final_path, std::unique_ptr<detail::Sink> begun,
                          FieldWriterOptions const& chosen)
    : comm(on), path(final_path), options(chosen), sink(std::move(begun)) {}

void FieldWriter::State::write_attributes(std::vector<Attribute> attributes) {
  bool const has_conventions =
      std::any_of(attributes.begin(), attributes.end(), [](auto const& a) { return a.name == "Conventions"; });
  if (!has_conventions && options.conventions == Conventions::cf_if_absent)
    attributes.insert(attributes.begin(), Attribute::of_text("Conventions", "CF-1.8"));
  sink->write_attributes(attributes);
}

auto FieldWriter::State::target_of(std::string_view name) -> Target& {
  auto const found = table.variables.find(name);
  if (found == table.variables.end())
    throw Error("MissingVariable", "no variable '" + std::string(name) + "' was added");
  return found->second;
}

void FieldWriter::State::require_name(std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos)
    throw Error("BadName", "'" + std::string(name) + "' cannot be the name of a variable");
}

void FieldWriter::State::require_free(std::string_view name) const {
  require_name(name);
  if (table.has_dimension(name) || table.variables.contains(name))
    throw Error("BadName", "there is already a dimension or variable '" + std::string(name) + "'");
}

void FieldWriter::State::add_variable(VariableSpec const& spec) {
  Target target;
  run_agreed(comm, [&] {
    target.dimensions = spec.dimensions;
    target.extents = table.shape_of(spec.dimensions).extents;
    target.plan = detail::packing_plan_of(spec);
    target.value_bytes = spec.type == ValueType::text ? spec.text_bytes : size_in_bytes(spec.type);
  });
  sink->add(table, spec, target);
  table.variables.emplace(spec.name, std::move(target));
}

void FieldWriter::State::commit() {
  if (committed) throw Error("WrongState", "the file was committed already: " + path.string());
  require_all_written();
  sink->commit(table);
  committed = true;
}

FieldWriter::FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes,
                         FieldWriterOptions const& options) {
  require_same(comm, "ArgumentDisagreement",
               Hash()
                   .add(path.string())
                   .add(fingerprint(attributes))
                   .add(options.writers_per_node)
                   .add(int(options.conventions))
                   .add(options.codec)
                   .value(),
               path.string());
  require_writers(options);
  state_ = std::make_unique<State>(comm, path, detail::format_of_new(path).create(comm, path, options), options);
  state_->write_attributes(attributes);
}

FieldWriter::FieldWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

FieldWriter FieldWriter::append(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                                FieldWriterOptions const& options) {
  require_same(comm, "ArgumentDisagreement",
               Hash().add(path.string()).add(int(to)).add(options.writers_per_node).value(), path.string());
  require_writers(options);
  auto opened = detail::format_of_existing(comm, path).append(comm, path, to, options);
  return FieldWriter(std::make_unique<State>(comm, std::move(opened), options));
}

FieldWriter::FieldWriter(FieldWriter&&) noexcept = default;
FieldWriter::~FieldWriter() = default;

void FieldWriter::add_dimension(std::string_view name, Index extent, DimensionKind kind) {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(name).add(extent).add(int(kind)).value(),
               "dimension " + std::string(name));
  state_->require_free(name);
  require_extent(name, extent);
  state_->table.dimensions.push_back({std::string(name), extent, kind == DimensionKind::unlimited});
}

void FieldWriter::add_coordinate(std::string_view name, std::span<double const> values, ValueType type,
                                 std::vector<Attribute> const& attributes) {
  auto const extent = Index(values.size());
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(values).value(), "coordinate " + std::string(name));
  add_dimension(name, extent);
  try {
    add_variable(
        {.name = std::string(name), .dimensions = {std::string(name)}, .type = type, .attributes = attributes});
  } catch (...) {
    state_->table.dimensions.pop_back();
    throw;
  }
  bool const writes = state_->comm.rank() == 0;
  write(name, Box({0}, {writes ? extent : 0}), values.first(writes ? values.size() : 0));
}

void FieldWriter::add_variable(VariableSpec const& spec) {
  require_same(state_->comm, "ArgumentDisagreement", fingerprint(spec), "variable " + spec.name);
  State::require_name(spec.name);
  if (state_->table.variables.contains(spec.name))
    throw Error("BadName", "there is already a variable '" + spec.name + "'");
  state_->add_variable(spec);
}

void FieldWriter::extend(std::string_view dimension, Index count) {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(dimension).add(count).value(), std::string(dimension));
  state_->extend(dimension, count);
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<float const> values) {
  state_->write(name, box, values);
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<double const> values) {
  state_->write(name, box, values);
}

void FieldWriter::write(std::string_view name, FileSelection const& selection, FieldView const& field) {
  state_->write(name, selection, field);
}

void FieldWriter::write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes) {
  state_->write_stored(name, box, bytes);
}

void FieldWriter::commit() { state_->commit(); }

}  // namespace graticule
