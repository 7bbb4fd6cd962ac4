// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/program/sharded_program.hpp>

#include "graph_text.hpp"
#include "shard/local_graph.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using program::Program;
using program::ShardedProgram;
using test::graph_of;
using test::Json;
using test::tensor;

constexpr int f64 = 8;

Json ints(std::vector<std::int64_t> const& values) { return {{"as_ints", values}}; }
Json integer(std::int64_t value) { return {{"as_int", value}}; }
Json word(char const* value) { return {{"as_string", value}}; }

using Numbers = std::vector<std::int64_t>;
using Inputs = std::vector<std::pair<std::string, Json>>;

// A network of x, with tensors of its own.
class Net {
 public:
  explicit Net(Numbers const& shape) : program_(test::empty_program(shape)), channels_(shape[1]) {
    graph_of(program_)["tensor_values"]["x"] = test::tensor_meta(shape, f64);
  }

  // Appends a node that reads the last value as its first argument.
  void node(std::string const& target, std::string const& first, Inputs inputs, Numbers const& shape) {
    std::string const name = "v" + std::to_string(count_++);
    inputs.insert(inputs.begin(), {first, tensor(last_)});
    test::append(program_, target, inputs, name, shape, f64);
    last_ = name;
    channels_ = shape[1];
  }

  void pad(Numbers const& widths, char const* mode, Numbers const& shape) {
    node("aten.pad.default", "self", {{"pad", ints(widths)}, {"mode", word(mode)}}, shape);
  }

  // A convolution with a bias.
  void convolve(Numbers const& kernel, Inputs more, Numbers const& shape, std::int64_t groups = 1) {
    if (used_.empty()) {
      used_ = add_weight(kernel, shape[1], groups);
    }
    more.insert(more.begin(), {{"weight", tensor("w" + used_)}, {"bias", tensor("b" + used_)}});
    if (groups > 1) {
      more.emplace_back("groups", integer(groups));
    }
    node(kernel.size() == 3 ? "aten.conv3d.default" : "aten.conv2d.default", "input", std::move(more), shape);
    used_.clear();
  }

  // Of stride 2 along both axes, with a bias.
  void transpose(std::int64_t kernel, Numbers const& shape) {
    std::string const n = add_weight({kernel, kernel}, shape[1], 1);
    node("aten.conv_transpose2d.input", "input",
         {{"weight", tensor("w" + n)}, {"bias", tensor("b" + n)}, {"stride", ints({2, 2})}}, shape);
  }

  // The next convolution has the weights of the first one.
  void share() { used_ = "0"; }
  void read(std::string const& value) { last_ = value; }
  [[nodiscard]] std::string const& last() const { return last_; }

  [[nodiscard]] Program program() const {
    Json text = program_;
    test::set_output(text, last_);
    std::map<std::string, torch::Tensor> own;
    for (auto const& [name, value] : tensors_) {
      own[name] = value.clone().set_requires_grad(true);
    }
    return Program(text.dump(), std::move(own));
  }

 private:
  std::string add_weight(Numbers const& kernel, std::int64_t outputs, std::int64_t groups) {
    std::string const n = std::to_string(num_weights_++);
    torch::manual_seed(static_cast<std::uint64_t>(num_weights_));
    Numbers sizes{outputs, channels_ / groups};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    tensors_["net.w" + n] = torch::randn(sizes, torch::kFloat64);
    tensors_["net.b" + n] = torch::randn({outputs}, torch::kFloat64);
    test::add_weight(program_, "parameter", "w" + n, "net.w" + n, sizes, f64);
    test::add_weight(program_, "parameter", "b" + n, "net.b" + n, {outputs}, f64);
    return n;
  }

  Json program_;
  std::int64_t channels_;
  std::string last_ = "x";
  std::string used_;
  int count_ = 0;
  int num_weights_ = 0;
  std::map<std::string, torch::Tensor> tensors_;
};

constexpr std::int64_t rows = 24;
constexpr std::int64_t columns = 6;
Numbers const field{1, 4, rows, columns};

struct Case {
  char const* name;
  std::size_t overlaps;  // of equal shares of rows
  std::size_t paddings;
  Numbers shape;
  std::function<void(Net&)> build;
};

Inputs padded(std::int64_t width) { return {{"padding", ints({width, width})}}; }

