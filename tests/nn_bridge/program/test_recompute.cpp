// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/program/sharded_program.hpp>

#include "expect_error.hpp"
#include "tiny_archive.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using program::Program;
using program::ShardedProgram;
using test::append;
using test::graph_of;
using test::Json;
using test::tensor;

constexpr std::int64_t rows = 17;
constexpr std::int64_t columns = 12;
constexpr std::int64_t channels = 4;
constexpr int f64 = 8;

struct Kind {
  bool marked = true;    // each block is a region
  bool between = false;  // a node within each block is none of its region
  bool normed = true;
  double dropped = 0;
};

Json ints(std::vector<std::int64_t> const& values) { return {{"as_ints", values}}; }
Json real(double value) { return {{"as_float", value}}; }
Json flag(bool value) { return {{"as_bool", value}}; }

// What a network of blocks is made of: each a convolution, a batch norm, a nonlinear function, dropout, a mean over the
// globe and a sum with its input.
class Blocks {
 public:
  Blocks(int num_blocks, Kind kind) : kind_(kind), program_(test::empty_program(shape_)) {
    graph_of(program_)["tensor_values"]["x"] = test::tensor_meta(shape_, f64);
    for (int i = 0; i < num_blocks; ++i) add_block();
  }

  // Appends a node, and marks it as one of that region.
  void node(std::string const& target, std::vector<std::pair<std::string, Json>> const& inputs,
            std::string const& result, std::vector<std::int64_t> const& shape, std::optional<int> region) {
    append(program_, target, inputs, result, shape, f64);
    mark(region);
    last_ = result;
  }

  void weight(std::string const& kind, std::string const& name, torch::Tensor const& value) {
    test::add_weight(program_, kind, "p_" + name, "net." + name, value.sizes().vec(), f64);
    tensors_["net." + name] = value;
  }

  [[nodiscard]] std::string const& last() const { return last_; }

  // The program, which returns what was appended last; with tensors of its own.
  [[nodiscard]] Program program() const {
    Json program = program_;
    Json outputs = Json::array();
    Json specs = Json::array();
    for (auto const& [value, buffer] : written_) {
      outputs.push_back(tensor(value));
      specs.push_back({{"buffer_mutation", {{"arg", {{"name", value}}}, {"buffer_name", buffer}}}});
    }
    outputs.push_back(tensor(last_));
    specs.push_back({{"user_output", {{"arg", tensor(last_)}}}});
    graph_of(program)["outputs"] = outputs;
    test::signature_of(program)["output_specs"] = specs;
    std::map<std::string, torch::Tensor> own;
    for (auto const& [name, value] : tensors_) {
      own[name] = value.clone().set_requires_grad(name.find("running") == std::string::npos);
    }
    return Program(program.dump(), std::move(own));
  }

 private:
  void mark(std::optional<int> region) {
    if (region && kind_.marked) {
      graph_of(program_)["nodes"].back()["metadata"]["custom"] =
          R"({"graticule_recompute": )" + std::to_string(*region) + "}";
    }
  }

  void add_block() {
    std::string const n = std::to_string(number_);
    torch::manual_seed(static_cast<std::uint64_t>(number_));
    std::string const before = last_;
    weight("parameter", "w" + n, torch::randn({channels, channels, 3, 3}, torch::kFloat64) * 0.3);
    node("aten.conv2d.default",
         {{"input", tensor(last_)}, {"weight", tensor("p_w" + n)}, {"padding", ints({1, 1})}, {"stride", ints({1, 1})}},
         "conv" + n, shape_, number_);
    if (kind_.normed) {
      norm(n);
    }
    node("aten.gelu.default", {{"self", tensor(last_)}}, "gelu" + n, shape_, number_);
    if (kind_.between) {
      node("aten.tanh.default", {{"self", tensor(before)}}, "between" + n, shape_, std::nullopt);
      node("aten.mul.Tensor", {{"self", tensor("gelu" + n)}, {"other", tensor("between" + n)}}, "scaled" + n, shape_,
           number_);
    }
    if (kind_.dropped > 0) {
      node("aten.dropout.default", {{"input", tensor(last_)}, {"p", real(kind_.dropped)}, {"train", flag(true)}},
           "drop" + n, shape_, number_);
    }
    std::string const inner = last_;
    node("aten.mean.dim", {{"self", tensor(inner)}, {"dim", ints({2, 3})}, {"keepdim", flag(true)}}, "mean" + n,
         {shape_[0], channels, 1, 1}, number_);
    node("aten.mul.Tensor", {{"self", tensor(inner)}, {"other", tensor("mean" + n)}}, "squeezed" + n, shape_, number_);
    node("aten.add.Tensor", {{"self", tensor(before)}, {"other", tensor(last_)}}, "block" + n, shape_, number_);
    ++number_;
  }

