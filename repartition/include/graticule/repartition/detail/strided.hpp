// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/field_view.hpp>

#include <array>
#include <span>

namespace graticule::detail {

/// Relation between stored numbers and values: `value = stored * scale + offset`.
///
/// Cells that hold `fill` (rounded to their type) are missing: NaN as values. Missing values are stored as `fill`
/// again.
struct Packed {
  double scale = 1;
  double offset = 0;
  bool has_fill = false;
  double fill = 0;

  [[nodiscard]] bool is_trivial() const noexcept { return scale == 1 && offset == 0 && !has_fill; }
  friend bool operator==(Packed const&, Packed const&) = default;
};

/// Numbers that the integers of a target do not hold: 1 for each kind of which there are some.
struct Unfit {
  int beyond = 0;        ///< outside of the type's range, once rounded
  int not_a_number = 0;  ///< NaN, where no stored value stands for missing ones
  int missing = 0;       ///< rounded to the stored value of missing ones

  [[nodiscard]] bool any() const noexcept { return (beyond | not_a_number | missing) != 0; }
};

/// Element-wise operation of a `transform` task: `to = alpha * op(from) + beta * to`, where `op` is the conjugate or
/// the identity.
///
/// Computed in double (complex double) and rounded once when stored: to nearest, ties to even. Integers saturate; NaN
/// becomes 0 in integers without `fill`; `StridedTask::unfit` notes both. With beta 0 the old `to` is not read. 64-bit
/// integers pass through double. Terms of sums (axes with `to_stride == 0`) are added in double.
struct Transform {
  double alpha[2] = {1, 0};  ///< real and imaginary part
  double beta[2] = {0, 0};
  bool conjugate = false;
  Packed from;
  Packed to;
  friend bool operator==(Transform const&, Transform const&) = default;
};

/// Element-wise operation of a strided task: `to = from`, `to = -from`, `to += from`, `to -= from`, `to = value`, or a
/// `Transform`.
enum class StridedOp : std::uint8_t { copy, negate, add, subtract, fill, transform };

/// One side of a task: the element with index 0 on every axis, and strides in elements.
struct Elements {
  void* first = nullptr;
  DType dtype = DType::f64;
  Indices strides;
};

/// One strided box of elements to move, made by `make_strided` or `make_transform`, which sort and merge the axes.
///
/// Axes run from the slowest to the fastest in `to`; axes along which `to` does not advance (`to_stride == 0`, sums)
/// come last. Different tasks may have different types and operations.
struct StridedTask {
  void* to = nullptr;
  void const* from = nullptr;
  std::array<Index, max_ndim> extent{};
  std::array<Index, max_ndim> to_stride{};
  std::array<Index, max_ndim> from_stride{};
  int ndim = 0;
  int num_sum_axes = 0;           ///< trailing axes with `to_stride == 0`
  DType dtype = DType::f64;       ///< of `to`
  DType from_dtype = DType::f64;  ///< the same, except in transforms
  StridedOp op = StridedOp::copy;
  double value = 0;          ///< of `fill`
  bool clear_from = false;   ///< zeroes the elements of `from` after they are read
  bool streams = false;      ///< part of more data than caches hold: writes bypass them where that is faster
  bool independent = false;  ///< adds to cells that no other task adds to, so that the order does not matter
  bool follows = false;    ///< adds to the cells of the task before it, counted alike: a thread of a device does both,
                           ///< and `independent` is about other tasks
  Unfit* unfit = nullptr;  ///< of a transform to integers: where it notes numbers that they do not hold
  Transform transform;

  [[nodiscard]] Index num_elements() const noexcept;
  friend bool operator==(StridedTask const&, StridedTask const&) = default;
};

/// The task for `extents` elements; strides are in elements and may be negative, or 0 in `from`, or 0 in `to` for sums.
/// `to` and `from` point at the element with index 0 on every axis. Axes of extent 1 are dropped, adjacent axes merged.
[[nodiscard]] StridedTask make_strided(StridedOp op, DType dtype, Indices const& extents, void* to,
                                       Indices const& to_strides, void const* from, Indices const& from_strides,
                                       double value = 0);

/// The task of a transform; a plain copy, negation, addition or subtraction where it reduces to one (the same type, no
/// packing or the same on both sides).
/// @throws Conversion between real and complex types; complex factors of real types; packed complex types; sums with a
///         beta other than 1
[[nodiscard]] StridedTask make_transform(Transform const& transform, Indices const& extents, Elements const& to,
                                         Elements const& from);

/// The task reads its target.
[[nodiscard]] inline bool accumulates(StridedTask const& task) noexcept {
  auto const& beta = task.transform.beta;
  return task.op == StridedOp::add || task.op == StridedOp::subtract ||
         (task.op == StridedOp::transform && (beta[0] != 0 || beta[1] != 0));
}

/// Bytes from which a copy bypasses the caches: several times the private cache of a core.
inline constexpr Index least_streamed_bytes = Index(16) << 20U;

/// The order of the task matters: it adds to cells that other tasks may add to.
[[nodiscard]] inline bool is_ordered(StridedTask const& task) noexcept {
  return accumulates(task) && !task.independent;
}

/// True for tasks such as columns whose order does not matter; several tasks of one shape are faster in one call.
[[nodiscard]] bool is_thin(StridedTask const& task);

/// Runs tasks on host memory, rows of one task in parallel. Returns when all are done. Tasks that add run in the given
/// order unless they are independent; the others must write different cells. A contiguous run is copied by memcpy.
void run_strided_host(std::span<StridedTask const> tasks);

/// Runs tasks on device memory, in order of `queue`, and waits for them. Neighboring tasks are fused into one launch,
/// except that tasks which add and are not independent run in the given order, in launches of their own where they
/// share memory.
void run_strided_device(std::span<StridedTask const> tasks, DeviceQueue const& queue = {});

inline void run_strided(std::span<StridedTask const> tasks, MemorySpace space, DeviceQueue const& queue = {}) {
  if (space == MemorySpace::host)
    run_strided_host(tasks);
  else
    run_strided_device(tasks, queue);
}

}  // namespace graticule::detail
