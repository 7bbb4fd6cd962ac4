// SPDX-License-Identifier: BSD-3-Clause
// The C++ of README.md: ghost cells hold the values of the cells that they stand for.
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <cstdio>
#include <vector>

using namespace graticule;

namespace {

/// The number of the cell that (row, column) stands for: rows beyond a pole are rows at the opposite longitude.
double number_of(Index row, Index column, Index rows, Index columns) {
  if (row < 0 || row >= rows) {
    row = row < 0 ? -row : 2 * (rows - 1) - row;
    column += columns / 2;
  }
  return double(row * columns + (column + columns) % columns);
}

/// Values of a local box: the numbers of the owned cells, 0 in the halo.
std::vector<double> initial(Box const& local) {
  std::vector<double> values;
  for (Index row = local.lo(0); row < local.hi(0); ++row)
    for (Index column = -1; column <= 1440; ++column) {
      bool const owned = row > local.lo(0) && row < local.hi(0) - 1 && column >= 0 && column < 1440;
      values.push_back(owned ? number_of(row, column, 721, 1440) : 0);
    }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);

  Comm const world = Comm::world();
  Layout const layout(ProcessGrid{world.num_ranks(), 1}, {721, 1440});  // bands of latitude
  HaloPlan const halo(world, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row));
  Box const local = halo.local();  // this rank's cells and one ghost cell on each side
  std::vector<double> t = initial(local);
  halo.exchange(field_view(t.data(), {local.extent(0), local.extent(1)}, 2));  // 2 axes; also over the poles

  std::size_t cell = 0;
  for (Index row = local.lo(0); row < local.hi(0); ++row)
    for (Index column = -1; column <= 1440; ++column, ++cell)
      if (t[cell] != number_of(row, column, 721, 1440)) {
        std::printf("cell (%d, %d) holds %.0f\n", int(row), int(column), t[cell]);
        return 1;
      }
  return 0;
}
