// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "agreed_variable.hpp"
#include "catalogue.hpp"
#include "file_of_series.hpp"
#include "hdf5/elements.hpp"
#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"
#include "hdf5/mpi_io.hpp"
#include "hdf5/parallel_file.hpp"
#include "hdf5/reading_threads.hpp"
#include "hdf5/values.hpp"
#include "pieces.hpp"
#include "poles.hpp"
#include "source.hpp"
#include "view_part.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace graticule {

namespace {

namespace h5 = detail::h5;

constexpr Index bytes_in_cache = Index(1) << 20;

}  // namespace

struct FieldFile::State {
  Comm comm;
  FieldFileOptions options;
  FileContents contents;
  std::vector<detail::VariablePlace> places;  ///< of each variable
  bool calls_together;                        ///< ranks read uncompressed cells in one call; the same on all of them
  std::unique_ptr<detail::Source> source;

  State(Comm const& on, detail::Catalogue catalogue, FieldFileOptions const& chosen)
      : comm(on),
        options(chosen),
        contents(std::move(catalogue.contents)),
        places(std::move(catalogue.places)),
        calls_together(agreed_calls(on, chosen)),
        source(detail::format_of(contents.path)
                   .open(contents.path, {&comm, calls_together, detail::reading_threads(chosen.threads)})) {}

  static bool agreed_calls(Comm const& comm, FieldFileOptions const& chosen) {
    std::array<Index, 1> alone{chosen.calls == ReadCalls::collective && detail::reads_together() ? 0 : 1};
    comm.max(alone);
    return alone[0] == 0;
  }

  ~State() {
    std::optional<h5::Quiet> quiet;
    if (!detail::mpi_is_over()) quiet.emplace(options.plugins);
    source.reset();
  }

  [[nodiscard]] Error broken(std::string const& what) const {
    return {
        Fault::input, "BrokenFile",
        contents.path.string() + " cannot be read (" + what + "); it is damaged or incomplete, copy or make it again"};
  }

  /// An error of the library that reads, with the file and the variable.
  [[nodiscard]] Error named(Variable const& variable, Error const& error) const {
    if (error.rule() != "UnreadableVariable" && error.rule() != "UnreadableFile")
      return broken("variable " + variable.name + ": " + error.text());
    return {error.fault(), error.rule(),
            "variable " + variable.name + " of " + contents.path.string() + " cannot be read: " + error.text()};
  }

  static void check_box(Variable const& variable, Box const& box, std::size_t given, Index per_cell) {
    if (!box.empty() || box.ndim() != variable.ndim()) {
      auto const global = Box::from_extents(variable.extents);
      if (box.ndim() != variable.ndim() || !global.contains(box))
        throw Error("OutOfRange", "the cells must lie in " + to_string(variable) + ", got " + to_string(box));
    }
    if (Index(given) != box.num_cells() * per_cell)
      throw Error("ShapeMismatch", std::string("the ") + std::to_string(box.num_cells()) + " cells of " +
                                       to_string(box) + " need as many " +
                                       (per_cell == 1 ? "values" : "values of " + std::to_string(per_cell) + " bytes") +
                                       ", got " + std::to_string(given) + (per_cell == 1 ? "" : " bytes"));
  }

  [[nodiscard]] detail::Portion portion(Variable const& variable, Box const& box) const {
    return {box, variable.chunk, options.piece_bytes / variable.value_bytes};
  }

  /// Bytes of a piece that is looked through for missing values after it was read: without chunks so few that they are
  /// in the cache then, unless each piece is a call of all ranks.
  [[nodiscard]] Index piece_bytes_of(Variable const& variable, detail::Unpacking const& unpacking) const {
    bool const stays = variable.chunk.size() == 0 && !calls_together && !unpacking.has_all();
    return stays ? std::min(options.piece_bytes, bytes_in_cache) : options.piece_bytes;
  }

  [[nodiscard]] Error unreadable(Variable const& variable) const {
    return {Fault::input, variable.refusal_rule,
            "variable " + variable.name + " of " + contents.path.string() + " cannot be read: " + variable.refusal};
  }

  using ReadCells = detail::Source::ReadCells;

  /// Runs `action`, whose errors are those of the source.
  template <class Action>
  auto of_source(Variable const& variable, Action const& action) const {
    try {
      return action();
    } catch (MpiError const&) {
      throw;
    } catch (Error const& error) {
      throw named(variable, error);
    }
  }

