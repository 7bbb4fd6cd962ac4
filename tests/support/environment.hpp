// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace graticule::test {

/// Sets a variable of the environment until the end of the scope, which gives it back the value that it had.
class WithVariable {
 public:
  WithVariable(char const* name, std::string const& value) : name_(name) {
    if (char const* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  WithVariable(WithVariable const&) = delete;
  WithVariable& operator=(WithVariable const&) = delete;
  ~WithVariable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  char const* name_;
  std::optional<std::string> before_;
};

}  // namespace graticule::test
