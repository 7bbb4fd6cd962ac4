// SPDX-License-Identifier: BSD-3-Clause
// write_networks FOLDER: small exported networks for the tests of the interfaces in C and Fortran.
//
//   closure.pt2   x[1, 3, 24, 48] -> y[1, 1, 24, 48]: a convolution of 3 x 3 around the globe, tanh, one of 1 x 1
//   several.pt2   field[1, 2, 6, 8], factors[2] -> scaled[1, 2, 6, 8], mean[2], of any numbers of rows and columns
//   normed.pt2    x[1, 2, 6, 8] -> y[1, 2, 6, 8]: a batch norm exported in training mode, whose node overwrites its
//   statistics functional.pt2  the same with new statistics as outputs computed.pt2  has running statistics that no
//   norm computes refused.pt2   has an operator that is not run: the positions of numbers other than 0
#include "tiny_archive.hpp"

#include <cstdio>
#include <iostream>

namespace graticule::test {
namespace {

Json integers(std::vector<std::int64_t> const& values) { return {{"as_ints", values}}; }

Records closure() {
  Json program = empty_program({1, 3, 24, 48});
  add_weight(program, "parameter", "p_w1", "stencil.weight", {8, 3, 3, 3});
  add_weight(program, "parameter", "p_b1", "stencil.bias", {8});
  add_weight(program, "parameter", "p_w2", "mix.weight", {1, 8, 1, 1});
  add_weight(program, "parameter", "p_b2", "mix.bias", {1});
  for (auto const* name : {"p_w1", "p_b1", "p_w2", "p_b2"})
    graph_of(program)["tensor_values"][name]["requires_grad"] = true;
  append(program, "aten.pad.default",
         {{"self", tensor("x")}, {"pad", integers({1, 1, 0, 0})}, {"mode", {{"as_string", "circular"}}}}, "around",
         {1, 3, 24, 50});
  append(program, "aten.conv2d.default",
         {{"input", tensor("around")},
          {"weight", tensor("p_w1")},
          {"bias", tensor("p_b1")},
          {"stride", integers({1, 1})},
          {"padding", integers({1, 0})}},
         "conv2d", {1, 8, 24, 48});
  append(program, "aten.tanh.default", {{"self", tensor("conv2d")}}, "tanh", {1, 8, 24, 48});
  append(program, "aten.conv2d.default",
         {{"input", tensor("tanh")}, {"weight", tensor("p_w2")}, {"bias", tensor("p_b2")}}, "y", {1, 1, 24, 48});
  set_output(program, "y");
  torch::manual_seed(11);
  return make_records(program, {{"stencil.weight", 0.2 * torch::randn({8, 3, 3, 3}), true},
                                {"stencil.bias", 0.1 * torch::randn({8}), true},
                                {"mix.weight", 0.3 * torch::randn({1, 8, 1, 1}), true},
                                {"mix.bias", torch::zeros({1}), true}});
}

Records several() {
  Json program = empty_program({1, 2, 6, 8});
  auto& graph = graph_of(program);
  add_weight(program, "parameter", "p_shift", "shift", {2, 1, 1});
  graph["tensor_values"]["p_shift"]["requires_grad"] = true;
  graph["inputs"].push_back(tensor("factors"));
  signature_of(program)["input_specs"].push_back({{"user_input", {{"arg", tensor("factors")}}}});
  graph["tensor_values"]["factors"] = tensor_meta({2});
  append(program, "aten.view.default", {{"self", tensor("factors")}, {"size", integers({2, 1, 1})}}, "view", {2, 1, 1});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("view")}}, "mul", {1, 2, 6, 8});
  append(program, "aten.add.Tensor", {{"self", tensor("mul")}, {"other", tensor("p_shift")}}, "scaled", {1, 2, 6, 8});
  append(program, "aten.mean.dim", {{"self", tensor("scaled")}, {"dim", integers({0, 2, 3})}}, "mean", {2});
  graph["outputs"] = {tensor("scaled"), tensor("mean")};
  signature_of(program)["output_specs"] = {{{"user_output", {{"arg", tensor("scaled")}}}},
                                           {{"user_output", {{"arg", tensor("mean")}}}}};
  return make_records(program, {{"shift", torch::tensor({1.0F, -2.0F}).reshape({2, 1, 1}), true}});
}

