// SPDX-License-Identifier: BSD-3-Clause
#include "stored_tensors.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/types.hpp>

#include <algorithm>

namespace graticule::training::detail {

void refuse_differences(Fault fault, std::string const& rule, Differences const& differences, std::string const& head) {
  constexpr std::size_t most = 8;
  if (differences.empty()) return;
  std::string text = head;
  for (std::size_t i = 0; i < differences.size() && i < most; ++i) text += (i == 0 ? "" : "; ") + differences[i];
  if (differences.size() > most) text += "; and " + std::to_string(differences.size() - most) + " more";
  throw Error(fault, rule, text);
}

void compare(CheckpointField const& field, StoredTensor const& wanted, Differences& differences) {
  Indices const extents(std::span(wanted.sizes.data(), wanted.sizes.size()));
  DType const dtype = nn::detail::dtype_of(wanted.type);
  if (field.extents == extents && field.dtype == dtype) return;
  differences.push_back(wanted.name + " is " + to_string(field.dtype) + " " + to_string(field.extents) +
                        " in the checkpoint and " + to_string(dtype) + " " + to_string(extents) + " here");
}

void require_fields(Checkpoint const& checkpoint, std::string const& prefix, std::vector<StoredTensor> const& model) {
  Differences differences;
  for (auto const& tensor : model) {
    if (checkpoint.has_field(prefix + "/" + tensor.name))
      compare(checkpoint.field(prefix + "/" + tensor.name), tensor, differences);
    else
      differences.push_back("the checkpoint lacks " + tensor.name);
  }
  for (auto const& name : names_below(checkpoint, prefix))
    if (std::none_of(model.begin(), model.end(), [&](auto const& tensor) { return tensor.name == name; }))
      differences.push_back("the model lacks " + name);
  refuse_differences(Fault::input, "StateMismatch", differences, checkpoint.path().string() + ": ");
}

std::vector<std::string> names_below(Checkpoint const& checkpoint, std::string const& prefix) {
  std::vector<std::string> names;
  for (auto const& field : checkpoint.fields())
    if (field.name.starts_with(prefix + "/")) names.push_back(field.name.substr(prefix.size() + 1));
  return names;
}

torch::Tensor on_host(torch::Tensor const& tensor) {
  return tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
}

void save_tensor(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor) {
  writer.add(name, nn::tensor_view(on_host(tensor), {}));
}

void load_tensor(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor,
                 torch::ScalarType type) {
  torch::NoGradGuard const no_grad;
  auto const staged = torch::empty(tensor.sizes(), torch::dtype(type).device(torch::kCPU));
  checkpoint.read(name, nn::tensor_view(staged, {}));
  tensor.detach().copy_(staged);
}

}  // namespace graticule::training::detail
