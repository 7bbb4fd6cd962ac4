// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5_sink.hpp"

#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/failure.hpp>

#include "first_failure.hpp"
#include "hdf5/disk_room.hpp"
#include "hdf5/hyperslab.hpp"
#include "hdf5/types.hpp"
#include "hdf5/values.hpp"

#include <array>
#include <utility>

namespace graticule::detail {

namespace {

/// Bytes of a file's own structures.
constexpr Index first_room = Index(32) << 10U;

/// The group's turns, or this rank's own; and how many rounds all ranks take.
std::pair<std::vector<Turn>, Index> agreed_turns(Comm const& comm, WriterGroup* group, Supply const& mine) {
  auto turns = group != nullptr ? group->turns(mine) : turns_of(mine, -1);
  std::array<Index, 1> most{Index(turns.size())};
  comm.max(most);
  return {std::move(turns), most[0]};
}

}  // namespace

std::unique_ptr<Sink> create_hdf5(Comm const& comm, std::filesystem::path const& path,
                                  FieldWriterOptions const& options) {
  if (!options.codec.empty())
    throw Error(Fault::usage, "BadOption",
                path.string() + ": a codec, '" + options.codec + "', is for Zarr stores; name one that ends in .zarr");
  OutputFile output(comm, path);
  h5::Quiet const quiet;
  return std::make_unique<Hdf5Sink>(comm, path, std::move(output), options);
}

OpenedSink append_hdf5(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                       FieldWriterOptions const& options) {
  FileStamp seen;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    if (restore_interrupted(path, Unseen::has_ended) == Interrupted::in_use)
      fail_output(path, "another program appends to it");
    seen = stamp_of(path);
  });
  auto catalogue = shared_catalogue(comm, path, FilterPlugins::refused, Structure::growing);
  std::optional<OutputFile> copy;
  if (to == AppendTo::in_place) require_seen_by_all(comm, path.string(), path);
  if (to == AppendTo::copy) {
    copy.emplace(comm, path);
    copy_bytes(comm, path, copy->temporary());
  }
  h5::Quiet const quiet;
  auto sink = std::make_unique<Hdf5Sink>(comm, catalogue, std::move(copy), options, seen);
  return {std::move(catalogue), std::move(sink)};
}

Hdf5Sink::Hdf5Sink(Comm const& comm, std::filesystem::path const& path, OutputFile fresh,
                   FieldWriterOptions const& options)
    : comm_(comm), path_(path), options_(options), output_(std::move(fresh)) {
  if (options.writers_per_node > 0) group_.emplace(comm, options.writers_per_node);
  // Before HDF5 opens the file: it could not close one that has no room at all.
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    disk_ = open_to_write(output_->temporary());
    if (auto const why = reserve_on_disk(disk_.get(), 0, first_room); !why.empty()) fail_output(path, why);
  });
  run_agreed(comm, [&] {
    if (writes()) file_.emplace(ParallelFile::create(group_ ? group_->peers() : comm, output_->temporary()));
  });
}

Hdf5Sink::Hdf5Sink(Comm const& comm, Catalogue const& catalogue, std::optional<OutputFile> copy,
                   FieldWriterOptions const& options, FileStamp const& seen)
    : comm_(comm), path_(catalogue.contents.path), options_(options), output_(std::move(copy)), appends_(true) {
  if (options.writers_per_node > 0) group_.emplace(comm, options.writers_per_node);
  auto const opened = output_ ? output_->temporary() : path_;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    if (!output_) undo_.emplace(path_, catalogue.unchanged, seen);
    disk_ = open_to_write(opened);
    reserved_ = Index(std::filesystem::file_size(opened));
  });
  comm.broadcast(&reserved_, sizeof reserved_, 0);
  taken_ = reserved_;
  run_agreed(comm, [&] {
    if (writes()) file_.emplace(ParallelFile::open_to_write(group_ ? group_->peers() : comm, opened));
  });
}

Hdf5Sink::~Hdf5Sink() {
  if (mpi_is_over()) {
    for (auto& [name, target] : targets_) target.dataset.release();
    return;
  }
  h5::Quiet const quiet;
  if (!output_ && !committed_) give_back();
  if (output_ && !committed_ && file_) file_->divert();
  targets_.clear();
}

void Hdf5Sink::give_back() noexcept {
  if (!file_ || !file_->meets_others()) return;
  try {
    targets_.clear();
    file_->close();
    if (file_->meets_others() && undo_) undo_->restore();
  } catch (...) {
    // The undo file stays.
  }
}

void Hdf5Sink::write_attributes(std::vector<Attribute> const& attributes) {
  h5::Quiet const quiet;
  Room room{Index(1) << 20U, first_room};
  reserve(room += room_for(attributes));
  run_agreed(comm_, [&] {
    if (!writes()) return;
    h5::Group const root(h5::check(H5Gopen2(file_->id(), "/", H5P_DEFAULT), "H5Gopen2"));
    for (auto const& attribute : attributes) h5::write_attribute(root.get(), attribute);
  });
}

