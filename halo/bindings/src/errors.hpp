// SPDX-License-Identifier: BSD-3-Clause
// From exceptions to a status and the texts of `gr_error_text`, and from handles to what they stand for.
#pragma once

#include <graticule/graticule.h>
#include <graticule/partition/error.hpp>

#include "fortran.hpp"
#include "handle_table.hpp"

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace graticule::c {

/// An argument that cannot be used: `GR_ERROR_ARGUMENT`. @param what names the argument and its value
[[nodiscard]] Error bad_argument(std::string const& what);

/// What a handle of type `T` stands for; its `name` is that of the type.
template <class T>
struct Object;

/// The types of handles are declared, and defined nowhere.
template <class T>
concept HandleType = !requires {
  sizeof(T);
};

template <class T>
inline constexpr HandleKind kind_of_handle{Object<T>::name, [](void* of) { delete static_cast<Object<T>*>(of); }};

/// Throws `bad_argument` for a NULL pointer.
template <class T>
T* not_null(T* pointer, char const* name) {
  if (pointer == nullptr) throw bad_argument(std::string(name) + " is NULL");
  return pointer;
}

template <class T>
T& required(T* pointer, char const* name) {
  return *not_null(pointer, name);
}

/// The caller's variable for a new handle. Variables of Fortran always have a value: one that holds a handle is
/// refused.
template <HandleType T>
requires(!std::is_void_v<T>) T*& required(T** variable, char const* name) {
  (void)not_null(variable, name);
  if (speaks_fortran() && *variable != nullptr && HandleTable::get().find(kind_of_handle<T>, *variable) != nullptr)
    throw bad_argument(std::string(name) + " holds a " + Object<T>::name +
                       " that exists: free it first, or use another variable");
  return *variable;
}

/// What a handle stands for. @throws `bad_argument` for NULL, and for what is no such handle, or none any more
template <HandleType T>
auto& required(T* handle, char const* name) {
  using Of = std::remove_const_t<T>;
  if (handle == nullptr && speaks_fortran()) throw bad_argument(std::string(name) + " holds no " + Object<Of>::name);
  auto* const of = HandleTable::get().find(kind_of_handle<Of>, not_null(handle, name));
  if (of == nullptr) throw bad_argument(std::string(name) + " " + HandleTable::get().fault(kind_of_handle<Of>, handle));
  return *static_cast<std::conditional_t<std::is_const_v<T>, Object<Of> const, Object<Of>>*>(of);
}

/// Makes a handle and passes it to the caller.
template <HandleType T, class... Args>
void give(T** out, Args&&... args) {
  *out = static_cast<T*>(
      HandleTable::get().add(kind_of_handle<T>, static_cast<void*>(new Object<T>(std::forward<Args>(args)...))));
}

/// Ends a handle, whose pointer becomes NULL. @return what it stood for
template <HandleType T>
std::unique_ptr<Object<T>> take(T*& handle, char const* name) {
  (void)required(handle, name);
  std::unique_ptr<Object<T>> of(static_cast<Object<T>*>(HandleTable::get().take(kind_of_handle<T>, handle)));
  handle = nullptr;
  return of;
}

/// Frees a handle. NULL and a NULL pointer to it are ignored.
template <HandleType T>
void free_handle(T** handle, char const* name) {
  if (*not_null(handle, name) != nullptr) (void)take(*handle, name);
}

/// @throws when `gr_init` was not called, or MPI has ended since
void require_started();
/// @throws when `gr_init` was not called
void require_init();

/// Keeps the exception as the last error of this thread.
[[nodiscard]] gr_status record(char const* function, std::exception_ptr const& failure) noexcept;

/// Keeps an error as the last one of this thread. @param text NULL: no memory was left for it @return its status
gr_status keep_error(gr_status status, char const* rule, char const* text) noexcept;

/// Runs the body of an exported function. No exception leaves it.
template <class Body>
[[nodiscard]] gr_status guarded(char const* function, void (&require)(), Body&& body) noexcept {
  FortranScope const scope(gr_fortran_take());
  try {
    require();
    std::forward<Body>(body)();
    return GR_SUCCESS;
  } catch (...) {
    return record(function, std::current_exception());
  }
}

/// The name of the next plan of this thread, which making one takes.
void name_next_plan(std::string name);
[[nodiscard]] std::string name_of_next_plan();

/// A text that stays until the next call of this thread.
[[nodiscard]] char const* kept_text(std::string text);

}  // namespace graticule::c

/// The body of an exported function as an expression: `return GR_BODY({ ... });`
#define GR_BODY(...) ::graticule::c::guarded(__func__, ::graticule::c::require_started, [&] __VA_ARGS__)
/// The same for one that frees a handle, which can be done when MPI has ended, too.
#define GR_FREE(...) ::graticule::c::guarded(__func__, ::graticule::c::require_init, [&] __VA_ARGS__)
