// SPDX-License-Identifier: BSD-3-Clause
// Time of a halo exchange of 4 x 721 x 1440 f32 called from C++, C and Fortran, interleaved in one program:
//   mpiexec -n 2 bench_bindings_overhead [REPETITIONS]
#include <graticule/graticule.h>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace graticule;

extern "C" {
/// Exchanges the field of bench_overhead.f90, whose memory is `cells`.
void fortran_exchange(gr_halo* halo, float* cells, int columns, int rows, int levels);
void fortran_exchange_described(gr_halo* halo, gr_field const* field);
}

namespace {

void require(gr_status status) {
  if (status == GR_SUCCESS) return;
  std::fprintf(stderr, "%s\n", gr_error_text());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

double seconds(Comm const& comm, auto&& call) {
  comm.barrier();
  double const begin = MPI_Wtime();
  call();
  double const own = MPI_Wtime() - begin;
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm.handle());
  return slowest;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  int const repetitions = argc > 1 ? std::atoi(argv[1]) : 1000;
  constexpr int levels = 4;
  Comm const comm = Comm::world();
  Layout const layout(ProcessGrid({comm.num_ranks(), 1}), {721, 1440});
  // A plan for each candidate, so that all have their buffers equally cold.
  HaloPlan const plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row));
  HaloPlan const other_plan(comm, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_row));

  gr_comm* c_comm = nullptr;
  gr_layout* c_layout = nullptr;
  gr_halo* c_plan = nullptr;
  gr_halo* fortran_plan = nullptr;
  gr_halo* described_plan = nullptr;
  gr_halo_kind kind;
  std::array<int64_t, 2> const extents{721, 1440};
  std::array<int, 2> const parts{comm.num_ranks(), 1};
  require(gr_init(0, nullptr));
  require(gr_comm_create(MPI_COMM_WORLD, &c_comm));
  require(gr_layout_create(2, extents.data(), parts.data(), &c_layout));
  require(gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, &kind));
  require(gr_halo_create(c_comm, c_layout, 1, &kind, &c_plan));
  require(gr_halo_create(c_comm, c_layout, 1, &kind, &fortran_plan));
  require(gr_halo_create(c_comm, c_layout, 1, &kind, &described_plan));

  Box const& local = plan.local();
  std::array<int64_t, 3> const shape{levels, local.extent(0), local.extent(1)};
  std::vector<float> cells(std::size_t(levels * local.num_cells()), 1.0F);
  gr_field field;  // described once for C and one candidate in Fortran, in each call by the others
  require(gr_field_dense(cells.data(), GR_F32, 3, shape.data(), &field));
  std::array<std::vector<double>, 5> times;
  std::array<int, 5> order{0, 1, 2, 3, 4};
  std::mt19937 random(1);
  for (int i = -20; i < repetitions; ++i) {
    // In another order each time, the same on all ranks.
    std::shuffle(order.begin(), order.end(), random);
    for (int const which : order) {
      double const time = seconds(comm, [&] {
        if (which == 1) {
          require(gr_halo_exchange(c_plan, 1, &field));
        } else if (which == 2) {
          fortran_exchange(fortran_plan, cells.data(), int(shape[2]), int(shape[1]), levels);
        } else if (which == 4) {
          fortran_exchange_described(described_plan, &field);
        } else {
          (which == 0 ? plan : other_plan).exchange(field_view(cells.data(), {shape[0], shape[1], shape[2]}, 2));
        }
      });
      if (i >= 0) times[std::size_t(which)].push_back(time);
    }
  }
  if (comm.rank() == 0) {
    double const base = median(times[0]);
    std::printf(
        "C++ %.2f us; C / C++ %.4f, Fortran / C++ %.4f, Fortran, described once / C++ %.4f, C++ again / C++ %.4f "
        "(medians of %d)\n",
        1e6 * base, median(times[1]) / base, median(times[2]) / base, median(times[4]) / base, median(times[3]) / base,
        repetitions);
  }
  require(gr_halo_destroy(&c_plan));
  require(gr_halo_destroy(&fortran_plan));
  require(gr_halo_destroy(&described_plan));
  require(gr_layout_destroy(&c_layout));
  require(gr_comm_destroy(&c_comm));
  require(gr_finalize());
  return 0;
}
