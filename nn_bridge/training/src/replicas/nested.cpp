// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/replicas/replication.hpp>

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <string>
#include <utility>

namespace graticule::training {

namespace {

using torch::IValue;
using Outputs = std::vector<IValue>;

[[noreturn]] void mismatch(std::string const& place, std::size_t copy, std::string const& what) {
  throw Error("ReplicaMismatch",
              "output" + place + " of copy " + std::to_string(copy) + ": " + what + " the first copy");
}

/// What decides how a value is gathered.
std::string kind_of(IValue const& value) {
  if (value.isTensor()) return "tensor";
  if (value.isNone()) return "none";
  if (value.isGenericDict()) return "map";
  if (value.isString()) return "string";
  if (value.isTuple()) return "tuple";
  if (value.isList()) return "list";
  return "other";
}

IValue gather(Outputs const& outputs, std::int64_t dim, std::string const& place);

IValue as_list(Outputs const& values) {
  c10::impl::GenericList result(c10::AnyType::get());
  for (auto const& value : values) result.push_back(value);
  return result;
}

IValue gather_tensors(Outputs const& outputs, std::int64_t dim) {
  std::vector<torch::Tensor> tensors;
  bool const scalars = outputs.front().toTensor().dim() == 0;
  for (auto const& output : outputs) {
    auto const tensor = output.toTensor();
    tensors.push_back(scalars && tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor);
  }
  return torch::cat(tensors, scalars ? 0 : dim);
}

IValue gather_maps(Outputs const& outputs, std::int64_t dim, std::string const& place) {
  auto const first = outputs.front().toGenericDict();
  c10::impl::GenericDict result(first.keyType(), c10::AnyType::get());
  for (auto const& entry : first) {
    auto const key = entry.key();
    auto const at = place + "[" + (key.isString() ? key.toStringRef() : key.tagKind()) + "]";
    Outputs values;
    for (std::size_t c = 0; c < outputs.size(); ++c) {
      auto const map = outputs[c].toGenericDict();
      auto const found = map.find(key);
      if (found == map.end()) mismatch(at, c, "a key is missing that is in");
      values.push_back(found->value());
    }
    result.insert(key, gather(values, dim, at));
  }
  for (std::size_t c = 0; c < outputs.size(); ++c)
    if (outputs[c].toGenericDict().size() != first.size()) mismatch(place, c, "a key that is not in");
  return result;
}

std::vector<IValue> elements_of(IValue const& value) {
  if (value.isTuple()) return value.toTupleRef().elements().vec();
  return value.toListRef().vec();
}

IValue gather_sequences(Outputs const& outputs, std::int64_t dim, std::string const& place) {
  std::vector<std::vector<IValue>> all;
  for (auto const& output : outputs) all.push_back(elements_of(output));
  Outputs result;
  for (std::size_t c = 0; c < all.size(); ++c)
    if (all[c].size() != all.front().size())
      mismatch(place, c, std::to_string(all[c].size()) + " elements, " + std::to_string(all.front().size()) + " in");
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    Outputs values;
    for (auto const& elements : all) values.push_back(elements[i]);
    result.push_back(gather(values, dim, place + "[" + std::to_string(i) + "]"));
  }
  if (outputs.front().isTuple()) return c10::ivalue::Tuple::create(std::move(result));
  return as_list(result);
}

IValue gather(Outputs const& outputs, std::int64_t dim, std::string const& place) {
  auto const kind = kind_of(outputs.front());
  for (std::size_t c = 1; c < outputs.size(); ++c)
    if (kind_of(outputs[c]) != kind) mismatch(place, c, "a " + kind_of(outputs[c]) + ", a " + kind + " in");
  if (kind == "tensor") return gather_tensors(outputs, dim);
  if (kind == "none") return {};
  if (kind == "map") return gather_maps(outputs, dim, place);
  if (kind == "tuple" || kind == "list") return gather_sequences(outputs, dim, place);
  return as_list(outputs);
}

}  // namespace

torch::IValue gather_nested(std::vector<torch::IValue> const& outputs, std::int64_t dim) {
  if (outputs.empty()) throw Error("BadOption", "gather_nested needs at least one output");
  return gather(outputs, dim, "");
}

torch::IValue gather_nested(Comm const& team, torch::IValue const& output, std::int64_t dim) {
  std::vector<char> bytes;
  run_agreed(team, [&] { bytes = torch::pickle_save(output); });
  Outputs outputs;
  for (int r = 0; r < team.num_ranks(); ++r) {
    auto const sent = team.broadcast(std::string(bytes.begin(), bytes.end()), r);
    outputs.push_back(torch::pickle_load(std::vector<char>(sent.begin(), sent.end())));
  }
  return gather_nested(outputs, dim);
}

std::vector<torch::IValue> detail::scatter_nested(InputScatter const& scatter, torch::IValue const& input,
                                                  int num_copies) {
  auto inputs = scatter(input, num_copies);
  if (inputs.size() != std::size_t(std::max(num_copies, 0)))
    throw Error("ReplicaMismatch", "a scatter returned " + std::to_string(inputs.size()) + " inputs for " +
                                       std::to_string(num_copies) + " copies");
  return inputs;
}

}  // namespace graticule::training
