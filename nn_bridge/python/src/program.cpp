// SPDX-License-Identifier: BSD-3-Clause
// Exported and captured networks on shards.
#include <graticule/nn_bridge/detail/device_mask.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/placed_call.hpp>
#include <graticule/program/sharded_program.hpp>

#include "module.hpp"
#include "reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::python {

namespace {

using program::ShardedProgramImpl;
using Fields = std::optional<std::vector<bool>>;

program::ShardOptions options_of(Fields fields, std::uint64_t seed, std::optional<std::int64_t> largest_gather) {
  program::ShardOptions options;
  options.fields = std::move(fields);
  options.seed = seed;
  if (largest_gather) options.largest_gather = *largest_gather;
  return options;
}

std::shared_ptr<ShardedProgramImpl> of_graph(std::string const& json, std::map<std::string, torch::Tensor> tensors,
                                             nn::Domain const& domain, Fields const& fields, std::uint64_t seed,
                                             std::optional<std::int64_t> largest_gather) {
  std::shared_ptr<ShardedProgramImpl> made;
  run_agreed(domain.comm(), [&] {
    program::Program const network(json, std::move(tensors));
    made = std::make_shared<ShardedProgramImpl>(network, domain, options_of(fields, seed, largest_gather));
  });
  return made;
}

/// Which inputs have these names.
std::vector<bool> named_fields(program::ExportedGraph const& graph, std::vector<std::string> const& names,
                               std::string const& path) {
  std::vector<bool> fields;
  std::vector<std::string> inputs;
  for (auto const id : program::user_inputs(graph)) {
    inputs.push_back(graph.graph.value(id).name);
    fields.push_back(std::ranges::find(names, inputs.back()) != names.end());
  }
  for (auto const& name : names) {
    if (std::ranges::find(inputs, name) != inputs.end()) continue;
    std::string there;
    for (auto const& input : inputs) there += (there.empty() ? "" : ", ") + input;
    throw Error("BadOption", "'" + name + "' is none of the inputs of " + path + ": " + there);
  }
  return fields;
}

std::shared_ptr<ShardedProgramImpl> of_file(std::string const& path, nn::Domain const& domain,
                                            std::optional<std::vector<std::string>> const& fields, std::uint64_t seed,
                                            std::optional<std::int64_t> largest_gather) {
  std::shared_ptr<ShardedProgramImpl> made;
  run_agreed(domain.comm(), [&] {
    program::Program const network{std::filesystem::path(path)};
    Fields const declared = fields ? Fields(named_fields(network->graph(), *fields, path)) : Fields();
    made = std::make_shared<ShardedProgramImpl>(network, domain, options_of(declared, seed, largest_gather));
  });
  return made;
}

std::vector<std::optional<torch::Tensor>> run(ShardedProgramImpl& self, std::vector<torch::Tensor> const& inputs,
                                              bool again) {
  std::vector<std::optional<torch::Tensor>> results;
  for (auto& output : again ? self.run_again(inputs) : self.run(inputs))
    results.push_back(output.defined() ? std::optional(std::move(output)) : std::nullopt);
  return results;
}

std::string const& input_name(ShardedProgramImpl const& self, program::ValueId id) {
  return self.serial()->graph().graph.value(id).name;
}

std::vector<std::string> input_names(ShardedProgramImpl const& self) {
  std::vector<std::string> names;
  for (auto const id : program::user_inputs(self.serial()->graph())) names.push_back(input_name(self, id));
  return names;
}

/// Of each output: (value,) of a constant, () of a number that is computed, none of a tensor.
py::list output_numbers(ShardedProgramImpl const& self) {
  py::list result;
  for (program::OutputSpec const& output : self.serial()->graph().outputs) {
    if (output.kind != program::OutputSpec::Kind::user) continue;
    result.append(std::visit(
        [](auto const& value) -> py::object {
          using Held = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<Held, program::None>) return py::make_tuple(py::none());
          if constexpr (std::is_same_v<Held, bool> || std::is_same_v<Held, std::int64_t> ||
                        std::is_same_v<Held, double> || std::is_same_v<Held, std::string>)
            return py::make_tuple(value);
          if constexpr (std::is_same_v<Held, program::SymbolRef>) return py::tuple();
          return py::none();
        },
        output.value));
  }
  return result;
}

