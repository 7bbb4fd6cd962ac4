// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>
#include <graticule/program/detail/golden.hpp>
#include <graticule/program/program.hpp>

#include "expect_error.hpp"
#include "files.hpp"
#include "tiny_archive.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using program::GoldenDifferences;
using program::Program;
using test::change_graph;
using test::graph_of;
using test::Json;
using test::linear_network;
using test::Records;
using test::rule_of;
using test::signature_of;
using test::tensor;
using test::thrown_by;
using test::write_records;

std::filesystem::path folder_of_rank() {
  std::filesystem::path const folder =
      std::filesystem::temp_directory_path() /
      ("graticule-program-" + std::to_string(::getpid()) + "-" + std::to_string(Comm::world().rank()));
  std::filesystem::create_directories(folder);
  return folder;
}

Program load(Records const& records) {
  std::filesystem::path const path = folder_of_rank() / "tiny.pt2";
  write_records(path, records);
  Program program(path);
  std::filesystem::remove(path);
  return program;
}

torch::Tensor some_input(torch::Dtype dtype = torch::kFloat32) {
  return torch::linspace(-1, 2, 8, torch::TensorOptions(dtype)).reshape({2, 4});
}

torch::Tensor by_hand(torch::Tensor const& x, torch::Tensor const& weight) {
  return torch::relu(torch::linear(x, weight)) + torch::tensor({0.5, -0.25, 2.0}, x.options());
}

TEST(Program, computes_the_graph_and_its_gradients) {
  Program program = load(linear_network());
  program->eval();
  torch::Tensor const x = some_input().requires_grad_();
  torch::Tensor const weight = program->parameter("head.0.weight").detach().clone().requires_grad_();
  torch::Tensor const x_again = some_input().requires_grad_();

  torch::Tensor const y = program->forward(x);
  y.square().sum().backward();
  torch::Tensor const wanted = by_hand(x_again, weight);
  wanted.square().sum().backward();

  EXPECT_TRUE(torch::equal(y, wanted));
  EXPECT_TRUE(torch::equal(x.grad(), x_again.grad()));
  EXPECT_TRUE(torch::equal(program->parameter("head.0.weight").grad(), weight.grad()));
}

TEST(Program, registers_original_names_and_overwrites_buffers) {
  Program program = load(linear_network());

  EXPECT_EQ(program->named_parameters().keys(), std::vector<std::string>{"head.0.weight"});
  EXPECT_EQ(program->named_buffers().keys(), std::vector<std::string>{"head.calls"});
  EXPECT_TRUE(program->named_parameters()["head.0.weight"].requires_grad());
  (void)program->forward(some_input());
  (void)program->forward(some_input());
  EXPECT_EQ(program->named_buffers()["head.calls"].item<std::int64_t>(), 2);
}

TEST(Program, turns_dropout_off_in_eval) {
  Program program = load(linear_network());
  torch::manual_seed(3);

  torch::Tensor const noisy = program->forward(some_input());
  program->eval();
  torch::Tensor const quiet = program->forward(some_input());

  EXPECT_GT((noisy == 0).sum().item<std::int64_t>(), (quiet == 0).sum().item<std::int64_t>());
  EXPECT_TRUE(torch::equal(quiet, by_hand(some_input(), program->parameter("head.0.weight"))));
}

TEST(Program, computes_in_other_types) {
  Program program = load(linear_network());
  program->eval();
  program->to(torch::kFloat64);

  torch::Tensor const y = program->forward(some_input(torch::kFloat64));

  EXPECT_EQ(y.scalar_type(), torch::kFloat64);
  EXPECT_TRUE(torch::equal(y, by_hand(some_input(torch::kFloat64), program->parameter("head.0.weight"))));
  EXPECT_EQ(program->named_buffers()["head.calls"].scalar_type(), torch::kInt64);
  EXPECT_EQ(rule_of([&] { (void)program->forward(some_input()); }), "UnsupportedTensor");
  program->to(torch::kBFloat16);
  EXPECT_EQ(program->forward(some_input(torch::kBFloat16)).scalar_type(), torch::kBFloat16);
}

