// SPDX-License-Identifier: BSD-3-Clause
#include "module/weights.hpp"

#include <graticule/partition/error.hpp>

#include <tuple>
#include <variant>

namespace graticule::program::detail {

namespace {

[[noreturn]] void not_a_program(std::string const& text) { throw Error(Fault::input, "BrokenFile", text); }

void check_match(InputSpec const& input, TensorMeta const& in_graph, torch::Tensor const& stored) {
  bool same = to_torch(in_graph.dtype) == stored.scalar_type() &&
              in_graph.sizes.size() == static_cast<std::size_t>(stored.dim());
  for (std::size_t axis = 0; same && axis < in_graph.sizes.size(); ++axis) {
    same =
        !in_graph.sizes[axis].symbolic() && in_graph.sizes[axis].value == stored.size(static_cast<std::int64_t>(axis));
  }
  if (!same) {
    not_a_program("'" + input.name + "' is stored with other sizes or another type than the graph says");
  }
}

// Equal views of one record are one parameter: its gradient is the sum over its uses under all names.
void join_aliases(ExportedGraph const& program, ArchiveContent const& content, Weights& weights) {
  std::map<std::string, StoredTensor const*> stored;
  for (StoredTensor const& tensor : content.weights) {
    stored[tensor.name] = &tensor;
  }
  std::map<std::tuple<void*, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>, std::string> first;
  for (InputSpec const& input : program.inputs) {
    if (input.kind != InputSpec::Kind::parameter || !stored.contains(input.name)) {
      continue;
    }
    torch::Tensor const& tensor = weights.tensors.at(input.name);
    if (tensor.numel() == 0) {
      continue;
    }
    auto const [place, is_new] = first.try_emplace(
        {tensor.storage().data_ptr().get(), tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec()},
        input.name);
    if (!is_new && place->second != input.name) {
      weights.tensors[input.name] = weights.tensors.at(place->second);
      weights.aliases.emplace_back(input.name, place->second);
    }
  }
}

void check_weights(ExportedGraph const& program, Weights const& weights) {
  for (InputSpec const& input : program.inputs) {
    if (input.kind == InputSpec::Kind::user) {
      continue;
    }
    auto const found = weights.tensors.find(input.name);
    if (found == weights.tensors.end() || !found->second.defined()) {
      not_a_program("'" + input.name + "' is missing among the stored tensors");
    }
    auto const* value = std::get_if<TensorRef>(&input.value);
    if (value == nullptr) {
      not_a_program("'" + input.name + "' is no tensor in the graph");
    }
    check_match(input, program.graph.value(value->value).tensor, found->second);
  }
}

}  // namespace

Weights take_weights(ExportedGraph const& program, ArchiveContent& content) {
  Weights weights;
  for (auto* tensors : {&content.weights, &content.constants}) {
    for (StoredTensor& stored : *tensors) {
      if (!weights.tensors.emplace(stored.name, std::move(stored.tensor)).second) {
        not_a_program("'" + stored.name + "' is stored twice");
      }
      weights.dtypes[stored.name] = stored.meta.dtype;
    }
  }
  check_weights(program, weights);
  join_aliases(program, content, weights);
  return weights;
}

Weights take_weights(ExportedGraph const& program, std::map<std::string, torch::Tensor> tensors) {
  Weights weights;
  weights.tensors = std::move(tensors);
  check_weights(program, weights);
  std::map<void*, std::string> first;
  for (InputSpec const& input : program.inputs) {
    if (input.kind == InputSpec::Kind::user) {
      continue;
    }
    weights.dtypes[input.name] = program.graph.value(std::get<TensorRef>(input.value).value).tensor.dtype;
    if (input.kind == InputSpec::Kind::parameter) {
      auto const [place, is_new] = first.try_emplace(weights.tensors.at(input.name).unsafeGetTensorImpl(), input.name);
      if (!is_new) {
        weights.aliases.emplace_back(input.name, place->second);
      }
    }
  }
  return weights;
}

}  // namespace graticule::program::detail
