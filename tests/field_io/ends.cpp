// SPDX-License-Identifier: BSD-3-Clause
// A program with static objects whose last rank calls std::exit(5) while the others are in a call: `ends OPERATION
// FOLDER`. Their destructors run in std::exit, before and after the handlers that the library registers.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace graticule;

namespace {

std::vector<double> cells(4 * 8, 1.0);
// Older than the library's handlers.
std::optional<FieldWriter> old_writer;

FieldWriter new_writer(Comm const& comm, std::filesystem::path const& path) {
  FieldWriter writer(comm, path);
  writer.add_dimension("y", 4 * comm.num_ranks());
  writer.add_dimension("x", 8);
  writer.add_variable({.name = "q", .dimensions = {"y", "x"}});
  return writer;
}

Box owned(Comm const& comm) { return {{Index(4 * comm.rank()), 0}, {Index(4 * comm.rank() + 4), 8}}; }

void write(Comm const& comm, FieldWriter& writer) { writer.write("q", owned(comm), std::span<double const>(cells)); }

[[noreturn]] void leave(std::string const& operation) {
  if (operation == "throws") throw std::runtime_error("an exception that leaves main");
  std::exit(5);
}

void run(std::string const& operation, std::filesystem::path const& folder) {
  auto const comm = Comm::world();
  bool const leaves = comm.rank() == comm.num_ranks() - 1;
  auto const leave_or = [&](auto&& call) {
    if (leaves) leave(operation);
    call();
  };
  if (operation == "old_writer" || operation == "throws") {
    old_writer.emplace(new_writer(comm, folder / "w.nc"));
    leave_or([&] { write(comm, *old_writer); });
  } else if (operation == "new_writer") {
    static FieldWriter writer = new_writer(comm, folder / "w.nc");
    leave_or([&] { write(comm, writer); });
  } else if (operation == "reader") {
    {
      auto writer = new_writer(comm, folder / "r.nc");
      write(comm, writer);
      writer.commit();
    }
    static FieldFile const file(comm, folder / "r.nc");
    leave_or([&] { file.read("q", owned(comm), std::span<double>(cells)); });
  } else if (operation == "elsewhere") {
    // Others are in a call of MPI, where no notice reaches them.
    static FieldWriter writer = new_writer(comm, folder / "w.nc");
    leave_or([] { MPI_Barrier(MPI_COMM_WORLD); });
  } else if (operation == "checkpoint") {
    static CheckpointStore store(comm, folder);
    static auto writer = store.begin(1);
    leave_or([&] { (void)writer.commit(); });
  } else {
    Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{4 * comm.num_ranks(), 8});
    static HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic));
    static std::vector<double> local(std::size_t(plan.local().num_cells()));
    auto const field = field_view(local.data(), plan.local().extents(), 2);
    plan.exchange(field);
    if (operation == "pending" && leaves) [[maybe_unused]]
      static auto const pending = plan.start(field);
    leave_or([&] {
      plan.exchange(field);
      plan.exchange(field);
    });
  }
  throw Error("Accident", "the call succeeds");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  Runtime const runtime(argc, argv);
  run(argv[1], argv[2]);
  return 0;
}
