// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/wrapper.hpp>

#include "late_steps.hpp"
#include "recovery.hpp"
#include "reducer.hpp"

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace graticule::training {

class DataParallel::Impl {
 public:
  Impl(torch::nn::Module& module, std::vector<torch::optim::Optimizer*> optimizers,
       std::vector<nn::TeamRule> const& rules, DataParallelOptions const& options);
  Impl(Impl const&) = delete;
  Impl& operator=(Impl const&) = delete;
  ~Impl();

  void step();
  double step(std::function<torch::Tensor()> const& closure);
  void synchronize();
  /// Applies what late steps have left, without comparing calls.
  void apply_all();
  void finalize();
  void run(std::function<void()> const& pass);
  /// Ends an iteration that has failed on some rank, on all ranks. Collective.
  void recover(std::exception_ptr const& failure);
  void sync_buffers() const;
  double clip(double max_norm, double norm_type);

  [[nodiscard]] detail::Reducer& reducer() noexcept { return *reducer_; }
  [[nodiscard]] GradientWait wait() const noexcept { return options_.wait; }
  [[nodiscard]] std::string const& fallback() const noexcept { return fallback_; }
  [[nodiscard]] std::vector<detail::TeamPlace> const& default_rules() const noexcept { return default_rules_; }
  [[nodiscard]] std::vector<Comm> default_teams() const;
  /// Teams of the default rules over which a parameter is not reduced: each rank has its own.
  [[nodiscard]] std::vector<Comm> teams_without_rule(detail::ReducedParameter const& parameter) const;
  [[nodiscard]] nn::NamedTensors const& buffers() const noexcept { return buffers_; }
  /// Whether each step makes some buffers equal.
  [[nodiscard]] bool syncs_buffers() const;

 private:
  void require_watched();
  /// Where nothing was announced since the last step.
  void require_gradients() const;
  /// At the end of a pass: no rank goes on while the pass may still fail on another one. Collective.
  void meet() const;
  /// Where gradients are waited for late, a rank may get to know here that a pass has failed on another one.
  template <class Action>
  void guarded(Action const& action);
  /// Before an optimizer's step that calls `closure`.
  void require_one_vector() const;
  [[nodiscard]] torch::Tensor reduced_loss(std::function<torch::Tensor()> const& closure);
  [[nodiscard]] BufferPolicy policy_of(std::string const& buffer) const;

  std::vector<torch::optim::Optimizer*> optimizers_;
  DataParallelOptions options_;
  nn::NamedTensors buffers_;
  nn::NamedTensors frozen_;
  std::string fallback_;
  std::vector<detail::TeamPlace> default_rules_;
  Index num_begun_ = 0;  ///< iterations, at the last step
  std::unique_ptr<detail::Reducer> reducer_;
  std::unique_ptr<detail::LateSteps> late_;
  std::unique_ptr<detail::Recovery> recovery_;
};

}  // namespace graticule::training
