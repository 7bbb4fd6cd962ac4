// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/hash.hpp>
#include <graticule/program/operators.hpp>
#include <graticule/program/sharded_program.hpp>

#include "module/program_access.hpp"
#include "run/compiled_graph.hpp"
#include "shard/local_graph.hpp"
#include "shard/tasks.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace graticule::program {

namespace {

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

struct ShardedProgramImpl::SetUp {
  Plan plan;
  detail::LocalGraph local;
  std::unique_ptr<detail::CompiledGraph> compiled;
  std::shared_ptr<std::int64_t> draw;  ///< number of the masks of a call
};

class ShardedProgramImpl::Calls : public nn::detail::LayerState<SetUp> {
 public:
  using LayerState::LayerState;
};

ShardedProgramImpl::ShardedProgramImpl(Program program, nn::Domain const& domain, ShardOptions const& options)
    : torch::nn::Module("ShardedProgram"), program_(std::move(program)), domain_(domain), options_(options) {
  auto const& grid = domain.grid();
  if (grid.extent(0) > 1 && grid.extent(1) > 1) {
    throw Error("Unsupported", "an exported network is cut along latitude or along longitude, not both");
  }
  field_axis_ = grid.extent(1) > 1 ? -1 : -2;
  auto const first = first_field(program_->graph());
  if (!first) {
    throw Error(Fault::input, "RefusedProgram", "refused: the network has no input with rows and columns to cut");
  }
  first_field_ = *first;
  for (auto const& child : program_->named_children()) {
    register_module(child.key(), child.value());
  }
  for (auto const& parameter : program_->named_parameters(/*recurse=*/false)) {
    register_parameter(parameter.key(), parameter.value(), parameter.value().requires_grad());
  }
  for (auto const& buffer : program_->named_buffers(/*recurse=*/false)) {
    register_buffer(buffer.key(), buffer.value());
  }
  calls_ = std::make_shared<Calls>(domain_, "ShardedProgram", domain_.sharding());
}

void ShardedProgramImpl::plan_for(std::vector<Shape> const& whole, std::vector<std::int64_t> const& parts) {
  Comm const& comm = domain_.comm();
  auto const ids = user_inputs(program_->graph());
  Shape first;
  std::int64_t extent = 0;
  run_agreed(comm, [&] {
    if (whole.size() != ids.size() || whole[first_field_].size() < 2) {
      throw Error("ShapeMismatch",
                  "the program takes " + std::to_string(ids.size()) + " inputs, of which a field has rows and columns");
    }
    first = whole[first_field_];
    extent = first[first.size() - place(-field_axis_)];
    if (place(comm.num_ranks()) != parts.size() ||
        std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != extent) {
      throw Error("BadCuts", "the parts " + c10::str(at::IntArrayRef(parts)) + " are not those of " +
                                 std::to_string(comm.num_ranks()) + " ranks and " + std::to_string(extent) + " cells");
    }
  });
  auto const conversion = detail::ProgramAccess::conversion(*program_);
  std::vector<torch::Tensor> inputs;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Shape own = whole[i];
    if (is_field(own.size(), first.size())) {
      std::int64_t& cells = own[own.size() - place(-field_axis_)];
      cells = cells == extent ? parts[place(comm.rank())] : balanced_cuts(cells, comm.num_ranks()).size(comm.rank());
    }
    auto const type = conversion(program_->graph().graph.value(ids[i]).tensor.dtype);
    inputs.push_back(torch::zeros({}, torch::dtype(type).device(conversion.device)).expand(own));
  }
  auto const cut = Cuts(parts);
  bool const rows = field_axis_ == -2;
  auto const other = Cuts{first[first.size() - (rows ? 1 : 2)]};
  (void)set_up(inputs, Layout(domain_.grid(), rows ? std::vector<Cuts>{cut, other} : std::vector<Cuts>{other, cut}));
}

void ShardedProgramImpl::reset_structure() { calls_->reset_structure(); }

Plan const& ShardedProgramImpl::plan() const {
  if (!latest_) {
    throw Error("WrongState", "a sharded program has a plan after its first forward");
  }
  return latest_->plan;
}

torch::Tensor ShardedProgramImpl::forward(torch::Tensor const& input) {
  std::vector<torch::Tensor> outputs = run({input});
  if (outputs.size() != 1) {
    throw Error("Unsupported", "the program has " + std::to_string(outputs.size()) + " outputs; call run");
  }
  return std::move(outputs[0]);
}

