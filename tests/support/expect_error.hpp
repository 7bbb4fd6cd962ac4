// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>

#include <exception>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace graticule::test {

/// What an action threw: kind and text of an `Error`, or why there is none.
struct Thrown {
  std::string rule = "nothing was thrown";
  std::string text;
  Fault fault = Fault::program;
};

template <class Action>
[[nodiscard]] Thrown thrown_by(Action&& action) {
  try {
    action();
  } catch (Error const& error) {
    return {error.rule(), error.text(), error.fault()};
  } catch (std::exception const& error) {
    return {"an exception that is no graticule::Error", error.what(), Fault::program};
  }
  return {};
}

/// An expected error of a kind that stands for several failures, with words that tell which one it is.
struct ErrorWith {
  std::string kind;
  std::string words;

  friend std::ostream& operator<<(std::ostream& out, ErrorWith const& error) {
    return out << error.kind << ": ..." << error.words << "...";
  }
};

/// Kind of an error, which compares as its name does, and its text.
struct Rule : std::string {
  std::string text;

  friend bool operator==(Rule const& found, ErrorWith const& expected) {
    return std::string_view(found) == expected.kind && found.text.find(expected.words) != std::string::npos;
  }
  friend void PrintTo(Rule const& rule, std::ostream* out) { *out << std::string_view(rule) << ": " << rule.text; }
};

/// Kind of the `Error` that `action` throws: `EXPECT_EQ(rule_of([&] { ... }), "BadCuts")`, or with words of its text
/// `EXPECT_EQ(rule_of([&] { ... }), (ErrorWith{"BadBoundary", "both end at a pole"}))`.
template <class Action>
[[nodiscard]] Rule rule_of(Action&& action) {
  auto thrown = thrown_by(action);
  return {std::move(thrown.rule), std::move(thrown.text)};
}

}  // namespace graticule::test
