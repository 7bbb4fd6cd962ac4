// SPDX-License-Identifier: BSD-3-Clause
#include "call_check.hpp"

#include <graticule/partition/detail/patience.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::training::detail {

namespace {

constexpr std::size_t max_text = 400;
constexpr std::size_t max_verdict = 1200;
using Text = std::array<char, max_text + 1>;
using Verdict = std::array<char, max_verdict + 1>;

template <class Array>
Array filled(std::string const& text) {
  Array result{};
  std::copy_n(text.begin(), std::min(text.size(), result.size() - 1), result.begin());
  return result;
}

bool has_ended(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

bool have_ended(std::vector<MPI_Request>& requests) {
  // Each of them is tested: a request that has ended is freed by that.
  return std::count_if(requests.begin(), requests.end(), has_ended) == std::ptrdiff_t(requests.size());
}

}  // namespace

struct CallCheck::Messages {
  Text own{};
  std::vector<Text> texts;  ///< on rank 0, of all ranks
  Verdict verdict{};
  char has_come = 1;                    ///< of rank 0
  MPI_Request come = MPI_REQUEST_NULL;  ///< on the others
  std::vector<MPI_Request> requests;
  std::vector<MPI_Request> answers;  ///< on rank 0

  /// Frees them once MPI has sent the answers. What it may still read or write after a failure is never freed.
  static void end(Messages* messages, Comm const& team) noexcept {
    using Clock = std::chrono::steady_clock;
    try {
      auto const end = Clock::now() + std::chrono::duration<double>(graticule::detail::seconds_to_end());
      while (!have_ended(messages->answers)) {
        if (Clock::now() > end || team.failed_peer()) return;
        std::this_thread::yield();
      }
      if (have_ended(messages->requests) && has_ended(messages->come)) delete messages;
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): whoever waits for these messages reports
    }
  }
};

CallCheck::CallCheck(Comm team) : team_(std::move(team)), tag_(team_.next_tag()), come_tag_(team_.next_tag()) {}

void CallCheck::start(std::string const& described) {
  started_ = true;
  if (messages_) sent_.push_back(std::move(messages_));
  std::erase_if(sent_, [](auto const& messages) { return have_ended(messages->answers); });
  messages_ = std::shared_ptr<Messages>(new Messages, [team = team_](Messages* all) { Messages::end(all, team); });
  auto& m = *messages_;
  m.own = filled<Text>(described);
  if (team_.rank() == 0) {
    m.texts.resize(std::size_t(team_.num_ranks()));
    for (int r = 1; r < team_.num_ranks(); ++r) {
      check_mpi(MPI_Irecv(m.texts[std::size_t(r)].data(), int(m.own.size()), MPI_CHAR, r, tag_, team_.handle(),
                          &m.requests.emplace_back()),
                "MPI_Irecv");
      check_mpi(MPI_Isend(&m.has_come, 1, MPI_CHAR, r, come_tag_, team_.handle(), &m.answers.emplace_back()),
                "MPI_Isend");
    }
  } else {
    check_mpi(MPI_Irecv(&m.has_come, 1, MPI_CHAR, 0, come_tag_, team_.handle(), &m.come), "MPI_Irecv");
    check_mpi(MPI_Isend(m.own.data(), int(m.own.size()), MPI_CHAR, 0, tag_, team_.handle(), &m.requests.emplace_back()),
              "MPI_Isend");
    check_mpi(MPI_Irecv(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, 0, tag_, team_.handle(),
                        &m.requests.emplace_back()),
              "MPI_Irecv");
  }
}

void CallCheck::answer(std::string const& verdict) {
  auto& m = *messages_;
  m.verdict = filled<Verdict>(verdict);
  for (int r = 1; r < team_.num_ranks(); ++r)
    check_mpi(MPI_Isend(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, r, tag_, team_.handle(),
                        &m.answers.emplace_back()),
              "MPI_Isend");
}

bool CallCheck::advance() {
  if (!started_) return true;
  auto& m = *messages_;
  if (!has_ended(m.come)) return false;
  for (auto& request : m.requests)
    if (!has_ended(request)) return false;
  started_ = false;
  std::string verdict = m.verdict.data();
  if (team_.rank() == 0) {
    for (std::size_t r = 1; r < m.texts.size() && verdict.empty(); ++r)
      if (m.texts[r] != m.own)
        verdict = "CallDisagreement:rank 0 has " + std::string(m.own.data()) + ", rank " + std::to_string(r) + " has " +
                  m.texts[r].data();
    answer(verdict);
  }
  auto const colon = verdict.find(':');
  if (verdict.empty()) return true;
  graticule::detail::keep_for_good(messages_);
  throw Error(verdict.substr(0, colon), verdict.substr(colon + 1));
}

void CallCheck::give_up(std::string const& call, double waited) {
  using Clock = std::chrono::steady_clock;
  // What comes later is received, and MPI writes it then.
  graticule::detail::keep_for_good(messages_);
  auto& m = *messages_;
  auto const seconds = "after " + std::to_string(int(waited + 0.5)) + " s ";
  std::string missing;
  if (team_.rank() == 0) {
    for (std::size_t r = 1; r < m.texts.size(); ++r)
      if (!has_ended(m.requests[r - 1])) missing += " " + std::to_string(r);
  } else if (!has_ended(m.come)) {
    missing = " 0";
  } else {
    // Rank 0 has come after this one or with it, and will say who is missing.
    auto const end = Clock::now() + std::chrono::duration<double>(waited + 1);
    while (Clock::now() < end) {
      (void)advance();
      std::this_thread::yield();
    }
    throw Error("StalledReduction", seconds + "rank 0 has come to " + call + ", and has not answered");
  }
  auto const text = seconds + "rank" + missing + " has not come to " + call;
  if (team_.rank() == 0) answer("StalledReduction:" + text);
  throw Error("StalledReduction", text);
}

void CallCheck::compare(std::string const& described) {
  start(described);
  std::function<std::string()> const describe = [&] { return described; };
  graticule::detail::Patience patience(team_, describe);
  try {
    while (!advance()) patience.pause();
  } catch (Error const& error) {
    if (error.rule() != "StalledExchange") throw;
    give_up(described, patience.seconds());
  }
}

}  // namespace graticule::training::detail
