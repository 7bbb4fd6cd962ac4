// SPDX-License-Identifier: BSD-3-Clause
// Domains, and fields cut over them.
#include <graticule/halo/detail/edges.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/failure.hpp>

#include "module.hpp"
#include "reader.hpp"

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace graticule::python {

namespace {

/// Names as `to_string(Edge)` has them. @throws `BadBoundary`
Edge edge_of(std::string const& name) {
  for (Edge const edge : graticule::detail::enum_values<Edge>)
    if (graticule::detail::enum_name(edge) == name) return edge;
  throw Error("BadBoundary", "'" + name + "' is none of '" + graticule::detail::enum_names<Edge>("', '") + "'");
}

using Edges = std::array<std::string, 2>;

Boundary boundary_of(Edges const& latitude, Edges const& longitude, double constant, bool odd_longitudes) {
  auto boundary = Boundary::uniform(2, Edge::constant);
  Edges const* const sides[] = {&latitude, &longitude};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    boundary.axes[axis].lower = edge_of((*sides[axis])[0]);
    boundary.axes[axis].upper = edge_of((*sides[axis])[1]);
    boundary.axes[axis].constant = constant;
  }
  if (is_fold(boundary.axes[0].lower) || is_fold(boundary.axes[0].upper)) boundary.longitude_axis = 1;
  if (odd_longitudes) boundary.odd_longitudes = OddLongitudes::shift_floor;
  return boundary;
}

nn::Domain make_domain(std::int64_t comm_handle, int rows, int columns, Edges const& latitude, Edges const& longitude,
                       double constant, bool odd_longitudes) {
  auto const comm = comm_of(comm_handle);
  std::optional<Boundary> boundary;
  run_agreed(comm, [&] { boundary = boundary_of(latitude, longitude, constant, odd_longitudes); });
  auto const grid = rows < 1 && columns < 1 ? ProcessGrid{comm.num_ranks(), 1} : ProcessGrid{rows, columns};
  return {comm, grid, *boundary};
}

torch::Tensor shard_of(torch::Tensor const& whole, nn::Domain const& domain, std::optional<Integers> const& rows,
                       std::optional<Integers> const& columns) {
  if (!rows && !columns) return nn::shard_of(whole, domain);
  auto const along = [&](std::optional<Integers> const& sizes, int axis) {
    if (sizes) return cuts_of(*sizes);
    return balanced_cuts(whole.size(axis - 2), int(domain.grid().extent(axis)));
  };
  if (whole.dim() < 2) throw Error("UnsupportedTensor", std::to_string(whole.dim()) + " axes; a field has at least 2");
  return nn::shard_of(whole, domain, nn::FieldCuts{along(rows, 0), along(columns, 1)});
}

using PartOfAxis = std::pair<int, Integers>;

std::pair<PartOfAxis, PartOfAxis> part_of(torch::Tensor const& shard, nn::Domain const& domain) {
  auto const part = nn::part_of(shard, domain);
  return {{part.rows.part, sizes_of(part.rows.cuts)}, {part.columns.part, sizes_of(part.columns.cuts)}};
}

/// @throws `rule` on all ranks, with two texts that differ
void require_same_text(nn::Domain const& domain, std::string const& rule, std::string const& text) {
  require_same(domain.comm(), rule, Hash().add(std::string_view(text)).value(), text);
}

/// Throws on all ranks where one has a text, with that of the lowest such rank.
void agree_on_text(nn::Domain const& domain, std::string const& rule, std::optional<std::string> const& failure) {
  run_agreed(domain.comm(), [&] {
    if (failure) throw Error(rule, *failure);
  });
}

}  // namespace

void define_fields(py::module_& m) {
  m.def("num_processes", [] {
    int number = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    return number;
  });
  py::class_<nn::Domain>(m, "Domain")
      .def(py::init(&make_domain), ReleaseGil())
      .def_static(
          "serial", [] { return nn::Domain(); }, ReleaseGil())
      .def_property_readonly("is_serial", &nn::Domain::is_default)
      .def_property_readonly("rank", [](nn::Domain const& self) { return self.comm().rank(); })
      .def_property_readonly("num_ranks", [](nn::Domain const& self) { return self.comm().num_ranks(); })
      .def_property_readonly(
          "grid", [](nn::Domain const& self) { return std::pair(self.grid().extent(0), self.grid().extent(1)); })
      .def_property_readonly(
          "part", [](nn::Domain const& self) { return std::pair(self.latitude_part(), self.longitude_part()); })
      .def("set_call_checks",
           [](nn::Domain& self, bool every_call) {
             self.set_call_checks(every_call ? nn::CallChecks::every_call : nn::CallChecks::new_structures);
           })
      .def("num_draws", &nn::Domain::num_draws)
      .def("set_num_draws", &nn::Domain::set_num_draws)
      .def(
          "barrier", [](nn::Domain const& self) { self.comm().barrier(); }, ReleaseGil())
      .def(
          "renew",
          [](nn::Domain const& self) {
            for (auto const& comm : self.comms()) comm.renew();
          },
          ReleaseGil())
      .def(
          "announce",
          [](nn::Domain const& self, std::string const& text) {
            auto const comms = self.comms();
            announce_failure(std::span<Comm const>(comms), text);
          },
          ReleaseGil())
      .def("require_same", &require_same_text, ReleaseGil())
      .def("agree", &agree_on_text, ReleaseGil());
  m.def("shard_of", &shard_of, ReleaseGil());
  m.def("part_of", &part_of, ReleaseGil());
  m.def("unreached_calls", &nn::detail::unreached_calls, ReleaseGil());
  m.def("whole_field", &nn::whole_field, ReleaseGil());
}

}  // namespace graticule::python
