// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace graticule {

/// Throws on all ranks when `failure` is set on any rank; with several failures, that of the lowest rank counts.
///
/// Collective. The failing rank rethrows its exception; all others throw an `Error` with the same rule and fault, and
/// with the message prefixed by `rank r:`. Cost: one all-reduce of 1 integer; one additional broadcast on failure.
void agree(Comm const& comm, std::exception_ptr const& failure);

/// Throws `rule` on all ranks unless `fingerprint` is the same on all; the text states two ranks that differ and their
/// `described` values. Collective. Cost: one all-reduce of 4 integers when they agree.
void require_same(Comm const& comm, std::string_view rule, std::uint64_t fingerprint, std::string const& described);

}  // namespace graticule