TEST(Program, keeps_the_kind_of_numbers) {
  Records records = linear_network();
  // x (f32) * 2.0 stays f32; an integer tensor + 1 stays integer, + 0.5 becomes f32.
  change_graph(records, [](Json& json) {
    test::append(json, "aten.add.Tensor", {{"self", tensor("calls")}, {"other", {{"as_float", 0.5}}}}, "half", {});
    test::append(json, "aten.mul.Tensor", {{"self", tensor("y")}, {"other", {{"as_float", 2.0}}}}, "twice", {2, 3});
    for (auto const* name : {"half", "twice"}) {
      graph_of(json)["outputs"].push_back(tensor(name));
      signature_of(json)["output_specs"].push_back({{"user_output", {{"arg", tensor(name)}}}});
    }
  });
  Program program = load(records);

  std::vector<torch::Tensor> const outputs = program->run({some_input()});

  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[1].scalar_type(), torch::kFloat32);
  EXPECT_EQ(outputs[1].item<float>(), 1.5F);
  EXPECT_EQ(outputs[2].scalar_type(), torch::kFloat32);
  EXPECT_EQ(program->named_buffers()["head.calls"].scalar_type(), torch::kInt64);
}

TEST(Program, joins_parameters_that_share_their_memory) {
  Records records = linear_network();
  change_graph(records, [](Json& json) {
    test::add_weight(json, "parameter", "p_again", "tail.weight", {3, 4});
    graph_of(json)["tensor_values"]["p_again"]["requires_grad"] = true;
    graph_of(json)["nodes"][1]["inputs"][1]["arg"] = tensor("p_again");
  });
  Json table = Json::parse(records["data/weights/model_weights_config.json"]);
  table["config"]["tail.weight"] = table["config"]["head.0.weight"];
  records["data/weights/model_weights_config.json"] = table.dump();
  Program program = load(records);

  program->forward(some_input()).sum().backward();

  EXPECT_EQ(program->parameters().size(), 1u);
  EXPECT_TRUE(program->parameter("head.0.weight").grad().defined());
  EXPECT_TRUE(program->parameter("tail.weight").is_same(program->parameter("head.0.weight")));
  ASSERT_EQ(program->aliases().size(), 1u);
}

TEST(Program, saves_what_it_learned_and_loads_it_again) {
  std::filesystem::path const path = folder_of_rank() / "saved.pt2";
  Program program = load(linear_network());
  torch::optim::SGD optimizer(program->parameters(), 0.1);
  program->forward(some_input()).square().sum().backward();
  optimizer.step();
  program->to(torch::kFloat64);

  program->save(path);
  Program again(path);
  program->to(torch::kFloat32);

  EXPECT_TRUE(torch::equal(again->parameter("head.0.weight"), program->parameter("head.0.weight")));
  EXPECT_FALSE(torch::equal(again->parameter("head.0.weight"), load(linear_network())->parameter("head.0.weight")));
  EXPECT_EQ(again->named_buffers()["head.calls"].item<std::int64_t>(), 1);
  again->eval();
  program->eval();
  EXPECT_TRUE(torch::equal(again->forward(some_input()), program->forward(some_input())));
  EXPECT_EQ(rule_of([&] { program->save(folder_of_rank() / "nowhere" / "saved.pt2"); }), "OutputError");
  std::filesystem::remove(path);
}

TEST(Program, is_cloned_with_weights_of_its_own) {
  Program program = load(linear_network());
  program->eval();

  auto const copy = std::dynamic_pointer_cast<program::ProgramImpl>(program->clone());
  torch::NoGradGuard const no_grad;
  copy->parameter("head.0.weight").zero_();

  ASSERT_TRUE(copy);
  EXPECT_FALSE(torch::equal(copy->forward(some_input()), program->forward(some_input())));
  EXPECT_FALSE(copy->is_training());
}

// Weights have no structure that damage would break: without the checksum the network would compute with them.
TEST(Program, names_the_record_that_is_damaged) {
  std::filesystem::path const path = folder_of_rank() / "damaged.pt2";
  write_records(path, linear_network());
  std::string const whole = test::read_bytes(path);
  std::string const weight = linear_network().at("data/weights/weight_0");
  std::string const shift = linear_network().at("data/constants/tensor_0");
  for (auto const& [record, content] :
       {std::pair("data/weights/weight_0", weight), std::pair("data/constants/tensor_0", shift),
        std::pair("data/weights/model_weights_config.json",
                  linear_network().at("data/weights/model_weights_config.json"))}) {
    std::string bytes = whole;
    std::size_t const at = bytes.find(content);
    ASSERT_NE(at, std::string::npos);
    bytes[at + content.size() / 2] ^= 1;
    test::write_bytes(path, bytes);

    auto const thrown = thrown_by([&] { Program refused(path); });

    EXPECT_EQ(thrown.rule, "BrokenFile");
    EXPECT_NE(thrown.text.find(std::string("the record '") + record + "' is damaged"), std::string::npos)
        << thrown.text;
    EXPECT_NE(thrown.text.find(path.string()), std::string::npos) << thrown.text;
  }
  for (std::size_t const kept : {whole.size() - 1, whole.size() - 60, whole.size() / 2}) {
    test::write_bytes(path, whole.substr(0, kept));
    EXPECT_EQ(rule_of([&] { Program refused(path); }), "BrokenFile") << kept;
  }
  test::write_bytes(path, whole);
  EXPECT_EQ(rule_of([&] { Program taken(path); }), "nothing was thrown");
  std::filesystem::remove(path);
}

