// SPDX-License-Identifier: BSD-3-Clause
#include "differences.hpp"

#include <graticule/nn_bridge/detail/types.hpp>

namespace graticule::training::detail {

std::string describe(DType dtype, Indices const& extents) { return to_string(dtype) + " " + to_string(extents); }

void compare(CheckpointField const& field, std::string const& name, torch::Tensor const& tensor,
             Differences& differences) {
  Indices const extents(std::span(tensor.sizes().data(), tensor.sizes().size()));
  DType const dtype = nn::detail::dtype_of(tensor.scalar_type());
  if (field.extents == extents && field.dtype == dtype) return;
  differences.add(name + " is " + describe(field.dtype, field.extents) + " in the checkpoint and " +
                  describe(dtype, extents) + " here");
}

std::vector<std::string> names_below(Checkpoint const& checkpoint, std::string const& prefix) {
  std::vector<std::string> names;
  for (auto const& field : checkpoint.fields())
    if (field.name.starts_with(prefix + "/")) names.push_back(field.name.substr(prefix.size() + 1));
  return names;
}

void save_tensor(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor) {
  auto const staged = tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
  writer.add(name, nn::tensor_view(staged, {}));
}

void load_tensor(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor) {
  torch::NoGradGuard const no_grad;
  auto const staged = torch::empty(tensor.sizes(), torch::dtype(tensor.scalar_type()).device(torch::kCPU));
  checkpoint.read(name, nn::tensor_view(staged, {}));
  tensor.detach().copy_(staged);
}

}  // namespace graticule::training::detail
