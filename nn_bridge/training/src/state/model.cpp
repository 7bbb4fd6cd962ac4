// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/state/model.hpp>

#include "stored_tensors.hpp"

namespace graticule::training {

void save_model(CheckpointWriter& writer, torch::nn::Module const& model, std::string const& prefix) {
  auto const tensors = nn::detail::tensors_of(model);
  run_agreed(writer.comm(), [&] { nn::detail::require_values(tensors); });
  for (auto const& [name, tensor] : tensors) detail::save_tensor(writer, prefix + "/" + name, tensor);
}

void load_model(Comm const& comm, Checkpoint const& checkpoint, torch::nn::Module& model, std::string const& prefix) {
  auto const tensors = nn::detail::tensors_of(model);
  nn::detail::require_replicas(comm, tensors);
  run_agreed(comm, [&] {
    nn::detail::require_values(tensors);
    std::vector<detail::StoredTensor> wanted;
    for (auto const& [name, tensor] : tensors) wanted.push_back({name, tensor.scalar_type(), tensor.sizes()});
    detail::require_fields(checkpoint, prefix, wanted);
  });
  for (auto const& [name, tensor] : tensors)
    detail::load_tensor(checkpoint, prefix + "/" + name, tensor, tensor.scalar_type());
}

void load_model(std::filesystem::path const& file, torch::nn::Module& model, std::string const& prefix) {
  Comm const alone(MPI_COMM_SELF);
  load_model(alone, Checkpoint(alone, file), model, prefix);
}

}  // namespace graticule::training
