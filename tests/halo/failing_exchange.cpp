// SPDX-License-Identifier: BSD-3-Clause
// Exchanges halos for ever, but the last rank ends in the way that is asked for: failing_exchange
// killed|crashed|left|threw. The others wait for its messages, and only the launcher can end them.
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace graticule;
  std::string const mode = argc > 1 ? argv[1] : "";
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  HaloPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, {4 * comm.num_ranks(), 8}), {{1, 1}, {1, 1}},
                      Boundary::uniform(2, Edge::periodic));
  std::vector<double> cells(std::size_t(plan.local().num_cells()), 1.0);
  auto const field = field_view(cells.data(), plan.local().extents(), 2);
  for (int step = 0;; ++step) {
    if (step == 20 && comm.rank() == comm.num_ranks() - 1) {
      if (mode == "killed") std::raise(SIGKILL);
      if (mode == "crashed") std::raise(SIGSEGV);
      if (mode == "left") std::_Exit(3);
      if (mode == "threw") throw Error("Thrown", "by one rank only, and caught by nobody");
      return 2;
    }
    plan.exchange(field);
  }
}
