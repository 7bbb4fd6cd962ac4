// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/program/detail/golden.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "expect_error.hpp"
#include "files.hpp"
#include "shared_folder.hpp"
#include "tiny_archive.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace graticule {
namespace {

using program::compare_with_golden;
using program::Difference;
using program::GoldenDifferences;
using program::Program;
using program::ShardedProgram;
using test::ErrorWith;
using test::Json;
using test::rule_of;

constexpr std::int64_t num_rows = 6;
constexpr std::int64_t num_columns = 8;

torch::Tensor input() {
  return torch::linspace(-1, 2, 2 * num_rows * num_columns).reshape({1, 2, num_rows, num_columns});
}
torch::Tensor weight() { return torch::linspace(-1, 1, 54).reshape({3, 2, 3, 3}); }

/// y = conv2d(x, head.weight), and a parameter that no node reads.
void write_network(std::filesystem::path const& path) {
  Json program = test::empty_program({1, 2, num_rows, num_columns});
  test::add_weight(program, "parameter", "p_weight", "head.weight", {3, 2, 3, 3});
  test::add_weight(program, "parameter", "p_spare", "spare", {4});
  for (auto const* const name : {"p_weight", "p_spare"}) {
    test::graph_of(program)["tensor_values"][name]["requires_grad"] = true;
  }
  test::append(program, "aten.conv2d.default",
               {{"input", test::tensor("x")}, {"weight", test::tensor("p_weight")}, {"padding", {{"as_ints", {1, 1}}}}},
               "y", {1, 3, num_rows, num_columns});
  test::set_output(program, "y");
  test::write_records(
      path, test::make_records(program, {{"head.weight", weight(), true}, {"spare", torch::zeros({4}), true}}));
}

Json entry_of(std::string const& name, torch::Tensor const& tensor, std::string const& dtype) {
  return {{"name", name}, {"shape", tensor.sizes().vec()}, {"dtype", dtype}, {"file", name + ".bin"}};
}

/// What Python would write for the network: by LibTorch's convolution in f64.
struct Figures {
  Figures() {
    auto const x = input().to(torch::kDouble).requires_grad_();
    auto const w = weight().to(torch::kDouble).requires_grad_();
    auto const output = torch::conv2d(x, w, {}, 1, 1);
    auto const mean = output.square().mean();
    mean.backward();
    y = output.detach();
    loss = mean.item<double>();
    weight_norm = w.grad().norm().item<double>();
    input_norm = x.grad().norm().item<double>();
  }
  void write_tensors(std::filesystem::path const& folder) const {
    test::write_bytes(folder / "x.bin", test::bytes_of(input()));
    test::write_bytes(folder / "y.bin", test::bytes_of(y));
  }
  [[nodiscard]] Json golden() const {
    Json json;
    json["inputs"] = Json::array({entry_of("x", input(), "float32")});
    json["outputs"] = Json::array({entry_of("y", y, "float64")});
    json["loss"] = loss;
    json["parameter_gradient_norms"]["head.weight"] = weight_norm;
    json["parameter_gradient_norms"]["spare"] = nullptr;
    json["input_gradient_norms"] = Json::array({input_norm});
    return json;
  }

  torch::Tensor y;
  double loss = 0;
  double weight_norm = 0;
  double input_norm = 0;
};

/// The network in f64 on every rank, and folders of figures that the ranks share.
class Golden : public ::testing::Test {
 protected:
  Golden() : network_(folder_.make("net.pt2", write_network)) { network_->to(torch::kFloat64); }

  using Change = std::function<void(Json&, Figures&)>;
  /// A folder of this name with figures after `change`.
  [[nodiscard]] std::filesystem::path figures(
      std::string const& name, Change const& change = [](Json&, Figures&) {}) const {
    return folder_.make(name, [&](std::filesystem::path const& path) {
      std::filesystem::create_directory(path);
      Figures of_network;
      Json golden = of_network.golden();
      change(golden, of_network);
      of_network.write_tensors(path);
      test::write_bytes(path / "golden.json", golden.dump());
    });
  }