/// Whose running statistics are overwritten by a node, or by outputs of one.
Records normed(bool functional) {
  Json program = empty_program({1, 2, 6, 8});
  for (auto const* name : {"weight", "bias"}) {
    add_weight(program, "parameter", std::string("p_") + name, std::string("norm.") + name, {2});
    graph_of(program)["tensor_values"][std::string("p_") + name]["requires_grad"] = true;
  }
  for (auto const* name : {"running_mean", "running_var"})
    add_weight(program, "buffer", std::string("b_") + name, std::string("norm.") + name, {2});
  std::vector<std::pair<std::string, Json>> inputs{{"input", tensor("x")},
                                                   {"weight", tensor("p_weight")},
                                                   {"bias", tensor("p_bias")},
                                                   {"running_mean", tensor("b_running_mean")},
                                                   {"running_var", tensor("b_running_var")},
                                                   {"training", {{"as_bool", true}}},
                                                   {"momentum", {{"as_float", 0.5}}},
                                                   {"eps", {{"as_float", 0.25}}}};
  if (!functional) {
    inputs.emplace_back("cudnn_enabled", Json{{"as_bool", true}});
    append(program, "aten.batch_norm.default", inputs, "y", {1, 2, 6, 8});
    set_output(program, "y");
  } else {
    append(program, "aten._native_batch_norm_legit_functional.default", inputs, "y", {1, 2, 6, 8});
    auto& graph = graph_of(program);
    for (auto const* name : {"save_mean", "save_rstd", "new_mean", "new_var"}) {
      graph["nodes"].back()["outputs"].push_back(tensor(name));
      graph["tensor_values"][name] = tensor_meta({2});
    }
    graph["outputs"] = {tensor("new_mean"), tensor("new_var"), tensor("y")};
    auto const overwritten = [](char const* value, char const* buffer) {
      return Json{{"buffer_mutation", {{"arg", {{"name", value}}}, {"buffer_name", buffer}}}};
    };
    signature_of(program)["output_specs"] = {overwritten("new_mean", "norm.running_mean"),
                                             overwritten("new_var", "norm.running_var"),
                                             {{"user_output", {{"arg", tensor("y")}}}}};
  }
  return make_records(program, {{"norm.weight", torch::tensor({1.0F, 2.0F}), true},
                                {"norm.bias", torch::tensor({0.5F, 0.0F}), true},
                                {"norm.running_mean", torch::tensor({3.0F, -1.0F})},
                                {"norm.running_var", torch::tensor({3.75F, 15.75F})}});
}

Records computed() {
  Json program = empty_program({1, 2, 6, 8});
  add_weight(program, "buffer", "b_running_mean", "norm.running_mean", {1, 2, 6, 8});
  append(program, "aten.sub.Tensor", {{"self", tensor("x")}, {"other", tensor("b_running_mean")}}, "y", {1, 2, 6, 8});
  append(program, "aten.add.Tensor", {{"self", tensor("y")}, {"other", tensor("b_running_mean")}}, "new_mean",
         {1, 2, 6, 8});
  graph_of(program)["outputs"] = {tensor("new_mean"), tensor("y")};
  signature_of(program)["output_specs"] = {
      {{"buffer_mutation", {{"arg", {{"name", "new_mean"}}}, {"buffer_name", "norm.running_mean"}}}},
      {{"user_output", {{"arg", tensor("y")}}}}};
  return make_records(program, {{"norm.running_mean", torch::zeros({1, 2, 6, 8})}});
}

Records refused() {
  Json program = empty_program({1, 2, 6, 6});
  append(program, "aten.nonzero.default", {{"self", tensor("x")}}, "found", {1, 2, 6, 6});
  set_output(program, "found");
  return make_records(program, {});
}

}  // namespace
}  // namespace graticule::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "use: write_networks FOLDER\n");
    return 2;
  }
  std::filesystem::path const folder = argv[1];
  std::filesystem::create_directories(folder);
  graticule::test::write_records(folder / "closure.pt2", graticule::test::closure());
  graticule::test::write_records(folder / "several.pt2", graticule::test::several());
  graticule::test::write_records(folder / "normed.pt2", graticule::test::normed(false));
  graticule::test::write_records(folder / "functional.pt2", graticule::test::normed(true));
  graticule::test::write_records(folder / "computed.pt2", graticule::test::computed());
  graticule::test::write_records(folder / "refused.pt2", graticule::test::refused());
  return 0;
}
