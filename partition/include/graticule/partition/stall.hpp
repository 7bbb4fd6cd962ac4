// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule {

/// What becomes of a wait for other ranks that lasts too long.
struct StallRule {
  double report_seconds = 300;  ///< after which it is reported on stderr, once; 0: never
  double error_seconds = 0;     ///< after which it ends with the error `StalledExchange`; 0: never
};

/// The rule of this process: what `set_stall_rule` set last. Until then `GRATICULE_STALL_SECONDS` is when a wait is
/// reported (300), `GRATICULE_STALL_LIMIT` when it is an error (never; with `GRATICULE_CHECK=comm`, when it would be
/// reported).
[[nodiscard]] StallRule stall_rule();
/// The rule of the environment, and `otherwise` where it says nothing: for programs with a rule of their own.
/// @throws `BadCheck`, `BadStallSeconds` (usage) for a value that has no meaning
[[nodiscard]] StallRule stall_rule_of_environment(StallRule const& otherwise = {});
/// Sets the rule for all waits of this process. Set it alike on all ranks.
/// @throws `BadStallSeconds` (usage) for a negative number of seconds, or one that is not finite
void set_stall_rule(StallRule const& rule);

}  // namespace graticule
