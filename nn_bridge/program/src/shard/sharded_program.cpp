// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/device_mask.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/program_access.hpp>
#include <graticule/program/sharded_program.hpp>

#include "layout/cut_moves.hpp"
#include "shard/local_run.hpp"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

namespace graticule::program {

namespace {

// Where the parts begin, and the end.
std::vector<std::int64_t> bounds_of(Cuts const& cuts) {
  std::vector<std::int64_t> bounds{0};
  for (int part = 0; part < cuts.num_parts(); ++part) {
    bounds.push_back(bounds.back() + cuts.size(part));
  }
  return bounds;
}

}  // namespace

struct ShardedProgramImpl::SetUp : detail::LocalRun {
  Plan plan;
};

class ShardedProgramImpl::Calls : public nn::detail::LayerState<SetUp> {
 public:
  using LayerState::LayerState;
};

ShardedProgramImpl::ShardedProgramImpl(Program program, nn::Domain const& domain, ShardOptions const& options)
    : torch::nn::Module("ShardedProgram"), program_(std::move(program)), domain_(domain), options_(options) {
  auto const& grid = domain.grid();
  blocks_ = grid.extent(0) > 1 && grid.extent(1) > 1;
  field_axis_ = grid.extent(1) > 1 && !blocks_ ? -1 : -2;
  auto const first = first_field(program_->graph(), options.fields);
  if (!first) {
    throw Error(Fault::input, "RefusedProgram", "refused: the network has no input with rows and columns to cut");
  }
  first_field_ = *first;
  fields_ = field_inputs(program_->graph(), options.fields);
  for (auto const& child : program_->named_children()) {
    register_module(child.key(), child.value());
  }
  for (auto const& parameter : program_->named_parameters(/*recurse=*/false)) {
    register_parameter(parameter.key(), parameter.value(), parameter.value().requires_grad());
  }
  for (auto const& buffer : program_->named_buffers(/*recurse=*/false)) {
    register_buffer(buffer.key(), buffer.value());
  }
  if (blocks_) {
    make_movers();
  }
  calls_ = std::make_shared<Calls>(domain_, "ShardedProgram", own_sharding());
}

// Between the caller's blocks and bands, one per field.
void ShardedProgramImpl::make_movers() {
  auto const& graph = program_->graph().graph;
  auto const ids = user_inputs(program_->graph());
  auto const first_ndim = graph.value(ids[first_field_]).tensor.sizes.size();
  auto const mover = [&](bool field, nn::Sharding const& from, nn::Sharding const& to) {
    return field ? nn::Repartition(nn::RepartitionOptions{.from = from, .to = to}, domain_) : nn::Repartition(nullptr);
  };
  for (bool const field : fields_) {
    to_bands_.push_back(mover(field, domain_.sharding(), own_sharding()));
  }
  for (OutputSpec const& output : program_->graph().outputs) {
    auto const* const tensor = std::get_if<TensorRef>(&output.value);
    if (output.kind == OutputSpec::Kind::user_input_mutation) {
      throw Error("Unsupported", "the network overwrites its input '" + output.name +
                                     "', which a domain of blocks would not see; cut rows or columns alone");
    }
    if (output.kind == OutputSpec::Kind::user) {
      bool const field = tensor != nullptr && is_field(graph.value(tensor->value).tensor.sizes.size(), first_ndim);
      to_blocks_.push_back(mover(field, own_sharding(), domain_.sharding()));
    }
  }
}

// The division in which the network is planned.
nn::Sharding ShardedProgramImpl::own_sharding() const {
  return blocks_ ? nn::Sharding{{-2, -1}, ProcessGrid{domain_.comm().num_ranks(), 1}} : domain_.sharding();
}

std::vector<torch::Tensor> ShardedProgramImpl::in_bands(std::vector<torch::Tensor> const& blocks) {
  std::vector<torch::Tensor> bands;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    bool const moves = i < to_bands_.size() && !to_bands_[i].is_empty();
    bands.push_back(moves ? to_bands_[i]->forward(blocks[i]) : blocks[i]);
  }
  has_moved_ = true;
  return bands;
}