// More records than 16 bits count, names in folders of many, and what is saved is read again.
TEST(Program, holds_seventy_thousand_weights) {
  constexpr int count = 70000;
  Json program = test::empty_program({2});
  std::vector<test::Payload> weights;
  torch::Tensor const value = torch::tensor({1.0F, 2.0F});
  for (int i = 0; i < count; ++i) {
    std::string const name = "part." + std::to_string(i) + ".weight";
    std::string const id = "p_" + std::to_string(i);
    test::add_weight(program, "parameter", id, name, {2});
    weights.push_back({name, i == 4321 ? value * 3 : value, true});
  }
  test::append(program, "aten.mul.Tensor", {{"self", test::tensor("x")}, {"other", test::tensor("p_4321")}}, "y", {2});
  test::set_output(program, "y");
  std::filesystem::path const path = folder_of_rank() / "many.pt2";
  write_records(path, test::make_records(program, weights));

  Program const first(path);
  first->save(folder_of_rank() / "again.pt2");
  Program second(folder_of_rank() / "again.pt2");

  EXPECT_EQ(second->parameters().size(), std::size_t(count));
  EXPECT_TRUE(torch::equal(second->forward(torch::ones({2})), value * 3));
  EXPECT_TRUE(torch::equal(second->parameter("part.69999.weight"), value));
  std::filesystem::remove(path);
  std::filesystem::remove(folder_of_rank() / "again.pt2");
}

