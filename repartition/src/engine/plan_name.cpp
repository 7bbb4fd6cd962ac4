// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/printable.hpp>
#include <graticule/repartition/plan_name.hpp>

#include <utility>

namespace graticule {

namespace {

std::string& name_of_thread() noexcept {
  thread_local std::string name;
  return name;
}

}  // namespace

PlanName::PlanName(std::string name) : before_(std::exchange(name_of_thread(), printable(name))) {}

PlanName::~PlanName() { name_of_thread() = std::move(before_); }

std::string const& detail::plan_name() noexcept { return name_of_thread(); }

std::string detail::plan_prefix() { return plan_name().empty() ? std::string() : "plan '" + plan_name() + "': "; }

std::string detail::named_plan(std::string_view name, char const* other) {
  return name.empty() ? std::string(other) : "the plan '" + std::string(name) + "'";
}

}  // namespace graticule
