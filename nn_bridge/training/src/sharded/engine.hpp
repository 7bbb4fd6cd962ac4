// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "found_units.hpp"
#include "unit.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Decides when units are gathered, released and reduced: at the forwards and backwards of their modules.
///
/// With grad mode on, each call of a unit has a number, and so has its end; the numbers count up. Hooks on the outputs
/// of a call begin its backward, hooks on its inputs end it. LibTorch runs the nodes of a graph in the reverse of the
/// order in which they were made: the nodes of a call run before the nodes that made its inputs, and before the
/// backward of earlier calls. A backward without such a hook ends with its graph task, in a final callback.
class ShardEngine : public std::enable_shared_from_this<ShardEngine> {
 public:
  ShardEngine(std::shared_ptr<torch::nn::Module> model, nn::TeamRule const& shards, ShardedParametersOptions options);
  /// Adds the hooks of all units. Those of a model that is no unit are returned instead.
  std::shared_ptr<nn::ForwardHooks> attach();
  void detach() noexcept;

  void begin_forward(std::size_t u, std::vector<torch::Tensor>& inputs);
  void end_forward(std::size_t u, std::vector<torch::Tensor> const& outputs);
  void fail_forward(std::size_t u) noexcept;

  void set_unsynchronised(std::optional<Unsynchronised> how) noexcept { unsynchronised_ = how; }
  void hold_whole();
  void let_go() noexcept;
  void reset();
  void unwrap();

  [[nodiscard]] torch::nn::Module& model() const noexcept { return *model_; }
  [[nodiscard]] ShardTeam& team() noexcept { return team_; }
  [[nodiscard]] ShardedParametersOptions const& options() const noexcept { return options_; }
  [[nodiscard]] UnitSearch const& found() const noexcept { return found_; }
  [[nodiscard]] std::vector<std::unique_ptr<ShardUnit>> const& units() const noexcept { return units_; }
  /// All cut parameters, in the model's order.
  [[nodiscard]] std::vector<ShardedParameter*> parameters() const;
  /// The dtype that the model has for a whole tensor, which may be held in another one.
  [[nodiscard]] torch::ScalarType own_type(torch::Tensor const& whole) const;
  [[nodiscard]] ShardedParameters::Stats stats() const;
  void reset_stats();

 private:
  using Event = ShardedParametersOptions::Event;

  /// Calls of one unit.
  struct Calls {
    std::vector<Index> forwards;     ///< running; 0 without grad mode
    std::set<Index> open;            ///< whose backward has not ended
    std::map<Index, int> backwards;  ///< running, with their graph tasks
    [[nodiscard]] bool idle() const { return forwards.empty() && backwards.empty(); }
  };

  void begin_backward(std::size_t u, Index call, Index call_end, std::int64_t version);
  void end_backwards_after(Index number);
  void end_backward(std::size_t u, Index call);
  void end_task(int task);
  void make_whole(std::size_t u);
  void start_gather(std::size_t u);
  /// Once, and again after `reset`. Collective, before the first gather of all ranks: in a forward.
  void make_shared_buffers();
  void gather_ahead(UnitOrder::Places const& wanted);
  [[nodiscard]] BetweenPasses between_passes(std::size_t u) const noexcept {
    return u == root() ? options_.root_between_passes : options_.between_passes;
  }
  void release(std::size_t u);
  void release_idle();
  void start_scatter(std::size_t u);
  void finish_scatter();
  void scatter_rest();
  void settle();
  void compare(std::string const& what, std::size_t u);
  void progress();
  void notify(Event event, std::size_t u) const;
  [[nodiscard]] std::size_t root() const noexcept { return units_.size() - 1; }
  [[nodiscard]] bool any_forward_open() const;

  std::shared_ptr<torch::nn::Module> model_;
  ShardedParametersOptions options_;
  ShardTeam team_;
  std::optional<ShardTeam> group_;  ///< ranks of the team that keep parameters between passes
  UnitSearch found_;
  std::vector<std::unique_ptr<ShardUnit>> units_;
  bool has_shared_buffers_ = false;                                        ///< or cannot have them
  std::vector<std::pair<torch::Tensor, torch::ScalarType>> buffer_types_;  ///< of buffers in another dtype: the model's
  std::vector<Calls> calls_;
  std::vector<std::shared_ptr<nn::ForwardHooks>> hooks_;
  std::optional<messages::CallComparison> comparison_;
  bool disagreed_ = false;
  ReductionRule reduction_;
  std::optional<Unsynchronised> unsynchronised_;
  int num_holds_ = 0;
  Index last_call_ = 0;
  std::map<int, Index> tasks_;  ///< graph tasks that have a final callback, with the last call that they went through
  UnitOrder order_;
  std::optional<std::size_t> scattering_;
  ShardedParameters::Stats stats_;
};

}  // namespace graticule::training::detail
