// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/shared_options.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>

namespace graticule::app {

namespace {

constexpr std::array table{
    SharedOption{
        "--partition", "auto|ROWSxCOLUMNS",
        "Process grid: numbers of ranks that the rows and the columns of the fields are cut among, such as 4x1.\n"
        "auto: bands of rows"},
    SharedOption{"--output", "FOLDER", "Folder for "},
    SharedOption{"--checkpoint-every", nullptr,
                 "Steps between checkpoints, which lie in the folder checkpoints of --output.\n"
                 "0: only when a signal or --time-limit stops the run"},
    SharedOption{"--resume", "auto|never",
                 "Use of the checkpoints that an earlier run has left in --output.\n"
                 "auto: continue from the newest intact one, if there is one\n"
                 "never: start from the beginning"},
    SharedOption{"--time-limit", "auto|none|TIME",
                 "Time after which the run stops with a checkpoint and exit code 85; the same command continues it.\n"
                 "TIME: seconds, MM:SS or HH:MM:SS\n"
                 "auto: a minute before the end of a SLURM job, otherwise none\n"
                 "none: no limit"},
    SharedOption{"--memory", "BYTES", "Memory per rank for "},
};

}  // namespace

SharedOption const& shared_option(std::string const& name) {
  auto const* const found =
      std::find_if(table.begin(), table.end(), [&](auto const& option) { return option.name == name; });
  if (found == table.end()) throw Error("UnknownName", "no driver shares the option " + name);
  return *found;
}

}  // namespace graticule::app