TEST(Program, refuses_files_by_name) {
  struct Row {
    char const* what;
    char const* rule;
    std::function<void(Records&)> damage;
  };
  auto const table = [](std::function<void(Json&)> const& change) {
    return [change](Records& records) {
      Json json = Json::parse(records["data/weights/model_weights_config.json"]);
      change(json["config"]["head.0.weight"]);
      records["data/weights/model_weights_config.json"] = json.dump();
    };
  };
  auto const graph = [](std::function<void(Json&)> const& change) {
    return [change](Records& records) { change_graph(records, change); };
  };
  std::vector<Row> const rows{
      {"no format", "BrokenFile", [](Records& records) { records.erase("archive_format"); }},
      {"another format", "RefusedProgram", [](Records& records) { records["archive_format"] = "aoti"; }},
      {"newer archive", "RefusedProgram", [](Records& records) { records["archive_version"] = "1"; }},
      {"byte order", "RefusedProgram", [](Records& records) { records["byteorder"] = "big"; }},
      {"two networks", "RefusedProgram",
       [](Records& records) { records["models/other.json"] = records["models/model.json"]; }},
      {"no network", "BrokenFile", [](Records& records) { records.erase("models/model.json"); }},
      {"record missing", "BrokenFile", [](Records& records) { records.erase("data/weights/weight_0"); }},
      {"record short", "BrokenFile", [](Records& records) { records["data/weights/weight_0"].resize(40); }},
      {"pickle", "RefusedProgram", table([](Json& weight) { weight["use_pickle"] = true; })},
      {"path", "BrokenFile", table([](Json& weight) { weight["path_name"] = "../../etc/passwd"; })},
      {"offset", "BrokenFile", table([](Json& weight) { weight["tensor_meta"]["storage_offset"] = test::size_of(1); })},
      {"stride", "BrokenFile",
       table([](Json& weight) { weight["tensor_meta"]["strides"][0] = test::size_of(1LL << 62); })},
      {"other sizes", "BrokenFile", table([](Json& weight) { weight["tensor_meta"]["sizes"][0] = test::size_of(2); })},
      {"newer schema", "UnsupportedFile", graph([](Json& json) { json["schema_version"]["major"] = 9; })},
      {"operator", "RefusedProgram",
       graph([](Json& json) { graph_of(json)["nodes"][1]["target"] = "torch.ops.aten.nonzero.default"; })},
      {"overload", "RefusedProgram",
       graph([](Json& json) { graph_of(json)["nodes"][1]["target"] = "torch.ops.aten.relu.nothing"; })},
      {"argument", "BrokenFile", graph([](Json& json) { graph_of(json)["nodes"][1]["inputs"][1]["name"] = "wait"; })},
      {"argument twice", "BrokenFile",
       graph([](Json& json) { graph_of(json)["nodes"][1]["inputs"][1]["name"] = "input"; })},
      {"argument kind", "BrokenFile", graph([](Json& json) {
         graph_of(json)["nodes"][1]["inputs"][1]["arg"] = {{"as_string", "x"}};
       })},
      {"argument missing", "BrokenFile", graph([](Json& json) { graph_of(json)["nodes"][1]["inputs"].erase(1); })},
      {"prefix", "BrokenFile",
       graph([](Json& json) { signature_of(json)["input_specs"][1]["buffer"]["buffer_name"] = "head.0.weight"; })},
  };
  std::filesystem::path const path = folder_of_rank() / "refused.pt2";
  for (Row const& row : rows) {
    Records records = linear_network();
    row.damage(records);
    write_records(path, records);

    auto const thrown = thrown_by([&] { Program refused(path); });

    EXPECT_EQ(thrown.rule, row.rule) << row.what << ": " << thrown.text;
    EXPECT_NE(thrown.text.find("refused.pt2"), std::string::npos) << row.what << ": " << thrown.text;
    EXPECT_EQ(thrown.fault, Fault::input) << row.what;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(rule_of([&] { Program refused(path); }), "NoSuchFile");
  for (std::string const bytes : {"", "no network"}) {
    std::ofstream(path, std::ios::binary) << bytes;

    auto const thrown = thrown_by([&] { Program refused(path); });

    EXPECT_EQ(thrown.rule, "UnsupportedFile") << thrown.text;
    EXPECT_EQ(thrown.text, path.string() + " is no exported network: not a ZIP archive");
    EXPECT_EQ(thrown.fault, Fault::input);
  }
  std::filesystem::remove(path);
}

TEST(Program, says_which_node_failed_or_gave_other_sizes) {
  Records wrong = linear_network();
  // "sum" alone: the results of other sizes are found at the node that makes them.
  change_graph(wrong, [](Json& json) { graph_of(json)["tensor_values"]["sum"] = test::tensor_meta({3, 2}); });
  Records failing = linear_network();
  change_graph(failing, [](Json& json) { graph_of(json)["nodes"][1]["inputs"][1]["arg"] = tensor("c_shift"); });
  Records other_input = linear_network();
  Program program = load(other_input);

  auto const of_wrong = thrown_by([&] { (void)load(wrong)->forward(some_input()); });
  auto const of_failing = thrown_by([&] { (void)load(failing)->forward(some_input()); });
  auto const of_input = thrown_by([&] { (void)program->forward(torch::zeros({3, 4})); });

  EXPECT_EQ(of_wrong.rule, "FailedNode");
  EXPECT_EQ(of_failing.rule, "FailedNode");
  for (auto const& thrown : {of_wrong, of_failing}) {
    EXPECT_NE(thrown.text.find("in head (head.py:27)"), std::string::npos) << thrown.text;
  }
  EXPECT_EQ(of_input.rule, "ShapeMismatch");
}

// --- The seven given networks ---------------------------------------------------------------------------------------

std::vector<std::string> const networks{"unet_probe",  "credit_swin", "credit_crossformer", "makani_sfno",
                                        "makani_afno", "makani_vit",  "physicsnemo_dlwp"};

/// PyTorch takes longest for these, so that they are not in the default tier.
std::vector<std::string> const networks_of_a_thousand_nodes{"credit_crossformer", "physicsnemo_dlwp"};
std::vector<std::string> const smaller_networks{"unet_probe", "credit_swin", "makani_sfno", "makani_afno",
                                                "makani_vit"};

std::filesystem::path given() { return std::filesystem::path(GRATICULE_TEST_DATA) / "programs"; }

/// Without loading PyTorch, which takes seconds.
bool has_python_torch() {
  static bool const found = [] {
    char const* const python = std::getenv("GRATICULE_TEST_PYTHON");
    return python != nullptr &&
           std::system((std::string(python) + " -c 'import importlib.util as u; u.find_spec(\"torch\") or exit(1)'"
                                              " > /dev/null 2>&1")
                           .c_str()) == 0;
  }();
  return found;
}

int run_python(std::string const& arguments) {
  return std::system((std::string(std::getenv("GRATICULE_TEST_PYTHON")) + " " + arguments).c_str());
}

void print(std::string const& network, GoldenDifferences const& differences) {
  std::cout << network << ": outputs " << differences.outputs.largest << ", loss " << differences.loss.largest
            << ", parameter gradients " << differences.parameter_gradients.largest << " ("
            << differences.parameter_gradients.at << "), input gradients " << differences.input_gradients.largest
            << "\n";
}

class GivenNetworks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(given() / networks[0] / "program.pt2")) {
      GTEST_SKIP() << "the exported networks are missing (GRATICULE_TEST_DATA/programs)";
    }
    if (Comm::world().num_ranks() > 1) {
      GTEST_SKIP() << "runs on one rank";
    }
  }
};

