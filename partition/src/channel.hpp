// SPDX-License-Identifier: BSD-3-Clause
// Notices of a rank that gives up to the others, on a separate communicator that outlives all others.
#pragma once

#include <graticule/partition/detail/last_error.hpp>
#include <graticule/partition/error.hpp>

#include "end_relay.hpp"
#include "node_members.hpp"

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

/// A duplicate of a communicator for notices. Made at the first `Comm` whose ranks no channel has, and kept until MPI
/// ends: a rank that unwinds its stack has freed all its `Comm`s before it can notify the others.
class Channel {
 public:
  static constexpr int notice_tag = 0;
  static constexpr int renewal_tag = 1;  ///< of the meeting before a communicator is renewed; one more for the making

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

  /// Collective over the ranks of `parent`.
  explicit Channel(MPI_Comm parent);
  Channel(Channel const&) = delete;
  Channel& operator=(Channel const&) = delete;
  ~Channel() = delete;

  [[nodiscard]] MPI_Comm handle() const noexcept { return mail_.handle(); }
  /// Places of the ranks of `comm` in this channel; none when some are missing.
  [[nodiscard]] std::optional<std::vector<int>> places(MPI_Comm comm) const { return mail_.places(comm); }
  void tell(int to, Notice const& notice) noexcept;
  /// Notes that a rank has ended that this one needs.
  void note_missed() noexcept { missed_ = true; }
  /// Notes that this rank has given up itself.
  void note_own(Notice const& notice) { received_.push_back({mail_.rank(), notice}); }
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
  /// The end of a rank, once.
  void note_end_of(int rank, Notice const& notice) noexcept;
  /// Ranks that have told that they end.
  [[nodiscard]] int num_ended() const noexcept;
  /// The exit code of a rank that leaves with 0: that of one that has left with another, 1 where calls or ranks have
  /// not ended.
  [[nodiscard]] int code_of_end() const noexcept;
  void begin_to_end() noexcept;
  /// One step towards the common end. @param waited seconds up to now @param late after as many, the others should have
  /// come
  void advance_end(double waited, double late) noexcept;

  Mailbox mail_;
  std::vector<Received> received_;  ///< of ranks that give up
  std::vector<Received> questions_;
  std::vector<Received> answers_;
  std::int64_t last_question_ = 0;
  std::vector<bool> has_ended_;  ///< by rank: its end is in `received_`
  std::vector<bool> is_at_end_;  ///< by rank: it waits in MPI_Finalize
  EndRelay relay_;
  bool told_end_ = false;
  std::optional<Notice> end_;  ///< announced; `told_end_` says whether the others know it
  bool missed_ = false;
  int status_ = -1;  ///< exit code of a rank that leaves without ending MPI
  Phase phase_ = Phase::meeting;
  MPI_Request meeting_ = MPI_REQUEST_NULL;
};

}  // namespace graticule::detail