// On the grid of the first field as the caller's blocks of it, on others in balanced blocks. Values that do not depend
// on an input are whole.
std::vector<torch::Tensor> ShardedProgramImpl::in_blocks(std::vector<torch::Tensor> const& bands) {
  auto const& first = *to_bands_[first_field_];
  std::vector<torch::Tensor> blocks = bands;
  std::size_t tensor = 0;
  std::size_t user = 0;
  for (OutputSpec const& output : program_->graph().outputs) {
    bool const is_tensor = std::holds_alternative<TensorRef>(output.value);
    if (output.kind == OutputSpec::Kind::user) {
      torch::Tensor const& y = bands.at(user);
      Placement const cut = is_tensor ? latest_->plan.outputs.at(tensor).to : Placement();
      if (cut && !to_blocks_.at(user).is_empty()) {
        bool const alike = latest_->plan.shapes[index(latest_->plan.outputs[tensor].value)][index(y.dim() - 2)] ==
                               first.after(-2).extent() &&
                           y.size(-1) == first.after(-1).extent();
        blocks[user] = alike ? to_bands_[first_field_]->back(y) : to_blocks_[user]->forward(y);
      }
      ++user;
    }
    tensor += is_tensor ? 1 : 0;
  }
  return blocks;
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
    extent = first[first.size() - index(-field_axis_)];
    if (index(comm.num_ranks()) != parts.size() ||
        std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != extent) {
      throw Error("BadCuts", "the parts " + c10::str(at::IntArrayRef(parts)) + " are not those of " +
                                 std::to_string(comm.num_ranks()) + " ranks and " + std::to_string(extent) + " cells");
    }
  });
  auto const conversion = detail::ProgramAccess::conversion(*program_);
  std::vector<torch::Tensor> inputs;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Shape own = whole[i];
    if (fields_[i]) {
      std::int64_t& cells = own[own.size() - index(-field_axis_)];
      cells = cells == extent ? parts[index(comm.rank())] : balanced_cuts(cells, comm.num_ranks()).size(comm.rank());
    }
    auto const type = conversion(program_->graph().graph.value(ids[i]).tensor.dtype);
    inputs.push_back(torch::zeros({}, torch::dtype(type).device(conversion.device)).expand(own));
  }
  auto const cut = Cuts(parts);
  bool const rows = field_axis_ == -2;
  auto const other = Cuts{first[first.size() - (rows ? 1 : 2)]};
  (void)set_up(inputs,
               Layout(own_sharding().grid, rows ? std::vector<Cuts>{cut, other} : std::vector<Cuts>{other, cut}));
}

void ShardedProgramImpl::reset_structure() {
  repeated_.clear();
  weights_compared_ = false;
  calls_->reset_structure();
  for (auto* const movers : {&to_bands_, &to_blocks_}) {
    for (nn::Repartition& mover : *movers) {
      if (!mover.is_empty()) {
        mover->reset_structure();
      }
    }
  }
}

Plan const& ShardedProgramImpl::plan() const {
  if (!latest_) {
    throw Error("WrongState", "a sharded program has a plan after its first forward");
  }
  return latest_->plan;
}