  void norm(std::string const& n) {
    weight("parameter", "g" + n, torch::rand({channels}, torch::kFloat64) + 0.5);
    weight("parameter", "b" + n, torch::randn({channels}, torch::kFloat64));
    weight("buffer", "running_mean" + n, torch::zeros({channels}, torch::kFloat64));
    weight("buffer", "running_var" + n, torch::ones({channels}, torch::kFloat64));
    std::vector<Json> results;
    std::vector<std::string> const names{"norm", "mean_of_norm", "rstd", "new_mean", "new_var"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      results.push_back(tensor(names[i] + n));
      graph_of(program_)["tensor_values"][names[i] + n] =
          test::tensor_meta(i == 0 ? shape_ : std::vector<std::int64_t>{channels}, f64);
    }
    graph_of(program_)["nodes"].push_back(test::node("aten._native_batch_norm_legit_functional.default",
                                                     {{"input", tensor(last_)},
                                                      {"weight", tensor("p_g" + n)},
                                                      {"bias", tensor("p_b" + n)},
                                                      {"running_mean", tensor("p_running_mean" + n)},
                                                      {"running_var", tensor("p_running_var" + n)},
                                                      {"training", flag(true)},
                                                      {"momentum", real(0.1)},
                                                      {"eps", real(1e-5)}},
                                                     results));
    mark(number_);
    written_.emplace_back("new_mean" + n, "net.running_mean" + n);
    written_.emplace_back("new_var" + n, "net.running_var" + n);
    last_ = "norm" + n;
  }

  Kind kind_;
  std::vector<std::int64_t> shape_{2, channels, rows, columns};
  Json program_;
  std::string last_ = "x";
  int number_ = 0;
  std::map<std::string, torch::Tensor> tensors_;
  std::vector<std::pair<std::string, std::string>> written_;
};

torch::Tensor whole_field() {
  torch::manual_seed(77);
  return torch::randn({2, channels, rows, columns}, torch::kFloat64);
}

