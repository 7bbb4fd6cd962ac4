// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/values.hpp>

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training {

/// What the copies of one module know of each other; shared by all copies of a process.
class ReplicaContext {
 public:
  ReplicaContext(int ordinal, std::optional<Comm> team) : ordinal_(ordinal), team_(std::move(team)) {}

  /// Place in the depth-first walk over the model: the same for all copies, another one for each module.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// The ranks that hold the copies, one duplicate for all modules of a model; none for copies of one process.
  [[nodiscard]] std::optional<Comm> const& team() const noexcept { return team_; }

  /// What the master copy notes down, its peers read, on other ranks too. @throws `NotTheMaster` once it is sealed
  void put(std::string const& key, CheckpointValue value);
  /// @throws `MissingValue`, `WrongType`
  template <class T>
  [[nodiscard]] T take(std::string const& key) const {
    return value_of<T>(values_, key);
  }
  [[nodiscard]] bool has(std::string const& key) const { return values_.contains(key); }

  [[nodiscard]] Values const& values() const noexcept { return values_; }
  /// For `replicate`: no more values after the master's.
  void seal(Values values) {
    values_ = std::move(values);
    sealed_ = true;
  }

 private:
  int ordinal_;
  std::optional<Comm> team_;
  Values values_;
  bool sealed_ = false;
};

/// A module that wants to know that it has been replicated inherits from this, too; others are passed over.
class ReplicaHook {
 public:
  virtual ~ReplicaHook() = default;
  /// Called once after each replication, on the master copy of every module first. Over a team, no collective calls: the
  /// ranks may be at different modules.
  /// @param copy 0 for the master: over a team, the rank
  virtual void on_replicate(std::shared_ptr<ReplicaContext> const& context, int copy, int num_copies) = 0;
};

/// A context for each module of the walk; modules that occur in several places count once.
using ReplicaContexts = std::vector<std::shared_ptr<ReplicaContext>>;

/// Tells the modules of a model on each rank of a team that they are copies of each other.
///
/// Call it after wrapping, and after every load, conversion, move to a device or clone: what a hook has set up belongs to
/// one module object. Rank 0's hooks all run first; what they put into contexts is on the other ranks when theirs run.
/// Collective. @throws `NotIsomorphic` where walks differ in length or types; what a hook throws; on all ranks alike
/// Cost: one all-reduce of 4 integers, one broadcast of all values.
ReplicaContexts replicate(torch::nn::Module& module, Comm const& team);

/// The same for copies in one process, the first of which is the master. @throws `NotIsomorphic`, `NoCopies`
ReplicaContexts replicate(std::vector<std::shared_ptr<torch::nn::Module>> const& copies);

enum class Patched : std::uint8_t { now, already };

/// What `patch_replication` puts into a wrapper: calls what was there, then `replicate`.
struct PatchedReplication {
  std::function<void(std::vector<std::shared_ptr<torch::nn::Module>> const&)> before;
  void operator()(std::vector<std::shared_ptr<torch::nn::Module>> const& copies) const {
    if (before) before(copies);
    (void)replicate(copies);
  }
};

/// A class of one's own that calls `after_replication(copies)` whenever it has made copies of its module.
template <class Wrapper>
concept ReplicatingWrapper = requires(Wrapper& wrapper) {
  {
    wrapper.after_replication
    } -> std::same_as<std::function<void(std::vector<std::shared_ptr<torch::nn::Module>> const&)>&>;
};

/// Gives an existing wrapper the behaviour of `replicate`. A second time changes nothing, and says so on stderr.
template <ReplicatingWrapper Wrapper>
Patched patch_replication(Wrapper& wrapper) {
  if (wrapper.after_replication.template target<PatchedReplication>() != nullptr) {
    std::cerr << "graticule: the wrapper has its replication callbacks already\n";
    return Patched::already;
  }
  wrapper.after_replication = PatchedReplication{std::move(wrapper.after_replication)};
  return Patched::now;
}

/// One output made of those of all copies, by the structure of the first: tensors are concatenated along `dim` (scalars
/// stacked), none stays none, maps are gathered by key, lists and tuples by element; strings and all else become a list.
/// @throws `NestedMismatch`, naming the place, for another kind, length, missing or extra key; `NoCopies`
[[nodiscard]] torch::IValue gather_nested(std::vector<torch::IValue> const& outputs, std::int64_t dim = 0);
/// Of all ranks' outputs, on every rank. Collective. @throws the same on all ranks
[[nodiscard]] torch::IValue gather_nested(Comm const& team, torch::IValue const& output, std::int64_t dim = 0);

/// Inputs of each copy by a function of the user. @throws `ScatterLength` unless it gives one for each copy
using InputScatter = std::function<std::vector<torch::IValue>(torch::IValue const& input, int num_copies)>;
[[nodiscard]] std::vector<torch::IValue> scatter_nested(InputScatter const& scatter, torch::IValue const& input,
                                                        int num_copies);

}  // namespace graticule::training
