// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <filesystem>
#include <string>

namespace graticule::training {

/// Adds parameters and buffers of a model to a checkpoint: one field each, under the names that they have in the serial
/// model, `model/encoder.0.weight`; a tensor that several modules share comes once, under its first name.
///
/// Collective over the checkpoint's ranks, each of which holds every tensor whole and alike.
/// @throws `ReplicaDiffers` when a tensor has other bits on some rank; what `CheckpointWriter::add` throws
/// Cost: one `CheckpointWriter::add` a tensor
void save_model(CheckpointWriter& writer, torch::nn::Module const& model, std::string const& prefix = "model");

/// Fills parameters and buffers in place, on their devices; the model is left as it was when the names do not fit.
///
/// Collective over `comm`, that of the checkpoint or one of as many ranks. The checkpoint may come from any number of ranks.
/// @throws `ModelMismatch` (input) on all ranks, with all names that the checkpoint lacks or has too many of, and all tensors of
///         another shape or dtype; `ReplicaMismatch` when the ranks' models differ; `BrokenCheckpoint` (input)
/// Cost: one broadcast a tensor
void load_model(Comm const& comm, Checkpoint const& checkpoint, torch::nn::Module& model,
                std::string const& prefix = "model");

/// The same for this rank alone: a model of plain LibTorch layers takes what a sharded one has saved.
///
/// MPI must have been started, by whatever number of ranks.
/// Example: `torch::nn::Linear layer(3, 2); nn::load_model("run/checkpoint-000004-step-000001000.h5", *layer);`
/// @throws `NoSuchFile`, `NotAFile`, `ForeignFile`, `BrokenCheckpoint`, `ModelMismatch` (input)
void load_model(std::filesystem::path const& file, torch::nn::Module& model, std::string const& prefix = "model");

}  // namespace graticule::training
