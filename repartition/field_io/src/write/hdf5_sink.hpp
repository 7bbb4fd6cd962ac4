// SPDX-License-Identifier: BSD-3-Clause
// netCDF-4 files as `FieldWriter` writes them. Each source implements one part: `structure.cpp` makes dimensions and
// variables, `records.cpp` takes them over from a file and makes them longer, `hdf5_sink.cpp` does the rest.
#pragma once

#include "group.hpp"
#include "hdf5/descriptor.hpp"
#include "hdf5/handle.hpp"
#include "hdf5/parallel_file.hpp"
#include "hdf5/undo_file.hpp"
#include "output_file.hpp"
#include "sink.hpp"
#include "storage.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::detail {

[[nodiscard]] std::unique_ptr<Sink> create_hdf5(Comm const& comm, std::filesystem::path const& path,
                                                FieldWriterOptions const& options);
[[nodiscard]] OpenedSink append_hdf5(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                                     FieldWriterOptions const& options);

class Hdf5Sink final : public Sink {
 public:
  /// Begins a file. Collective.
  Hdf5Sink(Comm const& comm, std::filesystem::path const& path, OutputFile fresh, FieldWriterOptions const& options);
  /// Opens a file, or the copy of it that lies at `copy`. Collective. @param seen of the file before it was listed, on
  /// rank 0
  Hdf5Sink(Comm const& comm, Catalogue const& catalogue, std::optional<OutputFile> copy,
           FieldWriterOptions const& options, FileStamp const& seen);
  Hdf5Sink(Hdf5Sink const&) = delete;
  Hdf5Sink& operator=(Hdf5Sink const&) = delete;
  ~Hdf5Sink() override;

  void write_attributes(std::vector<Attribute> const& attributes) override;
  void add(WrittenTable const& table, VariableSpec const& spec, WrittenVariable& variable) override;
  [[nodiscard]] bool grows(Dimension const& dimension) const override { return dimension.is_unlimited; }
  [[nodiscard]] std::string refusal(Variable const& variable) const override;
  void take_over(Variable const& variable, VariablePlace const& place) override;
  void reserve_growth(WrittenTable const& table, std::string_view dimension, Index count) override;
  void grow(WrittenTable const& table, std::vector<std::string> const& names) override;
  void write(std::string const& name, WrittenVariable const& variable, Supply const& mine,
             FetchCells const& fetch) override;
  void commit(WrittenTable const& table) override;

 private:
  struct Target {
    h5::Dataset dataset;
    h5::Type memory_type;
    Index value_bytes = 0;
    bool has_filters = false;
    bool grows_later = false;  ///< its data set is still short
  };

  [[nodiscard]] bool writes() const noexcept { return !group_ || group_->writes(); }

  [[nodiscard]] h5::Dataset create(std::string const& name, h5::Type const& type, Shape const& shape,
                                   h5::Properties const& creation) const;
  /// netCDF's own sign of a dimension without a variable: a data set of this type, name and label.
  [[nodiscard]] h5::Dataset add_bare_scale(WrittenDimension const& dimension) const;
  /// Ties dimensions and variables together as HDF5 and netCDF do.
  void set_scales(WrittenTable const& table);

  /// What so many cells of a variable take, in whole chunks, with what HDF5 notes down about them.
  struct Room {
    Index length = 0;   ///< of the file
    Index on_disk = 0;  ///< but for compressed values: nobody knows how small they will be

    Room& operator+=(Room const& more);
  };
  [[nodiscard]] static Room room_for(Target const& target, Indices const& chunk, Indices const& extents);
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

  void set_extent(WrittenVariable const& variable, Target& target) const;
  /// Cells that were missing because the file did not hold them stay missing.
  void fill_gap(WrittenVariable const& variable, Target const& target) const;
  /// The coordinate comes last: first all else goes to the disk.
  void grow_now(WrittenVariable const& variable, Target& target);
  /// Not every reader treats netCDF's own fill value as missing.
  void declare_fill(WrittenTable const& table) const;
  /// Dimensions without a coordinate have a data set of their own.
  void extend_bare_scales(WrittenTable const& table) const;
  /// Closes a file that was not committed, and puts its old bytes back. Where not all ranks come to that, who opens it
  /// next does. Collective.
  void give_back() noexcept;
  void write_turn(Target const& target, h5::Properties const& transfer, Turn const* turn, void const* data) const;

  Comm comm_;
  std::filesystem::path path_;
  FieldWriterOptions options_;
  std::optional<OutputFile> output_;  ///< nothing when the file itself is appended to
  std::optional<UndoFile> undo_;      ///< of such a file, on rank 0
  std::optional<WriterGroup> group_;  ///< nothing when every rank writes
  std::optional<ParallelFile> file_;  ///< on writers
  Descriptor disk_;                   ///< the same file on rank 0, to reserve room
  std::map<std::string, Target, std::less<>> targets_;
  bool appends_ = false;
  bool committed_ = false;
  Index reserved_ = 0;  ///< bytes of the file that fit on the disk
  Index taken_ = 0;     ///< of these, the bytes that no other program can get any more
};

}  // namespace graticule::detail