nn::Domain world() {
  Comm const comm = Comm::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

// All rows but two per later rank on the first one.
struct Share {
  explicit Share(Comm const& comm) {
    size = comm.rank() == 0 ? rows - 2 * (comm.num_ranks() - 1) : 2;
    first = comm.rank() == 0 ? 0 : rows - 2 * (comm.num_ranks() - comm.rank());
  }
  [[nodiscard]] torch::Tensor of(torch::Tensor const& whole) const { return whole.narrow(-2, first, size); }

  std::int64_t first;
  std::int64_t size;
};

ShardedProgram on_shards(Program const& program, nn::Domain const& domain) {
  return ShardedProgram(program, domain,
                        program::ShardOptions{.costs = {.message = 0, .replicated = 1000, .overlap = 0}});
}

torch::Tensor summed(torch::Tensor const& partial, torch::Tensor const& like) {
  torch::Tensor sum = partial.defined() ? partial.contiguous().clone() : torch::zeros_like(like);
  nn::detail::sum_over(Comm::world(), sum);
  return sum;
}

double gap(torch::Tensor const& found, torch::Tensor const& wanted) {
  double const scale = wanted.numel() > 0 ? std::max(wanted.abs().max().item<double>(), 1e-3) : 1;
  return found.numel() > 0 ? (found - wanted).abs().max().item<double>() / scale : 0;
}

// What one forward and backward give; of shards, sums over the ranks and this rank's rows.
struct Result {
  torch::Tensor y;
  torch::Tensor x_gradient;
  std::map<std::string, torch::Tensor> gradients;
  std::map<std::string, torch::Tensor> buffers;
};

Result taken(torch::nn::Module& module, torch::Tensor const& x, torch::Tensor const& y, bool on_ranks) {
  Result result{y.detach(), x.grad(), {}, {}};
  for (auto const& item : module.named_parameters()) {
    torch::Tensor const own = item.value().grad();
    result.gradients[item.key()] = on_ranks ? summed(own, item.value()) : own.clone();
  }
  for (auto const& item : module.named_buffers()) result.buffers[item.key()] = item.value().clone();
  return result;
}

Result run(Program program) {
  torch::Tensor const x = whole_field().requires_grad_();
  torch::Tensor const y = program->forward(x);
  y.square().sum().backward();
  return taken(*program, x, y, false);
}

Result run(ShardedProgram shards, nn::Domain const& domain) {
  torch::Tensor const x = Share(domain.comm()).of(whole_field()).clone().requires_grad_();
  torch::Tensor const y = shards->forward(x);
  nn::reduce_loss(y.square().sum(), domain).backward();
  return taken(*shards, x, y, true);
}

void expect_alike(Result const& found, Result const& wanted, double tolerance) {
  EXPECT_LE(gap(found.y, wanted.y), tolerance);
  EXPECT_LE(gap(found.x_gradient, wanted.x_gradient), tolerance);
  for (auto const& [name, gradient] : wanted.gradients) {
    EXPECT_LE(gap(found.gradients.at(name), gradient), tolerance) << name;
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-6) << name;
  }
  for (auto const& [name, buffer] : wanted.buffers) {
    EXPECT_LE(gap(found.buffers.at(name), buffer), tolerance) << name;
    // Changed by 1/10 of what the first batch differs: once.
    EXPECT_FALSE(torch::equal(
        buffer, name.find("mean") == std::string::npos ? torch::ones_like(buffer) : torch::zeros_like(buffer)))
        << name;
  }
}

Result part_of(Result whole, Comm const& comm) {
  whole.y = Share(comm).of(whole.y);
  whole.x_gradient = Share(comm).of(whole.x_gradient);
  return whole;
}

class Kinds : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static Program program(bool marked, double dropped = 0) {
    return Blocks(3, {.marked = marked, .between = GetParam(), .dropped = dropped}).program();
  }
};

TEST_P(Kinds, equal_a_program_that_keeps_everything) { expect_alike(run(program(true)), run(program(false)), 1e-12); }

TEST_P(Kinds, equal_one_process_on_shards) {
  auto const domain = world();
  Result const wanted = part_of(run(program(false)), domain.comm());

  ShardedProgram shards = on_shards(program(true), domain);
  Result const found = run(shards, domain);

  expect_alike(found, wanted, 1e-12);
  EXPECT_EQ(shards->plan().num_parts, GetParam() ? 6 : 3);
  bool const moves = domain.comm().num_ranks() == 1 || shards->plan().received_bytes[0] > 0;
  EXPECT_TRUE(moves);
}

TEST_P(Kinds, drop_the_same_values_again) {
  torch::manual_seed(3);
  Result const wanted = run(program(false, 0.4));
  double const later = torch::rand({}).item<double>();
  torch::manual_seed(3);
  expect_alike(run(program(true, 0.4)), wanted, 1e-12);
  EXPECT_EQ(torch::rand({}).item<double>(), later);
}