std::vector<Case> cases() {
  Numbers const wide{1, 4, rows, columns + 2};
  Numbers const padded_field{1, 4, rows + 2, columns + 2};
  Numbers const half{1, 4, rows / 2, columns / 2};
  return {
      {"zeros by the convolution", 2, 0, field,
       [](Net& net) {
         net.convolve({3, 3}, padded(1), field);
         net.convolve({5, 3}, {{"padding", ints({2, 1})}}, {1, 3, rows, columns});
       }},
      {"columns go round, rows of zeros", 1, 1, field,
       [=](Net& net) {
         net.pad({1, 1, 0, 0}, "circular", wide);
         net.pad({0, 0, 1, 1}, "constant", padded_field);
         net.convolve({3, 3}, {}, field);
       }},
      {"rows and columns padded at once", 1, 1, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "constant", padded_field);
         net.convolve({3, 3}, {}, field);
       }},
      {"rows go round", 1, 1, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "circular", padded_field);
         net.convolve({3, 3}, {}, field);
       }},
      {"rows reflected and repeated", 2, 2, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "reflect", padded_field);
         net.convolve({3, 3}, {}, field);
         net.pad({1, 1, 1, 1}, "replicate", padded_field);
         net.convolve({3, 3}, {}, field);
       }},
      {"zeros beside zeros", 1, 1, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "constant", padded_field);
         net.convolve({5, 5}, padded(1), field);
       }},
      {"zeros beside rows that go round", 0, 0, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "circular", padded_field);
         net.convolve({5, 5}, padded(1), field);
       }},
      {"a padded field that is read twice", 1, 0, field,
       [=](Net& net) {
         net.pad({1, 1, 1, 1}, "constant", padded_field);
         std::string const both = net.last();
         net.convolve({3, 3}, padded(1), padded_field);
         net.node("aten.add.Tensor", "self", {{"other", tensor(both)}}, padded_field);
       }},
      {"a stride", 1, 0, field,
       [=](Net& net) {
         net.convolve({3, 3}, {{"stride", ints({2, 2})}, {"padding", ints({1, 1})}}, half);
       }},
      {"dilated, in groups", 1, 0, field,
       [=](Net& net) {
         net.convolve({3, 3}, {{"padding", ints({2, 2})}, {"dilation", ints({2, 2})}}, field, 2);
       }},
      {"an even kernel", 0, 0, field,
       [=](Net& net) {
         net.pad({0, 1, 0, 1}, "constant", {1, 4, rows + 1, columns + 1});
         net.convolve({2, 2}, {}, field);
       }},
      {"two that read the same rows", 0, 0, field,
       [=](Net& net) {
         net.convolve({3, 3}, padded(1), field);
         std::string const one = net.last();
         net.read("x");
         net.convolve({3, 3}, padded(1), field);
         net.node("aten.mul.Tensor", "self", {{"other", tensor(one)}}, field);
       }},
      {"shared weights", 2, 0, field,
       [=](Net& net) {
         net.convolve({3, 3}, padded(1), field);
         net.node("aten.tanh.default", "self", {}, field);
         net.share();
         net.convolve({3, 3}, padded(1), field);
       }},
      {"transposed: windows reach all rows, then every other one", 0, 0, field,
       [=](Net& net) {
         net.transpose(2, {1, 4, 2 * rows, 2 * columns});
         net.transpose(1, {1, 4, 4 * rows - 1, 4 * columns - 1});
       }},
      {"channels last",
       1,
       0,
       {1, rows, columns, 4},
       [=](Net& net) {
         net.node("aten.permute.default", "self", {{"dims", ints({0, 3, 1, 2})}}, field);
         net.convolve({3, 3}, padded(1), field);
         net.node("aten.permute.default", "self", {{"dims", ints({0, 2, 3, 1})}}, {1, rows, columns, 4});
       }},
      {"levels",
       1,
       0,
       {2, 3, 4, rows, columns},
       [=](Net& net) {
         net.convolve({3, 3, 3}, {{"padding", ints({1, 1, 1})}}, {2, 2, 4, rows, columns});
       }},
      {"columns cut",
       1,
       0,
       {1, 2, columns, rows},
       [=](Net& net) {
         net.node("aten.permute.default", "self", {{"dims", ints({0, 1, 3, 2})}}, {1, 2, rows, columns});
         net.convolve({3, 3}, padded(1), {1, 4, rows, columns});
         net.node("aten.permute.default", "self", {{"dims", ints({0, 1, 3, 2})}}, {1, 4, columns, rows});
       }},
  };
}