/// The axis that each output is cut along; none for a whole one.
std::vector<std::optional<std::int64_t>> output_axes(ShardedProgramImpl const& self) {
  std::vector<std::optional<std::int64_t>> axes;
  for (auto const& placement : self.outputs())
    axes.push_back(placement ? std::optional(placement->axis) : std::nullopt);
  return axes;
}

/// Whole sizes of the inputs of the latest call.
std::vector<program::Shape> input_shapes(ShardedProgramImpl const& self) {
  std::vector<program::Shape> shapes;
  for (auto const id : self.plan().user_inputs) shapes.push_back(self.plan().shapes[std::size_t(id)]);
  return shapes;
}

std::int64_t most(std::vector<std::int64_t> const& numbers) {
  return numbers.empty() ? 0 : *std::ranges::max_element(numbers);
}

/// One entry per operator that results in tensors: where it is, its class, the axis that is cut, what it receives.
py::list nodes_of(program::Plan const& plan) {
  py::list nodes;
  for (auto const& node : plan.nodes) {
    auto const& call = plan.graph.nodes[std::size_t(node.node)];
    auto const kind = program::operator_class(call.target);
    std::int64_t received = 2 * node.statistics_bytes;
    std::int64_t messages = node.statistics_bytes > 0 ? 1 : 0;
    for (auto const& transfer : node.tensors) {
      received += most(transfer.bytes);
      messages += transfer.messages;
    }
    py::object axis = py::none();
    if (node.placement) axis = py::int_(node.placement->axis);
    nodes.append(py::make_tuple(call.describe(), kind ? std::string(name(*kind)) : std::string("other"), axis, received,
                                messages, node.gathered));
  }
  return nodes;
}

py::dict plan_of(ShardedProgramImpl const& self) {
  auto const& plan = self.plan();
  py::dict result;
  result["nodes"] = nodes_of(plan);
  result["weights_bytes"] = plan.weights_bytes;
  result["activation_bytes"] = plan.activation_bytes;
  result["recomputed_bytes"] = plan.recomputed_bytes;
  result["num_parts"] = plan.num_parts;
  result["kept_parts"] = plan.kept_parts;
  result["received_bytes"] = plan.received_bytes;
  result["block_bytes"] = plan.block_bytes;
  result["messages"] = plan.messages;
  return result;
}

/// Further names of parameters and persistent buffers that have several: (name, name by which it is registered).
std::vector<std::pair<std::string, std::string>> aliases(ShardedProgramImpl const& self) {
  std::vector<std::pair<std::string, std::string>> result;
  auto const& all = self.serial()->aliases();
  for (program::InputSpec const& input : self.serial()->graph().inputs) {
    auto const found = std::ranges::find(all, input.name, &std::pair<std::string, std::string>::first);
    bool const in_state = input.kind == program::InputSpec::Kind::parameter ||
                          (input.kind == program::InputSpec::Kind::buffer && input.persistent);
    if (found != all.end() && in_state) result.push_back(*found);
  }
  return result;
}

// --- Functions between layers ---

/// axis, period, bounds; see `program::Cut`.
using Place = std::optional<std::tuple<std::int64_t, std::int64_t, std::vector<std::int64_t>>>;

program::Placement placement_of(Place const& place) {
  if (!place) return {};
  auto const& [axis, period, bounds] = *place;
  return program::Cut{axis, period, bounds};
}

std::shared_ptr<program::PlacedCall> placed_call(std::string const& json, nn::Domain const& domain,
                                                 std::string const& name, std::vector<Place> const& inputs,
                                                 std::vector<std::pair<bool, Place>> const& outputs,
                                                 std::string const& device,
                                                 std::optional<std::pair<std::uint64_t, std::uint32_t>> const& masks) {
  program::PlacedCallOptions options;
  if (masks) std::tie(options.seed, options.layer) = *masks;
  options.device = torch::Device(device);
  options.name = name;
  for (auto const& place : inputs) options.inputs.push_back(placement_of(place));
  for (auto const& [fixed, place] : outputs)
    options.outputs.push_back(fixed ? std::make_optional(placement_of(place)) : std::nullopt);
  return std::make_shared<program::PlacedCall>(json, domain, std::move(options));
}

