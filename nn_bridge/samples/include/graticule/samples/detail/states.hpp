// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/samples/detail/fields.hpp>
#include <graticule/samples/detail/names.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace graticule::samples {

/// Whether states need dates: without a time axis, `any` counts along the axis that joins the files, or the first one.
enum class TimeAxis : std::uint8_t { dated, any };

/// The variables of a series of files as states: one per time and member, of one channel per variable and level.
///
/// The time axis is the one whose coordinate counts `UNIT since DATE`. Axes of members are those named realization (by
/// standard_name), number, member, ensemble, realization or sample; all others are levels, of which each combination is
/// a channel. Variables may differ in levels, not in times and members.
/// Example: z(number=10, time=4, level=2, latitude, longitude) gives 40 states of 2 channels, and with t2m(number,
/// time, latitude, longitude) of 3.
class StateTable {
 public:
  /// Collective. @throws what `FieldSeries` and `make_grid` throw; `MissingVariable`, `BadInput` (input) for variables
  ///         without a time axis or of different grids, times and members
  StateTable(Comm const& comm, std::string const& files, std::vector<std::string> const& prognostic,
             std::vector<std::string> const& diagnostic, RepeatedColumn repeated = RepeatedColumn::refuse);
  /// The same of files by name.
  StateTable(Comm const& comm, std::vector<std::filesystem::path> files, std::vector<std::string> const& variables,
             TimeAxis axis);

  /// Orders the levels of each variable as those of channels that a network was trained on, which may be in another
  /// order and in other units of pressure. Example: 500, 850 hPa of a network are found in levels 85000, 50000 Pa. What
  /// has no such level stays as it is.
  void arrange_levels(std::vector<StateChannel> const& trained);

  [[nodiscard]] Grid const& grid() const noexcept { return grid_; }
  /// Numbers from 0 where `has_dates` is false.
  [[nodiscard]] std::vector<Seconds> const& times() const noexcept { return times_; }
  [[nodiscard]] bool has_dates() const noexcept { return has_dates_; }
  /// Of the times.
  [[nodiscard]] Calendar calendar() const noexcept { return calendar_; }
  [[nodiscard]] Index num_members() const noexcept { return num_members_; }
  /// Prognostic ones first; `level` is the position in the file.
  [[nodiscard]] std::vector<StateChannel> const& channels() const noexcept { return channels_; }
  [[nodiscard]] std::string const& latitude_name() const noexcept { return latitude_name_; }
  [[nodiscard]] std::string const& longitude_name() const noexcept { return longitude_name_; }
  [[nodiscard]] std::string const& time_name() const noexcept { return time_name_; }
  /// The axes that count members.
  [[nodiscard]] std::vector<std::string> const& member_names() const noexcept { return member_names_; }
  [[nodiscard]] FieldSeries const& file() const noexcept { return *file_; }
  /// The axes of a variable that are levels, in order.
  [[nodiscard]] std::vector<std::string> const& level_axes(std::string const& variable) const;

  /// Of all times and members.
  [[nodiscard]] Index num_states() const noexcept { return Index(times_.size()) * num_members_; }
  /// What reads the channels of state `time * num_members() + member` on this rank's box by itself. Not collective.
  /// @param num_mirrored further numbers: the mirror images of as many states
  [[nodiscard]] SampleReader reader(Box const& box, Index num_mirrored) const;

 private:
  struct VariableAxes {
    std::string name;
    HorizontalAxes horizontal;
    int time = -1;
    std::vector<int> members;
    std::vector<int> levels;
    std::vector<std::string> level_names;
  };
  VariableAxes axes_of(std::string const& name) const;
  void look_at(std::string const& files, std::vector<std::string> const& prognostic,
               std::vector<std::string> const& diagnostic, RepeatedColumn repeated);
  /// The axis that counts samples of a variable without dates. @throws `BadInput` (input)
  [[nodiscard]] int undated_axis(Variable const& variable, HorizontalAxes const& horizontal) const;
  void add(std::string const& name, Role role, RepeatedColumn repeated);
  void compare(VariableAxes const& axes) const;

  std::shared_ptr<FieldSeries const> file_;
  Grid grid_;
  std::string latitude_name_;
  std::string longitude_name_;
  std::string time_name_;
  std::vector<Seconds> times_;
  TimeAxis axis_ = TimeAxis::dated;
  bool has_dates_ = true;
  Calendar calendar_ = Calendar::standard;
  std::vector<std::string> member_names_;
  std::vector<Index> member_extents_;
  Index num_members_ = 1;
  std::vector<VariableAxes> variables_;
  std::vector<StateChannel> channels_;
  std::vector<SampleReader::Source> sources_;
};

}  // namespace graticule::samples
