// SPDX-License-Identifier: BSD-3-Clause
#include "run/recompute.hpp"

#include "graph/nodes.hpp"
#include "run/autocast.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

namespace graticule::program::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The generators of LibTorch that operators of the graph may draw from.
std::vector<at::Generator> generators(torch::Device device) {
  std::vector<at::Generator> all{at::globalContext().defaultGenerator(torch::kCPU)};
  if (device.is_cuda()) {
    all.push_back(at::globalContext().defaultGenerator(device));
  }
  return all;
}

at::Tensor state_of(at::Generator generator) {
  std::scoped_lock const lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, at::Tensor const& state) {
  std::scoped_lock const lock(generator.mutex());
  generator.set_state(state);
}

bool is_tensor(c10::IValue const& value) { return value.isTensor() && value.toTensor().defined(); }

bool has_gradients(Dtype dtype) { return is_real(dtype) || is_complex(dtype); }

bool without_gradients(Node const& node) {
  if (node.target.starts_with("aten.detach")) {
    return true;
  }
  auto const* const on = node.target == "higher_order.wrap_with_set_grad_enabled" && !node.inputs.empty()
                             ? std::get_if<bool>(&node.inputs[0].value)
                             : nullptr;
  return on != nullptr && !*on;
}

// The results that depend on what requires a gradient.
std::vector<ValueId> differentiable_results(Frame const& frame, Graph const& graph, Part const& part) {
  std::vector<bool> depends(graph.values.size(), false);
  for (ValueId const id : part.reads) {
    depends[static_cast<std::size_t>(id)] = is_tensor(frame.at(id)) && frame.at(id).toTensor().requires_grad();
  }
  for (std::size_t i = part.first; i < part.last; ++i) {
    Node const& node = graph.nodes[i];
    bool any = false;
    visit_tensors(node.inputs, [&](ValueId id) { any = any || depends[static_cast<std::size_t>(id)]; });
    if (!any || without_gradients(node)) {
      continue;
    }
    visit_tensors(node.outputs, [&](ValueId id) {
      depends[static_cast<std::size_t>(id)] = has_gradients(graph.value(id).tensor.dtype);
    });
  }
  std::vector<ValueId> results;
  std::ranges::copy_if(part.results, std::back_inserter(results),
                       [&](ValueId id) { return depends[static_cast<std::size_t>(id)]; });
  return results;
}

/// One run of a part, and what it takes to run it again.
class PartRun {
 public:
  PartRun(Frame& frame, Part const& part, std::function<void(Frame&)> nodes, std::shared_ptr<PartHooks const> hooks,
          torch::Device device, std::vector<ValueId> const& results)
      : owner_(frame.owner),
        nodes_(std::move(nodes)),
        hooks_(std::move(hooks)),
        communicates_(part.communicates),
        device_(device),
        results_(results),
        num_values_(frame.values.size()),
        training_(frame.training),
        casts_(at::autocast::is_autocast_enabled(device.type())),
        cast_type_(at::autocast::get_autocast_dtype(device.type())) {
    for (ValueId const id : part.reads) {
      if (is_tensor(frame.at(id))) {
        tensors_.push_back(id);
        kept.push_back(frame.at(id).toTensor());
      } else {
        others_.emplace_back(id, frame.at(id));
      }
    }
  }

  /// What the part reads; handed to the graph.
  variable_list kept;

  variable_list run(Frame& frame) {
    auto sources = generators(device_);
    std::vector<at::Tensor> before;
    std::ranges::transform(sources, std::back_inserter(before), state_of);
    draw_ = hooks_ ? *hooks_->draw : 0;
    // Casts of weights are not to be kept for later operators: these were made without gradients.
    Autocast const casts(device_.type(), casts_, cast_type_, /*cached=*/false);
    nodes_(frame);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      random_.push_back(torch::equal(before[i], state_of(sources[i])) ? at::Tensor() : before[i]);
    }
    return taken(frame);
  }

  variable_list run_again(variable_list const& inputs) const {
    Frame frame{std::vector<c10::IValue>(num_values_), training_, owner_};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      frame.at(tensors_[i]) = inputs[i];
    }
    for (auto const& [id, value] : others_) {
      frame.at(id) = value;
    }
    Autocast const casts(device_.type(), casts_, cast_type_, /*cached=*/false);
    Restored const restored(*this);
    nodes_(frame);
    return taken(frame);
  }

  [[nodiscard]] variable_list unreached(variable_list const& roots) const {
    return communicates_ && hooks_ ? hooks_->unreached(roots) : variable_list();
  }
  void failed() const {
    if (hooks_) {
      hooks_->failed();
    }
  }

 private:
  // Random numbers as in the first run, and later on as if there were no second one.
  class Restored {
   public:
    explicit Restored(PartRun const& run) : run_(run), sources_(generators(run.device_)) {
      for (std::size_t i = 0; i < sources_.size(); ++i) {
        later_.push_back(run.random_[i].defined() ? state_of(sources_[i]) : at::Tensor());
        if (run.random_[i].defined()) {
          set_state(sources_[i], run.random_[i]);
        }
      }
      later_draw_ = run.hooks_ ? std::exchange(*run.hooks_->draw, run.draw_) : 0;
    }
    Restored(Restored const&) = delete;
    Restored& operator=(Restored const&) = delete;
    ~Restored() {
      for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (later_[i].defined()) {
          set_state(sources_[i], later_[i]);
        }
      }
      if (run_.hooks_) {
        *run_.hooks_->draw = later_draw_;
      }
    }

   private:
    PartRun const& run_;
    std::vector<at::Generator> sources_;
    std::vector<at::Tensor> later_;
    std::int64_t later_draw_ = 0;
  };

  [[nodiscard]] variable_list taken(Frame const& frame) const {
    variable_list values;
    for (ValueId const id : results_) {
      values.push_back(frame.at(id).toTensor());
    }
    return values;
  }

  std::shared_ptr<void const> owner_;
  std::function<void(Frame&)> nodes_;
  std::shared_ptr<PartHooks const> hooks_;
  bool communicates_;
  torch::Device device_;
  std::vector<ValueId> tensors_;                         // what is read
  std::vector<std::pair<ValueId, c10::IValue>> others_;  // numbers and nothing, likewise
  std::vector<ValueId> results_;
  std::size_t num_values_;
  bool training_;
  bool casts_;
  at::ScalarType cast_type_;
  std::int64_t draw_ = 0;
  std::vector<at::Tensor> random_;  // per generator its state before, where numbers were drawn
};

