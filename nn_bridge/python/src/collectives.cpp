// SPDX-License-Identifier: BSD-3-Clause
// Collective operations with exact adjoints, over the ranks of a domain.
#include <graticule/nn_bridge/collective/collectives.hpp>

#include "module.hpp"
#include "reader.hpp"

namespace graticule::python {

namespace {

/// Ranks agree on an unknown name as on all other arguments.
nn::Consumer consumer_of(std::string const& name) {
  if (name == "replicated") return nn::Consumer::replicated;
  if (name == "distinct") return nn::Consumer::distinct;
  throw Error("BadOption", "consumer = '" + name + "' is none of 'distinct', 'replicated'");
}

Cuts cuts_or_balanced(std::optional<Integers> const& sizes, torch::Tensor const& x, std::int64_t axis,
                      nn::Domain const& domain) {
  if (sizes) return cuts_of(*sizes);
  return balanced_cuts(x.size(axis), domain.comm().num_ranks());
}

}  // namespace

void define_collectives(py::module_& m) {
  using nn::Domain;
  using torch::Tensor;
  m.def(
      "all_sum", [](Tensor const& x, Domain const& d) { return nn::all_sum(x, d.comm()); }, ReleaseGil());
  m.def(
      "copy_to_region", [](Tensor const& x, Domain const& d) { return nn::copy_to_region(x, d.comm()); }, ReleaseGil());
  m.def(
      "broadcast",
      [](std::optional<Tensor> const& x, int root, Domain const& d) {
        return nn::broadcast(x.value_or(Tensor()), root, d.comm());
      },
      ReleaseGil());
  m.def(
      "sum_to_root", [](Tensor const& x, int root, Domain const& d) { return nn::sum_to_root(x, root, d.comm()); },
      ReleaseGil());
  m.def(
      "gather",
      [](Tensor const& x, std::int64_t axis, Domain const& d, std::string const& consumer) {
        return nn::gather(x, axis, d.comm(), consumer_of(consumer));
      },
      ReleaseGil());
  m.def(
      "scatter",
      [](Tensor const& x, std::int64_t axis, Domain const& d, std::optional<Integers> const& cuts) {
        return nn::scatter(x, axis, cuts_or_balanced(cuts, x, axis, d), d.comm());
      },
      ReleaseGil());
  m.def(
      "reduce_scatter",
      [](Tensor const& x, std::int64_t axis, Domain const& d, std::optional<Integers> const& cuts) {
        return nn::reduce_scatter(x, axis, cuts_or_balanced(cuts, x, axis, d), d.comm());
      },
      ReleaseGil());
  m.def(
      "all_to_all",
      [](Tensor const& x, std::int64_t split_axis, std::int64_t join_axis, Domain const& d,
         std::optional<Integers> const& cuts) {
        return nn::all_to_all(x, split_axis, join_axis, cuts_or_balanced(cuts, x, split_axis, d), d.comm());
      },
      ReleaseGil());
  m.def(
      "gather_to_root",
      [](Tensor const& x, std::int64_t axis, int root, Domain const& d) {
        return nn::gather_to_root(x, axis, root, d.comm());
      },
      ReleaseGil());
  m.def(
      "scatter_from_root",
      [](std::optional<Tensor> const& x, std::int64_t axis, Integers const& cuts, int root, Domain const& d) {
        return nn::scatter_from_root(x.value_or(Tensor()), axis, cuts_of(cuts), root, d.comm());
      },
      ReleaseGil());
}

}  // namespace graticule::python
