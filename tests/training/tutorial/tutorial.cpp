// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/repartition/runtime.hpp>
#include <graticule/samples/dataset.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/state/training.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

using namespace graticule;

void train(Comm const& world, char const* fields, char const* checkpoints, int ranks_per_domain) {
  Teams const teams(world, {{"data", 0}, {"domain", ranks_per_domain}});
  Comm const& domain_team = teams.team("domain");
  Comm const& data_team = teams.team("data");

  FieldFile const file(world, fields);
  Variable const& variable = file.variable("z");
  Index const num_levels = variable.extents[1];
  Layout const layout(ProcessGrid{domain_team.num_ranks(), 1}, Indices{variable.extents[2], variable.extents[3]});
  Box const owned = layout.owned(domain_team.rank());
  std::printf("rank %d owns %s\n", world.rank(), to_string(owned).c_str());

  auto const cells_of = [&](Index sample) {
    return Box({sample, 0, owned.lo(0), owned.lo(1)}, {sample + 1, num_levels, owned.hi(0), owned.hi(1)});
  };
  Boundary const boundary = Boundary::sphere(Edge::pole_row);
  HaloPlan const plan(domain_team, layout, {{1, 1}, {1, 1}}, boundary);
  Box const local = plan.local();
  std::vector<float> z(std::size_t(num_levels * local.num_cells()));
  FieldView const field = field_view(z.data(), {num_levels, local.extent(0), local.extent(1)}, 2);
  file.read("z", FileSelection{.box = cells_of(0), .axes = {1, 2, 3}}, field.part(local, owned));
  plan.exchange(field);
  if (world.rank() == 0) std::printf("ghost cell (-1, 0) holds %.1f\n", double(z[1]));

  nn::Domain const domain(domain_team, ProcessGrid{domain_team.num_ranks(), 1}, boundary);
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::BatchNorm2d(num_levels), torch::nn::Conv2d(torch::nn::Conv2dOptions(num_levels, 16, 3).padding(1)),
      torch::nn::GELU(), torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 2 * num_levels, 3).padding(1)));
  nn::ShardReport const report = nn::shard(*net, domain, {.padding = nn::Padding::by_domain, .data_team = data_team});
  if (world.rank() == 0) std::printf("%s", report.text().c_str());

  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  training::DataParallel parallel(*net, optimizer,
                                  {{domain_team, nn::Reduction::sum}, {data_team, nn::Reduction::mean}});
  samples::Dataset data(domain_team, {fields},
                        {.inputs = {"z"},
                         .targets = {"u", "v"},
                         .lead = "0",
                         .order = samples::Order::shuffled,
                         .scale_by = samples::ScaleBy::statistics,
                         .data_team = data_team});
  nn::MSELoss loss_of(domain, nn::LossOptions{.global_row_weights = area_weights(data.latitudes())});

  CheckpointStore store(world, checkpoints);
  training::TrainingState state(world, *net);
  state.add("optimizer", optimizer);
  if (auto const found = store.newest()) state.load(*found);
  Index const last = state.position.batch + 10;
  auto writer = store.begin(last);

  auto const tensor_of = [&](void const* values, Index num_channels) {
    return torch::from_blob(const_cast<void*>(values), {1, num_channels, owned.extent(0), owned.extent(1)});
  };
  for (Index& step = state.position.batch; step < last; ++step) {
    auto const batch = data.batch(step / data.num_batches(), step % data.num_batches());
    torch::Tensor const input = tensor_of(batch.inputs, num_levels);
    torch::Tensor const target = tensor_of(batch.targets, 2 * num_levels);
    optimizer.zero_grad();
    torch::Tensor loss;
    parallel.run([&] {
      loss = loss_of(net->forward(input), target);
      loss.backward();
    });
    parallel.step();
    if (world.rank() == 0) std::printf("step %d: loss %.4f\n", int(step), loss.item<double>());
  }
  parallel.finalize();

  state.save(writer);
  writer.commit();
}

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  Comm const world = Comm::world();
  try {
    if (argc != 4) throw std::invalid_argument("usage: tutorial FIELDS.nc CHECKPOINTS RANKS_PER_DOMAIN");
    train(world, argv[1], argv[2], std::atoi(argv[3]));
  } catch (std::exception const& error) {
    announce_failure(std::current_exception());
    if (world.rank() == 0) std::fprintf(stderr, "tutorial: %s\n", error.what());
    return 1;
  }
  return 0;
}
