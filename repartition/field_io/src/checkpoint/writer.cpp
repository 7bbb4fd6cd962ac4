// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "cells.hpp"
#include "contents.hpp"
#include "files.hpp"
#include "read/pieces.hpp"
#include "structure.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace graticule {

namespace {

/// Metadata of one dataset, including attributes of usual size.
constexpr Index metadata_bytes = Index(64) << 10;

struct Description {
  CheckpointField field;
  detail::FieldCells cells;
};

Description describe(Comm const& comm, std::string_view name, Layout const* layout, FieldView const& view,
                     CheckpointFieldOptions const& options) {
  if (layout == nullptr && (view.grid_axes.size() != 0 || options.local))
    throw Error("FieldMismatch", "a view with grid axes needs a layout");
  if (layout != nullptr && layout->num_ranks() > comm.num_ranks())
    throw Error("BadProcessGrid", "the layout must have the communicator's " + std::to_string(comm.num_ranks()) +
                                      " ranks, got " + std::to_string(layout->num_ranks()));
  auto const owned = layout != nullptr ? layout->owned(comm.rank()) : Box();
  auto const extents = detail::whole_extents(view, layout != nullptr ? layout->global() : Box());
  auto axes = Indices::filled(view.ndim(), 0);
  std::iota(axes.begin(), axes.end(), Index(0));
  return {{std::string(name), view.dtype, extents, view.grid_axes, options.attributes},
          detail::field_cells(view, axes, extents, owned, options.local.value_or(owned))};
}

std::uint64_t fingerprint(CheckpointField const& field, Layout const* layout) {
  Hash hash;
  hash.add(field.name).add(int(field.dtype)).add(field.extents).add(field.grid_axes);
  for (auto const& attribute : field.attributes)
    hash.add(attribute.name).add(int(attribute.type)).add(attribute.text()).add(attribute.numbers());
  return hash.add(layout != nullptr ? layout->fingerprint() : 0).value();
}

Index num_bytes(CheckpointField const& field) {
  Index bytes = size_of(field.dtype);
  for (Index const extent : field.extents)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw Error("OutOfRange", "a field of " + to_string(field.extents) + " cells would have more than 2^63 bytes");
  return bytes;
}

void require_good_attributes(std::vector<Attribute> const& attributes) {
  std::set<std::string_view> names;
  for (auto const& attribute : attributes)
    if (attribute.name.empty() || attribute.name.starts_with(detail::own_prefix) ||
        !names.insert(attribute.name).second)
      throw Error("BadName", "attribute '" + attribute.name + "' is empty, given twice, or begins with " +
                                 std::string(detail::own_prefix));
}

void require_good_name(std::string_view name) {
  bool good = !name.empty() && name.find('\0') == std::string_view::npos;
  for (std::size_t at = 0; good && at <= name.size();) {
    auto const end = std::min(name.find('/', at), name.size());
    auto const part = name.substr(at, end - at);
    good = !part.empty() && part != "." && part != "..";
    at = end + 1;
  }
  if (!good) throw Error("BadName", "'" + std::string(name) + "' cannot be a name in a checkpoint");
}

}  // namespace

struct CheckpointWriter::State {
  Comm comm;
  std::filesystem::path folder;
  CheckpointOptions options;
  std::vector<std::filesystem::path> broken;  ///< what `newest` passed over
  detail::CheckpointTemporary temporary;      ///< rank 0's
  std::filesystem::path temporary_path;
  std::filesystem::path final_path;
  detail::CheckpointStructure structure;  ///< rank 0's
  detail::Descriptor file;
  std::map<std::string, std::uint64_t, std::less<>> checksums;  ///< by field, of the cells that this rank wrote
  std::set<std::string, std::less<>> paths;                     ///< in the file, of fields and values
  std::set<std::string, std::less<>> groups;
  bool failed = false;
  bool committed = false;

  ~State() {
    // Any rank may have to do it: rank 0 may never come here.
    if (!committed) ::unlink(temporary_path.c_str());
  }

  void require_open() const {
    if (committed) throw Error("WrongState", final_path.string() + " is complete");
  }

  /// Runs what changes the file; when it fails, there is nothing left to commit.
  void guarded(std::function<void()> const& action) {
    try {
      action();
    } catch (...) {
      failed = true;
      throw;
    }
  }

