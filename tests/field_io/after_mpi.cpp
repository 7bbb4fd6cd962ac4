// SPDX-License-Identifier: BSD-3-Clause
// Plans, calls in flight and files that live longer than MPI: they are destroyed without calls of MPI, which would end
// the process, and calls with them are errors. `used` and `unused` plans; `static` ones are destroyed after `main`.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include "expect_error.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;

namespace {

struct Objects {
  Comm comm;
  Comm half;
  Teams teams;
  Layout rows;
  Layout columns;
  HaloPlan halo;
  RepartitionPlan repartition;
  AxisSumPlan sum;
  std::vector<double> local;
  std::vector<double> own;
  std::vector<double> moved;
  std::vector<double> sums;
  std::optional<Pending> pending;
  std::optional<AxisSumPlan::Running> running;
  std::optional<FieldWriter> writer;
  std::optional<FieldFile> file;
  std::optional<CheckpointStore> store;
  std::optional<CheckpointWriter> checkpoint;

  explicit Objects(Comm const& world)
      : comm(world),
        half(world.split(world.rank() % 2, 0)),
        teams(world, {{"all", world.num_ranks()}}),
        rows(ProcessGrid{world.num_ranks(), 1}, Indices{4 * world.num_ranks(), 8}),
        columns(ProcessGrid{1, world.num_ranks()}, Indices{4 * world.num_ranks(), 8}),
        halo(world, rows, {{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic)),
        repartition(world, rows, columns),
        sum(world, columns, 1),
        local(std::size_t(halo.local().num_cells()), 1.0),
        own(std::size_t(rows.owned(world.rank()).num_cells()), 1.0),
        moved(std::size_t(columns.owned(world.rank()).num_cells()), 1.0),
        sums(std::size_t(sum.sums().num_cells())) {}

  [[nodiscard]] FieldView local_view() { return field_view(local.data(), halo.local().extents(), 2); }
  void exchange() { halo.exchange(local_view()); }
  void use(std::filesystem::path const& folder) {
    auto const box = rows.owned(comm.rank());
    exchange();
    exchange();
    repartition.apply(field_view(own.data(), box.extents(), 2),
                      field_view(moved.data(), columns.owned(comm.rank()).extents(), 2));
    {
      FieldWriter made(comm, folder / "r.nc");
      made.add_dimension("y", 4 * comm.num_ranks());
      made.add_dimension("x", 8);
      made.add_variable({.name = "q", .dimensions = {"y", "x"}});
      made.write("q", box, std::span<double const>(own));
      made.commit();
    }
    file.emplace(comm, folder / "r.nc");
    file->read("q", box, std::span<double>(own));
    writer.emplace(comm, folder / "w.nc");
    store.emplace(comm, folder / "checkpoints");
    checkpoint.emplace(store->begin(1));
    std::vector<AxisSumField> const fields{
        {field_view(moved.data(), sum.cells().extents(), 2), field_view(sums.data(), sum.sums().extents(), 2)}};
    running.emplace(sum.start(fields));
    pending.emplace(halo.start(local_view()));
  }
};

std::filesystem::path new_folder(Comm const& comm) {
  auto text = (std::filesystem::temp_directory_path() / "graticule-after-mpi-XXXXXX").string();
  if (comm.rank() == 0 && ::mkdtemp(text.data()) == nullptr) std::abort();
  return comm.broadcast(text, 0);
}

}  // namespace

int main(int argc, char** argv) {
  std::string const mode = argc > 1 ? argv[1] : "used";
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  std::unique_ptr<Objects> local;
  static std::unique_ptr<Objects> kept;
  auto& objects = mode == "static" ? kept : local;
  std::filesystem::path folder;
  {
    // One after another, as a library inside of a program has them.
    for (int i = 0; i < 2; ++i) Runtime const runtime(argc, argv);
    objects = std::make_unique<Objects>(Comm::world());
    folder = new_folder(objects->comm);
    if (mode != "unused") objects->use(folder);
  }
  bool const first = objects->comm.rank() == 0;
  MPI_Finalize();

  int num_wrong = 0;
  auto const expect = [&](std::string const& found, char const* call) {
    if (found == "WrongState") return;
    ++num_wrong;
    std::fprintf(stderr, "%s after MPI_Finalize: %s\n", call, found.c_str());
  };
  expect(rule_of([&] { objects->exchange(); }), "an exchange");
  expect(rule_of([] { (void)Comm::world(); }), "a communicator");
  expect(rule_of([&] { Runtime const late(argc, argv); }), "a runtime");
  if (objects->comm.num_ranks() > 1) expect(rule_of([&] { objects->comm.barrier(); }), "a barrier");
  if (objects->pending) expect(rule_of([&] { objects->pending->wait(); }), "the end of a call");
  // The other ranks remove what they have begun as their objects end.
  std::error_code ignored;
  for (int i = 0; first && i < 20 && std::filesystem::exists(folder, ignored); ++i) {
    std::filesystem::remove_all(folder, ignored);
    if (ignored) ::usleep(50000);
  }
  return num_wrong == 0 ? 0 : 1;
}
