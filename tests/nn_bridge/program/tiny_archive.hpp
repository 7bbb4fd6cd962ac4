// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "graph_text.hpp"

#include <caffe2/serialize/inline_container.h>
#include <torch/torch.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// Small `.pt2` files, written record by record.
namespace graticule::test {

/// The records of an archive, to be changed before they are written.
using Records = std::map<std::string, std::string>;

inline std::string bytes_of(torch::Tensor const& tensor) {
  torch::Tensor const dense = tensor.detach().contiguous();
  return {static_cast<char const*>(dense.data_ptr()), static_cast<std::size_t>(dense.nbytes())};
}

struct Payload {
  std::string name;
  torch::Tensor value;  // f32 or i64
  bool parameter = false;
};

inline Json payload_entry(std::string const& record, Payload const& payload) {
  return {
      {"path_name", record},
      {"is_param", payload.parameter},
      {"use_pickle", false},
      {"tensor_meta", tensor_meta(payload.value.sizes().vec(), payload.value.scalar_type() == torch::kInt64 ? 5 : 7)}};
}

inline Records make_records(Json const& program, std::vector<Payload> const& weights,
                            std::vector<Payload> const& constants = {}) {
  Records records{{"archive_format", "pt2"},
                  {"archive_version", "0"},
                  {"byteorder", "little"},
                  {"models/model.json", program.dump()},
                  {"data/sample_inputs/model.pt", ""}};
  auto const add = [&records](std::string const& folder, std::string const& prefix, std::string const& table,
                              std::vector<Payload> const& payloads) {
    Json config = Json::object();
    int number = 0;
    for (Payload const& payload : payloads) {
      std::string const record = prefix + std::to_string(number++);
      config[payload.name] = payload_entry(record, payload);
      records[folder + record] = bytes_of(payload.value);
    }
    records[folder + table] = Json{{"config", config}}.dump();
  };
  add("data/weights/", "weight_", "model_weights_config.json", weights);
  add("data/constants/", "tensor_", "model_constants_config.json", constants);
  return records;
}

inline void write_records(std::filesystem::path const& path, Records const& records) {
  std::ofstream file(path, std::ios::binary);
  caffe2::serialize::PyTorchStreamWriter writer([&file](void const* data, std::size_t size) {
    file.write(static_cast<char const*>(data), static_cast<std::streamsize>(size));
    return size;
  });
  writer.setMinVersion(6);
  for (auto const& [name, content] : records) {
    writer.writeRecord(name, content.data(), content.size());
  }
  writer.writeEndOfFile();
}

/// y = dropout(relu_(linear(x, w)) + shift, 0.5, train) with a counter of calls: w[3, 4], x[2, 4].
inline Records linear_network() {
  Json program = empty_program({2, 4});
  add_weight(program, "parameter", "p_w", "head.0.weight", {3, 4});
  add_weight(program, "buffer", "b_calls", "head.calls", {}, 5);
  add_weight(program, "tensor_constant", "c_shift", "lifted_tensor_0", {3});
  graph_of(program)["tensor_values"]["p_w"]["requires_grad"] = true;
  append(program, "aten.add.Tensor", {{"self", tensor("b_calls")}, {"other", {{"as_int", 1}}}}, "calls", {}, 5);
  append(program, "aten.linear.default", {{"input", tensor("x")}, {"weight", tensor("p_w")}}, "linear", {2, 3});
  append(program, "aten.relu_.default", {{"self", tensor("linear")}}, "relu_", {2, 3});
  append(program, "aten.add.Tensor", {{"self", tensor("relu_")}, {"other", tensor("c_shift")}}, "sum", {2, 3});
  append(program, "aten.dropout.default",
         {{"input", tensor("sum")}, {"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", true}}}}, "y", {2, 3});
  graph_of(program)["outputs"] = {tensor("calls"), tensor("y")};
  signature_of(program)["output_specs"] = {
      {{"buffer_mutation", {{"arg", {{"name", "calls"}}}, {"buffer_name", "head.calls"}}}},
      {{"user_output", {{"arg", tensor("y")}}}}};
  torch::Tensor const weight = torch::linspace(-1, 1, 12).reshape({3, 4});
  return make_records(program, {{"head.0.weight", weight, true}, {"head.calls", torch::zeros({}, torch::kInt64)}},
                      {{"lifted_tensor_0", torch::tensor({0.5F, -0.25F, 2.0F})}});
}

/// Applies a change to the graph of an archive.
template <class Change>
void change_graph(Records& records, Change const& change) {
  Json program = Json::parse(records.at("models/model.json"));
  change(program);
  records["models/model.json"] = program.dump();
}

}  // namespace graticule::test