std::vector<Place> places_of(program::PlacedCall const& self) {
  std::vector<Place> places;
  for (auto const& placement : self.outputs())
    places.push_back(placement ? Place(std::tuple(placement->axis, placement->period, placement->bounds)) : Place());
  return places;
}

/// Entries of dictionaries, of modules mostly, that have to be the same objects as at first, and the types, devices and
/// gradient flags of those that are tensors. One call for a model's parameters, buffers and modes.
class Watch {
 public:
  explicit Watch(std::vector<std::tuple<py::dict, py::str, py::object>> const& entries) {
    for (auto const& [dict, key, value] : entries) {
      entries_.push_back({dict, key, value, {}});
      if (THPVariable_Check(value.ptr())) entries_.back().kind = kind_of(value);
    }
  }

  [[nodiscard]] bool unchanged() const {
    return std::ranges::all_of(entries_, [](Entry const& entry) {
      return PyDict_GetItem(entry.dict.ptr(), entry.key.ptr()) == entry.value.ptr() &&
             (!entry.kind || *entry.kind == kind_of(entry.value));
    });
  }

 private:
  struct Kind {
    c10::ScalarType type;
    c10::Device device;
    bool requires_grad;
    bool operator==(Kind const&) const = default;
  };
  struct Entry {
    py::dict dict;
    py::str key;
    py::object value;
    std::optional<Kind> kind;
  };

  static Kind kind_of(py::object const& value) {
    auto const& tensor = THPVariable_Unpack(value.ptr());
    return {tensor.scalar_type(), tensor.device(), tensor.requires_grad()};
  }

  std::vector<Entry> entries_;
};

/// Values in dictionaries and lists that have to be as at first: the same objects, or equal numbers and texts; `...`
/// for none. Without a key: the number of values of a container, or the bytes of an array.
class WatchValues {
 public:
  explicit WatchValues(std::vector<std::tuple<py::object, py::object, py::object>> entries)
      : entries_(std::move(entries)) {}

  [[nodiscard]] bool unchanged() const {
    return std::ranges::all_of(entries_, [](auto const& entry) {
      auto const& [holder, key, value] = entry;
      if (key.is_none()) {
        if (PyBytes_Check(value.ptr())) return has_bytes(holder, value);
        return py::len(holder) == value.template cast<std::size_t>();
      }
      PyObject* const now = PyDict_Check(holder.ptr()) ? PyDict_GetItem(holder.ptr(), key.ptr())
                                                       : PyList_GetItem(holder.ptr(), PyLong_AsSsize_t(key.ptr()));
      if (now == nullptr) PyErr_Clear();
      if (value.ptr() == Py_Ellipsis) return now == nullptr;
      return now == value.ptr() || (now != nullptr && equal(now, value.ptr()));
    });
  }

 private:
  /// Of numbers and texts, by their bits: 0.0 is not -0.0.
  static bool equal(PyObject* one, PyObject* other) {
    if (Py_TYPE(one) != Py_TYPE(other)) return false;
    if (PyFloat_CheckExact(one)) {
      return std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(one)) ==
             std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(other));
    }
    if (PyTuple_CheckExact(one)) {
      auto const size = PyTuple_GET_SIZE(one);
      if (size != PyTuple_GET_SIZE(other)) return false;
      for (Py_ssize_t i = 0; i < size; ++i) {
        auto* const a = PyTuple_GET_ITEM(one, i);
        auto* const b = PyTuple_GET_ITEM(other, i);
        if (a != b && !equal(a, b)) return false;
      }
      return true;
    }
    return (PyLong_CheckExact(one) || PyUnicode_CheckExact(one)) && PyObject_RichCompareBool(one, other, Py_EQ) == 1;
  }

  static bool has_bytes(py::object const& array, py::object const& bytes) {
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) {
      PyErr_Clear();
      return false;
    }
    bool const same = view.len == PyBytes_GET_SIZE(bytes.ptr()) &&
                      std::memcmp(view.buf, PyBytes_AS_STRING(bytes.ptr()), std::size_t(view.len)) == 0;
    PyBuffer_Release(&view);
    return same;
  }

  std::vector<std::tuple<py::object, py::object, py::object>> entries_;
};

