// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::detail {

/// Messages of any length on a duplicate of a communicator, for which no rank waits: a rank that sends keeps the bytes
/// until they are received, and one that receives takes only what has arrived.
class Mailbox {
 public:
  struct Message {
    int from = 0;
    std::vector<std::byte> bytes;
  };
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Collective over the ranks of `parent`.
  explicit Mailbox(MPI_Comm parent);
  Mailbox(Mailbox const&) = delete;
  Mailbox& operator=(Mailbox const&) = delete;
  ~Mailbox() = default;
  /// Frees the communicator. Nothing is sent or received any more.
  void close() noexcept;

  [[nodiscard]] MPI_Comm handle() const noexcept { return handle_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Places of the ranks of `comm` in this communicator; none when some are missing.
  [[nodiscard]] std::optional<std::vector<int>> places(MPI_Comm comm) const;
  /// @return what `is_under_way` asks for; null after `close`
  Sent const* send(int to, int tag, std::vector<std::byte> bytes) noexcept;
  /// Receives a message with this tag, if one has arrived.
  [[nodiscard]] std::optional<Message> take(int tag) noexcept;
  /// As far as `all_received` has found out.
  [[nodiscard]] bool is_under_way(Sent const* sent) const noexcept;
  [[nodiscard]] bool all_received() noexcept;

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  MPI_Group group_ = MPI_GROUP_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::unique_ptr<Sent>> sent_;  ///< and not received, as far as known
};

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

struct Received {
  int from = 0;
  Notice notice;
};

}  // namespace graticule::detail
