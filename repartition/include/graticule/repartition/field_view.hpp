// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

namespace graticule {

class Box;

/// Type of one element of a field.
enum class DType : std::uint8_t { u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128 };

/// Bytes of one element.
[[nodiscard]] Index size_of(DType dtype) noexcept;
/// `f32`, `i64`, ...
[[nodiscard]] std::string to_string(DType dtype);

/// Memory space of a field: host memory, or memory of Kokkos' default execution space.
enum class MemorySpace : std::uint8_t { host, device };

/// A view of the caller's memory: it owns nothing, and nothing is copied to make it contiguous.
///
/// Memory axis `m` has `extents[m]` elements, `strides[m]` elements apart. Negative strides, with `data` at element 0
/// of each axis, are allowed everywhere; zero or overlapping strides only where a field is read. Grid axis `a` of a
/// layout is memory axis `grid_axes[a]`; all other memory axes are batch axes (channels, levels, samples), which every
/// plan moves as a whole.
/// Example: a tensor [batch, channel, latitude, longitude] of a 2-axis layout has `grid_axes = {2, 3}`.
/// A call never writes through the pointer of a field that it only reads. An element that a call writes belongs to only
/// one of its fields (`AliasedFields`): views may interleave, as channels of one array do, but not share an element.
///
/// The box that a view covers along its grid axes depends on its use: the local box for a `HaloPlan`, the source box
/// and the target box for a `RepartitionPlan`, the owned box and one cell per ring for an `AxisSumPlan`, the box that
/// is read or written for a file. `part` makes one array serve all of them.
struct FieldView {
  void* data = nullptr;
  DType dtype = DType::f64;
  Indices extents;
  Indices strides;
  Indices grid_axes;
  MemorySpace space = MemorySpace::host;

  [[nodiscard]] int ndim() const noexcept { return extents.size(); }
  /// Elements of all batch axes together.
  [[nodiscard]] Index num_batch() const noexcept;
  /// Extents of the batch axes, in order of memory axes.
  [[nodiscard]] Indices batch_extents() const;
  /// View of the cells of `box` in this field, which covers `covered`, with all batch axes: the same memory, without a
  /// copy.
  ///
  /// Example: `field` covers the local box [-1, 5) x [0, 8) of a rank that owns [0, 4) x [0, 8): its owned cells are
  /// `field.part(plan.local(), plan.owned())`, of extents (4, 8), and begin one row after `field.data`.
  /// @throws `FieldMismatch` when the field does not cover `covered`, or `box` has cells outside it
  [[nodiscard]] FieldView part(Box const& covered, Box const& box) const;
  /// The view of a rank that has no cells of the grid: of the same type and axes, without data.
  [[nodiscard]] FieldView without_cells() const;
  friend bool operator==(FieldView const&, FieldView const&) = default;
};

/// The `DType` of the element type `T`; `bool` is stored as `u8`.
template <class T>
[[nodiscard]] constexpr DType dtype_of() noexcept {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<V, std::uint8_t> || std::is_same_v<V, bool>)
    return DType::u8;
  else if constexpr (std::is_same_v<V, std::int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<V, std::int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<V, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_integral_v<V> && std::is_signed_v<V> && sizeof(V) == 8)
    return DType::i64;
  else if constexpr (std::is_same_v<V, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<V, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<V, std::complex<float>>)
    return DType::c64;
  else if constexpr (std::is_same_v<V, std::complex<double>>)
    return DType::c128;
  else
    static_assert(sizeof(V) == 0, "fields of this type are not supported");
}

/// View of dense host memory, last axis contiguous. The grid axes are the last `num_grid_axes` memory axes.
template <class T>
[[nodiscard]] FieldView field_view(T* data, Indices const& extents, int num_grid_axes) {
  FieldView view{const_cast<void*>(static_cast<void const*>(data)),
                 dtype_of<T>(),
                 extents,
                 row_major_strides(extents),
                 {},
                 MemorySpace::host};
  for (int a = 0; a < num_grid_axes; ++a) view.grid_axes.push_back(extents.size() - num_grid_axes + a);
  return view;
}

/// View of host memory with any strides (in elements).
template <class T>
[[nodiscard]] FieldView field_view(T* data, Indices const& extents, Indices const& strides, Indices const& grid_axes) {
  return {
      const_cast<void*>(static_cast<void const*>(data)), dtype_of<T>(), extents, strides, grid_axes, MemorySpace::host};
}

}  // namespace graticule