  Comm comm_ = Comm::world();
  test::Folder folder_{comm_};
  Program network_;
};

TEST_F(Golden, finds_no_difference_in_figures_of_the_same_network) {
  auto const differences = compare_with_golden(network_, figures("same"));

  EXPECT_LE(differences.largest(), 1e-12);
  EXPECT_EQ(differences.num_outputs, 1);
  EXPECT_EQ(differences.num_parameters, 2);
  EXPECT_EQ(differences.num_inputs, 1);
}

TEST_F(Golden, drops_gradients_that_the_parameters_have) {
  auto const weight = network_->parameter("head.weight");
  weight.mutable_grad() = torch::full_like(weight, 100);

  EXPECT_LE(compare_with_golden(network_, figures("same")).largest(), 1e-12);
}

TEST_F(Golden, measures_each_kind_of_difference_and_says_where_it_is) {
  struct Row {
    std::string name;
    Change change;
    Difference GoldenDifferences::*kind;
    double largest;
    std::string at;
  };
  Figures const right;
  auto wrong_y = right.y.clone();
  wrong_y[0][1][2][3].add_(0.25);
  std::vector<Row> const rows{
      {"output", [&](Json&, Figures& figures) { figures.y = wrong_y; }, &GoldenDifferences::outputs,
       0.25 / wrong_y.abs().max().item<double>(), "output y"},
      {"loss", [](Json& golden, Figures& figures) { golden["loss"] = 1.5 * figures.loss; }, &GoldenDifferences::loss,
       1.0 / 3, "loss"},
      {"parameter",
       [](Json& golden, Figures& figures) {
         golden["parameter_gradient_norms"]["head.weight"] = figures.weight_norm / 2;
       },
       &GoldenDifferences::parameter_gradients, 1, "head.weight"},
      // A thousandth of the largest norm counts as a hundredth of it.
      {"small_norm",
       [](Json& golden, Figures& figures) { golden["parameter_gradient_norms"]["spare"] = figures.weight_norm / 1000; },
       &GoldenDifferences::parameter_gradients, 0.1, "spare"},
      {"input", [](Json& golden, Figures& figures) { golden["input_gradient_norms"][0] = 2 * figures.input_norm; },
       &GoldenDifferences::input_gradients, 0.5, "x"}};
  for (Row const& row : rows) {
    SCOPED_TRACE(row.name);

    auto const differences = compare_with_golden(network_, figures(row.name, row.change));

    EXPECT_NEAR((differences.*row.kind).largest, row.largest, 1e-12);
    EXPECT_EQ((differences.*row.kind).at, row.at);
    EXPECT_EQ(differences.largest(), (differences.*row.kind).largest);
    for (auto const kind : {&GoldenDifferences::outputs, &GoldenDifferences::loss,
                            &GoldenDifferences::parameter_gradients, &GoldenDifferences::input_gradients}) {
      if (kind != row.kind) {
        EXPECT_LE((differences.*kind).largest, 1e-12);
      }
    }
  }
}

TEST_F(Golden, counts_a_value_that_is_no_number_as_the_largest_difference) {
  auto const folder = figures("nan", [](Json&, Figures& figures) { figures.y[0][2][5][7].fill_(std::nan("")); });

  EXPECT_EQ(compare_with_golden(network_, folder).outputs.largest, INFINITY);
}

// Python's json writes NaN and Infinity, which JSON does not have.
TEST_F(Golden, reads_numbers_that_json_does_not_have) {
  auto const folder = figures("words", [](Json& golden, Figures&) {
    golden["loss"] = "WORD";
    golden["input_gradient_norms"][0] = "OTHER";
    golden["torch"] = "NaN is text here, \" and Infinity as well";
  });
  std::string text = test::read_bytes(folder / "golden.json");
  comm_.barrier();
  if (comm_.rank() == 0) {
    text.replace(text.find("\"WORD\""), 6, "NaN");
    text.replace(text.find("\"OTHER\""), 7, "-Infinity");
    test::write_bytes(folder / "golden.json", text);
  }
  comm_.barrier();

  auto const differences = compare_with_golden(network_, folder);

  EXPECT_EQ(differences.loss.largest, INFINITY);
  EXPECT_EQ(differences.input_gradients.largest, INFINITY);
  EXPECT_LE(differences.outputs.largest, 1e-12);
}

TEST_F(Golden, finds_no_difference_where_loss_and_gradients_are_zero) {
  {
    torch::NoGradGuard const no_grad;
    network_->parameter("head.weight").zero_();
  }
  auto const folder = figures("zero", [](Json& golden, Figures& figures) {
    figures.y.zero_();
    golden["loss"] = 0.0;
    golden["parameter_gradient_norms"]["head.weight"] = 0.0;
    golden["input_gradient_norms"][0] = 0.0;
  });

  EXPECT_EQ(compare_with_golden(network_, folder).largest(), 0);
}

// y = x / |x|, whose loss does not depend on x: its gradient is rounding on both sides.
TEST_F(Golden, finds_no_difference_where_gradients_vanish) {
  Program network(folder_.make("unit.pt2", [](std::filesystem::path const& path) {
    Json program = test::empty_program({1, 2, num_rows, num_columns});
    test::append(program, "aten.linalg_vector_norm.default", {{"self", test::tensor("x")}}, "size", {});
    test::append(program, "aten.div.Tensor", {{"self", test::tensor("x")}, {"other", test::tensor("size")}}, "y",
                 {1, 2, num_rows, num_columns});
    test::set_output(program, "y");
    test::write_records(path, test::make_records(program, {}));
  }));
  network->to(torch::kFloat64);
  auto const folder = figures("unit", [](Json& golden, Figures& figures) {
    auto const x = input().to(torch::kDouble);
    figures.y = x / x.norm();
    golden["outputs"][0]["shape"] = figures.y.sizes().vec();
    golden["loss"] = figures.y.square().mean().item<double>();
    golden["parameter_gradient_norms"] = Json::object();
    golden["input_gradient_norms"][0] = 3e-19;
  });

  EXPECT_LE(compare_with_golden(network, folder).largest(), 1e-11);
}

/// y = x * head.scale, and a parameter that no node reads.
Program scaled(test::Folder const& folder) {
  return Program(folder.make("scaled.pt2", [](std::filesystem::path const& path) {
    Json program = test::empty_program({1, 2, num_rows, num_columns});
    test::add_weight(program, "parameter", "p_a", "a", {2, 1, 1});
    test::add_weight(program, "parameter", "p_scale", "head.scale", {2, 1, 1});
    test::append(program, "aten.mul.Tensor", {{"self", test::tensor("x")}, {"other", test::tensor("p_scale")}}, "y",
                 {1, 2, num_rows, num_columns});
    test::set_output(program, "y");
    test::write_records(path, test::make_records(program, {{"a", torch::ones({2, 1, 1}), true},
                                                           {"head.scale", torch::ones({2, 1, 1}), true}}));
  }));
}

TEST_F(Golden, first_call_of_shards_names_the_first_weight_that_differs_between_ranks) {
  if (comm_.num_ranks() == 1) {
    GTEST_SKIP() << "one rank has no other to differ from";
  }
  nn::Domain const domain(comm_, ProcessGrid{comm_.num_ranks(), 1});
  Program network = scaled(folder_);
  ShardedProgram shards(network, domain);
  std::int64_t const own = balanced_cuts(num_rows, comm_.num_ranks()).size(comm_.rank());
  torch::Tensor const x = torch::ones({1, 2, own, num_columns});
  torch::Tensor const scale = network->parameter("head.scale");
  if (comm_.rank() == comm_.num_ranks() - 1) {
    torch::NoGradGuard const no_grad;
    scale[1] += 1e-6;
  }

  EXPECT_EQ(rule_of([&] { (void)shards->forward(x); }), (ErrorWith{"ReplicaMismatch", "parameter head.scale"}));

  {
    torch::NoGradGuard const no_grad;
    scale.fill_(2);
  }
  EXPECT_TRUE(torch::equal(shards->forward(x), 2 * x));
}

TEST_F(Golden, sizes_that_do_not_fit_are_those_of_all_ranks) {
  if (comm_.num_ranks() == 1) {
    GTEST_SKIP() << "one rank has all rows";
  }
  nn::Domain const domain(comm_, ProcessGrid{comm_.num_ranks(), 1});
  ShardedProgram shards(scaled(folder_), domain);
  std::string const rows = std::to_string(num_rows);

  // Each rank gives the whole field.
  auto const thrown = test::thrown_by([&] { (void)shards->forward(torch::ones({1, 2, num_rows, num_columns})); });

  EXPECT_EQ(thrown.rule, "ShapeMismatch");
  EXPECT_NE(thrown.text.find(std::to_string(num_rows * comm_.num_ranks()) + " along axis 2"), std::string::npos)
      << thrown.text;
  EXPECT_NE(thrown.text.find("of the whole field: the ranks give " + rows + " + " + rows), std::string::npos)
      << thrown.text;
}

TEST_F(Golden, refuses_figures_by_name_and_place) {
  struct Row {
    std::string name;
    Change change;
    ErrorWith error;
  };
  std::vector<Row> const rows{
      {"no_file",
       [](Json& golden, Figures&) { golden["inputs"][0]["file"] = "nothing.bin"; },
       {"NoSuchFile", "nothing.bin does not exist"}},
      {"dtype",
       [](Json& golden, Figures&) { golden["inputs"][0]["dtype"] = "quaternion"; },
       {"BadInput", "x.bin: its type \"quaternion\" is not known"}},
      {"bytes",
       [](Json& golden, Figures&) {
         golden["inputs"][0]["shape"] = {1, 2, 6, 9};
       },
       {"BadInput", "x.bin: it has 384 bytes, its shape needs 432"}},
      {"shape",
       [](Json& golden, Figures&) {
         golden["outputs"][0]["shape"] = {1, -3, 6, 8};
       },
       {"BadInput", "y.bin: its shape is not valid"}},
      {"two_outputs",
       [](Json& golden, Figures&) { golden["outputs"].push_back(nullptr); },
       {"BadInput", "golden.json: it has 2 outputs, the program 1"}},
      {"none",
       [](Json& golden, Figures&) { golden["outputs"][0] = nullptr; },
       {"BadInput", "output 0 is None there or in the program alone"}},
      {"loss_is",
       [](Json& golden, Figures&) { golden["loss_is"] = "sum"; },
       {"BadInput", "its loss is \"sum\", not the mean of the squares of output 0"}},
      {"no_loss", [](Json& golden, Figures&) { golden.erase("loss"); }, {"BadInput", "golden.json: "}},
      {"number", [](Json& golden, Figures&) { golden["loss"] = "small"; }, {"BadInput", "golden.json: "}}};
  for (Row const& row : rows) {
    auto const folder = figures(row.name, row.change);
    EXPECT_EQ(rule_of([&] { (void)compare_with_golden(network_, folder); }), row.error) << row.name;
  }
  EXPECT_EQ(rule_of([&] { (void)compare_with_golden(network_, folder_ / "missing"); }),
            (ErrorWith{"NoSuchFile", "golden.json"}));
}

TEST_F(Golden, compares_shards_of_any_cuts_on_all_ranks) {
  int const num_ranks = comm_.num_ranks();
  nn::Domain const domain(comm_, ProcessGrid{num_ranks, 1});
  auto const same = figures("same");
  auto const other = figures("other", [](Json& golden, Figures& figures) {
    figures.y[0][0][0][0].add_(100);
    golden["input_gradient_norms"][0] = 2 * figures.input_norm;
  });
  double const gap = 100 / (100 + Figures().y[0][0][0][0].item<double>());
  // One row for the first rank and the rest for the last one; all for the first one.
  std::vector<std::int64_t> ends(std::size_t(num_ranks) + 1, 1);
  ends.front() = 0;
  ends.back() = num_rows;
  std::vector<std::int64_t> first(std::size_t(num_ranks) + 1, num_rows);
  first.front() = 0;
  for (auto const& bounds : {ends, first}) {
    program::BlockCuts const cuts{bounds, {0, num_columns}};

    auto const none = compare_with_golden(ShardedProgram(network_, domain), domain, cuts, same);
    auto const some = compare_with_golden(ShardedProgram(network_, domain), domain, cuts, other);

    EXPECT_LE(none.largest(), 1e-12);
    EXPECT_EQ(none.num_parameters, 2);
    EXPECT_NEAR(some.outputs.largest, gap, 1e-12);
    EXPECT_NEAR(some.input_gradients.largest, 0.5, 1e-12);
    EXPECT_LE(some.parameter_gradients.largest, 1e-12);
  }
}

}  // namespace
}  // namespace graticule
