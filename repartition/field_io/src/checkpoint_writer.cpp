// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/hash.hpp>

#include "checkpoint_cells.hpp"
#include "checkpoint_contents.hpp"
#include "checkpoint_files.hpp"
#include "hdf5.hpp"
#include "hyperslab.hpp"
#include "parallel_file.hpp"
#include "pieces.hpp"
#include "types.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace graticule {

namespace {

namespace h5 = detail::h5;

/// What HDF5 may note down for one dataset, attributes of usual size included.
constexpr Index metadata_bytes = Index(64) << 10;

/// Cells of a chunk when the caller has not said: whole trailing axes of about this many bytes.
constexpr Index chunk_bytes = Index(1) << 20;

struct Description {
  Indices extents;
  detail::FieldCells cells;
};

Description describe(Comm const& comm, Layout const* layout, FieldView const& view,
                     CheckpointFieldOptions const& options) {
  if (layout == nullptr && (view.grid_axes.size() != 0 || options.local))
    throw Error("FieldMismatch", "a view with grid axes needs a layout");
  if (layout != nullptr && layout->num_ranks() > comm.num_ranks())
    throw Error("TooFewRanks",
                "a layout of " + std::to_string(layout->num_ranks()) + " ranks on " + std::to_string(comm.num_ranks()));
  auto const owned = layout != nullptr ? layout->owned(comm.rank()) : Box();
  Description result;
  result.extents = detail::whole_extents(view, layout != nullptr ? layout->global() : Box());
  auto axes = Indices::filled(view.ndim(), 0);
  std::iota(axes.begin(), axes.end(), Index(0));
  result.cells = detail::field_cells(view, axes, result.extents, owned, options.local.value_or(owned));
  return result;
}

std::uint64_t fingerprint(std::string_view name, FieldView const& view, Indices const& extents,
                          CheckpointFieldOptions const& options) {
  Hash hash;
  hash.add(name).add(int(view.dtype)).add(extents).add(view.grid_axes).add(options.chunk).add(options.deflate);
  for (auto const& attribute : options.attributes)
    hash.add(attribute.name).add(int(attribute.type)).add(attribute.text()).add(attribute.numbers());
  return hash.value();
}

Indices chosen_chunk(DType dtype, Indices const& extents, CheckpointFieldOptions const& options) {
  if (options.deflate < 0 || options.deflate > 9)
    throw Error("BadChunk", "deflate " + std::to_string(options.deflate) + " is not 0 to 9");
  if (options.chunk.size() == 0 && options.deflate == 0) return {};
  bool const has_cells = extents.size() > 0 && !Box::from_extents(extents).empty();
  auto chunk = extents;
  if (options.chunk.size() != 0) {
    if (options.chunk.size() != extents.size())
      throw Error("BadChunk", "chunks " + to_string(options.chunk) + " of a field of " + to_string(extents));
    for (int axis = 0; axis < extents.size(); ++axis) {
      if (options.chunk[axis] < 1) throw Error("BadChunk", "chunks " + to_string(options.chunk));
      chunk[axis] = std::min(options.chunk[axis], extents[axis]);
    }
  } else {
    Index cells = std::max<Index>(chunk_bytes / size_of(dtype), 1);
    for (int axis = extents.size() - 1; axis >= 0; --axis) {
      chunk[axis] = std::clamp<Index>(cells, 1, std::max<Index>(extents[axis], 1));
      cells /= chunk[axis];
    }
  }
  return has_cells ? chunk : Indices{};
}

void require_good_attributes(std::vector<Attribute> const& attributes) {
  std::set<std::string_view> names;
  for (auto const& attribute : attributes)
    if (attribute.name.empty() || attribute.name.starts_with(detail::own_prefix) ||
        !names.insert(attribute.name).second)
      throw Error("BadAttribute",
                  "'" + attribute.name + "' is empty, given twice, or begins with " + std::string(detail::own_prefix));
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

h5::Properties untimed(hid_t kind) {
  h5::Properties creation(h5::check(H5Pcreate(kind), "H5Pcreate"));
  // Without the time of day the bytes depend on what is written only.
  h5::check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
  return creation;
}

h5::Properties dataset_creation(Indices const& chunk, int deflate) {
  auto creation = untimed(H5P_DATASET_CREATE);
  h5::check(H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
            "H5Pset_attr_creation_order");
  h5::check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  if (chunk.size() > 0) {
    std::array<hsize_t, max_ndim> extents{};
    std::copy(chunk.begin(), chunk.end(), extents.begin());
    h5::check(H5Pset_chunk(creation.get(), chunk.size(), extents.data()), "H5Pset_chunk");
  }
  if (deflate > 0 && chunk.size() > 0) {
    h5::check(H5Pset_shuffle(creation.get()), "H5Pset_shuffle");
    h5::check(H5Pset_deflate(creation.get(), unsigned(deflate)), "H5Pset_deflate");
  } else {
    h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  }
  return creation;
}

h5::Space dataspace(Indices const& extents) {
  std::array<hsize_t, max_ndim> sizes{};
  std::copy(extents.begin(), extents.end(), sizes.begin());
  return h5::Space(
      h5::check(extents.size() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(extents.size(), sizes.data(), nullptr),
                "H5Screate_simple"));
}

h5::Properties transfer_list(H5FD_mpio_xfer_t mode) {
  h5::Properties transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
  h5::check(H5Pset_dxpl_mpio(transfer.get(), mode), "H5Pset_dxpl_mpio");
  return transfer;
}

/// The user's attributes and those that tell a reader what the dataset holds.
std::vector<Attribute> own_attributes(FieldView const& view, std::vector<Attribute> attributes) {
  attributes.push_back(Attribute::of_text("graticule_dtype", to_string(view.dtype)));
  if (view.grid_axes.size() > 0)
    attributes.push_back(
        {"graticule_grid_axes", ValueType::i64, std::vector<Index>(view.grid_axes.begin(), view.grid_axes.end())});
  return attributes;
}

Attribute integer_attribute(std::string const& name, Index value, ValueType type = ValueType::i64) {
  return {name, type, std::vector<Index>{value}};
}

}  // namespace

struct CheckpointWriter::State {
  struct Target {
    h5::Dataset dataset;
    std::uint64_t checksum = 0;  ///< of the cells that this rank wrote
  };