nn::Domain world() {
  Comm const comm = Comm::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

program::ShardOptions with_overlaps() { return {.costs = {.message = 0, .replicated = 1000, .overlap = 0}}; }

// Of the axis that the caller cuts, the last but one.
Numbers balanced(std::int64_t extent, int num_ranks) { return program::Cut::balanced(0, extent, num_ranks).bounds; }

Numbers uneven(std::int64_t extent, int num_ranks, std::mt19937_64& random) {
  Numbers bounds{0, extent};
  for (int rank = 1; rank < num_ranks; ++rank) {
    bounds.push_back(std::uniform_int_distribution<std::int64_t>(0, extent)(random));
  }
  std::ranges::sort(bounds);
  return bounds;
}

torch::Tensor own_part(torch::Tensor const& whole, Numbers const& bounds) {
  auto const rank = static_cast<std::size_t>(Comm::world().rank());
  return whole.narrow(-2, bounds[rank], bounds[rank + 1] - bounds[rank]);
}

torch::Tensor planned_part(ShardedProgram shards, torch::Tensor const& whole) {
  auto const& cut = *shards->plan().outputs.at(0).to;
  return whole.index_select(cut.axis,
                            torch::tensor(cut.owned_indices(whole.size(cut.axis), Comm::world().rank()), torch::kLong));
}

torch::Tensor total(torch::Tensor const& partial) {
  torch::Tensor sum = partial.contiguous().clone();
  nn::detail::sum_over(Comm::world(), sum);
  return sum;
}

void expect_close(torch::Tensor const& found, torch::Tensor const& wanted, std::string const& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  if (wanted.numel() > 0) {
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-10 * (1 + wanted.abs().max().item<double>())) << what;
  }
}

// Outputs, gradients, and the gradients of the squares of the gradients of the input and of the weights.
class Comparison {
 public:
  Comparison(Net const& net, torch::Tensor whole, Numbers bounds)
      : serial_(net.program()),
        divided_(net.program()),
        domain_(world()),
        shards_(divided_, domain_, with_overlaps()),
        whole_(std::move(whole)),
        bounds_(std::move(bounds)) {}

  void run() {
    torch::Tensor const x = whole_.clone().requires_grad_();
    torch::Tensor const y = serial_->forward(x);
    torch::manual_seed(3);
    torch::Tensor const cotangent = torch::randn_like(y);
    torch::Tensor const own_x = own_part(whole_, bounds_).clone().requires_grad_();

    torch::Tensor const own_y = shards_->forward(own_x);

    expect_close(own_y.detach(), planned_part(shards_, y.detach()), "outputs");
    auto const wanted = gradients((y * y * cotangent).sum(), x, serial_);
    auto const found =
        gradients(nn::reduce_loss((own_y * own_y * planned_part(shards_, cotangent)).sum(), domain_), own_x, divided_);
    compare(found, wanted, "first");
    // A weight's gradient is a part on each rank, whose square is no part of a sum over ranks: the input's alone.
    auto const second = gradients(wanted[0].square().sum(), x, serial_);
    auto const own_second = gradients(nn::reduce_loss(found[0].square().sum(), domain_), own_x, divided_);
    compare(own_second, second, "second");
  }

  [[nodiscard]] program::detail::Overlaps overlaps() {
    program::Sizes const sizes(serial_->graph(), {whole_.sizes().vec()});
    return program::detail::find_overlaps(shards_->plan(), sizes);
  }

 private:
  // Of the input, then of the parameters.
  static std::vector<torch::Tensor> gradients(torch::Tensor const& loss, torch::Tensor const& x, Program network) {
    std::vector<torch::Tensor> of{x};
    for (torch::Tensor const& parameter : network->parameters()) {
      of.push_back(parameter);
    }
    auto found = torch::autograd::grad({loss}, of, {}, /*retain_graph=*/true, /*create_graph=*/true, true);
    for (std::size_t i = 0; i < of.size(); ++i) {
      found[i] = found[i].defined() ? found[i] : torch::zeros_like(of[i]);
    }
    return found;
  }

  void compare(std::vector<torch::Tensor> const& found, std::vector<torch::Tensor> const& wanted,
               std::string const& order) const {
    expect_close(found[0].detach(), own_part(wanted[0].detach(), bounds_), order + " derivative, input");
    for (std::size_t i = 1; i < found.size(); ++i) {
      expect_close(total(found[i].detach()), wanted[i].detach(), order + " derivative, parameter " + std::to_string(i));
    }
  }

  Program serial_;
  Program divided_;
  nn::Domain domain_;
  ShardedProgram shards_;
  torch::Tensor whole_;
  Numbers bounds_;
};

TEST(Overlaps, equal_the_serial_network_to_second_derivatives) {
  std::mt19937_64 random(5);
  int const num_ranks = Comm::world().num_ranks();
  for (Case const& one : cases()) {
    Net net(one.shape);
    one.build(net);
    torch::manual_seed(11);
    torch::Tensor const whole = torch::randn(one.shape, torch::kFloat64);
    std::int64_t const extent = whole.size(-2);
    for (int trial = 0; trial < 3; ++trial) {
      SCOPED_TRACE(std::string(one.name) + ", trial " + std::to_string(trial));
      Comparison comparison(net, whole, trial == 0 ? balanced(extent, num_ranks) : uneven(extent, num_ranks, random));

      comparison.run();

      if (trial == 0 && num_ranks == 2) {
        EXPECT_EQ(comparison.overlaps().convolutions.size(), one.overlaps);
        EXPECT_EQ(comparison.overlaps().paddings.size(), one.paddings);
      }
      if (num_ranks == 1) {
        EXPECT_TRUE(comparison.overlaps().convolutions.empty());
      }
    }
  }
}

