// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/evaluation.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/program_access.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>

#include "archive/archive.hpp"
#include "layout/passes.hpp"
#include "module/weights.hpp"
#include "run/compiled_graph.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <variant>

namespace graticule::program {

namespace {

// Holds what has a common prefix in its name: "blocks", "blocks.0".
class Part : public torch::nn::Module {};

[[noreturn]] void not_a_program(std::string const& text) { throw Error(Fault::input, "BrokenFile", text); }

std::shared_ptr<ExportedGraph const> checked_graph(std::string_view json) {
  auto graph = std::make_shared<ExportedGraph>(read_graph(json));
  detail::check_operators(*graph);
  detail::return_written_inputs(*graph);
  return graph;
}

// The real type of most use: that of the first parameter, or else of the first input, with a fraction.
torch::ScalarType own_type(ExportedGraph const& program) {
  for (auto const kind : {InputSpec::Kind::parameter, InputSpec::Kind::user}) {
    for (InputSpec const& input : program.inputs) {
      auto const* tensor = std::get_if<TensorRef>(&input.value);
      if (tensor == nullptr || input.kind != kind) {
        continue;
      }
      torch::ScalarType const type = detail::to_torch(program.graph.value(tensor->value).tensor.dtype);
      if (c10::isFloatingType(type)) {
        return type;
      }
    }
  }
  return torch::kFloat32;
}

// That of the weights; the processor's where there are none.
torch::Device own_device(detail::Weights const& weights) {
  for (auto const& [tensor_name, tensor] : weights.tensors) {
    if (tensor.dim() > 0) {
      return tensor.device();
    }
  }
  return torch::kCPU;
}

// Numbers in the type that PyTorch gives them; texts and None are no tensors.
torch::Tensor as_tensor(c10::IValue const& value) {
  if (value.isTensor()) {
    return value.toTensor();
  }
  if (!value.isScalar()) {
    return {};
  }
  auto const number = value.toScalar();
  return torch::scalar_tensor(number, number.isFloatingPoint() ? torch::kFloat64 : number.type());
}

}  // namespace

struct ProgramImpl::State {
  std::shared_ptr<ExportedGraph const> graph;
  std::shared_ptr<detail::ArchiveContent const> content;
  std::string source;  // the file, for messages
  detail::Weights weights;
  std::set<std::string> parameters;   // by name
  std::set<std::string> overwritten;  // buffers, by name
  detail::Conversion conversion;
  std::shared_ptr<detail::CompiledGraph> compiled;  // also of the graphs that a backward runs again
  std::vector<std::vector<std::int64_t>> bound;     // input sizes that the graph expects
};

ProgramImpl::ProgramImpl(std::filesystem::path const& path)
    : torch::nn::Module("Program"), state_(std::make_unique<State>()) {
  detail::ArchiveContent content = detail::read_archive(path);
  state_->source = path.string();
  try {
    state_->graph = checked_graph(content.json);
    state_->weights = detail::take_weights(*state_->graph, content);
    content.json.clear();
    state_->content = std::make_shared<detail::ArchiveContent const>(std::move(content));
    state_->conversion = {own_type(*state_->graph), own_type(*state_->graph), torch::kCPU};
    register_tensors();
    compile();
  } catch (Error const& error) {
    throw Error(Fault::input, error.rule(), path.string() + ": " + error.text());
  } catch (c10::Error const& error) {
    throw Error(Fault::input, "BrokenFile", path.string() + ": " + error.what_without_backtrace());
  }
}

ProgramImpl::ProgramImpl(std::string_view graph_json, std::map<std::string, torch::Tensor> tensors)
    : torch::nn::Module("Program"), state_(std::make_unique<State>()) {
  state_->source = "a graph in memory";
  state_->graph = checked_graph(graph_json);
  state_->weights = detail::take_weights(*state_->graph, std::move(tensors));
  state_->conversion = {own_type(*state_->graph), own_type(*state_->graph), own_device(state_->weights)};
  register_tensors();
  compile();
}

ProgramImpl::ProgramImpl(std::unique_ptr<State> state) : torch::nn::Module("Program"), state_(std::move(state)) {
  register_tensors();
  compile();
}

ProgramImpl::~ProgramImpl() = default;

void ProgramImpl::register_tensors() {
  std::set<std::string> further;
  for (auto const& [alias, registered] : state_->weights.aliases) {
    further.insert(alias);
  }
  for (OutputSpec const& output : state_->graph->outputs) {
    if (output.kind == OutputSpec::Kind::buffer_mutation) {
      if (!state_->weights.tensors.contains(output.name)) {
        not_a_program("the buffer '" + output.name + "', which is overwritten, is not stored");
      }
      state_->overwritten.insert(output.name);
    }
  }
  std::set<std::string> done;
  std::map<std::string, torch::nn::Module*> parts;  // by path; a module gives its children as a copy of all of them
  for (InputSpec const& input : state_->graph->inputs) {
    bool const parameter = input.kind == InputSpec::Kind::parameter;
    if (parameter) {
      state_->parameters.insert(input.name);
    }
    if ((!parameter && (input.kind != InputSpec::Kind::buffer || !input.persistent)) || further.contains(input.name)) {
      continue;
    }
    if (!done.insert(input.name).second) {
      not_a_program("'" + input.name + "' is twice among the inputs");
    }
    torch::nn::Module* owner = this;
    std::string_view rest = input.name;
    for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      std::string const part(rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
      torch::nn::Module*& place = parts[input.name.substr(0, input.name.size() - rest.size() - 1)];
      place = place != nullptr ? place : owner->register_module(part, std::make_shared<Part>()).get();
      owner = place;
    }
    torch::Tensor const& tensor = state_->weights.tensors.at(input.name);
    if (parameter) {
      auto const& in_graph = state_->graph->graph.value(std::get<TensorRef>(input.value).value).tensor;
      bool const differentiable =
          torch::isFloatingType(tensor.scalar_type()) || torch::isComplexType(tensor.scalar_type());
      bool const requires_grad = state_->content ? in_graph.requires_grad && differentiable : tensor.requires_grad();
      owner->register_parameter(std::string(rest), tensor, requires_grad);
    } else {
      owner->register_buffer(std::string(rest), tensor);
    }
  }
}

void ProgramImpl::compile() {
  state_->compiled = std::shared_ptr<detail::CompiledGraph>(
      new detail::CompiledGraph(state_->graph->graph, state_->conversion),
      [graph = state_->graph](detail::CompiledGraph* compiled) { delete compiled; });
  state_->bound.clear();
}

torch::Tensor ProgramImpl::forward(torch::Tensor const& input) {
  std::vector<torch::Tensor> outputs = run({input});
  if (outputs.size() != 1) {
    throw Error("Unsupported", "the program has " + std::to_string(outputs.size()) + " outputs; call run");
  }
  return std::move(outputs[0]);
}

std::vector<c10::IValue> ProgramImpl::graph_inputs(std::vector<torch::Tensor> const& inputs) const {
  std::vector<c10::IValue> values;
  std::size_t next = 0;
  for (InputSpec const& input : state_->graph->inputs) {
    auto const* tensor = std::get_if<TensorRef>(&input.value);
    if (input.kind != InputSpec::Kind::user) {
      torch::Tensor const& weight = state_->weights.tensors.at(input.name);
      // The backward needs what the forward read, not what the network has overwritten it with.
      values.emplace_back(state_->overwritten.contains(input.name) ? weight.detach().clone() : weight);
    } else if (tensor != nullptr) {
      torch::Tensor const& given = inputs[next++];
      torch::ScalarType const wanted = state_->conversion(state_->graph->graph.value(tensor->value).tensor.dtype);
      if (!given.defined() || given.scalar_type() != wanted || given.device() != state_->conversion.device) {
        throw Error(
            "UnsupportedTensor",
            "input '" + input.name + "' is " +
                (given.defined() ? c10::str(given.scalar_type(), " on ", given.device()) : std::string("undefined")) +
                ", the program takes " + c10::str(wanted, " on ", state_->conversion.device));
      }
      values.emplace_back(given);
    } else if (std::holds_alternative<SymbolRef>(input.value)) {
      throw Error("RefusedProgram",
                  "the program takes the number '" + input.name + "' as an input; export it with a fixed one");
    } else {
      values.emplace_back();
    }
  }
  return values;
}

std::vector<torch::Tensor> ProgramImpl::run(std::vector<torch::Tensor> const& inputs) {
  std::vector<std::vector<std::int64_t>> sizes;
  for (torch::Tensor const& input : inputs) {
    sizes.push_back(input.defined() ? input.sizes().vec() : std::vector<std::int64_t>());
  }
  if (state_->bound != sizes || sizes.empty()) {
    if (state_->compiled.use_count() > 1) {
      compile();  // a backward may still run parts at the sizes before
    }
    state_->compiled->bind(Sizes(*state_->graph, sizes));
    state_->bound = sizes;
  }
  return finish(inputs, state_->compiled->run(graph_inputs(inputs), is_training(), state_->compiled));
}

std::vector<torch::Tensor> ProgramImpl::finish(std::vector<torch::Tensor> const& inputs,
                                               std::vector<c10::IValue> const& outputs) {
  std::vector<torch::Tensor> results;
  try {
    write_back(inputs, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (state_->graph->outputs[i].kind == OutputSpec::Kind::user) {
        results.push_back(as_tensor(outputs[i]));
      }
    }
  } catch (c10::Error const& error) {
    throw Error("FailedNode", std::string("the outputs of the program: ") + error.what_without_backtrace());
  }
  return results;
}

void ProgramImpl::write_back(std::vector<torch::Tensor> const& inputs, std::vector<c10::IValue> const& outputs) {
  torch::NoGradGuard const no_grad;
  std::vector<ValueId> const ids = user_inputs(*state_->graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    OutputSpec const& output = state_->graph->outputs[i];
    if (output.kind == OutputSpec::Kind::buffer_mutation) {
      torch::Tensor& buffer = state_->weights.tensors.at(output.name);
      if (buffer.sizes() != outputs[i].toTensor().sizes()) {
        throw Error("FailedNode",
                    "the new content of the buffer '" + output.name + "' has other sizes than the buffer");
      }
      buffer.copy_(outputs[i].toTensor());
    } else if (output.kind == OutputSpec::Kind::user_input_mutation) {
      for (std::size_t input = 0; input < ids.size(); ++input) {
        bool const own = state_->graph->graph.value(ids[input]).name == output.name;
        if (own && !inputs[input].is_same(outputs[i].toTensor())) {
          torch::Tensor(inputs[input]).copy_(outputs[i].toTensor());
        }
      }
    }
  }
}

namespace detail {

Conversion ProgramAccess::conversion(ProgramImpl const& program) { return program.state_->conversion; }

std::vector<c10::IValue> ProgramAccess::inputs(ProgramImpl const& program, std::vector<torch::Tensor> const& inputs) {
  return program.graph_inputs(inputs);
}

std::map<std::string, torch::Tensor> const& ProgramAccess::tensors(ProgramImpl const& program) {
  return program.state_->weights.tensors;
}

void ProgramAccess::evaluate(ProgramImpl& program) {
  auto& state = *program.state_;
  state.graph = std::make_shared<ExportedGraph const>(evaluated(*state.graph));
  program.compile();
}

std::vector<torch::Tensor> ProgramAccess::finish(ProgramImpl& program, std::vector<torch::Tensor> const& inputs,
                                                 std::vector<c10::IValue> const& outputs) {
  return program.finish(inputs, outputs);
}

}  // namespace detail

void ProgramImpl::save(std::filesystem::path const& path) const {
  if (!state_->content) {
    throw Error("Unsupported", path.string() + ": a program that was captured in memory is saved by torch.export.save");
  }
  detail::write_archive(path, *state_->content, state_->weights.tensors);
}

ExportedGraph const& ProgramImpl::graph() const noexcept { return *state_->graph; }
torch::Dtype ProgramImpl::dtype() const noexcept { return state_->conversion.target; }
torch::Dtype ProgramImpl::exported_dtype() const noexcept { return state_->conversion.own; }
torch::Device ProgramImpl::device() const noexcept { return state_->conversion.device; }
std::vector<std::pair<std::string, std::string>> const& ProgramImpl::aliases() const noexcept {
  return state_->weights.aliases;
}

torch::Tensor ProgramImpl::parameter(std::string const& parameter_name) const {
  if (state_->parameters.contains(parameter_name)) {
    return state_->weights.tensors.at(parameter_name);
  }
  throw Error("UnknownName", "the program has no parameter '" + parameter_name + "'");
}

void ProgramImpl::convert(torch::Device device, torch::Dtype dtype) {
  if (!torch::isFloatingType(dtype)) {
    throw Error("BadOption", c10::str("a program computes in a real type, not in ", dtype));
  }
  torch::NoGradGuard const no_grad;
  state_->conversion.device = device;
  state_->conversion.target = dtype;
  std::set<void*> done;
  for (auto& [tensor_name, tensor] : state_->weights.tensors) {
    if (!done.insert(tensor.unsafeGetTensorImpl()).second) {
      continue;
    }
    torch::Dtype const wanted = state_->conversion(state_->weights.dtypes.at(tensor_name));
    torch::Tensor const gradient = tensor.grad();
    tensor.mutable_grad() = torch::Tensor();
    torch::Tensor const moved = tensor.detach().to(device, wanted);
    if (device.is_privateuseone() && !tensor.is_privateuseone()) {
      // `set_data` gives tensors memory of LibTorch's own devices only.
      tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
    } else {
      tensor.set_data(moved);
    }
    if (gradient.defined()) {
      tensor.mutable_grad() = gradient.to(device, wanted);
    }
  }
  compile();
}

void ProgramImpl::to(torch::Device device, torch::Dtype dtype, bool) { convert(device, dtype); }
void ProgramImpl::to(torch::Dtype dtype, bool) { convert(state_->conversion.device, dtype); }
void ProgramImpl::to(torch::Device device, bool) { convert(device, state_->conversion.target); }

std::shared_ptr<torch::nn::Module> ProgramImpl::clone(std::optional<torch::Device> const& device) const {
  torch::NoGradGuard const no_grad;
  auto state = std::make_unique<State>(*state_);
  state->conversion.device = device.value_or(state_->conversion.device);
  std::map<void*, torch::Tensor> copies;
  for (auto& [tensor_name, tensor] : state->weights.tensors) {
    auto const [place, is_new] = copies.try_emplace(tensor.unsafeGetTensorImpl());
    if (is_new) {
      place->second = tensor.detach().to(state->conversion.device, /*non_blocking=*/false, /*copy=*/true);
      place->second.set_requires_grad(tensor.requires_grad());
    }
    tensor = place->second;
  }
  std::shared_ptr<ProgramImpl> copy(new ProgramImpl(std::move(state)));
  for (auto const& parameter_here : named_parameters()) {
    copy->parameter(parameter_here.key()).set_requires_grad(parameter_here.value().requires_grad());
  }
  copy->train(is_training());
  return copy;
}

void ProgramImpl::pretty_print(std::ostream& stream) const {
  stream << "Program(" << state_->source << ", " << state_->graph->graph.nodes.size() << " nodes, "
         << state_->conversion.target << ")";
}

}  // namespace graticule::program
