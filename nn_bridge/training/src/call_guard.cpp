// SPDX-License-Identifier: BSD-3-Clause
#include "call_guard.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace graticule::nn::detail {

namespace {

enum Slot : std::size_t { ordinal, number, kind, failed, common, requires_grad, grad_mode, num_slots };
using Words = std::array<Index, num_slots>;

/// Memory of a message that MPI may write after its rank has given up.
struct Message {
  Words own{};
  std::vector<Index> all;
  MPI_Request request = MPI_REQUEST_NULL;
};

double patience() {
  char const* const text = std::getenv("GRATICULE_STALL_SECONDS");
  return text != nullptr && *text != '\0' ? std::strtod(text, nullptr) : 300.0;
}

bool wait_in_time(MPI_Request& request) {
  auto const begin = std::chrono::steady_clock::now();
  auto const limit = patience();
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return true;
    std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - begin;
    if (limit > 0 && waited.count() > limit) return false;
    std::this_thread::yield();
  }
}

std::string text_of(Index const* words) {
  return std::string("is in ") + (words[kind] == Index(CallKind::forward) ? "forward " : "backward ") +
         std::to_string(words[number]) + " of module " + std::to_string(words[ordinal]);
}

}  // namespace

bool guard_call(Comm const& team, GuardedCall const& call) {
  auto message = std::make_unique<Message>();
  message->own = {call.ordinal,       call.number,   Index(call.kind), call.failure ? 1 : 0, Index(call.common >> 1U),
                  call.requires_grad, call.grad_mode};
  message->all.resize(num_slots * std::size_t(team.num_ranks()));
  check_mpi(MPI_Iallgather(message->own.data(), num_slots, MPI_INT64_T, message->all.data(), num_slots, MPI_INT64_T,
                           team.handle(), &message->request),
            "MPI_Iallgather");
  if (!wait_in_time(message->request)) {
    auto const text = call.layer + ": rank " + std::to_string(team.rank()) + " " + text_of(message->own.data()) +
                      ", and some rank has made no call since";
    (void)message.release();
    throw Error("CallMissing", text);
  }
  auto const words = [&](int rank) { return message->all.data() + num_slots * std::size_t(rank); };
  bool any_failed = false;
  bool any_gradient = false;
  bool same_mode = true;
  bool same_structure = true;
  for (int r = 0; r < team.num_ranks(); ++r) {
    for (auto const slot : {ordinal, number, kind})
      if (words(r)[slot] != words(0)[slot])
        throw Error("CallsDiffer", call.layer + ": rank 0 " + text_of(words(0)) + ", rank " + std::to_string(r) + " " +
                                       text_of(words(r)));
    any_failed = any_failed || words(r)[failed] != 0;
    any_gradient = any_gradient || words(r)[requires_grad] != 0;
    same_mode = same_mode && words(r)[grad_mode] == words(0)[grad_mode];
    same_structure = same_structure && words(r)[common] == words(0)[common];
  }
  if (any_failed) agree(team, call.failure);
  if (!same_mode)
    require_same(team, "GradModeDisagreement", call.grad_mode ? 1 : 0,
                 call.layer + (call.grad_mode ? " with grad mode on" : " with grad mode off"));
  if (!same_structure)
    require_same(team, "StructureDisagreement", call.common, call.layer + " given " + call.described);
  return any_gradient;
}

}  // namespace graticule::nn::detail
