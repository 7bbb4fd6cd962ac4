// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
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
#include <cstring>
#include <exception>
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

/// A failure that this rank has announced on a communicator, and has not renewed it since.
struct Announced {
  std::int64_t comm = 0;
  Fault fault = Fault::program;
  std::string text;
};

std::vector<Announced>& announced() {
  static auto& all = *new std::vector<Announced>;
  return all;
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

std::pair<Channel*, std::vector<int>> Channel::find(MPI_Comm comm) {
  for (auto* channel : channels())
    if (auto places = channel->places(comm)) return {channel, std::move(*places)};
  return {nullptr, {}};
}

Channel& Channel::make(MPI_Comm comm) {
  if (channels().empty()) end_before_others();
  auto& made = *channels().emplace_back(new Channel(comm));
  end_together(made.mail_.size());
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
    if (channel->mail_.size() == 1) return true;
    channel->poll();
    return channel->mail_.all_received() && channel->num_ended() == channel->mail_.size() - 1;
  };
  bool all_ended = false;
  while (!all_ended &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds_to_leave) {
    all_ended = std::all_of(channels().begin(), channels().end(), all_end);
    if (!all_ended) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (auto const* channel : channels()) code_at_exit = std::max(code_at_exit, channel->code_of_end());
  if (status != 0 || !all_ended || code_at_exit != 0) return;
  // All leave with success, and know it of each other: the launcher would end those that are still here when the first
  // one is gone.
  int num_ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  auto const has_all = [num_ranks](Channel const* channel) { return channel->mail_.size() == num_ranks; };
  if (num_ranks > 1 && std::any_of(channels().begin(), channels().end(), has_all)) MPI_Finalize();
}

int Channel::num_ended() const noexcept {
  return int(std::count_if(received_.begin(), received_.end(),
                           [](Received const& one) { return one.notice.kind == Notice::Kind::ended; }));
}

int Channel::code_of_end() const noexcept {
  int code = missed_ || num_ended() < mail_.size() - 1 ? 1 : 0;
  for (auto const& [from, notice] : received_) {
    // A call was given up, or a rank is in MPI_Finalize, where it waits for this one.
    if (notice.kind == Notice::Kind::failed || notice.number == 0) code = std::max(code, 1);
    if (notice.kind == Notice::Kind::ended && notice.number > 1) return int(notice.number - 1);
  }
  return code;
}

Channel::Channel(MPI_Comm parent)
    : mail_(parent), has_ended_(std::size_t(mail_.size()), false), is_at_end_(std::size_t(mail_.size()), false) {}

void Channel::tell(int to, Notice const& notice) noexcept {
  auto const* const bytes = reinterpret_cast<std::byte const*>(&notice);
  static_cast<void>(mail_.send(to, notice_tag, {bytes, bytes + sizeof notice}));
}

void Channel::note_end_of(int rank, Notice const& notice) noexcept {
  if (has_ended_[std::size_t(rank)]) return;
  has_ended_[std::size_t(rank)] = true;
  received_.push_back({rank, notice});
}

void Channel::poll() noexcept {
  while (auto const ends = mail_.take(EndRelay::ends_tag))
    for (auto const& [rank, notice] : unpacked(ends->bytes)) {
      is_at_end_[std::size_t(rank)] = true;
      if (rank != mail_.rank()) note_end_of(rank, notice);
    }
  while (auto const message = mail_.take(notice_tag)) {
    Received received{message->from, {}};
    std::memcpy(&received.notice, message->bytes.data(), std::min(message->bytes.size(), sizeof(Notice)));
    received.notice.text.back() = '\0';
    switch (received.notice.kind) {
      case Notice::Kind::asks: questions_.push_back(received); break;
      case Notice::Kind::waits: answers_.push_back(received); break;
      case Notice::Kind::ended: note_end_of(received.from, received.notice); break;
      case Notice::Kind::failed: received_.push_back(received); break;
    }
  }
}

std::int64_t Channel::ask(std::vector<int> const& others) {
  Notice question;
  question.kind = Notice::Kind::asks;
  question.number = ++last_question_;
  answers_.clear();
  for (int const other : others)
    if (other != mail_.rank()) tell(other, question);
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
  if (std::exchange(told_end_, true)) return;
  auto const notice = notice_of_end(fault, text);
  for (int r = 0; r < mail_.size(); ++r)
    if (r != mail_.rank()) tell(r, notice);
}

Notice Channel::notice_of_end(Fault fault, std::string const& text) const noexcept {
  Notice notice;
  notice.kind = Notice::Kind::ended;
  notice.fault = std::int32_t(fault);
  notice.number = 1 + status_;
  notice.set_text(text);
  return notice;
}

Notice Channel::notice_of_end() const noexcept {
  if (!noted_end().empty()) return notice_of_end(Fault::program, noted_end());
  std::string const text = "it has ended while others wait for it";
  if (announced().empty()) return notice_of_end(Fault::program, text);
  return notice_of_end(announced().back().fault, text + ", after " + announced().back().text);
}

std::string Channel::reason_of_end() {
  if (!noted_end().empty()) return noted_end();
  for (auto const* channel : channels())
    if (channel->end_) return channel->end_->text.data();
  return announced().empty() ? std::string() : announced().back().text;
}

void Channel::announce_end(Fault fault, std::string const& text,
                           std::function<bool(Channel&)> const& is_known) noexcept {
  for (auto* channel : channels()) {
    channel->end_ = channel->notice_of_end(fault, text);
    if (channel->told_end_ || !is_known(*channel)) channel->tell_end(fault, text);
  }
}

void Channel::note_end(std::string const& text) noexcept { noted_end() = text; }

void Channel::note_failure(std::int64_t comm, Fault fault, std::string const& text) {
  note_renewal(comm);
  announced().push_back({comm, fault, text});
}

void Channel::note_renewal(std::int64_t comm) noexcept {
  std::erase_if(announced(), [comm](Announced const& one) { return one.comm == comm; });
}

void Channel::begin_to_end() noexcept {
  if (MPI_Ibarrier(mail_.handle(), &meeting_) != MPI_SUCCESS) phase_ = Phase::ended;
}

void Channel::advance_end(double waited, double late) noexcept {
  if (phase_ == Phase::ended) return;
  poll();
  while (auto const reported = mail_.take(EndRelay::report_tag))
    for (auto const& end : unpacked(reported->bytes)) {
      is_at_end_[std::size_t(end.from)] = true;
      note_end_of(end.from, end.notice);
      relay_.add(end);
    }
  if (phase_ == Phase::meeting) answer([] { return std::string("waits for the others in MPI_Finalize"); });
  bool const received = mail_.all_received();
  int met = 0;
  if (MPI_Test(&meeting_, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    phase_ = Phase::ended;
  } else if (phase_ == Phase::listening) {
    if (met) phase_ = Phase::ended;
  } else if (met && received) {
    phase_ = Phase::listening;
    begin_to_end();
  } else if (!met && waited > late) {
    if (!std::exchange(told_end_, true)) relay_.add({mail_.rank(), end_ ? *end_ : notice_of_end()});
    relay_.pass_on(mail_, is_at_end_, waited);
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
  // The MPI of SimGrid 3.32 deletes attributes after its end.
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over != 0) return MPI_SUCCESS;
  if (std::uncaught_exceptions() > 0) note_unwinding();
  double const late = noted_end().empty() ? seconds_before_notice : seconds_before_failure;
  auto const begin = std::chrono::steady_clock::now();
  auto const ended = [](Channel const* channel) { return channel->phase_ == Phase::ended; };
  auto const rule = stall_rule();
  bool reported = false;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // The exception itself is caught after this, if ever.
  auto const reason = reason_of_end();
  auto const why = reason.empty() ? std::string() : ", after " + reason;
  // A rank that has left does not come to the end, and the launcher ends this one before it can show its exception.
  if (!noted_end().empty()) show_who_left(rank);
  for (auto* channel : channels()) channel->begin_to_end();
  others_awaited = true;
  while (!std::all_of(channels().begin(), channels().end(), ended)) {
    double const waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (auto* channel : channels()) channel->advance_end(waited, late);
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
  for (auto* channel : channels()) channel->mail_.close();
  channels().clear();
  return MPI_SUCCESS;
}

}  // namespace graticule::detail
