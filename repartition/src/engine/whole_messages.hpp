// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "call.hpp"
#include "call_tasks.hpp"
#include "message_set.hpp"
#include "posted_views.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

/// One message per peer, packed whole, for minimum latency: persistent requests of MPI, or posts to peers on the node.
///
/// More than 40 functions, because most steps have a form for fields on the host and one for fields on a device, and
/// all forms change the same messages: a call of 0.2 us does not pay for a layer between them.
class WholeMessages : public CallMessages {
 public:
  WholeMessages(Call& call, int num_views);
  ~WholeMessages() override;

  void post(std::span<PullField const> fields, DeviceQueue const& queue, Posting posting) override;
  void refuse() override;
  bool advance() override;
  [[nodiscard]] bool done() const override { return phase_ == Phase::done; }
  void conclude() override {}
  /// True when all incoming messages have arrived and all sends have ended.
  [[nodiscard]] bool test() override;
  [[nodiscard]] std::string describe() const override;

  void discard() override { discards_ = true; }
  [[nodiscard]] bool has_ended() override;
  /// True when each message has a place that its peer has read, or that was not used yet.
  [[nodiscard]] bool has_free_buffers() const override;
  void cancel_receives() noexcept override;
  void abandon() noexcept override;
  void use_fields(int place, bool changed) override;
  [[nodiscard]] bool may_repeat() override { return has_free_buffers(); }
  void repeat() override { post({}, {}, Posting::all); }
  void sources_changed() noexcept override { tasks_.forget_additions(); }
  [[nodiscard]] Index buffer_bytes() const noexcept override;

 private:
  /// The next step. Peers on the node must have read fields in place before they are written.
  enum class Phase : std::uint8_t { receiving, settling, sending, done };

  void start_messages();
  void pack_and_send();
  void pack_on_device();
  void move_local();
  /// Adds the call to the statistics.
  void count();
  /// Whether peers can read the fields of the call in place.
  void find_posted();
  /// Unpacks messages that have just arrived, or copies them to where kernels read them.
  void take_arrived();
  /// The work that needs all messages.
  void take_all();
  /// For fields on a device: packs what a peer has posted in host memory, which the device does not read, and gives the
  /// post back.
  void bring_posted_fields(Message& message);
  /// True when peers have read the fields that they read in place; packs them for peers that take long.
  bool settle();
  /// Cells of an adjoint's targets become zero, once nobody reads them.
  void zero_targets();
  [[nodiscard]] bool is_wanted() const noexcept { return !discards_ && call_.failure.text.empty(); }
  /// Runs tasks where the fields lie; tasks of a device are only queued.
  void run(KeptTasks& kept);
  /// Tasks of device fields that read or write the messages of `set`; `kept` holds them when `make` has returned.
  template <class Make>
  void run_with_messages(MessageSet const& set, KeptTasks& kept, Make const& make);

  /// Place `p` of a message has been read by its peer, or was not used yet.
  [[nodiscard]] static bool is_free(Message const& message, int p) noexcept;
  /// Chooses where outgoing message `message` is packed.
  void open_place(Message& message);
  /// The same for all messages of device fields: all in their first place or all in their second, because kernels are
  /// kept for these two.
  void open_places();
  /// Copies messages of device fields, which kernels in the queue pack, to the host if needed, and waits for that. The
  /// queues of peers on the node wait for the kernels instead.
  void close_places();
  void take_place(Message& message, int p);
  /// Later work in the queue runs after the peer's device has read place `p`; false where the peer's event cannot be
  /// opened.
  /// @pre the peer has given the place back
  [[nodiscard]] bool wait_for_reader(Message const& message, int p) const;
  /// Copies packed cells of device fields to host memory, in order of the queue.
  void stage_out(Message& message) const;
  /// Waits for the queue.
  void fence();
  /// Sends a message that is packed.
  void send(Message& message);
  /// Posts the fields themselves, which the peer reads in place.
  void send_in_place(Message& message);
  /// Gives the memory of a message back to its sender.
  void release(Message& message) const noexcept;
  /// Gives all senders their memory back, after the present work of the queue. For a call without a queue of its own
  /// that work has completed.
  void release_all_after_queue();
  /// True while sent messages are still in MPI.
  [[nodiscard]] bool is_sending();

  void poll();
  void poll_requests();
  /// Makes an incoming request anew that MPI has freed.
  void renew_receive(std::size_t request);
  void note_arrival(std::size_t request, int code, MPI_Status const& status);
  void note_post(Message& message);
  /// Maps what a post is about; false where it cannot be mapped.
  [[nodiscard]] bool map_post(Message& message, messages::Post const& post);
  void fail(Message const& message, std::string const& sent);
  void note_refusal(Message& message);
  void arrived(Message& message) { arrived_.push_back(&message); }
  /// Notes a failure unless the peer makes the same call.
  bool matches(Message const& message, Trailer const& trailer);

  [[nodiscard]] PostedFields& posted() noexcept { return posted_[used_]; }

  PlanContext const& plan_;
  Call& call_;
  MessageSet outgoing_;
  MessageSet incoming_;
  CallTasks tasks_;
  /// Of the sending side, for messages that are read in place; by place among the fields that the call knows.
  std::vector<PostedFields> posted_{1};
  std::size_t used_ = 0;
  std::vector<StridedTask> together_;  ///< tasks that run together
  std::vector<Message*> unsent_;       ///< messages that are packed together
  std::vector<Message*> arrived_;      ///< whole, and not taken yet
  std::vector<char> open_;             ///< by incoming request: started and not arrived
  int num_open_ = 0;                   ///< incoming messages that were not taken
  Phase phase_ = Phase::done;
  bool discards_ = false;
  bool is_zeroed_ = false;
  double settling_since_ = -1;
  bool is_read_ = false;                         ///< work in the queue may still read what MPI writes to
  std::optional<SharedEvent> read_;              ///< by work in the queue: what peers have packed on their devices
  std::vector<std::byte const*> places_packed_;  ///< of all messages of one way
};

}  // namespace graticule::detail