TEST_P(Kinds, drop_the_same_values_again_on_shards) {
  auto const domain = world();
  ShardedProgram kept = on_shards(program(false, 0.4), domain);
  ShardedProgram again = on_shards(program(true, 0.4), domain);
  domain.set_num_draws(5);
  Result const wanted = run(kept, domain);

  domain.set_num_draws(5);
  // A later call draws other masks before the backward of the first one runs its parts again.
  torch::Tensor const x = Share(domain.comm()).of(whole_field()).clone().requires_grad_();
  torch::Tensor const y = again->forward(x);
  auto const buffers = taken(*again, x, y, true).buffers;
  torch::Tensor const other_y = again->forward(x.detach());
  nn::reduce_loss(y.square().sum(), domain).backward();
  Result found = taken(*again, x, y, true);
  found.buffers = buffers;

  expect_alike(found, wanted, 1e-12);
  EXPECT_GT(gap(other_y.detach(), y.detach()), 1e-3);
  EXPECT_EQ(domain.num_draws(), 7);
}

INSTANTIATE_TEST_SUITE_P(ProgramRecompute, Kinds, ::testing::Bool(),
                         [](auto const& one) { return std::string(one.param ? "nodes_between" : "whole_blocks"); });

// Bytes of LibTorch's tensors on this thread.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    alive += bytes;
    most = std::max(most, alive);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  std::int64_t alive = 0;
  std::int64_t most = 0;
};

// Of a forward and its backward: what lies between them, and the most at any time.
std::pair<double, double> bytes_of(std::function<torch::Tensor()> const& loss) {
  (void)loss();  // plans are made once
  auto const bytes = std::make_shared<LiveBytes>();
  c10::DebugInfoGuard const guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
  torch::Tensor const total = loss();
  auto const between = static_cast<double>(bytes->alive);
  total.backward();
  return {between, static_cast<double>(bytes->most)};
}

TEST(ProgramRecompute, holds_what_parts_read_alone) {
  auto const domain = world();
  torch::Tensor const x = Share(domain.comm()).of(whole_field()).clone().requires_grad_();
  auto const of_shards = [&](bool marked) {
    ShardedProgram shards = on_shards(Blocks(12, {.marked = marked}).program(), domain);
    return bytes_of([&] { return nn::reduce_loss(shards->forward(x).sum(), domain); });
  };
  auto const of_one = [&](bool marked) {
    Program program = Blocks(12, {.marked = marked}).program();
    return bytes_of([&] { return program->forward(whole_field()).sum(); });
  };

  auto const [kept, kept_most] = of_shards(false);
  auto const [again, again_most] = of_shards(true);
  auto const [serial_kept, serial_kept_most] = of_one(false);
  auto const [serial_again, serial_again_most] = of_one(true);

  // A block keeps 4 fields, or the one that it gives; while it is computed again it has the others, too.
  EXPECT_LT(again, 0.4 * kept);
  EXPECT_LT(again_most, 0.6 * kept_most);
  EXPECT_LT(serial_again, 0.3 * serial_kept);
  EXPECT_LT(serial_again_most, 0.5 * serial_kept_most);
  if (std::getenv("GRATICULE_TEST_FIGURES") != nullptr) {
    std::cout << "rank " << domain.comm().rank() << ": kept " << kept << " and " << again << ", most " << kept_most
              << " and " << again_most << "; on one process " << serial_kept << " and " << serial_again << ", most "
              << serial_kept_most << " and " << serial_again_most << std::endl;
  }
}

TEST(ProgramRecompute, is_right_to_second_order) {
  auto const domain = world();
  auto const penalty = [&](bool marked, bool on_ranks) {
    Program program = Blocks(2, {.marked = marked}).program();
    torch::Tensor x = whole_field();
    ShardedProgram shards(nullptr);
    if (on_ranks) {
      shards = on_shards(program, domain);
      x = Share(domain.comm()).of(x).clone();
    }
    x.requires_grad_();
    torch::Tensor const y = on_ranks ? shards->forward(x) : program->forward(x);
    torch::Tensor const loss = on_ranks ? nn::reduce_loss(y.pow(3).sum(), domain) : y.pow(3).sum();
    torch::Tensor const slope = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
    torch::Tensor const second = slope.square().sum() + y.sum();
    (on_ranks ? nn::reduce_loss(second, domain) : second).backward();
    return on_ranks ? taken(*shards, x, y, true) : taken(*program, x, y, false);
  };

  Result const wanted = penalty(false, false);
  expect_alike(penalty(true, false), wanted, 1e-11);
  expect_alike(penalty(true, true), part_of(wanted, domain.comm()), 1e-11);
}

