// SPDX-License-Identifier: BSD-3-Clause
// A simulation code's view of the installed engine: a periodic field divided by rows goes to a netCDF-4 file and back,
// and gets its halo; two states of it are a sample.
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/runtime.hpp>
#include <graticule/samples/dataset.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace graticule;

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  Comm const comm = Comm::world();
  Layout const layout(ProcessGrid({comm.num_ranks(), 1}), {7, 4});
  HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::uniform(2, Edge::periodic));

  Box const& local = plan.local();
  std::vector<double> cells(std::size_t(local.num_cells()), std::nan(""));
  auto const cell = [&](Index i, Index j) -> double& {
    return cells[std::size_t((i - local.lo(0)) * local.extent(1) + j - local.lo(1))];
  };
  Box const& owned = plan.owned();
  std::vector<double> numbers;
  for (Index i = owned.lo(0); i < owned.hi(0); ++i)
    for (Index j = 0; j < 4; ++j) numbers.push_back(double(4 * i + j));
  FieldWriter writer(comm, "consumer.nc");
  writer.add_dimension("sample", 2);
  writer.add_coordinate("latitude", std::vector<double>{90, 60, 30, 0, -30, -60, -90});
  writer.add_coordinate("longitude", std::vector<double>{0, 90, 180, 270});
  writer.add_variable({.name = "state", .dimensions = {"sample", "latitude", "longitude"}, .type = ValueType::f64});
  writer.add_variable({.name = "number", .dimensions = {"latitude", "longitude"}, .type = ValueType::f64});
  writer.write("number", owned, numbers);
  for (Index sample = 0; sample < 2; ++sample)
    writer.write("state", Box({sample, owned.lo(0), 0}, {sample + 1, owned.hi(0), 4}), numbers);
  writer.commit();

  FieldFile const file(comm, "consumer.nc");
  std::vector<double> stored(numbers.size());
  file.read("number", owned, stored);
  for (Index i = owned.lo(0); i < owned.hi(0); ++i)
    for (Index j = 0; j < 4; ++j) cell(i, j) = stored[std::size_t(4 * (i - owned.lo(0)) + j)];
  plan.exchange(field_view(cells.data(), {local.extent(0), local.extent(1)}, 2));

  std::vector<double> wrong{0};
  samples::Dataset data(comm, {"consumer.nc"}, {.inputs = {"state"}});
  auto const batch = data.batch(0, 0);
  if (data.num_samples() != 1 || data.owned() != owned) wrong[0] += 1;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (void const* const values : {batch.inputs, batch.targets})
      if (double(static_cast<float const*>(values)[i]) != numbers[i]) wrong[0] += 1;
  for (Index i = local.lo(0); i < local.hi(0); ++i)
    for (Index j = local.lo(1); j < local.hi(1); ++j)
      if (cell(i, j) != double(4 * ((i + 7) % 7) + (j + 4) % 4)) wrong[0] += 1;
  comm.sum(wrong);
  if (comm.rank() == 0 && wrong[0] == 0) std::printf("engine: %d ranks agree\n", comm.num_ranks());
  return wrong[0] == 0 ? 0 : 1;
}
