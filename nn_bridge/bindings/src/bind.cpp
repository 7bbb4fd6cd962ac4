// SPDX-License-Identifier: BSD-3-Clause
// The caller's arrays of a network.
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/process_grid.hpp>
#include <graticule/program/detail/program_access.hpp>

#include "net.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>

namespace graticule::c {

namespace {

constexpr char const* kind_of(Side side) { return side == Side::input ? "input" : "output"; }

bool is_complex(DType type) { return type == DType::c64 || type == DType::c128; }

bool is_complex(program::Dtype type) {
  return type == program::Dtype::complex_f16 || type == program::Dtype::complex_f32 ||
         type == program::Dtype::complex_f64;
}

/// The sizes of a tensor whose first axes hold `num_elements` values; one dynamic size among them follows from that.
Sizes64 sizes_for(Port const& port, std::size_t num_axes, std::int64_t num_elements, std::string const& what) {
  Sizes64 sizes;
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t d = 0; d < num_axes; ++d) {
    auto const& extent = port.meta.sizes[d];
    if (extent.symbolic() && open >= 0)
      throw Error("Unsupported", what + " has more than one dynamic size other than latitude and longitude");
    if (extent.symbolic())
      open = std::ptrdiff_t(d);
    else
      known *= extent.value;
    sizes.push_back(extent.value);
  }
  if (open >= 0 && known > 0 && num_elements % known == 0) {
    sizes[std::size_t(open)] = num_elements / known;
    known = num_elements;
  }
  if (known != num_elements)
    throw bad_argument("fields have " + std::to_string(num_elements) + " values per cell, " + what + " has " +
                       std::to_string(known));
  return sizes;
}

/// This rank's share of the weights of the rows.
torch::Tensor weights_of(Net::Binding const& binding, Box const& box) {
  std::vector<double> own;
  for (Index row = box.lo(0); row < box.hi(0); ++row) own.push_back(binding.weights[row]);
  return torch::tensor(own, torch::kFloat64).reshape({std::int64_t(own.size()), 1});
}

double sum_of(Net::Binding const& binding) {
  double sum = 0;
  for (int row = 0; row < binding.num_rows; ++row) {
    if (!(binding.weights[row] >= 0) || !std::isfinite(binding.weights[row]))
      throw bad_argument("weights[" + std::to_string(row) + "] is " + std::to_string(binding.weights[row]));
    sum += binding.weights[row];
  }
  if (!(sum > 0)) throw bad_argument("weights are all 0");
  return sum;
}

}  // namespace

std::size_t Net::port_of(Side side, char const* name) const {
  auto const& of = ports(side);
  if (name == nullptr) {
    if (of.size() == 1) return 0;
    auto const& all = arrays(bound_, side);
    for (std::size_t p = 0; p < all.size(); ++p)
      if (!all[p].bound()) return p;
    throw bad_argument("name is NULL, and all " + std::to_string(of.size()) + " " + kind_of(side) + "s are bound");
  }
  std::string known;
  for (std::size_t p = 0; p < of.size(); ++p) {
    if (of[p].name == name) return p;
    known += (p > 0 ? ", '" : "'") + of[p].name + "'";
  }
  throw bad_argument("name is '" + std::string(name) + "'; the " + kind_of(side) + "s are " + known);
}