TEST_F(GivenNetworks, equal_python_in_f32) {
  for (std::string const& network : networks) {
    Program const program(given() / network / "program.pt2");

    GoldenDifferences const differences = compare_with_golden(program, given() / network);

    print(network, differences);
    EXPECT_LE(differences.largest(), 1e-5) << network;
    EXPECT_GT(differences.num_parameters, 20) << network;
  }
}

/// The arguments of reference.py for a network, whose figures come to a folder of its name.
std::string reference_of(std::filesystem::path const& program, std::string const& network) {
  std::filesystem::path const folder = folder_of_rank() / network;
  std::filesystem::create_directories(folder);
  return " " + program.string() + " " + (given() / network).string() + " " + folder.string();
}

void expect_equal_to_python_in_f64(std::vector<std::string> const& names) {
  if (!has_python_torch()) {
    GTEST_SKIP() << "GRATICULE_TEST_PYTHON has no torch";
  }
  std::string arguments = std::string(GRATICULE_PROGRAM_TESTS) + "/reference.py";
  for (std::string const& network : names) arguments += reference_of(given() / network / "program.pt2", network);
  ASSERT_EQ(run_python(arguments), 0);
  for (std::string const& network : names) {
    Program program(given() / network / "program.pt2");
    program->to(torch::kFloat64);

    GoldenDifferences const differences = compare_with_golden(program, folder_of_rank() / network);

    print(network, differences);
    EXPECT_LE(differences.largest(), 1e-12) << network;
  }
  std::filesystem::remove_all(folder_of_rank());
}

void expect_python_loads_what_learned_here(std::vector<std::string> const& names) {
  if (!has_python_torch()) {
    GTEST_SKIP() << "GRATICULE_TEST_PYTHON has no torch";
  }
  std::string arguments = std::string(GRATICULE_PROGRAM_TESTS) + "/reference.py";
  std::vector<Program> programs;
  for (std::string const& network : names) {
    Program& program = programs.emplace_back(given() / network / "program.pt2");
    torch::optim::AdamW optimizer(program->parameters(), 1e-3);
    (void)compare_with_golden(program, given() / network);
    optimizer.step();
    std::filesystem::path const learned = folder_of_rank() / network / "program.pt2";
    arguments += reference_of(learned, network);
    program->save(learned);
  }
  ASSERT_EQ(run_python(arguments), 0);
  for (std::size_t n = 0; n < programs.size(); ++n) {
    programs[n]->to(torch::kFloat64);
    // Weights in the file are those of f32, so both compute the same.
    EXPECT_LE(compare_with_golden(programs[n], folder_of_rank() / names[n]).largest(), 1e-12) << names[n];
    EXPECT_GT(compare_with_golden(programs[n], given() / names[n]).outputs.largest, 1e-4) << names[n];
  }
  std::filesystem::remove_all(folder_of_rank());
}

TEST_F(GivenNetworks, equal_python_in_f64) { expect_equal_to_python_in_f64(smaller_networks); }
TEST_F(GivenNetworks, of_a_thousand_nodes_equal_python_in_f64) {
  expect_equal_to_python_in_f64(networks_of_a_thousand_nodes);
}
TEST_F(GivenNetworks, load_in_python_after_they_have_learned_here) {
  expect_python_loads_what_learned_here(smaller_networks);
}
TEST_F(GivenNetworks, of_a_thousand_nodes_load_in_python_after_they_have_learned_here) {
  expect_python_loads_what_learned_here(networks_of_a_thousand_nodes);
}

