// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace graticule::nn {

/// How the ranks of a team combine their gradients of a replicated parameter.
enum class Reduction : std::uint8_t { sum, mean };

/// One team and its rule. The default for the ranks of a domain is `sum` (their gradients are partial sums of a
/// globally normalised loss), for data-parallel teams `mean`.
struct TeamRule {
  Comm team;
  Reduction reduction = Reduction::sum;
};

/// Keeps parameters and gradients of a module equal over its teams.
///
/// It identifies parameters by name; a parameter may have its own rules.
class GradientSync {
 public:
  /// Collective over every team. @param module its parameters and buffers are kept, not copied @param rules applied in
  /// order to each gradient
  /// @throws `ReplicaMismatch` if names, shapes or dtypes differ among the ranks of a team; `UnsupportedTensor` for a
  ///         parameter or buffer of the meta device, which has no values; on all ranks
  GradientSync(torch::nn::Module const& module, std::vector<TeamRule> rules);

  /// Sets rules for one parameter that replace the default ones. Requires the same call on all ranks.
  /// @throws `UnknownName`
  void set_rules(std::string const& parameter, std::vector<TeamRule> rules);

  /// Copies parameters and buffers of the first rank of each team to the others. Collective.
  void broadcast() const;
  /// Reduces all gradients, in their own dtype, to bitwise equal values on all ranks of a team. A gradient that is
  /// undefined on every rank stays undefined; one that is undefined on some ranks counts as zero there. Collective.
  /// Cost: per team one comparison of where gradients lie, and one of which parameters need them; one reduction per
  /// default rule and dtype, and one per rule for each parameter with rules of its own.
  /// @throws `UnsupportedTensor` for a sparse gradient, `ReplicaMismatch` where a parameter is frozen on some ranks
  ///         only; on all ranks
  void reduce() const;
  /// Checks, between `reduce` and the optimizer's step, that parameters and their gradients are bitwise equal on the
  /// ranks of the teams of their rules. Collective.
  /// @throws `ReplicaMismatch` on all ranks, with the first one that differs: its gradient was not reduced, say
  /// Cost: reads all parameters and gradients; one all-reduce of 4 integers per team
  void require_equal() const;

 private:
  /// Parameters that a rule over a team of several ranks holds for.
  [[nodiscard]] std::vector<std::pair<Comm, NamedTensors>> by_team() const;
  void require_same_needs() const;

  NamedTensors parameters_;
  NamedTensors buffers_;
  std::vector<TeamRule> rules_;
  std::map<std::string, std::vector<TeamRule>> own_rules_;
};

}  // namespace graticule::nn
