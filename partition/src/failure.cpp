// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/failure.hpp>

#include "agreed_error.hpp"
#include "comm_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

namespace graticule {

namespace {

/// How long a rank whose error is that of another waits for the notice of that one, which makes its own superfluous.
constexpr double seconds_for_speaker = 0.2;

/// How long the launcher may take to end a process that has called MPI_Abort.
constexpr std::chrono::seconds seconds_for_launcher(10);

struct Said {
  Fault fault = Fault::program;
  std::string text;
  detail::Channel* channel = nullptr;  ///< of the rank whose error all ranks have agreed on, if this is another
  int speaker = -1;
  bool is_of_wait = false;  ///< for ranks that do not come, or have failed
};

Said said_by(std::exception_ptr const& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (detail::AgreedError const& error) {
    return {.fault = error.fault(), .text = error.what(), .channel = error.channel(), .speaker = error.speaker()};
  } catch (Error const& error) {
    bool const is_of_wait = error.rule() == "PeerFailed" || error.rule() == "StalledExchange";
    return {.fault = error.fault(), .text = error.what(), .is_of_wait = is_of_wait};
  } catch (std::exception const& error) {
    return {.text = error.what()};
  } catch (...) {
  }
  return {.text = "an exception of unknown type"};
}

/// Polls `channel` until the speaker has announced what `is_sought` accepts, or the time for it is over.
bool is_announced(Said const& said, detail::Channel& channel, std::chrono::steady_clock::time_point end,
                  std::function<bool(detail::Notice const&)> const& is_sought) {
  if (said.channel != &channel) return false;
  for (;;) {
    channel.poll();
    for (auto const& [from, notice] : channel.received())
      if (from == said.speaker && is_sought(notice)) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    detail::leave_core();
  }
}

std::chrono::steady_clock::time_point end_of_wait() {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(seconds_for_speaker));
}

void announce(std::span<Comm const> comms, Said const& said) {
  auto const end = end_of_wait();
  for (auto const& comm : comms) {
    auto& s = detail::CommState::of(comm);
    s.given_up = true;
    detail::Notice notice;
    notice.fault = std::int32_t(said.fault);
    notice.comm = s.id;
    notice.number = s.generation;
    notice.num_calls = s.num_met;
    notice.is_of_wait = said.is_of_wait ? 1 : 0;
    notice.set_text(said.text);
    // All of its ranks have that notice then, and one is enough.
    bool const has_speaker = std::find(s.places.begin(), s.places.end(), said.speaker) != s.places.end();
    bool const is_known =
        has_speaker && is_announced(said, *s.channel, end, [&](detail::Notice const& other) {
          return other.kind == detail::Notice::Kind::failed && other.comm == s.id && other.number == s.generation;
        });
    for (int r = 0; r < s.num_ranks && !is_known; ++r)
      if (r != s.rank) s.channel->tell(s.places[std::size_t(r)], notice);
    // Nor does this rank wait for calls that it has given up itself.
    s.channel->note_own(notice);
    detail::Channel::note_failure(s.id, said.fault, said.text);
  }
}

}  // namespace

void announce_failure(std::span<Comm const> comms, std::string const& text) { announce(comms, {.text = text}); }

void announce_failure(std::span<Comm const> comms, std::exception_ptr const& failure) {
  announce(comms, said_by(failure));
}

void announce_failure(std::exception_ptr const& failure) {
  auto const said = said_by(failure);
  auto const end = end_of_wait();
  detail::Channel::announce_end(said.fault, said.text, [&](detail::Channel& channel) {
    return is_announced(said, channel, end,
                        [](detail::Notice const& notice) { return notice.kind == detail::Notice::Kind::ended; });
  });
}

namespace detail {

void note_unwinding() noexcept {
  auto const text = last_error_text();
  Channel::note_end(text.empty() ? "an exception" : text);
}

void abort_all_ranks(int code) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // MPICH waits for the launcher to end this process, which it does not do where the network has failed.
  try {
    std::thread([code] {
      std::this_thread::sleep_for(seconds_for_launcher);
      std::_Exit(code);
    }).detach();
  } catch (std::exception const&) {
    ::alarm(unsigned(seconds_for_launcher.count()));
  }
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