void Net::read_field(Binding const& binding, Port const& port, Read& read) const {
  auto const what = std::string(kind_of(binding.side)) + " '" + port.name + "'";
  if (binding.layout == nullptr) throw bad_argument("layout is NULL, and " + what + " is a field");
  read.layout = layout_of(binding.layout, comm.num_ranks());
  std::size_t const num_axes = port.meta.sizes.size() - 2;
  for (int a = 0; a < 2; ++a) {
    auto const& extent = port.meta.sizes[num_axes + std::size_t(a)];
    if (!extent.symbolic() && extent.value != read.layout->extent(a))
      throw bad_argument("layout has " + std::to_string(read.layout->extent(0)) + " x " +
                         std::to_string(read.layout->extent(1)) + " cells, " + what + " has " +
                         std::to_string(extent.value) + (a == 0 ? " rows" : " columns"));
  }
  if (!is_first(binding.side, read.port) && !bound_.extents)
    throw Error("WrongState", "bind input '" + inputs[first_field_].name + "' first: its rows are those of all fields");
  auto const box = read.layout->owned(comm.rank());
  std::int64_t num_elements = 0;
  for (int f = 0; f < binding.num_fields; ++f) {
    Name const name{"fields", f};
    auto const field = read_element(binding.fields, f, "fields");
    auto const view = cells_of(field, box, comm.rank(), name);
    num_elements += view.num_batch();
    read.arrays.views.push_back(view);
  }
  read.arrays.sizes = sizes_for(port, num_axes, num_elements, what);
  read.arrays.whole = read.arrays.sizes;
  read.arrays.whole.insert(read.arrays.whole.end(), {read.layout->extent(0), read.layout->extent(1)});
  if (binding.weights != nullptr && binding.num_rows != read.layout->extent(0))
    throw bad_argument("num_rows is " + std::to_string(binding.num_rows) + ", the grid has " +
                       std::to_string(read.layout->extent(0)) + " rows");
}

Net::Read Net::read_arguments(Binding const& binding) const {
  require_idle();
  Read read;
  read.port = port_of(binding.side, binding.name);
  auto const& port = ports(binding.side)[read.port];
  auto const what = std::string(kind_of(binding.side)) + " '" + port.name + "'";
  require_count(binding.num_fields, 1, "num_fields");
  require_count(binding.num_rows, 0, "num_rows");
  if (!std::isfinite(binding.scale)) throw bad_argument("scale is " + std::to_string(binding.scale));
  if (binding.side == Side::target && is_complex(port.meta.dtype))
    throw Error("Unsupported", what + " is complex; a loss is of real numbers");
  for (int f = 0; f < binding.num_fields; ++f) {
    auto const field = read_element(binding.fields, f, "fields");
    Name const name{"fields", f};
    auto const type = memory_of(field, name).dtype;
    if (field.space != GR_HOST) throw bad_argument(name + ".space is GR_DEVICE; networks run in host memory");
    if (is_complex(type) != is_complex(port.meta.dtype))
      throw bad_argument(name + ".type is " + to_string(type) + ", " + what + " is " +
                         std::string(program::name(port.meta.dtype)));
  }
  if (port.field) {
    read_field(binding, port, read);
  } else {
    if (binding.layout != nullptr) throw bad_argument("layout is given, and " + what + " is whole on every rank");
    std::int64_t num_elements = 0;
    for (int f = 0; f < binding.num_fields; ++f) {
      auto view = memory_of(read_element(binding.fields, f, "fields"), {"fields", f});
      num_elements += c10::multiply_integers(view.extents.begin(), view.extents.end());
      read.arrays.views.push_back(view);
    }
    if (binding.weights != nullptr) throw bad_argument("weights are given, and " + what + " has no rows");
    read.arrays.sizes = sizes_for(port, port.meta.sizes.size(), num_elements, what);
    read.arrays.whole = read.arrays.sizes;
  }
  read.arrays.scale = binding.scale;
  read.arrays.sum_of_weights = double(c10::multiply_integers(read.arrays.whole));
  if (binding.weights != nullptr) read.arrays.sum_of_weights *= sum_of(binding) / double(binding.num_rows);
  return read;
}

Layout Net::net_layout(Bound const& bound, Indices const& extents) const {
  auto const rows = extents[0] == (*bound.extents)[0] ? Cuts(bound.rows) : balanced_cuts(extents[0], comm.num_ranks());
  return Layout(domain.grid(), {rows, Cuts{extents[1]}});
}

std::shared_ptr<Movement const> Net::movement_for(Layout const& caller, Layout const& net) const {
  for (auto const* const all : {&bound_.inputs, &bound_.outputs, &bound_.targets})
    for (auto const& one : *all)
      if (one.movement != nullptr && one.movement->caller.fingerprint() == caller.fingerprint() &&
          one.movement->net.fingerprint() == net.fingerprint())
        return one.movement;
  return std::make_shared<Movement>(Movement{caller, net, RepartitionPlan(comm, caller, net)});
}

