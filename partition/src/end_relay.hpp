// SPDX-License-Identifier: BSD-3-Clause
// Ends of ranks, passed on to those that have not ended: directly among few ranks, else by way of a few that collect
// them.
#pragma once

#include "mailbox.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace graticule::detail {

/// The ends that this rank has to pass on. Each end that was added is either kept here, or in a report that another
/// rank has received, or was told to all ranks that had not ended.
class EndRelay {
 public:
  static constexpr int ends_tag = 3;    ///< of a list of ranks that have ended, and why
  static constexpr int report_tag = 4;  ///< the same for a rank that ends itself, and passes it on

  void add(Received end) { in_charge_.push_back(std::move(end)); }
  /// One step, without blocking. @param is_at_end by rank @param waited seconds since this rank came to its end
  void pass_on(Mailbox& mail, std::vector<bool> const& is_at_end, double waited) noexcept;

 private:
  void tell_all(Mailbox& mail, std::vector<bool> const& is_at_end, double waited) noexcept;

  std::vector<Received> in_charge_;
  Mailbox::Sent const* report_ = nullptr;  ///< of the first of them, under way
  std::size_t num_reported_ = 0;
  double reported_at_ = 0;
  int recipient_ = 0;   ///< number of the rank that reports go to
  bool leads_ = false;  ///< it tells those that have not ended
  double next_telling_ = 0;
  double telling_pause_ = 0;
};

/// Ends of ranks as one message: equal ones share their text.
[[nodiscard]] std::vector<std::byte> packed(std::span<Received const> ends);
[[nodiscard]] std::vector<Received> unpacked(std::vector<std::byte> const& bytes);

}  // namespace graticule::detail
