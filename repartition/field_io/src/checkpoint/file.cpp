// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "cells.hpp"
#include "contents.hpp"
#include "files.hpp"
#include "read/pieces.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <sstream>

namespace graticule {

namespace {

/// Reads the contents on rank 0 and sends them, or the error, to all ranks.
detail::CheckpointContents shared_contents(Comm const& comm, std::filesystem::path const& path) {
  std::string bytes;
  run_agreed(comm, [&] {
    if (comm.rank() == 0) bytes = detail::to_bytes(detail::read_checkpoint_contents(path));
  });
  return detail::checkpoint_contents_from_bytes(comm.broadcast(bytes, 0));
}

/// Axis of the field for each memory axis of a view.
Indices matching_axes(CheckpointField const& field, FieldView const& view) {
  auto axes = Indices::filled(view.ndim(), 0);
  std::iota(axes.begin(), axes.end(), Index(0));
  if (view.grid_axes.size() != field.grid_axes.size()) return axes;
  auto const has = [](Indices const& list, Index value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  Index batch = 0;
  for (int m = 0; m < view.ndim(); ++m) {
    if (has(view.grid_axes, m)) continue;
    while (has(field.grid_axes, batch)) ++batch;
    axes[m] = batch++;
  }
  for (int a = 0; a < view.grid_axes.size(); ++a)
    if (view.grid_axes[a] >= 0 && view.grid_axes[a] < view.ndim()) axes[int(view.grid_axes[a])] = field.grid_axes[a];
  return axes;
}

}  // namespace

struct Checkpoint::State {
  Comm comm;
  std::filesystem::path path;
  detail::CheckpointContents contents;
  detail::Descriptor file;
  Index piece_bytes;

  [[nodiscard]] Error broken(std::string const& what) const {
    return {Fault::input, "BrokenFile", path.string() + " cannot be used: " + what};
  }

  [[nodiscard]] std::size_t index(std::string_view name) const {
    auto const& fields = contents.fields;
    auto const found =
        std::find_if(fields.begin(), fields.end(), [&](auto const& field) { return field.name == name; });
    if (found != fields.end()) return std::size_t(found - fields.begin());
    std::string names;
    for (auto const& field : fields) names += (names.empty() ? "" : ", ") + field.name;
    throw Error(
        Fault::input, "MissingVariable",
        path.string() + " has no field '" + std::string(name) + "'; it has " + (names.empty() ? "none" : names));
  }

  [[nodiscard]] Index most_cells(DType dtype) const { return piece_bytes / size_of(dtype); }

  /// @return the checksum of the cells
  std::uint64_t read_piece(std::size_t i, Box const& piece, std::byte* dense) const {
    auto const& field = contents.fields[i];
    Index const bytes = size_of(field.dtype);
    auto* to = dense;
    detail::for_each_run(field.extents, piece, [&](Index first, Index count) {
      auto const failure = file.read(to, count * bytes, contents.offsets[i] + first * bytes);
      if (!failure.empty()) throw broken("field " + field.name + ": " + failure);
      to += count * bytes;
    });
    return detail::cell_checksum(field.dtype, field.extents, piece, dense);
  }

  /// Fills the cells of this rank. @return their checksum
  std::uint64_t read_cells(std::size_t i, detail::FieldCells const& cells) const {
    detail::CellStaging staging(cells);
    std::uint64_t checksum = 0;
    run_agreed(comm, [&] {
      for (auto const& piece : detail::contiguous_pieces(cells.box, {}, most_cells(cells.dtype))) {
        checksum += read_piece(i, piece, staging.room(piece));
        staging.unpack(piece);
      }
    });
    return checksum;
  }

  void require_checksum(std::size_t i, std::uint64_t checksum) const {
    if (checksum != contents.checksums[i]) throw damaged(i);
  }
  [[nodiscard]] Error damaged(std::size_t i) const {
    return broken("the cells of field " + contents.fields[i].name + " do not have their checksum");
  }

