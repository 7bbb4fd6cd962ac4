// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>

namespace graticule::detail {

/// Keeps the first error of a rank that continues, because others need it in collective calls; `agree` throws it then.
class FirstFailure {
 public:
  void attempt(auto const& action) {
    try {
      action();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  explicit operator bool() const noexcept { return bool(first_); }
  [[nodiscard]] std::exception_ptr const& first() const noexcept { return first_; }

 private:
  std::exception_ptr first_;
};

}  // namespace graticule::detail