TEST(ProgramRecompute, runs_on_all_ranks_for_the_loss_of_one) {
  auto const domain = world();
  auto const& comm = domain.comm();
  Program serial = Blocks(2, {.marked = false}).program();
  torch::Tensor const x = whole_field().requires_grad_();
  torch::Tensor const y = serial->forward(x);
  y.narrow(-2, rows - 1, 1).square().sum().backward();
  Result const wanted = part_of(taken(*serial, x, y, false), comm);

  ShardedProgram shards = on_shards(Blocks(2, {}).program(), domain);
  torch::Tensor const own_x = Share(comm).of(whole_field()).clone().requires_grad_();
  torch::Tensor const own_y = shards->forward(own_x);
  bool const last = comm.rank() == comm.num_ranks() - 1;
  torch::Tensor const loss =
      last ? own_y.narrow(-2, own_y.size(-2) - 1, 1).square().sum() : torch::zeros({}, torch::kFloat64);
  nn::reduce_loss(loss, domain).backward();
  Result found = taken(*shards, own_x, own_y, true);
  found.x_gradient = found.x_gradient.defined() ? found.x_gradient : torch::zeros_like(own_x);

  expect_alike(found, wanted, 1e-12);
}

TEST(ProgramRecompute, outlives_its_program) {
  auto const domain = world();
  torch::Tensor const x = Share(domain.comm()).of(whole_field()).clone().requires_grad_();
  torch::Tensor const serial_x = whole_field().requires_grad_();
  torch::Tensor loss;
  torch::Tensor serial_loss;
  {
    Program program = Blocks(2, {}).program();
    ShardedProgram shards = on_shards(program, domain);
    loss = nn::reduce_loss(shards->forward(x).square().sum(), domain);
    serial_loss = Blocks(2, {}).program()->forward(serial_x).square().sum();
  }

  loss.backward();
  serial_loss.backward();

  EXPECT_LE(gap(x.grad(), Share(domain.comm()).of(serial_x.grad())), 1e-12);
}

TEST(ProgramRecompute, runs_again_with_the_sizes_of_its_call) {
  Json program = test::empty_program({2, 4});
  auto const meta = [] {
    Json result = test::tensor_meta({2, 4}, f64);
    result["sizes"][0] = test::size_of("s0", 2);
    return result;
  }();
  graph_of(program)["tensor_values"]["x"] = meta;
  program["range_constraints"]["s0"] = {{"min_val", 1}, {"max_val", 100}};
  for (std::string const name : {"sin", "exp", "tanh"}) {
    std::string const before = name == "sin" ? "x" : name == "exp" ? "sin" : "exp";
    append(program, "aten." + name + ".default", {{"self", tensor(before)}}, name, {2, 4}, f64);
    graph_of(program)["tensor_values"][name] = meta;
    graph_of(program)["nodes"].back()["metadata"]["custom"] = R"({"graticule_recompute": 1})";
  }
  test::set_output(program, "tanh");
  Program network(program.dump(), std::map<std::string, torch::Tensor>());
  torch::Tensor const x = torch::rand({2, 4}, torch::kFloat64).requires_grad_();
  torch::Tensor const longer = torch::rand({5, 4}, torch::kFloat64).requires_grad_();

  torch::Tensor const y = network->forward(x);
  torch::Tensor const z = network->forward(longer);
  (y.sum() + z.sum()).backward();

  for (torch::Tensor const& each : {x, longer}) {
    torch::Tensor const copy = each.detach().clone().requires_grad_();
    copy.sin().exp().tanh().sum().backward();
    EXPECT_LE(gap(each.grad(), copy.grad()), 1e-14);
  }
}