  /// How the cells of a variable are read. Collective.
  ReadCells reader_of(Variable const& variable) {
    auto const& place = places[std::size_t(&variable - contents.variables.data())];
    auto read = of_source(variable, [&] { return source->reader_of(variable, place); });
    return [this, &variable, read = std::move(read)](std::optional<detail::Slab> const& slab, std::byte* target) {
      of_source(variable, [&] { read(slab, target); });
    };
  }

  /// Runs `prepare()`, which may throw, then `visit(read, piece)` for each round of pieces of the portion that it
  /// returns. Collective.
  template <class Visit>
  void for_each_piece(Variable const& variable, std::function<detail::Portion()> const& prepare, Visit const& visit) {
    auto const rounds = detail::agreed_rounds(comm, prepare);
    h5::Quiet const quiet(options.plugins);
    if (rounds.count == 0) return;
    auto const watch = [&] { return detail::FileWatch(comm, contents.path, "reading"); };
    auto const read = [&] {
      auto const watched = watch();
      return reader_of(variable);
    }();
    std::exception_ptr failure;
    detail::Piece piece;
    for (Index round = 0; round < rounds.count; ++round) {
      piece = rounds.piece(round, piece);
      try {
        // Of a piece: all of a variable may take long.
        auto const watched = watch();
        visit(read, piece);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    agree(comm, failure);
  }

  template <class Value>
  void read(std::string_view name, Box const& box, std::span<Value> values) {
    auto const& variable = detail::agreed_variable(comm, contents, name);
    if (!variable.refusal.empty()) throw unreadable(variable);
    auto const unpacking = detail::unpacking_of(contents, variable);
    bool const in_place = detail::reads_in_place<Value>(unpacking);
    for_each_piece(
        variable,
        [&]() -> detail::Portion {
          check_box(variable, box, values.size(), 1);
          return {box, variable.chunk, piece_bytes_of(variable, unpacking) / variable.value_bytes};
        },
        [&](ReadCells const& read_cells, detail::Piece const& piece) {
          auto const part = values.subspan(piece.first, piece.count);
          std::vector<std::byte> staging(in_place ? 0 : piece.count * std::size_t(variable.value_bytes));
          auto* const target = in_place ? reinterpret_cast<std::byte*>(part.data()) : staging.data();
          read_cells(detail::slab_of(piece.box), target);
          if (piece.box != nullptr) detail::unpack(unpacking, target, part);
        });
  }

  void read(std::string_view name, FileSelection const& selection, FieldView const& field) {
    auto const& variable = detail::agreed_variable(comm, contents, name);
    if (!variable.refusal.empty()) throw unreadable(variable);
    auto const unpacking = detail::unpacking_of(contents, variable);
    bool const same = detail::is_same(unpacking, field.dtype);
    auto const size = std::size_t(size_of(field.dtype));
    detail::ViewPart part;
    bool in_place = false;
    for_each_piece(
        variable,
        [&]() -> detail::Portion {
          part = detail::view_part(to_string(variable), variable.extents, selection, field);
          in_place = same && part.is_dense();
          auto const cell_bytes = variable.value_bytes + (same ? 0 : Index(size));
          return {part.cells, detail::chunk_for(part, variable.chunk),
                  piece_bytes_of(variable, unpacking) / cell_bytes};
        },
        [&](ReadCells const& read_cells, detail::Piece const& piece) {
          if (piece.box == nullptr) return read_cells({}, nullptr);
          auto const slab = detail::part_of(part.slab, part.cells, *piece.box);
          auto const mark = [&](std::byte* at) {
            if (!unpacking.has_all()) detail::unpack_elements(unpacking, at, piece.count, field.dtype, at);
          };
          if (in_place) {
            auto* const at = part.first + piece.first * size;
            read_cells(slab, at);
            return mark(at);
          }
          std::vector<std::byte> staging(piece.count * std::size_t(variable.value_bytes));
          read_cells(slab, staging.data());
          if (same) {
            mark(staging.data());
            return part.scatter(*piece.box, staging.data());
          }
          std::vector<std::byte> elements(piece.count * size);
          detail::unpack_elements(unpacking, staging.data(), piece.count, field.dtype, elements.data());
          part.scatter(*piece.box, elements.data());
        });
  }

  /// Strings of variable length as ones of the same length; cells that are not in the file are empty.
  static void copy_strings(Variable const& variable, Box const& box, std::span<std::byte> bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte(0));
    auto const& stored = variable.stored_extents.size() > 0 ? variable.stored_extents : variable.extents;
    for (Index cell = 0; cell < box.num_cells(); ++cell) {
      Index rest = cell;
      Index place = 0;
      Index stride = 1;
      bool is_there = true;
      for (int axis = box.ndim() - 1; axis >= 0; --axis) {
        Index const at = box.lo(axis) + rest % box.extent(axis);
        rest /= box.extent(axis);
        is_there = is_there && at < stored[axis];
        place += at * stride;
        stride *= stored[axis];
      }
      if (!is_there) continue;
      auto const& text = variable.strings.at(std::size_t(place));
      std::memcpy(bytes.data() + cell * variable.value_bytes, text.data(), text.size());
    }
  }

  void read_stored(std::string_view name, Box const& box, std::span<std::byte> bytes) {
    auto const& variable = detail::agreed_variable(comm, contents, name);
    auto const size = std::size_t(variable.value_bytes);
    if (size == 0) throw unreadable(variable);
    if (variable.is_strings) {
      run_agreed(comm, [&] { check_box(variable, box, bytes.size(), variable.value_bytes); });
      return copy_strings(variable, box, bytes);
    }
    for_each_piece(
        variable,
        [&] {
          check_box(variable, box, bytes.size(), variable.value_bytes);
          return portion(variable, box);
        },
        [&](ReadCells const& read_cells, detail::Piece const& piece) {
          auto const part = bytes.subspan(piece.first * size, piece.count * size);
          read_cells(detail::slab_of(piece.box), part.data());
          if (detail::swaps_bytes(variable)) detail::swap_bytes(part.data(), variable.value_bytes, piece.count);
        });
  }
};

FieldFile::FieldFile(Comm const& comm, std::filesystem::path const& path, FieldFileOptions const& options) {
  auto catalogue = detail::shared_catalogue(comm, path, options.plugins);
  require_same_copies(comm, detail::format_of(path).witness(path));
  h5::Quiet const quiet(options.plugins);
  run_agreed(comm, [&] {
    try {
      state_ = std::make_unique<State>(comm, std::move(catalogue), options);
    } catch (MpiError const&) {
      throw;
    } catch (Error const& error) {
      if (error.fault() == Fault::usage) throw;
      throw Error(Fault::input, "UnreadableFile", path.string() + " cannot be opened in parallel: " + error.text());
    }
  });
}

FileContents& detail::FileOfSeries::contents(FieldFile& file) { return file.state_->contents; }

detail::Catalogue detail::FileOfSeries::catalogue(FieldFile const& file) {
  auto const& state = *file.state_;
  return {state.contents, state.places, {}};
}

FieldFile::FieldFile(FieldFile&&) noexcept = default;
FieldFile& FieldFile::operator=(FieldFile&&) noexcept = default;
FieldFile::~FieldFile() = default;

FileContents const& FieldFile::contents() const noexcept { return state_->contents; }

HorizontalAxes FieldFile::horizontal_axes(std::string_view name) const {
  return contents().horizontal_axes(variable(name));
}

std::vector<double> FieldFile::coordinate(std::string_view dimension) const {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(dimension).value(),
               "coordinate of dimension " + std::string(dimension));
  auto const* found = contents().coordinate(dimension);
  if (found == nullptr)
    throw Error(Fault::input, "MissingVariable",
                "dimension '" + std::string(dimension) + "' of " + contents().path.string() +
                    " has no coordinate: there is no variable " + std::string(dimension) + "(" +
                    std::string(dimension) + ")");
  // One rank reads and sends: all ranks reading the same few bytes is what file systems like least.
  std::vector<double> values(std::size_t(found->extents[0]), 0.0);
  bool const reads = state_->comm.rank() == 0;
  Box const box({0}, {reads ? found->extents[0] : 0});
  read(found->name, box, std::span(values).first(reads ? values.size() : 0));
  state_->comm.broadcast(values.data(), Index(values.size() * sizeof(double)), 0);
  detail::to_degrees(contents(), dimension, values);
  return values;
}

void FieldFile::read(std::string_view name, Box const& box, std::span<float> values) const {
  state_->read(name, box, values);
}

void FieldFile::read(std::string_view name, Box const& box, std::span<double> values) const {
  state_->read(name, box, values);
}

void FieldFile::read(std::string_view name, FileSelection const& selection, FieldView const& field) const {
  state_->read(name, selection, field);
}

void FieldFile::read_stored(std::string_view name, Box const& box, std::span<std::byte> bytes) const {
  state_->read_stored(name, box, bytes);
}

}  // namespace graticule
