// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <memory>
#include <span>

namespace graticule {

namespace detail {
class PullState;
struct Workspace;
}  // namespace detail

/// One data movement in flight, from `start()`. Move-only; `wait()` ends it, and so does its destructor.
///
/// The fields must stay where they are until then. Cells to be filled hold unspecified values before `wait()` returns.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  Pending(std::shared_ptr<detail::PullState const> state, detail::Workspace* workspace) noexcept;
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  Pending(Pending const&) = delete;
  Pending& operator=(Pending const&) = delete;
  ~Pending();

  /// True until the movement has ended.
  [[nodiscard]] bool active() const noexcept { return workspace_ != nullptr; }
  /// Blocks until all messages have arrived and their cells are in place. Does nothing when not active.
  /// @throws `PeerRefused` when a rank whose cells are needed has refused the call, `FieldMismatch` when its fields are
  ///         others; cells to be filled are then unspecified, sources of an adjoint unchanged. `StalledExchange` where
  ///         the environment makes long waits errors
  void wait();
  /// As `wait()` for an adjoint that was started without source memory: adds to `sources`, one per field.
  /// @pre same dtype, extents and batch axes as at the start (`FieldMismatch`); no memory in common with each other or the
  ///      targets (`AliasedFields`)
  void wait_into(std::span<FieldView const> sources);
  /// Without blocking: true when `wait()` would not block any more.
  [[nodiscard]] bool test();

 private:
  std::shared_ptr<detail::PullState const> state_;
  detail::Workspace* workspace_ = nullptr;
};

}  // namespace graticule
