// SPDX-License-Identifier: BSD-3-Clause
// Messages between two ranks of a node without MPI: the sender posts where the bytes lie, the receiver reads them.
#pragma once

#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/messages/transport.hpp>
#include <graticule/partition/comm.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace graticule::messages {

/// State of a post. The sender may take back a `posted` one that nobody reads yet, and write it anew. It never takes
/// back a `final` one, so the reader need not claim it: a claim would move the cache line between the cores once more.
enum class PostPhase : std::uint8_t { written, posted, reading, final, consumed };

/// One message, announced to one peer; lies in the sender's memory.
struct alignas(64) Post {
  std::atomic<std::uint64_t> state{0};  ///< see `state_of`
  NodeAddress content;                  ///< the packed cells, or `num_views` posted views
  std::uint64_t bytes = 0;              ///< of the packed cells
  std::uint32_t num_views = 0;          ///< 0: packed; else the fields themselves are read in place
  std::uint32_t fields = 0;             ///< equal on both sides if their fields agree
  std::uint32_t call = 0;               ///< number in the plan; equal unless a side has left out a call
  std::uint32_t segments_after = 0;     ///< segments of a long message that later posts announce
};

/// Posts of one direction between two ranks, by sequence number.
struct PostRing {
  static constexpr std::uint64_t size = 256;
  std::array<Post, size> posts;
};

/// The two rings between this rank and one peer. Posts are numbered from 1 in the order of calls, alike on both sides.
class NodeLink {
 public:
  NodeLink(int peer, PostRing* outgoing, PostRing* incoming) noexcept
      : peer_(peer), outgoing_(outgoing), incoming_(incoming) {}

  [[nodiscard]] int peer() const noexcept { return peer_; }

  /// Numbers of the next message each way.
  [[nodiscard]] std::uint64_t next_send() noexcept { return ++last_sent_; }
  [[nodiscard]] std::uint64_t next_receive() noexcept { return ++last_received_; }
  [[nodiscard]] std::uint64_t last_sent() const noexcept { return last_sent_; }

  /// True when post `number` may be written: its place in the ring is free.
  [[nodiscard]] bool has_room(std::uint64_t number) const noexcept {
    return number <= PostRing::size || is_consumed(number - PostRing::size);
  }
  [[nodiscard]] Post& outgoing(std::uint64_t number) const noexcept {
    return outgoing_->posts[number % PostRing::size];
  }
  [[nodiscard]] Post& incoming(std::uint64_t number) const noexcept {
    return incoming_->posts[number % PostRing::size];
  }

  /// Announces the content of `outgoing(number)` as final.
  void publish(std::uint64_t number) const noexcept { set(outgoing(number), number, PostPhase::final); }
  /// The same for a post that may be taken back.
  void offer(std::uint64_t number) const noexcept { set(outgoing(number), number, PostPhase::posted); }
  /// True when the sender may write the post anew: nobody reads it yet.
  [[nodiscard]] bool take_back(std::uint64_t number) const noexcept {
    return change(outgoing(number), number, PostPhase::posted, PostPhase::written);
  }
  [[nodiscard]] bool is_consumed(std::uint64_t number) const noexcept {
    return is_past(outgoing(number), number, PostPhase::consumed);
  }
  /// True when message `number` has come: from then on it stays until `consume(number)`. @pre it was not true before
  [[nodiscard]] bool begin_reading(std::uint64_t number) const noexcept {
    auto& post = incoming(number);
    auto const state = post.state.load(std::memory_order_acquire);
    if (state == state_of(number, PostPhase::final)) return true;
    return state == state_of(number, PostPhase::posted) && change(post, number, PostPhase::posted, PostPhase::reading);
  }
  [[nodiscard]] bool has_come(std::uint64_t number) const noexcept {
    return is_past(incoming(number), number, PostPhase::posted);
  }
  [[nodiscard]] bool has_been_published(std::uint64_t number) const noexcept {
    return is_past(outgoing(number), number, PostPhase::posted);
  }
  void consume(std::uint64_t number) const noexcept { set(incoming(number), number, PostPhase::consumed); }
  /// True when the peer has read all that was posted.
  [[nodiscard]] bool all_consumed() const noexcept {
    for (auto n = last_sent_ > PostRing::size ? last_sent_ - PostRing::size + 1 : 1; n <= last_sent_; ++n)
      if (!is_consumed(n)) return false;
    return true;
  }

 private:
  static constexpr std::uint64_t state_of(std::uint64_t number, PostPhase phase) noexcept {
    return number * 8 + std::uint64_t(phase);
  }
  static bool is_past(Post const& post, std::uint64_t number, PostPhase phase) noexcept {
    return post.state.load(std::memory_order_acquire) >= state_of(number, phase);
  }
  static void set(Post& post, std::uint64_t number, PostPhase phase) noexcept {
    post.state.store(state_of(number, phase), std::memory_order_release);
  }
  static bool change(Post& post, std::uint64_t number, PostPhase from, PostPhase to) noexcept {
    auto expected = state_of(number, from);
    return post.state.compare_exchange_strong(expected, state_of(number, to), std::memory_order_acq_rel);
  }

  int peer_;
  PostRing* outgoing_;
  PostRing* incoming_;
  std::uint64_t last_sent_ = 0;
  std::uint64_t last_received_ = 0;
};

/// The links of one plan to its peers on this node, by peer, and the memory of their rings.
class NodeLinks {
 public:
  /// Collective. Opens the rings of those `peers` that are on this node, both ways or not at all.
  /// @pre `peers` are symmetric: where rank a lists b, rank b lists a
  NodeLinks(Comm const& comm, std::set<int> const& peers, Transport wanted);
  NodeLinks(NodeLinks const&) = delete;
  NodeLinks& operator=(NodeLinks const&) = delete;

  /// Waits until the peers have read all that was posted; false when one does not in `longest_wait` seconds, or has
  /// given up. The memory that it would read must then remain valid.
  [[nodiscard]] bool settle(double longest_wait) noexcept;
  /// Frees the rings. @pre `settle()` was true
  void free_rings() noexcept;

  /// Null when messages to `peer` go point-to-point.
  [[nodiscard]] NodeLink* find(int peer) const noexcept;
  /// Why messages to `peer` take the path that they take.
  [[nodiscard]] std::string reason(int peer) const;

 private:
  struct Refused {
    int peer;
    char const* reason;
  };

  Comm comm_;
  Transport wanted_;
  std::optional<NodeBlock> rings_;
  mutable std::vector<NodeLink> links_;
  std::vector<Refused> refused_;
};

}  // namespace graticule::messages
