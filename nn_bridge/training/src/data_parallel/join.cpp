// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/data_parallel/join.hpp>

#include "wrapper_impl.hpp"

#include <algorithm>

namespace graticule::training {

namespace {

/// Tensors of the rank that has the largest number (of several, the last one) on all ranks of the team.
void take_from_last(Comm const& team, Index number, nn::NamedTensors const& tensors) {
  auto const numbers = team.gather_to_all(number);
  auto const last = std::max_element(numbers.rbegin(), numbers.rend());
  nn::detail::broadcast_replicas(team, tensors, int(numbers.rend() - last) - 1);
}

}  // namespace

Join::Join(DataParallel& parallel, JoinOptions options) : parallel_(parallel) {
  if (parallel.impl().syncs_buffers())
    throw Error("Unsupported", "ranks without batches make no steps, so their buffers cannot be kept equal");
  parallel.impl().apply_all();
  parallel.impl().reducer().begin_join(parallel.impl().default_rules(), options);
}

Join::~Join() { parallel_.impl().reducer().end_join(); }

void Join::finish() {
  auto& impl = parallel_.impl();
  auto& reducer = impl.reducer();
  impl.apply_all();
  auto const num_own = reducer.num_begun();
  try {
    for (bool others = true; others;) {
      try {
        others = reducer.shadow();
      } catch (Error const& error) {
        // Those that have batches come together again, and may go on.
        if (error.rule() != "PeerFailed") throw;
        impl.recover(std::current_exception());
      }
    }
  } catch (...) {
    reducer.end_join();
    throw;
  }
  reducer.end_join();
  for (auto const& parameter : reducer.buckets().parameters())
    for (auto const& rule : parameter.rules)
      take_from_last(reducer.teams()[rule.team], num_own, {{parameter.name, parameter.tensor}});
  for (auto const& team : impl.default_teams()) take_from_last(team, num_own, impl.buffers());
}

}  // namespace graticule::training
