// SPDX-License-Identifier: BSD-3-Clause
#include "run/compiled_graph.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/program/detail/operators.hpp>

#include "graph/nodes.hpp"
#include "layout/passes.hpp"
#include "run/arguments.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

// Calls an operator through the dispatcher, which records it for the backward as it does for Python.
class OperatorStep : public Step {
 public:
  OperatorStep(c10::OperatorHandle handle, CallArguments arguments, std::vector<Argument> const& results)
      : handle_(std::move(handle)), arguments_(std::move(arguments)), results_(results) {}

  void run(Frame& frame) const override {
    c10::Stack stack = arguments_.fill(frame);
    call(stack);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      store(results_[i], std::move(stack[i]), frame);
    }
  }

 protected:
  virtual void call(c10::Stack& stack) const { handle_.callBoxed(&stack); }
  [[nodiscard]] c10::FunctionSchema const& schema() const { return handle_.schema(); }

 private:
  static void store(Argument const& place, c10::IValue result, Frame& frame) {
    if (auto const* tensor = std::get_if<TensorRef>(&place)) {
      frame.at(tensor->value) = std::move(result);
    } else if (auto const* symbol = std::get_if<SymbolRef>(&place)) {
      frame.at(symbol->value) = std::move(result);
    } else if (auto const* tensors = std::get_if<Tensors>(&place)) {
      auto const list = result.toTensorVector();
      if (list.size() != tensors->size()) {
        throw std::runtime_error("it has " + std::to_string(list.size()) + " results, the program expects " +
                                 std::to_string(tensors->size()));
      }
      for (std::size_t i = 0; i < list.size(); ++i) {
        frame.at((*tensors)[i].value) = list[i];
      }
    }
  }

  c10::OperatorHandle handle_;
  CallArguments arguments_;
  std::vector<Argument> results_;
};

// LibTorch 2.13's batch norms on the CPU take the input and its cotangent for equally laid out where a batch of 1 or an
// axis of one cell lets both pass for the same memory format, and pair wrong cells: gradients are off by as much as
// they are large. Right where both are dense in one format. Instance norms are batch norms of a batch of 1. (No
// upstream report is known.)
class StatisticsStep : public OperatorStep {
 public:
  enum class Format { of_input, contiguous };

  StatisticsStep(Format format, c10::OperatorHandle handle, CallArguments arguments,
                 std::vector<Argument> const& results)
      : OperatorStep(std::move(handle), std::move(arguments), results), format_(format) {
    if (schema().name().find("functional") == std::string::npos) {
      return;
    }
    for (char const* const name : {"running_mean", "running_var"}) {
      if (auto const place = schema().argumentIndexWithName(name)) {
        overwritten_.push_back(static_cast<std::size_t>(*place));
      }
    }
  }

 protected:
  void call(c10::Stack& stack) const override {
    for (std::size_t const place : overwritten_) {
      if (stack.at(place).isTensor() && stack.at(place).toTensor().defined()) {
        stack.at(place) = stack.at(place).toTensor().clone();
      }
    }
    at::Tensor const x = stack.at(0).toTensor();
    if (!x.is_cpu()) {
      OperatorStep::call(stack);
      return;
    }
    auto const format = format_ == Format::of_input ? x.suggest_memory_format() : at::MemoryFormat::Contiguous;
    stack.at(0) = x.contiguous(format);
    OperatorStep::call(stack);
    if (at::Tensor const& y = stack.at(0).toTensor(); y.requires_grad()) {
      y.register_hook([format](at::Tensor const& cotangent) {
        return cotangent.defined() ? cotangent.contiguous(format) : cotangent;
      });
    }
  }

 private:
  Format format_;
  // Running statistics: LibTorch keeps them for the backward, before which the program writes the new ones to them.
  std::vector<std::size_t> overwritten_;
};

// LibTorch's `native_group_norm` takes the input alone when it is contiguous, and reads weights as if they were.
class DenseStep : public OperatorStep {
 public:
  using OperatorStep::OperatorStep;