  Comm comm;
  std::filesystem::path folder;
  CheckpointOptions options;
  std::vector<std::filesystem::path> broken;  ///< what `newest` passed over
  detail::CheckpointTemporary temporary;      ///< held by rank 0
  std::filesystem::path temporary_path;
  std::filesystem::path final_path;
  detail::ParallelFile file;
  std::map<std::string, Target, std::less<>> targets;  ///< by path in the file
  std::set<std::string, std::less<>> groups;
  bool failed = false;
  bool committed = false;

  ~State() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) {
      for (auto& [name, target] : targets) target.dataset.release();
      return;
    }
    h5::Quiet const quiet;
    targets.clear();
    // Any rank may have to do it: rank 0 may never come here.
    if (!committed) ::unlink(temporary_path.c_str());
  }

  void require_open() const {
    if (committed) throw Error("CheckpointCommitted", final_path.string() + " is complete");
  }

  /// Runs what changes the file; when it fails, there is nothing left to commit.
  void guarded(std::function<void()> const& action) {
    h5::Quiet const quiet;
    try {
      action();
    } catch (...) {
      failed = true;
      throw;
    }
  }

  void make_group(std::string const& path) {
    if (!groups.insert(path).second) return;
    auto const creation = untimed(H5P_GROUP_CREATE);
    h5::Group group(
        h5::check(H5Gcreate2(file.id(), path.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), "H5Gcreate2"));
    h5::check(group.close(), "H5Gclose");
  }

  void require_free(std::string_view name, std::string const& path) const {
    require_good_name(name);
    bool taken = targets.contains(path) || groups.contains(path);
    for (auto at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
      taken = taken || targets.contains(std::string_view(path).substr(0, at));
    if (taken) throw Error("NameTaken", "there is already a field, value or group '" + std::string(name) + "'");
  }

  struct NewDataset {
    h5::Type type;
    h5::Space space;
    h5::Properties creation;
    std::vector<Attribute> attributes;
    Index room = 0;  ///< bytes on the disk
  };

  Target& create(std::string const& path, NewDataset const& dataset) {
    // HDF5's calls are collective, so rank 0 makes them also when the disk is full.
    std::exception_ptr failure;
    try {
      if (comm.rank() == 0) temporary.reserve(dataset.room);
    } catch (...) {
      failure = std::current_exception();
    }
    for (auto at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) make_group(path.substr(0, at));
    Target target;
    target.dataset = h5::Dataset(h5::check(H5Dcreate2(file.id(), path.c_str(), dataset.type.get(), dataset.space.get(),
                                                      H5P_DEFAULT, dataset.creation.get(), H5P_DEFAULT),
                                           "H5Dcreate2"));
    for (auto const& attribute : dataset.attributes) h5::write_attribute(target.dataset.get(), attribute);
    if (failure) std::rethrow_exception(failure);
    return targets.emplace(path, std::move(target)).first->second;
  }

  void add(std::string_view name, Layout const* layout, FieldView const& view, CheckpointFieldOptions const& field) {
    require_open();
    Description description;
    run_agreed(comm, [&] { description = describe(comm, layout, view, field); });
    auto const& extents = description.extents;
    require_same(comm, "CheckpointDiffers",
                 Hash().add(fingerprint(name, view, extents, field)).add(layout ? layout->fingerprint() : 0).value(),
                 "field " + std::string(name) + ", " + to_string(view.dtype) + " " + to_string(extents));
    auto const path = "fields/" + std::string(name);
    require_free(name, path);
    require_good_attributes(field.attributes);
    auto const chunk = chosen_chunk(view.dtype, extents, field);
    guarded([&] {
      Target* target = nullptr;
      auto const create_field = [&] {
        target = &create(path, {.type = detail::element_type(view.dtype, detail::Place::file),
                                .space = dataspace(extents),
                                .creation = dataset_creation(chunk, field.deflate),
                                .attributes = own_attributes(view, field.attributes),
                                .room = room_for(view.dtype, extents, chunk)});
      };
      if (layout == nullptr) {
        run_agreed(comm, create_field);
        write_replica(*target, name, extents, description.cells, field.deflate);
        return;
      }
      auto const rounds = detail::agreed_rounds(comm, [&] {
        create_field();
        return detail::Portion{description.cells.box, chunk, most_cells(view.dtype)};
      });
      write_own(*target, extents, description.cells, rounds);
    });
  }

  /// Upper bound of what a field needs, with whole chunks.
  static Index room_for(DType dtype, Indices const& extents, Indices const& chunk) {
    Index bytes = size_of(dtype);
    Index num_chunks = 1;
    for (int axis = 0; axis < extents.size(); ++axis) {
      Index const part = chunk.size() > 0 ? chunk[axis] : std::max<Index>(extents[axis], 1);
      Index const count = std::max<Index>((extents[axis] + part - 1) / part, 1);
      num_chunks *= count;
      if (__builtin_mul_overflow(bytes, count * part, &bytes))
        throw Error("Overflow", "a field of " + to_string(extents));
    }
    return bytes + num_chunks * 256 + metadata_bytes;
  }

  void write_piece(Target const& target, h5::Properties const& transfer, detail::FieldCells const& cells,
                   Box const* piece, std::byte const* dense) const {
    auto const type = detail::element_type(cells.dtype, detail::Place::memory);
    auto const selection = detail::select(target.dataset.get(), detail::slab_of(piece));
    std::byte const nothing{};
    h5::check(H5Dwrite(target.dataset.get(), type.get(), selection.memory.get(), selection.file.get(), transfer.get(),
                       piece != nullptr ? dense : &nothing),
              "H5Dwrite");
  }

  [[nodiscard]] Index most_cells(DType dtype) const { return options.piece_bytes / size_of(dtype); }

  void write_own(Target& target, Indices const& extents, detail::FieldCells const& cells,
                 detail::Rounds const& rounds) const {
    auto const transfer = transfer_list(H5FD_MPIO_COLLECTIVE);
    detail::CellStaging staging(cells);
    std::exception_ptr failure;
    for (std::size_t round = 0; round < std::size_t(rounds.count); ++round) {
      auto const* piece = round < rounds.pieces.size() ? &rounds.pieces[round] : nullptr;
      try {
        std::byte const* dense = nullptr;
        if (piece != nullptr && !failure) {
          dense = staging.pack(*piece);
          target.checksum += detail::cell_checksum(cells.dtype, extents, *piece, dense);
        }
        // The others wait in this call, so a rank that has failed takes part with no cells.
        write_piece(target, transfer, cells, dense != nullptr ? piece : nullptr, dense);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    agree(comm, failure);
  }

  void write_replica(Target& target, std::string_view name, Indices const& extents, detail::FieldCells const& cells,
                     int deflate) const {
    auto const pieces = detail::contiguous_pieces(cells.box, {}, most_cells(cells.dtype));
    detail::CellStaging staging(cells);
    for (auto const& piece : pieces)
      target.checksum += detail::cell_checksum(cells.dtype, extents, piece, staging.pack(piece));
    require_same(comm, "ReplicaDiffers", target.checksum, "other cells of " + std::string(name));
    bool const writes = comm.rank() == 0;
    if (!writes) target.checksum = 0;
    // Compressed chunks take part in HDF5's bookkeeping, which is collective.
    auto const transfer = transfer_list(deflate > 0 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    run_agreed(comm, [&] {
      for (auto const& piece : pieces)
        if (writes)
          write_piece(target, transfer, cells, &piece, staging.pack(piece));
        else if (deflate > 0)
          write_piece(target, transfer, cells, nullptr, nullptr);
    });
  }

  void add_value(std::string_view name, CheckpointValue const& value) {
    require_open();
    auto const raw = detail::raw_value(value);
    auto const checksum = raw.checksum();
    require_same(comm, "CheckpointDiffers",
                 Hash().add(name).add(value.index()).add(raw.bytes.size()).add(checksum).value(),
                 "another value of " + std::string(name));
    auto const path = "values/" + std::string(name);
    require_free(name, path);
    guarded([&] {
      bool const writes = comm.rank() == 0;
      run_agreed(comm, [&] {
        bool const is_empty = raw.bytes.empty();
        auto const type = [&](detail::Place place) {
          return raw.is_text ? detail::text_type(std::max<std::size_t>(raw.bytes.size(), 1))
                             : detail::element_type(raw.dtype, place);
        };
        auto const kind = raw.is_text ? "text" : to_string(raw.dtype);
        auto& target = create(
            path, {.type = type(detail::Place::file),
                   .space = raw.is_text && is_empty ? h5::Space(h5::check(H5Screate(H5S_NULL), "H5Screate"))
                                                    : dataspace(raw.ndim == 1 ? Indices{raw.count()} : Indices{}),
                   .creation = dataset_creation({}, 0),
                   .attributes = {Attribute::of_text("graticule_dtype", kind)},
                   .room = Index(raw.bytes.size()) + metadata_bytes});
        if (!writes) return;
        target.checksum = checksum;
        if (!is_empty)
          h5::check(H5Dwrite(target.dataset.get(), type(detail::Place::memory).get(), H5S_ALL, H5S_ALL,
                             transfer_list(H5FD_MPIO_INDEPENDENT).get(), raw.bytes.data()),
                    "H5Dwrite");
      });
    });
  }

  void write_contents() {
    std::vector<std::uint64_t> checksums;
    for (auto const& [path, target] : targets) checksums.push_back(target.checksum);
    comm.reduce(checksums.data(), Index(checksums.size()), MPI_UINT64_T, MPI_SUM);
    run_agreed(comm, [&] {
      std::size_t i = 0;
      for (auto& [path, target] : targets) {
        h5::write_attribute(target.dataset.get(),
                            integer_attribute("graticule_checksum", Index(checksums[i++]), ValueType::u64));
        h5::check(target.dataset.close(), "H5Dclose");
      }
      // From the file, so that it is the hash of what a reader will find.
      auto const hash = detail::contents_hash(file.id());
      h5::Group const root(h5::check(H5Gopen2(file.id(), "/", H5P_DEFAULT), "H5Gopen2"));
      h5::write_attribute(root.get(), integer_attribute("graticule_contents", Index(hash), ValueType::u64));
    });
    targets.clear();
  }

  std::filesystem::path commit() {
    require_open();
    if (failed) throw Error("CheckpointIncomplete", final_path.string() + ": a call before had failed");
    guarded([&] {
      write_contents();
      run_agreed(comm, [&] {
        h5::check(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "H5Fflush");
        file.close();
      });
      run_agreed(comm, [&] {
        if (comm.rank() != 0) return;
        temporary.publish();
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
  require_same(comm_, "CheckpointDiffers", Hash().add(step).value(), "step " + std::to_string(step));
  if (step < 0) throw Error("BadStep", std::to_string(step));
  detail::CheckpointTemporary temporary;
  run_agreed(comm_, [&] {
    if (comm_.rank() == 0) temporary = detail::CheckpointTemporary(folder_, options_.name, step);
  });
  std::filesystem::path const temporary_path = comm_.broadcast(temporary.path().string(), 0);
  std::filesystem::path const final_path = comm_.broadcast(temporary.final().path.string(), 0);
  Index const number = std::stoll(comm_.broadcast(std::to_string(temporary.final().number), 0));
  std::vector<std::filesystem::path> broken;
  for (auto const& skipped : skipped_) broken.push_back(skipped.path);

  h5::Quiet const quiet;
  std::unique_ptr<CheckpointWriter::State> state;
  run_agreed(comm_, [&] {
    state.reset(new CheckpointWriter::State{.comm = comm_,
                                            .folder = folder_,
                                            .options = options_,
                                            .broken = std::move(broken),
                                            .temporary = std::move(temporary),
                                            .temporary_path = temporary_path,
                                            .final_path = final_path,
                                            .file = detail::ParallelFile::create(comm_, temporary_path),
                                            .targets = {},
                                            .groups = {}});
  });
  run_agreed(comm_, [&] {
    if (comm_.rank() == 0) state->temporary.reserve(metadata_bytes);
    h5::Group const root(h5::check(H5Gopen2(state->file.id(), "/", H5P_DEFAULT), "H5Gopen2"));
    h5::write_attribute(root.get(), integer_attribute("graticule_checkpoint", detail::checkpoint_version));
    h5::write_attribute(root.get(), integer_attribute("graticule_step", step));
    h5::write_attribute(root.get(), integer_attribute("graticule_number", number));
    state->make_group("fields");
    state->make_group("values");
  });
  return CheckpointWriter(std::move(state));
}

}  // namespace graticule
