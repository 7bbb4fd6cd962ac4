// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/forecaster.hpp>

#include "names.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace graticule::forecast {

/// Checks that networks can forecast together: they have the same channels, lead and grid, and none is given twice.
/// @throws `BadInput` (input) that names two of them and what differs; `BadOption` (usage)
void require_alike(std::vector<Description> const& descriptions, std::vector<std::filesystem::path> const& files);

/// One or more networks that forecast the members of an ensemble, each network as many.
///
/// Members are numbered network by network: of 2 networks and 6 members, the first network has members 0, 1 and 2. A
/// team of ranks holds the networks of its own members only. Layouts of teams do not change a bit of a member.
class Networks {
 public:
  /// Members of all ranks, and the part of them that this rank's team steps.
  struct Members {
    Index count = 1;
    Index first = 0;
    Index last = 1;
  };
  /// Collective. @param checkpoints opened by the ranks of `domain`
  /// @throws what the constructor of `Forecaster` throws, on all ranks of `world`
  Networks(Comm const& world, Comm const& domain, Layout const& layout, std::vector<Checkpoint> const& checkpoints,
           Members const& members, std::string const& device);
  /// The same with one exported network.
  Networks(Comm const& world, Comm const& domain, Layout const& layout, Description const& description,
           Members const& members, std::string const& device);

  /// Members of each network.
  [[nodiscard]] Index members_per_network() const noexcept { return members_.count / Index(files_.size()); }
  [[nodiscard]] std::vector<std::filesystem::path> const& files() const noexcept { return files_; }

  /// Begins with the team's own members. Collective over the domain.
  /// @param states [own member][time: present, earlier ones][prognostic channel][row][column] in units
  /// @param num_times as many as the longest history, of which each network takes its own
  void start(std::span<double const> states, Index num_times);
  /// One lead from `time`. Collective over the domain.
  /// In which times of steps count.
  void set_calendar(models::Calendar calendar);
  void step(Seconds time);
  /// All channels of an own member, counted from the team's first: [channel][row][column] in units.
  [[nodiscard]] std::vector<double> present(Index own_member) const;

  /// States of all members. Collective over the world.
  void save(CheckpointWriter& writer);
  /// @pre `start` with any states. Collective over the world.
  void load(Checkpoint const& checkpoint);

 private:
  /// A network of this team, and its part of the team's members.
  struct Own {
    Index network;
    Index first;  ///< member
    Index last;
    Forecaster forecaster;
  };
  [[nodiscard]] Index network_of(Index member) const noexcept { return member / members_per_network(); }
  [[nodiscard]] std::string name_of(Index network) const;
  [[nodiscard]] Own* find(Index network);
  /// Where the ranks hold the members of a network, counted from its first, rows and columns.
  [[nodiscard]] Layout layout_of(Index network) const;
  /// [channel][member][row][column] of a network's states, possibly none.
  [[nodiscard]] FieldView states_of(Index network);

  Comm world_;
  Layout layout_;
  Box box_;
  Members members_;
  std::vector<std::filesystem::path> files_;
  std::vector<Description> descriptions_;
  std::vector<Own> own_;
};

}  // namespace graticule::forecast
