// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "plan_context.hpp"

#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

class Call;

/// What the fields of a call must be like: they fit the plan and each other, and no memory that is written belongs to
/// two of them.
class FieldChecks {
 public:
  struct Use;

  explicit FieldChecks(PlanContext const& plan);

  /// @throws `OutOfRange`, `FieldMismatch`, `Conversion`
  void check(std::span<PullField const> fields, Direction direction) const;
  /// @throws `AliasedFields` when memory that the call writes belongs to two of its fields, or of one field to source
  /// and target
  /// @return false when that depends on the factors of this call, which the next one with these fields may change
  bool check_apart(std::span<PullField const> fields, Direction direction) const;
  /// The same for an adjoint whose sources are given at its end. @throws `FieldMismatch`, `AliasedFields`
  void check_sources(Call const& call, std::span<FieldView const> sources) const;

 private:
  /// What a target does with the owned cells where its memory is that of the source.
  struct InPlace {
    bool stays = false;             ///< some are copied to themselves
    bool copies_to_owned = false;   ///< some are copied over; none in most halos
    bool copies_to_images = false;  ///< some of these are images of other cells
  };

  void check_field(PullField const& field, Direction direction) const;
  /// The call touches memory of both. @param as_it_is becomes false when that depends on its factors
  [[nodiscard]] bool have_common_cells(Use const& a, Use const& b, Direction direction, bool& as_it_is) const;
  [[nodiscard]] InPlace const& in_place(int kind, int target) const;
  /// Each cell has the same place in source and target, and no cell is read after it was written.
  [[nodiscard]] bool works_in_place(PullField const& field, int target, Direction direction, bool& as_it_is) const;

  PlanContext const& plan_;
  mutable std::vector<std::vector<std::optional<InPlace>>> in_place_;  ///< per kind and target, where it was asked for
};

}  // namespace graticule::detail
