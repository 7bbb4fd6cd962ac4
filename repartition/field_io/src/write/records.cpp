// SPDX-License-Identifier: BSD-3-Clause
// Variables of netCDF-4 files that are extended.
#include "hdf5/hyperslab.hpp"
#include "hdf5/types.hpp"
#include "hdf5_sink.hpp"
#include "new_chunks.hpp"
#include "read/pieces.hpp"

namespace graticule::detail {

std::string Hdf5Sink::refusal(Variable const& variable) const {
  bool const has_type = variable.value_bytes > 0 && variable.type != ValueType::f16 && !variable.is_strings;
  if (has_type) return {};
  return variable.refusal.empty() ? "netCDF has no such type" : variable.refusal;
}

void Hdf5Sink::take_over(Variable const& variable, VariablePlace const& place) {
  auto const spec = VariableSpec::of(variable);
  Target target;
  target.memory_type = memory_type(spec.type, spec.text_bytes);
  target.value_bytes = variable.value_bytes;
  target.has_filters = !variable.filters.empty();
  if (writes())
    target.dataset = h5::Dataset(h5::check(H5Oopen_by_addr(file_->id(), haddr_t(place.address)), "H5Oopen_by_addr"));
  targets_.emplace(variable.name, std::move(target));
}

void Hdf5Sink::reserve_growth(WrittenTable const& table, std::string_view dimension, Index count) {
  Room room;
  run_agreed(comm_, [&] {
    for (auto const& [name, variable] : table.variables) {
      auto more = grown_extents(variable, dimension, count);
      if (more == variable.extents) continue;
      for (int axis = 0; axis < more.size(); ++axis)
        if (more[axis] != variable.extents[axis]) more[axis] = count + variable.chunk[axis];
      room += room_for(targets_.find(name)->second, variable.chunk, more);
    }
  });
  h5::Quiet const quiet;
  reserve(room);
  take_room();
}

void Hdf5Sink::grow(WrittenTable const& table, std::vector<std::string> const& names) {
  h5::Quiet const quiet;
  for (auto const& name : names)
    targets_.find(name)->second.grows_later = !output_ && table.variables.at(name).is_coordinate(name);
  on_disk([&] {
    for (auto const& name : names)
      if (auto& target = targets_.find(name)->second; !target.grows_later) set_extent(table.variables.at(name), target);
  });
}

void Hdf5Sink::set_extent(WrittenVariable const& variable, Target& target) const {
  h5::Space const space(h5::check(H5Dget_space(target.dataset.get()), "H5Dget_space"));
  std::array<hsize_t, max_ndim> before{};
  h5::check(H5Sget_simple_extent_dims(space.get(), before.data(), nullptr), "H5Sget_simple_extent_dims");
  h5::check(H5Dset_extent(target.dataset.get(), sizes_of(variable.extents).data()), "H5Dset_extent");
  Indices old;
  for (int axis = 0; axis < variable.extents.size(); ++axis) old.push_back(Index(before[std::size_t(axis)]));
  allocate_new_chunks(target.dataset, old, variable.extents);
  if (variable.ends_early()) fill_gap(variable, target);
}

void Hdf5Sink::fill_gap(WrittenVariable const& variable, Target const& target) const {
  h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
  h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  bool const supplies = (group_ ? group_->peers() : comm_).rank() == 0;
  auto rest = Box::from_extents(variable.old_extents);
  for (int axis = 0; axis < rest.ndim(); ++axis) {
    auto beyond = rest;
    beyond.set(axis, variable.in_file[axis], rest.hi(axis));
    rest.set(axis, 0, variable.in_file[axis]);
    for (auto const& piece : contiguous_pieces(beyond, variable.chunk, options_.piece_bytes / target.value_bytes)) {
      std::vector<std::byte> values;
      for (Index i = 0; supplies && i < piece.num_cells(); ++i)
        values.insert(values.end(), variable.unwritten.begin(), variable.unwritten.end());
      Turn const turn{piece, *slab_of(&piece)};
      write_turn(target, transfer, supplies ? &turn : nullptr, values.data());
    }
  }
}

void Hdf5Sink::grow_now(WrittenVariable const& variable, Target& target) {
  on_disk([&] {
    file_->flush();
    set_extent(variable, target);
  });
  target.grows_later = false;
}

void Hdf5Sink::declare_fill(WrittenTable const& table) const {
  for (auto const& [name, variable] : table.variables) {
    auto const& target = targets_.find(name)->second;
    if (variable.has_grown() && variable.ends_early() && variable.plan.type != ValueType::text &&
        H5Aexists(target.dataset.get(), "_FillValue") == 0)
      h5::write_attribute(target.dataset.get(), default_fill(variable.plan.type));
  }
}

void Hdf5Sink::extend_bare_scales(WrittenTable const& table) const {
  for (auto const& grown : table.dimensions) {
    auto const found = table.variables.find(grown.name);
    if (!grown.grew || (found != table.variables.end() && found->second.is_coordinate(grown.name))) continue;
    h5::Dataset const bare(h5::check(H5Dopen2(file_->id(), grown.name.c_str(), H5P_DEFAULT), "H5Dopen2"));
    h5::check(H5Dset_extent(bare.get(), sizes_of(Indices{grown.extent}).data()), "H5Dset_extent");
  }
}

}  // namespace graticule::detail
