// SPDX-License-Identifier: BSD-3-Clause
// A rank that gives up tells the ranks that would wait for it.
#pragma once

#include <graticule/partition/comm.hpp>

#include <exception>
#include <span>
#include <string>

namespace graticule {

/// Tells all other ranks of `comms` that this rank gives up the calls it was making on them.
///
/// Not collective, does not block. Waits on these communicators, also those of plans made on them, then end with the error
/// `PeerFailed`, with the rank and `text`, on every rank: calls on them are no longer paired. `Comm::renew` makes a
/// communicator usable again. Without a call of this, an exception that ends MPI (one that unwinds through `Runtime`)
/// does the same for all communicators of the process, and so does a rank that ends while others wait for it.
/// Cost: one message of 1 KiB per rank and communicator.
void announce_failure(std::span<Comm const> comms, std::string const& text);
/// The same with what `failure` says.
void announce_failure(std::span<Comm const> comms, std::exception_ptr const& failure);
/// The same for every communicator of this process: this rank ends.
void announce_failure(std::exception_ptr const& failure);

namespace detail {

/// Notes that an exception unwinds the stack of `main`: if the others do not come to `MPI_Finalize`, they are told. Nobody
/// holds the exception, so the last `Error` of this thread speaks for it.
void note_unwinding() noexcept;
/// Lets `MPI_Finalize` bring the ranks together before it runs what others, such as a library that closes its files there,
/// have asked for up to now. @throws `MpiError`
void end_before_others();

}  // namespace detail

}  // namespace graticule
