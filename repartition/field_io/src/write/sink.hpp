// SPDX-License-Identifier: BSD-3-Clause
// Files that are written, whatever their format: the one place that tells formats from each other.
#pragma once

#include <graticule/field_io/writer.hpp>
#include <graticule/partition/comm.hpp>

#include "group.hpp"
#include "hdf5/values.hpp"
#include "read/catalogue.hpp"
#include "storage.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::detail {

struct WrittenDimension {
  std::string name;
  Index extent = 0;
  bool is_unlimited = false;
  bool grew = false;
};

struct WrittenVariable {
  std::vector<std::string> dimensions;
  Indices extents;
  Indices chunk;
  PackingPlan plan;
  Index value_bytes = 0;
  Indices old_extents = {};               ///< of what was there before; no axes: nothing
  Indices in_file = {};                   ///< of these, the cells that the file holds
  std::vector<std::byte> unwritten = {};  ///< value of the others
  Index num_written = 0;
  std::vector<std::uint64_t> places = {};  ///< sums of their places

  [[nodiscard]] bool has_grown() const noexcept { return extents != old_extents; }
  [[nodiscard]] bool ends_early() const noexcept { return in_file != old_extents; }
  [[nodiscard]] bool is_coordinate(std::string_view name) const {
    return !dimensions.empty() && dimensions.front() == name;
  }
};

/// Dimensions and variables of a file that is written.
struct WrittenTable {
  std::vector<WrittenDimension> dimensions;
  std::map<std::string, WrittenVariable, std::less<>> variables;

  /// @throws `MissingVariable`
  [[nodiscard]] std::size_t place_of(std::string_view name) const;
  [[nodiscard]] WrittenDimension const& dimension(std::string_view name) const { return dimensions[place_of(name)]; }
  /// @throws `MissingVariable`, `AxesMismatch`
  [[nodiscard]] Shape shape_of(std::vector<std::string> const& names) const;
  [[nodiscard]] bool has_dimension(std::string_view name) const {
    return std::any_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  }
};

/// The extents of a variable, longer by `count` along one dimension.
[[nodiscard]] Indices grown_extents(WrittenVariable const& variable, std::string_view dimension, Index count);

/// Dense stored values of some cells that this rank brings, in the coordinates of its supply.
using FetchCells = std::function<void const*(Box const&)>;

/// A file or store, open for writing. All calls are collective and throw `OutputError` on all ranks, unless they say
/// otherwise. Without `commit` its destructor removes or restores what was begun.
class Sink {
 public:
  Sink() = default;
  Sink(Sink const&) = delete;
  Sink& operator=(Sink const&) = delete;
  virtual ~Sink() = default;

  /// Of the file.
  virtual void write_attributes(std::vector<Attribute> const& attributes) = 0;
  /// Makes a variable, and sets its chunk. @throws `BadName`, `BadOption`, `WrongType`
  virtual void add(WrittenTable const& table, VariableSpec const& spec, WrittenVariable& variable) = 0;

  /// Whether a dimension of a file that is appended to can grow. Local.
  [[nodiscard]] virtual bool grows(Dimension const& dimension) const = 0;
  /// Why nothing can be written to a variable of such a file, or nothing. Local.
  [[nodiscard]] virtual std::string refusal(Variable const& variable) const = 0;
  /// Opens such a variable. Collective without an agreement: its errors are this rank's.
  virtual void take_over(Variable const& variable, VariablePlace const& place) = 0;

  /// Makes sure that the longer variables have room; nothing has changed when this throws.
  virtual void reserve_growth(WrittenTable const& table, std::string_view dimension, Index count) = 0;
  /// Gives variables the extents that they have in the table by now.
  virtual void grow(WrittenTable const& table, std::vector<std::string> const& names) = 0;

  /// Writes what each rank brings. @throws what `fetch` throws, on all ranks
  virtual void write(std::string const& name, WrittenVariable const& variable, Supply const& mine,
                     FetchCells const& fetch) = 0;
  /// Completes the file, and gives it its name.
  virtual void commit(WrittenTable const& table) = 0;
};

/// A file that is appended to, and what it has.
struct OpenedSink {
  Catalogue catalogue;
  std::unique_ptr<Sink> sink;
};

struct SinkFormat {
  /// Begins a new file. Collective.
  std::unique_ptr<Sink> (*create)(Comm const& comm, std::filesystem::path const& path,
                                  FieldWriterOptions const& options);
  /// Opens one to append to it. Collective.
  OpenedSink (*append)(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                       FieldWriterOptions const& options);
};

/// Of a new file, by its name. @throws `BadOption` (usage)
[[nodiscard]] SinkFormat const& format_of_new(std::filesystem::path const& path);
/// Of a file that is there. Collective.
[[nodiscard]] SinkFormat const& format_of_existing(Comm const& comm, std::filesystem::path const& path);

}  // namespace graticule::detail
