// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::messages {

namespace {

constexpr std::size_t max_text = 400;
constexpr std::size_t max_verdict = 1200;

/// From a rank to the one above it.
struct Report {
  static constexpr std::int32_t none = -1;
  static constexpr std::int32_t waits = -2;  ///< the text says for whom; no report yet

  std::uint64_t fingerprint = 0;
  std::int32_t other = none;  ///< the lowest rank below with another fingerprint
  std::array<char, max_text + 1> text{};
  std::array<char, max_text + 1> other_text{};
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

/// In place of a verdict: which ranks are missing?
constexpr char const* question = "?";
/// How long rank 0 waits for answers to it.
constexpr double seconds_for_answers = 1;

}  // namespace

struct CallComparison::Messages {
  Report own;
  Report waits;                       ///< the answer to a question
  std::vector<Report> reports;        ///< of the ranks below
  std::vector<MPI_Request> receives;  ///< of these reports
  std::vector<MPI_Request> sends;     ///< of `own` and `waits`
  Verdict verdict{};                  ///< from above
  Verdict passed_on{};
  Verdict asked{};
  char arrived = 1;  ///< of this rank
  char above_has_arrived = 0;
  MPI_Request arrival = MPI_REQUEST_NULL;  ///< of the rank above
  MPI_Request answer = MPI_REQUEST_NULL;   ///< of the rank above
  std::vector<MPI_Request> answers;        ///< to the ranks below
  bool has_reported = false;

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
      if (have_ended(messages->receives) && have_ended(messages->sends) && has_ended(messages->arrival) &&
          has_ended(messages->answer))
        delete messages;
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): whoever waits for these messages reports
    }
  }
};

CallComparison::CallComparison(Comm comm, int most_below)
    : comm_(std::move(comm)), tag_(comm_.next_tag()), arrival_tag_(comm_.next_tag()), most_below_(most_below) {
  // Two levels.
  if (most_below_ == 0) most_below_ = std::max(16, int(std::ceil(std::sqrt(double(comm_.num_ranks())))));
}

int CallComparison::above() const noexcept { return (comm_.rank() - 1) / most_below_; }

CallComparison::Below CallComparison::below(int rank) const noexcept {
  auto const end = Index(comm_.num_ranks());
  auto const first = Index(rank) * most_below_ + 1;
  return {int(std::min(first, end)), int(std::min(first + most_below_, end))};
}

void CallComparison::start(std::string const& described) { start(described, Hash().add(described).value()); }

void CallComparison::start(std::string const& described, std::uint64_t fingerprint) {
  started_ = true;
  if (messages_) sent_.push_back(std::move(messages_));
  std::erase_if(sent_, [](auto const& messages) { return have_ended(messages->answers); });
  messages_ = std::shared_ptr<Messages>(new Messages, [comm = comm_](Messages* all) { Messages::end(all, comm); });
  auto& m = *messages_;
  m.own.fingerprint = fingerprint;
  fill(m.own.text, described);
  auto const mine = below(comm_.rank());
  m.reports.resize(std::size_t(mine.end - mine.first));
  for (int r = mine.first; r < mine.end; ++r) {
    check_mpi(MPI_Irecv(&m.reports[std::size_t(r - mine.first)], sizeof(Report), MPI_BYTE, r, tag_, comm_.handle(),
                        &m.receives.emplace_back()),
              "MPI_Irecv");
    check_mpi(MPI_Isend(&m.arrived, 1, MPI_CHAR, r, arrival_tag_, comm_.handle(), &m.answers.emplace_back()),
              "MPI_Isend");
  }
  if (comm_.rank() == 0) return;
  check_mpi(MPI_Irecv(&m.above_has_arrived, 1, MPI_CHAR, above(), arrival_tag_, comm_.handle(), &m.arrival),
            "MPI_Irecv");
  receive_verdict();
  if (m.reports.empty()) report();
}

void CallComparison::receive_verdict() {
  auto& m = *messages_;
  check_mpi(MPI_Irecv(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, above(), tag_, comm_.handle(), &m.answer),
            "MPI_Irecv");
}

void CallComparison::send_up(void const* report) {
  check_mpi(
      MPI_Isend(report, sizeof(Report), MPI_BYTE, above(), tag_, comm_.handle(), &messages_->sends.emplace_back()),
      "MPI_Isend");
}

void CallComparison::report() {
  auto& m = *messages_;
  auto const first = below(comm_.rank()).first;
  for (std::size_t i = 0; i < m.reports.size(); ++i) {
    auto const& one = m.reports[i];
    // A rank has a lower number than all below it.
    bool const differs = one.fingerprint != m.own.fingerprint;
    auto const other = differs ? first + int(i) : one.other;
    if (other == Report::none || (m.own.other != Report::none && m.own.other < other)) continue;
    m.own.other = other;
    m.own.other_text = differs ? one.text : one.other_text;
  }
  m.has_reported = true;
  if (comm_.rank() != 0) send_up(&m.own);
}

void CallComparison::answer(std::string const& verdict) {
  auto& m = *messages_;
  fill(m.passed_on, verdict);
  auto const mine = below(comm_.rank());
  for (int r = mine.first; r < mine.end; ++r)
    check_mpi(MPI_Isend(m.passed_on.data(), int(m.passed_on.size()), MPI_CHAR, r, tag_, comm_.handle(),
                        &m.answers.emplace_back()),
              "MPI_Isend");
}

