// SPDX-License-Identifier: BSD-3-Clause
// HDF5 handles that close themselves, and checked calls.
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/error.hpp>

#include <hdf5.h>

#include <source_location>
#include <string>
#include <utility>

namespace graticule::detail::h5 {

/// What HDF5's error stack says: the innermost cause.
[[nodiscard]] std::string error_text();

/// Of the library that this program runs with, such as `1.10.8`.
[[nodiscard]] std::string release();

/// Throws `Hdf5Error` with HDF5's own text when `result` is negative. Returns `result`.
template <class Result>
Result check(Result result, char const* call, std::source_location where = std::source_location::current()) {
  if (result < 0) throw Error("Hdf5Error", std::string(call) + " failed: " + error_text(), where);
  return result;
}

/// HDF5 as Debian and most clusters build it is not safe for several threads: whoever calls it holds this, one thread
/// at a time. May be held several times by one thread. A thread that holds it may wait for other ranks, but not for
/// another thread of its own.
class Lock {
 public:
  Lock();
  Lock(Lock const&) = delete;
  Lock& operator=(Lock const&) = delete;
  ~Lock();
};

/// An HDF5 identifier, closed by `Close` at the end of its life.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) noexcept : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, hid_t(-1))) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = std::exchange(other.id_, hid_t(-1));
    }
    return *this;
  }
  ~Handle() { close(); }

  [[nodiscard]] hid_t get() const noexcept { return id_; }
  [[nodiscard]] explicit operator bool() const noexcept { return id_ >= 0; }
  /// Closes now. @return HDF5's answer, which the destructor has to ignore
  herr_t close() noexcept {
    if (id_ < 0) return 0;
    Lock const lock;
    return Close(std::exchange(id_, hid_t(-1)));
  }
  /// Gives the identifier up without closing it.
  hid_t release() noexcept { return std::exchange(id_, hid_t(-1)); }

 private:
  hid_t id_ = -1;
};

using File = Handle<H5Fclose>;
using Object = Handle<H5Oclose>;
using Dataset = Handle<H5Dclose>;
using Group = Handle<H5Gclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Properties = Handle<H5Pclose>;
using AttributeId = Handle<H5Aclose>;

/// Whether filters from shared objects may run in this process.
[[nodiscard]] bool allows_plugins(FilterPlugins plugins);

/// Keeps HDF5 from printing its error stack and from loading plugins, and other threads from calling it, for as long as
/// it lives; what the program had set comes back afterwards.
class Quiet {
 public:
  explicit Quiet(FilterPlugins plugins = FilterPlugins::refused);
  Quiet(Quiet const&) = delete;
  Quiet& operator=(Quiet const&) = delete;
  ~Quiet();

 private:
  Lock lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
  unsigned plugins_ = 0;
};

/// Metadata stays in memory until the file is flushed or closed. Otherwise HDF5 writes some of it early, at moments
/// that depend on the calls between, and what has moved by then leaves old bytes behind: the file would differ from run
/// to run.
/// @param access an access list of files
void write_metadata_once(Properties const& access);

/// HDF5's type for a value in this machine's byte order. @pre a numeric type
[[nodiscard]] hid_t native_type(ValueType type);

}  // namespace graticule::detail::h5
