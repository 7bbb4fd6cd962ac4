// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/converted.hpp>
#include <graticule/repartition/detail/convert_cells.hpp>

namespace graticule {

namespace {

/// Calls `read` with a field of the type that was saved.
template <class Read>
void convert_after(Checkpoint const& checkpoint, std::string_view name, FieldView const& view, Read&& read) {
  auto const is_real = [](DType dtype) { return dtype == DType::f32 || dtype == DType::f64; };
  auto const saved = checkpoint.field(name).dtype;
  if (saved == view.dtype || !is_real(saved) || !is_real(view.dtype) || view.space != MemorySpace::host)
    return read(view);
  detail::DenseField const as_saved(view, saved);
  read(as_saved.view());
  detail::convert_cells(as_saved.view(), view);
}

}  // namespace

void read_converted(Checkpoint const& checkpoint, std::string_view name, Layout const& layout, FieldView const& view) {
  convert_after(checkpoint, name, view, [&](FieldView const& to) { checkpoint.read(name, layout, to); });
}

void read_converted(Checkpoint const& checkpoint, std::string_view name, FieldView const& view) {
  convert_after(checkpoint, name, view, [&](FieldView const& to) { checkpoint.read(name, to); });
}

}  // namespace graticule
