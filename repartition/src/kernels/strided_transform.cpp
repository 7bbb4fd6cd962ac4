// SPDX-License-Identifier: BSD-3-Clause
// Transforms on the host: pieces of rows become double in a buffer that stays in the cache, and are stored from there.
#include "strided_packed.hpp"
#include "strided_rows.hpp"
#include "transform.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>

namespace graticule::detail {

namespace {

/// Elements of a piece of a row.
constexpr Index piece = 256;

/// A piece in double; of complex elements real and imaginary part in turn.
using Buffer = std::array<double, std::size_t(2 * piece)>;

using Load = void (*)(double* values, void const* first, Index count, Index stride);
/// May change the values.
using Store = void (*)(void* first, Index stride, double* values, Index count);
using Note = void (*)(Unfit& unfit, bool has_fill, double fill, double const* values, Index count);

template <class T>
void load_row(double* values, void const* first, Index count, Index stride) {
  auto const* from = static_cast<T const*>(first);
  if constexpr (is_complex_element<T>) {
    for (Index i = 0; i < count; ++i) {
      values[2 * i] = double(from[i * stride].real);
      values[2 * i + 1] = double(from[i * stride].imag);
    }
  } else if (stride == 1) {
    for (Index i = 0; i < count; ++i) values[i] = to_double(from[i]);
  } else {
    for (Index i = 0; i < count; ++i) values[i] = to_double(from[i * stride]);
  }
}

template <class T>
void store_row(void* first, Index stride, double* values, Index count) {
  auto* to = static_cast<T*>(first);
  if constexpr (is_short_integer<T>) {
    // Two loops, each over numbers of one size: together they are vectorised badly.
    for (Index i = 0; i < count; ++i) values[i] = saturated<T>(values[i]);
    if (stride == 1)
      for (Index i = 0; i < count; ++i) to[i] = rounded<T>(values[i]);
    else
      for (Index i = 0; i < count; ++i) to[i * stride] = rounded<T>(values[i]);
  } else if constexpr (is_complex_element<T>) {
    using Part = decltype(to->real);
    for (Index i = 0; i < count; ++i) to[i * stride] = {Part(values[2 * i]), Part(values[2 * i + 1])};
  } else if (stride == 1) {
    for (Index i = 0; i < count; ++i) to[i] = from_double<T>(values[i]);
  } else {
    for (Index i = 0; i < count; ++i) to[i * stride] = from_double<T>(values[i]);
  }
}

template <class T>
void note_row(Unfit& unfit, bool has_fill, double fill, double const* values, Index count) {
  for (Index i = 0; i < count; ++i) note_unfit<T>(unfit, has_fill, fill, values[i]);
}

/// The passes over a piece that a transform needs.
class Passes {
 public:
  explicit Passes(StridedTask const& task)
      : transform_(task.transform),
        complex_(is_complex(task.dtype)),
        from_size_(size_of(task.from_dtype)),
        to_size_(size_of(task.dtype)),
        from_fill_(rounded_fill(transform_.from, task.from_dtype)),
        to_fill_(rounded_fill(transform_.to, task.dtype)),
        unfit_(task.unfit) {
    with_type(task.from_dtype, [this]<class T>(T*) { load_from_ = load_row<T>; });
    with_type(task.dtype, [this]<class T>(T*) {
      load_to_ = load_row<T>;
      store_ = store_row<T>;
      if constexpr (std::is_integral_v<T>) note_ = note_row<T>;
    });
  }

  /// `alpha * op(from)` of `count` elements from `offset` on.
  void terms(Buffer& out, void const* from, Index offset, Index count, Index stride) const {
    load_from_(out.data(), static_cast<std::byte const*>(from) + offset * from_size_, count, stride);
    if (complex_) {
      if (transform_.conjugate)
        for (Index i = 0; i < count; ++i) out[std::size_t(2 * i + 1)] = -out[std::size_t(2 * i + 1)];
    } else {
      unpack(out, transform_.from, from_fill_, count);
    }
    multiply(out, transform_.alpha, count);
  }

  /// `beta * to`.
  void old(Buffer& out, void const* to, Index offset, Index count, Index stride) const {
    load_to_(out.data(), static_cast<std::byte const*>(to) + offset * to_size_, count, stride);
    if (!complex_) unpack(out, transform_.to, to_fill_, count);
    multiply(out, transform_.beta, count);
  }

  /// Adds `beta * to`, or does nothing where beta is 0.
  void add_old(Buffer& values, void const* to, Index offset, Index count, Index stride) const {
    if (transform_.beta[0] == 0 && transform_.beta[1] == 0) return;
    Buffer added;
    old(added, to, offset, count, stride);
    Index const parts = complex_ ? 2 * count : count;
    for (Index i = 0; i < parts; ++i) values[std::size_t(i)] = added[std::size_t(i)] + values[std::size_t(i)];
  }

  void store(Buffer& values, void* to, Index offset, Index count, Index stride) const {
    Packed const& packed = transform_.to;
    if (packed.scale != 1 || packed.offset != 0)
      for (Index i = 0; i < count; ++i) {
        double& value = values[std::size_t(i)];
        value = (value - packed.offset) / packed.scale;
      }
    if (unfit_ && note_) note_(*unfit_, packed.has_fill, to_fill_, values.data(), count);
    if (packed.has_fill)
      for (Index i = 0; i < count; ++i) {
        double& value = values[std::size_t(i)];
        value = value == value ? value : packed.fill;
      }
    store_(static_cast<std::byte*>(to) + offset * to_size_, stride, values.data(), count);
  }

