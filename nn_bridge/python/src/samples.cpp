// SPDX-License-Identifier: BSD-3-Clause
// Samples of files, read by this rank.
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/samples/dataset.hpp>

#include "module.hpp"
#include "reader.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::python {

namespace {

using Scalings = std::map<std::string, std::pair<std::vector<double>, std::vector<double>>>;

/// A data set with the sizes of its batches.
struct Samples {
  std::unique_ptr<samples::Dataset> data = {};
  Index history = 1;
  Index steps = 1;
  Index num_teams = 1;
};

samples::DatasetOptions sample_options(nn::Domain const& domain, py::dict const& values) {
  Reader const read("open_samples", values, domain);
  samples::DatasetOptions options;
  options.inputs = read.list<std::string>("variables");
  options.targets = read.list<std::string>("targets");
  options.lead = read.get<std::string>("lead");
  options.history = read.integer("history");
  options.steps = read.integer("steps");
  options.times = read.get<std::string>("times", "");
  options.batch_size = read.integer("batch_size");
  options.last_batch =
      read.truth("drop_last") ? samples::DatasetOptions::LastBatch::drop : samples::DatasetOptions::LastBatch::keep;
  options.forcings = read.list<std::string>("forcings");
  options.order = read.truth("shuffle") ? samples::Order::shuffled : samples::Order::in_time;
  options.seed = read.get<std::uint64_t>("seed");
  for (auto const& [name, numbers] : read.get<Scalings>("scaling"))
    options.scaling[name] = {numbers.first, numbers.second};
  options.scale_by = read.truth("standard") ? samples::ScaleBy::statistics : samples::ScaleBy::given;
  options.missing = read.one_of<samples::Missing>(
      "missing",
      {{"keep", samples::Missing::keep}, {"mean", samples::Missing::mean}, {"refuse", samples::Missing::refuse}},
      samples::Missing::keep);
  options.dtype = read.truth("f64") ? DType::f64 : DType::f32;
  options.process_grid = domain.grid();
  options.rows = read.cuts("rows");
  options.columns = read.cuts("columns");
  if (read.has("memory")) options.memory_bytes = read.integer("memory");
  return options;
}

std::unique_ptr<Samples> make_samples(nn::Domain const& domain, std::vector<std::string> files,
                                      std::optional<std::int64_t> data_team, py::dict const& values) {
  auto options = sample_options(domain, values);
  py::gil_scoped_release const released;
  if (data_team) options.data_team = comm_of(*data_team);
  Samples sizes{.history = options.history,
                .steps = options.steps,
                .num_teams = options.data_team ? options.data_team->num_ranks() : 1};
  sizes.data = std::make_unique<samples::Dataset>(domain.comm(), std::move(files), std::move(options));
  return std::make_unique<Samples>(std::move(sizes));
}

/// A copy of what stays valid until the next batch only; axes of one state are left out.
torch::Tensor copied(void const* values, DType dtype, Index num_samples, Index num_times, std::size_t num_channels,
                     Box const& box) {
  std::vector<std::int64_t> sizes{num_samples};
  if (num_times > 1) sizes.push_back(num_times);
  sizes.insert(sizes.end(), {std::int64_t(num_channels), box.extent(0), box.extent(1)});
  auto tensor = torch::empty(sizes, dtype == DType::f64 ? torch::kFloat64 : torch::kFloat32);
  if (tensor.numel() > 0) std::memcpy(tensor.data_ptr(), values, tensor.nbytes());
  return tensor;
}

std::pair<torch::Tensor, torch::Tensor> batch_of(Samples& self, Index epoch, Index number) {
  auto const batch = self.data->batch(epoch, number);
  auto const box = self.data->owned();
  return {copied(batch.inputs, batch.dtype, batch.num_samples, self.history, self.data->input_channels().size(), box),
          copied(batch.targets, batch.dtype, batch.num_samples, self.steps, self.data->target_channels().size(), box)};
}

Scalings scaling_of(Samples const& self) {
  Scalings scalings;
  for (auto const& [name, scaling] : self.data->scaling()) scalings[name] = {scaling.mean, scaling.scale};
  return scalings;
}

}  // namespace

void define_samples(py::module_& m) {
  py::class_<Samples>(m, "Samples")
      .def(py::init(&make_samples))
      .def("batch", &batch_of, ReleaseGil())
      .def("times", [](Samples const& self, Index epoch, Index number) { return self.data->times(epoch, number); })
      .def_property_readonly("num_samples", [](Samples const& self) { return self.data->num_samples(); })
      .def_property_readonly("num_batches", [](Samples const& self) { return self.data->num_batches(); })
      .def_property_readonly("input_channels", [](Samples const& self) { return self.data->input_channels(); })
      .def_property_readonly("target_channels", [](Samples const& self) { return self.data->target_channels(); })
      .def_property_readonly("latitudes", [](Samples const& self) { return self.data->latitudes(); })
      .def_property_readonly("longitudes", [](Samples const& self) { return self.data->longitudes(); })
      .def_property_readonly("scaling", &scaling_of)
      .def("cuts", [](Samples const& self, int axis) { return sizes_of(*self.data->layout().cuts(axis)); })
      .def_readonly("num_teams", &Samples::num_teams)
      .def(
          "bytes_read", [](Samples& self) { return self.data->bytes_read(); }, ReleaseGil());
}

}  // namespace graticule::python
