// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/message_memory.hpp>

#include "messages.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// Parameters that are gathered and released together.
class ShardUnit {
 public:
  enum class State { released, gathering, gathered };

  /// Cuts the parameters and releases the whole ones. Collective. @param whole leaves of the module, by name
  /// @param gathered_dtype for real floating-point parameters: the dtype in which they are whole
  /// @param group ranks of the team that keep parts for the backward; null for none
  ShardUnit(ShardTeam& team, ShardTeam* group, std::string name,
            std::vector<std::pair<std::string, torch::Tensor>> const& whole,
            std::optional<torch::ScalarType> gathered_dtype);
  ~ShardUnit();

  /// Its name in messages.
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::vector<ShardedParameter>& parameters() noexcept { return parameters_; }
  [[nodiscard]] std::vector<ShardedParameter> const& parameters() const noexcept { return parameters_; }
  [[nodiscard]] State state() const noexcept { return state_; }
  /// Bytes of the whole parameters, as they are gathered.
  [[nodiscard]] Index bytes() const noexcept { return bytes_; }
  /// Whether one of its parameters needed a gradient when it was sharded.
  [[nodiscard]] bool is_trainable() const;
  /// @throws `ParametersChanged` if a parameter needs a gradient and needed none when it was sharded
  void require_needs_of_gradients() const;
  [[nodiscard]] bool has_gradients() const;
  /// Grows whenever values of the shards change.
  [[nodiscard]] std::int64_t version() const;

  /// The shards have changed since they were gathered.
  [[nodiscard]] bool is_outdated() const { return version() != gathered_version_; }

  /// The source of the whole parameters.
  enum class Source { team, group };
  /// Takes memory and posts the messages. Same order of calls on all ranks. @throws `ParametersChanged`
  void start_gather(Source source);
  /// The buffer of a source; null: messages of MPI.
  void set_shared_buffer(Source source, std::shared_ptr<SharedBuffer> shared_buffer) {
    shared_buffers_[std::size_t(source)] = std::move(shared_buffer);
  }
  void finish_gather();
  /// Later work in the current stream finds the whole parameters, and their memory stays until it has run: a unit may
  /// run in another stream than the one in which it was gathered. @pre gathered
  void use_in_current_stream() const;
  /// The current stream computes gradients of its parameters: `start_scatter`, in any stream, waits for this work.
  void add_backward_in_current_stream();
  /// Gives the memory back; waits where it is still being filled.
  void release();
  /// Keeps this rank's part of the whole parameters, cut over the group. @pre gathered
  void keep_in_group();
  [[nodiscard]] bool is_in_group() const noexcept { return !group_parts_.empty(); }
  [[nodiscard]] Index group_bytes() const noexcept;
  void leave_group() noexcept { group_parts_.clear(); }
  /// Takes the gradients of the whole parameters and posts the messages.
  void start_scatter(ReductionRule const& rule);
  void finish_scatter();
  /// Lets MPI move what is in flight.
  void progress();
  /// Drops the gradients of a failed backward and everything in flight. Same order of calls on all ranks; no messages.
  void reset();
  /// Gives the module whole leaves of its own again, with the values of `whole`, in order of `parameters`.
  void restore(std::vector<torch::Tensor> const& whole);

 private:
  [[nodiscard]] std::string released_text(ShardedParameter const& parameter) const;

  ShardTeam* team_;
  ShardTeam* group_;
  std::string name_;
  std::vector<ShardedParameter> parameters_;
  int gather_tag_;
  int scatter_tag_;
  int group_tag_ = 0;
  Index bytes_ = 0;
  State state_ = State::released;
  std::int64_t gathered_version_ = 0;
  std::array<std::shared_ptr<SharedBuffer>, 2> shared_buffers_;  ///< by source; null: messages go by MPI
  std::unique_ptr<Gather> gather_;
  ShardTeam* gathered_from_ = nullptr;
  nn::detail::WritingStreams whole_in_;  ///< where the whole parameters were written
  nn::detail::WritingStreams gradients_in_;
  std::vector<torch::Tensor> group_parts_;  ///< by parameter, in one dimension; empty where the group keeps nothing
  nn::detail::WritingStreams group_parts_in_;
  std::vector<torch::Tensor>
      staged_;  ///< on the host, of parameters on a device whose messages go by MPI; else undefined
  std::unique_ptr<GradientScatter> scatter_;

  /// Messages that `reset` has given up, and their memory. They are still received: otherwise a later communicator, to
  /// which MPI gives the context of a freed one, would find them.
  struct Unwaited {
    std::unique_ptr<Gather> gather = {};
    std::vector<c10::DataPtr> memory = {};
    std::unique_ptr<GradientScatter> scatter = {};
    [[nodiscard]] bool test() const { return (!gather || gather->test()) && (!scatter || scatter->test()); }
  };
  std::vector<Unwaited> unwaited_;
};

enum class Receivers { all, first };
/// A tensor that is cut like a parameter, whole on the host: on every rank, or on the first one and undefined
/// elsewhere.
/// Collective; blocks. @param shard this rank's rows, in any dtype
[[nodiscard]] torch::Tensor gather_whole(ShardTeam& team, ShardedParameter const& parameter, torch::Tensor const& shard,
                                         Receivers receivers);

}  // namespace graticule::training::detail
