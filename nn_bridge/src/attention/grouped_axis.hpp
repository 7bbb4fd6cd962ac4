// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>

#include "move/tensor_pull.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>

namespace graticule::nn::detail {

/// Assignment of the cells of an axis to groups of `size` members, some of which may be absent; see `WindowAttention`.
struct GroupedAxis {
  enum class Kind : std::uint8_t { adjacent, dilated };

  Index num_cells = 0;
  Index size = 1;
  Index shift = 0;  ///< of adjacent groups; below `size`
  Kind kind = Kind::adjacent;
  bool periodic = false;

  [[nodiscard]] Index num_groups() const noexcept;
  static constexpr Index absent = -1;
  /// A member's cell, or `absent`.
  [[nodiscard]] Index cell(Index group, Index member) const noexcept;
  /// Groups in as many parts as `cells` has, close to their cells.
  [[nodiscard]] Cuts cuts_of_groups(Cuts const& cells) const;
};

/// Fields with each group on one rank, in an order that can be reshaped to groups.
///
/// Part p of an axis holds groups [lo, hi) in one run: member by member of each group where groups are adjacent, group
/// by group of each member where they are dilated, so that cells move in long runs. Immutable.
class GroupedField {
 public:
  /// Collective. @param fields rows and columns over a grid of all ranks
  GroupedField(Comm const& comm, Layout const& fields, std::array<GroupedAxis, 2> const& axes);

  /// [..., rows, columns] of this rank's cells to [..., row groups, rows of a group, column groups, columns of a
  /// group]; members that are absent are 0. Collective where `moves()`.
  [[nodiscard]] torch::Tensor group(torch::Tensor const& x, CallTies const& ties) const;
  /// The inverse; collective where `moves()`.
  [[nodiscard]] torch::Tensor ungroup(torch::Tensor const& y, CallTies const& ties) const;
  [[nodiscard]] bool moves() const noexcept { return bool(pull_); }
  /// True where a member is absent: [row groups * column groups, rows of a group * columns of a group] on `device`;
  /// undefined where no member is absent.
  [[nodiscard]] torch::Tensor absent(torch::Device device) const {
    return absent_.on_host().defined() ? absent_.on(device) : torch::Tensor();
  }

 private:
  /// One axis on this rank.
  struct Axis {
    GroupedAxis::Kind kind = GroupedAxis::Kind::adjacent;
    Index size = 1;
    Index num_groups = 0;
    Index num_cells = 0;
    bool selects = false;        ///< cells are put in order on this rank; otherwise they come or lie so
    Constant there = {};         ///< place of each member's cell on this rank, `num_cells` for none
    Constant back = {};          ///< and of each cell among the members
    torch::Tensor present = {};  ///< [groups, members]
  };
  std::array<Axis, 2> axes_;
  std::shared_ptr<TensorPull const> pull_;
  Constant absent_;
};

}  // namespace graticule::nn::detail
