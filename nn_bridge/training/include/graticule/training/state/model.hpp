// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <filesystem>
#include <string>

namespace graticule::training {

/// Adds parameters and buffers of a model to a checkpoint: one field each, under the names of the serial model,
/// `model/encoder.0.weight`; a tensor shared by several modules is saved once, under its first name.
///
/// Collective over the checkpoint's ranks, on each of which every tensor is whole, with equal values.
/// @throws `ReplicaMismatch` when the bits of a tensor differ between ranks; what `CheckpointWriter::add` throws
/// Cost: one `CheckpointWriter::add` per tensor
void save_model(CheckpointWriter& writer, torch::nn::Module const& model, std::string const& prefix = "model");

/// Fills parameters and buffers in place, on their devices; the model is unchanged when the names do not match.
///
/// Collective over `comm`: that of the checkpoint or one with the same number of ranks. The checkpoint may come from
/// any number of ranks.
/// @throws `StateMismatch` (input) on all ranks, with all missing and superfluous names, and all tensors of different
///         shape or dtype; `ReplicaMismatch` when the ranks' models differ; `BrokenFile` (input)
/// Cost: one broadcast per tensor
void load_model(Comm const& comm, Checkpoint const& checkpoint, torch::nn::Module& model,
                std::string const& prefix = "model");

/// The same for this rank alone: a model of plain LibTorch layers loads the state that a sharded one has saved.
///
/// MPI must have been started, on any number of ranks.
/// Example: `torch::nn::Linear layer(3, 2); training::load_model("run/checkpoint-000004-step-000001000.h5", *layer);`
/// @throws `NoSuchFile`, `UnreadableFile`, `UnsupportedFile`, `BrokenFile`, `StateMismatch` (input)
void load_model(std::filesystem::path const& file, torch::nn::Module& model, std::string const& prefix = "model");

}  // namespace graticule::training
