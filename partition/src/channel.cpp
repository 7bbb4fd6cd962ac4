// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/stall.hpp>

#include "comm_state.hpp"
#include "end_together.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

namespace graticule::detail {

namespace {

/// How long a rank that ends waits for the others before it says so: all may end alike. One that fails is faster.
constexpr double seconds_before_notice = 1;
constexpr double seconds_before_failure = 0.2;
/// How long a rank that leaves by `std::exit` waits for the others, so that they have its notice and show their errors
/// before the launcher ends them.
constexpr double seconds_to_leave = 1;

/// Exit code of a process that leaves with 0 before MPI has ended.
int code_at_exit = 0;

/// Changes the exit code of a process that has left MPI to others. Called by exit after all other handlers, one of
/// which may have ended MPI, and without calling MPI, whose library may be gone.
void judge(int status) noexcept {
  int ended = 1;
  MPI_Finalized(&ended);
  if (ended != 0 || status != 0 || code_at_exit == 0) return;
  std::fprintf(
      stderr,
      "graticule: a rank called exit(0) before MPI had ended, while others have failed or wait for it; its exit "
      "code is %d\n",
      code_at_exit);
#ifdef __GLIBC__
  std::exit(code_at_exit);
#else
  std::_Exit(code_at_exit);
#endif
}

/// Exit calls handlers in the opposite order, so this one is registered before `main` begins.
#ifdef __GLIBC__
bool const is_judged = ::on_exit([](int status, void*) { judge(status); }, nullptr) == 0;
#else
bool const is_judged = std::atexit([] { judge(0); }) == 0;
#endif

std::string& noted_end() {
  static auto& text = *new std::string;
  return text;
}

/// `std::exit` was called before MPI ended.
std::atomic<bool> leaves{false};

/// Objects of a thread are destroyed before static ones, and before handlers of exit are called: both know by this one
/// that the process leaves.
struct SignOfExit {
  ~SignOfExit() {
#ifdef __linux__
    // Other threads may end at any time.
    if (::syscall(SYS_gettid) == ::getpid()) leaves = true;
#endif
  }
};

std::vector<Channel*>& channels() {
  static auto& all = *new std::vector<Channel*>;
  return all;
}

}  // namespace

bool mpi_is_over() noexcept {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0 || leaves.load(std::memory_order_relaxed);
}

void Notice::set_text(std::string const& words) noexcept {
  auto const size = std::min(words.size(), text.size() - 1);
  std::copy_n(words.begin(), size, text.begin());
  text[size] = '\0';
}

Channel* Channel::find(MPI_Comm comm) {
  for (auto* channel : channels())
    if (channel->places(comm)) return channel;
  return nullptr;
}

Channel& Channel::make(MPI_Comm comm) {
  if (channels().empty()) end_before_others();
  auto& made = *channels().emplace_back(new Channel(comm));
  end_together(made.size_);
  return made;
}

void end_before_others() {
  // Attributes of MPI_COMM_SELF are deleted first in MPI_Finalize, where messages may still be sent; the last one that
  // was set before all others.
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, Channel::end_all, &key, nullptr), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
  check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
  static thread_local SignOfExit sign;
  static_cast<void>(sign);
  static bool const registered = [] {
    static auto const process = ::getpid();
    // A child process ends as it likes.
#ifdef __GLIBC__
    return ::on_exit([](int status, void*) { ::getpid() == process ? Channel::leave(status) : void(); }, nullptr) == 0;
#else
    return std::atexit([] { ::getpid() == process ? Channel::leave(0) : void(); }) == 0;
#endif
  }();
  static_cast<void>(registered);
}