std::vector<Placement> ShardedProgramImpl::outputs() const { return detail::user_outputs(program_->graph(), plan()); }

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
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = inputs[i].sizes().vec();
    if (i == first_field_) {
      shape[shape.size() - 2] = layout.extent(0);
      shape[shape.size() - 1] = layout.extent(1);
    } else if (fields_[i]) {
      std::int64_t& rows = shape[shape.size() - index(-field_axis_)];
      auto const all = domain_.comm().gather_to_all(rows);
      rows = std::accumulate(all.begin(), all.end(), std::int64_t{0});
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// Those of the latest call; balanced before any, and for other sizes.
BlockCuts ShardedProgramImpl::block_cuts(Layout const& bands) const {
  auto const& mover = to_bands_[first_field_];
  BlockCuts result;
  for (int axis : {0, 1}) {
    bool const known = has_moved_ && mover->before(axis - 2).extent() == bands.extent(axis);
    Cuts const cuts =
        known ? mover->before(axis - 2).cuts : balanced_cuts(bands.extent(axis), domain_.grid().extent(axis));
    (axis == 0 ? result.rows : result.columns) = bounds_of(cuts);
  }
  return result;
}

// The sizes that do not fit are those of the whole fields, which no rank has seen.
Sizes ShardedProgramImpl::sizes_of_all(std::vector<Shape> const& whole, Layout const& layout) const {
  try {
    return Sizes(program_->graph(), whole);
  } catch (Error const& error) {
    if (domain_.comm().num_ranks() == 1) {
      throw;
    }
    std::string own = "each rank gives its block of it";
    if (!blocks_) {
      Cuts const* const cuts = layout.cuts(field_axis_ == -2 ? 0 : 1);
      own = "the ranks give ";
      for (int part = 0; part < cuts->num_parts(); ++part) {
        own += (part > 0 ? " + " : "") + std::to_string(cuts->size(part));
      }
      own += field_axis_ == -2 ? " rows of the first one" : " columns of the first one";
    }
    throw Error(error.fault(), error.rule(), error.text() + " (these are the sizes of the whole field: " + own + ")");
  }
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
    Sizes const sizes = sizes_of_all(shapes, layout);
    PlanOptions options;
    options.num_ranks = comm.num_ranks();
    options.field_axis = field_axis_;
    options.largest_gather = options_.largest_gather;
    options.costs = options_.costs;
    options.fields = fields_;
    options.bounds = bounds_of(*layout.cuts(field_axis_ == -2 ? 0 : 1));
    if (blocks_) {
      options.blocks = block_cuts(layout);
    }
    result->plan = plan_layout(program_->graph(), sizes, options);
    auto const ids = user_inputs(program_->graph());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape const own = local_shape(shapes[i], result->plan.inputs[index(result->plan.user_inputs.at(i))], comm.rank());
      detail::check_share("input '" + program_->graph().graph.value(ids[i]).name + "'", inputs[i], own, comm.rank());
    }
    result->local = detail::local_graph(result->plan, sizes, conversion, comm.rank());
  });
  // A backward that runs parts again may outlive this module.
  auto const record = [calls = std::weak_ptr(calls_)](torch::Tensor const& output) {
    if (auto const alive = calls.lock()) {
      (void)alive->record(output);
    }
  };
  detail::PartHooks hooks;
  hooks.unreached = [domain = domain_](std::vector<torch::Tensor> const& roots) {
    return nn::detail::unreached_calls(domain, roots);
  };
  hooks.failed = [domain = domain_] { detail::announce_failed_node(domain, std::current_exception()); };
  result->compile(comm, conversion, record, options_.seed, std::move(hooks));
  return result;
}

// Ranks that read other files or start from other random numbers would compute parts of other networks.
void ShardedProgramImpl::compare_weights() {
  if (weights_compared_) {
    return;
  }
  nn::NamedTensors weights;
  auto const& tensors = detail::ProgramAccess::tensors(*program_);
  for (InputSpec const& input : program_->graph().inputs) {
    if (input.kind != InputSpec::Kind::user) {
      weights.emplace_back((input.kind == InputSpec::Kind::parameter ? "parameter " : "buffer ") + input.name,
                           tensors.at(input.name));
    }
  }
  try {
    nn::require_same_bits(domain_.comm(), weights);
  } catch (Error const& error) {
    throw Error(error.fault(), error.rule(),
                "the program has other weights on other ranks (" + error.text() +
                    "); read the same file on all ranks, or send the weights from one of them");
  }
  weights_compared_ = true;
}

// Whether an input requires a gradient is the same on all ranks, so that all have the same nodes.
std::vector<Index> ShardedProgramImpl::wanted_gradients(std::vector<torch::Tensor> const& inputs,
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
  return wanted;
}