struct HeldRun : torch::CustomClassHolder {
  explicit HeldRun(std::shared_ptr<PartRun const> given) : run(std::move(given)) {}
  std::shared_ptr<PartRun const> run;
};

// The backward of a part. With a graph of its own (`create_graph`) it has the derivatives of what it computes: those
// of the part's second run, whose inputs are views of the tensors that the first one has read.
struct PartFunction : torch::autograd::Function<PartFunction> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, std::shared_ptr<PartRun> const& run,
                               Frame* frame) {
    ctx->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<HeldRun>(run));
    ctx->save_for_backward(tensors.vec());
    variable_list results;
    for (torch::Tensor const& result : run->run(*frame)) {
      results.push_back(result.detach());
    }
    auto const options = results.front().options().requires_grad(false);
    bool const real = torch::isFloatingType(results.front().scalar_type());
    // Comes second, where records of calls look for it.
    results.insert(results.begin() + 1, torch::zeros({}, real ? options : options.dtype(torch::kFloat)));
    return results;
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const capsule = ctx->saved_data["run"].toCapsule();
    PartRun const& run = *static_cast<HeldRun const&>(*capsule).run;
    auto const saved = ctx->get_saved_variables();
    bool const differentiable = torch::GradMode::is_enabled();
    torch::AutoGradMode const with_graph(true);
    variable_list inputs;
    variable_list wanted;
    for (torch::Tensor const& tensor : saved) {
      bool const needs = tensor.requires_grad();
      inputs.push_back(differentiable ? (needs ? tensor.view_as(tensor) : tensor)
                                      : tensor.detach().requires_grad_(needs));
      if (needs) {
        wanted.push_back(inputs.back());
      }
    }
    variable_list outputs;
    try {
      outputs = run.run_again(inputs);
    } catch (...) {
      run.failed();
      throw;
    }
    variable_list roots;
    variable_list root_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        root_grads.push_back(grads[i == 0 ? 0 : i + 1]);
      }
    }
    for (torch::Tensor const& token : run.unreached(roots)) {
      roots.push_back(token);
      root_grads.push_back(torch::zeros_like(token));
    }
    variable_list found(wanted.size());
    if (!roots.empty()) {
      found = torch::autograd::grad(roots, wanted, root_grads, std::nullopt, differentiable, /*allow_unused=*/true);
    }
    variable_list result;
    std::size_t next = 0;
    for (torch::Tensor const& tensor : saved) {
      result.push_back(tensor.requires_grad() ? found[next++] : torch::Tensor());
    }
    result.resize(saved.size() + 2);
    return result;
  }
};

}  // namespace

void run_part(Frame& frame, Graph const& graph, Part const& part, std::function<void(Frame&)> const& nodes,
              std::shared_ptr<PartHooks const> const& hooks, torch::Device device) {
  bool const recorded = torch::GradMode::is_enabled() && frame.owner;
  auto const results = recorded ? differentiable_results(frame, graph, part) : std::vector<ValueId>();
  torch::Tensor node;
  if (results.empty()) {
    nodes(frame);
    node = torch::zeros({});
  } else {
    auto const run = std::make_shared<PartRun>(frame, part, nodes, hooks, device, results);
    auto const kept = std::exchange(run->kept, {});
    auto values = PartFunction::apply(at::TensorList(kept), run, &frame);
    values.erase(values.begin() + 1);
    for (std::size_t i = 0; i < results.size(); ++i) {
      frame.at(results[i]) = values[i];
    }
    node = values.front();
  }
  if (recorded && part.communicates && hooks) {
    hooks->record(node);
  }
}

}  // namespace graticule::program::detail
