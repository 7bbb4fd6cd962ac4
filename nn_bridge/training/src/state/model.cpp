// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/state/model.hpp>

#include "data_parallel/differences.hpp"

#include <algorithm>

namespace graticule::training {

namespace {

nn::NamedTensors tensors_of(torch::nn::Module const& model) {
  auto tensors = nn::parameters_of(model);
  for (auto& buffer : nn::detail::buffers_of(model)) tensors.push_back(std::move(buffer));
  return tensors;
}

void require_fitting(Checkpoint const& checkpoint, nn::NamedTensors const& tensors, std::string const& prefix) {
  detail::Differences differences;
  for (auto const& [name, tensor] : tensors) {
    if (checkpoint.has_field(prefix + "/" + name))
      detail::compare(checkpoint.field(prefix + "/" + name), name, tensor, differences);
    else
      differences.add("the checkpoint lacks " + name);
  }
  for (auto const& name : detail::names_below(checkpoint, prefix))
    if (std::none_of(tensors.begin(), tensors.end(), [&](auto const& held) { return held.first == name; }))
      differences.add("the model lacks " + name);
  differences.throw_if_any("StateMismatch", checkpoint);
}

}  // namespace

void save_model(CheckpointWriter& writer, torch::nn::Module const& model, std::string const& prefix) {
  auto const tensors = tensors_of(model);
  run_agreed(writer.comm(), [&] { nn::detail::require_values(tensors); });
  for (auto const& [name, tensor] : tensors) detail::save_tensor(writer, prefix + "/" + name, tensor);
}

void load_model(Comm const& comm, Checkpoint const& checkpoint, torch::nn::Module& model, std::string const& prefix) {
  auto const tensors = tensors_of(model);
  nn::detail::require_replicas(comm, tensors);
  run_agreed(comm, [&] {
    nn::detail::require_values(tensors);
    require_fitting(checkpoint, tensors, prefix);
  });
  for (auto const& [name, tensor] : tensors) detail::load_tensor(checkpoint, prefix + "/" + name, tensor);
}

void load_model(std::filesystem::path const& file, torch::nn::Module& model, std::string const& prefix) {
  Comm const alone(MPI_COMM_SELF);
  load_model(alone, Checkpoint(alone, file), model, prefix);
}

}  // namespace graticule::training