Net two_convolutions() {
  Net net(field);
  net.convolve({3, 3}, padded(1), field);
  net.node("aten.tanh.default", "self", {}, field);
  net.convolve({3, 3}, padded(1), field);
  return net;
}

TEST(Overlaps, give_gradients_to_weights_alone_and_to_inputs_alone) {
  nn::Domain const domain = world();
  torch::manual_seed(2);
  torch::Tensor const whole = torch::randn(field, torch::kFloat64);
  auto const bounds = balanced(rows, domain.comm().num_ranks());
  for (bool const of_weights : {true, false}) {
    Program serial = two_convolutions().program();
    Program divided = two_convolutions().program();
    for (Program& network : std::vector<Program>{serial, divided}) {
      for (torch::Tensor& parameter : network->parameters()) {
        parameter.set_requires_grad(of_weights);
      }
    }
    ShardedProgram shards(divided, domain, with_overlaps());
    torch::Tensor const x = whole.clone().set_requires_grad(!of_weights);
    torch::Tensor const own_x = own_part(whole, bounds).clone().set_requires_grad(!of_weights);

    torch::Tensor const y = serial->forward(x);
    y.square().sum().backward();
    torch::Tensor const own_y = shards->forward(own_x);
    nn::reduce_loss(own_y.square().sum(), domain).backward();

    expect_close(own_y.detach(), own_part(y.detach(), bounds), "outputs");
    if (of_weights) {
      auto const wanted = serial->parameters();
      auto const found = divided->parameters();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        expect_close(total(found[i].grad()), wanted[i].grad(), "parameter " + std::to_string(i));
      }
    } else {
      expect_close(own_x.grad(), own_part(x.grad(), bounds), "input");
    }
    torch::NoGradGuard const no_grad;
    expect_close(shards->forward(own_x), own_part(y.detach(), bounds), "outputs without a graph");
  }
}

TEST(Overlaps, cast_as_the_serial_network_does) {
  nn::Domain const domain = world();
  torch::manual_seed(2);
  torch::Tensor const whole = torch::randn(field);
  auto const bounds = balanced(rows, domain.comm().num_ranks());
  Program serial = two_convolutions().program();
  Program divided = two_convolutions().program();
  serial->to(torch::kFloat);
  divided->to(torch::kFloat);
  ShardedProgram shards(divided, domain, with_overlaps());
  torch::Tensor const x = whole.clone().requires_grad_();
  torch::Tensor const own_x = own_part(whole, bounds).clone().requires_grad_();
  at::autocast::set_autocast_enabled(at::kCPU, true);

  torch::Tensor const y = serial->forward(x);
  torch::Tensor const own_y = shards->forward(own_x);

  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  y.to(torch::kFloat).square().sum().backward();
  nn::reduce_loss(own_y.to(torch::kFloat).square().sum(), domain).backward();
  EXPECT_EQ(own_y.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(own_y.scalar_type(), y.scalar_type());
  // Eight digits of bf16, rounded once more where strips are added.
  auto const near = [](torch::Tensor const& found, torch::Tensor const& wanted) {
    return (found - wanted).abs().max().item<double>() <= 0.03 * wanted.abs().max().item<double>();
  };
  EXPECT_TRUE(near(own_y.detach().to(torch::kFloat), own_part(y.detach().to(torch::kFloat), bounds)));
  EXPECT_TRUE(near(own_x.grad(), own_part(x.grad(), bounds)));
  EXPECT_EQ(own_x.grad().scalar_type(), torch::kFloat);
}

TEST(Overlaps, repeat_bit_for_bit) {
  nn::Domain const domain = world();
  torch::manual_seed(2);
  auto const bounds = balanced(rows, domain.comm().num_ranks());
  ShardedProgram shards(two_convolutions().program(), domain, with_overlaps());
  torch::Tensor const own = own_part(torch::randn(field, torch::kFloat64), bounds).clone();
  auto const gradient = [&] {
    torch::Tensor const x = own.clone().requires_grad_();
    nn::reduce_loss(shards->forward(x).square().sum(), domain).backward();
    return x.grad();
  };

  torch::Tensor const first = gradient();
  torch::Tensor const second = gradient();

  EXPECT_TRUE(torch::equal(first, second));
}

}  // namespace
}  // namespace graticule