  /// Cells of a view that covers `local`, for the cells `cells`, in grid coordinates.
  [[nodiscard]] detail::FieldCells match(CheckpointField const& field, FieldView const& view, Box const& cells,
                                         Box const& local, Box const& global) const {
    if (view.dtype != field.dtype)
      throw Error("WrongType", "field " + field.name + " has elements of " + to_string(field.dtype) +
                                   ", got a view of " + to_string(view.dtype));
    if (view.ndim() != field.extents.size())
      throw Error("FieldMismatch", "field " + field.name + " has the extents " + to_string(field.extents) +
                                       ", got a view of " + std::to_string(view.ndim()) + " axes");
    auto const axes = matching_axes(field, view);
    auto const result = detail::field_cells(view, axes, field.extents, cells, local);
    for (int a = 0; a < global.ndim(); ++a) {
      Index const extent = field.extents[int(axes[int(view.grid_axes[a])])];
      if (global.extent(a) != extent)
        throw Error("FieldMismatch", "grid " + detail::axis_text(a, global.ndim()) + " has " +
                                         std::to_string(global.extent(a)) + " cells, but field " + field.name +
                                         " has the extents " + to_string(field.extents));
    }
    if (!result.box.empty() && !Box::from_extents(field.extents).contains(result.box))
      throw Error("OutOfRange",
                  to_string(result.box) + " reaches beyond field " + field.name + " of " + to_string(field.extents));
    return result;
  }

  void read(std::string_view name, Layout const& layout, FieldView const& view, std::optional<Box> const& local) const {
    auto const i = same_index(name);
    detail::FieldCells cells;
    run_agreed(comm, [&] {
      if (layout.num_ranks() > comm.num_ranks())
        throw Error("BadProcessGrid", "the layout must have the communicator's " + std::to_string(comm.num_ranks()) +
                                          " ranks, got " + std::to_string(layout.num_ranks()));
      auto const owned = layout.owned(comm.rank());
      cells = match(contents.fields[i], view, owned, local.value_or(owned), layout.global());
    });
    auto checksum = read_cells(i, cells);
    if (layout.has_holes()) return;  // the checksum is that of all cells
    comm.reduce(&checksum, 1, MPI_UINT64_T, MPI_SUM);
    require_checksum(i, checksum);
  }

  void read(std::string_view name, Box const& box, FieldView const& view) const {
    auto const i = same_index(name);
    auto const& field = contents.fields[i];
    detail::FieldCells cells;
    run_agreed(comm, [&] { cells = match(field, view, box, box, Box()); });
    auto const checksum = read_cells(i, cells);
    run_agreed(comm, [&] {
      if (cells.box == Box::from_extents(field.extents)) require_checksum(i, checksum);
    });
  }

  void read(std::string_view name, FieldView const& view) const {
    auto const i = same_index(name);
    auto const& field = contents.fields[i];
    detail::FieldCells cells;
    run_agreed(comm, [&] { cells = match(field, view, Box(), Box(), Box()); });
    detail::CellStaging staging(cells);
    std::uint64_t checksum = 0;
    std::exception_ptr failure;
    for (auto const& piece : detail::contiguous_pieces(cells.box, {}, most_cells(field.dtype))) {
      auto* const dense = staging.room(piece);
      try {
        if (comm.rank() == 0 && !failure) checksum += read_piece(i, piece, dense);
      } catch (...) {
        failure = std::current_exception();
      }
      comm.broadcast(dense, piece.num_cells() * size_of(field.dtype), 0);
      staging.unpack(piece);
    }
    if (comm.rank() == 0 && !failure && checksum != contents.checksums[i])
      failure = std::make_exception_ptr(damaged(i));
    agree(comm, failure);
  }

  /// The field's index, on all ranks the same.
  [[nodiscard]] std::size_t same_index(std::string_view name) const {
    require_same(comm, "ArgumentDisagreement", Hash().add(name).value(), "field " + std::string(name));
    return index(name);
  }

  /// This rank's share of a field: pieces as long as the others' together.
  std::uint64_t share_checksum(std::size_t i) const {
    auto const& field = contents.fields[i];
    auto const whole = Box::from_extents(field.extents);
    Index const share = (whole.num_cells() + comm.num_ranks() - 1) / comm.num_ranks();
    auto const pieces = detail::contiguous_pieces(whole, {}, std::min(share, most_cells(field.dtype)));
    auto const first = pieces.size() * std::size_t(comm.rank()) / std::size_t(comm.num_ranks());
    auto const last = pieces.size() * std::size_t(comm.rank() + 1) / std::size_t(comm.num_ranks());
    std::vector<std::byte> cells;
    std::uint64_t checksum = 0;
    for (auto p = first; p < last; ++p) {
      cells.resize(std::size_t(pieces[p].num_cells() * size_of(field.dtype)));
      checksum += read_piece(i, pieces[p], cells.data());
    }
    return checksum;
  }

