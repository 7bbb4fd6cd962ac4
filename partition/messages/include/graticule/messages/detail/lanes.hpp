// SPDX-License-Identifier: BSD-3-Clause
// Bytes from one rank to another, and waits for them.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/patience.hpp>

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graticule::messages {

/// Treatment of a wait that lasts too long: that of the `StallRule`, or the error `StalledExchange` at the time of the
/// report.
enum class Stall : std::uint8_t { by_rule, fail };

/// Polls `done` with patience. @param describe `rank 0 waits for ...` @throws `StalledExchange`, `PeerFailed`
void wait_until(Comm const& comm, std::function<bool()> const& done, std::function<std::string()> const& describe,
                Stall stall = Stall::by_rule);

/// Traffic of one rank, as sent.
struct MessageCounts {
  Index messages = 0;
  Index bytes = 0;
};

/// One lane per peer, for byte segments that arrive in the order in which they were posted.
///
/// A segment of more than 1 GiB is sent in several messages. Both sides use the same sizes in the same order.
/// The memory of segments must stay valid until `test` returns true or `wait` returns. After a wait that has failed MPI
/// may still access it: what was given to `keep` then stays until the process ends; other memory is up to the caller
/// (`abandoned`).
/// Example: ranks 0 and 1 exchange 8 bytes: `Lanes lanes(comm); lanes.take(1 - rank, in, 8); lanes.post(1 - rank, out,
/// 8); lanes.wait("for the other half");`
class Lanes {
 public:
  /// All ranks that exchange anything construct it in the same order: it takes a tag.
  explicit Lanes(Comm const& comm) : Lanes(comm, comm.next_tag()) {}
  Lanes(Comm comm, int tag) : comm_(std::move(comm)), tag_(tag) {}
  Lanes(Lanes const&) = delete;
  Lanes& operator=(Lanes const&) = delete;
  ~Lanes();

  void post(int to, void const* data, Index bytes);
  void take(int from, void* data, Index bytes);
  /// Keeps memory of segments as long as they need it.
  template <class Memory>
  Memory& keep(Memory memory) {
    auto kept = std::make_shared<Memory>(std::move(memory));
    kept_.push_back(kept);
    return *kept;
  }

  /// True when all segments have arrived and left.
  [[nodiscard]] bool test();
  /// Blocks until then. @param what `for the other half`, for the report of a wait that stalls
  /// @throws `StalledExchange`, `PeerFailed`
  void wait(std::string const& what, Stall stall = Stall::by_rule);
  /// Peers of which a segment has not arrived, or to which one has not left; ascending.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }
  [[nodiscard]] MessageCounts const& sent() const noexcept { return sent_; }
  [[nodiscard]] Comm const& comm() const noexcept { return comm_; }

 private:
  Comm comm_;
  int tag_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  ///< of the requests
  std::vector<std::shared_ptr<void>> kept_;
  MessageCounts sent_;
  bool abandoned_ = false;
};

}  // namespace graticule::messages
