// SPDX-License-Identifier: BSD-3-Clause
// The layers' and training's part of the table of accidents: docs/accidents.md.
#include "accidents.hpp"

#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/replicas/sync_batch_norm.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <memory>

namespace {

using namespace graticule;
using nn::Reduction;
using test::Operation;
namespace tn = torch::nn;

/// Two sharded convolutions, and this rank's rows.
struct Layers {
  nn::Domain domain;
  nn::Conv2d first;
  nn::Conv2d second;
  torch::Tensor x;

  explicit Layers(Comm const& comm)
      : domain(comm, ProcessGrid{comm.num_ranks(), 1}),
        first(nn::ConvOptions(tn::Conv2dOptions(2, 2, 3).padding(1)), domain),
        second(nn::ConvOptions(tn::Conv2dOptions(2, 2, 3).padding(1)), domain),
        x(torch::ones({1, 2, 4, 6}, torch::requires_grad())) {}
};

Operation forward(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  return {[=] { (void)layers->second(layers->first(layers->x)); }, [=] { (void)layers->second(layers->x); }};
}

Operation backward(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  auto const y = std::make_shared<torch::Tensor>(layers->second(layers->first(layers->x)));
  return {[=] { y->sum().backward({}, true); }, [=] { (void)layers->second(layers->x); }};
}

Operation double_backward(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  auto const y = layers->second(torch::tanh(layers->first(layers->x)));
  auto const gradient =
      std::make_shared<torch::Tensor>(torch::autograd::grad({y.square().sum()}, {layers->x}, {}, true, true)[0]);
  return {[=] { gradient->square().sum().backward({}, true); }, [=] { (void)layers->second(layers->x); }};
}

Operation norm(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  auto const norm = std::make_shared<nn::BatchNorm2d>(tn::BatchNormOptions(2), layers->domain);
  return {[=] { (*norm)(layers->x).sum().backward(); }, [=] { (void)layers->first(layers->x); }};
}

Operation loss(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  auto const loss = std::make_shared<nn::MSELoss>(layers->domain);
  return {[=] {
            (*loss)(layers->x, torch::zeros({1, 2, 4, 6})).backward();
          },
          [=] { (void)nn::reduce_loss(layers->x.sum(), layers->domain); }};
}

Operation tensor_gather(Comm const& comm) {
  auto const x = torch::ones({3, 4}, torch::requires_grad());
  return {[=] { nn::all_sum(x, comm).sum().backward(); }, [=] { comm.barrier(); }};
}

Operation ring(Comm const& comm) {
  auto const layers = std::make_shared<Layers>(comm);
  auto const attention = std::make_shared<nn::SelfAttention>(
      nn::SelfAttentionOptions{tn::MultiheadAttentionOptions(2, 1), nn::AttentionKernel::ring}, layers->domain);
  return {[=] { (*attention)(layers->x).sum().backward(); }, [=] { (void)layers->first(layers->x); }};
}

/// Data parallelism over all ranks.
struct Replicas {
  tn::Linear model{4, 3};
  torch::optim::SGD sgd{model->parameters(), 0.1};
  training::DataParallel parallel;

  explicit Replicas(Comm const& comm) : parallel(*model, sgd, {{comm, Reduction::mean}}) {}
  void step() {
    sgd.zero_grad();
    parallel.run([&] { model(torch::ones({2, 4})).sum().backward(); });
    parallel.step();
  }
};

Operation gradients(Comm const& comm) {
  auto const replicas = std::make_shared<Replicas>(comm);
  return {[=] { replicas->step(); },
          [=] {
            replicas->parallel.sync_buffers();
            comm.barrier();
          }};
}

Operation finalize(Comm const& comm) {
  auto const replicas = std::make_shared<Replicas>(comm);
  return {[=] {
            replicas->parallel.finalize();
            comm.barrier();
          },
          [=] { replicas->step(); }};
}

struct Nodes {
  tn::Linear model{4, 3};
  torch::optim::SGD sgd{model->parameters(), 0.1};
  training::Daso daso;

  explicit Nodes(Comm const& comm)
      : daso(*model, sgd, comm,
             {.schedule = {.total_epochs = 3, .warmup_epochs = 1, .cooldown_epochs = 1}, .node = comm.rank()}) {
    daso.set_last_batch(100);
  }
};

Operation daso(Comm const& comm) {
  auto const nodes = std::make_shared<Nodes>(comm);
  return {[=] {
            nodes->daso.zero_grad();
            nodes->model(torch::ones({2, 4})).sum().backward();
            nodes->daso.step();
          },
          [=] { nodes->daso.epoch_loss(1, training::LossIs::of_this_rank); }};
}

struct Cut {
  std::shared_ptr<nn::UnitImpl<tn::LinearImpl>> model = std::make_shared<nn::UnitImpl<tn::LinearImpl>>(8, 6);
  training::ShardedParameters sharded;

  explicit Cut(Comm const& comm) : sharded(model, {comm, Reduction::mean}) {}
};

Operation sharded_gather(Comm const& comm) {
  auto const cut = std::make_shared<Cut>(comm);
  return {[=] { cut->model->forward(torch::ones({2, 8})).sum().backward(); }, [=] { comm.barrier(); }};
}

Operation sync_batch_norm(Comm const& comm) {
  auto const layer = std::make_shared<training::SyncBatchNorm1d>(tn::BatchNormOptions(3));
  (void)training::replicate(**layer, comm);
  return {[=] { (void)(*layer)->forward(torch::ones({4, 3})); }, [=] { comm.barrier(); }};
}

}  // namespace

int main(int argc, char** argv) {
  return test::run_accident(argc, argv,
                            {{"layer_forward", forward},
                             {"layer_backward", backward},
                             {"double_backward", double_backward},
                             {"norm", norm},
                             {"loss", loss},
                             {"tensor_gather", tensor_gather},
                             {"ring", ring},
                             {"gradients", gradients},
                             {"finalize", finalize},
                             {"daso", daso},
                             {"sharded_gather", sharded_gather},
                             {"sync_batch_norm", sync_batch_norm}});
}
