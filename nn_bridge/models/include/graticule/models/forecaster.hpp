// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/description.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::models {

/// Options of `load`.
struct LoadOptions {
  /// Which rank owns which rows and columns; none: equal numbers of rows.
  std::optional<Layout> layout = {};
  /// That computes, as LibTorch names it: `cpu`, `cuda:1`. Fields go in and come out in host memory.
  std::string device = "cpu";
};

/// A network that graticule-train --lead has trained, on the shards of some ranks: steps states of the atmosphere one
/// lead in time. Fields go in and come out in the units of the file that it was trained on, as plain numbers; this
/// header needs no LibTorch.
///
/// Example: a network for h, u and v with a lead of 6 h, on 3 ranks:
/// ```
/// auto network = graticule::models::load("run", comm);
/// auto const fields = network.next(present, time);  // h, u and v of this rank's rows 6 h later
/// ```
/// `network.owned()` is the box of rows and columns, `network.description()` says which channels the fields have, on
/// which grid. Many steps: `start`, then `step` and `present`, which keep the states in the network's own precision.
/// The layout changes results by rounding only.
class Forecaster {
 public:
  /// Collective over the domain. The checkpoint was opened by the ranks of `checkpoint_comm`: the domain's, or more.
  /// @throws `BrokenFile`, `UnsupportedFile`, `BadInput` (input); `LayoutMismatch` for a layout of another grid or
  /// number of ranks; what `training::load_model` throws
  /// `device` is as in `LoadOptions`.
  Forecaster(Comm const& domain, Layout const& layout, Checkpoint const& checkpoint, Comm const& checkpoint_comm,
             std::string const& device = "cpu");
  /// An exported network with the weights of its file. Collective over the domain. The description says what its
  /// channels are and how they are scaled: see `program_description`.
  /// @throws what `make_model` throws for a program; `Unsupported` (usage) for a description with static fields
  /// `device` is as in `LoadOptions`.
  Forecaster(Comm const& domain, Layout const& layout, Description const& description,
             std::string const& device = "cpu");
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  [[nodiscard]] Description const& description() const noexcept;
  [[nodiscard]] Grid const& grid() const noexcept;
  [[nodiscard]] Layout const& layout() const noexcept;
  /// Rows and columns of this rank, possibly none.
  [[nodiscard]] Box const& owned() const noexcept;
  /// File that the network came from.
  [[nodiscard]] std::filesystem::path const& path() const noexcept;

  /// The state one lead after `time`. Collective over the domain. The members of `start` stay as they are.
  /// @param states [time: present, one lead before, ...][prognostic channel][row][column] of the owned box: as many
  /// times as `description().history`. In units, NaN where missing
  /// @param time in seconds since 1970-01-01 00:00 of `calendar()`; counts for the forcings (the sun) alone
  /// @return [channel][row][column]: prognostic channels first, then diagnostic ones
  /// @throws `ShapeMismatch` for another number of values, on all ranks
  /// Cost: the messages of the network's layers, and of one halo of width 1 for the derivatives.
  [[nodiscard]] std::vector<double> next(std::span<double const> states, Seconds time);

  /// In which times count: that of the description until it is set.
  [[nodiscard]] Calendar calendar() const noexcept;
  /// For states of files in another calendar than that of the training. The same on all ranks.
  void set_calendar(Calendar calendar) noexcept;

  /// Begins with these members. Collective. States are [member][time][prognostic channel][row][column] as in `next`;
  /// predictions of cells that are missing at the present stay missing @throws `ShapeMismatch`
  void start(std::span<double const> states, Index num_members);
  /// One lead from `time`. Collective over the domain. @pre `start`
  void step(Seconds time);
  /// All channels of a member: [channel][row][column] in units. @pre `start`
  [[nodiscard]] std::vector<double> present(Index member) const;

  /// After each following step removes waves of two cells from the prognostic channels, and leaves long ones: a wave of
  /// n cells along a row or a column keeps 1 - sin(pi / n)^order of its amplitude. Long forecasts of some networks need
  /// it, which let such waves grow. Collective. @param order even; 0: no filter. Example: 8 keeps 0, 0.68, 0.94 and
  /// 0.9995 of waves of 2, 3, 4 and 8 cells
  /// @throws `BadOption` (usage) for an order that is odd or negative; a step `Unsupported` where cells are missing
  /// Cost: `order` halos of width 1 per step.
  void set_filter(Index order);

  /// The states of all members, [member][channel][row][column], in the network's type: what a checkpoint of a forecast
  /// needs. Contiguous, of this object. @pre `start`
  [[nodiscard]] FieldView states();
  /// Channels of `states`.
  [[nodiscard]] Index num_state_channels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Opens what graticule-train --lead has trained: its output folder (the best network, else the last), a folder of
/// checkpoints, or one of them. Collective over `comm`, whose ranks are the domain.
/// @throws `NoSuchFile`, `BadInput` (another kind of checkpoint), `UnreadableFile`, `BrokenFile`, `UnsupportedFile`
/// (input), on all ranks; what the constructor of `Forecaster` throws
[[nodiscard]] Forecaster load(std::filesystem::path const& path, Comm const& comm, LoadOptions const& options = {});

}  // namespace graticule::models
