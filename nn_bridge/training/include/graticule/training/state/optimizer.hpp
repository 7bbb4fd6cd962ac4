// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training {

/// Adds the whole state of an optimizer to a checkpoint, by names of parameters: `optimizer/exp_avg/encoder.0.weight`.
///
/// SGD, Adam, AdamW, Adagrad and RMSprop, with their options per group, step counts and moments.
/// Collective over the checkpoint's ranks, on which the optimizer must be equal.
/// @param writer an open checkpoint @param optimizer the state to add @param prefix of the names @param model provides
///        the names of the parameters
/// @throws `Unsupported` for other kinds, `UnknownName` for a parameter that is not the model's,
///         `ReplicaMismatch` or `ArgumentDisagreement` when some rank's state is different
void save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, torch::nn::Module const& model,
                    std::string const& prefix = "optimizer");

/// Loads the options, step counts and moments of a checkpoint into an optimizer, with any previous state; it is
/// unchanged when they do not fit. A parameter that had no state when it was saved (never stepped) has none afterwards:
/// its moments start at zero with its first step, as in a new optimizer.
/// @return the names of those parameters, in the optimizer's order
///
/// Collective over `comm`: that of the checkpoint or one with the same number of ranks. The optimizer must be of the
/// saved kind and hold the same parameters in the same groups; their order may differ.
/// @throws `StateMismatch` (input) on all ranks, with both kinds, or all names, shapes and dtypes that differ;
///         `Unsupported`, `UnknownName` as above
std::vector<std::string> load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                        torch::optim::Optimizer& optimizer, torch::nn::Module const& model,
                                        std::string const& prefix = "optimizer");

}  // namespace graticule::training