bool CallComparison::advance() {
  if (!started_) return true;
  auto& m = *messages_;
  if (!m.has_reported && have_ended(m.receives)) report();
  std::string verdict;
  if (comm_.rank() == 0) {
    if (!m.has_reported) return false;
    if (m.own.other != Report::none)
      verdict = "CallDisagreement:rank 0 has " + std::string(m.own.text.data()) + ", rank " +
                std::to_string(m.own.other) + " has " + m.own.other_text.data() +
                (m.own.other_text == m.own.text ? ": the same words, but other details that they do not show" : "");
  } else {
    if (!has_ended(m.arrival) || !has_ended(m.answer) || !have_ended(m.sends)) return false;
    verdict = m.verdict.data();
    if (verdict == question) {
      if (!m.has_reported) {
        m.waits.other = Report::waits;
        fill(m.waits.text, "rank " + std::to_string(comm_.rank()) + " waits for the same call of rank" + missing());
        send_up(&m.waits);
      }
      receive_verdict();
      return false;
    }
  }
  started_ = false;
  answer(verdict);
  if (verdict.empty()) return true;
  auto const colon = verdict.find(':');
  throw Error(verdict.substr(0, colon), verdict.substr(colon + 1));
}

std::string CallComparison::missing() {
  auto& m = *messages_;
  std::string ranks;
  auto const first = below(comm_.rank()).first;
  for (std::size_t i = 0; i < m.receives.size(); ++i) {
    if (has_ended(m.receives[i])) continue;
    auto const rank = first + int(i);
    ranks += " " + std::to_string(rank);
    if (auto const others = below(rank); others.end > others.first)
      ranks += " (or of " + std::to_string(others.first) +
               (others.end > others.first + 1 ? " to " + std::to_string(others.end - 1) : "") + ")";
  }
  return ranks;
}

std::string CallComparison::waits(std::string const& call) {
  auto const text = "rank " + std::to_string(comm_.rank()) + " waits before " + call + " for ";
  if (has_ended(messages_->arrival))
    if (auto const ranks = missing(); !ranks.empty()) return text + "the same call of rank" + ranks;
  return text + "rank " + std::to_string(above()) + ", which compares the calls of " + (above() == 0 ? "all" : "some") +
         " ranks,";
}

std::string CallComparison::words_of_waiting() {
  auto& m = *messages_;
  fill(m.asked, question);
  auto const mine = below(0);
  std::vector<int> asked;
  for (int r = mine.first; r < mine.end; ++r) {
    if (has_ended(m.receives[std::size_t(r - mine.first)]) || below(r).first == below(r).end) continue;
    asked.push_back(r);
    check_mpi(
        MPI_Isend(m.asked.data(), int(m.asked.size()), MPI_CHAR, r, tag_, comm_.handle(), &m.answers.emplace_back()),
        "MPI_Isend");
  }
  auto const has_answered = [&](int r) { return has_ended(m.receives[std::size_t(r - mine.first)]); };
  double const end = MPI_Wtime() + seconds_for_answers;
  while (!std::all_of(asked.begin(), asked.end(), has_answered) && MPI_Wtime() < end) detail::leave_core();
  std::string words;
  for (int const r : asked) {
    auto const& one = m.reports[std::size_t(r - mine.first)];
    if (!has_answered(r))
      words += "; no answer of rank " + std::to_string(r);
    else if (one.other == Report::waits)
      words += std::string("; ") + one.text.data();
  }
  return words;
}

void CallComparison::end_stalled(Error const& own, double waited_seconds) {
  // What arrives later is received, and MPI writes it then.
  detail::keep_for_good(messages_);
  auto error = own;
  if (comm_.rank() == 0) {
    error = Error(own.rule(), own.text() + words_of_waiting());
  } else if (has_ended(messages_->arrival)) {
    // The rank above has arrived after this one or with it, and will say who is missing, or that it waits for another.
    int num_above = 0;
    for (int r = comm_.rank(); r > 0; r = (r - 1) / most_below_) ++num_above;
    double const end = MPI_Wtime() + num_above * (waited_seconds + 1);
    while (MPI_Wtime() < end) {
      (void)advance();
      detail::leave_core();
    }
  }
  answer(error.rule() + ":" + error.text());
  throw error;
}

void CallComparison::give_up(std::string const& call, double waited_seconds) {
  end_stalled(Error("StalledExchange", waits(call) + " for " + std::to_string(int(waited_seconds + 0.5)) + " s"),
              waited_seconds);
}

void CallComparison::compare(std::string const& described) { compare(described, Hash().add(described).value()); }

void CallComparison::compare(std::string const& described, std::uint64_t fingerprint) {
  if (comm_.num_ranks() == 1) return;
  start(described, fingerprint);
  std::function<std::string()> const describe = [&] { return waits(described); };
  detail::Patience patience(comm_, describe);
  try {
    while (!advance()) patience.pause();
  } catch (Error const& error) {
    if (error.rule() != "StalledExchange" || !started_) throw;
    end_stalled(error, patience.seconds());
  }
}

}  // namespace graticule::messages
