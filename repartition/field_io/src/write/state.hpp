// SPDX-License-Identifier: BSD-3-Clause
// State of a `FieldWriter`, and the parts of its calls. Each source implements one part: `structure.cpp` makes
// dimensions and variables, `append.cpp` takes them over from a file and makes them longer, `cells.cpp` writes.
#pragma once

#include <graticule/field_io/writer.hpp>

#include "group.hpp"
#include "hdf5/descriptor.hpp"
#include "hdf5/handle.hpp"
#include "hdf5/parallel_file.hpp"
#include "hdf5/undo_file.hpp"
#include "hdf5/values.hpp"
#include "output_file.hpp"
#include "read/catalogue.hpp"
#include "storage.hpp"
#include "zarr/store_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace graticule {

namespace h5 = detail::h5;

struct FieldWriter::State {
  struct Dimension {
    std::string name;
    Index extent = 0;
    bool is_unlimited = false;
    bool grew = false;
  };

  struct Target {
    h5::Dataset dataset;
    std::vector<std::string> dimensions;
    Indices extents;
    Indices chunk;
    detail::PackingPlan plan;
    h5::Type memory_type;
    Index value_bytes = 0;
    Index num_written = 0;
    std::vector<std::uint64_t> places = {};  ///< sums of their places
    bool has_filters = false;
    Indices old_extents = {};               ///< of what was there before; no axes: nothing
    Indices in_file = {};                   ///< of these, the cells that the file holds
    std::vector<std::byte> unwritten = {};  ///< value of the others
    bool grows_later = false;               ///< its data set is still short
    std::size_t array = 0;                  ///< its place in a store

    [[nodiscard]] bool has_grown() const noexcept { return extents != old_extents; }
    [[nodiscard]] bool ends_early() const noexcept { return in_file != old_extents; }
  };

  Comm comm;
  std::filesystem::path path;
  FieldWriterOptions options;
  std::optional<detail::OutputFile> output;        ///< nothing when the file itself is appended to
  std::optional<detail::UndoFile> undo;            ///< of such a file, on rank 0
  std::optional<detail::WriterGroup> group;        ///< nothing when every rank writes
  std::optional<detail::ParallelFile> file;        ///< on writers
  std::optional<detail::zarr::StoreWriter> store;  ///< in place of the file
  detail::Descriptor disk;                         ///< the same file on rank 0, to reserve room
  std::vector<Dimension> dimensions;
  std::map<std::string, Target, std::less<>> targets;
  std::vector<Variable> unwritable;  ///< of a file that is appended to
  bool appends = false;
  bool committed = false;
  Index reserved = 0;  ///< bytes of the file that fit on the disk
  Index taken = 0;     ///< of these, the bytes that no other program can get any more

  /// Opens a file, or the copy of it that lies at `copy`. Collective.
  /// @param seen of the file before it was listed, on rank 0
  State(Comm const& on, detail::Catalogue const& catalogue, std::optional<detail::OutputFile> copy,
        FieldWriterOptions const& chosen, detail::FileStamp const& seen);
  /// Begins a new one. Collective.
  State(Comm const& on, std::filesystem::path const& final_path, detail::OutputFile fresh,
        FieldWriterOptions const& chosen);
  /// Begins a store. Collective.
  State(Comm const& on, std::filesystem::path const& final_path, detail::zarr::StoreWriter fresh,
        FieldWriterOptions const& chosen);
  /// Opens a store to append to it. Collective.
  State(Comm const& on, detail::Catalogue const& catalogue, detail::zarr::StoreWriter opened,
        FieldWriterOptions const& chosen);
  ~State();
  [[nodiscard]] bool writes() const noexcept { return !group || group->writes(); }

