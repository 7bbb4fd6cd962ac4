// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>
#include <graticule/program/program.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "tiny_archive.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace graticule {
namespace {

using program::Program;
using test::linear_network;

Program load_linear_network() {
  std::filesystem::path const path =
      std::filesystem::temp_directory_path() / ("graticule-training-" + std::to_string(::getpid()) + ".pt2");
  test::write_records(path, linear_network());
  Program program(path);
  std::filesystem::remove(path);
  program->eval();
  return program;
}

torch::Tensor sample_of(int rank) { return torch::linspace(-1, 2, 8).reshape({2, 4}) * (1 + rank); }

TEST(ProgramTraining, learns_as_one_rank_does_on_several) {
  auto const comm = Comm::world();
  Program program = load_linear_network();
  Program serial = load_linear_network();
  torch::optim::SGD optimizer(program->parameters(), 0.05);
  torch::optim::SGD serial_optimizer(serial->parameters(), 0.05);
  training::DataParallel parallel(*program, optimizer, {{comm, nn::Reduction::mean}});
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    program->forward(sample_of(comm.rank())).square().mean().backward();
    parallel.step();
    serial_optimizer.zero_grad();
    for (int rank = 0; rank < comm.num_ranks(); ++rank) {
      (serial->forward(sample_of(rank)).square().mean() / comm.num_ranks()).backward();
    }
    serial_optimizer.step();
  }
  parallel.finalize();

  torch::Tensor const learned = program->parameter("head.0.weight");
  EXPECT_LE((learned - serial->parameter("head.0.weight")).abs().max().item<float>(), 1e-6F);
  EXPECT_GT((learned - load_linear_network()->parameter("head.0.weight")).abs().max().item<float>(), 1e-3F);
}

}  // namespace
}  // namespace graticule
