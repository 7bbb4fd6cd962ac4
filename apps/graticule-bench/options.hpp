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
  /// Those of the kind where the command line has 0.
  Index num_rows = 0;
  Index num_columns = 0;
  Index num_channels = 0;
  Index num_levels = 64;  ///< third axis of a repartition
  Index batch = 16;       ///< images of a rank in data-parallel
  Index width = 1;
  app::DeviceOption device;
  std::string network_device = "cpu";  ///< as LibTorch names it
  std::string grid;                    ///< `721x1440`, in place of `num_rows` and `num_columns`
  std::string widths;                  ///< `1x2`; empty: `width` on both axes
  std::string dtype;                   ///< empty: f64 for repartition, else f32
  std::string partition = "auto";      ///< `4x1`
  std::string transport = "auto";
  std::string machine;  ///< file to write the rates of this machine to; empty: none
  Timing timing;
};

[[noreturn]] inline void refuse(std::string const& text) { throw Error(Fault::usage, "BadOption", text); }

/// Bands of latitude.
[[nodiscard]] inline ProcessGrid bands(Comm const& comm) { return ProcessGrid{comm.num_ranks(), 1}; }

/// Halo exchange against memcpy and bare messages of the same bytes; on a device against a copy there.
void run_halo(app::Context& context, Options const& options);
/// Transposes against copies and bare messages of the same bytes, likewise.
void run_repartition(app::Context& context, Options const& options);
/// Sharded convolution, forward and backward, against the local convolution without exchange.
void run_layer(app::Context& context, Options const& options);
/// Spherical transforms of a sharded field against those of whole fields, one on each rank.
void run_spherical(app::Context& context, Options const& options);
/// A training step of a U-Net on the globe against that of each rank's rows alone.
void run_unet(app::Context& context, Options const& options);
/// A training step of an exported network against that of the same network on each rank's rows alone.
void run_program(app::Context& context, Options const& options);
/// Steps of a CNN with reduced gradients against steps of each rank alone.
void run_data_parallel(app::Context& context, Options const& options);
/// Rates of operators and messages, for forecasts of steps.
void run_machine(app::Context& context, Options const& options);
/// A plan of a file on the same number of ranks: verified cell by cell, then timed on each path.
void run_replay(app::Context& context, Options const& options);

}  // namespace graticule::bench