// What comes before a region would be written to twice.
TEST(ProgramRecompute, keeps_a_region_that_writes_to_what_comes_before_it) {
  auto const network = [](bool marked) {
    Blocks blocks(1, {.marked = marked});
    std::vector<std::int64_t> const shape{2, channels, rows, columns};
    std::string const before = blocks.last();
    blocks.node("aten.sin.default", {{"self", tensor(before)}}, "sin", shape, std::nullopt);
    blocks.node("aten.mul_.Tensor", {{"self", tensor("sin")}, {"other", tensor(before)}}, "product", shape, 9);
    blocks.node("aten.exp.default", {{"self", tensor("product")}}, "exp", shape, 9);
    return blocks.program();
  };
  auto const domain = world();
  Result const wanted = run(network(false));

  expect_alike(run(network(true)), wanted, 1e-12);
  ShardedProgram shards = on_shards(network(true), domain);
  expect_alike(run(shards, domain), part_of(wanted, domain.comm()), 1e-12);
  EXPECT_EQ(shards->plan().num_parts, 1);
  ASSERT_EQ(shards->plan().kept_parts.size(), 1U);
  EXPECT_NE(shards->plan().kept_parts[0].find("aten.mul_.Tensor"), std::string::npos);
}

TEST(ProgramRecompute, counts_what_is_kept) {
  auto const domain = world();
  ShardedProgram kept = on_shards(Blocks(3, {.marked = false}).program(), domain);
  ShardedProgram again = on_shards(Blocks(3, {}).program(), domain);
  torch::NoGradGuard const no_grad;
  torch::Tensor const x = Share(domain.comm()).of(whole_field()).clone();
  (void)kept->forward(x);
  (void)again->forward(x);

  auto const rank = static_cast<std::size_t>(domain.comm().rank());
  auto const bytes_of_value = [&](std::string const& name) {
    auto const& plan = again->plan();
    for (program::NodePlan const& node : plan.nodes) {
      auto const& output = plan.graph.nodes[static_cast<std::size_t>(node.node)].outputs.at(0);
      if (plan.graph.value(std::get<program::TensorRef>(output).value).name == name) {
        return 8 * program::num_elements(node.local_sizes[rank]);
      }
    }
    return std::int64_t{-1};
  };
  std::int64_t const statistics = 2 * channels * 8;
  std::int64_t given = 0;
  std::int64_t within = 0;
  std::int64_t most = 0;
  for (std::string const n : {"0", "1", "2"}) {
    given += bytes_of_value("block" + n) + statistics;  // and new running statistics
    std::int64_t inner = statistics;                    // of the batch
    for (std::string const name : {"conv", "norm", "gelu", "mean", "squeezed"}) {
      EXPECT_GT(bytes_of_value(name + n), 0);
      inner += bytes_of_value(name + n);
    }
    within += inner;
    most = std::max(most, inner);
  }
  EXPECT_EQ(again->plan().activation_bytes[rank], given);
  EXPECT_EQ(again->plan().recomputed_bytes[rank], most);
  EXPECT_EQ(kept->plan().activation_bytes[rank], given + within);
  EXPECT_EQ(kept->plan().recomputed_bytes[rank], 0);
}

TEST(ProgramRecompute, names_what_one_rank_alone_has_frozen) {
  auto const domain = world();
  if (domain.comm().num_ranks() == 1) {
    GTEST_SKIP() << "needs several ranks";
  }
  ShardedProgram shards = on_shards(Blocks(2, {.normed = false}).program(), domain);
  if (domain.comm().rank() == 0) {
    for (torch::Tensor const& parameter : shards->parameters()) torch::Tensor(parameter).set_requires_grad(false);
  }
  torch::Tensor const y = shards->forward(Share(domain.comm()).of(whole_field()).clone());
  EXPECT_EQ(test::rule_of([&] { nn::reduce_loss(y.sum(), domain).backward(); }),
            (test::ErrorWith{"UnusedOnSomeRanks", "has no gradient on rank 0"}));
}

}  // namespace
}  // namespace graticule