  [[nodiscard]] std::size_t place_of(std::string_view name) const;
  [[nodiscard]] Dimension const& dimension(std::string_view name) const { return dimensions[place_of(name)]; }
  [[nodiscard]] bool has_dimension(std::string_view name) const {
    return std::any_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  }
  [[nodiscard]] Target& target_of(std::string_view name) {
    auto const found = targets.find(name);
    if (found == targets.end()) throw Error("MissingVariable", "no variable '" + std::string(name) + "' was added");
    return found->second;
  }
  /// The one that all ranks write to. Collective: a rank that names none must not leave the others waiting.
  [[nodiscard]] Target& agreed_target(std::string_view name);
  /// Of the file. Collective.
  void write_attributes(std::vector<Attribute> const& attributes);
  static void require_name(std::string_view name);
  void require_free(std::string_view name) const;

  [[nodiscard]] detail::Shape shape_of(std::vector<std::string> const& names) const;
  [[nodiscard]] h5::Dataset create(std::string const& name, h5::Type const& type, detail::Shape const& shape,
                                   h5::Properties const& creation) const;
  /// netCDF's name for a variable that has the name of a dimension without being its coordinate.
  [[nodiscard]] std::string stored_name(VariableSpec const& spec) const;
  /// Collective.
  void add_variable(VariableSpec const& spec);
  [[nodiscard]] bool is_coordinate(std::string const& name, Target const& target) const;
  /// netCDF's own sign of a dimension without a variable: a data set of this type, name and label.
  [[nodiscard]] h5::Dataset add_bare_scale(Dimension const& dimension) const;
  /// Ties dimensions and variables together as HDF5 and netCDF do.
  void set_scales();
  /// What so many cells of a variable take, in whole chunks, with what HDF5 notes down about them.
  struct Room {
    Index length = 0;   ///< of the file
    Index on_disk = 0;  ///< but for compressed values: nobody knows how small they will be

    Room& operator+=(Room const& more);
  };
  [[nodiscard]] static Room room_for(Target const& target, Indices const& extents);
  [[nodiscard]] static Room room_for(std::vector<Attribute> const& attributes);
  /// Makes the file longer and makes sure that the disk has the room. It is taken later, when all that will be needed
  /// is known: nobody else could use it until a file that is too large is given up. Collective. @throws `OutputError`,
  /// and then nothing has changed
  void reserve(Room const& room);
  /// Takes what was reserved. Collective. @throws as `reserve`
  void take_room();
  /// Runs what writes to the disk on all writers together. A writer on which it fails cannot tell the others, who wait
  /// for it inside of HDF5: it throws alone. @throws `OutputError`
  void on_disk(std::function<void()> const& action) const;

  void take_over(Variable const& variable, std::uint64_t address);
  /// Collective.
  void extend(std::string_view name, Index count);
  void require_growing(std::string_view name, Index count) const;
  [[nodiscard]] static Indices grown_extents(Target const& target, std::string_view dimension_name, Index count);
  void set_extent(Target& target) const;
  /// Cells that were missing because the file did not hold them stay missing.
  void fill_gap(Target const& target) const;
  /// The coordinate comes last: first all else goes to the disk.
  void grow_now(Target& target);
  /// Not every reader treats netCDF's own fill value as missing.
  void declare_fill() const;
  /// Dimensions without a coordinate have a data set of their own.
  void extend_bare_scales() const;
  /// Closes a file that was not committed, and puts its old bytes back. Where not all ranks come to that, who opens it
  /// next does. Collective.
  void give_back() noexcept;

  void check_box(std::string_view name, Target const& target, Box const& box, std::size_t given, Index per_cell) const;
  static void require_new(std::string_view name, Target const& target, Box const& box);
  /// The group's turns, or this rank's own; and how many rounds all ranks take.
  std::pair<std::vector<detail::Turn>, Index> agreed_turns(std::function<detail::Supply()> const& prepare);
  /// Runs `prepare()`, then writes the supply turn by turn. `fetch(box)` points at the dense stored values of some of
  /// its cells. Collective.
  template <class Fetch>
  void write_turns(Target& target, std::function<detail::Supply()> const& prepare, Fetch const& fetch);
  void write_turn(Target const& target, h5::Properties const& transfer, detail::Turn const* turn,
                  void const* data) const;
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