// The sum of the ranks' rows for fields; collective for all but the first.
std::vector<Shape> ShardedProgramImpl::whole_shapes(std::vector<torch::Tensor> const& inputs,
                                                    Layout const& layout) const {
  auto const first_ndim = place(inputs[first_field_].dim());
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = inputs[i].sizes().vec();
    if (i == first_field_) {
      shape[shape.size() - 2] = layout.extent(0);
      shape[shape.size() - 1] = layout.extent(1);
    } else if (is_field(shape.size(), first_ndim)) {
      std::int64_t& rows = shape[shape.size() - place(-field_axis_)];
      auto const all = domain_.comm().gather_to_all(rows);
      rows = std::accumulate(all.begin(), all.end(), std::int64_t{0});
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::shared_ptr<ShardedProgramImpl::SetUp const> ShardedProgramImpl::set_up(std::vector<torch::Tensor> const& inputs,
                                                                            Layout const& layout) {
  Comm const& comm = domain_.comm();
  auto const shapes = whole_shapes(inputs, layout);
  Hash hash;
  for (Shape const& shape : shapes) {
    hash.add(shape);
  }
  require_same(comm, "StructureDisagreement", hash.value(), "the sizes of the whole inputs");
  auto result = std::make_shared<SetUp>();
  auto const conversion = detail::ProgramAccess::conversion(*program_);
  run_agreed(comm, [&] {
    Sizes const sizes(program_->graph(), shapes);
    PlanOptions options;
    options.num_ranks = comm.num_ranks();
    options.field_axis = field_axis_;
    options.largest_gather = options_.largest_gather;
    options.costs = options_.costs;
    options.bounds = {0};
    Cuts const* const cuts = layout.cuts(field_axis_ == -2 ? 0 : 1);
    for (int part = 0; part < cuts->num_parts(); ++part) {
      options.bounds.push_back(options.bounds.back() + cuts->size(part));
    }
    result->plan = plan_layout(program_->graph(), sizes, options);
    auto const ids = user_inputs(program_->graph());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape const own = local_shape(shapes[i], result->plan.inputs[place(result->plan.user_inputs.at(i))], comm.rank());
      if (own != inputs[i].sizes().vec()) {
        throw Error("ShapeMismatch", "input '" + program_->graph().graph.value(ids[i]).name + "' has the sizes " +
                                         c10::str(inputs[i].sizes()) + " on rank " + std::to_string(comm.rank()) +
                                         ", its share is " + c10::str(at::IntArrayRef(own)));
      }
    }
    result->local = detail::local_graph(result->plan, sizes, conversion, comm.rank());
  });
  auto const context = std::make_shared<detail::TaskContext const>(detail::TaskContext{
      comm, [calls = calls_.get()](torch::Tensor const& output) { (void)calls->record(output); }, options_.seed});
  result->draw = context->draw;
  detail::TaskSteps steps(context, result->local, conversion);
  result->compiled = std::make_unique<detail::CompiledGraph>(result->local.graph, conversion,
                                                             [&](std::size_t node) { return steps.make(node); });
  result->compiled->bind(result->local.shapes);
  return result;
}

// Whether an input requires a gradient is the same on all ranks, so that all have the same nodes.
std::vector<torch::Tensor> ShardedProgramImpl::with_gradients(std::vector<torch::Tensor> const& inputs,
                                                              bool first_requires) const {
  bool const grad_mode = torch::GradMode::is_enabled();
  std::vector<Index> wanted;
  for (torch::Tensor const& input : inputs) {
    wanted.push_back(grad_mode && input.requires_grad() ? 1 : 0);
  }
  wanted[first_field_] = first_requires ? 1 : 0;
  if (inputs.size() > 1 && domain_.comm().num_ranks() > 1) {
    domain_.comm().max(std::span<Index>(wanted));
  }
  std::vector<torch::Tensor> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bool const missing = wanted[i] != 0 && !inputs[i].requires_grad();
    result.push_back(missing ? inputs[i].detach().requires_grad_() : inputs[i]);
  }
  return result;
}

std::vector<torch::Tensor> ShardedProgramImpl::run(std::vector<torch::Tensor> const& inputs) {
  auto const check = [&] {
    auto const ids = user_inputs(program_->graph());
    if (inputs.size() != ids.size()) {
      throw Error("ShapeMismatch",
                  "the program takes " + std::to_string(ids.size()) + " inputs, not " + std::to_string(inputs.size()));
    }
    (void)detail::ProgramAccess::inputs(*program_, inputs);
    if (inputs[first_field_].dim() < 2) {
      throw Error("ShapeMismatch", "a field has rows and columns");
    }
  };
  auto const structure = [&](torch::Tensor const&) {
    std::vector<Index> numbers{is_training() ? 1 : 0};
    for (torch::Tensor const& input : inputs) {
      auto const own = nn::detail::structure_of(input);
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    return numbers;
  };
  auto const more = Hash().add(static_cast<int>(program_->dtype())).add(static_cast<int>(program_->device().type()));
  torch::Tensor const x = first_field_ < inputs.size() ? inputs[first_field_] : torch::Tensor();
  auto const call = calls_->enter(
      x, check, [&](Layout const& layout) { return set_up(inputs, layout); }, false, more.value(), structure);
  latest_ = call.set_up;
  auto const own = with_gradients(inputs, call.input_grad);
  auto values = detail::ProgramAccess::inputs(*program_, own);
  for (torch::Tensor const& constant : latest_->local.constants) {
    values.emplace_back(constant);
  }
  if (is_training() && latest_->local.draws) {
    *latest_->draw = nn::num_draws(domain_);
    nn::set_num_draws(domain_, *latest_->draw + 1);
  }
  std::vector<c10::IValue> outputs;
  try {
    outputs = latest_->compiled->run(std::move(values), is_training());
  } catch (Error const& error) {
    if (domain_.comm().num_ranks() > 1 && (error.rule() == "FailedNode" || error.rule() == "OutOfMemory")) {
      auto const comms = domain_.comms();
      announce_failure(std::span<Comm const>(comms), std::current_exception());
    }
    throw;
  }
  return detail::ProgramAccess::finish(*program_, own, outputs);
}

void ShardedProgramImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  program_->to(device, dtype, non_blocking);
}
void ShardedProgramImpl::to(torch::Dtype dtype, bool non_blocking) { program_->to(dtype, non_blocking); }
void ShardedProgramImpl::to(torch::Device device, bool non_blocking) { program_->to(device, non_blocking); }

std::shared_ptr<torch::nn::Module> ShardedProgramImpl::clone(std::optional<torch::Device> const& device) const {
  auto copy = std::make_shared<ShardedProgramImpl>(
      Program(std::dynamic_pointer_cast<ProgramImpl>(program_->clone(device))), domain_, options_);
  copy->train(is_training());
  return copy;
}

}  // namespace graticule::program
