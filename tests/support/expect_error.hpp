// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>

#include <exception>
#include <string>

namespace graticule::test {

/// What an action threw: rule and text of an `Error`, or why there is none.
struct Thrown {
  std::string rule = "nothing was thrown";
  std::string given;
  Fault fault = Fault::program;
};

template <class Action>
[[nodiscard]] Thrown thrown_by(Action&& action) {
  try {
    action();
  } catch (Error const& error) {
    return {error.rule(), error.given(), error.fault()};
  } catch (std::exception const& error) {
    return {"an exception that is no graticule::Error", error.what(), Fault::program};
  }
  return {};
}

/// Rule of the `Error` that `action` throws: `EXPECT_EQ(rule_of([&] { ... }), "BadCuts")`.
template <class Action>
[[nodiscard]] std::string rule_of(Action&& action) {
  return thrown_by(action).rule;
}

}  // namespace graticule::test
