// SPDX-License-Identifier: BSD-3-Clause
// A model of a tracer whose source is unknown: a network in its time step learns the source from observations.
//
//   mpiexec -n 4 example_cxx_closure NET.pt2 TUNED.pt2 STEPS
//
// NET.pt2 is an exported network [1, 3, 24, 48] -> [1, 1, 24, 48], tracer and wind in, source of the tracer out, such
// as that of ../python/closure_net.py. The model learns for STEPS steps, saves the network, and forecasts with and
// without it.
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/program/sharded_program.hpp>
#include <graticule/repartition/runtime.hpp>

#include <mpi.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace graticule;

namespace {

constexpr Index num_rows = 24;
constexpr Index num_columns = 48;
constexpr int forecast_steps = 20;
constexpr double diffusivity = 0.002;
constexpr double dt = 0.05;
double const pi = std::acos(-1.0);

double latitude(Index j) { return -pi / 2 + (double(j) + 0.5) * (pi / double(num_rows)); }
double longitude(Index i) { return double(i) * (2 * pi / double(num_columns)); }

/// The model's own domain decomposition: blocks in a grid of ranks, in row-major order as those of the domain.
ProcessGrid grid_of(int num_ranks) {
  std::array<int, 2> dims{0, 0};
  MPI_Dims_create(num_ranks, 2, dims.data());
  return ProcessGrid{dims[0], dims[1]};
}

/// What the model does not know: the source of the tracer.
double nature(double tracer, double east, double north) {
  return 0.6 * east * std::tanh(2 * tracer) - 0.8 * tracer + 0.7 * north;
}

class Model {
 public:
  Model(Comm const& comm, ProcessGrid const& grid, char const* network)
      : comm_(comm),
        domain_(comm, grid),
        halo_(comm, Layout(grid, {num_rows, num_columns}), {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face)),
        rows_(halo_.owned().extent(0)),
        columns_(halo_.owned().extent(1)),
        tracer_(torch::zeros({rows_ + 2, columns_ + 2}, torch::kFloat64)),
        wind_(torch::zeros({2, rows_, columns_}, torch::kFloat64)),
        network_(network),
        shards_(network_, domain_),
        gradients_(*network_, {{comm}}),
        optimizer_(network_->parameters(), torch::optim::AdamOptions(0.01)) {
    std::vector<double> latitudes;
    for (Index j = 0; j < num_rows; ++j) latitudes.push_back(180 / pi * latitude(j));
    auto const weights = area_weights(latitudes);
    for (double const weight : weights) total_weight_ += weight * double(num_columns);
    weights_ =
        torch::tensor(std::vector<double>(weights.begin() + halo_.owned().lo(0), weights.begin() + halo_.owned().hi(0)),
                      torch::kFloat64)
            .unsqueeze(1);
    for_each_cell([&](Index j, Index i) {
      double const phi = latitude(halo_.owned().lo(0) + j);
      double const lambda = longitude(halo_.owned().lo(1) + i);
      at(wind_[0], j, i) = std::cos(phi) * (1 + 0.3 * std::sin(3 * lambda));
      at(wind_[1], j, i) = 0.5 * std::sin(2 * phi) * std::cos(2 * lambda);
    });
  }

  void set_initial_state() {
    for_each_cell([&](Index j, Index i) {
      at(tracer_, j + 1, i + 1) =
          0.5 + 0.4 * std::cos(latitude(halo_.owned().lo(0) + j)) * std::sin(longitude(halo_.owned().lo(1) + i));
    });
  }

  /// One step from an observed state to the next one: the difference is what the network should have given.
  double learn_from_observation() {
    torch::Tensor const rate = diffusion();
    torch::Tensor const missing = truth();
    torch::Tensor const error = source() - missing;
    // The mean over the sphere: each rank has its part of the sum.
    torch::Tensor const loss = nn::reduce_loss((error.square() * weights_).sum() / total_weight_, domain_);
    optimizer_.zero_grad();
    loss.backward();
    gradients_.reduce();
    optimizer_.step();
    inner() += dt * (rate + missing);
    return loss.item<double>();
  }

