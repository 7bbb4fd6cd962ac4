// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training {

/// Adds the state of an optimizer over the rows of sharded parameters to a checkpoint, by parameter name, each rank its
/// rows: the same fields and values as `save_optimizer` of the unsharded model, which can load them, and vice versa.
///
/// Collective. @param writer an open checkpoint @param sharded the model @param prefix of the names @param optimizer
/// over `sharded.parameters()`, or some of them: SGD, Adam, AdamW, Adagrad, RMSprop
/// @param comm the checkpoint's ranks: shard team and replicas
/// @throws `Unsupported`; `UnknownName` for a tensor that is not a sharded parameter; `ArgumentDisagreement`
void save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer,
                    ShardedParameters const& sharded, Comm const& comm, std::string const& prefix = "optimizer");

/// Loads the options, step counts and rows of moments of a checkpoint from any number of ranks. A parameter that was
/// never stepped has no state afterwards. Collective over the checkpoint's ranks, `comm`.
/// @return the names of those parameters, in the optimizer's order, the same on all ranks
/// @throws `StateMismatch` (input) on all ranks, with all mismatches; `Unsupported`, `UnknownName`
std::vector<std::string> load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                        torch::optim::Optimizer& optimizer, ShardedParameters const& sharded,
                                        std::string const& prefix = "optimizer");

}  // namespace graticule::training
