// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/program/detail/conversion.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>

#include "run/compiled_graph.hpp"
#include "run/recompute.hpp"
#include "shard/local_graph.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace graticule::program::detail {

/// One rank's part of a plan, ready to run.
struct LocalRun {
  LocalGraph local;
  std::unique_ptr<CompiledGraph> compiled;
  std::shared_ptr<std::int64_t> draw;  ///< number of the masks of a call

  /// Collective. @param record see `TaskContext::record` @param hooks of parts that are run again
  void compile(Comm const& comm, Conversion const& conversion, std::function<void(torch::Tensor const&)> const& record,
               std::uint64_t seed, PartHooks hooks = {});
  /// This rank's part of the program's results. Collective.
  /// @param owner of this object, if a backward may run parts again
  [[nodiscard]] std::vector<torch::Tensor> run(nn::Domain const& domain, ProgramImpl& program,
                                               std::vector<torch::Tensor> const& inputs, bool training,
                                               std::shared_ptr<void const> owner) const;
};

/// @throws Error `ShapeMismatch` if the tensor has other sizes than this rank's share
void check_share(std::string const& what, torch::Tensor const& given, Shape const& share, int rank);

/// Where the results for the user are, in order; nothing for a whole one and for a number.
[[nodiscard]] std::vector<Placement> user_outputs(ExportedGraph const& program, Plan const& plan);

/// Tells the other ranks of an error of this rank alone in the middle of a call.
void announce_failed_node(nn::Domain const& domain, std::exception_ptr const& failure);

}  // namespace graticule::program::detail
