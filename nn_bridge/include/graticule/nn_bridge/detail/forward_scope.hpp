// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <string>
#include <typeinfo>

namespace graticule::nn::detail {

/// While one lives, the operators of this thread are those of a layer, which knows what a shard is: they are not
/// watched (see `ShardOptions::watch`).
class OwnCode {
 public:
  OwnCode() noexcept;
  OwnCode(OwnCode const&) = delete;
  OwnCode& operator=(OwnCode const&) = delete;
  ~OwnCode();
};

/// During its lifetime, errors and reports of the layers that this thread calls name them by their path in a model,
/// too.
class LayerPath {
 public:
  /// @param path outlives this object
  explicit LayerPath(std::string const& path) noexcept : outer_(current()) { current() = &path; }
  LayerPath(LayerPath const&) = delete;
  LayerPath& operator=(LayerPath const&) = delete;
  ~LayerPath() { current() = outer_; }

  /// Null where no path is known.
  [[nodiscard]] static std::string const*& current() noexcept;

 private:
  std::string const* outer_;
};

/// The rest of a layer's forward, from `enter` on.
///
/// An exception that leaves the forward of a user-defined layer here is one of this rank alone as far as anybody knows:
/// the other ranks may wait for it in a call that it will not reach. They are notified, as by `announce_failure` on the
/// domain's communicators, unless the exception is an `Error`, on which ranks agree.
class ForwardScope {
 public:
  ForwardScope(Domain domain, std::string layer);
  ForwardScope(ForwardScope const&) = delete;
  ForwardScope& operator=(ForwardScope const&) = delete;
  ~ForwardScope();

  /// The class whose forward this is.
  void set_type(std::type_info const& type) noexcept { type_ = &type; }

 private:
  OwnCode own_;
  Domain domain_;
  std::string layer_;
  std::type_info const* type_ = nullptr;
  int num_exceptions_;
};

}  // namespace graticule::nn::detail