/// How a call compares with the latest one, on all ranks: 0 where it repeats it, 1 where its structure is known, 2
/// where it is new to any rank or ranks have different ones. Collective. @param own this rank's answer
int compare_calls(nn::Domain const& domain, int own, std::uint64_t hash) {
  auto const half = Index(hash >> 1U);
  std::array<Index, 3> numbers{own, half, -half};
  domain.comm().max(std::span<Index>(numbers));
  return numbers[1] == -numbers[2] ? int(numbers[0]) : 2;
}

/// The numbers of each rank, of which all have as many. Collective.
std::vector<Integers> gather(nn::Domain const& domain, Integers const& own) {
  std::vector<Integers> result(std::size_t(domain.comm().num_ranks()));
  for (auto const number : own) {
    auto const all = domain.comm().gather_to_all(number);
    for (std::size_t rank = 0; rank < result.size(); ++rank) result[rank].push_back(all[rank]);
  }
  return result;
}

}  // namespace

void define_program(py::module_& m) {
  py::class_<ShardedProgramImpl, std::shared_ptr<ShardedProgramImpl>>(m, "Program")
      .def_static("of_graph", &of_graph, ReleaseGil())
      .def_static("of_file", &of_file, ReleaseGil())
      .def("run", &run, py::arg("inputs"), py::arg("again") = false, ReleaseGil())
      .def("repeats", &ShardedProgramImpl::repeats)
      .def("train", [](ShardedProgramImpl& self, bool on) { self.train(on); })
      .def(
          "move",
          [](ShardedProgramImpl& self, std::optional<torch::Device> device, std::optional<torch::ScalarType> type) {
            self.to(device.value_or(self.serial()->device()), type.value_or(self.serial()->dtype()));
          },
          ReleaseGil())
      .def("reset_structure", &ShardedProgramImpl::reset_structure)
      .def_property_readonly("input_names", &input_names)
      .def_property_readonly("fields", &ShardedProgramImpl::fields)
      .def("input_shapes", &input_shapes)
      .def_property_readonly("num_nodes",
                             [](ShardedProgramImpl const& self) { return self.serial()->graph().graph.nodes.size(); })
      .def("output_axes", &output_axes)
      .def("output_numbers", &output_numbers)
      .def("plan", &plan_of)
      .def("parameters", [](ShardedProgramImpl const& self) { return self.named_parameters().pairs(); })
      .def_property_readonly("aliases", &aliases)
      .def("buffers", [](ShardedProgramImpl const& self) { return self.named_buffers().pairs(); })
      .def(
          "save", [](ShardedProgramImpl const& self, std::string const& path) { self.serial()->save(path); },
          ReleaseGil());
  py::class_<program::PlacedCall, std::shared_ptr<program::PlacedCall>>(m, "PlacedCall")
      .def(py::init(&placed_call), ReleaseGil())
      .def("run", &program::PlacedCall::run, ReleaseGil())
      .def_property_readonly("outputs", &places_of)
      .def_property_readonly("direct", &program::PlacedCall::direct)
      .def_property_readonly("keeps_views", &program::PlacedCall::keeps_views)
      .def_property_readonly("elementwise", &program::PlacedCall::elementwise)
      .def("nodes", [](program::PlacedCall const& self) { return nodes_of(self.plan()); });
  py::class_<Watch>(m, "Watch")
      .def(py::init<std::vector<std::tuple<py::dict, py::str, py::object>> const&>())
      .def("unchanged", &Watch::unchanged);
  py::class_<WatchValues>(m, "WatchValues")
      .def(py::init<std::vector<std::tuple<py::object, py::object, py::object>>>())
      .def("unchanged", &WatchValues::unchanged);
  m.def("is_known_operator", [](std::string const& target) { return program::operator_class(target).has_value(); });
  m.def("compare_calls", &compare_calls, ReleaseGil());
  m.def("whole_mask", &nn::detail::whole_mask, ReleaseGil());
  m.def("gather_numbers", &gather, ReleaseGil());
}

}  // namespace graticule::python
