// SPDX-License-Identifier: BSD-3-Clause
// A rank that gives up notifies the ranks that would wait for it.
#pragma once

#include <graticule/partition/comm.hpp>

#include <exception>
#include <span>
#include <string>

namespace graticule {

/// Notifies all other ranks of `comms` that this rank abandons its current calls on them.
///
/// Not collective, does not block. Waits on these communicators, including waits of plans made on them, then end on
/// every rank with the error `PeerFailed`, with the rank and `text`, because calls on them no longer match.
/// `Comm::renew` makes a communicator usable again; until then `text` is also the reason that a rank gives if it ends
/// while others wait for it, and if it waits for them in `MPI_Finalize`. Without this call, an exception that ends MPI
/// (one that unwinds through `Runtime`) has the same effect for all communicators of the process, and so has a rank
/// that ends while others wait for it. Cost: one message of 1 KiB per rank and communicator.
void announce_failure(std::span<Comm const> comms, std::string const& text);
/// The same with the text of `failure`. An error that another rank threw in a call on which all ranks agree is
/// announced by that rank: this one waits for its notice, up to 0.2 s, and sends its own where none comes.
void announce_failure(std::span<Comm const> comms, std::exception_ptr const& failure);
/// The same for every communicator of this process, because this rank ends.
void announce_failure(std::exception_ptr const& failure);

namespace detail {

/// Records that an exception unwinds the stack of `main`: if the other ranks do not reach `MPI_Finalize`, they are
/// notified. The exception itself is not available, so the text is that of the last `Error` of this thread that still
/// exists, else "an exception".
void note_unwinding() noexcept;
/// True while this process waits in `MPI_Finalize` for ranks that do not come there, which is reported there. From any
/// thread.
[[nodiscard]] bool others_are_awaited_at_the_end() noexcept;
/// Makes `MPI_Finalize` synchronise the ranks before it runs the callbacks registered so far, such as those of a
/// library that closes its files there. @throws `MpiError`
void end_before_others();
/// Ends all ranks by `MPI_Abort` with `code` as the exit code, a little later than now, so that the launcher can read
/// what this rank printed: Hydra (MPICH 4.0.2) drops what it has not read when a job is aborted. This process ends 10 s
/// later in any case: MPICH waits for the launcher, which a failed network may keep from it.
[[noreturn]] void abort_all_ranks(int code);
/// Ends this process after its output, without the destructors of static objects. LibTorch's destructors take a third
/// of a short run; sanitizer builds still run them, because sanitizers report at that point.
[[noreturn]] void end_process(int code);

}  // namespace detail

}  // namespace graticule
