// SPDX-License-Identifier: BSD-3-Clause
#include "call_check.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

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

}  // namespace

bool checks_calls_by_environment() {
  char const* const value = std::getenv("GRATICULE_CHECK");
  return value != nullptr && (std::string(value) == "comm" || std::string(value) == "all");
}

double stall_seconds_by_environment() {
  constexpr double usual = 300;
  char const* const value = std::getenv("GRATICULE_STALL_SECONDS");
  if (value == nullptr || *value == '\0') return usual;
  char* end = nullptr;
  double const seconds = std::strtod(value, &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds < 0)
    throw Error(Fault::usage, "BadStallSeconds",
                "GRATICULE_STALL_SECONDS is '" + std::string(value) + "', not a number of seconds");
  return seconds;
}

struct CallCheck::Messages {
  Text own{};
  std::vector<Text> texts;  ///< on rank 0, of all ranks
  Verdict verdict{};
  std::vector<MPI_Request> requests;
};

CallCheck::CallCheck(Comm team) : team_(std::move(team)), tag_(team_.next_tag()) {}

void CallCheck::start(std::string const& described) {
  started_ = true;
  described_ = described;
  messages_ = std::make_shared<Messages>();
  auto& m = *messages_;
  m.own = filled<Text>(described);
  if (team_.rank() == 0) {
    m.texts.resize(std::size_t(team_.num_ranks()));
    for (int r = 1; r < team_.num_ranks(); ++r)
      check_mpi(MPI_Irecv(m.texts[std::size_t(r)].data(), int(m.own.size()), MPI_CHAR, r, tag_, team_.handle(),
                          &m.requests.emplace_back()),
                "MPI_Irecv");
  } else {
    check_mpi(MPI_Isend(m.own.data(), int(m.own.size()), MPI_CHAR, 0, tag_, team_.handle(), &m.requests.emplace_back()),
              "MPI_Isend");
    check_mpi(MPI_Irecv(m.verdict.data(), int(m.verdict.size()), MPI_CHAR, 0, tag_, team_.handle(),
                        &m.requests.emplace_back()),
              "MPI_Irecv");
  }
}

void CallCheck::answer(std::string const& verdict) {
  auto const text = filled<Verdict>(verdict);
  for (int r = 1; r < team_.num_ranks(); ++r)
    check_mpi(MPI_Send(text.data(), int(text.size()), MPI_CHAR, r, tag_, team_.handle()), "MPI_Send");
}

bool CallCheck::advance() {
  if (!started_) return true;
  auto& m = *messages_;
  for (auto& request : m.requests) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) return false;
  }
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
  if (!verdict.empty()) throw Error(verdict.substr(0, colon), verdict.substr(colon + 1));
  return true;
}

void CallCheck::give_up(double waited, double patience) {
  auto& m = *messages_;
  auto const seconds = std::to_string(int(waited)) + " s";
  // Rank 0 says who is missing; only where it is missing itself, nobody does.
  if (team_.rank() != 0 && waited < 1.5 * patience + 1) return;
  std::string text = "after " + seconds + " rank";
  if (team_.rank() == 0) {
    for (std::size_t r = 1; r < m.texts.size(); ++r)
      if (m.requests[r - 1] != MPI_REQUEST_NULL) text.append(" ").append(std::to_string(r));
  } else {
    text += " 0";
  }
  text += " has not come to " + described_;
  // What comes later is received, and MPI writes it then.
  static auto* const kept = new std::vector<std::shared_ptr<Messages>>;
  kept->push_back(messages_);
  if (team_.rank() == 0) answer("StalledReduction:" + text);
  throw Error("StalledReduction", text);
}

void CallCheck::compare(std::string const& described, double patience) {
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  start(described);
  while (!advance()) {
    double const waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (patience > 0 && waited > patience) give_up(waited, patience);
    std::this_thread::yield();
  }
}

}  // namespace graticule::nn::detail