 protected:
  void call(c10::Stack& stack) const override {
    for (c10::IValue& argument : stack) {
      if (argument.isTensor() && argument.toTensor().defined()) {
        argument = argument.toTensor().contiguous();
      }
    }
    OperatorStep::call(stack);
  }
};

// A function of the arguments where the operator has no derivative, or a wrong one.
class FunctionStep : public Step {
 public:
  using Function = at::Tensor (*)(c10::Stack const&);

  FunctionStep(Function function, CallArguments arguments, ValueId result)
      : function_(function), arguments_(std::move(arguments)), result_(result) {}

  void run(Frame& frame) const override { frame.at(result_) = function_(arguments_.fill(frame)); }

 private:
  Function function_;
  CallArguments arguments_;
  ValueId result_;
};

// `copy` has no derivative of its own: the second tensor in the sizes and the type of the first.
at::Tensor copied(c10::Stack const& stack) {
  auto const& self = stack.at(0).toTensor();
  return stack.at(1).toTensor().expand(self.sizes()).to(self.options(), /*non_blocking=*/false, /*copy=*/true);
}

// A part of a complex tensor from another: LibTorch has no derivative of `slice_scatter` and `select_scatter` there,
// but of the copy into a view.
at::Tensor with_slice(c10::Stack const& stack) {
  at::Tensor result = stack.at(0).toTensor().clone();
  auto const end = [&](std::size_t i) {
    return stack.at(i).isNone() ? std::nullopt : std::optional(stack.at(i).toInt());
  };
  result.slice(stack.at(2).toInt(), end(3), end(4), stack.at(5).toInt()).copy_(stack.at(1).toTensor());
  return result;
}
at::Tensor with_selection(c10::Stack const& stack) {
  at::Tensor result = stack.at(0).toTensor().clone();
  result.select(stack.at(2).toInt(), stack.at(3).toInt()).copy_(stack.at(1).toTensor());
  return result;
}

// For the node; null where its operator is right.
FunctionStep::Function function_for(Graph const& graph, Node const& node) {
  auto const* const result = node.outputs.size() == 1 ? std::get_if<TensorRef>(&node.outputs[0]) : nullptr;
  if (result == nullptr) {
    return nullptr;
  }
  if (node.target == "aten.copy.default") {
    return copied;
  }
  bool const scatters = one_of(node.target, {"aten.slice_scatter.default", "aten.select_scatter.default"});
  if (!scatters || !is_complex(graph.value(result->value).tensor.dtype)) {
    return nullptr;
  }
  return node.target == "aten.slice_scatter.default" ? with_slice : with_selection;
}

class NoStep : public Step {
 public:
  void run(Frame&) const override {}
};

// "aten.roll.default" to "aten::roll" and "".
c10::OperatorHandle find_operator(Node const& node) {
  auto const first = node.target.find('.');
  auto const second = node.target.find('.', first + 1);
  std::string const name = node.target.substr(0, first) + "::" + node.target.substr(first + 1, second - first - 1);
  std::string overload = node.target.substr(second + 1);
  if (overload == "default") {
    overload.clear();
  }
  auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found) {
    refuse_node(node, "this LibTorch has no such operator");
  }
  return *std::move(found);
}

bool fits(Argument const& result, c10::Argument const& returned) {
  bool const list = returned.type()->kind() == c10::TypeKind::ListType;
  bool const tensor = returned.type()->kind() == c10::TypeKind::TensorType;
  if (std::holds_alternative<TensorRef>(result)) {
    return tensor;
  }
  if (std::holds_alternative<Tensors>(result)) {
    return list;
  }
  return std::holds_alternative<None>(result) || (std::holds_alternative<SymbolRef>(result) && !tensor && !list);
}

