// SPDX-License-Identifier: BSD-3-Clause
// Existing files, and the variables that are extended.
#include "hdf5/hyperslab.hpp"
#include "hdf5/types.hpp"
#include "new_chunks.hpp"
#include "read/pieces.hpp"
#include "state.hpp"

#include <algorithm>

namespace graticule {

Index num_complete_records(FileContents const& contents, std::string_view dimension) {
  auto const found = std::find_if(contents.dimensions.begin(), contents.dimensions.end(),
                                  [&](auto const& one) { return one.name == dimension; });
  if (found == contents.dimensions.end())
    throw Error("MissingVariable", contents.path.string() + " has no dimension '" + std::string(dimension) + "'");
  auto const* coordinate = contents.find(dimension);
  bool const has_coordinate =
      coordinate != nullptr && coordinate->ndim() > 0 && coordinate->dimensions.front() == dimension;
  return has_coordinate ? coordinate->stored_extents[0] : found->extent;
}

FieldWriter::State::State(Comm const& on, detail::Catalogue const& catalogue, std::optional<detail::OutputFile> copy,
                          FieldWriterOptions const& chosen, detail::FileStamp const& seen)
    : comm(on), path(catalogue.contents.path), options(chosen), output(std::move(copy)), appends(true) {
  if (options.writers_per_node > 0) group.emplace(on, options.writers_per_node);
  auto const opened = output ? output->temporary() : path;
  run_agreed(on, [&] {
    if (on.rank() != 0) return;
    if (!output) undo.emplace(path, catalogue.unchanged, seen);
    disk = detail::open_to_write(opened);
    reserved = Index(std::filesystem::file_size(opened));
  });
  on.broadcast(&reserved, sizeof reserved, 0);
  taken = reserved;
  run_agreed(on, [&] {
    if (writes()) file.emplace(detail::ParallelFile::open_to_write(group ? group->peers() : on, opened));
    for (auto const& one : catalogue.contents.dimensions)
      dimensions.push_back({one.name, num_complete_records(catalogue.contents, one.name), one.is_unlimited});
    for (std::size_t i = 0; i < catalogue.places.size(); ++i)
      take_over(catalogue.contents.variables[i], catalogue.places[i].address);
  });
}

FieldWriter::State::State(Comm const& on, detail::Catalogue const& catalogue, detail::zarr::StoreWriter opened,
                          FieldWriterOptions const& chosen)
    : comm(on), path(catalogue.contents.path), options(chosen), store(std::move(opened)), appends(true) {
  // Any dimension of a store can grow.
  for (auto const& one : catalogue.contents.dimensions) dimensions.push_back({one.name, one.extent, true});
  for (auto variable : catalogue.contents.variables) {
    if (variable.refusal.empty() || variable.type == ValueType::text) variable.refusal = store->refusal(variable.name);
    take_over(variable, 0);
  }
}

void FieldWriter::State::take_over(Variable const& variable, std::uint64_t address) {
  bool const is_refused = store && !variable.refusal.empty();
  if (is_refused || variable.value_bytes == 0 || variable.type == ValueType::f16 || variable.is_strings)
    return unwritable.push_back(variable);
  auto const spec = VariableSpec::of(variable);
  Target target;
  target.dimensions = variable.dimensions;
  target.extents = variable.extents;
  for (int axis = 0; axis < variable.ndim(); ++axis)
    if (auto const& name = variable.dimensions[std::size_t(axis)]; has_dimension(name) && dimension(name).is_unlimited)
      target.extents[axis] = dimension(name).extent;
  target.old_extents = target.extents;
  target.in_file = variable.stored_extents;
  for (int axis = 0; axis < variable.ndim(); ++axis)
    target.in_file[axis] = std::min(target.in_file[axis], target.old_extents[axis]);
  target.unwritten = detail::unwritten_value(variable);
  target.chunk = variable.chunk;
  target.has_filters = !variable.filters.empty();
  target.plan = detail::packing_plan_of(spec);
  target.value_bytes = variable.value_bytes;
  if (store) {
    target.array = store->place_of(variable.name);
  } else {
    target.memory_type = detail::memory_type(spec.type, spec.text_bytes);
    if (writes())
      target.dataset = h5::Dataset(h5::check(H5Oopen_by_addr(file->id(), haddr_t(address)), "H5Oopen_by_addr"));
  }
  targets.emplace(variable.name, std::move(target));
}

void FieldWriter::State::require_growing(std::string_view name, Index count) const {
  auto const& grown = dimension(name);
  if (!grown.is_unlimited || count < 1)
    throw Error("BadOption", std::to_string(count) + " additional cells of the " +
                                 (grown.is_unlimited ? "unlimited" : "fixed") + " dimension " + grown.name);
  for (auto const& variable : unwritable)
    if (variable.axis(name) >= 0)
      throw Error(Fault::input, "UnreadableVariable",
                  "variable " + to_string(variable) + " of " + path.string() + " cannot be appended to: " +
                      (variable.refusal.empty() ? "netCDF has no such type" : variable.refusal));
}

Indices FieldWriter::State::grown_extents(Target const& target, std::string_view dimension_name, Index count) {
  auto extents = target.extents;
  for (int axis = 0; axis < extents.size(); ++axis)
    if (target.dimensions[std::size_t(axis)] == dimension_name) extents[axis] += count;
  return extents;
}

void FieldWriter::State::extend(std::string_view name, Index count) {
  Room room;
  run_agreed(comm, [&] {
    require_growing(name, count);
    if (store) return;
    for (auto const& [target_name, target] : targets) {
      auto more = grown_extents(target, name, count);
      if (more == target.extents) continue;
      for (int axis = 0; axis < more.size(); ++axis)
        if (more[axis] != target.extents[axis]) more[axis] = count + target.chunk[axis];
      room += room_for(target, more);
    }
  });
  if (!store) {
    reserve(room);
    take_room();
  }
  auto& grown = dimensions[place_of(name)];
  grown.extent += count;
  grown.grew = true;
  std::vector<Target*> longer;
  for (auto& [target_name, target] : targets) {
    auto const extents = grown_extents(target, name, count);
    if (extents == target.extents) continue;
    target.extents = extents;
    if (store) {
      store->set_extents(target.array, extents);
      continue;
    }
    target.grows_later = !output && is_coordinate(target_name, target);
    if (!target.grows_later) longer.push_back(&target);
  }
  if (store) return;
  on_disk([&] {
    for (auto* target : longer) set_extent(*target);
  });
}

void FieldWriter::State::set_extent(Target& target) const {
  h5::Space const space(h5::check(H5Dget_space(target.dataset.get()), "H5Dget_space"));
  std::array<hsize_t, max_ndim> before{};
  h5::check(H5Sget_simple_extent_dims(space.get(), before.data(), nullptr), "H5Sget_simple_extent_dims");
  h5::check(H5Dset_extent(target.dataset.get(), detail::sizes_of(target.extents).data()), "H5Dset_extent");
  Indices old;
  for (int axis = 0; axis < target.extents.size(); ++axis) old.push_back(Index(before[std::size_t(axis)]));
  detail::allocate_new_chunks(target.dataset, old, target.extents);
  if (target.ends_early()) fill_gap(target);
}

void FieldWriter::State::fill_gap(Target const& target) const {
  h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
  h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  bool const supplies = (group ? group->peers() : comm).rank() == 0;
  auto rest = Box::from_extents(target.old_extents);
  for (int axis = 0; axis < rest.ndim(); ++axis) {
    auto beyond = rest;
    beyond.set(axis, target.in_file[axis], rest.hi(axis));
    rest.set(axis, 0, target.in_file[axis]);
    for (auto const& piece :
         detail::contiguous_pieces(beyond, target.chunk, options.piece_bytes / target.value_bytes)) {
      std::vector<std::byte> values;
      for (Index i = 0; supplies && i < piece.num_cells(); ++i)
        values.insert(values.end(), target.unwritten.begin(), target.unwritten.end());
      detail::Turn const turn{piece, *detail::slab_of(&piece)};
      write_turn(target, transfer, supplies ? &turn : nullptr, values.data());
    }
  }
}

void FieldWriter::State::grow_now(Target& target) {
  on_disk([&] {
    file->flush();
    set_extent(target);
  });
  target.grows_later = false;
}

void FieldWriter::State::declare_fill() const {
  for (auto const& [name, target] : targets)
    if (target.has_grown() && target.ends_early() && target.plan.type != ValueType::text &&
        H5Aexists(target.dataset.get(), "_FillValue") == 0)
      h5::write_attribute(target.dataset.get(), detail::default_fill(target.plan.type));
}

void FieldWriter::State::extend_bare_scales() const {
  for (auto const& grown : dimensions) {
    auto const found = targets.find(grown.name);
    if (!grown.grew || (found != targets.end() && is_coordinate(grown.name, found->second))) continue;
    h5::Dataset const bare(h5::check(H5Dopen2(file->id(), grown.name.c_str(), H5P_DEFAULT), "H5Dopen2"));
    h5::check(H5Dset_extent(bare.get(), detail::sizes_of(Indices{grown.extent}).data()), "H5Dset_extent");
  }
}

void FieldWriter::State::give_back() noexcept {
  if (!file || !file->meets_others()) return;
  try {
    targets.clear();
    file->close();
    if (file->meets_others() && undo) undo->restore();
  } catch (...) {
    // The undo file stays.
  }
}

}  // namespace graticule
