// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

namespace graticule::program::detail {

/// Automatic casts of that kind for the duration of a scope.
class Autocast {
 public:
  Autocast(at::DeviceType device, bool enabled, std::optional<at::ScalarType> dtype, bool cached)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        old_dtype_(at::autocast::get_autocast_dtype(device)),
        was_cached_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device, enabled);
    if (dtype) {
      at::autocast::set_autocast_dtype(device, *dtype);
    }
    at::autocast::set_autocast_cache_enabled(cached);
    at::autocast::increment_nesting();
  }
  Autocast(Autocast const&) = delete;
  Autocast& operator=(Autocast const&) = delete;
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, old_dtype_);
    at::autocast::set_autocast_cache_enabled(was_cached_);
  }

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType old_dtype_;
  bool was_cached_;
};

}  // namespace graticule::program::detail