  /// Distance from nature after some steps without observations.
  double error_of_forecast(bool with_network) {
    torch::NoGradGuard const no_grad;
    std::array<torch::Tensor, 2> states;
    for (int run = 0; run < 2; ++run) {  // nature, then the model
      set_initial_state();
      for (int step = 0; step < forecast_steps; ++step) {
        torch::Tensor const rate = diffusion();
        torch::Tensor const unknown = run == 0 ? truth() : with_network ? source() : torch::zeros_like(rate);
        inner() += dt * (rate + unknown);
      }
      states[std::size_t(run)] = inner().clone();
    }
    std::array<double, 1> error{(states[1] - states[0]).square().sum().item<double>()};
    comm_.sum(error);
    return std::sqrt(error[0] / double(num_rows * num_columns));
  }

  void save(char const* path) const {
    if (comm_.rank() == 0) network_->save(path);
  }

 private:
  static double& at(torch::Tensor const& field, Index j, Index i) {
    return field.mutable_data_ptr<double>()[j * field.stride(0) + i];
  }

  template <class Visit>
  void for_each_cell(Visit&& visit) const {
    for (Index j = 0; j < rows_; ++j)
      for (Index i = 0; i < columns_; ++i) visit(j, i);
  }

  /// The cells of this rank, without the halo.
  [[nodiscard]] torch::Tensor inner() const { return tracer_.narrow(0, 1, rows_).narrow(1, 1, columns_); }

  /// The network's: blocks of the model go in, blocks come out.
  torch::Tensor source() {
    torch::Tensor const x = torch::cat({inner().unsqueeze(0), wind_}).unsqueeze(0);
    return shards_->forward(x.to(network_->dtype())).squeeze(0).squeeze(0).to(torch::kFloat64);
  }

  [[nodiscard]] torch::Tensor truth() const {
    torch::Tensor const unknown = torch::empty({rows_, columns_}, torch::kFloat64);
    for_each_cell([&](Index j, Index i) {
      at(unknown, j, i) = nature(at(tracer_, j + 1, i + 1), at(wind_[0], j, i), at(wind_[1], j, i));
    });
    return unknown;
  }

  /// What the model knows.
  torch::Tensor diffusion() {
    halo_.exchange(field_view(tracer_.mutable_data_ptr<double>(), halo_.local().extents(), 2));
    torch::Tensor const rate = torch::empty({rows_, columns_}, torch::kFloat64);
    double const dphi = pi / double(num_rows);
    for_each_cell([&](Index j, Index i) {
      double const dx = std::max(std::cos(latitude(halo_.owned().lo(0) + j)) * 2 * pi / double(num_columns), 0.1);
      double const q = at(tracer_, j + 1, i + 1);
      at(rate, j, i) = diffusivity * ((at(tracer_, j + 1, i + 2) - 2 * q + at(tracer_, j + 1, i)) / (dx * dx) +
                                      (at(tracer_, j + 2, i + 1) - 2 * q + at(tracer_, j, i + 1)) / (dphi * dphi));
    });
    return rate;
  }

  Comm comm_;
  nn::Domain domain_;
  HaloPlan halo_;
  Index rows_;
  Index columns_;
  torch::Tensor tracer_;  // with a halo of one
  torch::Tensor wind_;
  torch::Tensor weights_;
  double total_weight_ = 0;
  program::Program network_;
  program::ShardedProgram shards_;
  nn::GradientSync gradients_;
  torch::optim::Adam optimizer_;
};

void run(char const* network, char const* tuned, int steps) {
  Comm const comm = Comm::world();
  Model model(comm, grid_of(comm.num_ranks()), network);
  double first_loss = 0;
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    if (step % forecast_steps == 0) model.set_initial_state();  // the next event
    loss = model.learn_from_observation();
    if (step == 0) first_loss = loss;
  }
  model.save(tuned);
  double const without = model.error_of_forecast(false);
  double const with = model.error_of_forecast(true);
  if (comm.rank() == 0)
    std::printf("loss %.4E, was %.4E; error of the forecast %.4E, without the network %.4E\n", loss, first_loss, with,
                without);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "use: example_cxx_closure NET.pt2 TUNED.pt2 STEPS\n");
    return 2;
  }
  Runtime const runtime(argc, argv);
  torch::set_num_threads(1);
  try {
    run(argv[1], argv[2], std::atoi(argv[3]));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    announce_failure(std::current_exception());
    return 1;
  }
  return 0;
}
