// SPDX-License-Identifier: BSD-3-Clause
// Stands for an application: makes plans, uses each once, and prints what rank by rank it has moved:
// messages, bytes, local bytes. With GRATICULE_DUMP set, the plans are left in files.
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <cstdio>
#include <vector>

using namespace graticule;

namespace {

void print(Comm const& comm, PullPlan const& plan) {
  auto const stats = plan.stats();
  auto const messages = comm.gather_to_all(stats.point_to_point.num_messages + stats.node_packed.num_messages);
  auto const bytes = comm.gather_to_all(stats.point_to_point.bytes + stats.node_packed.bytes);
  auto const local = comm.gather_to_all(stats.local_bytes);
  if (comm.rank() != 0) return;
  for (std::size_t r = 0; r < bytes.size(); ++r)
    std::printf("%016llx %zu %lld %lld %lld\n", static_cast<unsigned long long>(plan.fingerprint()), r,
                static_cast<long long>(messages[r]), static_cast<long long>(bytes[r]),
                static_cast<long long>(local[r]));
}

/// Memory for `batch` numbers in each cell of a box.
template <class T>
struct Field {
  Indices extents;
  std::vector<T> values;

  Field(Box const& box, Index batch) : extents{batch} {
    for (Index const extent : box.extents()) extents.push_back(extent);
    values.resize(std::size_t(batch * box.num_cells()), T(1));
  }
  [[nodiscard]] FieldView view() { return field_view(values.data(), extents, extents.size() - 1); }
};

/// Poles in two kinds of fields, more ranks than rows, and halos deeper than a neighbor.
void exchange(Comm const& comm, Boundary const& rules, Indices const& extents) {
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, extents);
  HaloPlan const plan(comm, layout,
                      {HaloKind{{{2, 1}, {1, 3}}, rules},
                       HaloKind{{{1, 1}, {2, 0}}, rules.staggered({Stagger::high_face, Stagger::centre})}});
  Field<float> scalar(plan.local(0), 3);
  Field<std::int16_t> vector(plan.local(1), 2);
  plan.exchange(HaloField{scalar.view()}, HaloField{vector.view(), Parity::odd, 1});
  print(comm, plan.pull_plan());
}

void repartition(Comm const& comm) {
  Layout const rows(ProcessGrid{comm.num_ranks(), 1, 1}, {7, 12, 2});
  Layout const columns(ProcessGrid{comm.num_ranks(), 1, 1}, {12, 2, 7});
  RepartitionPlan const plan(comm, rows, columns, {.permutation = {1, 2, 0}});
  Field<double> from(plan.source_box(), 1);
  Field<double> to(plan.target_box(), 1);
  plan.apply(from.view(), to.view());
  print(comm, plan.pull_plan());
}

/// Signs, constants, cells that are left alone, and no call.
void edges(Comm const& comm) {
  Layout const layout(ProcessGrid{1, comm.num_ranks()}, {5, 9});
  AxisBoundary const fixed{.lower = Edge::antisymmetric, .upper = Edge::constant, .constant = -0.1};
  AxisBoundary const open{.lower = Edge::replicate, .upper = Edge::untouched};
  HaloPlan const plan(comm, layout, {{3, 2}, {4, 5}}, Boundary{{fixed, open}});
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  exchange(comm, Boundary::sphere(Edge::pole_face), {8, 12});
  exchange(comm, Boundary::sphere(Edge::pole_row), {2, 6});
  exchange(comm, Boundary::tripolar(Edge::replicate, Edge::tripolar_row), {8, 12});
  repartition(comm);
  edges(comm);
  return 0;
}