void Channel::leave(int status) noexcept {
  int ended = 1;
  int is_main = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  leaves = true;
  // Another thread may be within MPI.
  MPI_Is_thread_main(&is_main);
  if (is_main == 0) return;
  for (auto* channel : channels()) {
    // The error of a call that missed a rank may have been taken.
    channel->status_ = status == 0 && channel->missed_ ? 1 : status & 0xff;
    channel->tell_end(Fault::program, "it has called exit while others wait for it");
  }
  auto const begin = std::chrono::steady_clock::now();
  auto const all_end = [](Channel* channel) {
    // MPI_Abort ends a process that is alone by exit, and may be the call of MPI that is under way here.
    if (channel->size_ == 1) return true;
    channel->poll();
    return channel->all_received() && channel->num_ended() == channel->size_ - 1;
  };
  bool all_ended = false;
  while (!all_ended &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds_to_leave) {
    all_ended = std::all_of(channels().begin(), channels().end(), all_end);
    if (!all_ended) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (auto const* channel : channels()) code_at_exit = std::max(code_at_exit, channel->code_of_end());
}

int Channel::num_ended() const noexcept {
  return int(std::count_if(received_.begin(), received_.end(),
                           [](Received const& one) { return one.notice.kind == Notice::Kind::ended; }));
}

int Channel::code_of_end() const noexcept {
  int code = missed_ || num_ended() < size_ - 1 ? 1 : 0;
  for (auto const& [from, notice] : received_) {
    // A call was given up, or a rank is in MPI_Finalize, where it waits for this one.
    if (notice.kind == Notice::Kind::failed || notice.number == 0) code = std::max(code, 1);
    if (notice.kind == Notice::Kind::ended && notice.number > 1) return int(notice.number - 1);
  }
  return code;
}

Channel::Channel(MPI_Comm parent) {
  check_made(MPI_Comm_dup(parent, &handle_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_group(handle_, &group_), "MPI_Comm_group");
  check_mpi(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
}

std::optional<std::vector<int>> Channel::places(MPI_Comm comm) const {
  MPI_Group group = MPI_GROUP_NULL;
  int size = 0;
  check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi(MPI_Group_size(group, &size), "MPI_Group_size");
  std::vector<int> ranks(std::size_t(size), 0);
  std::vector<int> result(std::size_t(size), 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  check_mpi(MPI_Group_translate_ranks(group, size, ranks.data(), group_, result.data()), "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&group), "MPI_Group_free");
  if (std::find(result.begin(), result.end(), MPI_UNDEFINED) != result.end()) return std::nullopt;
  return result;
}

void Channel::tell(int to, Notice const& notice) noexcept {
  if (handle_ == MPI_COMM_NULL) return;
  auto& sent = *sent_.emplace_back(std::make_unique<Sent>());
  sent.notice = notice;
  // Synchronous, so that this rank knows when nothing of it is left under way.
  MPI_Issend(&sent.notice, int(sizeof(Notice)), MPI_BYTE, to, notice_tag, handle_, &sent.request);
}

void Channel::poll() noexcept {
  if (handle_ == MPI_COMM_NULL) return;
  for (;;) {
    int found = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, handle_, &found, &status) != MPI_SUCCESS || !found) return;
    Received received;
    received.from = status.MPI_SOURCE;
    if (MPI_Recv(&received.notice, int(sizeof(Notice)), MPI_BYTE, status.MPI_SOURCE, notice_tag, handle_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return;
    received.notice.text.back() = '\0';
    auto const kind = received.notice.kind;
    (kind == Notice::Kind::asks ? questions_ : kind == Notice::Kind::waits ? answers_ : received_).push_back(received);
  }
}

std::int64_t Channel::ask(std::vector<int> const& others) {
  Notice question;
  question.kind = Notice::Kind::asks;
  question.number = ++last_question_;
  answers_.clear();
  for (int const other : others)
    if (other != rank_) tell(other, question);
  return last_question_;
}

std::vector<std::string> Channel::answers(std::vector<int> const& others, std::int64_t question) const {
  std::vector<std::string> result(others.size());
  for (auto const& [from, notice] : answers_) {
    auto const place = std::find(others.begin(), others.end(), from);
    if (place != others.end() && notice.number == question)
      result[std::size_t(place - others.begin())] = notice.text.data();
  }
  return result;
}

void Channel::answer(std::function<std::string()> const& words) {
  if (questions_.empty()) return;
  Notice answer;
  answer.kind = Notice::Kind::waits;
  answer.set_text(words());
  for (auto const& [from, question] : std::exchange(questions_, {})) {
    answer.number = question.number;
    tell(from, answer);
  }
}

void Channel::forget(std::int64_t comm, std::int64_t generation) noexcept {
  std::erase_if(received_, [&](Received const& received) {
    auto const& notice = received.notice;
    return notice.kind == Notice::Kind::failed && notice.comm == comm && notice.number <= generation;
  });
}

void Channel::tell_end(Fault fault, std::string const& text) noexcept {
  if (told_end_) return;
  told_end_ = true;
  Notice notice;
  notice.kind = Notice::Kind::ended;
  notice.fault = std::int32_t(fault);
  notice.number = 1 + status_;
  notice.set_text(text);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) tell(r, notice);
}

void Channel::announce_end(Fault fault, std::string const& text) noexcept {
  for (auto* channel : channels()) channel->tell_end(fault, text);
}

void Channel::note_end(std::string const& text) noexcept { noted_end() = text; }

bool Channel::all_received() noexcept {
  std::erase_if(sent_, [](std::unique_ptr<Sent> const& sent) {
    int done = 0;
    return MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  return sent_.empty();
}

void Channel::begin_to_end() noexcept {
  if (MPI_Ibarrier(handle_, &meeting_) != MPI_SUCCESS) phase_ = Phase::ended;
}

void Channel::advance_end(bool late) noexcept {
  if (phase_ == Phase::ended) return;
  poll();
  if (phase_ == Phase::meeting) answer([] { return std::string("waits for the others in MPI_Finalize"); });
  bool const received = all_received();
  int met = 0;
  if (MPI_Test(&meeting_, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    phase_ = Phase::ended;
  } else if (phase_ == Phase::listening) {
    if (met) phase_ = Phase::ended;
  } else if (met && received) {
    phase_ = Phase::listening;
    begin_to_end();
  } else if (!met && late) {
    tell_end(Fault::program, noted_end().empty() ? "it has ended while others wait for it" : noted_end());
  }
}

void Channel::show_who_left(int rank) noexcept {
  for (auto* channel : channels()) {
    channel->poll();
    auto const& received = channel->received_;
    auto const left = std::find_if(received.begin(), received.end(), [](Received const& one) {
      return one.notice.kind == Notice::Kind::ended && one.notice.number != 0;
    });
    if (left == received.end()) continue;
    std::fprintf(stderr, "graticule: rank %d ends with %s, because rank %d has called exit\n", rank,
                 noted_end().c_str(), left->from);
    return;
  }
}

namespace {
std::atomic<bool> others_awaited{false};
}

bool others_are_awaited_at_the_end() noexcept { return others_awaited; }

int Channel::end_all(MPI_Comm, int, void*, void*) noexcept {
  if (std::uncaught_exceptions() > 0) note_unwinding();
  double const late = noted_end().empty() ? seconds_before_notice : seconds_before_failure;
  auto const begin = std::chrono::steady_clock::now();
  auto const ended = [](Channel const* channel) { return channel->phase_ == Phase::ended; };
  auto const rule = stall_rule();
  bool reported = false;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // The exception itself is caught after this, if ever.
  auto const why = noted_end().empty() ? std::string() : ", after " + noted_end();
  // A rank that has left does not come to the end, and the launcher ends this one before it can show its exception.
  if (!noted_end().empty()) show_who_left(rank);
  for (auto* channel : channels()) channel->begin_to_end();
  others_awaited = true;
  while (!std::all_of(channels().begin(), channels().end(), ended)) {
    double const waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (auto* channel : channels()) channel->advance_end(waited > late);
    if (waited < 1e-3)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (rule.error_seconds > 0 && waited >= rule.error_seconds) {
      std::fprintf(stderr,
                   "graticule: rank %d has waited in MPI_Finalize for the other ranks for %g s and ends the job%s\n",
                   rank, rule.error_seconds, why.c_str());
      abort_all_ranks(1);
    }
    if (reported || rule.report_seconds <= 0 || waited < rule.report_seconds) continue;
    reported = true;
    std::fprintf(stderr, "graticule: rank %d waits in MPI_Finalize for the other ranks for %d s%s\n", rank, int(waited),
                 why.c_str());
  }
  others_awaited = false;
  for (auto* channel : channels()) {
    MPI_Group_free(&channel->group_);
    MPI_Comm_free(&channel->handle_);
  }
  channels().clear();
  return MPI_SUCCESS;
}

}  // namespace graticule::detail