// What a call has to be like to repeat another.
std::vector<Index> ShardedProgramImpl::call_structure(std::vector<torch::Tensor> const& inputs) const {
  std::vector<Index> numbers{is_training() ? 1 : 0, torch::GradMode::is_enabled() ? 1 : 0, Index(program_->dtype()),
                             Index(program_->device().type()), Index(domain_.comm().generation())};
  for (torch::Tensor const& input : inputs) {
    numbers.push_back(input.defined() ? input.dim() : -1);
    if (input.defined()) {
      numbers.insert(numbers.end(), input.sizes().begin(), input.sizes().end());
      numbers.push_back(Index(input.scalar_type()));
      numbers.push_back(Index(input.device().type()));
      numbers.push_back(input.requires_grad() ? 1 : 0);
    }
  }
  return numbers;
}

bool ShardedProgramImpl::repeats(std::vector<torch::Tensor> const& inputs) const {
  return !repeated_.empty() && repeated_ == call_structure(inputs);
}

std::vector<torch::Tensor> ShardedProgramImpl::run(std::vector<torch::Tensor> const& inputs) {
  return run(inputs, domain_.call_checks() == nn::CallChecks::new_structures && repeats(inputs));
}

std::vector<torch::Tensor> ShardedProgramImpl::run_again(std::vector<torch::Tensor> const& inputs) {
  auto const checks = domain_.call_checks();
  domain_.set_call_checks(nn::CallChecks::new_structures);
  auto const restore = c10::make_scope_exit([&] { domain_.set_call_checks(checks); });
  return run(inputs, true);
}

std::vector<torch::Tensor> ShardedProgramImpl::run(std::vector<torch::Tensor> const& given, bool again) {
  repeated_.clear();
  auto const inputs = blocks_ ? in_bands(given) : given;
  auto const check = [&] {
    auto const ids = user_inputs(program_->graph());
    if (inputs.size() != ids.size()) {
      throw Error("ShapeMismatch",
                  "the program takes " + std::to_string(ids.size()) + " inputs, not " + std::to_string(inputs.size()));
    }
    (void)detail::ProgramAccess::inputs(*program_, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (fields_[i] && inputs[i].dim() < 2) {
        throw Error("ShapeMismatch", "the input '" + program_->graph().graph.value(ids[i]).name +
                                         "' is a field and has " + std::to_string(inputs[i].dim()) +
                                         " axes instead of rows and columns");
      }
    }
    if (is_training()) {
      nn::detail::check_mask_device(inputs[first_field_]);
    }
  };
  auto const structure = [&](torch::Tensor const&) {
    std::vector<Index> numbers{is_training() ? 1 : 0};
    for (torch::Tensor const& input : inputs) {
      auto const own = nn::detail::structure_of(input);
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    for (torch::Tensor const& block : blocks_ ? given : std::vector<torch::Tensor>()) {
      numbers.insert(numbers.end(), block.sizes().begin(), block.sizes().end());
    }
    return numbers;
  };
  auto const more = Hash().add(static_cast<int>(program_->dtype())).add(static_cast<int>(program_->device().type()));
  torch::Tensor const x = first_field_ < inputs.size() ? inputs[first_field_] : torch::Tensor();
  auto const first_set_up = [&](Layout const& layout) {
    compare_weights();
    return set_up(inputs, layout);
  };
  auto const call = calls_->enter(x, check, first_set_up, false, more.value(), structure);
  latest_ = call.set_up;
  if (!again) {
    wanted_ = wanted_gradients(inputs, call.input_grad);
  }
  std::vector<torch::Tensor> own;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bool const missing = wanted_[i] != 0 && !inputs[i].requires_grad();
    own.push_back(missing ? inputs[i].detach().requires_grad_() : inputs[i]);
  }
  auto results = latest_->run(domain_, *program_, own, is_training(), latest_);
  if (blocks_) {
    results = in_blocks(results);
  }
  repeated_ = call_structure(given);
  return results;
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