  void verify() const {
    std::vector<std::uint64_t> checksums(contents.fields.size(), 0);
    run_agreed(comm, [&] {
      for (std::size_t i = 0; i < checksums.size(); ++i) checksums[i] = share_checksum(i);
    });
    comm.reduce(checksums.data(), Index(checksums.size()), MPI_UINT64_T, MPI_SUM);
    for (std::size_t i = 0; i < checksums.size(); ++i) require_checksum(i, checksums[i]);
  }
};

Checkpoint::Checkpoint(Comm const& comm, std::filesystem::path const& path, Index piece_bytes) {
  auto contents = shared_contents(comm, path);
  // Each rank reads the cells from the file that it sees.
  require_same_copies(comm, path);
  run_agreed(comm, [&] {
    state_.reset(new State{comm, path, std::move(contents), detail::open_to_read(path), piece_bytes});
  });
}

Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

std::filesystem::path const& Checkpoint::path() const noexcept { return state_->path; }
Index Checkpoint::step() const noexcept { return state_->contents.step; }
Index Checkpoint::number() const noexcept { return state_->contents.number; }
std::vector<CheckpointField> const& Checkpoint::fields() const noexcept { return state_->contents.fields; }

std::vector<std::string> Checkpoint::value_names() const {
  std::vector<std::string> names;
  for (auto const& [name, value] : state_->contents.values) names.push_back(name);
  return names;
}

bool Checkpoint::has_field(std::string_view name) const noexcept {
  return std::any_of(fields().begin(), fields().end(), [&](auto const& field) { return field.name == name; });
}

bool Checkpoint::has_value(std::string_view name) const noexcept {
  auto const& values = state_->contents.values;
  return std::any_of(values.begin(), values.end(), [&](auto const& value) { return value.first == name; });
}

CheckpointField const& Checkpoint::field(std::string_view name) const { return fields()[state_->index(name)]; }

CheckpointValue const& Checkpoint::value(std::string_view name) const {
  for (auto const& [known, value] : state_->contents.values)
    if (known == name) return value;
  std::string names;
  for (auto const& known : value_names()) names += (names.empty() ? "" : ", ") + known;
  throw Error(
      Fault::input, "MissingVariable",
      path().string() + " has no value '" + std::string(name) + "'; it has " + (names.empty() ? "none" : names));
}

void Checkpoint::throw_wrong_type(std::string_view name) const {
  throw Error(Fault::input, "WrongType",
              path().string() + " holds another type of value under '" + std::string(name) + "'");
}

void Checkpoint::read(std::string_view name, Layout const& layout, FieldView const& view,
                      std::optional<Box> const& local) const {
  state_->read(name, layout, view, local);
}

void Checkpoint::read(std::string_view name, Box const& box, FieldView const& view) const {
  state_->read(name, box, view);
}

void Checkpoint::read(std::string_view name, FieldView const& view) const { state_->read(name, view); }

void Checkpoint::verify() const { state_->verify(); }

CheckpointStore::CheckpointStore(Comm const& comm, std::filesystem::path const& folder,
                                 CheckpointOptions const& options)
    : comm_(comm), folder_(folder.empty() ? "." : folder), options_(options) {
  require_same(comm, "ArgumentDisagreement",
               Hash().add(folder.string()).add(options.keep).add(options.name).add(options.piece_bytes).value(),
               "a store in " + folder.string());
  if (options.keep < 1) throw Error("BadOption", "keep must be at least 1, got " + std::to_string(options.keep));
  if (options.piece_bytes < 1)
    throw Error("BadOption", "piece_bytes must be at least 1, got " + std::to_string(options.piece_bytes));
  if (options.name.empty() || options.name.front() == '.' ||
      options.name.find_first_of(std::string("/\n\0", 3)) != std::string::npos)
    throw Error("BadOption", "'" + options.name + "' cannot begin the names of checkpoints");
}

std::vector<std::filesystem::path> CheckpointStore::files() const {
  std::string names;
  if (comm_.rank() == 0)
    for (auto const& file : detail::list_checkpoints(folder_, options_.name))
      names += file.path.filename().string() + "\n";
  std::istringstream lines(comm_.broadcast(names, 0));
  std::vector<std::filesystem::path> result;
  for (std::string name; std::getline(lines, name);) result.push_back(folder_ / name);
  return result;
}

std::optional<Checkpoint> CheckpointStore::newest() {
  skipped_.clear();
  for (auto const& path : files()) {
    try {
      Checkpoint found(comm_, path, options_.piece_bytes);
      auto const named = detail::parse_checkpoint_name(path.filename().string(), options_.name);
      if (!named || named->number != found.number() || named->step != found.step())
        throw Error(Fault::input, "BrokenFile",
                    path.string() + " cannot be used: it was renamed, it is checkpoint " +
                        std::to_string(found.number()) + " of step " + std::to_string(found.step()));
      found.verify();
      return found;
    } catch (Error const& error) {
      if (error.fault() != Fault::input) throw;
      skipped_.push_back({path, error.text()});
    }
  }
  return {};
}

}  // namespace graticule
