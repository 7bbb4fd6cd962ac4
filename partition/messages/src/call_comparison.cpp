// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <thread>
#include <utility>

namespace graticule::messages {

namespace {

constexpr std::size_t max_text = 400;
constexpr std::size_t max_verdict = 1200;

struct Call {
  std::uint64_t fingerprint = 0;
  std::array<char, max_text + 1> text{};
};
using Verdict = std::array<char, max_verdict + 1>;

void fill(std::span<char> to, std::string const& text) {
  std::fill(to.begin(), to.end(), '\0');
  std::copy_n(text.begin(), std::min(text.size(), to.size() - 1), to.begin());
}

using detail::has_ended;

bool have_ended(std::vector<MPI_Request>& requests) {
  // Each of them is tested: a request that has ended is freed by that.
  return std::count_if(requests.begin(), requests.end(), has_ended) == std::ptrdiff_t(requests.size());
}

/// @param missing on rank 0, the ranks that have not arrived
std::string waits(int rank, std::vector<int> const& missing, std::string const& call) {
  auto const text = "rank " + std::to_string(rank) + " waits before " + call + " for ";
  if (rank != 0) return text + "rank 0, which compares the calls of all ranks,";
  std::string ranks;
  for (int const other : missing) ranks += " " + std::to_string(other);
  return text + "the same call of rank" + ranks;
}

}  // namespace

struct CallComparison::Messages {
  Call own;
  std::vector<Call> calls;  ///< on rank 0, of all ranks
  Verdict verdict{};
  char arrived = 1;                        ///< of rank 0
  MPI_Request arrival = MPI_REQUEST_NULL;  ///< on the others
  std::vector<MPI_Request> requests;
  std::vector<MPI_Request> answers;  ///< on rank 0

  /// Frees them once MPI has sent the answers. What MPI may still access after a failure is never freed.
  static void end(Messages* messages, Comm const& comm) noexcept {
    using Clock = std::chrono::steady_clock;
    if (detail::mpi_is_over()) return;
    try {
      auto const end = Clock::now() + std::chrono::duration<double>(detail::seconds_to_end());
      while (!have_ended(messages->answers)) {
        if (Clock::now() > end || comm.failed_peer()) return;
        std::this_thread::yield();
      }
      if (have_ended(messages->requests) && has_ended(messages->arrival)) delete messages;
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): whoever waits for these messages reports
    }
  }
};

CallComparison::CallComparison(Comm comm)
    : comm_(std::move(comm)), tag_(comm_.next_tag()), arrival_tag_(comm_.next_tag()) {}

void CallComparison::start(std::string const& described) { start(described, Hash().add(described).value()); }

void CallComparison::start(std::string const& described, std::uint64_t fingerprint) {
  started_ = true;
  if (messages_) sent_.push_back(std::move(messages_));
  std::erase_if(sent_, [](auto const& messages) { return have_ended(messages->answers); });
  messages_ = std::shared_ptr<Messages>(new Messages, [comm = comm_](Messages* all) { Messages::end(all, comm); });
  auto& m = *messages_;
  m.own.fingerprint = fingerprint;
  fill(m.own.text, described);
  if (comm_.rank() == 0) {
    m.calls.resize(std::size_t(comm_.num_ranks()));
    for (int r = 1; r < comm_.num_ranks(); ++r) {
      check_mpi(MPI_Irecv(&m.calls[std::size_t(r)], sizeof(Call), MPI_BYTE, r, tag_, comm_.handle(),
                          &m.requests.emplace_back()),
                "MPI_Irecv");
      check_mpi(MPI_Isend(&m.arrived, 1, MPI_CHAR, r, arrival_tag_, comm_.handle(), &m.answers.emplace_back()),
                "MPI_Isend");
    }
  } else {
    check_mpi(MPI_Irecv(&m.arrived, 1, MPI_CHAR, 0, arrival_tag_, comm_.handle(), &m.arrival), "MPI_Irecv");
    check_mpi(MPI_Isend(&m.own, sizeof(Call), MPI_BYTE, 0, tag_, comm_.handle(), &m.requests.emplace_back()),
              "MPI_Isend");
    check_mpi(MPI_Irecv(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, 0, tag_, comm_.handle(),
                        &m.requests.emplace_back()),
              "MPI_Irecv");
  }
}

void CallComparison::answer(std::string const& verdict) {
  auto& m = *messages_;
  fill(m.verdict, verdict);
  for (int r = 1; r < comm_.num_ranks(); ++r)
    check_mpi(MPI_Isend(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, r, tag_, comm_.handle(),
                        &m.answers.emplace_back()),
              "MPI_Isend");
}

bool CallComparison::advance() {
  if (!started_) return true;
  auto& m = *messages_;
  if (!has_ended(m.arrival)) return false;
  for (auto& request : m.requests)
    if (!has_ended(request)) return false;
  started_ = false;
  std::string verdict = m.verdict.data();
  if (comm_.rank() == 0) {
    for (std::size_t r = 1; r < m.calls.size() && verdict.empty(); ++r)
      if (m.calls[r].fingerprint != m.own.fingerprint)
        verdict = "CallDisagreement:rank 0 has " + std::string(m.own.text.data()) + ", rank " + std::to_string(r) +
                  " has " + m.calls[r].text.data() +
                  (m.calls[r].text == m.own.text ? ": the same words, but other details that they do not show" : "");
    answer(verdict);
  }
  if (verdict.empty()) return true;
  auto const colon = verdict.find(':');
  throw Error(verdict.substr(0, colon), verdict.substr(colon + 1));
}

std::vector<int> CallComparison::missing() {
  auto& m = *messages_;
  std::vector<int> ranks;
  if (comm_.rank() != 0 && !has_ended(m.arrival)) ranks.push_back(0);
  for (int r = 1; comm_.rank() == 0 && r < comm_.num_ranks(); ++r)
    if (!has_ended(m.requests[std::size_t(r) - 1])) ranks.push_back(r);
  return ranks;
}

void CallComparison::end_stalled(Error const& own, double waited_seconds) {
  using Clock = std::chrono::steady_clock;
  // What arrives later is received, and MPI writes it then.
  detail::keep_for_good(messages_);
  if (comm_.rank() == 0) {
    answer(own.rule() + ":" + own.text());
  } else if (has_ended(messages_->arrival)) {
    // Rank 0 has arrived after this one or with it, and will say who is missing.
    auto const end = Clock::now() + std::chrono::duration<double>(waited_seconds + 1);
    while (Clock::now() < end) {
      (void)advance();
      std::this_thread::yield();
    }
  }
  throw own;
}

void CallComparison::give_up(std::string const& call, double waited_seconds) {
  end_stalled(Error("StalledExchange",
                    waits(comm_.rank(), missing(), call) + " for " + std::to_string(int(waited_seconds + 0.5)) + " s"),
              waited_seconds);
}

void CallComparison::compare(std::string const& described) { compare(described, Hash().add(described).value()); }

void CallComparison::compare(std::string const& described, std::uint64_t fingerprint) {
  if (comm_.num_ranks() == 1) return;
  start(described, fingerprint);
  std::function<std::string()> const describe = [&] { return waits(comm_.rank(), missing(), described); };
  detail::Patience patience(comm_, describe);
  try {
    while (!advance()) patience.pause();
  } catch (Error const& error) {
    if (error.rule() != "StalledExchange" || !started_) throw;
    end_stalled(error, patience.seconds());
  }
}

}  // namespace graticule::messages