void Hdf5Sink::write(std::string const& name, WrittenVariable const& variable, Supply const& mine,
                     FetchCells const& fetch) {
  auto& target = targets_.find(name)->second;
  h5::Quiet const quiet;
  auto const [turns, num_rounds] = agreed_turns(comm_, group_ ? &*group_ : nullptr, mine);
  take_room();
  if (target.grows_later) grow_now(variable, target);
  h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
  h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  FirstFailure failure;
  for (std::size_t round = 0; round < std::size_t(num_rounds); ++round) {
    auto const* turn = round < turns.size() ? &turns[round] : nullptr;
    void const* data = nullptr;
    // A rank that has failed continues: the others need it in every call.
    failure.attempt([&] {
      auto const share = group_ && turn != nullptr ? group_->share(*turn) : turn != nullptr ? turn->cells : Box();
      if (turn != nullptr && !share.empty()) data = fetch(share);
    });
    failure.attempt([&] {
      if (group_ && turn != nullptr) data = group_->gather(*turn, target.value_bytes, data);
    });
    on_disk([&] { write_turn(target, transfer, data != nullptr ? turn : nullptr, data); });
  }
  agree(comm_, failure.first());
}

void Hdf5Sink::write_turn(Target const& target, h5::Properties const& transfer, Turn const* turn,
                          void const* data) const {
  auto const slab = turn != nullptr ? std::optional(turn->slab) : std::nullopt;
  auto const selection = select(target.dataset.get(), slab);
  std::byte const nothing{};
  h5::check(H5Dwrite(target.dataset.get(), target.memory_type.get(), selection.memory.get(), selection.file.get(),
                     transfer.get(), turn != nullptr ? data : &nothing),
            "H5Dwrite");
}

void Hdf5Sink::commit(WrittenTable const& table) {
  h5::Quiet const quiet;
  // Every dimension has a scale, which lists those that refer to it.
  auto const num_scales = Index(table.dimensions.size());
  reserve({num_scales << 20U, num_scales << 13U});
  take_room();
  on_disk([&] {
    if (appends_) {
      declare_fill(table);
      extend_bare_scales(table);
    } else {
      set_scales(table);
    }
    targets_.clear();
    h5::check(H5Fflush(file_->id(), H5F_SCOPE_GLOBAL), "H5Fflush");
    file_->close();
  });
  targets_.clear();
  comm_.barrier();  // complete on all ranks
  if (output_) {
    output_->publish();
  } else {
    cut_to_length(comm_, path_);
    sync(comm_, path_);
    run_agreed(comm_, [&] {
      if (undo_) undo_->drop();
    });
  }
  committed_ = true;
}

Hdf5Sink::Room& Hdf5Sink::Room::operator+=(Room const& more) {
  if (__builtin_add_overflow(length, more.length, &length))
    throw Error("OutOfRange", "the file would have more than 2^63 bytes");
  on_disk += more.on_disk;
  return *this;
}

Hdf5Sink::Room Hdf5Sink::room_for(Target const& target, Indices const& chunk, Indices const& extents) {
  Index bytes = target.value_bytes;
  Index num_chunks = 1;
  bool overflows = false;
  for (int axis = 0; axis < extents.size(); ++axis) {
    Index const cells = axis < chunk.size() ? chunk[axis] : std::max<Index>(extents[axis], 1);
    Index const count = extents[axis] / cells + (extents[axis] % cells != 0 ? 1 : 0);
    overflows = overflows || __builtin_mul_overflow(bytes, std::max<Index>(count * cells, 1), &bytes);
    overflows = overflows || __builtin_mul_overflow(num_chunks, std::max<Index>(count, 1), &num_chunks);
  }
  constexpr Index most = Index(1) << 62U;
  constexpr Index header_bytes = Index(8) << 10U;
  constexpr Index chunk_note_bytes = 256;
  if (overflows || bytes > most / 2 || num_chunks > most / 2 / chunk_note_bytes)
    throw Error("OutOfRange", "a variable would have more than 2^62 bytes");
  Index const notes = num_chunks * chunk_note_bytes + header_bytes;
  return {bytes + notes + (Index(1) << 20), (target.has_filters ? 0 : bytes) + notes};
}

Hdf5Sink::Room Hdf5Sink::room_for(std::vector<Attribute> const& attributes) {
  Index bytes = 0;
  for (auto const& attribute : attributes)
    bytes += Index(attribute.name.size() + attribute.text().size() + 8 * attribute.numbers().size()) + 256;
  return {bytes, bytes};
}

void Hdf5Sink::reserve(Room const& room) {
  run_agreed(comm_, [&] {
    if (disk_.get() < 0) return;
    if (auto const why = lack_of_room(disk_.get(), taken_, reserved_ - taken_ + room.on_disk); !why.empty())
      fail_output(path_, why);
  });
  reserved_ += room.on_disk;
  if (writes()) file_->reserve(room.length);
}

void Hdf5Sink::take_room() {
  if (taken_ == reserved_) return;
  run_agreed(comm_, [&] {
    if (disk_.get() < 0) return;
    if (auto const why = reserve_on_disk(disk_.get(), taken_, reserved_ - taken_); !why.empty())
      fail_output(path_, why);
  });
  taken_ = reserved_;
}

void Hdf5Sink::on_disk(std::function<void()> const& action) const {
  if (!writes()) return;
  try {
    FileWatch const watch(comm_, path_, "writing");
    action();
  } catch (Error const& error) {
    if (error.rule() != "Hdf5Error" && error.rule() != "MpiError") throw;
    fail_output(path_, disk_failure(error.text(), output_ ? output_->temporary() : path_));
  }
}

}  // namespace graticule::detail
