// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_run.hpp"

#include "shard/tasks.hpp"

#include <utility>

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

}  // namespace graticule::program::detail
