// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/shared_options.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>

namespace graticule::app {

namespace {

constexpr std::array table{
    SharedOption{"--partition", "auto|RxC",
                 "Process grid, ranks along rows x columns, such as 4x1; auto: bands of rows"},
    SharedOption{"--output", "FOLDER", "Folder for "},
    SharedOption{
        "--checkpoint-every", nullptr,
        "Steps between checkpoints, in OUTPUT/checkpoints; 0: only when a signal or --time-limit stops the run"},
    SharedOption{"--resume", "auto|never",
                 "auto: resume from the newest intact checkpoint of OUTPUT, if any; never: start from the beginning"},
    SharedOption{"--time-limit", "auto|none|TIME",
                 "Time after which the run stops with a checkpoint and exit code 85: seconds, MM:SS or HH:MM:SS; auto: "
                 "before the end of a SLURM job"},
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
