// SPDX-License-Identifier: BSD-3-Clause
#include "batched_product.hpp"

#include <graticule/partition/indices.hpp>

#include <ATen/Parallel.h>

#include <algorithm>

namespace graticule::nn::detail {

namespace {

#define GRATICULE_INLINE inline __attribute__((always_inline))

/// c = a b. Columns of b and c are neighbors in memory.
template <class T>
struct Product {
  Index rows, columns, inner;
  T const* a;
  Index a_row, a_inner;
  T const* b;
  Index b_inner;
  T* c;
  Index c_row;
};

/// A register of so many bytes, at any address.
template <class T, int Bytes>
struct Register {
  typedef T type __attribute__((vector_size(Bytes), aligned(alignof(T)), may_alias));
};

/// For more, packing the operands pays.
constexpr Index most_columns = 16;

/// Rows of a tile: with 2 registers each and 2 of b, 14 of the 16 registers of AVX2.
constexpr int tile_rows = 6;

/// The cells [row, row + Rows) x [column, ...) of c, in registers.
template <class T, int Bytes, int Rows, int Registers>
GRATICULE_INLINE void compute_tile(Product<T> const& p, Index row, Index column) {
  using Numbers = typename Register<T, Bytes>::type;
  constexpr int lanes = Bytes / int(sizeof(T));
  Numbers sums[Rows][Registers];
  for (auto& of_row : sums)
    for (auto& sum : of_row) sum = Numbers{};
  auto const* a = p.a + row * p.a_row;
  auto const* b = p.b + column;
  for (Index k = 0; k < p.inner; ++k, a += p.a_inner, b += p.b_inner) {
    Numbers of_b[Registers];
    for (int i = 0; i < Registers; ++i) of_b[i] = *reinterpret_cast<Numbers const*>(b + i * lanes);
    for (int r = 0; r < Rows; ++r)
      for (int i = 0; i < Registers; ++i) sums[r][i] += a[r * p.a_row] * of_b[i];
  }
  for (int r = 0; r < Rows; ++r)
    for (int i = 0; i < Registers; ++i)
      *reinterpret_cast<Numbers*>(p.c + (row + r) * p.c_row + column + i * lanes) = sums[r][i];
}

template <class T, int Bytes, int Registers>
GRATICULE_INLINE void compute_columns(Product<T> const& p, Index row, Index column) {
  switch (std::min(p.rows - row, Index(tile_rows))) {
    case 1: return compute_tile<T, Bytes, 1, Registers>(p, row, column);
    case 2: return compute_tile<T, Bytes, 2, Registers>(p, row, column);
    case 3: return compute_tile<T, Bytes, 3, Registers>(p, row, column);
    case 4: return compute_tile<T, Bytes, 4, Registers>(p, row, column);
    case 5: return compute_tile<T, Bytes, 5, Registers>(p, row, column);
    default: return compute_tile<T, Bytes, tile_rows, Registers>(p, row, column);
  }
}

/// The last tile of a row ends at the last column, and may compute some a second time.
/// @pre columns >= Registers * Bytes / sizeof(T)
template <class T, int Bytes, int Registers>
GRATICULE_INLINE void compute_rows(Product<T> const& p) {
  constexpr Index width = Registers * Bytes / Index(sizeof(T));
  for (Index row = 0; row < p.rows; row += tile_rows)
    for (Index column = 0; column < p.columns; column += width)
      compute_columns<T, Bytes, Registers>(p, row, std::min(column, p.columns - width));
}

/// With registers of at most `Bytes` that the columns fill. @pre the columns fill 16 bytes
template <class T, int Bytes>
GRATICULE_INLINE void compute(Product<T> const& p) {
  auto const bytes = p.columns * Index(sizeof(T));
  if (bytes >= 2 * Bytes) return compute_rows<T, Bytes, 2>(p);
  if constexpr (Bytes > 16)
    if (bytes < Bytes) return compute<T, Bytes / 2>(p);
  compute_rows<T, Bytes, 1>(p);
}

#if defined(__x86_64__) && defined(__GNUC__)
template <class T>
__attribute__((target("avx512f,avx2,fma"))) void compute_avx512(Product<T> const& p) {
  compute<T, 64>(p);
}

template <class T>
__attribute__((target("avx2,fma"))) void compute_avx2(Product<T> const& p) {
  compute<T, 32>(p);
}
#endif

template <class T>
void compute_any(Product<T> const& p) {
  compute<T, 16>(p);
}

template <class T>
auto chosen() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f") != 0) return &compute_avx512<T>;
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return &compute_avx2<T>;
#endif
  return &compute_any<T>;
}

template <class T>
void compute_batch(torch::Tensor const& out, torch::Tensor const& a, torch::Tensor const& b) {
  static auto const compute_one = chosen<T>();
  auto* const c = out.mutable_data_ptr<T>();
  auto const* const from_a = a.const_data_ptr<T>();
  auto const* const from_b = b.const_data_ptr<T>();
  at::parallel_for(0, out.size(0), 1, [&](Index first, Index end) {
    for (Index i = first; i < end; ++i)
      compute_one({.rows = out.size(1),
                   .columns = out.size(2),
                   .inner = a.size(2),
                   .a = from_a + i * a.stride(0),
                   .a_row = a.stride(1),
                   .a_inner = a.stride(2),
                   .b = from_b + i * b.stride(0),
                   .b_inner = b.stride(1),
                   .c = c + i * out.stride(0),
                   .c_row = out.stride(1)});
  });
}

#undef GRATICULE_INLINE

}  // namespace

void batched_product(torch::Tensor out, torch::Tensor const& a, torch::Tensor const& b) {
  bool const is_float = out.scalar_type() == torch::kFloat;
  bool const own = out.is_cpu() && (is_float || out.scalar_type() == torch::kDouble) && out.stride(2) == 1 &&
                   b.stride(2) == 1 && out.size(2) <= most_columns;
  if (!own) {
    at::bmm_out(out, a, b);
    return;
  }
  if (auto const missing = 16 / out.element_size() - out.size(2); missing > 0) {
    auto const wider = torch::empty({out.size(0), out.size(1), out.size(2) + missing}, out.options());
    batched_product(wider, a, at::constant_pad_nd(b, {0, missing}));
    out.copy_(wider.narrow(2, 0, out.size(2)));
    return;
  }
  is_float ? compute_batch<float>(out, a, b) : compute_batch<double>(out, a, b);
}

}  // namespace graticule::nn::detail
