// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_run.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/program/detail/program_access.hpp>

#include "shard/tasks.hpp"

#include <span>
#include <utility>
#include <variant>

namespace graticule::program::detail {

void LocalRun::compile(Comm const& comm, Conversion const& conversion,
                       std::function<void(torch::Tensor const&)> const& record, std::uint64_t seed, PartHooks hooks) {
  auto const context = std::make_shared<TaskContext const>(TaskContext{comm, record, seed});
  draw = context->draw;
  hooks.draw = draw;
  hooks.record = record;
  TaskSteps steps(context, local, conversion);
  compiled = std::make_unique<CompiledGraph>(
      local.graph, conversion, [&](std::size_t node) { return steps.make(node); }, local.parts,
      std::make_shared<PartHooks const>(std::move(hooks)));
  compiled->bind(local.shapes);
}

std::vector<torch::Tensor> LocalRun::run(nn::Domain const& domain, ProgramImpl& program,
                                         std::vector<torch::Tensor> const& inputs, bool training,
                                         std::shared_ptr<void const> owner) const {
  auto values = ProgramAccess::inputs(program, inputs);
  values.insert(values.end(), local.constants.begin(), local.constants.end());
  if ((training && local.draws) || local.draws_always) {
    *draw = domain.num_draws();
    domain.set_num_draws(*draw + 1);
  }
  try {
    auto const outputs = compiled->run(std::move(values), training, std::move(owner));
    return ProgramAccess::finish(program, inputs, outputs);
  } catch (Error const&) {
    announce_failed_node(domain, std::current_exception());
    throw;
  }
}

void check_share(std::string const& what, torch::Tensor const& given, Shape const& share, int rank) {
  if (given.sizes() != at::IntArrayRef(share)) {
    throw Error("ShapeMismatch", what + " has the sizes " + c10::str(given.sizes()) + " on rank " +
                                     std::to_string(rank) + ", its share is " + c10::str(at::IntArrayRef(share)));
  }
}

std::vector<Placement> user_outputs(ExportedGraph const& program, Plan const& plan) {
  std::vector<Placement> result;
  std::size_t tensor = 0;
  for (OutputSpec const& output : program.outputs) {
    bool const is_tensor = std::holds_alternative<TensorRef>(output.value);
    if (output.kind == OutputSpec::Kind::user) {
      result.push_back(is_tensor ? plan.outputs.at(tensor).to : Placement());
    }
    tensor += is_tensor ? 1 : 0;
  }
  return result;
}

void announce_failed_node(nn::Domain const& domain, std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (Error const& error) {
    if (domain.comm().num_ranks() > 1 && (error.rule() == "FailedNode" || error.rule() == "OutOfMemory")) {
      auto const comms = domain.comms();
      announce_failure(std::span<Comm const>(comms), failure);
    }
  } catch (...) {
  }
}

}  // namespace graticule::program::detail
