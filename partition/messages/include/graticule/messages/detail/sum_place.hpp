// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstddef>
#include <vector>

namespace graticule::messages {

/// One rank's terms of a sum, in memory that all ranks of its team read and write, and the places of the others.
///
/// Each rank writes its values and gives them. When all ranks have given theirs, the owner of a part reads the part in
/// all places, overwrites it with the sum in all places, and reports that. When all owners have reported, each rank
/// reads its own place. No call blocks. Nobody then accesses the place until it is given again, so it can be freed or
/// written at once. Example:
/// ranks 0 and 1 give {1, 2} and {3, 4}. Rank 0 owns the first number: both places hold {4, .}. Rank 1 owns the second:
/// both hold {4, 6}.
class SumPlace {
 public:
  SumPlace() = default;
  SumPlace(SumPlace const&) = delete;
  SumPlace& operator=(SumPlace const&) = delete;
  /// @pre no sum is under way
  virtual ~SumPlace() = default;

  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Aligned to a cache line.
  [[nodiscard]] virtual std::byte* values(int rank) const noexcept = 0;

  /// @param num_values the same on all ranks
  virtual void give(Index num_values) = 0;
  /// True when all ranks have given theirs. @throws `StructureDisagreement` where a rank has given another number of
  /// values
  [[nodiscard]] virtual bool all_given() = 0;
  /// Ranks that have not given theirs yet.
  [[nodiscard]] virtual std::vector<int> missing() const = 0;
  /// This rank has written its part of the sum in all places.
  virtual void tell_added() = 0;
  /// True when all other ranks have written theirs.
  [[nodiscard]] virtual bool all_added() = 0;
  /// False where devices of other ranks may still use the memory when all ranks have given a sum up.
  [[nodiscard]] virtual bool is_free_after_failures() const noexcept { return true; }
};

}  // namespace graticule::messages
