// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graticule {

/// A value that is equal on all ranks: a step count, a rate, a name, the state of a random generator.
using CheckpointValue =
    std::variant<Index, double, std::string, std::vector<std::byte>, std::vector<Index>, std::vector<double>>;

/// A field as stored in a checkpoint.
struct CheckpointField {
  std::string name;
  DType dtype = DType::f64;
  Indices extents;    ///< of the whole field, in order of the memory axes from which it was saved
  Indices grid_axes;  ///< those of `extents` that the layout had; none for a replicated field
  std::vector<Attribute> attributes;

  friend bool operator==(CheckpointField const&, CheckpointField const&) = default;
};

/// Options of one field of a checkpoint.
struct CheckpointFieldOptions {
  std::optional<Box> local = {};  ///< the box that the view covers, if larger than the owned box (halos)
  std::vector<Attribute> attributes = {};
};

/// Writes one checkpoint; made by `CheckpointStore::begin`.
///
/// Nothing is visible until `commit`. Without `commit` (an exception, an early return) the written data are removed.
/// All calls are collective, with the same arguments on all ranks except the cells. One rank writes the HDF5 metadata,
/// every rank its own cells; a failure on one rank never blocks another. Names may contain slashes, which make groups
/// in the file: `model/conv.weight`.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;
  ~CheckpointWriter();

  /// Writes the cells that this rank owns in `layout`, with all batch axes. Blocks until they are written.
  ///
  /// Example: `z` with memory axes [level=3, latitude, longitude] of a 241 x 480 layout: the file gets a dataset
  /// `fields/z` of 3 x 241 x 480 for any layout.
  /// @pre `view` covers the owned box of this rank, or `options.local`; batch axes are the same on all ranks, also on
  ///      those that own nothing (`FieldMismatch`)
  /// @throws `BadName`, `BadProcessGrid`, `ArgumentDisagreement`; `OutputError` when
  ///         the disk is full
  /// Cost: 4 small all-reduces, 1 small broadcast; each rank writes its contiguous runs of the file: one for rows of a
  /// field without batch axes, many short ones where the last axis is cut. A staging buffer of up to `piece_bytes` when
  /// the cells are not dense in host memory.
  void add(std::string_view name, Layout const& layout, FieldView const& view,
           CheckpointFieldOptions const& options = {});
  /// Writes a field that every rank holds whole. @throws `ReplicaMismatch` unless it has the same bits on all ranks
  void add(std::string_view name, FieldView const& view, CheckpointFieldOptions const& options = {});
  /// @throws `BadName`, `ArgumentDisagreement`
  void add_value(std::string_view name, CheckpointValue const& value);

  /// The ranks that write.
  [[nodiscard]] Comm const& comm() const noexcept;

  /// Closes the file, synchronises it to the disk, gives it its name, and then removes checkpoints older than the last
  /// `keep` (one that cannot be removed stays). @return the file
  /// @throws `OutputError`, and `WrongState` when an `add` had failed; the older checkpoints then stay
  std::filesystem::path commit();

 private:
  friend class CheckpointStore;
  struct State;
  explicit CheckpointWriter(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// A checkpoint, open for reading by all ranks of a communicator, in any number and any layout.
///
/// All calls that read are collective. Damaged cells are an error: every call that reads a whole field verifies its
/// checksum.
class Checkpoint {
 public:
  /// Opens a file with any name. Its description of the contents is checked; the cells are not: see `verify`.
  /// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input), on all ranks alike
  Checkpoint(Comm const& comm, std::filesystem::path const& path, Index piece_bytes = Index(64) << 20);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  [[nodiscard]] std::filesystem::path const& path() const noexcept;
  /// As given to `CheckpointStore::begin`.
  [[nodiscard]] Index step() const noexcept;
  /// Number of the checkpoint in its folder, in the order in which they were begun.
  [[nodiscard]] Index number() const noexcept;

  /// In order of names.
  [[nodiscard]] std::vector<CheckpointField> const& fields() const noexcept;
  [[nodiscard]] std::vector<std::string> value_names() const;
  [[nodiscard]] bool has_field(std::string_view name) const noexcept;
  [[nodiscard]] bool has_value(std::string_view name) const noexcept;
  /// @throws `MissingVariable` (input), which lists the existing fields
  [[nodiscard]] CheckpointField const& field(std::string_view name) const;
  /// @throws `MissingVariable` (input)
  [[nodiscard]] CheckpointValue const& value(std::string_view name) const;
  /// Example: `auto const epoch = checkpoint.value<Index>("epoch");` @throws `MissingVariable`, `WrongType` (input)
  template <class T>
  [[nodiscard]] T value(std::string_view name) const {
    auto const* found = std::get_if<T>(&value(name));
    if (found == nullptr) throw_wrong_type(name);
    return *found;
  }

  /// Fills the cells that this rank owns in `layout`; other cells of `view` are not touched.
  ///
  /// Grid axis `a` of the view is grid axis `a` of the saved field, batch axes follow in order: the memory order may
  /// differ from that of the saved field. A field saved with another number of grid axes (whole, and now cut) is
  /// matched by memory axes.
  /// `local` is the box that `view` covers, if larger than the owned box. On a layout with holes, damaged cells are not
  /// found, as in reads of boxes: `verify` reads all cells.
  /// @throws `MissingVariable`, `WrongType`, `FieldMismatch`, `BadProcessGrid`; `BrokenFile` (input) for damaged cells
  void read(std::string_view name, Layout const& layout, FieldView const& view,
            std::optional<Box> const& local = {}) const;
  /// Fills `view` with the cells of `box`, whose axes are the view's grid axes. Each rank passes its own box, which may
  /// be empty; boxes of different ranks may overlap. @throws `OutOfRange`
  void read(std::string_view name, Box const& box, FieldView const& view) const;
  /// Reads the whole field on every rank: one rank reads it and sends it to the others.
  void read(std::string_view name, FieldView const& view) const;

  /// Reads all cells once, each on one rank, and compares the checksums.
  /// @throws `BrokenFile` (input), with the name of the field
  void verify() const;

 private:
  [[noreturn]] void throw_wrong_type(std::string_view name) const;
  struct State;
  std::unique_ptr<State> state_;
};

/// Options of a folder of checkpoints.
struct CheckpointOptions {
  int keep = 3;                         ///< checkpoints that `commit` keeps, the new one included
  std::string name = "checkpoint";      ///< files are `NAME-NUMBER-step-STEP.h5`
  Index piece_bytes = Index(64) << 20;  ///< maximum bytes that one rank packs, moves or checks at a time
};

/// The checkpoints of a run in one folder. If the program is killed at any moment, the last committed one remains
/// intact.
///
/// Example: 4 ranks save, 6 ranks continue:
///     CheckpointStore store(comm, "run/checkpoints", {.keep = 2});
///     auto writer = store.begin(1000);
///     writer.add("z", layout, field_view(z.data(), {3, rows, 480}, 2));
///     writer.add_value("seconds", 3.6e6);
///     writer.commit();
/// and later
///     if (auto const found = store.newest()) found->read("z", layout_of_6, field_view(z.data(), {3, rows, 480}, 2));
class CheckpointStore {
 public:
  /// A checkpoint that was skipped, with the reason.
  struct Skipped {
    std::filesystem::path path;
    std::string reason;
  };

  /// Does not access the disk. Collective. @throws `BadOption`, `ArgumentDisagreement`
  CheckpointStore(Comm const& comm, std::filesystem::path const& folder, CheckpointOptions const& options = {});

  /// Begins a checkpoint under a temporary name. Creates the folder if necessary and removes files of killed writers.
  /// Collective. @throws `OutputError`, `BadOption` for a negative step
  [[nodiscard]] CheckpointWriter begin(Index step);

  /// The newest checkpoint whose contents and cells are valid, if any. Collective.
  ///
  /// The newest is the one that was begun last, not the one with the highest step: after a return to an older state the
  /// new ones count. Truncated, damaged, renamed and foreign files are skipped; see `skipped`.
  /// Cost: reads the checkpoint once.
  [[nodiscard]] std::optional<Checkpoint> newest();
  /// Files that the last `newest` skipped.
  [[nodiscard]] std::vector<Skipped> const& skipped() const noexcept { return skipped_; }
  /// Complete checkpoints by name, newest first; no file is opened. Collective.
  [[nodiscard]] std::vector<std::filesystem::path> files() const;

 private:
  Comm comm_;
  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::vector<Skipped> skipped_;
};

}  // namespace graticule
