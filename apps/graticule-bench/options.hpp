// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/device.hpp>
#include <graticule/app/driver.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/partition/process_grid.hpp>

#include "timing.hpp"

#include <string>

namespace graticule::bench {

struct Options {
  std::string kind;
  std::string misplaced;  ///< option that was given but does not apply to the kind; empty: none
  std::string plan;       ///< file of a plan to replay, or of a network
  std::string share;      ///< file of the network for the rows of one rank; empty: `plan` takes any number of rows
  /// Of the kind where they are 0 or empty.
  Index num_rows = 0;
  Index num_columns = 0;
  Index num_channels = 0;
  std::string grid;  ///< `721x1440`, in place of `num_rows` and `num_columns`
  std::string dtype;
  Index num_levels = 64;  ///< third axis of a repartition
  Index batch = 16;       ///< images of a rank in data-parallel
  app::DeviceOption device;
  std::string network_device = "cpu";  ///< as LibTorch names it
  std::string widths = "1";            ///< of the halo: `1x2`, or one number for both axes
  std::string partition = "auto";      ///< `4x1`
  std::string transport = "auto";
  std::string machine;  ///< file to write the rates of this machine to; empty: none
  Timing timing;

  /// ` on cuda:0`; empty on the host.
  [[nodiscard]] std::string place() const { return device.is_host() ? std::string() : " on " + device.name(); }
};

[[noreturn]] inline void refuse(std::string const& text) { throw Error(Fault::usage, "BadOption", text); }

/// Bands of latitude.
[[nodiscard]] inline ProcessGrid bands(Comm const& comm) { return ProcessGrid{comm.num_ranks(), 1}; }

/// The kinds of measurement: main.cpp has a line on each.
void run_halo(app::Context& context, Options const& options);
void run_repartition(app::Context& context, Options const& options);
void run_layer(app::Context& context, Options const& options);
void run_spherical(app::Context& context, Options const& options);
void run_unet(app::Context& context, Options const& options);
void run_program(app::Context& context, Options const& options);
void run_data_parallel(app::Context& context, Options const& options);
void run_machine(app::Context& context, Options const& options);
void run_replay(app::Context& context, Options const& options);

}  // namespace graticule::bench
