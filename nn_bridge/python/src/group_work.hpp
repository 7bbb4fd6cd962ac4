// SPDX-License-Identifier: BSD-3-Clause
// Calls of the process groups of torch.distributed that are under way.
#pragma once

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/messages/detail/ordered_sum.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/failure.hpp>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/extension.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::python {

class GroupWork;

/// Values are summed in lines of as many bytes, so that one sum serves all types.
inline constexpr Index line_bytes = 64;
/// Longest sum at a time, which bounds the memory that ranks of a node share: DDP's largest bucket has 25 MiB.
inline constexpr Index piece_bytes = Index(32) << 20U;

/// What a group and its calls share.
///
/// Calls of a group begin in the order in which they are made, and none of them blocks. They proceed whenever a rank
/// makes, tests or awaits a call of any group, and in all waits of Graticule: there is no thread, so MPI is called by
/// the threads that call torch.distributed, one at a time.
struct GroupState : std::enable_shared_from_this<GroupState> {
  GroupState(Comm collectives, Comm direct, double longest_wait_seconds);
  GroupState(GroupState const&) = delete;
  GroupState& operator=(GroupState const&) = delete;
  ~GroupState();

  /// Begins a call. @throws the error after which the group cannot be used
  c10::intrusive_ptr<c10d::Work> begin(c10::intrusive_ptr<GroupWork> work);
  /// True when nothing is under way.
  bool proceed() noexcept;
  /// @throws `Error` where the group was closed or has failed
  void require_usable() const;
  /// Ends all calls with an error, and tells the other ranks.
  void fail(std::exception_ptr const& error) noexcept;
  /// Waits for a while for what is under way, then frees the communicators.
  void close() noexcept;
  [[nodiscard]] Comm const& comm() const { return *comms.data(); }

  std::vector<Comm> comms;  ///< for collective calls, and for messages of the user's tags; none when closed
  std::optional<messages::OrderedSum> sum;
  double longest_wait;
  std::deque<GroupWork*> sums;                         ///< waiting for `sum`, in order
  std::list<c10::intrusive_ptr<GroupWork>> under_way;  ///< in order
  std::exception_ptr failure;
  mutable std::recursive_mutex mutex;
};

/// One call of a group.
class GroupWork : public c10d::Work {
 public:
  /// @param results what `result` and the future give
  GroupWork(std::shared_ptr<GroupState> state, c10d::OpType type, char const* name, std::vector<at::Tensor> results);

  /// Posts first messages, and what follows from what has arrived. True at the end.
  virtual bool proceed_here() = 0;
  /// Ends it.
  void complete(std::exception_ptr const& error) {
    if (!c10d::Work::isCompleted()) finish(error);
  }
  /// Memory that MPI may use after a failure.
  [[nodiscard]] virtual std::vector<at::Tensor> memory() const { return results_; }

  bool isCompleted() override;
  /// Blocks. @throws the error of the call, also after the group's timeout
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return results_; }
  /// A future that has completed: waits for the call.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  void synchronize() override {}

 protected:
  [[nodiscard]] GroupState& state() const { return *state_; }

 private:
  std::shared_ptr<GroupState> state_;
  std::string name_;
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// Values of a tensor in memory that messages read and write: its own where that is contiguous.
class Contiguous {
 public:
  enum class Use : std::uint8_t { read, written, both };
  Contiguous(at::Tensor tensor, Use use);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.mutable_data_ptr()); }
  [[nodiscard]] Index bytes() const { return Index(memory_.nbytes()); }
  [[nodiscard]] at::Tensor const& memory() const { return memory_; }
  [[nodiscard]] at::Tensor const& tensor() const { return tensor_; }
  /// Copies what has arrived into the tensor.
  void finish() const;

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

/// Below autograd and counters of versions, as back ends of torch work.
struct RawTensors {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::InferenceMode const inference{false};
  at::NoGradGuard const no_grad;
};

/// How to combine values of the ranks, in order of ranks.
struct Combination {
  c10d::ReduceOp::RedOpType op;
  at::ScalarType type;
  int num_ranks;

  /// @throws `UnsupportedTensor`, `Unsupported`
  void require_possible() const;
  /// @param terms tensors over the values of a part, by rank
  void operator()(messages::SumPart const& part, Index value_bytes) const;
};

/// Segments to and from peers, all posted at once.
class ExchangeWork final : public GroupWork {
 public:
  ExchangeWork(std::shared_ptr<GroupState> state, c10d::OpType type, char const* name, std::vector<at::Tensor> results);
  void post(int to, Contiguous const& values) { post(to, values, 0, values.bytes()); }
  void take(int from, Contiguous const& values) { take(from, values, 0, values.bytes()); }
  /// A part of the values.
  void post(int to, Contiguous const& values, Index begin, Index bytes);
  void take(int from, Contiguous const& values, Index begin, Index bytes);
  /// Runs at the end, after all that was given before.
  void at_end(std::function<void()> action) { actions_.push_back(std::move(action)); }
  bool proceed_here() override;
  std::vector<at::Tensor> memory() const override { return kept_; }

 private:
  messages::Lanes lanes_;
  std::vector<at::Tensor> kept_;
  std::vector<std::function<void()>> actions_;
};

/// Combines tensors over all ranks, one after the other.
class SumWork final : public GroupWork {
 public:
  SumWork(std::shared_ptr<GroupState> state, c10d::OpType type, char const* name,
          std::vector<at::Tensor> const& tensors, c10d::ReduceOp::RedOpType op, std::vector<at::Tensor> results);
  void at_end(std::function<void()> action) { action_ = std::move(action); }
  bool proceed_here() override;
  std::vector<at::Tensor> memory() const override;

 private:
  void start_piece();

  c10d::ReduceOp::RedOpType op_;
  std::vector<Contiguous> values_;
  at::Tensor padded_;  ///< whole lines for a piece that does not end with one
  std::size_t current_ = 0;
  Index done_ = 0;  ///< bytes of the current tensor
  Index piece_ = 0;
  bool running_ = false;
  std::function<void()> action_;
};

/// From the root down a binomial tree.
class BroadcastWork final : public GroupWork {
 public:
  BroadcastWork(std::shared_ptr<GroupState> state, char const* name, at::Tensor const& tensor, int root);
  bool proceed_here() override;
  std::vector<at::Tensor> memory() const override { return {values_.memory()}; }

 private:
  Contiguous values_;
  messages::Lanes lanes_;
  std::vector<int> children_;
  bool passed_on_ = false;
};

/// One message with a tag of the user.
class MessageWork final : public GroupWork {
 public:
  /// @param peer -1: the first rank that sends with this tag
  MessageWork(std::shared_ptr<GroupState> state, c10d::OpType type, char const* name, at::Tensor const& tensor,
              int peer, int tag);
  bool proceed_here() override;
  int sourceRank() const override { return peer_; }
  std::vector<at::Tensor> memory() const override { return {values_.memory()}; }

 private:
  /// Whether a call that was made before this one, and has no message yet, takes messages of this rank and tag.
  [[nodiscard]] bool is_for_an_earlier_call(int from) const;

  bool sends_;
  Contiguous values_;
  int peer_;
  int tag_;
  std::optional<messages::Lanes> lanes_;
};

}  // namespace graticule::python
