// SPDX-License-Identifier: BSD-3-Clause
// Cells on their way to the file.
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/failure.hpp>

#include "dense.hpp"
#include "hdf5/elements.hpp"
#include "hdf5/hyperslab.hpp"
#include "read/view_part.hpp"
#include "state.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace graticule {

void FieldWriter::State::check_box(std::string_view name, Target const& target, Box const& box, std::size_t given,
                                   Index per_cell) const {
  if (box.ndim() != target.extents.size() || !Box::from_extents(target.extents).contains(box))
    throw Error("OutOfRange", "the cells must lie in " + std::string(name) + " " + to_string(target.extents) +
                                  ", got " + to_string(box));
  if (Index(given) != box.num_cells() * per_cell)
    throw Error("ShapeMismatch", std::string("the ") + std::to_string(box.num_cells()) + " cells of " + to_string(box) +
                                     " need as many " +
                                     (per_cell == 1 ? "values" : "values of " + std::to_string(per_cell) + " bytes") +
                                     ", got " + std::to_string(given) + (per_cell == 1 ? "" : " bytes"));
}

void FieldWriter::State::require_new(std::string_view name, Target const& target, Box const& box) {
  if (box.empty() || target.old_extents.size() == 0) return;
  if (!intersection(box, Box::from_extents(target.old_extents)).empty())
    throw Error("OutOfRange", to_string(box) + " of " + std::string(name) + to_string(target.extents) +
                                  " contains cells of earlier records: " + to_string(target.old_extents));
}

auto FieldWriter::State::agreed_target(std::string_view name) -> Target& {
  require_same(comm, "ArgumentDisagreement", Hash().add(name).value(), "variable " + std::string(name));
  return target_of(name);
}

namespace {

/// Adds along each axis the places of cells, and their squares, in a range in which those of all ranks can be added.
void add_places(std::vector<std::uint64_t>& sums, detail::Slab const& slab, std::uint64_t factor) {
  constexpr std::uint64_t most = (std::uint64_t(1) << 40U) - 1;
  int const ndim = slab.counts.size();
  sums.resize(2 * std::size_t(ndim));
  for (int a = 0; a < ndim; ++a) {
    std::uint64_t others = factor;
    for (int b = 0; b < ndim; ++b)
      if (b != a) others *= std::uint64_t(slab.counts[b]);
    for (Index k = 0; k < slab.counts[a]; ++k) {
      auto const place = std::uint64_t(slab.start[a] + k * slab.steps[a]);
      sums[2 * std::size_t(a)] += others * place;
      sums[2 * std::size_t(a) + 1] += others * place * place;
    }
  }
  for (auto& sum : sums) sum &= most;
}

}  // namespace

void FieldWriter::State::write_supply(std::string_view name, Target& target,
                                      std::function<detail::Supply()> const& prepare, detail::FetchCells const& fetch) {
  detail::Supply supply;
  run_agreed(comm, [&] { supply = prepare(); });
  sink->write(std::string(name), target, supply, fetch);
  target.num_written += supply.cells.num_cells();
  add_places(target.places, supply.slab, 1);
}

detail::Supply FieldWriter::State::supply(Target const& target, Box const& box) const {
  return {box, *detail::slab_of(&box), target.chunk, options.piece_bytes / target.value_bytes};
}

void const* FieldWriter::State::dense(Box const& box, Box const& cells, Index value_bytes, void const* values,
                                      std::vector<std::byte>& staging) {
  if (auto const run = detail::run_in(box, cells)) return static_cast<std::byte const*>(values) + *run * value_bytes;
  staging.resize(std::size_t(cells.num_cells() * value_bytes));
  detail::copy_out(box, cells, value_bytes, values, staging.data());
  return staging.data();
}

void FieldWriter::State::require_numbers(std::string_view name, Target const& target) {
  if (target.plan.type == ValueType::text)
    throw Error("WrongType", "variable " + std::string(name) + " holds text; numbers cannot be written to it");
}

