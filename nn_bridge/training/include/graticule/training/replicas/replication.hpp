// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/detail/values.hpp>
#include <graticule/training/state/values.hpp>

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

/// Context shared by the copies of one module; one object for all copies of a process.
class ReplicaContext {
 public:
  ReplicaContext(int ordinal, std::optional<Comm> team) : ordinal_(ordinal), team_(std::move(team)) {}

  /// Position in the depth-first traversal of the model: the same for all copies, different for each module.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// The ranks that hold the copies, one duplicate for all modules of a model; none for copies of one process.
  [[nodiscard]] std::optional<Comm> const& team() const noexcept { return team_; }

  /// The master copy writes a value that its peers read, also on other ranks. @throws `WrongState` once it is sealed
  void put(std::string const& key, CheckpointValue value);
  /// @throws `MissingVariable`, `WrongType`
  template <class T>
  [[nodiscard]] T take(std::string const& key) const {
    return detail::value_of<T>(values_, key);
  }
  [[nodiscard]] bool has(std::string const& key) const { return values_.contains(key); }

  [[nodiscard]] Values const& values() const noexcept { return values_; }
  /// For `replicate`: rejects further values.
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

/// Base class of modules that are notified of replication; others are skipped.
class ReplicaHook {
 public:
  virtual ~ReplicaHook() = default;
  /// Called once after each replication, first on the master copy of every module. Over a team it must not make
  /// collective calls: the ranks may be at different modules.
  /// `copy` is 0 for the master; over a team it is the rank.
  virtual void on_replicate(std::shared_ptr<ReplicaContext> const& context, int copy, int num_copies) = 0;
};

/// Notifies the modules of a model on each rank of a team that they are copies of each other.
///
/// Call it after wrapping, and after every load, conversion, move to a device or clone: the state of a hook belongs to
/// one module object. All hooks of rank 0 run first; the values that they put into contexts are available to the hooks
/// of the other ranks. Collective. @throws `ReplicaMismatch` where traversals differ in length or types; what a hook
/// throws; on all ranks alike
/// @return one context per module of the traversal; modules that occur in several places count once
/// Cost: one all-reduce of 4 integers, one broadcast of all values.
std::vector<std::shared_ptr<ReplicaContext>> replicate(torch::nn::Module& module, Comm const& team);

/// The same for copies in one process, the first of which is the master. @throws `ReplicaMismatch`, `BadOption`
std::vector<std::shared_ptr<ReplicaContext>> replicate(std::vector<std::shared_ptr<torch::nn::Module>> const& copies);

namespace detail {

/// Callback that `patch_replication` installs in a wrapper: calls the previous callback, then `replicate`.
struct PatchedReplication {
  std::function<void(std::vector<std::shared_ptr<torch::nn::Module>> const&)> before;
  void operator()(std::vector<std::shared_ptr<torch::nn::Module>> const& copies) const {
    if (before) before(copies);
    (void)replicate(copies);
  }
};

}  // namespace detail

/// A user-defined class that calls `after_replication(copies)` whenever it has made copies of its module.
template <class Wrapper>
concept ReplicatingWrapper = requires(Wrapper& wrapper) {
  {
    wrapper.after_replication
    } -> std::same_as<std::function<void(std::vector<std::shared_ptr<torch::nn::Module>> const&)>&>;
};

/// Gives an existing wrapper the behaviour of `replicate`. A second call changes nothing and prints a line on stderr.
/// @return whether this call has changed the wrapper
template <ReplicatingWrapper Wrapper>
bool patch_replication(Wrapper& wrapper) {
  if (wrapper.after_replication.template target<detail::PatchedReplication>() != nullptr) {
    std::cerr << "graticule: the wrapper has its replication callbacks already\n";
    return false;
  }
  wrapper.after_replication = detail::PatchedReplication{std::move(wrapper.after_replication)};
  return true;
}

/// Joins the outputs of all copies, following the structure of the first: tensors are concatenated along `dim` (scalars
/// stacked), none stays none, maps are joined by key, lists and tuples by element; strings and all other types become a
/// list.
/// @throws `ReplicaMismatch`, with the position, for a different kind or length, a missing or extra key; `BadOption`
[[nodiscard]] torch::IValue gather_nested(std::vector<torch::IValue> const& outputs, std::int64_t dim = 0);
/// Joins the outputs of all ranks, on every rank. Collective. @throws the same on all ranks
[[nodiscard]] torch::IValue gather_nested(Comm const& team, torch::IValue const& output, std::int64_t dim = 0);

namespace detail {

/// Inputs of each copy, from a function of the user. @throws `ReplicaMismatch` unless it returns one per copy
using InputScatter = std::function<std::vector<torch::IValue>(torch::IValue const& input, int num_copies)>;
/// Calls `scatter` and checks the number of results.
[[nodiscard]] std::vector<torch::IValue> scatter_nested(InputScatter const& scatter, torch::IValue const& input,
                                                        int num_copies);

}  // namespace detail

}  // namespace graticule::training
