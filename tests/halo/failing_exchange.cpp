// SPDX-License-Identifier: BSD-3-Clause
// Exchanges halos for ever, but the last rank ends in the way that is asked for: failing_exchange
// killed|crashed|left|threw|absent|announced|given_up|endless. The others wait for its messages, and only the launcher
// can end them; those of an absent rank get an error, which their main function catches after the end of MPI. It is
// absent in two more modes, where they catch the error before the end of MPI, after an announcement: for all
// communicators or for theirs. Nobody ends in the mode endless: what fails is the network.
#include <graticule/halo/plan.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/runtime.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

int run(int& argc, char**& argv, std::string const& mode) {
  using namespace graticule;
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  HaloPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, {4 * comm.num_ranks(), 8}), {{1, 1}, {1, 1}},
                      Boundary::uniform(2, Edge::periodic));
  std::vector<double> cells(std::size_t(plan.local().num_cells()), 1.0);
  auto const field = field_view(cells.data(), plan.local().extents(), 2);
  for (int step = 0;; ++step) {
    if (step == 20 && mode == "endless")
      std::cout << "rank " + std::to_string(comm.rank()) + " exchanges\n" << std::flush;
    if (step == 20 && mode != "endless" && comm.rank() == comm.num_ranks() - 1) {
      if (mode == "killed") std::raise(SIGKILL);
      if (mode == "crashed") std::raise(SIGSEGV);
      if (mode == "left") std::_Exit(3);
      if (mode == "absent" || mode == "announced" || mode == "given_up")
        std::this_thread::sleep_for(std::chrono::minutes(2));
      if (mode == "threw") throw Error("Thrown", "by one rank only, and caught by nobody");
      return 2;
    }
    try {
      plan.exchange(field);
    } catch (Error const&) {
      if (mode != "announced" && mode != "given_up") throw;
      if (mode == "announced")
        announce_failure(std::current_exception());
      else
        announce_failure(std::span(&comm, 1), std::current_exception());
      return 1;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string const mode = argc > 1 ? argv[1] : "";
  if (mode != "absent" && mode != "endless") return run(argc, argv, mode);
  try {
    return run(argc, argv, mode);
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
