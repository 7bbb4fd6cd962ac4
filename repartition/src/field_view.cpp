// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/field_view.hpp>

#include <algorithm>
#include <array>

namespace graticule {

namespace {

struct TypeFacts {
  char const* name;
  Index bytes;
};

constexpr std::array<TypeFacts, 11> facts{{{"u8", 1},
                                           {"i8", 1},
                                           {"i16", 2},
                                           {"i32", 4},
                                           {"i64", 8},
                                           {"f16", 2},
                                           {"bf16", 2},
                                           {"f32", 4},
                                           {"f64", 8},
                                           {"c64", 8},
                                           {"c128", 16}}};

}  // namespace

Index size_of(DType dtype) noexcept { return facts[std::size_t(dtype)].bytes; }

std::string to_string(DType dtype) { return facts[std::size_t(dtype)].name; }

Indices FieldView::batch_extents() const {
  Indices result;
  for (int m = 0; m < ndim(); ++m)
    if (std::find(grid_axes.begin(), grid_axes.end(), Index(m)) == grid_axes.end()) result.push_back(extents[m]);
  return result;
}

Index FieldView::num_batch() const noexcept {
  Index result = 1;
  for (int m = 0; m < ndim(); ++m)
    if (std::find(grid_axes.begin(), grid_axes.end(), Index(m)) == grid_axes.end()) result *= extents[m];
  return result;
}

Indices row_major_strides(Indices const& extents) {
  auto strides = Indices::filled(extents.size(), 1);
  for (int m = extents.size() - 2; m >= 0; --m) strides[m] = strides[m + 1] * std::max<Index>(extents[m + 1], 1);
  return strides;
}

}  // namespace graticule