/// The tensor that the network reads, and the weights of its rows.
void Net::complete(Binding const& binding, Read& read) const {
  auto& of = read.arrays;
  if (of.movement != nullptr) {
    auto const box = of.movement->net.owned(comm.rank());
    of.sizes.insert(of.sizes.end(), {box.empty() ? 0 : box.extent(0), of.whole.back()});
    if (binding.weights != nullptr) of.weights = weights_of(binding, box.empty() ? Box({0, 0}, {0, 0}) : box);
  }
  if (binding.side == Side::output) return;
  auto const& port = ports(binding.side)[read.port];
  auto type = program::detail::ProgramAccess::conversion(*program)(port.meta.dtype);
  if (binding.side == Side::target) {
    bool const wide =
        std::any_of(of.views.begin(), of.views.end(), [](auto const& v) { return v.dtype == DType::f64; });
    type = wide || type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  }
  of.tensor = torch::zeros(of.sizes, type);
}

/// Refuses sizes that the network does not take, and divisions that it does not have, before the first run.
void Net::plan_inputs(Bound const& bound) {
  std::vector<Sizes64> whole;
  for (auto const& input : bound.inputs) {
    if (!input.bound()) return;
    whole.push_back(input.whole);
  }
  if (whole == planned_ && bound.rows == planned_rows_) return;
  shards->plan_for(whole, bound.rows);
  planned_ = whole;
  planned_rows_ = bound.rows;
}

void Net::bind(Binding const& binding) {
  auto read = agreed(comm, [&] { return read_arguments(binding); });
  Hash hash;
  hash.add(int(binding.side)).add(int(read.port)).add(read.arrays.whole).add(binding.num_rows);
  hash.add(read.layout ? read.layout->fingerprint() : 0).add(binding.scale).add(read.arrays.sum_of_weights);
  require_same(comm, "ArgumentDisagreement", hash.value(),
               std::string(kind_of(binding.side)) + " '" + ports(binding.side)[read.port].name + "' of the sizes " +
                   c10::str(at::IntArrayRef(read.arrays.whole)) + (read.layout ? ", " + to_string(*read.layout) : ""));
  auto bound = bound_;
  if (read.layout) {
    auto const extents = read.layout->global().hi();
    if (is_first(binding.side, read.port) && bound.extents != extents) {
      for (auto* const all : {&bound.inputs, &bound.outputs, &bound.targets})
        for (auto& one : *all) one = Arrays();
      bound.extents = extents;
      bound.rows = bands(*read.layout, comm.num_ranks()).value_or(balanced_cuts(extents[0], comm.num_ranks()).sizes());
    }
    read.arrays.movement = movement_for(*read.layout, net_layout(bound, extents));
  }
  complete(binding, read);
  arrays(bound, binding.side)[read.port] = std::move(read.arrays);
  plan_inputs(bound);
  bound_ = std::move(bound);
}

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

gr_status gr_net_bind_input(gr_net* net, char const* name, gr_layout const* layout, int num_fields,
                            gr_field const* fields) {
  return GR_TORCH_BODY({ required(net, "net").net->bind({Side::input, name, layout, num_fields, fields}); });
}

gr_status gr_net_bind_output(gr_net* net, char const* name, gr_layout const* layout, int num_fields,
                             gr_field const* fields) {
  return GR_TORCH_BODY({ required(net, "net").net->bind({Side::output, name, layout, num_fields, fields}); });
}

gr_status gr_net_bind_target(gr_net* net, char const* name, gr_layout const* layout, int num_fields,
                             gr_field const* fields, double scale, int num_rows, double const* weights) {
  return GR_TORCH_BODY({
    required(net, "net")
        .net->bind({Side::target, name, layout, num_fields, fields, scale, weights != nullptr ? num_rows : 0, weights});
  });
}
