// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "run/autocast.hpp"
#include "run/compiled_graph.hpp"

#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::program::detail {

namespace {

struct AutocastMode {
  bool enabled;
  std::optional<torch::ScalarType> dtype;
  bool cached;
};
struct GradMode {
  bool enabled;
};
using Mode = std::variant<AutocastMode, GradMode>;

// Conversions of one node: f64 has no automatic casts, so they are off there.
class CastStep : public Step {
 public:
  CastStep(at::DeviceType device, AutocastMode mode, std::unique_ptr<Step> step)
      : device_(device), mode_(mode), step_(std::move(step)) {}

  void bind(Sizes const& sizes) override { step_->bind(sizes); }
  [[nodiscard]] bool communicates() const override { return step_->communicates(); }

  void run(Frame& frame) const override {
    Autocast const guard(device_, mode_.enabled, mode_.dtype, mode_.cached);
    step_->run(frame);
  }

 private:
  at::DeviceType device_;
  AutocastMode mode_;
  std::unique_ptr<Step> step_;
};

class SubgraphStep : public Step {
 public:
  SubgraphStep(std::shared_ptr<Graph const> graph, Conversion const& conversion, Mode mode,
               std::vector<std::optional<ValueId>> operands, std::vector<Argument> results)
      : graph_(std::move(graph)),
        compiled_(*graph_, conversion),
        device_(conversion.device.type()),
        mode_(mode),
        operands_(std::move(operands)),
        results_(std::move(results)) {}

  void bind(Sizes const& sizes) override { compiled_.bind(sizes); }

  void run(Frame& frame) const override {
    std::vector<c10::IValue> inputs;
    for (auto const& operand : operands_) {
      inputs.push_back(operand ? frame.at(*operand) : c10::IValue());
    }
    std::vector<c10::IValue> outputs = run_in_mode(std::move(inputs), frame);
    std::size_t next = 0;
    for (Argument const& result : results_) {
      if (auto const* tensors = std::get_if<Tensors>(&result)) {
        for (TensorRef const one : *tensors) {
          frame.at(one.value) = std::move(outputs.at(next++));
        }
      } else if (auto const* tensor = std::get_if<TensorRef>(&result)) {
        frame.at(tensor->value) = std::move(outputs.at(next++));
      } else {
        ++next;
      }
    }
  }

 private:
  [[nodiscard]] std::vector<c10::IValue> run_in_mode(std::vector<c10::IValue> inputs, Frame const& frame) const {
    if (auto const* grad = std::get_if<GradMode>(&mode_)) {
      at::AutoGradMode const guard(grad->enabled && at::GradMode::is_enabled());
      return compiled_.run(std::move(inputs), frame.training, frame.owner);
    }
    auto const& cast = std::get<AutocastMode>(mode_);
    Autocast const guard(device_, cast.enabled, cast.dtype, cast.cached);
    return compiled_.run(std::move(inputs), frame.training, frame.owner);
  }

  std::shared_ptr<Graph const> graph_;
  CompiledGraph compiled_;
  at::DeviceType device_;
  Mode mode_;
  std::vector<std::optional<ValueId>> operands_;
  std::vector<Argument> results_;
};

[[noreturn]] void another_form(Node const& node) {
  broken_node(node, "its arguments are of another form than this library knows");
}

template <class T>
T const& argument_at(Node const& node, std::size_t position) {
  T const* const value = position < node.inputs.size() ? std::get_if<T>(&node.inputs[position].value) : nullptr;
  if (value == nullptr) {
    another_form(node);
  }
  return *value;
}

AutocastMode mode_of(Node::Casts const& casts, Conversion const& conversion) {
  bool const wide = conversion.target == torch::kFloat64;
  AutocastMode mode{casts.enabled && !wide, std::nullopt, casts.cached};
  if (casts.dtype != Dtype::unknown) {
    mode.dtype = wide ? torch::kFloat32 : conversion(casts.dtype);
  }
  return mode;
}

// (device, type or none, enabled, cached, graph, operands...); f64 has no automatic casts, so they are off there.
Mode autocast_mode(Node const& node, Conversion const& conversion) {
  (void)argument_at<std::string>(node, 0);
  bool const enabled = argument_at<bool>(node, 2);
  auto const* const dtype = std::get_if<Dtype>(&node.inputs[1].value);
  auto const* const cached = node.inputs.size() > 3 ? std::get_if<bool>(&node.inputs[3].value) : nullptr;
  return mode_of({enabled, dtype == nullptr ? Dtype::unknown : *dtype, cached == nullptr || *cached}, conversion);
}

}  // namespace

std::unique_ptr<Step> in_casts(Node::Casts const& casts, Conversion const& conversion, std::unique_ptr<Step> step) {
  return std::make_unique<CastStep>(conversion.device.type(), mode_of(casts, conversion), std::move(step));
}

std::unique_ptr<Step> make_subgraph_step(Node const& node, Conversion const& conversion) {
  bool const autocast = node.target == "higher_order.wrap_with_autocast";
  Mode const mode = autocast ? autocast_mode(node, conversion) : Mode(GradMode{argument_at<bool>(node, 0)});
  std::size_t const place = autocast ? 4 : 1;
  auto const& subgraph = argument_at<SubgraphRef>(node, place);
  std::vector<std::optional<ValueId>> operands;
  for (std::size_t i = place + 1; i < node.inputs.size(); ++i) {
    Argument const& argument = node.inputs[i].value;
    if (auto const* tensor = std::get_if<TensorRef>(&argument)) {
      operands.emplace_back(tensor->value);
    } else if (auto const* symbol = std::get_if<SymbolRef>(&argument)) {
      operands.emplace_back(symbol->value);
    } else if (std::holds_alternative<None>(argument)) {
      operands.emplace_back(std::nullopt);
    } else {
      another_form(node);
    }
  }
  std::size_t results = 0;
  for (Argument const& output : node.outputs) {
    auto const* tensors = std::get_if<Tensors>(&output);
    results += tensors != nullptr ? tensors->size() : 1;
  }
  if (operands.size() != subgraph.graph->inputs.size() || results > subgraph.graph->outputs.size()) {
    another_form(node);
  }
  return std::make_unique<SubgraphStep>(subgraph.graph, conversion, mode, std::move(operands), node.outputs);
}

}  // namespace graticule::program::detail
