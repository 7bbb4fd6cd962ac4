// SPDX-License-Identifier: BSD-3-Clause
#include "agreement.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <sstream>

namespace graticule::nn::detail {

namespace {

/// Positions in the all-reduce of maxima; a value and its negative find out whether all ranks have the same.
enum Slot : std::size_t {
  failed,
  changed,
  unchanged,
  requires_grad,
  grad_mode_on,
  grad_mode_off,
  order,
  minus_order,
  common,
  minus_common,
  num_slots
};

Index short_hash(Hash const& hash) { return Index(hash.value() >> 2U); }

std::vector<Index> structure_of(torch::Tensor const& x) {
  std::vector<Index> values;
  if (!x.defined()) return values;
  for (auto const size : x.sizes()) values.push_back(size);
  values.push_back(Index(x.scalar_type()));
  values.push_back(Index(x.device().type()));
  return values;
}

std::string described(torch::Tensor const& x) {
  if (!x.defined()) return "no tensor";
  std::ostringstream text;
  text << "a tensor " << x.sizes() << " of " << x.scalar_type();
  return text.str();
}

/// One rank with and one without `flag`, each with its text, for a message. Collective.
std::string both_sides(Comm const& comm, bool flag, std::string const& text) {
  std::array<Index, 2> first{flag ? Index(comm.num_ranks() - comm.rank()) : 0,
                             flag ? 0 : Index(comm.num_ranks() - comm.rank())};
  comm.max(first);
  int const with = comm.num_ranks() - int(first[0]);
  int const without = comm.num_ranks() - int(first[1]);
  return "rank " + std::to_string(with) + " has " + comm.broadcast(text, with) + ", rank " + std::to_string(without) +
         " has " + comm.broadcast(text, without);
}

}  // namespace

Agreement::Agreement(Domain domain, std::string layer)
    : domain_(std::move(domain)), layer_(std::move(layer)), ordinal_(domain_.next_ordinal()) {}

Agreed Agreement::agree(torch::Tensor const& x, std::function<void()> const& check) {
  std::exception_ptr failure;
  try {
    check();
  } catch (...) {
    failure = std::current_exception();
  }
  auto const& comm = domain_.comm();
  auto structure = structure_of(x);
  bool const grad_mode = torch::GradMode::is_enabled();
  bool const own_change = !known_ || *known_ != structure;
  bool const own_grad = grad_mode && x.defined() && x.requires_grad();
  ++call_;
  if (comm.num_ranks() == 1) {
    if (failure) std::rethrow_exception(failure);
    known_ = std::move(structure);
    return {own_change, own_grad};
  }

  Hash order_hash;
  order_hash.add(ordinal_).add(call_);
  Hash common_hash;
  common_hash.add(structure.size());
  for (std::size_t i = 0; i < structure.size(); ++i) {
    auto const ndim = std::size_t(x.dim());
    bool const sharded = i + 2 >= ndim && i < ndim;
    if (!sharded) common_hash.add(structure[i]);
  }
  std::array<Index, num_slots> slots{};
  slots[failed] = failure ? 1 : 0;
  slots[changed] = own_change ? 1 : 0;
  slots[unchanged] = own_change ? 0 : 1;
  slots[requires_grad] = own_grad ? 1 : 0;
  slots[grad_mode_on] = grad_mode ? 1 : 0;
  slots[grad_mode_off] = grad_mode ? 0 : 1;
  slots[order] = short_hash(order_hash);
  slots[minus_order] = -slots[order];
  slots[common] = failure ? 0 : short_hash(common_hash);
  slots[minus_common] = -slots[common];
  auto const own_order = slots[order];
  comm.max(slots);

  if (slots[order] != -slots[minus_order])
    throw Error("CallOrderDisagreement", both_sides(comm, own_order == slots[order],
                                                    "call " + std::to_string(call_) + " of layer " +
                                                        std::to_string(ordinal_) + " (" + layer_ + ")"));
  if (slots[failed]) graticule::agree(comm, failure);
  if (slots[grad_mode_on] && slots[grad_mode_off])
    throw Error("GradModeDisagreement",
                layer_ + ": " + both_sides(comm, grad_mode, grad_mode ? "grad mode on" : "grad mode off"));
  if (slots[common] != -slots[minus_common])
    throw Error("StructureDisagreement", layer_ + ": all axes but the last two must be equal; " +
                                             both_sides(comm, short_hash(common_hash) == slots[common], described(x)));
  if (slots[changed] && slots[unchanged])
    throw Error("StructureDisagreement",
                layer_ + ": the shard changed on some ranks only; " +
                    both_sides(comm, own_change, described(x) + (own_change ? " (new)" : " (as before)")) +
                    "; call reset_structure() on all ranks when the cuts are new");
  known_ = std::move(structure);
  return {slots[changed] != 0, slots[requires_grad] != 0};
}

Layout Agreement::gather_layout(torch::Tensor const& x) const {
  auto const& comm = domain_.comm();
  auto const& grid = domain_.grid();
  auto const rows = comm.gather_to_all(x.size(-2));
  auto const columns = comm.gather_to_all(x.size(-1));
  std::vector<Index> row_sizes(std::size_t(grid.extent(0)), -1);
  std::vector<Index> column_sizes(std::size_t(grid.extent(1)), -1);
  for (int r = 0; r < comm.num_ranks(); ++r) {
    auto const coords = grid.coords(r);
    auto const take = [&](Index& expected, Index found, char const* what, Index part) {
      if (expected == -1) expected = found;
      if (expected != found)
        throw Error("NotTensorProduct", layer_ + ": rank " + std::to_string(r) + " has " + std::to_string(found) + " " +
                                            what + ", other ranks of part " + std::to_string(part) + " have " +
                                            std::to_string(expected));
    };
    take(row_sizes[std::size_t(coords[0])], rows[std::size_t(r)], "rows", coords[0]);
    take(column_sizes[std::size_t(coords[1])], columns[std::size_t(r)], "columns", coords[1]);
  }
  return Layout(grid, {Cuts(row_sizes), Cuts(column_sizes)});
}

torch::Tensor anchor(bool requires_grad, torch::TensorOptions const& options) {
  auto const real =
      torch::isFloatingType(c10::typeMetaToScalarType(options.dtype())) ? options : options.dtype(torch::kFloat);
  return torch::zeros({}, real.requires_grad(requires_grad));
}

}  // namespace graticule::nn::detail
