// SPDX-License-Identifier: BSD-3-Clause
// State of a `FieldWriter`, and the parts of its calls, whatever the format: `Sink` is the file. Each source implements
// one part: `append.cpp` takes variables over from a file and makes them longer, `cells.cpp` writes.
#pragma once

#include <graticule/field_io/writer.hpp>

#include "sink.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

struct FieldWriter::State {
  using Target = detail::WrittenVariable;

  Comm comm;
  std::filesystem::path path;
  FieldWriterOptions options;
  std::unique_ptr<detail::Sink> sink;
  detail::WrittenTable table;
  std::vector<Variable> unwritable;  ///< of a file that is appended to, each with its refusal
  bool committed = false;

  /// Begins a file.
  State(Comm const& on, std::filesystem::path const& final_path, std::unique_ptr<detail::Sink> begun,
        FieldWriterOptions const& chosen);
  /// Takes over what a file has. Collective.
  State(Comm const& on, detail::OpenedSink opened, FieldWriterOptions const& chosen);

  [[nodiscard]] Target& target_of(std::string_view name);
  /// The one that all ranks write to. Collective: a rank that names none must not leave the others waiting.
  [[nodiscard]] Target& agreed_target(std::string_view name);
  /// Of the file. Collective.
  void write_attributes(std::vector<Attribute> attributes);
  static void require_name(std::string_view name);
  void require_free(std::string_view name) const;
  /// Collective.
  void add_variable(VariableSpec const& spec);

  void take_over(Variable const& variable, detail::VariablePlace const& place);
  /// Collective.
  void extend(std::string_view name, Index count);
  void require_growing(std::string_view name, Index count) const;

  void check_box(std::string_view name, Target const& target, Box const& box, std::size_t given, Index per_cell) const;
  static void require_new(std::string_view name, Target const& target, Box const& box);
  /// Runs `prepare()`, then writes the supply. `fetch(box)` points at the dense stored values of some of its cells.
  /// Collective.
  void write_supply(std::string_view name, Target& target, std::function<detail::Supply()> const& prepare,
                    detail::FetchCells const& fetch);
  [[nodiscard]] detail::Supply supply(Target const& target, Box const& box) const;
  /// Dense values of some cells of a dense block, copied only where they are scattered in it.
  static void const* dense(Box const& box, Box const& cells, Index value_bytes, void const* values,
                           std::vector<std::byte>& staging);
  static void require_numbers(std::string_view name, Target const& target);
  template <class Value>
  void write(std::string_view name, Box const& box, std::span<Value const> values);
  static void const* packed(Target const& target, DType dtype, void const* elements, Box const& cells,
                            std::vector<std::byte>& staging);
  void write(std::string_view name, FileSelection const& selection, FieldView const& field);
  void write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes);
  static Index num_new_cells(Target const& target);
  void require_all_written() const;
  void commit();
};

}  // namespace graticule
