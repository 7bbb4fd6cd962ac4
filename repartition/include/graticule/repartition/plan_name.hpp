// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace graticule {

/// Plans that this thread makes within the lifetime have a name, which reports of stalled waits, refused calls and
/// disagreements between ranks contain. Texts alone depend on it; ranks may give different ones.
///
/// Example: `PlanName const name("tracers"); HaloPlan const plan(comm, layout, kinds);`
class PlanName {
 public:
  explicit PlanName(std::string name);
  PlanName(PlanName const&) = delete;
  PlanName& operator=(PlanName const&) = delete;
  ~PlanName();

 private:
  std::string before_;
};

namespace detail {

/// Name for plans that this thread makes now; empty for none.
[[nodiscard]] std::string const& plan_name() noexcept;
/// `plan 'tracers': ` before what a rank has, or nothing.
[[nodiscard]] std::string plan_prefix();
/// `a plan`, or `the plan 'tracers'`. @param other such as `the plan`
[[nodiscard]] std::string named_plan(std::string_view name, char const* other);

}  // namespace detail

}  // namespace graticule
