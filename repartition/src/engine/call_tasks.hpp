// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "call.hpp"
#include "message_set.hpp"

#include <span>
#include <vector>

namespace graticule::detail {

/// Fills what a forward call writes with a value that shows: cells that it leaves as they are must not be lost.
void poison(Call const& call, DeviceQueue const& queue);

/// What a call with whole messages copies, adds and fills: transfers and fields turned into strided tasks, which are
/// kept for the next call with the same fields.
class CallTasks {
 public:
  CallTasks(Call const& call, MessageSet& outgoing, MessageSet& incoming);

  /// The call has the fields of place `place` among those that it knows. @param changed tasks for that place are made
  /// anew at their next use
  void use_fields(int place, bool changed);
  void forget_additions() noexcept { now().additions.valid = false; }
  /// Tasks of a message, made where they are not kept; they may be for another place than that of the message now.
  [[nodiscard]] KeptTasks const& packing(Message& message) const;
  [[nodiscard]] KeptTasks const& unpacking(Message& message) const;
  /// The same, for the place where the message lies now.
  [[nodiscard]] std::span<StridedTask const> pack(Message& message) const;
  [[nodiscard]] std::span<StridedTask const> unpack(Message& message) const;
  /// To pack what a peer has posted into `staged`.
  void append_packing_of_posted(Message const& message, std::byte* staged, std::vector<StridedTask>& tasks) const;
  /// The same for all messages; kernels are kept of them.
  [[nodiscard]] KeptTasks& kept_of_all(Way way) noexcept { return way == Way::out ? pack_all_ : unpack_all_; }
  void make_all(Way way);
  [[nodiscard]] KeptTasks& local();
  /// What an adjoint adds to the sources, once all messages are there.
  void make_additions();
  [[nodiscard]] KeptTasks& additions() noexcept { return now().additions; }
  /// What an adjoint zeroes in the targets, apart from what is zeroed while it is read.
  [[nodiscard]] KeptTasks& zeros();
  /// The fields of the sending side, which peers may read in place.
  void append_sent(std::vector<Image>& images) const;
  /// True when cells that stay on this rank are moved by the launch that unpacks: none of them is written there, and
  /// none that is written is read.
  [[nodiscard]] bool moves_with_messages() const noexcept;

 private:
  /// What depends on the fields of the call, by place among those that it knows.
  struct OfFields {
    KeptTasks local;
    KeptTasks additions;  ///< of an adjoint, in order
    KeptTasks zeros;
    std::vector<int> message_of_addition;  ///< -1 for local ones
  };
  [[nodiscard]] OfFields& now() noexcept { return of_fields_[std::size_t(used_)]; }
  [[nodiscard]] Image source_image(int field) const;
  [[nodiscard]] Image target_image(int field, int target) const;
  /// Cells to wire: images in the source (forward) or target cells (adjoint).
  [[nodiscard]] StridedTask pack_task(int field, Transfer const& transfer, std::byte* wire, Image const& image) const;
  /// Wire to cells: into the target (forward) or added to the source (adjoint).
  [[nodiscard]] StridedTask unpack_task(int field, Transfer const& transfer, std::byte const* wire) const;
  /// Cells to cells: from `source` into `target` (forward), or `target` added to `source` (adjoint).
  [[nodiscard]] StridedTask move_task(int field, Transfer const& transfer, Image const& source,
                                      Image const& target) const;
  [[nodiscard]] StridedTask local_task(int field, Transfer const& transfer) const;
  /// The peer's memory that is read in place for one transfer.
  [[nodiscard]] Image const& posted_image(int field, Message const& message, Transfer const& transfer) const;
  /// What an incoming message brings for one transfer, packed or in place.
  [[nodiscard]] StridedTask arrival_task(int field, Message const& message, int transfer) const;
  /// What an adjoint adds in cells that other parts add to as well, or in none of them.
  [[nodiscard]] StridedTask addition_task(int field, AdditionPart const& part) const;

  PlanContext const& plan_;
  Call const& call_;
  MessageSet& outgoing_;
  MessageSet& incoming_;
  KeptTasks pack_all_;  ///< of all messages, for device fields
  KeptTasks unpack_all_;
  std::vector<OfFields> of_fields_{1};
  int used_ = 0;
};

}  // namespace graticule::detail
