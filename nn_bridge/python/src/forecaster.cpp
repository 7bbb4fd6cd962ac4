// SPDX-License-Identifier: BSD-3-Clause
// Networks that graticule-train has trained.
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include "module.hpp"
#include "reader.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::python {

namespace {

struct Loaded : models::Forecaster {
  Loaded(Comm const& of, Layout const& layout, Checkpoint const& checkpoint)
      : Forecaster(of, layout, checkpoint, of), comm(of) {}
  Comm comm;
};

std::unique_ptr<Loaded> make_forecaster(std::int64_t comm_handle, std::string const& path,
                                        std::optional<Integers> const& rows) {
  Comm const comm = comm_of(comm_handle);
  auto const checkpoint = models::open_trained(comm, path);
  auto const description = models::description_of(checkpoint);
  auto const num_rows = Index(description.latitudes.size());
  auto const num_columns = Index(description.longitudes.size());
  std::unique_ptr<Layout> layout;
  run_agreed(comm, [&] {
    auto const cuts = rows ? cuts_of(*rows) : balanced_cuts(num_rows, comm.num_ranks());
    layout = std::make_unique<Layout>(ProcessGrid{comm.num_ranks(), 1}, std::vector<Cuts>{cuts, Cuts{num_columns}});
  });
  require_same(comm, "ArgumentDisagreement", layout->fingerprint(), "rows: " + to_string(*layout));
  return std::make_unique<Loaded>(comm, *layout, checkpoint);
}

/// In host memory and f64, as the network's states are.
torch::Tensor next_of(Loaded& self, torch::Tensor const& states, std::int64_t time) {
  torch::NoGradGuard const no_grad;
  auto const& own = self.owned();
  run_agreed(self.comm, [&] {
    auto const ndim = states.dim();
    if (ndim < 2 || states.size(ndim - 2) != own.extent(0) || states.size(ndim - 1) != own.extent(1))
      throw Error("ShapeMismatch", "states end with axes of " + std::to_string(own.extent(0)) + " rows and " +
                                       std::to_string(own.extent(1)) + " columns, not with the last ones of " +
                                       c10::str(states.sizes()));
  });
  auto const values = states.to(torch::kCPU, torch::kFloat64).contiguous();
  auto later = self.next({values.const_data_ptr<double>(), std::size_t(values.numel())}, time);
  auto const channels = std::int64_t(self.description().channels.size());
  return torch::tensor(later, torch::kFloat64)
      .reshape({channels, own.extent(0), own.extent(1)})
      .to(states.device(), states.scalar_type());
}

std::vector<std::string> channels_of(Loaded const& self) {
  std::vector<std::string> labels;
  for (auto const& channel : self.description().channels) labels.push_back(channel.label);
  return labels;
}

}  // namespace

void define_forecaster(py::module_& m) {
  py::class_<Loaded>(m, "Forecaster")
      .def(py::init(&make_forecaster), ReleaseGil())
      .def("next", &next_of, ReleaseGil())
      .def_property_readonly("channels", &channels_of)
      .def_property_readonly("num_prognostic", [](Loaded const& self) { return self.description().num_prognostic(); })
      .def_property_readonly("history", [](Loaded const& self) { return self.description().history; })
      .def_property_readonly("lead_seconds", [](Loaded const& self) { return self.description().lead_seconds; })
      .def_property(
          "calendar", [](Loaded const& self) { return std::string(to_string(self.calendar())); },
          [](Loaded& self, std::string const& name) { self.set_calendar(calendar_of(name)); })
      .def("time_of_date",
           [](Loaded const& self, int year, int month, int day, std::int64_t second) {
             return seconds_of({year, month, day, second}, self.calendar());
           })
      .def_property_readonly("latitudes", [](Loaded const& self) { return self.description().latitudes; })
      .def_property_readonly("longitudes", [](Loaded const& self) { return self.description().longitudes; })
      .def_property_readonly("rows",
                             [](Loaded const& self) { return std::pair(self.owned().lo(0), self.owned().hi(0)); });
}

}  // namespace graticule::python
