// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/detail/patience.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/device_queue.hpp>

#include "plan_context.hpp"

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

class SegmentQueue;

/// What distinguishes the buffers of one kind of call from those of another.
struct CallShape {
  Direction direction = Direction::forward;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< on which device fields lie
  bool node_shared = false;
  bool refused = false;         ///< a call that this rank refuses: it has no fields, and messages of another length
  std::vector<int> kinds = {};  ///< per field
  std::vector<Index> cell_bytes = {};  ///< per field: element size times batch elements
  friend bool operator==(CallShape const&, CallShape const&) = default;

  [[nodiscard]] bool forward() const noexcept { return direction == Direction::forward; }
  [[nodiscard]] bool on_device() const noexcept { return space == MemorySpace::device; }
};

/// The arguments of a call.
struct CallFields {
  std::vector<FieldView> sources;
  std::vector<FieldView> targets;         ///< field by field
  std::vector<std::size_t> first_target;  ///< of each field in `targets`
  std::vector<Parity> parities;
  std::uint32_t hash = 0;     ///< of dtypes, batch axes, kinds and parities
  bool known_apart = false;   ///< no memory that the call writes belongs to two of its fields
  bool repeats = false;       ///< a call with these fields may be made again without checks
  bool are_in_place = false;  ///< then: the target of each field is the field itself

  [[nodiscard]] int count() const noexcept { return int(sources.size()); }
  [[nodiscard]] FieldView const& source(int field) const noexcept { return sources[std::size_t(field)]; }
  [[nodiscard]] FieldView const& target(int field, int target) const noexcept {
    return targets[first_target[std::size_t(field)] + std::size_t(target)];
  }
  [[nodiscard]] Parity parity(int field) const noexcept { return parities[std::size_t(field)]; }
  /// These are just the fields, which have the same kinds.
  [[nodiscard]] bool hold(std::span<PullField const> fields) const noexcept;
  /// Each field has one target.
  [[nodiscard]] bool have_one_target() const noexcept { return targets.size() == sources.size(); }
  /// These are just the fields, of `kinds`. @pre `have_one_target()`
  [[nodiscard]] bool hold(std::span<KnownField const> fields, std::vector<int> const& kinds) const noexcept;
  void set(std::span<PullField const> fields);
};

/// What is wrong with what arrived.
struct CallFailure {
  std::string text;  ///< empty: nothing
  char const* rule = "FieldMismatch";

  void clear() noexcept {
    text.clear();
    rule = "FieldMismatch";
  }
};

/// How much of a call is packed before `start` returns.
enum class Posting : std::uint8_t { window, all };

/// The messages of a call and what it does with the cells in them.
class CallMessages {
 public:
  CallMessages() = default;
  CallMessages(CallMessages const&) = delete;
  CallMessages& operator=(CallMessages const&) = delete;
  virtual ~CallMessages() = default;

  /// Begins the call: sends what can be sent. @param fields those of the call, with factors and packings
  virtual void post(std::span<PullField const> fields, DeviceQueue const& queue, Posting posting) = 0;
  /// Tells the peers that this rank refuses the call, and starts to receive what they send in it.
  virtual void refuse() = 0;
  /// One round over all that is under way. @return false when there was nothing to do
  /// @throws what is wrong with what arrived
  virtual bool advance() = 0;
  /// All cells are in place, and the memory of the fields is the caller's again.
  [[nodiscard]] virtual bool done() const = 0;
  /// Ends a call that is done. @throws what is wrong with it
  virtual void conclude() = 0;
  /// Without blocking: true when the call would end without waiting.
  [[nodiscard]] virtual bool test() = 0;
  /// What is waited for, in words.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// What arrives is not wanted any more.
  virtual void discard() {}
  /// Of a call that was refused or has failed; without blocking: drops what has come, true when nothing is under way.
  [[nodiscard]] virtual bool has_ended() = 0;
  /// Peers have taken what was sent, so that the buffers may be used again.
  [[nodiscard]] virtual bool has_free_buffers() const = 0;
  /// Cancels the receives that are under way.
  virtual void cancel_receives() noexcept {}
  /// After a failure of `post`: cancels what is posted; the call is not leased again.
  virtual void abandon() noexcept {}
  /// `repeat` would begin a call with the fields of the last one in the same way, without further checks.
  [[nodiscard]] virtual bool may_repeat() = 0;
  virtual void repeat() = 0;
  /// The call has the fields of place `place` among those that it knows. @param changed these are new there
  virtual void use_fields(int /*place*/, bool /*changed*/) {}
  /// It has other sources, which were given late.
  virtual void sources_changed() noexcept {}
  [[nodiscard]] virtual Index buffer_bytes() const noexcept = 0;
};

