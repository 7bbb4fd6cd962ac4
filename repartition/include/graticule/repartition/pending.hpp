// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <memory>
#include <span>

namespace graticule {

namespace detail {
class PullState;
class Call;
}  // namespace detail

/// One data movement in flight, from `start()`. Move-only; `wait()` completes it, and so does the destructor.
///
/// Until then the memory of the fields must stay valid. Cells to be filled have unspecified values until `wait()`
/// returns.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  Pending(std::shared_ptr<detail::PullState const> state, detail::Call* call) noexcept;
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  Pending(Pending const&) = delete;
  Pending& operator=(Pending const&) = delete;
  ~Pending();

  /// True until the movement is complete.
  [[nodiscard]] bool active() const noexcept { return call_ != nullptr; }
  /// Blocks until all messages have arrived and their cells are in place. Does nothing when not active.
  /// @throws `PeerRefused` when a rank whose cells are needed has rejected the call, `FieldMismatch` when its fields
  ///         differ; cells to be filled are then unspecified, sources of an adjoint unchanged. `StalledExchange` where
  ///         long waits are errors
  void wait();
  /// As `wait()` for an adjoint that was started without source memory: adds to `sources`, one per field.
  /// @pre same dtype, extents and batch axes as at the start (`FieldMismatch`); they share no memory with each other or
  ///      with the targets (`AliasedFields`)
  void wait_into(std::span<FieldView const> sources);
  /// True when `wait()` would not block. Does not block.
  [[nodiscard]] bool test();

 private:
  std::shared_ptr<detail::PullState const> state_;
  detail::Call* call_ = nullptr;
};

}  // namespace graticule