  void take_name(std::string_view name, std::string const& kind) {
    require_good_name(name);
    auto const path = kind + "/" + std::string(name);
    bool taken = paths.contains(path) || groups.contains(path);
    std::vector<std::string> parents;
    for (auto at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
      parents.push_back(path.substr(0, at));
    for (auto const& parent : parents) taken = taken || paths.contains(parent);
    if (taken) throw Error("BadName", "there is already a field, value or group '" + std::string(name) + "'");
    paths.insert(path);
    groups.insert(parents.begin(), parents.end());
  }

  void add(std::string_view name, Layout const* layout, FieldView const& view, CheckpointFieldOptions const& chosen) {
    require_open();
    Description description;
    run_agreed(comm, [&] {
      if (layout != nullptr && layout->has_holes())
        throw Error("Unsupported", "field " + std::string(name) +
                                       ": a checkpoint needs a layout without holes; move the field to one by a "
                                       "repartition, whose inverse leaves the cells without owner as they are");
      description = describe(comm, name, layout, view, chosen);
    });
    auto const& field = description.field;
    auto const& cells = description.cells;
    require_same(comm, "ArgumentDisagreement", fingerprint(field, layout),
                 "field " + field.name + ", " + to_string(field.dtype) + " " + to_string(field.extents));
    require_good_attributes(field.attributes);
    Index const bytes = num_bytes(field);
    take_name(name, "fields");
    guarded([&] {
      Index offset = 0;
      run_agreed(comm, [&] {
        if (comm.rank() != 0) return;
        temporary.reserve(bytes + metadata_bytes);
        offset = structure.add_field(field);
      });
      comm.broadcast(&offset, Index(sizeof offset), 0);
      if (layout == nullptr) require_same_replicas(field, cells);
      bool const writes = layout != nullptr || comm.rank() == 0;
      std::uint64_t checksum = 0;
      run_agreed(comm, [&] {
        if (writes) checksum = write_cells(field, cells, offset);
      });
      checksums.emplace(field.name, checksum);
    });
  }

  template <class Visit>
  void for_each_piece(detail::FieldCells const& cells, Visit&& visit) const {
    detail::CellStaging staging(cells);
    for (auto const& piece : detail::contiguous_pieces(cells.box, {}, options.piece_bytes / size_of(cells.dtype)))
      visit(piece, staging.pack(piece));
  }

  void require_same_replicas(CheckpointField const& field, detail::FieldCells const& cells) const {
    std::uint64_t checksum = 0;
    for_each_piece(cells, [&](Box const& piece, std::byte const* dense) {
      checksum += detail::cell_checksum(field.dtype, field.extents, piece, dense);
    });
    require_same(comm, "ReplicaMismatch", checksum, "cells of " + field.name);
  }

  /// @return the checksum of the cells
  std::uint64_t write_cells(CheckpointField const& field, detail::FieldCells const& cells, Index offset) const {
    std::uint64_t checksum = 0;
    Index const bytes = size_of(field.dtype);
    for_each_piece(cells, [&](Box const& piece, std::byte const* dense) {
      checksum += detail::cell_checksum(field.dtype, field.extents, piece, dense);
      detail::for_each_run(field.extents, piece, [&](Index first, Index count) {
        auto const failure = file.write(dense, count * bytes, offset + first * bytes);
        if (!failure.empty()) throw Error("OutputError", final_path.string() + " cannot be written: " + failure);
        dense += count * bytes;
      });
    });
    return checksum;
  }

  void add_value(std::string_view name, CheckpointValue const& value) {
    require_open();
    auto const raw = detail::raw_value(value);
    require_same(comm, "ArgumentDisagreement",
                 Hash().add(name).add(value.index()).add(raw.bytes.size()).add(raw.checksum()).value(),
                 "values of " + std::string(name));
    take_name(name, "values");
    guarded([&] {
      run_agreed(comm, [&] {
        if (comm.rank() != 0) return;
        temporary.reserve(Index(raw.bytes.size()) + metadata_bytes);
        structure.add_value(std::string(name), raw);
      });
    });
  }

  std::filesystem::path commit() {
    require_open();
    if (failed) throw Error("WrongState", final_path.string() + ": a call before had failed");
    guarded([&] {
      std::vector<std::uint64_t> sums;
      for (auto const& [name, checksum] : checksums) sums.push_back(checksum);
      comm.reduce(sums.data(), Index(sums.size()), MPI_UINT64_T, MPI_SUM);
      // Each node brings to the disk what its ranks wrote, before the file says that it is whole.
      run_agreed(comm, [&] { detail::sync_to_disk(file, temporary_path); });
      run_agreed(comm, [&] {
        if (comm.rank() != 0) return;
        structure.finish(sums);
        temporary.publish();
        committed = true;
        detail::prune_checkpoints(folder, options.name, options.keep, broken);
      });
    });
    committed = true;
    return final_path;
  }
};

CheckpointWriter::CheckpointWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;
Comm const& CheckpointWriter::comm() const noexcept { return state_->comm; }

void CheckpointWriter::add(std::string_view name, Layout const& layout, FieldView const& view,
                           CheckpointFieldOptions const& options) {
  state_->add(name, &layout, view, options);
}

void CheckpointWriter::add(std::string_view name, FieldView const& view, CheckpointFieldOptions const& options) {
  state_->add(name, nullptr, view, options);
}

void CheckpointWriter::add_value(std::string_view name, CheckpointValue const& value) {
  state_->add_value(name, value);
}

std::filesystem::path CheckpointWriter::commit() { return state_->commit(); }

CheckpointWriter CheckpointStore::begin(Index step) {
  require_same(comm_, "ArgumentDisagreement", Hash().add(step).value(), "step " + std::to_string(step));
  if (step < 0) throw Error("BadOption", "step must be at least 0, got " + std::to_string(step));
  std::unique_ptr<CheckpointWriter::State> state(new CheckpointWriter::State{.comm = comm_,
                                                                             .folder = folder_,
                                                                             .options = options_,
                                                                             .broken = {},
                                                                             .temporary = {},
                                                                             .temporary_path = {},
                                                                             .final_path = {},
                                                                             .structure = {},
                                                                             .file = {},
                                                                             .checksums = {},
                                                                             .paths = {},
                                                                             .groups = {}});
  for (auto const& skipped : skipped_) state->broken.push_back(skipped.path);
  run_agreed(comm_, [&] {
    if (comm_.rank() != 0) return;
    state->temporary = detail::CheckpointTemporary(folder_, options_.name, step);
    state->temporary_path = state->temporary.path();
    state->temporary.reserve(metadata_bytes);
    state->final_path = state->temporary.final().path;
    state->structure = detail::CheckpointStructure(state->temporary_path, state->temporary.final().number, step);
  });
  state->temporary_path = comm_.broadcast(state->temporary_path.string(), 0);
  state->final_path = comm_.broadcast(state->final_path.string(), 0);
  require_seen_by_all(comm_, state->final_path.string(), state->temporary_path);
  run_agreed(comm_, [&] { state->file = detail::open_to_write(state->temporary_path); });
  return CheckpointWriter(std::move(state));
}

}  // namespace graticule
