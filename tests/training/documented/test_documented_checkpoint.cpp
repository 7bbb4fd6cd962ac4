// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/checkpoint.md.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/training/schedule/early_stopping.hpp>
#include <graticule/training/state/training.hpp>

#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <vector>

namespace graticule {
namespace test_documented_checkpoint {

TEST(DocumentedCheckpoint, saves_and_loads_fields_and_values) {
  auto const comm = Comm::world();
  test::Folder const temporary(comm);
  auto const folder = temporary / "checkpoints";
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {12, 8});
  Layout const new_layout(ProcessGrid{1, comm.num_ranks()}, {12, 8});
  auto const own = layout.owned(comm.rank());
  auto const new_own = new_layout.owned(comm.rank());
  Box const local_box({own.lo(0) - 1, 0}, {own.hi(0) + 1, 8});
  std::vector<double> z(std::size_t(std::max(own.num_cells(), new_own.num_cells())), 2);
  std::vector<float> u(std::size_t(local_box.num_cells()), 3);
  std::vector<float> weight(4, 4);
  std::vector<std::byte> const bytes(5, std::byte(6));
  auto const u_view = field_view(u.data(), local_box.extents(), 2);
  auto const weight_view = field_view(weight.data(), {2, 2}, 0);
  Index const step = 7;
  double seconds = 0;

  {
    auto const z_view = field_view(z.data(), own.extents(), 2);
    // clang-format off
CheckpointStore store(comm, folder, {.keep = 3});
auto writer = store.begin(step);
writer.add("z", layout, z_view);                             // cut by a layout, batch axes included
writer.add("u", layout, u_view, {.local = local_box});       // memory with halos: owned cells are saved
writer.add("model/conv.weight", weight_view);                // whole on every rank, and checked to be equal
writer.add_value("seconds", 3.6e6);                          // numbers, lists of numbers, text, bytes
writer.add_value("random_state", bytes);
writer.commit();
    // clang-format on
    z.assign(z.size(), 0);
    weight.assign(4, 0);
  }
  CheckpointStore store(comm, folder);
  auto const z_view = field_view(z.data(), new_own.extents(), 2);
  // clang-format off
auto const found = store.newest();
for (auto const& [path, reason] : store.skipped()) std::cerr << reason << "\n";
if (found) {
  found->read("z", new_layout, z_view);
  found->read("model/conv.weight", weight_view);             // whole; or cut: read(name, layout, view)
  seconds = found->value<double>("seconds");
}
  // clang-format on

  EXPECT_EQ(seconds, 3.6e6);
  EXPECT_EQ(weight, std::vector<float>(4, 4));
  for (Index cell = 0; cell < new_own.num_cells(); ++cell) EXPECT_EQ(z[std::size_t(cell)], 2);
}

TEST(DocumentedCheckpoint, saves_and_loads_a_training) {
  auto const comm = Comm::world();
  test::Folder const temporary(comm);
  CheckpointStore store(comm, temporary / "checkpoints");
  torch::manual_seed(2);
  torch::nn::Sequential net(torch::nn::Linear(3, 2));
  torch::optim::Adam optimizer(net->parameters());
  training::EarlyStopping early_stopping(2);
  Index const step = 3;
  Index const epoch = 1;
  Index const batch = 2;
  std::uint64_t const seed = 5;

  // clang-format off
training::TrainingState state(comm, *net);
state.add("optimizer", optimizer);            // SGD, Adam, AdamW, Adagrad, RMSprop
state.add("early_stopping", early_stopping);  // anything with save(writer, prefix) and load(checkpoint, prefix)
if (auto const found = store.newest()) state.load(*found);

state.position = {epoch, batch, seed};
auto writer = store.begin(step);
state.save(writer);
writer.commit();
  // clang-format on

  ASSERT_TRUE(store.newest());
  EXPECT_EQ(store.newest()->value<Index>("data/batch"), 2);
}

}  // namespace test_documented_checkpoint
}  // namespace graticule
