// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include "diagnostics.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace graticule::swe {

/// Whether this program was built with LibTorch, and that version; `none` without.
[[nodiscard]] std::string torch_version();
/// Sets the threads that LibTorch computes with; nothing without.
void use_torch_threads(int num_threads);

/// What the schedule of a run has to know of an emulator.
struct EmulatorFacts {
  std::filesystem::path file;  ///< the checkpoint that was chosen
  Index lead_seconds = 0;
  Index history = 1;
};
/// Reads the description of a network of graticule-train. Collective.
/// @throws `NoSuchFile`, `BadInput`, `BrokenFile`, ... (input); `Unsupported` (usage) in a build without LibTorch
[[nodiscard]] EmulatorFacts read_emulator(Comm const& comm, std::filesystem::path const& path);

/// A trained network in place of the solver's steps: from state to state of its lead.
///
/// Its variables are those of series.nc: depth and winds at the centres of the cells (and, if it was trained so, their
/// vorticity and divergence). A network with a history of n states needs n states to begin with: the solver makes the
/// n - 1 after the initial one. From then on the centred state is the network's own; that of the solver follows from it
/// (winds on the faces are means of the neighboring centres) for diagnostics alone.
class Emulator {
 public:
  /// Collective. @param solver whose steps are `lead / solver_steps` long; must outlive this
  /// @param filter_order of `models::Forecaster::set_filter`; 0: none
  /// @throws `BadInput` (input) when the network is for another grid or other variables; what `models::load` throws
  Emulator(Solver& solver, EmulatorFacts const& facts, Index solver_steps, Index filter_order);
  ~Emulator();
  Emulator(Emulator const&) = delete;
  Emulator& operator=(Emulator const&) = delete;

  /// Takes the solver's state as the initial one. Collective.
  void begin(Diagnostics& diagnostics);
  /// One lead from `number` leads after the beginning. Collective.
  void step(Index number, Diagnostics& diagnostics);
  /// Puts the network's own winds in place of the means of means. Nothing while the solver makes states.
  void replace_winds(Diagnostics::Centred& centred) const;

  /// Adds all that the next steps depend on, except for the solver's state. Collective.
  void save(CheckpointWriter& writer);
  /// Collective. @pre the solver's state was read
  void load(Checkpoint const& checkpoint);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace graticule::swe
