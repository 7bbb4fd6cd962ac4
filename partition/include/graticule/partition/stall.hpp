// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule {

/// Treatment of a wait for other ranks that lasts too long.
struct StallRule {
  double report_seconds = 300;  ///< after which it is reported on stderr, once; 0: never
  double error_seconds = 0;     ///< after which it ends with the error `StalledExchange`; 0: never

  /// The rule of the environment, or `otherwise` where it sets none: for programs with their own default.
  /// @throws `BadOption` (usage) for an invalid value
  [[nodiscard]] static StallRule of_environment(StallRule const& otherwise);
  [[nodiscard]] static StallRule of_environment();
};

/// Sets the rule for all waits of this process. Use the same rule on all ranks. Until then a wait is reported after
/// `GRATICULE_STALL_SECONDS` (default 300), and becomes an error after `GRATICULE_STALL_LIMIT` (default: never; with
/// `GRATICULE_CHECK=comm`, when it would be reported).
/// @throws `BadOption` (usage) for a negative number of seconds, or one that is not finite
void set_stall_rule(StallRule const& rule);

}  // namespace graticule