std::unique_ptr<Step> make_operator_step(Graph const& graph, Node const& node, Conversion const& conversion) {
  c10::OperatorHandle handle = find_operator(node);
  c10::FunctionSchema const& schema = handle.schema();
  if (node.outputs.size() > schema.returns().size()) {
    broken_node(node, "it has " + std::to_string(schema.returns().size()) + " results, the program expects " +
                          std::to_string(node.outputs.size()));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!fits(node.outputs[i], schema.returns()[i])) {
      broken_node(node, "its result " + std::to_string(i) + " is of another kind than in the program");
    }
  }
  CallArguments arguments(graph, node, schema, conversion);
  if (auto const function = function_for(graph, node)) {
    return std::make_unique<FunctionStep>(function, std::move(arguments), std::get<TensorRef>(node.outputs[0]).value);
  }
  if (node.target.find("instance_norm") != std::string::npos) {
    return std::make_unique<StatisticsStep>(StatisticsStep::Format::contiguous, handle, std::move(arguments),
                                            node.outputs);
  }
  if (node.target.find("batch_norm") != std::string::npos) {
    return std::make_unique<StatisticsStep>(StatisticsStep::Format::of_input, handle, std::move(arguments),
                                            node.outputs);
  }
  if (node.target == "aten.native_group_norm.default") {
    return std::make_unique<DenseStep>(handle, std::move(arguments), node.outputs);
  }
  return std::make_unique<OperatorStep>(handle, std::move(arguments), node.outputs);
}

std::unique_ptr<Step> make_step(Graph const& graph, Node const& node, Conversion const& conversion) {
  auto const kind = operator_class(node.target);
  if (kind == OperatorClass::check) {
    return std::make_unique<NoStep>();
  }
  if (kind == OperatorClass::number) {
    return make_number_step(node);
  }
  if (kind == OperatorClass::subgraph) {
    return make_subgraph_step(node, conversion);
  }
  return make_operator_step(graph, node, conversion);
}

}  // namespace

void Step::bind(Sizes const&) {}

CompiledGraph::CompiledGraph(Graph const& graph, Conversion const& conversion)
    : CompiledGraph(
          graph, conversion, [](std::size_t) { return std::unique_ptr<Step>(); }, recomputed_parts(graph).of_node,
          nullptr) {}

CompiledGraph::CompiledGraph(Graph const& graph, Conversion const& conversion, StepMaker const& special,
                             std::vector<int> const& parts, std::shared_ptr<PartHooks const> hooks)
    : graph_(graph), device_(conversion.device), hooks_(std::move(hooks)) {
  for (Node const& node : graph.nodes) {
    auto step = special(steps_.size());
    step = step ? std::move(step) : make_step(graph, node, conversion);
    step = node.casts ? in_casts(*node.casts, conversion, std::move(step)) : std::move(step);
    steps_.push_back({std::move(step), tensors_of(node.outputs), {}});
  }
  find_last_uses();
  find_parts(parts);
}

void CompiledGraph::find_parts(std::vector<int> const& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 0) {
      continue;
    }
    if (i == 0 || parts[i - 1] != parts[i]) {
      parts_.emplace_back().first = i;
    }
    parts_.back().last = i + 1;
    parts_.back().communicates = parts_.back().communicates || steps_[i].step->communicates();
  }
  std::ranges::for_each(parts_, [this](Part& part) { find_values(part); });
}

// What is read from before the part, and what of its tensors is read behind it: those that no node of it has used last.
void CompiledGraph::find_values(Part& part) const {
  std::set<ValueId> own;
  std::set<ValueId> reads;
  std::set<ValueId> ended;
  for (std::size_t i = part.first; i < part.last; ++i) {
    visit_values(graph_.nodes[i].inputs, [&](ValueId id) {
      if (!own.contains(id)) {
        reads.insert(id);
      }
    });
    visit_values(graph_.nodes[i].outputs, [&](ValueId id) { own.insert(id); });
    ended.insert(steps_[i].last_used.begin(), steps_[i].last_used.end());
  }
  part.reads.assign(reads.begin(), reads.end());
  std::ranges::copy_if(own, std::back_inserter(part.results),
                       [&](ValueId id) { return !ended.contains(id) && graph_.value(id).kind == Value::Kind::tensor; });
}