template <class Value>
void FieldWriter::State::write(std::string_view name, Box const& box, std::span<Value const> values) {
  auto& target = agreed_target(name);
  auto const dtype = dtype_of<Value>();
  bool const same = detail::is_same(target.plan, dtype);
  std::vector<std::byte> elements;
  std::vector<std::byte> staging;
  auto const prepare = [&] {
    require_numbers(name, target);
    check_box(name, target, box, values.size(), 1);
    require_new(name, target, box);
    return supply(target, box);
  };
  write_supply(name, target, prepare, [&](Box const& cells) {
    auto const* const found = dense(box, cells, sizeof(Value), values.data(), elements);
    return same ? found : packed(target, dtype, found, cells, staging);
  });
}

void const* FieldWriter::State::packed(Target const& target, DType dtype, void const* elements, Box const& cells,
                                       std::vector<std::byte>& staging) {
  auto const count = std::size_t(cells.num_cells());
  staging.resize(count * std::size_t(target.value_bytes));
  detail::pack_elements(target.plan, dtype, elements, count, staging.data());
  return staging.data();
}

void FieldWriter::State::write(std::string_view name, FileSelection const& selection, FieldView const& field) {
  auto& target = agreed_target(name);
  bool const same = detail::is_same(target.plan, field.dtype);
  auto const size = size_of(field.dtype);
  detail::ViewPart part;
  bool is_dense = false;
  std::vector<std::byte> elements;
  std::vector<std::byte> staging;
  auto const prepare = [&]() -> detail::Supply {
    require_numbers(name, target);
    part = detail::view_part(std::string(name) + to_string(target.extents), target.extents, selection, field);
    require_new(name, target, selection.box);
    is_dense = part.is_dense();
    return {part.cells, part.slab, detail::chunk_for(part, target.chunk),
            options.piece_bytes / (target.value_bytes + (same ? 0 : size))};
  };
  write_supply(name, target, prepare, [&](Box const& cells) -> void const* {
    void const* found = nullptr;
    if (is_dense) {
      found = dense(part.cells, cells, size, part.first, elements);
    } else {
      elements.resize(std::size_t(cells.num_cells() * size));
      part.gather(cells, elements.data());
      found = elements.data();
    }
    return same ? found : packed(target, field.dtype, found, cells, staging);
  });
}

void FieldWriter::State::write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes) {
  auto& target = agreed_target(name);
  std::vector<std::byte> staging;
  auto const prepare = [&] {
    check_box(name, target, box, bytes.size(), target.value_bytes);
    require_new(name, target, box);
    return supply(target, box);
  };
  write_supply(name, target, prepare,
               [&](Box const& cells) { return dense(box, cells, target.value_bytes, bytes.data(), staging); });
}

Index FieldWriter::State::num_new_cells(Target const& target) {
  Index const all = Box::from_extents(target.extents).num_cells();
  if (target.extents == target.old_extents) return 0;
  return all - (target.old_extents.size() > 0 ? Box::from_extents(target.old_extents).num_cells() : 0);
}

void FieldWriter::State::require_all_written() const {
  std::vector<Index> counts;
  for (auto const& [name, target] : table.variables) {
    counts.push_back(target.num_written);
    auto places = target.places;  // none on a rank that has written nothing
    places.resize(2 * std::size_t(target.extents.size()));
    for (auto const sum : places) counts.push_back(Index(sum));
  }
  comm.sum(std::span<Index>(counts));
  std::size_t i = 0;
  for (auto const& [name, target] : table.variables) {
    Index const expected = num_new_cells(target);
    Index const found = counts[i++];
    if (found < expected)
      throw Error("WrongState", std::to_string(found) + " of the " + std::to_string(expected) + " cells of variable " +
                                    name + " were written");
    // Twice the same cells leave others out. What was written and all that there is count in opposite directions.
    std::vector<std::uint64_t> missing(2 * std::size_t(target.extents.size()));
    for (auto& sum : missing) sum = std::uint64_t(counts[i++]);
    auto const all = Box::from_extents(target.extents);
    add_places(missing, *detail::slab_of(&all), ~std::uint64_t(0));
    if (auto const old = Box::from_extents(target.old_extents); old.ndim() > 0)
      add_places(missing, *detail::slab_of(&old), 1);
    if (found == expected && std::any_of(missing.begin(), missing.end(), [](auto sum) { return sum != 0; }))
      throw Error("WrongState", "some cells of variable " + name + " were written more than once, others not at all");
  }
}

template void FieldWriter::State::write<float>(std::string_view, Box const&, std::span<float const>);
template void FieldWriter::State::write<double>(std::string_view, Box const&, std::span<double const>);

}  // namespace graticule
