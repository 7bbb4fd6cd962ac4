// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training::detail {

/// All differences, for one error.
using Differences = std::vector<std::string>;

/// @throws `rule`, if there is a difference; beyond 8, differences are only counted @param head of the text
void refuse_differences(Fault fault, std::string const& rule, Differences const& differences,
                        std::string const& head = "");

/// A tensor as a checkpoint should have it. @pre `sizes` belongs to a tensor that outlives this
struct StoredTensor {
  std::string name;
  torch::ScalarType type;
  torch::IntArrayRef sizes;
};

/// Adds a difference unless a field has this type and these sizes.
void compare(CheckpointField const& field, StoredTensor const& wanted, Differences& differences);
/// Whether the fields below `prefix/` are those of a model. @throws `StateMismatch` (input)
void require_fields(Checkpoint const& checkpoint, std::string const& prefix, std::vector<StoredTensor> const& model);

/// Names of all fields below `prefix/`, without it.
[[nodiscard]] std::vector<std::string> names_below(Checkpoint const& checkpoint, std::string const& prefix);

/// The values in host memory, without gaps.
[[nodiscard]] torch::Tensor on_host(torch::Tensor const& tensor);
/// One whole field. Collective; same tensor on all ranks.
void save_tensor(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor);
/// @param type of the field
void load_tensor(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor,
                 torch::ScalarType type);

}  // namespace graticule::training::detail
