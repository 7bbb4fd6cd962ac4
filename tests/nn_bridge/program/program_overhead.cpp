// SPDX-License-Identifier: BSD-3-Clause
// Prints the time that a program spends per node beyond the operators: a chain of additions of small tensors as a
// program, and the same calls in C++, in turns, the fastest of each.
#include <graticule/program/program.hpp>

#include "tiny_archive.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

namespace {

constexpr int num_nodes = 2000;
constexpr int num_turns = 40;

template <class Action>
double seconds(Action const& action) {
  auto const begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

graticule::program::Program make_chain() {
  using namespace graticule::test;
  Json program = empty_program({4});
  std::string last = "x";
  for (int i = 0; i < num_nodes; ++i) {
    std::string const next = "y" + std::to_string(i);
    append(program, "aten.add.Tensor", {{"self", tensor(last)}, {"other", tensor("x")}}, next, {4});
    last = next;
  }
  set_output(program, last);
  auto const path = std::filesystem::temp_directory_path() / ("graticule-chain-" + std::to_string(::getpid()) + ".pt2");
  write_records(path, make_records(program, {}));
  graticule::program::Program network(path);
  std::filesystem::remove(path);
  return network;
}

void measure(char const* what, graticule::program::Program& network, torch::Tensor const& x) {
  double with_program = 1e9;
  double by_hand = 1e9;
  for (int turn = 0; turn < num_turns; ++turn) {
    with_program = std::min(with_program, seconds([&] { (void)network->forward(x); }));
    by_hand = std::min(by_hand, seconds([&] {
                         torch::Tensor y = x;
                         for (int i = 0; i < num_nodes; ++i) {
                           y = y.add(x);
                         }
                       }));
  }
  std::printf("%s: %.2f us per node as a program, %.2f us by hand, %.2f us beyond the operator\n", what,
              with_program / num_nodes * 1e6, by_hand / num_nodes * 1e6, (with_program - by_hand) / num_nodes * 1e6);
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  graticule::program::Program network = make_chain();
  {
    torch::NoGradGuard const no_grad;
    measure("without gradients", network, torch::ones({4}));
  }
  measure("with gradients", network, torch::ones({4}).requires_grad_());
}
