// SPDX-License-Identifier: BSD-3-Clause
// From exceptions to a status and the texts of `gr_error_text`.
#pragma once

#include <graticule/graticule.h>
#include <graticule/partition/error.hpp>

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace graticule::c {

/// An argument that cannot be used: `GR_ERROR_ARGUMENT`. @param what names the argument and its value
[[nodiscard]] Error bad_argument(std::string const& what);

/// Throws `bad_argument` for a NULL pointer.
template <class T>
T& required(T* pointer, char const* name) {
  if (pointer == nullptr) throw bad_argument(std::string(name) + " is NULL");
  return *pointer;
}

/// Frees a handle. NULL and a NULL pointer to it are ignored.
template <class T>
void free_handle(T** handle, char const* name) {
  std::unique_ptr<T> const owned(std::exchange(required(handle, name), nullptr));
}

/// @throws when `gr_init` was not called
void require_started();

/// Keeps the exception as the last error of this thread.
[[nodiscard]] gr_status record(char const* function, std::exception_ptr const& failure) noexcept;

/// Keeps an error as the last one of this thread. @param text NULL: no memory was left for it @return its status
gr_status keep_error(gr_status status, char const* rule, char const* text) noexcept;

/// Runs the body of an exported function. No exception leaves it.
template <class Body>
[[nodiscard]] gr_status guarded(char const* function, Body&& body) noexcept {
  try {
    require_started();
    std::forward<Body>(body)();
    return GR_SUCCESS;
  } catch (...) {
    return record(function, std::current_exception());
  }
}

/// A text that stays until the next call of this thread.
[[nodiscard]] char const* kept_text(std::string text);

}  // namespace graticule::c

/// The body of an exported function as an expression: `return GR_BODY({ ... });`
#define GR_BODY(...) ::graticule::c::guarded(__func__, [&] __VA_ARGS__)
