// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>
#include <graticule/partition/process_grid.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "options.hpp"
#include "program_plan.hpp"

#include <string>
#include <vector>

namespace graticule::info {

/// A reader's form of a layout pass: what each node's result is cut along, and what the busiest rank receives.
///
/// "latitude" is the cut of the network's inputs and what operators make of it; a cut that a move chooses has the name
/// of its axis where that is clear ("longitude", "channels or heads", "places in windows").
[[nodiscard]] ProgramPlan readable(program::Plan const& plan, std::string const& network);

/// The weights of `--layout`.
[[nodiscard]] program::PlanCosts costs_of(Options const& options);

/// Prints the layout of an exported network on `--ranks` ranks with the parts of `--cuts`, and draws it where asked.
/// Ranks are virtual; sizes are those of the export, or `--grid` along the last two axes of all inputs. Collective;
/// rank 0 prints and writes.
/// @throws `RefusedProgram` (input) after it is printed and drawn; usage errors for what the options ask
void show_layout(app::Context& context, program::ExportedGraph const& network, Options const& options);

/// Prints the forecast of a training step on each number of `--ranks` for `--machine`, and draws it where asked.
/// Collective; rank 0 prints and writes. @throws `BadInput` (input) for the machine file
void show_forecast(app::Context& context, program::ExportedGraph const& network, Options const& options);

/// Ranks along rows and columns, by `--partition`: bands of rows for auto; an axis of 0 takes the rest.
/// @throws `BadOption` (usage) where that is another number of ranks
[[nodiscard]] ProcessGrid process_grid(Options const& options, int num_ranks);

/// Bounds of rows and columns on the ranks of `grid`, of the network's first field, by `--cuts`. Collective.
/// @throws usage errors for `--cuts`
[[nodiscard]] program::BlockCuts cuts_of_ranks(Comm const& comm, program::ExportedGraph const& network,
                                               Options const& options, ProcessGrid const& grid);

}  // namespace graticule::info
