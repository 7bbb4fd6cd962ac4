// SPDX-License-Identifier: BSD-3-Clause
// Notices of a rank that gives up to the others, on a separate communicator that outlives all others.
#pragma once

#include <graticule/partition/detail/last_error.hpp>
#include <graticule/partition/error.hpp>

#include "node_members.hpp"

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

/// Notice of a rank about itself.
struct Notice {
  enum class Kind : std::int32_t {
    failed,  ///< it gives up its calls on a communicator
    ended,   ///< it ends
    asks,    ///< it waits, and asks whether the other one waits, too
    waits,   ///< the answer
  };

  Kind kind = Kind::failed;
  std::int32_t fault = 0;
  std::int64_t comm = 0;  ///< of a failure
  /// Of a failure: the communicator's generation; of an end: 1 + the exit code of a rank that leaves without ending
  /// MPI, else 0; else of the question.
  std::int64_t number = 0;
  /// Of a failure: how many calls of the communicator all ranks have come to, as far as this one knows.
  std::int64_t num_calls = 0;
  /// Of a failure: not 0 if this rank has waited in vain, as others may find by themselves.
  std::int64_t is_of_wait = 0;
  std::array<char, 984> text{};

  void set_text(std::string const& words) noexcept;
};

/// A duplicate of a communicator for notices. Made at the first `Comm` whose ranks no channel has, and kept until MPI
/// ends: a rank that unwinds its stack has freed all its `Comm`s before it can notify the others.
class Channel {
 public:
  struct Received {
    int from = 0;
    Notice notice;
  };

  static constexpr int notice_tag = 0;
  static constexpr int renewal_tag = 1;  ///< of the meeting before a communicator is renewed; one more for the making
  static constexpr int ends_tag = 3;     ///< of a list of ranks that have ended, and why
  static constexpr int report_tag = 4;   ///< the same for a rank that ends itself, and passes it on

  /// The first channel that holds all ranks of `comm`, the same on all of them, and their places in it; null when there
  /// is none.
  [[nodiscard]] static std::pair<Channel*, std::vector<int>> find(MPI_Comm comm);
  /// A new one over the ranks of `comm`. Collective.
  [[nodiscard]] static Channel& make(MPI_Comm comm);
  /// Notifies all ranks of all channels that this rank ends: in MPI_Finalize, if others do not come there, where
  /// `is_known` says that all have the notice of a rank that ends with the same error.
  static void announce_end(Fault fault, std::string const& text,
                           std::function<bool(Channel&)> const& is_known) noexcept;
  /// What to tell of the end when the others do not come to it.
  static void note_end(std::string const& text) noexcept;
  /// Notes that this rank has announced a failure on the communicator with the id `comm`: the reason if it ends before
  /// others, up to the renewal of that communicator.
  static void note_failure(std::int64_t comm, Fault fault, std::string const& text);
  static void note_renewal(std::int64_t comm) noexcept;

  explicit Channel(MPI_Comm parent);
  Channel(Channel const&) = delete;
  Channel& operator=(Channel const&) = delete;
  ~Channel() = delete;

  [[nodiscard]] MPI_Comm handle() const noexcept { return handle_; }
  /// Places of the ranks of `comm` in this channel; none when some are missing.
  [[nodiscard]] std::optional<std::vector<int>> places(MPI_Comm comm) const;
  void tell(int to, Notice const& notice) noexcept;
  /// Notes that a rank has ended that this one needs.
  void note_missed() noexcept { missed_ = true; }
  /// Notes that this rank has given up itself.
  void note_own(Notice const& notice) { received_.push_back({rank_, notice}); }
  /// Receives notices that have arrived, without blocking.
  void poll() noexcept;
  [[nodiscard]] std::vector<Received> const& received() const noexcept { return received_; }
  /// Asks `others` whether they wait. @return the number of the question
  [[nodiscard]] std::int64_t ask(std::vector<int> const& others);
  /// Their answers; no text from ranks that have not answered.
  [[nodiscard]] std::vector<std::string> answers(std::vector<int> const& others, std::int64_t question) const;
  /// Answers all questions that have come.
  void answer(std::function<std::string()> const& words);
  /// Discards notices about a communicator up to a generation of it.
  void forget(std::int64_t comm, std::int64_t generation) noexcept;

 private:
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Steps of the common end: each rank says what it has to say before the second meeting, and listens until its end.
  enum class Phase : std::uint8_t { meeting, listening, ended };

  friend void end_before_others();
  /// For `std::exit` before MPI has ended: the other ranks learn why this one is gone, and have a second to say so.
  static void leave(int status) noexcept;
  static int end_all(MPI_Comm, int, void*, void*) noexcept;
  /// For an exception that unwinds `rank`'s stack.
  static void show_who_left(int rank) noexcept;
  void tell_end(Fault fault, std::string const& text) noexcept;
  [[nodiscard]] Notice notice_of_end(Fault fault, std::string const& text) const noexcept;
  /// Of an end that was not announced.
  [[nodiscard]] Notice notice_of_end() const noexcept;
  /// Why this rank ends: an exception, else an announced end, else the last failure that it has announced; or empty.
  [[nodiscard]] static std::string reason_of_end();
  Sent& send(int to, int tag, std::vector<std::byte> bytes) noexcept;
  /// Receives a message of one of the tags, if one has arrived; its size is unknown.
  [[nodiscard]] std::optional<std::vector<std::byte>> take(int tag) noexcept;
  /// The end of a rank, once.
  void note_end_of(int rank, Notice const& notice) noexcept;
  /// Sees to it that the ranks that have not ended learn of this one's end and of those reported to it.
  void pass_ends_on(double waited) noexcept;
  [[nodiscard]] int recipient(int number) const noexcept;
  [[nodiscard]] bool all_received() noexcept;
  /// Ranks that have told that they end.
  [[nodiscard]] int num_ended() const noexcept;
  /// The exit code of a rank that leaves with 0: that of one that has left with another, 1 where calls or ranks have
  /// not ended.
  [[nodiscard]] int code_of_end() const noexcept;
  void begin_to_end() noexcept;
  /// One step towards the common end. @param waited seconds up to now @param late after as many, the others should have
  /// come
  void advance_end(double waited, double late) noexcept;

  MPI_Comm handle_ = MPI_COMM_NULL;
  MPI_Group group_ = MPI_GROUP_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Received> received_;  ///< of ranks that give up
  std::vector<Received> questions_;
  std::vector<Received> answers_;
  std::int64_t last_question_ = 0;
  std::vector<std::unique_ptr<Sent>> sent_;
  std::vector<bool> has_ended_;  ///< by rank: its end is in `received_`
  std::vector<bool> is_at_end_;  ///< by rank: it waits in MPI_Finalize
  /// Ends that this rank has to pass on, and the report of the first of them that is under way.
  std::vector<Received> in_charge_;
  Sent* report_ = nullptr;
  std::size_t num_reported_ = 0;
  double reported_at_ = 0;
  int recipient_ = 0;   ///< number of the rank that reports go to
  bool leads_ = false;  ///< it tells those that have not ended
  double next_telling_ = 0;
  double telling_pause_ = 0;
  bool told_end_ = false;
  std::optional<Notice> end_;  ///< announced; `told_end_` says whether the others know it
  bool missed_ = false;
  int status_ = -1;  ///< exit code of a rank that leaves without ending MPI
  Phase phase_ = Phase::meeting;
  MPI_Request meeting_ = MPI_REQUEST_NULL;
};

}  // namespace graticule::detail
