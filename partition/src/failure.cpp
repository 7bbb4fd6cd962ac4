// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/failure.hpp>

#include "comm_state.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace graticule {

namespace {

struct Said {
  Fault fault = Fault::program;
  std::string text;
};

Said said_by(std::exception_ptr const& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (Error const& error) {
    return {error.fault(), error.what()};
  } catch (std::exception const& error) {
    return {Fault::program, error.what()};
  } catch (...) {
  }
  return {Fault::program, "an exception of unknown type"};
}

void announce(std::span<Comm const> comms, Said const& said) {
  for (auto const& comm : comms) {
    auto& s = detail::CommState::of(comm);
    s.given_up = true;
    detail::Notice notice;
    notice.fault = std::int32_t(said.fault);
    notice.comm = s.id;
    notice.number = s.generation;
    notice.set_text(said.text);
    for (int r = 0; r < s.num_ranks; ++r)
      if (r != s.rank) s.channel->tell(s.places[std::size_t(r)], notice);
    // Nor does this rank wait for calls that it has given up itself.
    s.channel->note_own(notice);
  }
}

}  // namespace

void announce_failure(std::span<Comm const> comms, std::string const& text) { announce(comms, {Fault::program, text}); }

void announce_failure(std::span<Comm const> comms, std::exception_ptr const& failure) {
  announce(comms, said_by(failure));
}

void announce_failure(std::exception_ptr const& failure) {
  auto const said = said_by(failure);
  detail::Channel::announce_end(said.fault, said.text);
}

namespace detail {

void note_unwinding() noexcept {
  auto const text = last_error_text();
  Channel::note_end(text.empty() ? "an exception" : text);
}

void abort_all_ranks(int code) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void end_process(int code) {
#ifdef GRATICULE_SANITIZED
  std::exit(code);
#else
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}

}  // namespace detail

}  // namespace graticule
