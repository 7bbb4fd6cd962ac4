// SPDX-License-Identifier: BSD-3-Clause
// Layers by name, and calls of model code from C++: recomputation and rollouts.
#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/nn_bridge/detail/shard_layers.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include "layer.hpp"
#include "module.hpp"

#include <pybind11/functional.h>

#include <utility>

namespace graticule::python {

namespace {

Layer make_layer(std::string const& type, py::dict const& options, nn::Domain const& domain, py::object const& module) {
  nn::detail::KeptRandomState const kept;  // parameters come from the torch.nn module, or are set afterwards
  auto const found = serial_makers().find(type);
  if (found == serial_makers().end()) throw Error("UnknownName", type + " has no sharded counterpart");
  return found->second(Reader(type, options, domain, module));
}

Layer make_native(std::string const& type, py::dict const& options, nn::Domain const& domain) {
  auto const found = native_makers().find(type);
  if (found == native_makers().end()) throw Error("UnknownName", "there is no layer " + type);
  return found->second(Reader(type, options, domain));
}

using State = std::array<std::optional<torch::Tensor>, 5>;

Tensors call(Layer const& layer, std::string const& method, std::vector<std::optional<torch::Tensor>> const& inputs,
             State const& state, bool training) {
  auto const found = layer.methods.find(method);
  if (found == layer.methods.end()) throw Error("UnknownName", "the layer has no " + method);
  auto const get = [&](std::size_t i) { return state[i].value_or(torch::Tensor()); };
  Tensors given;
  for (auto const& tensor : inputs) given.push_back(tensor.value_or(torch::Tensor()));
  return found->second({get(0), get(1), get(2), get(3), get(4), training}, given);
}

/// As `shard` logs the calls of its layers for a trial.
Tensors logged_call(Layer const& layer, std::string const& path, std::string const& method,
                    std::vector<std::optional<torch::Tensor>> const& inputs, State const& state, bool training) {
  auto* const log = nn::detail::TrialLog::current();
  auto const before = log != nullptr ? nn::traffic() : nn::Traffic{};
  nn::detail::LayerPath const place(path);
  auto outputs = call(layer, method, inputs, state, training);
  if (log != nullptr) log->calls.push_back({path, outputs.front().detach().clone(), nn::traffic() - before});
  return outputs;
}

std::pair<int, Integers> part(Layer const& layer, std::string const& name, std::int64_t axis) {
  if (!layer.part) throw Error("UnknownName", "the layer has no " + name);
  auto const found = layer.part(name, axis);
  return {found.part, sizes_of(found.cuts)};
}

void move_to(Layer const& layer, nn::Domain const& domain) {
  auto* const communicating = dynamic_cast<nn::Communicating*>(layer.module.get());
  if (communicating == nullptr || !nn::detail::lacks_domain(*communicating))
    throw Error("WrongState", "the layer belongs to a domain already");
  nn::detail::set_domain(*communicating, domain);
}

void reset_structure(Layer const& layer) {
  if (auto* const communicating = dynamic_cast<nn::Communicating*>(layer.module.get()))
    communicating->reset_structure();
}

using Forward = std::function<torch::Tensor(torch::Tensor const&)>;
using Step = std::function<torch::Tensor(torch::Tensor const&, std::int64_t)>;

torch::Tensor rollout(nn::Domain const& domain, torch::Tensor const& state, Step const& step, Step const& on_state,
                      std::int64_t num_steps, std::int64_t checkpoint_steps, std::int64_t gradient_steps) {
  return nn::rollout(domain, state, {num_steps, checkpoint_steps, gradient_steps}, step, on_state);
}

std::tuple<double, double, std::string> try_sharded(Forward const& reference, Forward const& sharded,
                                                    torch::Tensor const& x, nn::Domain const& domain,
                                                    std::optional<std::pair<Integers, Integers>> const& sizes,
                                                    double tolerance) {
  std::optional<nn::FieldCuts> cuts;
  if (sizes) cuts = nn::FieldCuts{cuts_of(sizes->first), cuts_of(sizes->second)};
  auto const trial = nn::try_sharded(reference, sharded, x, domain, cuts);
  return {trial.output_difference, trial.gradient_difference, trial.text(tolerance)};
}

std::vector<std::string> types(Makers const& makers) {
  std::vector<std::string> names;
  for (auto const& [name, maker] : makers) names.push_back(name);
  return names;
}

}  // namespace

void define_layers(py::module_& m) {
  py::class_<Layer>(m, "Layer")
      .def_static("of_torch", &make_layer)
      .def_static("native", &make_native)
      .def("call", &logged_call, ReleaseGil())
      .def("part", &part, ReleaseGil())
      .def("parameters", [](Layer const& self) { return self.module->named_parameters().pairs(); })
      .def("buffers", [](Layer const& self) { return self.module->named_buffers().pairs(); })
      .def_property_readonly(
          "communicates",
          [](Layer const& self) { return dynamic_cast<nn::Communicating*>(self.module.get()) != nullptr; })
      .def("move_to", &move_to)
      .def("reset_structure", &reset_structure);
  m.def("serial_types", [] { return types(serial_makers()); });
  m.def("native_types", [] { return types(native_makers()); });
  m.def(
      "reduce_loss",
      [](torch::Tensor const& partial, nn::Domain const& domain) { return nn::reduce_loss(partial, domain); },
      ReleaseGil());
  m.def("checkpoint", &nn::checkpoint, ReleaseGil());
  m.def("rollout", &rollout, ReleaseGil());
  m.def("try_sharded", &try_sharded, ReleaseGil());
}

}  // namespace graticule::python
