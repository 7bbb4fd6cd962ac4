// SPDX-License-Identifier: BSD-3-Clause
// A rank that does not come to a call of HDF5, in which the others wait for it without end.
#include <graticule/field_io/writer.hpp>
#include <graticule/repartition/runtime.hpp>

#include "sample_files.hpp"

#include <mpi.h>

#include <chrono>
#include <thread>
#include <vector>

namespace {

bool stays_away = false;

}  // namespace

// HDF5 calls it when a file is closed; Graticule has barriers of its own.
extern "C" int MPI_Barrier(MPI_Comm comm) {
  if (stays_away) std::this_thread::sleep_for(std::chrono::minutes(5));
  return PMPI_Barrier(comm);
}

int main(int argc, char** argv) {
  using namespace graticule;
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  test::Folder const folder(comm);
  FieldWriter writer(comm, folder / "late.nc", {});
  writer.add_dimension("x", 4);
  writer.add_variable({.name = "u", .dimensions = {"x"}, .type = ValueType::f64});
  std::vector<double> const values(4, 1.0);
  auto const box = comm.rank() == 0 ? Box({0}, {4}) : Box({0}, {0});
  writer.write("u", box, std::span<double const>(values.data(), std::size_t(box.num_cells())));
  stays_away = comm.rank() == 1;
  writer.commit();
  return 0;
}