/// Programs and figures that scripts/export.py makes of small networks, once for all cases.
class ExportedByScript : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!has_python_torch()) return;
    std::filesystem::create_directories(folder());
    status_ = run_python(std::string(GRATICULE_PROGRAM_TESTS) + "/export_samples.py " + folder().string() + " > " +
                         log().string() + " 2>&1");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  void SetUp() override {
    if (!has_python_torch()) {
      GTEST_SKIP() << "GRATICULE_TEST_PYTHON has no torch";
    }
    ASSERT_EQ(status_, 0) << test::read_bytes(log());
  }
  static std::filesystem::path folder() { return folder_of_rank() / "exported"; }

 private:
  static std::filesystem::path log() { return folder() / "log"; }
  inline static int status_ = -1;
};

// Exported with dynamic sizes on one grid; the figures are those of others.
TEST_F(ExportedByScript, runs_on_other_grids_than_it_was_exported_on) {
  for (std::string const sizes : {"2x3x25x50", "2x3x32x72"}) {
    Program program(folder() / "2x3x16x24" / "program.pt2");

    GoldenDifferences const differences = compare_with_golden(program, folder() / sizes);

    print(sizes, differences);
    EXPECT_LE(differences.largest(), 1e-5);
    EXPECT_EQ(program->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 1);
    EXPECT_EQ(rule_of([&] { (void)program->forward(torch::zeros({1, 3, 16, 24})); }), "ShapeMismatch");
  }
}

TEST_F(ExportedByScript, has_figures_of_inputs_and_outputs_of_all_kinds) {
  Program const program(folder() / "mixed" / "program.pt2");

  GoldenDifferences const differences = compare_with_golden(program, folder() / "mixed");

  EXPECT_LE(differences.largest(), 1e-5);
  EXPECT_EQ(differences.num_inputs, 4);
  EXPECT_EQ(differences.num_outputs, 8);
}

TEST_F(ExportedByScript, has_no_figures_of_networks_that_drop_values) {
  EXPECT_NE(test::read_bytes(folder() / "dropping" / "refusal").find("export it with --eval"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder() / "dropping" / "golden.json"));
  EXPECT_TRUE(std::filesystem::exists(folder() / "dropping_no_more" / "golden.json"));
}

TEST_F(ExportedByScript, is_refused_in_one_line_for_a_mistake) {
  std::vector<std::pair<std::string, std::string>> const lines{
      {"axis", "no input has an axis 4"},
      {"word", "--dynamic rows: axes are whole numbers"},
      {"channels", "the network does not take --input 1x2x4x6: "},
      {"folder", "mistakes/no does not exist"},
  };
  for (auto const& [name, text] : lines) {
    std::string const found = test::read_bytes(folder() / "mistakes" / name);

    EXPECT_NE(found.find(text), std::string::npos) << found;
    EXPECT_EQ(found.find('\n'), std::string::npos) << found;
  }
  EXPECT_FALSE(std::filesystem::exists(folder() / "mistakes" / "x.pt2"));
}

TEST_F(ExportedByScript, reports_sizes_that_the_network_fixes_and_the_nodes_of_the_file) {
  std::string const text = test::read_bytes(folder() / "fixed" / "text");
  Program const program(folder() / "fixed" / "program.pt2");

  EXPECT_NE(text.find("input 0, axis 2: of size 16 only"), std::string::npos) << text;
  EXPECT_EQ(text.find("axis 3"), std::string::npos) << text;
  std::string const nodes = "program.pt2: " + std::to_string(program->graph().graph.nodes.size()) + " nodes, 16 param";
  EXPECT_NE(text.find(nodes), std::string::npos) << nodes << '\n' << text;
}

// The training dialect: operators in place, batch norms that overwrite their buffers themselves.
TEST_F(ExportedByScript, runs_without_decompositions) {
  Program program(folder() / "dialect" / "training.pt2");

  GoldenDifferences const differences = compare_with_golden(program, folder() / "dialect");

  EXPECT_LE(differences.largest(), 1e-5);
  EXPECT_EQ(program->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 1);
  EXPECT_GT(program->named_buffers()["norm.running_mean"].abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace graticule
