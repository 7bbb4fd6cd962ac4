// SPDX-License-Identifier: BSD-3-Clause
// A driver that fails in the way it is told, to test how drivers end.
#include <graticule/app/driver.hpp>

#include <spdlog/spdlog.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>

int main(int argc, char** argv) {
  using namespace graticule;
  std::string mode;
  int size = 3;
  std::vector<std::string> names;
  bool flag = false;
  app::run_driver(argc, argv,
                  {.name = "failing-driver",
                   .description = "Fails in the way it is told.",
                   .declare =
                       [&](CLI::App& app) {
                         app.add_option("--mode", mode, "How to end");
                         app.add_option("--size", size, "A number")->check(CLI::Range(1, 9));
                         app.add_option("--names", names, "A list")->delimiter(',');
                         app.add_flag("--flag", flag, "A switch");
                       },
                   .run =
                       [&](app::Context& context) {
                         auto const& comm = context.comm;
                         int const last = comm.num_ranks() - 1;
                         if (mode == "print" && comm.rank() == 0) {
                           std::cout << "size " << size << " flag " << flag << " threads " << context.num_threads
                                     << " names";
                           for (auto const& name : names) std::cout << " " << name;
                           std::cout << std::endl;
                         }
                         if (mode == "all-input") throw Error(Fault::input, "BadFile", "file x is bad");
                         if (mode == "agreed")
                           run_agreed(comm, [&] {
                             if (comm.rank() == last) throw Error(Fault::input, "BadFile", "file x is bad");
                           });
                         if (mode == "check") throw Error(Fault::check, "Verify", "loss differs");
                         if (mode == "program") throw std::runtime_error("out of luck");
                         if (mode == "alone" && comm.rank() == last) throw Error(Fault::check, "Verify", "only here");
                         if (mode == "alone") comm.barrier();
                         if (mode == "terminate" && comm.rank() == last)
                           std::thread([] { throw Error(Fault::program, "Thread", "in a thread"); }).join();
                         if (mode == "terminate") comm.barrier();
                         if (mode == "killed" && comm.rank() == last) std::raise(SIGKILL);
                         if (mode == "crashed" && comm.rank() == last) std::raise(SIGSEGV);
                         if (mode == "left" && comm.rank() == last) std::_Exit(3);
                         if (mode == "absent" && comm.rank() == last)
                           std::this_thread::sleep_for(std::chrono::seconds(60));
                         if (mode == "absent") comm.barrier();
                         if (mode == "killed" || mode == "crashed" || mode == "left") comm.barrier();
                         if (mode == "again") return int(app::run_again);
                         if (mode == "one-code") return comm.rank() == last ? int(app::check_failed) : int(app::good);
                         if (mode == "log") {
                           spdlog::info("info of rank {}", comm.rank());
                           spdlog::warn("warning of rank {}", comm.rank());
                         }
                         return int(app::good);
                       },
                   .torch_version = "9.9"});
}