  void clear(void* from, Index offset, Index count, Index stride) const {
    auto* const first = static_cast<std::byte*>(from) + offset * from_size_;
    if (stride == 1)
      std::memset(first, 0, std::size_t(count * from_size_));
    else
      for (Index i = 0; i < count; ++i) std::memset(first + i * stride * from_size_, 0, std::size_t(from_size_));
  }

 private:
  static void unpack(Buffer& values, Packed const& packed, double fill, Index count) {
    if (packed.has_fill)
      for (Index i = 0; i < count; ++i) {
        double& value = values[std::size_t(i)];
        value = value == fill ? not_a_number() : value;
      }
    if (packed.scale != 1 || packed.offset != 0)
      for (Index i = 0; i < count; ++i) {
        double& value = values[std::size_t(i)];
        value = value * packed.scale + packed.offset;
      }
  }

  void multiply(Buffer& values, double const (&factor)[2], Index count) const {
    if (factor[1] != 0) {
      for (Index i = 0; i < count; ++i) {
        double& real = values[std::size_t(2 * i)];
        double& imag = values[std::size_t(2 * i + 1)];
        Wide const product = times(factor, {real, imag});
        real = product.real;
        imag = product.imag;
      }
    } else if (factor[0] != 1) {
      Index const parts = complex_ ? 2 * count : count;
      for (Index i = 0; i < parts; ++i) values[std::size_t(i)] *= factor[0];
    }
  }

  Transform const& transform_;
  bool complex_;
  Index from_size_;
  Index to_size_;
  double from_fill_;
  double to_fill_;
  Load load_from_ = nullptr;
  Load load_to_ = nullptr;
  Store store_ = nullptr;
  Unfit* unfit_;
  Note note_ = nullptr;  ///< of integers
};

/// Adds the rows of one cell in double, in order.
void run_sum(StridedTask const& task, Passes const& passes, RowWalk& walk, Index num_rows) {
  auto const inner = std::size_t(task.ndim) - 1;
  Index const to = walk.to();
  Buffer sum;
  passes.old(sum, task.to, to, 1, 1);
  Buffer values;
  for (Index row = 0; row < num_rows; ++row, walk.next())
    for (Index first = 0; first < task.extent[inner]; first += piece) {
      Index const count = std::min(piece, task.extent[inner] - first);
      Index const stride = task.from_stride[inner];
      Index const from = walk.from() + first * stride;
      passes.terms(values, task.from, from, count, stride);
      for (Index i = 0; i < count; ++i) {
        sum[0] += values[std::size_t(is_complex(task.dtype) ? 2 * i : i)];
        if (is_complex(task.dtype)) sum[1] += values[std::size_t(2 * i + 1)];
      }
      if (task.clear_from) passes.clear(const_cast<void*>(task.from), from, count, stride);
    }
  passes.store(sum, task.to, to, 1, 1);
}

/// Rows that share no memory with one another.
bool are_apart(std::byte const* a, Index a_bytes, std::byte const* b, Index b_bytes) {
  std::less<> const before;
  return !before(a, b + b_bytes) || !before(b, a + a_bytes);
}

/// Runs rows that are converted in one loop; false where one of them shares memory with what it is read from.
bool run_packed_rows(StridedTask const& task, PackedRows const& packed, Index first, Index last) {
  Index const count = task.extent[std::size_t(task.ndim) - 1];
  Index const to_bytes = size_of(task.dtype);
  Index const from_bytes = size_of(task.from_dtype);
  auto* const to = static_cast<std::byte*>(task.to);
  auto const* const from = static_cast<std::byte const*>(task.from);
  RowWalk walk(task, first);
  for (Index row = first; row < last; ++row, walk.next())
    if (!are_apart(to + walk.to() * to_bytes, count * to_bytes, from + walk.from() * from_bytes, count * from_bytes))
      return false;
  RowWalk again(task, first);
  for (Index row = first; row < last; ++row, again.next()) {
    auto const* const read = from + again.from() * from_bytes;
    packed.convert(to + again.to() * to_bytes, read, count, packed);
    if (task.clear_from) std::memset(const_cast<std::byte*>(read), 0, std::size_t(count * from_bytes));
  }
  return true;
}

}  // namespace

void run_transform_rows(StridedTask const& task, Index first, Index last) {
  if (auto const packed = packed_rows(task); packed && run_packed_rows(task, *packed, first, last)) return;
  Passes const passes(task);
  RowWalk walk(task, first);
  if (task.num_sum_axes > 0) {
    Index const together = rows_of_one_sum(task);
    for (Index row = first; row < last; row += together) run_sum(task, passes, walk, together);
    return;
  }
  auto const inner = std::size_t(task.ndim) - 1;
  Index const to_stride = task.to_stride[inner];
  Index const from_stride = task.from_stride[inner];
  Buffer values;
  for (Index row = first; row < last; ++row, walk.next())
    for (Index begin = 0; begin < task.extent[inner]; begin += piece) {
      Index const count = std::min(piece, task.extent[inner] - begin);
      Index const to = walk.to() + begin * to_stride;
      Index const from = walk.from() + begin * from_stride;
      passes.terms(values, task.from, from, count, from_stride);
      passes.add_old(values, task.to, to, count, to_stride);
      passes.store(values, task.to, to, count, to_stride);
      if (task.clear_from) passes.clear(const_cast<void*>(task.from), from, count, from_stride);
    }
}

}  // namespace graticule::detail