void CompiledGraph::find_last_uses() {
  std::vector<std::ptrdiff_t> last(graph_.values.size(), -1);
  for (std::size_t step = 0; step < graph_.nodes.size(); ++step) {
    auto const use = [&](ValueId id) { last[static_cast<std::size_t>(id)] = static_cast<std::ptrdiff_t>(step); };
    visit_values(graph_.nodes[step].outputs, use);
    visit_values(graph_.nodes[step].inputs, use);
  }
  visit_values(graph_.outputs, [&](ValueId id) { last[static_cast<std::size_t>(id)] = -1; });
  for (std::size_t id = 0; id < last.size(); ++id) {
    if (last[id] >= 0) {
      steps_[static_cast<std::size_t>(last[id])].last_used.push_back(static_cast<ValueId>(id));
    }
  }
}

void CompiledGraph::bind(Sizes const& sizes) {
  expected_.assign(graph_.values.size(), std::nullopt);
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].kind == Value::Kind::tensor) {
      expected_[id] = sizes(graph_.values[id].tensor);
    }
  }
  for (Ready const& ready : steps_) {
    ready.step->bind(sizes);
  }
}

void CompiledGraph::bind(std::vector<std::vector<std::int64_t>> const& shapes) {
  expected_.assign(shapes.begin(), shapes.end());
}

void CompiledGraph::check_results(Ready const& ready, Frame const& frame, Node const& node) const {
  for (ValueId const id : ready.results) {
    auto const& expected = expected_[static_cast<std::size_t>(id)];
    c10::IValue const& result = frame.at(id);
    if (!expected || !result.isTensor() || !result.toTensor().defined()) {
      continue;
    }
    if (result.toTensor().sizes() != at::IntArrayRef(*expected)) {
      throw Error("FailedNode", node.describe() + ": '" + graph_.value(id).name + "' has the sizes " +
                                    c10::str(result.toTensor().sizes()) + ", the program says " +
                                    c10::str(at::IntArrayRef(*expected)));
    }
  }
}

void CompiledGraph::run_nodes(Frame& frame, std::size_t first, std::size_t last) const {
  for (std::size_t i = first; i < last; ++i) {
    Node const& node = graph_.nodes[i];
    try {
      steps_[i].step->run(frame);
    } catch (Error const&) {
      throw;
    } catch (c10::Error const& error) {
      throw Error("FailedNode", node.describe() + ": " + error.what_without_backtrace());
    } catch (std::exception const& error) {
      throw Error("FailedNode", node.describe() + ": " + error.what());
    }
    check_results(steps_[i], frame, node);
    for (ValueId const id : steps_[i].last_used) {
      frame.at(id) = c10::IValue();
    }
  }
}

std::vector<c10::IValue> CompiledGraph::run(std::vector<c10::IValue> inputs, bool training,
                                            std::shared_ptr<void const> owner) const {
  Frame frame{std::vector<c10::IValue>(graph_.values.size()), training, std::move(owner)};
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    visit_values(graph_.inputs[i], [&](ValueId id) { frame.at(id) = std::move(inputs[i]); });
  }
  std::size_t done = 0;
  for (Part const& part : parts_) {
    run_nodes(frame, done, part.first);
    run_part(
        frame, graph_, part, [this, &part](Frame& own) { run_nodes(own, part.first, part.last); }, hooks_, device_);
    done = part.last;
  }
  run_nodes(frame, done, steps_.size());
  std::vector<c10::IValue> outputs;
  for (Argument const& output : graph_.outputs) {
    c10::IValue value;
    visit_values(output, [&](ValueId id) { value = frame.at(id); });
    if (auto const* number = std::get_if<std::int64_t>(&output)) {
      value = *number;
    } else if (auto const* number_read = std::get_if<double>(&output)) {
      value = *number_read;
    }
    outputs.push_back(std::move(value));
  }
  return outputs;
}

}  // namespace graticule::program::detail
