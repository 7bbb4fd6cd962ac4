// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace graticule::training::detail {

enum class CallKind : std::uint8_t { forward, backward };

/// One call of one of a team's layers, as a rank sees it.
struct GuardedCall {
  std::string layer;
  int ordinal = 0;
  Index number = 0;
  CallKind kind = CallKind::forward;
  std::exception_ptr failure = nullptr;  ///< of this rank's arguments
  std::uint64_t common = 0;              ///< fingerprint of everything that must be the same
  std::string described = {};            ///< the same in words
  bool requires_grad = false;
  bool grad_mode = false;
};

/// Compares the calls of all ranks, before they communicate. Every message of a team's guarded layers follows such a
/// comparison, so different calls always meet here first. @return `requires_grad` of any rank
/// @throws `CallDisagreement`, a rank's failure, `StructureDisagreement` on all ranks;
///         `StalledExchange` when some rank makes no call for the `error_seconds` of the `StallRule`
bool guard_call(Comm const& team, GuardedCall const& call);

}  // namespace graticule::training::detail
