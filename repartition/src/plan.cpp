// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/hash.hpp>
#include <graticule/repartition/plan.hpp>

namespace graticule {

namespace {

Indices or_identity(Indices const& permutation, int ndim) {
  if (permutation.size() != 0) return permutation;
  Indices identity;
  for (int a = 0; a < ndim; ++a) identity.push_back(a);
  return identity;
}

PullDescription describe(Comm const& comm, Layout const& from, Layout const& to, Indices const& given) {
  Indices const permutation = or_identity(given, from.ndim());
  if (to.ndim() != from.ndim() || permutation.size() != from.ndim())
    throw Error("LayoutMismatch",
                "from " + to_string(from) + " to " + to_string(to) + " with axes " + to_string(permutation));
  auto map = permutation_map(permutation);
  for (int a = 0; a < to.ndim(); ++a)
    if (to.extent(a) != from.extent(int(permutation[a])))
      throw Error("LayoutMismatch", "axis " + std::to_string(a) + " of the new layout has " +
                                        std::to_string(to.extent(a)) + " cells, axis " +
                                        std::to_string(permutation[a]) + " of the old one " +
                                        std::to_string(from.extent(int(permutation[a]))));
  for (auto const* layout : {&from, &to})
    if (layout->num_ranks() > comm.num_ranks())
      throw Error("TooFewRanks", "a layout of " + std::to_string(layout->num_ranks()) + " ranks on " +
                                     std::to_string(comm.num_ranks()));
  Box const target = to.owned(comm.rank());
  Hash hash;
  hash.add(to.fingerprint()).add(permutation);
  return {
      from, {{from.owned(comm.rank()), {Target{target, {target}}}, std::move(map)}}, hash.value(), AfterAdjoint::keep};
}

PullDescription describe_agreed(Comm const& comm, Layout const& from, Layout const& to, Indices const& permutation) {
  PullDescription result{from, {}, 0, AfterAdjoint::keep};
  run_agreed(comm, [&] { result = describe(comm, from, to, permutation); });
  return result;
}

}  // namespace

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to, Indices const& permutation)
    : source_box_(from.owned(comm.rank())),
      target_box_(to.owned(comm.rank())),
      plan_(comm, describe_agreed(comm, from, to, permutation)) {}

Pending RepartitionPlan::start(FieldView const& from, FieldView const& to) const {
  PullField const field{from, std::span(&to, 1), Parity::even};
  return plan_.start(std::span(&field, 1));
}

Pending RepartitionPlan::start_adjoint(FieldView const& from, FieldView const& to) const {
  PullField const field{from, std::span(&to, 1), Parity::even};
  return plan_.start_adjoint(std::span(&field, 1));
}

}  // namespace graticule
