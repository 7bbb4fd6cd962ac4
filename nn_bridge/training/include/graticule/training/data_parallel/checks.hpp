// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule::training {

/// Treatment of a parameter without a gradient.
enum class Unused : std::uint8_t {
  refused,  ///< the error `UnusedParameter` on all ranks, where it has none on some or all ranks
  allowed,  ///< zero where other ranks have a gradient; if no rank has one, `.grad` is unchanged
};

/// Whether ranks compare each reduction (bucket, iteration, names, sizes, types and rules), or each operation of a unit
/// whose parameters are sharded, before it.
///
/// A difference, or a rank that does not arrive in time, is then one error on all ranks (`CallDisagreement`,
/// `StalledExchange`), and the object cannot be used any more. Cost: a message to and from each team's first rank per
/// bucket or operation.
enum class CheckedCalls : std::uint8_t {
  by_environment,  ///< where `GRATICULE_CHECK` is `comm` or `all`
  on,
  off,
};

namespace detail {

/// Whether this process compares calls. All ranks of a team must agree.
[[nodiscard]] bool compares_calls(CheckedCalls checks);

}  // namespace detail

}  // namespace graticule::training