/// One call in flight: its fields, buffers and tasks. Leased anew when free, so that nothing is allocated later on.
class Call {
 public:
  /// @param num_views of the fields on the sending side, all fields together
  /// @param segments of the plan, for calls whose messages travel in segments
  Call(PlanContext const& plan, CallShape call_shape, int num_views, SegmentQueue& segments, PullStats& plan_stats);
  Call(Call const&) = delete;
  Call& operator=(Call const&) = delete;
  ~Call();

  /// A free call that could have the buffers of this one.
  [[nodiscard]] bool fits(std::span<PullField const> given, CallShape const& wanted) const noexcept;
  /// Those of the call that is made now.
  [[nodiscard]] CallFields& fields() noexcept { return known_[std::size_t(now_)]; }
  [[nodiscard]] CallFields const& fields() const noexcept { return known_[std::size_t(now_)]; }
  /// Takes the arguments of a call; tasks are kept where they have not changed.
  void set_fields(std::span<PullField const> given, Direction direction);
  /// Takes the fields of an earlier call if these are just those; false where it knows no such call.
  bool use_known(std::span<PullField const> given);
  bool use_known(std::span<KnownField const> given);
  /// It knows the fields.
  [[nodiscard]] bool knows(std::span<PullField const> given) const noexcept;
  /// For an adjoint: the memory that is added to.
  void set_sources(std::span<FieldView const> sources);
  /// True when the memory that an adjoint adds to has not been given yet.
  [[nodiscard]] bool lacks_memory() const noexcept;
  [[nodiscard]] int kind(int field) const noexcept { return shape.kinds[std::size_t(field)]; }
  [[nodiscard]] CallMessages& messages() const noexcept { return *messages_; }
  /// What is waited for, in words.
  [[nodiscard]] std::function<std::string()> const& description() const noexcept { return describe_; }
  /// For `OnDevice`: kernels are launched there, and MPI may look up device memory there. None on the host.
  [[nodiscard]] int current_device() const noexcept { return shape.on_device() ? shape.device : -1; }
  /// How many calls a reading of the clock counts for; 0: this one is not timed. Reading the clock nine times would be
  /// a quarter of a small call: after its first ones, one of 16 is timed and counts for all.
  [[nodiscard]] double weight() const noexcept { return !is_small || number <= 16 ? 1 : number % 16 == 0 ? 16 : 0; }

  PlanContext const& plan;
  PullStats& stats;  ///< of the plan
  Comm comm;         ///< whose ranks are waited for; kept with the buffers where those must outlive the plan
  CallShape shape;
  std::uint64_t number = 0;  ///< of the plan, counted from 1
  bool busy = false;
  bool is_small = false;  ///< moves few bytes in host memory
  bool has_tool = false;  ///< a tool of Kokkos listens
  DeviceQueue queue;
  CallFailure failure;

 private:
  void use(std::size_t place, bool changed);

  /// The fields of small calls are remembered with their tasks: codes exchange the same few arrays in turns.
  static constexpr std::size_t most_known_ = 4;
  std::vector<CallFields> known_{1};
  int now_ = 0;
  std::function<std::string()> describe_;
  std::unique_ptr<CallMessages> messages_;
};

/// Seconds since it was made or last asked, of calls that are timed.
class Stopwatch {
 public:
  explicit Stopwatch(Call const& call) : weight_(call.weight()) {
    if (weight_ != 0) last_ = MPI_Wtime();
  }
  [[nodiscard]] double lap() {
    if (weight_ == 0) return 0;
    double const now = MPI_Wtime();
    return weight_ * (now - std::exchange(last_, now));
  }

 private:
  double weight_;
  double last_ = 0;
};

}  // namespace graticule::detail
