// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_run.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/partition/failure.hpp>

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

void LocalRun::take_draw(nn::Domain const& domain, bool training) const {
  if ((training && local.draws) || local.draws_always) {
    *draw = domain.num_draws();
    domain.set_num_draws(*draw + 1);
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
